# SPDX-License-Identifier: MIT
"""Serve the page: `./lab serve`."""

from __future__ import annotations

import argparse
import fcntl
import os
import secrets
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from gostlab.cli import common
from gostlab.errors import BadInput
from gostlab.install.locate import MissingPart
from gostlab.registry.folders import cache_folder

if TYPE_CHECKING:
    from gostlab.cluster.dask_cluster import SharedWorkers
    from gostlab.serve.class_file import ClassFile

LIBRARIES = ("starlette", "uvicorn")
DEFAULT_PORT = 8420
MAX_PORT = 65535
TOKEN_FILE = "serve-token"
TEACHER_TOKEN = "teacher-token"  # in a class's folder
KNOBS = "knobs"  # results of what students ask, in a class's folder
TOKEN_BYTES = 24
LOOPBACK = "127.0.0.1"


def parse_port(text: str) -> int:
    """Parse a port. Raises ArgumentTypeError."""
    if not text.isdecimal() or not 0 <= int(text[:6]) <= MAX_PORT:
        raise argparse.ArgumentTypeError(f"{text:.40}: not a port (0 to {MAX_PORT})")
    return int(text)


@common.verb(
    common.declare_argument(
        "--class",
        dest="class_file",
        type=Path,
        metavar="FILE",
        help="class.yaml of a course: the labs as pages for its students, and a teacher's view",
    ),
    common.declare_argument(
        "--host",
        default=LOOPBACK,
        help="address to listen on; another than the loopback needs --class, and TLS before it"
        f" (default: {LOOPBACK})",
    ),
    common.declare_argument(
        "--port",
        type=parse_port,
        default=DEFAULT_PORT,
        help=f"TCP port; 0: any that is free (default: {DEFAULT_PORT})",
    ),
    common.declare_argument(
        "--browser",
        choices=("auto", "none"),
        default="auto",
        help="whether to open the desktop's browser (default: auto)",
    ),
    common.jobs_option("questions that run in parallel (default: one per CPU)"),
    common.declare_argument(
        "--dask",
        metavar="SCHEDULER|local:N",
        help="run on the workers of a Dask scheduler (tls://host:8786), or on N local processes;"
        " curves come when a run has ended",
    ),
    common.results_option("where results go"),
    example="./lab serve",
    usage="./lab serve [--class FILE [--host ADDRESS]] [--port N] [--browser none]"
    " [--jobs N | --dask SCHEDULER] [--results FOLDER]",
    description="Serve a page on this machine, on which a knob is turned and a real TCP stack"
    " answers. It prints its address, which has a token: whoever has that may ask. Ctrl-C ends it.",
)
def serve_verb(arguments: argparse.Namespace) -> int:
    missing = [name for name in LIBRARIES if find_spec(name) is None]
    if missing:
        raise MissingPart(f"{' and '.join(missing)}: not there: run ./lab setup")
    from gostlab.sandbox import usable_cpus
    from gostlab.serve import app, http_server
    from gostlab.serve.class_file import load_class
    from gostlab.serve.class_work import ClassWork
    from gostlab.serve.run_pool import RunPool

    course = load_class(arguments.class_file) if arguments.class_file else None
    check_host(arguments.host, course)
    with ExitStack() as stack:
        listening = stack.enter_context(open_socket(arguments.port, arguments.host))
        if course:
            stack.enter_context(locked_folder(course.folder))
        bound_port = listening.getsockname()[1]
        token_file = course.folder / TEACHER_TOKEN if course else cache_folder() / TOKEN_FILE
        token = read_token(token_file)
        results = course.folder / KNOBS if course else arguments.results
        if course:
            shutil.rmtree(results, ignore_errors=True)  # answers that nobody asks for any more
        workers = stack.enter_context(joined_cluster(arguments.dask, arguments.jobs))
        slots = len(workers.cluster) if workers else arguments.jobs or len(list(usable_cpus()))
        gather = workers.gather if workers else None
        pool = RunPool(results, slots, keeps_results=course is None, workers=gather)
        work = ClassWork(course, pool) if course else None
        here = f"http://{LOOPBACK}:{bound_port}"
        page = f"{(course and course.address) or here}/{'teacher' if course else ''}?token={token}"

        def started() -> None:
            print(f"open {page}", flush=True)
            if course is None:
                common.print_error(f"results go to {results}; Ctrl-C ends the server")
            else:
                common.print_error(
                    f"students open {course.address or here}/class; the teacher's page"
                )
                common.print_error(f"has their codes. Work goes to {course.folder}; Ctrl-C ends it")
            if arguments.browser == "auto":
                open_in_browser(page)
            pool.warm_up()

        with suppress(KeyboardInterrupt):  # Ctrl-C is how a server ends
            asgi_app = app.make_app(pool, token, bound_port, work)
            http_server.make_server(asgi_app, started).run(sockets=[listening])
    return common.EXIT_OK


@contextmanager
def joined_cluster(where: str | None, jobs: int | None) -> Iterator[SharedWorkers | None]:
    """Join a cluster while the server runs; None: this machine does the runs.

    Raises BadInput, MachineError.
    """
    if where is None:
        yield None
        return
    if jobs is not None:
        raise BadInput("--jobs: with --dask, a run per worker is made at a time")
    from gostlab.cluster import dask_cluster
    from gostlab.cluster.worker import Identity, identify

    dask_cluster.local_workers(where)  # a wrong address is refused before anything is looked for
    mine = Identity(**identify(None))
    with dask_cluster.connect(where, mine, None, common.print_error) as cluster:
        yield dask_cluster.SharedWorkers(cluster)


@contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Hold a class's folder, which nobody else may read, for one server. Raises BadInput."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise BadInput(f"{folder}: another ./lab serve --class works there") from None
        yield


def check_host(host: str, course: ClassFile | None) -> None:
    """Reject an address that others reach, unless a class is served. Raises BadInput."""
    if host in (LOOPBACK, "localhost"):
        return
    if course is None:
        raise BadInput(f"--host {host}: only with --class: without it the page is for one person")
    if not course.address:
        raise BadInput(
            f"--host {host}: name in class.yaml the address that students open"
            " (address: https://lab.example.org)"
        )
    common.print_error(
        f"--host {host}: names, codes and answers go in clear from here: put TLS before it (nginx,"
        " Caddy), and let nobody reach this port otherwise"
    )


def open_socket(wanted_port: int, host: str = LOOPBACK) -> socket.socket:
    """Return a socket bound to an address of this machine. Raises BadInput."""
    try:
        family, socket_type, protocol, _, address = socket.getaddrinfo(
            host, wanted_port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError as error:
        raise BadInput(f"--host {host:.80}: {error.strerror}") from None
    listening = socket.socket(family, socket_type, protocol)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(address)
    except OSError as error:
        listening.close()
        raise BadInput(
            f"--port {wanted_port}: {error.strerror}: name another, or 0 for any that is free"
        ) from None
    return listening


def read_token(file: Path) -> str:
    """Return this user's token, made at the first call, so that a restart keeps open pages.

    Only its owner may read the file. Raises OSError.
    """
    with suppress(OSError, UnicodeDecodeError):
        stat = file.lstat()
        token = file.read_text("ascii").strip()
        if stat.st_uid == os.geteuid() and not stat.st_mode & 0o077 and len(token) >= TOKEN_BYTES:
            return token
    token = secrets.token_urlsafe(TOKEN_BYTES)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.unlink(missing_ok=True)
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as opened:
        opened.write(token + "\n")
    return token


def open_in_browser(address: str) -> None:
    """Open an address in the desktop's browser, if there is a desktop; nothing waits for it."""
    opener = shutil.which("xdg-open")
    if opener and (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        quiet = subprocess.DEVNULL
        with suppress(OSError):
            subprocess.Popen(
                [opener, address], stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True
            )
