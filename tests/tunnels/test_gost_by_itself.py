# SPDX-License-Identifier: MIT
"""GOST of three versions and the lab's relay on this machine's loopback: at both ends, and
crosswise.

What each version does was found to be the same. An end of stream on one side closes the whole
relay: what was sent before it arrives whole, an answer to it does not. A reset arrives as an end of
stream. Over QUIC and WebTransport 3.2.6 keeps the other side open. Over HTTP/2 and gRPC the end may
overtake what was sent before it, and over HTTP/3 the client never hears of the target's.
"""

import hashlib
import os
import random
import shutil
import socket
import socketserver
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest

from gostlab.bench.cpu_costs import free_ports
from gostlab.install.locate import find_parts, has_version
from gostlab.registry.tunnels import GOST, tunnel_kinds
from gostlab.tunnels.gost import ENVIRON
from tests.lab_command import Gost

pytestmark = pytest.mark.real_gost

KINDS = {
    kind.name: kind
    for kind in tunnel_kinds().values()
    if kind.program == GOST and kind.name.startswith("gost+")
}
NEWEST, OF_THE_THESIS, OLD, RELAY = "3.2.6", "3.0.0-rc8", "2.11.5", "relay"
VERSIONS = (NEWEST, OF_THE_THESIS, OLD)
# server, client
ENDS = [(version, version) for version in VERSIONS]
ENDS += [pair for version in VERSIONS for pair in ((version, RELAY), (RELAY, version))]
RIGHT = "user:right@"


def kinds_of(version: str) -> list[str]:
    """What a program has."""
    return [
        name
        for name, kind in KINDS.items()
        if not kind.since or (version != RELAY and has_version(version, kind.since))
    ]


def scheme_of(kind: str) -> str:
    return kind.replace("gost+", "relay+")


OF_THE_RELAY = kinds_of(RELAY)
ALONE = [
    (name, (version, version))
    for version in VERSIONS
    for name in kinds_of(version)
    if name not in OF_THE_RELAY
]
EACH = [(name, ends) for name in OF_THE_RELAY for ends in ENDS] + ALONE
# The kinds that treat an end of stream in ways of their own: bare, framed, and multiplexed.
UNLIKE = ("gost+tcp", "gost+wss", "gost+mws")
ENDING = [(kind, ends) for kind in UNLIKE for ends in [*ENDS, (RELAY, RELAY)]]
ENDING += [each for each in ALONE if each[0] in ("gost+kcp", "gost+ssh", "gost+mtls")]
RESET = [each for each in ENDING if each[0] != "gost+tcp"]
RESET += [each for each in ALONE if each not in ENDING and each[0] != "gost+h3"]
MANY = 128
PATIENCE_S = 120.0
UP, DOWN = (random.Random(seed).randbytes(1_500_000) for seed in (1, 2))
Handle = Callable[[socket.socket], Any]


class Target(socketserver.ThreadingTCPServer):
    """A server behind the tunnel that keeps what `handle` makes of each connection."""

    daemon_threads = True
    request_queue_size = 2 * MANY

    def __init__(self, handle: Handle) -> None:
        super().__init__(("127.0.0.1", 0), socketserver.BaseRequestHandler)
        self.handle = handle
        self.found: list[Any] = []
        self.port = int(self.server_address[1])

    def finish_request(self, request: Any, client_address: Any) -> None:
        request.settimeout(PATIENCE_S)
        self.found.append(self.handle(request))

    def shutdown_request(self, request: Any) -> None:
        self.close_request(request)  # it may be closed already, by a reset

    def saw(self, count: int = 1) -> list[Any]:
        """What became of so many connections; all of them have ended."""
        deadline = time.monotonic() + PATIENCE_S
        while len(self.found) < count and time.monotonic() < deadline:
            time.sleep(0.01)
        return self.found


@contextmanager
def target(handle: Handle) -> Iterator[Target]:
    with Target(handle) as made:
        threading.Thread(target=made.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield made
        finally:
            made.shutdown()


@pytest.fixture(scope="module")
def behind() -> Iterator[Target]:
    """What all tunnels lead to."""
    with target(answering) as made:
        yield made


@pytest.fixture
def to(behind: Target) -> Target:
    """The same, which has seen nothing yet."""
    behind.handle, behind.found = answering, []
    return behind


def ports_of_udp() -> set[int]:
    """Those that somebody has on this machine."""
    lines = Path("/proc/net/udp").read_text(encoding="ascii").splitlines()[1:]
    return {int(line.split()[1].partition(":")[2], 16) for line in lines}


def unused_ports(count: int) -> list[int]:
    """Ports that nobody has, by TCP nor by UDP."""
    taken = ports_of_udp()
    return [port for port in free_ports(count + len(taken)) if port not in taken][:count]


def is_taken(port: int, over: str) -> bool:
    """Whether somebody listens there. To read /proc/net/tcp takes 5 ms of CPU where there is much
    memory; to bind does not disturb a program that is about to.
    """
    if over == "udp":
        return port in ports_of_udp()
    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind(("127.0.0.1", port))
        except OSError:
            return True
    return False


@pytest.fixture(scope="module")
def certified(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a certificate: where it is started without one, GOST makes one, and version 2
    an RSA key for it, which takes 0.1 s of CPU.
    """
    folder = tmp_path_factory.mktemp("certified")
    words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=test"
    files = ("-keyout", "key.pem", "-out", "cert.pem")
    if openssl := shutil.which("openssl"):
        subprocess.run([openssl, *words.split(), *files], cwd=folder, check=True, stderr=PIPE)
    return folder


@contextmanager
def running(
    program: str, words: list[str], ports: Iterable[tuple[int, str]], folder: Path
) -> Iterator[None]:
    """A program in a folder that listens on these ports, each TCP's or UDP's."""
    with subprocess.Popen(
        [program, *words],
        cwd=folder,
        env={**os.environ, **ENVIRON},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        deadline = time.monotonic() + PATIENCE_S
        try:
            for port, over in ports:
                while not is_taken(port, over):
                    assert process.poll() is None and time.monotonic() < deadline, (port, words)
                    time.sleep(0.005)
            yield
        finally:
            process.kill()


@pytest.fixture(scope="module")
def programs(gost: Gost) -> Callable[[str], str]:
    """A program by its version, or the test is skipped."""

    def path_of(version: str) -> str:
        if version != RELAY:
            return str(gost(version).path)
        return str(find_parts(Path(RELAY)).relay or pytest.skip("no relay: ./lab setup"))

    return path_of


@pytest.fixture(scope="module")
def served(programs: Callable[[str], str], behind: Target, certified: Path) -> Iterator[Any]:
    """Where a version's server listens, by the kind, whether the server itself knows the target,
    and who may pass: one process for all tests, as a GOST's start takes 20 ms of CPU.
    """
    with ExitStack() as ended:

        @cache
        def ports_of(version: str) -> dict[tuple[str, bool, str], int]:
            asked = [(kind, True, "") for kind in kinds_of(version)]
            asked += [(kind, False, "") for kind in OF_THE_RELAY]
            asked += [("gost+ws", knows, RIGHT) for knows in (True, False)]
            found = dict(zip(asked, unused_ports(len(asked)), strict=True))
            words = [
                f"{scheme_of(kind)}://{user}127.0.0.1:{port}"
                + (f"/127.0.0.1:{behind.port}" if knows else "")
                for (kind, knows, user), port in found.items()
            ]
            listening = [(port, KINDS[kind].over) for (kind, *_), port in found.items()]
            listen = [word for each in words for word in ("-L", each)]
            ended.enter_context(running(programs(version), listen, listening, certified))
            return found

        yield ports_of


@pytest.fixture
def tunnel(programs: Callable[[str], str], served: Any, to: Target, certified: Path) -> Any:
    """Both ends of a tunnel to the target; what one connects to."""

    @contextmanager
    def through(ends: tuple[str, str], kind: str, user: str = "", asks: str = "") -> Iterator[int]:
        server, client = ends
        # A server of version 2 with a target of its own refuses any that it is sent, and the
        # relay's client, as that of version 3, sends one in any case.
        told = ends == (OLD, RELAY)
        far = served(server)[kind, not told, asks]
        [near] = free_ports(1)
        entry = f"tcp://127.0.0.1:{near}" + (f"/127.0.0.1:{to.port}" if told else "")
        forward = f"{scheme_of(kind)}://{user}127.0.0.1:{far}"
        words = ["-L", entry, "-F", forward]
        with running(programs(client), words, [(near, "tcp")], certified):
            yield near

    return through


@contextmanager
def connected(port: int) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as made:
        yield made


def all_of(connection: socket.socket, count: int = 1 << 40) -> bytes:
    """What comes until so many bytes are there, or the end."""
    got = bytearray()
    while len(got) < count and (more := connection.recv(min(65536, count - len(got)))):
        got += more
    return bytes(got)


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def answering(connection: socket.socket, patience_s: float = PATIENCE_S) -> str:
    """Take all that is sent, answer it, and say what it was."""
    got = digest(all_of(connection, len(UP)))
    connection.sendall(DOWN)
    connection.settimeout(patience_s)
    with suppress(TimeoutError):
        all_of(connection)  # until the client is done
    return got


def carry(to: Target, port: int, *, half_closed: bool = False) -> None:
    """All bytes arrive as they were sent, both ways."""
    with connected(port) as client:
        client.sendall(UP)
        if half_closed:
            client.shutdown(socket.SHUT_WR)
        answer = digest(all_of(client, len(DOWN)))
    assert (to.saw(), answer) == ([digest(UP)], digest(DOWN))


def reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def bytes_arrive_as_they_were_sent_both_ways(to: Target, port: int) -> None:
    to.handle = answering
    carry(to, port)


def bytes_arrive_where_the_end_does_not(to: Target, port: int) -> None:
    to.handle = partial(answering, patience_s=1.0)
    carry(to, port)


def an_end_of_stream_comes_behind_all_bytes_and_closes_the_relay(to: Target, port: int) -> None:
    ended = threading.Event()

    def late_answer(connection: socket.socket) -> str:
        got = digest(all_of(connection))
        ended.wait(PATIENCE_S)
        return got

    to.handle = late_answer
    with connected(port) as client:
        client.sendall(UP)
        client.shutdown(socket.SHUT_WR)
        try:
            assert all_of(client) == b""  # before the target has said anything
        finally:
            ended.set()

        assert to.saw() == [digest(UP)]


def an_end_of_stream_leaves_the_other_way_open(to: Target, port: int) -> None:
    def late_answer(connection: socket.socket) -> str:
        got = digest(all_of(connection))
        connection.sendall(DOWN)
        return got

    to.handle = late_answer
    carry(to, port, half_closed=True)


def a_reset_arrives_as_an_end_of_stream(to: Target, port: int) -> None:
    """The client's, and then the target's."""
    came = threading.Event()

    def sees(connection: socket.socket) -> bytes:
        got = all_of(connection, 4)
        came.set()
        if got == b"away":
            reset(connection)
            return got
        return got + all_of(connection)

    to.handle = sees
    with connected(port) as client:
        client.sendall(b"sent")
        assert came.wait(PATIENCE_S)
        reset(client)
    assert to.saw() == [b"sent"]

    with connected(port) as client:
        client.sendall(b"away")
        assert all_of(client) == b""
    assert to.saw(2) == [b"sent", b"away"]


def streams_at_once_do_not_mix(to: Target, port: int) -> None:
    """128, each with bytes of its own, more than the 32 KiB of a frame."""

    def own(number: int) -> bytes:
        return UP[1000 * number : 1000 * number + 40_000 + number]

    def back(connection: socket.socket) -> str:
        number = int.from_bytes(all_of(connection, 4), "big")
        connection.sendall(b"!")
        got = all_of(connection, len(own(number)))
        connection.sendall(got[::-1])
        return digest(got)

    to.handle = back
    clients = []
    for number in range(MANY):
        # One after the other: on a busy machine so many handshakes at once take GOST too long.
        clients.append(socket.create_connection(("127.0.0.1", port), PATIENCE_S))
        clients[-1].sendall(number.to_bytes(4, "big"))
        assert all_of(clients[-1], 1) == b"!"
    for number, client in enumerate(clients):
        client.sendall(own(number))
    for number, client in enumerate(clients):
        assert all_of(client, len(own(number))) == own(number)[::-1]
        client.close()

    assert sorted(to.saw(MANY)) == sorted(digest(own(number)) for number in range(MANY))


# What is shown of which tunnels: one pair of programs shows all of it.
SHOWN = {
    bytes_arrive_as_they_were_sent_both_ways: [each for each in EACH if each[0] != "gost+h3"],
    bytes_arrive_where_the_end_does_not: [each for each in EACH if each[0] == "gost+h3"],
    an_end_of_stream_comes_behind_all_bytes_and_closes_the_relay: ENDING,
    an_end_of_stream_leaves_the_other_way_open: [
        (kind, (NEWEST, NEWEST)) for kind in ("gost+quic", "gost+wt")
    ],
    a_reset_arrives_as_an_end_of_stream: RESET,
    # Of a kind without a multiplexer nobody but each program itself can mix them.
    streams_at_once_do_not_mix: [
        *(("gost+wss", (program, program)) for program in (*VERSIONS, RELAY)),
        *(("gost+mws", ends) for ends in ENDS),
    ],
}


@pytest.mark.parametrize(("kind", "ends"), dict.fromkeys([*EACH, *ENDING]))
def test_bytes_ends_and_resets_go_through_a_tunnel(
    tunnel: Any, to: Target, kind: str, ends: tuple[str, str]
) -> None:
    with tunnel(ends, kind) as port:
        for shown, tunnels in SHOWN.items():
            if (kind, ends) in tunnels:
                to.found.clear()
                shown(to, port)


@pytest.mark.parametrize("ends", ENDS, ids=" serves ".join)
@pytest.mark.parametrize("given", [RIGHT, "user:wrong@", ""])
def test_who_does_not_say_the_password_gets_nothing_through(
    tunnel: Any, to: Target, ends: tuple[str, str], given: str
) -> None:
    with tunnel(ends, "gost+ws", given, asks=RIGHT) as port:
        if given == RIGHT:
            carry(to, port)
            return
        with connected(port) as client:
            answer = b""
            with suppress(ConnectionError):
                client.sendall(UP)
                answer = all_of(client, len(DOWN))
        assert (to.found, answer) == ([], b"")


@pytest.mark.parametrize("ends", ENDS, ids=" serves ".join)
def test_a_chain_of_two_hops_of_two_kinds(
    programs: Callable[[str], str], served: Any, to: Target, certified: Path, ends: tuple[str, str]
) -> None:
    server, client = ends
    [near] = free_ports(1)
    words = ["-L", f"tcp://127.0.0.1:{near}/127.0.0.1:{to.port}"]
    for kind in ("gost+ws", "gost+wss"):
        words += ["-F", f"{scheme_of(kind)}://127.0.0.1:{served(server)[kind, False, '']}"]

    with running(programs(client), words, [(near, "tcp")], certified):
        carry(to, near)
