"""Serve the page: `./lab serve`."""

from __future__ import annotations

import argparse
import os
import secrets
import socket
import subprocess
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from gostlab.cli import common
from gostlab.errors import BadInput
from gostlab.install.locate import MissingPart
from gostlab.registry.folders import cache_folder

LIBRARIES = ("starlette", "uvicorn")
DEFAULT_PORT = 8420
MAX_PORT = 65535
TOKEN_FILE = "serve-token"
TOKEN_BYTES = 24
LOOPBACK = "127.0.0.1"


def port(text: str) -> int:
    """Parse a port. Raises ArgumentTypeError."""
    if not text.isdecimal() or not 0 <= int(text[:6]) <= MAX_PORT:
        raise argparse.ArgumentTypeError(f"{text:.40}: not a port (0 to {MAX_PORT})")
    return int(text)


@common.verb(
    common.word(
        "--port",
        type=port,
        default=DEFAULT_PORT,
        help=f"TCP port on {LOOPBACK}; 0: any that is free (default: {DEFAULT_PORT})",
    ),
    common.word(
        "--browser",
        choices=("auto", "none"),
        default="auto",
        help="whether to open the desktop's browser (default: auto)",
    ),
    common.jobs("questions that run in parallel (default: one per CPU)"),
    common.results("where results go"),
    example="./lab serve",
    usage="./lab serve [--port N] [--browser none] [--jobs N] [--results FOLDER]",
    description="Serve a page on this machine, on which a knob is turned and a real TCP stack"
    " answers. It prints its address, which has a token: whoever has that may ask. Ctrl-C ends it.",
)
def serve_verb(arguments: argparse.Namespace) -> int:
    missing = [name for name in LIBRARIES if find_spec(name) is None]
    if missing:
        raise MissingPart(f"{' and '.join(missing)}: not there: run ./lab setup")
    from gostlab.sandbox import usable_cpus
    from gostlab.serve import app, http_server
    from gostlab.serve.run_pool import RunPool

    with open_socket(arguments.port) as listening:
        bound_port = listening.getsockname()[1]
        token = read_token(cache_folder() / TOKEN_FILE)
        pool = RunPool(arguments.results, arguments.jobs or len(list(usable_cpus())))
        address = f"http://{LOOPBACK}:{bound_port}/?token={token}"

        def started() -> None:
            print(f"open {address}", flush=True)
            common.complain("results go to " + str(arguments.results) + "; Ctrl-C ends the server")
            if arguments.browser == "auto":
                open_in_browser(address)
            pool.warm_up()

        with suppress(KeyboardInterrupt):  # Ctrl-C is how a server ends
            asgi_app = app.make_app(pool, token, bound_port)
            http_server.make_server(asgi_app, started).run(sockets=[listening])
    return common.EXIT_OK


def open_socket(wanted_port: int) -> socket.socket:
    """Return a listening socket on the loopback. Raises BadInput."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((LOOPBACK, wanted_port))
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
    import shutil

    opener = shutil.which("xdg-open")
    if opener and (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        quiet = subprocess.DEVNULL
        with suppress(OSError):
            subprocess.Popen(
                [opener, address], stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True
            )
