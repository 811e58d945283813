"""Serve an ASGI application on a loopback socket by uvicorn."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_CONNECTIONS = 200
REQUEST_WITHIN_S = 10.0  # from a connection to its first request's headers
IDLE_S = 30  # between two requests of a connection
SHUTDOWN_S = 2


class PatientProtocol(H11Protocol):
    """Close connections that send no request: uvicorn would keep them for ever."""

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self.loop.call_later(REQUEST_WITHIN_S, self.close_if_silent)

    def close_if_silent(self) -> None:
        if self.cycle is None and not self.transport.is_closing():
            self.transport.close()


class Server(uvicorn.Server):
    """Call a function when the server accepts requests."""

    def __init__(self, config: uvicorn.Config, started: Callable[[], None]) -> None:
        super().__init__(config)
        self._started = started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._started()


def make_server(app: Any, started: Callable[[], None] = lambda: None) -> Server:
    """Return a server; its `run(sockets=[…])` serves until SIGINT, SIGTERM or `should_exit`."""
    config = uvicorn.Config(
        app,
        http=PatientProtocol,
        ws="none",
        lifespan="on",
        loop="asyncio",
        access_log=False,
        log_level="error",
        server_header=False,
        date_header=False,
        proxy_headers=False,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_keep_alive=IDLE_S,
        timeout_graceful_shutdown=SHUTDOWN_S,
    )
    return Server(config, started)
