# SPDX-License-Identifier: MIT
"""Route the page's requests: its files, what it offers, runs and their events."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from gostlab.apply.tc_text import tc_lines
from gostlab.errors import PACKAGE, BadInput, Complaint
from gostlab.results.capture_files import main_file
from gostlab.scheduler.executor import run_folder
from gostlab.serve.access import STUDENT, AccessGuard
from gostlab.serve.class_app import ClassRoutes, json_response
from gostlab.serve.class_work import ClassWork
from gostlab.serve.declarations import declarations
from gostlab.serve.question_parser import parse_question, setting_named
from gostlab.serve.run_pool import RunPool, ServedRun, TooManyWaiting

PAGE = Path(__file__).parent / "page"
VENDOR = PACKAGE / "analysis" / "vendor"
TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
CLIENT = "x-gostlab-client"  # a random name that each tab gives itself
MAX_CLIENT = 64
NOT_JSON = "not JSON that this server reads"
TC_DEVICE = "eth0"


def error_response(error: Complaint, status: int = 400) -> Response:
    text = str(error)
    return json_response({"key": setting_named(text), "text": text}, status)


class PageRoutes:
    """Hold the page's files, read once: no path of a request reaches the file system."""

    def __init__(self) -> None:
        files = [path for path in PAGE.iterdir() if path.suffix in TYPES]
        files += [path for path in VENDOR.iterdir() if path.suffix in TYPES]
        self._files = {path.name: path.read_bytes() for path in files}

    async def index(self, _request: Request) -> Response:
        return self.response("index.html")

    async def lab(self, _request: Request) -> Response:
        return self.response("class.html")

    async def teacher(self, _request: Request) -> Response:
        return self.response("teacher.html")

    async def file(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in self._files:
            return PlainTextResponse("no such file\n", 404)
        return self.response(name)

    def response(self, name: str) -> Response:
        media_type = TYPES[Path(name).suffix]
        return Response(self._files[name], media_type=f"{media_type}; charset=utf-8")


class RunRoutes:
    """Answer requests about runs."""

    def __init__(self, pool: RunPool) -> None:
        self._pool = pool

    async def ask(self, request: Request) -> Response:
        """Begin a run, or find the one that answers the question already."""
        if request.headers.get("content-type", "").partition(";")[0] != "application/json":
            return PlainTextResponse("send application/json\n", 415)
        try:
            body = json.loads(await request.body())
        except (ValueError, RecursionError):
            return error_response(BadInput(NOT_JSON))
        except ClientDisconnect:
            return Response(status_code=400)
        try:
            question = await run_in_threadpool(parse_question, body)
            run = self._pool.ask(question, client_of(request), request.scope[STUDENT])
        except TooManyWaiting as error:
            return error_response(error, 429)
        except Complaint as error:
            return error_response(error)
        return json_response({"id": run.id, "name": question.question.name}, 202)

    async def cancel(self, request: Request) -> Response:
        self._pool.cancel(request.path_params["id"], client_of(request))
        return Response(status_code=204)

    async def events(self, request: Request) -> Response:
        """Stream a run's events; a browser that reconnects says which one it had last."""
        run = self._pool.get(request.path_params["id"])
        if run is None:
            return PlainTextResponse("no such run\n", 404)
        last = request.headers.get("last-event-id", "")
        first = int(last) + 1 if last.isdecimal() and len(last) < 9 else 0
        return StreamingResponse(stream(run, first), media_type="text/event-stream")

    async def tc(self, request: Request) -> Response:
        """Return the path of a run as tc lines."""
        run = self._pool.get(request.path_params["id"])
        if run is None:
            return PlainTextResponse("no such run\n", 404)
        return PlainTextResponse("\n".join(tc_lines(run.question.run, TC_DEVICE)) + "\n")

    async def packets(self, request: Request) -> Response:
        """Return the capture of a run that was asked with one."""
        run = self._pool.get(request.path_params["id"])
        file = None
        if run is not None and run.has_ended():
            spec = run.question.run
            file = main_file(run_folder(spec, self._pool.folder), spec)
        if file is None:
            return PlainTextResponse("no capture\n", 404)
        return FileResponse(file, media_type="application/x-pcapng")


async def stream(run: ServedRun, first: int) -> AsyncIterator[str]:
    """Yield events as text/event-stream has them (WHATWG HTML, section 9.2)."""
    async for item in run.follow(first):
        if item is None:
            yield ": still here\n\n"
            continue
        number, (name, data) = item
        text = json.dumps(data, ensure_ascii=False, allow_nan=False)
        yield f"id: {number}\nevent: {name}\ndata: {text}\n\n"


def client_of(request: Request) -> str:
    """Return who asks: a tab, or a tab of a student in a class."""
    return f"{request.scope[STUDENT]} {request.headers.get(CLIENT, '')[:MAX_CLIENT]}"


async def no_icon(_request: Request) -> Response:
    return Response(status_code=204)


def make_app(pool: RunPool, token: str, port: int, work: ClassWork | None = None) -> AccessGuard:
    """Return the application: the routes behind their guard; `work` is a class's."""
    pages, runs = PageRoutes(), RunRoutes(pool)
    course = work.course if work else None
    offered = json_response({**declarations(), "course": course.course if course else None})

    async def declared(_request: Request) -> Response:
        return offered

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        yield
        await run_in_threadpool(pool.close)

    routes = [
        Route("/", pages.index),
        Route("/favicon.ico", no_icon),
        Route("/declarations", declared),
        Route("/page/{name}", pages.file),
        Route("/runs", runs.ask, methods=["POST"]),
        Route("/runs/{id}", runs.cancel, methods=["DELETE"]),
        Route("/runs/{id}/events", runs.events),
        Route("/runs/{id}/tc", runs.tc),
        Route("/runs/{id}/packets", runs.packets),
    ]
    guard = AccessGuard(Starlette(routes=routes, lifespan=lifespan), token, port, course)
    if work is not None:
        routes += [Route("/class", pages.lab), Route("/teacher", pages.teacher)]
        routes += ClassRoutes(work, guard.session_cookie).routes()
        guard = replace(guard, app=Starlette(routes=routes, lifespan=lifespan))
    return guard
