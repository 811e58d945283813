# SPDX-License-Identifier: MIT
"""Who may use the server: whoever has the token, from the server's own page."""

from __future__ import annotations

import os
import random
import resource
import socket
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from gostlab.serve import access, http_server, serve_cli
from gostlab.serve.run_pool import RunPool
from tests.lab_command import Refused, said_by
from tests.serve.serving import SETTINGS, TOKEN, Client, serving

BODY = {"settings": {**SETTINGS, "rate": "wrong"}}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with serving(RunPool(tmp_path_factory.mktemp("results"), 1)) as started:
        yield started


def test_the_address_with_the_token_shows_the_page_and_sets_a_cookie(client: Client) -> None:
    answer = Client(client.port, token="").send("GET", f"/?token={TOKEN}")

    assert answer.status == 200 and "<title>gostlab" in answer.text
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=Strict" in cookie


@pytest.mark.parametrize("path", ["/", "/declarations", "/page/main.js", "/runs/x/events", "/x"])
@pytest.mark.parametrize("token", ["", "wrong", TOKEN[:-1], "é"])
def test_nothing_is_said_without_the_token(client: Client, path: str, token: str) -> None:
    quoted = "" if token == "é" else token
    answer = Client(client.port, token=quoted).send("GET", path)

    assert answer.status == 403 and "token" in answer.text and "set-cookie" not in answer.headers


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 421),
        ({"host": "evil.example:8420"}, 421),
        ({"host": "127.0.0.1.evil.example"}, 421),
        ({"host": ""}, 421),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "https://127.0.0.1"}, 403),
        ({"sec_fetch_site": "cross-site", "sec_fetch_mode": "no-cors"}, 403),
        ({"sec_fetch_site": "same-site", "sec_fetch_mode": "cors"}, 403),
    ],
)
def test_another_site_is_refused_though_the_browser_sends_the_cookie(
    client: Client, headers: dict[str, str], status: int
) -> None:
    for method, path in (("GET", "/declarations"), ("POST", "/runs"), ("DELETE", "/runs/x")):
        assert client.send(method, path, **headers).status == status


def test_the_servers_own_page_may_ask_at_any_name_of_the_loopback(client: Client) -> None:
    for host in (f"localhost:{client.port}", f"127.0.0.1:{client.port}", "localhost:9999"):
        headers = {"host": host, "origin": f"http://{host}", "sec_fetch_site": "same-origin"}
        assert client.send("GET", "/declarations", **headers).status == 200


def test_every_answer_has_the_policy(client: Client) -> None:
    for path, token in (("/", TOKEN), ("/x", TOKEN), ("/", ""), ("/page/page.css", TOKEN)):
        headers = Client(client.port, token=token).send("GET", path).headers
        assert headers["content-security-policy"] == access.POLICY
        assert headers["x-content-type-options"] == "nosniff"
        assert "server" not in headers


def test_no_path_of_a_request_reaches_the_file_system(client: Client) -> None:
    for name in ("../app.py", "%2e%2e/app.py", "..%2fapp.py", "/etc/passwd", "app.py", "%00"):
        answer = client.send("GET", f"/page/{name}")
        assert answer.status == 404 and "import" not in answer.text


def test_a_refused_question_names_its_field(client: Client) -> None:
    answer = client.ask(BODY)

    assert answer.status == 400 and answer.json["key"] == "rate"
    assert client.send("POST", "/runs", "{}", content_type="text/plain").status == 415


@pytest.mark.parametrize(
    "body", [b"", b"{", b"\xff\xfe", b"[" * 60_000, b"NaN", b'{"settings": {"rate": "\\ud800"}}']
)
def test_a_body_that_is_no_question_is_refused(client: Client, body: bytes) -> None:
    assert client.ask(body).status == 400


def test_a_body_that_is_too_large_is_refused(client: Client) -> None:
    # It may close the connection before all was sent.
    with suppress(BrokenPipeError, ConnectionResetError):
        assert client.ask(b"1" * (access.MAX_BODY_BYTES + 1)).status == 413


@pytest.mark.slow
def test_random_requests_leave_the_server_working(
    client: Client, capfd: pytest.CaptureFixture[str]
) -> None:
    draw = random.Random(58)
    send_random_requests(client, draw, 2000)
    assert client.send("GET", "/declarations").status == 200
    resident_mib, files = held_by_this_process()

    send_random_requests(client, draw, 8000)

    answers = [client.send("GET", "/declarations").status for _ in range(20)]
    assert answers == [200] * 20 and client.ask(BODY).status == 400
    after_mib, files_after = held_by_this_process()
    assert after_mib - resident_mib < 16 and files_after - files < http_server.MAX_WAITING
    assert "Traceback" not in capfd.readouterr().err


def send_random_requests(client: Client, draw: random.Random, count: int) -> None:
    """Send whole and broken requests, and leave the last hundred connections open."""
    methods = "GET POST DELETE PUT HEAD OPTIONS PATCH TRACE BREW".split()
    paths = ["/", "/runs", "/runs/x", "/runs/x/events", "/page/%ff", "/declarations", "*", "/" * 99]
    kept: deque[socket.socket] = deque()
    for _ in range(count):
        raw = socket.create_connection(("127.0.0.1", client.port), timeout=30)
        kept.append(raw)
        length = draw.choice(["", "0", "5", "-1", "99999999999", "x"])
        head = f"{draw.choice(methods)} {draw.choice(paths)} HTTP/1.{draw.randrange(3)}\r\n"
        head += f"Host: localhost:{client.port}\r\nCookie: gostlab-{client.port}={TOKEN}\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
        sent = draw.randrange(1, 3) * (head.encode() + draw.randbytes(draw.randrange(40)))
        raw.sendall(sent[: draw.randrange(1, len(sent))] if draw.random() < 0.5 else sent)
        if len(kept) > 100:
            kept.popleft().close()
    for raw in kept:
        raw.close()


def held_by_this_process() -> tuple[float, int]:
    """Return resident memory, MiB, and the number of open files."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20, len(os.listdir("/proc/self/fd"))


def test_connections_that_are_left_open_keep_nobody_out(client: Client) -> None:
    with ExitStack() as stack:
        for number in range(2 * http_server.MAX_WAITING):
            raw = stack.enter_context(socket.create_connection(("127.0.0.1", client.port), 30))
            raw.sendall(b"GET / HTTP/1.1\r\nHost: loc"[: number % 20])
        assert client.send("GET", "/declarations").status == 200


@pytest.mark.parametrize("before", ["", "GET /favicon.ico HTTP/1.1\r\nHost: localhost\r\n\r\n"])
def test_headers_that_do_not_end_are_not_waited_for(
    client: Client, monkeypatch: pytest.MonkeyPatch, before: str
) -> None:
    monkeypatch.setattr(http_server, "REQUEST_WITHIN_S", 0.1)
    with socket.create_connection(("127.0.0.1", client.port), timeout=30) as raw:
        if before:
            raw.sendall(before.encode())
            assert raw.recv(4096)
        raw.sendall(b"GET / HTTP/1.1\r\nHost: ")
        with suppress(ConnectionResetError):
            while raw.recv(4096):
                pass


def test_an_answer_that_nobody_reads_is_dropped(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "READ_WITHIN_S", 0.1)
    cookie = f"gostlab-{client.port}={TOKEN}"
    one = f"GET /page/uPlot.iife.min.js HTTP/1.1\r\nHost: localhost\r\nCookie: {cookie}"
    whole = f"{one}\r\n\r\n".encode() * 500
    with (
        socket.create_connection(("127.0.0.1", client.port), timeout=30) as raw,
        pytest.raises(ConnectionError),
    ):
        while True:
            raw.sendall(whole)


def test_the_token_is_for_its_owner_alone_and_stays(tmp_path: Path) -> None:
    file = tmp_path / "cache/token"
    token = serve_cli.read_token(file)

    assert serve_cli.read_token(file) == token and file.stat().st_mode & 0o777 == 0o600
    file.chmod(0o644)  # others may have read it
    assert serve_cli.read_token(file) != token


def test_the_command_line_imports_no_server_before_it_serves() -> None:
    script = (
        "import sys; from gostlab.cli import main\n"
        "for entry in main.VERBS: entry.declared()\n"
        "print([name for name in ('starlette', 'uvicorn') if name in sys.modules])"
    )
    done = said_by(sys.executable, "-c", script)
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


def test_without_its_libraries_it_says_what_brings_them(
    refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve_cli, "find_spec", lambda name: None)
    assert "starlette and uvicorn: not there: run ./lab setup" in refused("serve")


def test_a_port_that_is_taken_is_refused(refused: Refused) -> None:
    with serve_cli.open_socket(0) as taken:
        taken.listen()
        port = taken.getsockname()[1]
        assert f"--port {port}" in refused("serve", "--port", port)
