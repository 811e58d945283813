# SPDX-License-Identifier: MIT
"""Serve an ASGI application on a loopback socket by uvicorn.

A connection that has sent no whole request is closed after a while, or earlier to make room for a
newer one: connections that are opened and left cannot keep others out. uvicorn's own limit would
refuse a request because of them, and does not end a second request's headers that never end.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_WAITING = 256  # connections without a request that is being answered
# Connections that are accepted before any is read: fewer than MAX_WAITING, so that one that sends
# its request at once is read before it is the oldest.
ACCEPTED_AT_ONCE = 64
LISTEN_QUEUE = 1024  # connections that the kernel keeps until they are accepted
REQUEST_WITHIN_S = 10.0  # from a connection, or an answer, to the next request's last header
READ_WITHIN_S = 30.0  # from a full socket buffer to the client's next read
SHUTDOWN_S = 2


class WaitingConnections:
    """Close the connections that wait for a request: each after a time, the oldest for a newer."""

    def __init__(self) -> None:
        self._timers: dict[ImpatientProtocol, asyncio.TimerHandle] = {}  # the oldest first

    def add(self, connection: ImpatientProtocol) -> None:
        self.remove(connection)
        if len(self._timers) >= MAX_WAITING:
            self.close(next(iter(self._timers)))
        timer = connection.loop.call_later(REQUEST_WITHIN_S, self.close, connection)
        self._timers[connection] = timer

    def remove(self, connection: ImpatientProtocol) -> None:
        if timer := self._timers.pop(connection, None):
            timer.cancel()

    def close(self, connection: ImpatientProtocol) -> None:
        self.remove(connection)
        connection.transport.abort()


class ImpatientProtocol(H11Protocol):
    """Answer the requests of a connection, unless they or the client's reads take too long."""

    waiting: WaitingConnections
    _stuck: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self.waiting.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.waiting.remove(self)
        self.resume_writing()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        super().handle_events()
        if self.cycle is not None and not self.cycle.response_complete:
            self.waiting.remove(self)

    def on_response_complete(self) -> None:
        if not self.transport.is_closing():
            self.waiting.add(self)
        elif self.transport.get_write_buffer_size():
            self.abort_later()
        super().on_response_complete()

    def pause_writing(self) -> None:
        self.abort_later()
        super().pause_writing()

    def abort_later(self) -> None:
        self._stuck = self.loop.call_later(READ_WITHIN_S, self.transport.abort)

    def resume_writing(self) -> None:
        if self._stuck is not None:
            self._stuck.cancel()
        super().resume_writing()


class Server(uvicorn.Server):
    """Call a function when the server accepts requests."""

    def __init__(self, config: uvicorn.Config, started: Callable[[], None]) -> None:
        super().__init__(config)
        self._started = started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listening in sockets or ():
            listening.listen(LISTEN_QUEUE)  # asyncio has one number for both
        if self.started:
            self._started()


def make_server(app: Any, started: Callable[[], None] = lambda: None) -> Server:
    """Return a server; its `run(sockets=[…])` serves until SIGINT, SIGTERM or `should_exit`."""
    protocol = type("Protocol", (ImpatientProtocol,), {"waiting": WaitingConnections()})
    config = uvicorn.Config(
        app,
        http=protocol,
        ws="none",
        lifespan="on",
        loop="asyncio",
        access_log=False,
        log_level="error",
        server_header=False,
        date_header=False,
        proxy_headers=False,
        backlog=ACCEPTED_AT_ONCE,
        timeout_keep_alive=2 * int(REQUEST_WITHIN_S),  # WaitingConnections is earlier
        timeout_graceful_shutdown=SHUTDOWN_S,
    )
    return Server(config, started)
