# SPDX-License-Identifier: MIT
"""Route a class's requests: joining, a student's labs, the teacher's view."""

from __future__ import annotations

import json
import time
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import Route

from gostlab.classroom.lab import CourseLab
from gostlab.classroom.workspace import FIGURE
from gostlab.errors import BadInput, Complaint
from gostlab.serve.access import OWNER, STUDENT
from gostlab.serve.class_file import ClassFile
from gostlab.serve.class_work import REPORT, ClassWork, LabWork
from gostlab.serve.lab_guide import split_guide

Handler = Callable[[Request], Awaitable[Response]]
# A code has 40 bits: at this rate of guesses a class of thirty is safe for a thousand years.
MAX_WRONG_CODES = 20  # in WRONG_CODES_S with one name; ten times as many with all
WRONG_CODES_S = 60.0
MAX_NAMES = 10_000
# The report has figures and scripts of its own; in a sandbox it has no access to this server.
REPORT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:;"
    " font-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none';"
    " sandbox allow-scripts allow-popups"
)


def json_response(value: Any, status: int = 200) -> Response:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return Response(text, status, media_type="application/json")


async def read_object(request: Request) -> dict[str, object]:
    """Return the object in a request's body. Raises BadInput, ClientDisconnect."""
    if request.headers.get("content-type", "").partition(";")[0] != "application/json":
        raise BadInput("send application/json")
    try:
        value = json.loads(await request.body())
    except (ValueError, RecursionError):
        raise BadInput("not JSON that this server reads") from None
    if not isinstance(value, dict):
        raise BadInput("not an object")
    return value


def text_in(body: dict[str, object], name: str) -> str:
    """Return a text of a request's object. Raises BadInput."""
    value = body.get(name)
    if not isinstance(value, str) or any("\ud800" <= letter <= "\udfff" for letter in value):
        raise BadInput(f"{name}: not a text")
    return value


def answered(handle: Handler) -> Handler:
    """Return a handler that answers 400 with the line of what was refused."""

    async def handled(request: Request) -> Response:
        try:
            return await handle(request)
        except Complaint as error:
            return json_response({"text": str(error)}, 400)
        except ClientDisconnect:
            return Response(status_code=400)
        except OSError as error:
            return json_response({"text": f"the server: {error.strerror or error}"}, 500)

    return handled


class WrongCodes:
    """Count wrong codes, so that nobody finds one by trying."""

    def __init__(self) -> None:
        self._by_name: dict[str, deque[float]] = defaultdict(deque)

    def refuses(self, name: str) -> bool:
        """Return whether a name, or all names together, had too many wrong codes lately."""
        return self.recent(name) >= MAX_WRONG_CODES or self.recent("") >= 10 * MAX_WRONG_CODES

    def recent(self, name: str) -> int:
        times = self._by_name.get(name)
        while times and times[0] < time.monotonic() - WRONG_CODES_S:
            times.popleft()
        return len(times or ())

    def add(self, name: str) -> None:
        if len(self._by_name) > MAX_NAMES:
            self._by_name.clear()
        for counted_for in (name, ""):
            self._by_name[counted_for].append(time.monotonic())


class ClassRoutes:
    """Answer a class's requests; the guard has let pass only who may make them."""

    def __init__(self, work: ClassWork, session_cookie: Callable[[str], str]) -> None:
        self._work = work
        self._course: ClassFile = work.course
        self._session_cookie = session_cookie
        self._wrong = WrongCodes()
        self._guides = {lab.name: split_guide(lab) for lab in self._course.labs}
        self._figures = {lab.name: lab.folder / FIGURE for lab in self._course.labs}

    def routes(self) -> list[Route]:
        lab = "/class/labs/{lab}"
        table = [
            ("/class/join", self.join, "POST"),
            ("/class/leave", self.leave, "POST"),
            ("/class/me", self.me, "GET"),
            (lab, self.lab, "GET"),
            (f"{lab}/progress", self.progress, "GET"),
            (f"{lab}/{FIGURE}", self.figure, "GET"),
            (f"{lab}/report", self.report, "GET"),
            (f"{lab}/runs/{{run}}/{{file}}", self.record, "GET"),
            (f"{lab}/hand-in.zip", self.archive, "GET"),
            (f"{lab}/answers", self.answer, "POST"),
            (f"{lab}/own", self.own, "POST"),
            (f"{lab}/seal", self.seal, "POST"),
            (f"{lab}/run", self.run, "POST"),
            (f"{lab}/hand-in", self.hand_in, "POST"),
            ("/teacher/class", self.everybody, "GET"),
            ("/teacher/labs/{lab}", self.predictions, "GET"),
            ("/teacher/labs/{lab}/grades", self.grades, "POST"),
            ("/teacher/labs/{lab}/grades/{name}", self.grade_table, "GET"),
        ]
        return [Route(path, answered(handle), methods=[method]) for path, handle, method in table]

    # -- joining

    async def join(self, request: Request) -> Response:
        body = await read_object(request)
        name, code = text_in(body, "name")[:100], text_in(body, "code")[:100]
        if self._wrong.refuses(name.casefold()):
            return json_response({"text": "too many wrong codes: wait a minute"}, 429)
        pupil = self._course.joining(name, code)
        if pupil is None:
            self._wrong.add(name.casefold())
            return json_response({"text": "no student of this class with that name and code"}, 403)
        cookie = self._session_cookie(self._course.session(pupil.primary_identifier))
        return Response(status_code=204, headers={"set-cookie": cookie})

    async def leave(self, _request: Request) -> Response:
        return Response(status_code=204, headers={"set-cookie": self._session_cookie("")})

    # -- a student

    def student(self, request: Request) -> str:
        """Return the student who asks. Raises BadInput for the teacher."""
        student: str = request.scope[STUDENT]
        if not student:
            raise BadInput("join the class with a student's name and code")
        return student

    def named_lab(self, request: Request) -> CourseLab:
        lab = self._course.lab(request.path_params["lab"])
        if lab is None:
            raise BadInput("this class has no such lab")
        return lab

    async def opened(self, request: Request) -> LabWork:
        """Return the work on a lab of the student who asks. Raises BadInput, OSError."""
        student, lab = self.student(request), self.named_lab(request)
        return await run_in_threadpool(self._work.open, student, lab)

    async def me(self, request: Request) -> Response:
        student: str = request.scope[STUDENT]
        if not student:  # nobody yet, or the teacher: the page asks for name and code
            return Response(status_code=204)
        pupil = self._course.roster.find_by_identifier(student)
        name = pupil.display_name if pupil else student

        def labs() -> list[dict[str, object]]:
            return [
                {
                    "name": lab.name,
                    "title": lab.title,
                    "goals": lab.goals,
                    "minutes": lab.minutes,
                    "points": lab.points_with_texts,
                    "stage": self._work.stage_json(self._work.work(student, lab))["stage"],
                }
                for lab in self._course.labs
            ]

        listed = await run_in_threadpool(labs)
        return json_response({"name": name, "course": self._course.course, "labs": listed})

    async def lab(self, request: Request) -> Response:
        work = await self.opened(request)
        lab_json = await run_in_threadpool(self._work.lab_json, work)
        guide = self._guides[work.lab.name]
        return json_response(
            {
                **lab_json,
                "guide": guide.to_json(),
                "instructions": guide.instructions,
                "meanings": guide.meanings,
            }
        )

    async def progress(self, request: Request) -> Response:
        work = await self.opened(request)
        return json_response(await run_in_threadpool(self._work.progress_json, work))

    async def figure(self, request: Request) -> Response:
        file = self._figures[self.named_lab(request).name]
        if not file.is_file():
            return PlainTextResponse("no figure\n", 404)
        return FileResponse(file)

    async def report(self, request: Request) -> Response:
        file = (await self.opened(request)).folder / REPORT
        if not file.is_file():
            return PlainTextResponse("no report yet\n", 404)
        policy = {"content-security-policy": REPORT_POLICY}
        return FileResponse(file, media_type="text/html; charset=utf-8", headers=policy)

    async def record(self, request: Request) -> Response:
        work, names = await self.opened(request), request.path_params
        file = await run_in_threadpool(work.record, names["run"], names["file"])
        if file is None:
            return PlainTextResponse("no such record\n", 404)
        return FileResponse(file, media_type="text/plain; charset=utf-8")

    async def archive(self, request: Request) -> Response:
        work = await self.opened(request)
        if not work.archive.is_file():
            return PlainTextResponse("nothing was handed in\n", 404)
        name = f"{work.lab.name}-{work.assignment.student}.zip"
        return FileResponse(work.archive, media_type="application/zip", filename=name)

    async def answer(self, request: Request) -> Response:
        work, body = await self.opened(request), await read_object(request)
        section, key, text = (text_in(body, name) for name in ("section", "key", "text"))
        await run_in_threadpool(work.write, section, key, text)
        return Response(status_code=204)

    async def own(self, request: Request) -> Response:
        work, body = await self.opened(request), await read_object(request)
        await run_in_threadpool(work.write_own, text_in(body, "text"))
        complaint = await run_in_threadpool(work.own_complaint)
        return json_response({"own_complaint": complaint})

    async def seal(self, request: Request) -> Response:
        work = await self.opened(request)
        await run_in_threadpool(self._work.seal, work)
        return Response(status_code=204)

    async def run(self, request: Request) -> Response:
        work = await self.opened(request)
        await run_in_threadpool(self._work.request_runs, work)
        return Response(status_code=202)

    async def hand_in(self, request: Request) -> Response:
        work, body = await self.opened(request), await read_object(request)
        as_it_is = body.get("as_it_is") is True
        left = await run_in_threadpool(self._work.hand_in, work, as_it_is=as_it_is)
        return json_response({"left": left, "is_handed_in": as_it_is or not left})

    # -- the teacher

    def require_teacher(self, request: Request) -> None:
        if not request.scope[OWNER]:
            raise BadInput("for the teacher")

    async def everybody(self, request: Request) -> Response:
        self.require_teacher(request)
        return json_response(await run_in_threadpool(self._work.class_json))

    async def predictions(self, request: Request) -> Response:
        self.require_teacher(request)
        lab = self.named_lab(request)
        return json_response(await run_in_threadpool(self._work.predictions_json, lab))

    async def grades(self, request: Request) -> Response:
        self.require_teacher(request)
        printed, tables = await run_in_threadpool(
            self._work.grade_hand_ins, self.named_lab(request)
        )
        return json_response({"printed": printed, "tables": tables})

    async def grade_table(self, request: Request) -> Response:
        self.require_teacher(request)
        lab, name = self.named_lab(request), request.path_params["name"]
        file = await run_in_threadpool(self._work.grade_table, lab, name)
        if file is None:
            return PlainTextResponse("no such table\n", 404)
        return FileResponse(file, media_type="text/csv", filename=f"{lab.name}-{name}")
