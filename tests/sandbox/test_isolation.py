# SPDX-License-Identifier: MIT
"""Attempts to get out of the sandbox, as its root and as its process: nothing of the host may
change.

What an attempt does is tried first where nothing holds it, so that a test which cannot fail would
be seen.
"""

import json
import os
import re
import shutil
import socket
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from gostlab import results
from gostlab.registry.folders import cache_folder
from gostlab.sandbox import rootfs, uml
from gostlab.sandbox.uml import UNRESTRICTED_READING, Isolation
from gostlab.spec.cpu_model import MachineModel
from tests.lab_command import said_by
from tests.offspring import adopt_orphans, foreign_namespaces, offspring
from tests.sandbox.test_native import STATE
from tests.sandboxed import Done, Lab, as_nobody, booting, describe, direction
from tests.skips import NEEDS_ROOT, require_root_tree

pytestmark = pytest.mark.sandbox

BEST = uml.available_isolation()
NOTHING = Isolation(False, 0)
ISOLATIONS = [
    isolation
    for isolation in dict.fromkeys(
        (BEST, Isolation(BEST.namespaces, 0), Isolation(False, BEST.landlock))
    )
    if isolation != NOTHING
]
# By which name the guest's root may reach a file of the host.
WAYS = {
    "the root": "mount -o remount,rw /; at=",
    "the second view": "mount -o remount,rw /run/host; at=/run/host",
    "a second hostfs": "mount -t hostfs -o / none $again; at=$again",
    "a hostfs of that folder alone": "mount -t hostfs -o VICTIM none $again; direct=$again",
    "init's root": "mount -o remount,rw /; at=/proc/1/root/run/host",
    "a bind mount": "mount -o bind / $again; mount -o remount,bind,rw $again; at=$again",
}
GO = 'cd "${direct:-$at}VICTIM" 2>/dev/null || cd "$direct" || exit 3\n'
CONTENT = """
echo changed > file; echo more >> file; truncate -s 0 file; sed -i s/kept/changed/ file; echo new > new
rm -f other; mv file elsewhere; ln file hard; ln -s /etc soft; mkdir made; rmdir empty; mkfifo pipe
mknod raw b 254 0; cp /etc/hostname copied; mv other "/run/gostlab/taken"; ln other /run/gostlab/linked
"""
METADATA = """
chmod 777 file .; chown 1234 file; touch -d 2001-01-01 file .; touch file; setfattr -n user.x -v y file
"""


def seen(folder: Path, *, metadata: bool = True) -> dict[str, object]:
    """What the host has in a folder: contents, and owner, mode and times too."""
    found: dict[str, object] = {}
    for path in sorted([folder, *folder.rglob("*")]):
        facts = path.lstat()
        content = path.read_bytes() if stat.S_ISREG(facts.st_mode) else stat.S_IFMT(facts.st_mode)
        kept = (facts.st_mode, facts.st_uid, facts.st_gid, facts.st_nlink)
        times = (facts.st_mtime_ns, facts.st_ctime_ns, os.listxattr(path, follow_symlinks=False))
        found[str(path)] = (content, *kept, *times) if metadata else content
    return found


@pytest.fixture
def victims() -> Iterator[list[Path]]:
    """A folder of the host, the caller's own, for each way; the guest may write nothing there."""
    made = [Path(tempfile.mkdtemp(dir=cache_folder(), prefix="victim-")) for _ in WAYS]
    for folder in made:
        (folder / "file").write_text("kept\n")
        (folder / "other").write_text("kept too\n")
        (folder / "secret").write_text("hidden\n")
        (folder / "secret").chmod(0o600)
        (folder / "empty").mkdir()
    yield made
    for folder in made:
        shutil.rmtree(folder)


@pytest.fixture
def victim(victims: list[Path]) -> Path:
    """One of them."""
    return victims[0]


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Callable[[Isolation], None]:
    """Have the sandbox held as if the host had no more than that."""

    def hold(isolation: Isolation) -> None:
        monkeypatch.setattr(uml, "available_isolation", lambda: isolation)

    return hold


def attempt(victim: Path, way: str, script: str, number: int = 0) -> str:
    """The commands that try a script on the victim by one of the ways."""
    words = f"again=/tmp/again-{number}; mkdir $again\n{WAYS[way]}\n{GO}{script}\necho tried"
    return f"(\n{words}\n)\n".replace("VICTIM", str(victim))


def attack(lab: Lab, victims: Sequence[Path], ways: Sequence[str], script: str) -> None:
    """Try a script by each of the ways, each on a victim of its own, in one guest."""
    tried = enumerate(zip(victims, ways, strict=True))
    done = lab.command("".join(attempt(*each, script, number) for number, each in tried))
    assert done.log.count("tried") == len(ways), done.log


def test_where_nothing_holds_it_the_guests_root_can_write_the_hosts_files(
    lab: Lab, victims: list[Path], held
) -> None:
    """The reason for all this, and the proof that the attempts below are real ones."""
    held(NOTHING)
    victims = victims[:2]
    before = [seen(victim) for victim in victims]

    attack(lab, victims, ["a second hostfs", "a hostfs of that folder alone"], METADATA + CONTENT)

    for victim, was in zip(victims, before, strict=True):
        assert seen(victim).keys() != was.keys() and not (victim / "other").exists()


@pytest.mark.parametrize("isolation", ISOLATIONS, ids=str)
def test_the_hosts_files_cannot_be_written_by_any_way(
    lab: Lab, victims: list[Path], held, isolation: Isolation
) -> None:
    held(isolation)
    # Landlock has no word for modes, owners and times: only read-only mounts keep those.
    every = isolation.namespaces
    before = [seen(victim, metadata=every) for victim in victims]

    attack(lab, victims, [*WAYS], (METADATA if every else "") + CONTENT)

    for way, victim, was in zip(WAYS, victims, before, strict=True):
        assert seen(victim, metadata=every) == was, way


def test_the_runs_folder_stays_writable_whatever_holds_the_rest(lab: Lab, held) -> None:
    for isolation in [*ISOLATIONS, NOTHING]:
        held(isolation)
        done = lab.command(
            "touch /etc/gostlab-was-here;"
            " cd /run/gostlab && mkdir d && echo a > d/f && mv d/f g && echo b >> g && chmod 640 g"
            " && touch -d 2001-01-01 g && truncate -s 3 g && rmdir d && echo fine"
        )
        assert "fine" in done.log, (isolation, done.log)
        assert not Path("/etc/gostlab-was-here").exists(), isolation  # what nothing else holds
        assert (done.folder / "g").read_text() == "a\nb", isolation
        assert stat.S_IMODE((done.folder / "g").stat().st_mode) == 0o640


@pytest.mark.skipif(not BEST.landlock, reason="no Landlock")
def test_nothing_but_files_and_folders_can_be_left_in_the_results(lab: Lab) -> None:
    """Whoever reads or cleans them would follow a link out of the folder, wait at a FIFO, open a
    device.
    """
    done = lab.command(
        "cd /run/gostlab; ln -s /etc link; ln -s /etc/passwd status.json; ln -s /etc/passwd"
        " status.json.part; mkfifo outcome.json; mknod disk b 254 0; mknod zero c 1 5; mkdir made;"
        " ln -s / made/l; rm -rf .uml; ln -s /etc .uml; echo tried"
    )

    assert "tried" in done.log
    # (.uml is the sandbox's own: a file system of its own while it runs, empty afterwards.)
    kinds = {stat.S_IFMT(path.lstat().st_mode) for path in done.folder.rglob("*")}
    assert kinds <= {stat.S_IFREG, stat.S_IFDIR}
    results.clean_folder(done.folder)
    assert not (done.folder / ".uml").exists()


def test_the_hosts_devices_are_not_the_guests(lab: Lab, tmp_path: Path) -> None:
    """Nodes made inside name the guest's devices, and the host's nodes seen through hostfs do
    too.
    """
    disk = next((path for path in Path("/dev").iterdir() if path.is_block_device()), None)
    major, minor = (
        (os.major(disk.stat().st_rdev), os.minor(disk.stat().st_rdev)) if disk else (8, 0)
    )
    done = lab.command(f"""
mknod /tmp/disk b {major} {minor}; dd if=/tmp/disk of=/run/gostlab/stolen bs=512 count=1; dd if=/dev/zero of=/tmp/disk bs=1 count=1
mkdir /tmp/again; mount -t hostfs -o /dev none /tmp/again
for way in /run/host/dev /tmp/again; do
    dd if=$way/{disk.name if disk else "sda"} of=/run/gostlab/stolen bs=512 count=1
    echo gostlab-was-here > $way/kmsg; echo gostlab-was-here > $way/console
    mknod $way/gostlab b {major} {minor}
done
mkdir /tmp/disk-here; mount /tmp/disk /tmp/disk-here && echo mounted; echo tried""")

    assert "tried" in done.log and "mounted" not in done.log
    assert not (done.folder / "stolen").exists() or (done.folder / "stolen").stat().st_size == 0
    assert not Path("/dev/gostlab").exists()
    if os.geteuid() == 0:
        assert "gostlab-was-here" not in said_by("dmesg").stdout


@contextmanager
def listening(address: str) -> Iterator[tuple[socket.socket, socket.socket, socket.socket]]:
    """Sockets of the host's that wait for a guest: TCP's, UDP's, and one by an abstract name."""
    with (
        socket.create_server((address, 0)) as server,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams,
        socket.socket(socket.AF_UNIX) as abstract,
    ):
        datagrams.bind((address, 0))
        abstract.bind("\0gostlab-test")
        abstract.listen()
        yield server, datagrams, abstract


@contextmanager
def listening_below_run() -> Iterator[str]:
    """A socket of the host's where Docker's is, for those who may make one; else no path."""
    if not os.access("/run", os.W_OK):
        yield "/run/gostlab-no-socket"
        return
    with tempfile.TemporaryDirectory(dir="/run") as folder, socket.socket(socket.AF_UNIX) as server:
        server.bind(f"{folder}/socket")
        server.listen()
        yield f"{folder}/socket"


def test_the_hosts_network_cannot_be_reached(lab: Lab) -> None:
    with listening("0.0.0.0") as (server, datagrams, abstract):
        tcp, udp = server.getsockname()[1], datagrams.getsockname()[1]
        out = said_by("hostname", "-I").stdout.split()
        attempts = "\n".join(
            f"""
ip route add {address} dev lo; ping -c 1 -W 1 {address} >/dev/null && [ {address} != 127.0.0.1 ] && echo {address} answers
timeout 2 bash -c 'echo hello >/dev/tcp/{address}/{tcp}' && echo connected {address}
timeout 2 bash -c 'echo hello >/dev/udp/{address}/{udp}'"""
            for address in ["127.0.0.1", *out, "1.1.1.1"]
        )

        done = lab.command(
            f'ip -o link; ip route; ip link set lo up; {attempts}\npython3 -c "import'
            " socket;socket.socket(socket.AF_UNIX).connect('\\0gostlab-test');"
            " print('connected', 'abstract')\"; echo tried"
        )

        assert "tried" in done.log and "connected" not in done.log, done.log
        assert "1: lo" in done.log and "eth0" not in done.log and "default via" not in done.log
        # Inside, a route to lo makes an address the guest's own: who answers then is the guest.
        for listener in (server, datagrams, abstract):
            listener.setblocking(False)
        for received in (server.accept, lambda: datagrams.recv(1), abstract.accept):
            with pytest.raises(BlockingIOError):
                received()


# What a guest that had taken over its kernel would be: any program at all in the sandbox's process.
# It is put in the place of the kernel, does what it can, and reports what came of it.
ESCAPED = """#!{python} -IS
import ctypes, json, os, socket, sys
victim, folder, tcp, udp, parent, disk = {victim!r}, {folder!r}, {tcp}, {udp}, {parent}, {disk!r}
libc = ctypes.CDLL(None, use_errno=True)
done = []
def attempt(name, action):
    try:
        action()
    except OSError as error:
        return
    done.append(name)
def call(number):
    if number < 0:
        raise OSError(ctypes.get_errno(), "")
def connect(kind, family, address):
    made = socket.socket(family, kind)
    made.settimeout(1)
    made.connect(address)
    made.send(b"x")
attempt("write", lambda: open(victim + "/file", "a").write("x"))
attempt("create", lambda: open(victim + "/new", "w"))
attempt("truncate", lambda: os.truncate(victim + "/file", 0))
attempt("remove", lambda: os.remove(victim + "/other"))
attempt("rename out", lambda: os.rename(victim + "/other", folder + "/other"))
attempt("link", lambda: os.link(victim + "/other", folder + "/other"))
attempt("chmod", lambda: os.chmod(victim + "/file", 0o777))
attempt("chown", lambda: os.chown(victim + "/file", 1, 1))
attempt("utime", lambda: os.utime(victim + "/file", (0, 0)))
attempt("mount", lambda: call(libc.mount(b"none", folder.encode(), b"tmpfs", 0, None)))
attempt("remount", lambda: call(libc.mount(None, b"/", None, 4096 | 32, None)))
attempt("umount", lambda: call(libc.umount2(folder.encode(), 2)))
attempt("other mounts", lambda: call(libc.setns(os.open("/proc/%d/ns/mnt" % parent, os.O_RDONLY), 0)))
attempt("other root", lambda: open("/proc/%d/root%s/file" % (parent, victim), "a").write("x"))
attempt("other memory", lambda: open("/proc/%d/mem" % parent, "r+b"))
attempt("ptrace", lambda: call(libc.ptrace(0x4206, parent, 0, 0)))  # seized: to attach would stop it
attempt("signal", lambda: os.kill(parent, 0))
attempt("tcp", lambda: connect(socket.SOCK_STREAM, socket.AF_INET, ("127.0.0.1", tcp)))
attempt("udp", lambda: connect(socket.SOCK_DGRAM, socket.AF_INET, ("127.0.0.1", udp)))
attempt("abstract", lambda: connect(socket.SOCK_STREAM, socket.AF_UNIX, "\\0gostlab-test"))
attempt("socket", lambda: connect(socket.SOCK_STREAM, socket.AF_UNIX, {named!r}))
attempt("sysctl", lambda: open("/proc/sys/kernel/printk_ratelimit", "w").write("5"))
attempt("disk", lambda: os.open(disk, os.O_WRONLY))
attempt("node", lambda: os.mknod(folder + "/node", 0o60600, os.makedev(254, 0)))
attempt("module", lambda: call(libc.syscall(175, b"", 0, b"")))
attempt("read secret", lambda: open(victim + "/secret").read())
attempt("read environ", lambda: open("/proc/%d/environ" % parent).read())
attempt("in the folder", lambda: open(folder + "/mine", "w").write("x"))
json.dump(sorted(done), open(folder + "/done.json", "w"))
"""


def escaped(lab: Lab, victim: Path) -> list[str]:
    folder = lab.folder()
    disks = [str(path) for path in Path("/dev").iterdir() if path.is_block_device()]
    with ExitStack() as stack:
        server, datagrams, _ = stack.enter_context(listening("127.0.0.1"))
        named = stack.enter_context(listening_below_run())
        ports = {"tcp": server.getsockname()[1], "udp": datagrams.getsockname()[1]}
        own = {"victim": str(victim), "folder": str(folder), "parent": os.getpid(), "named": named}
        disk = next(iter(disks), "/dev/sda")
        program = folder / "kernel"
        program.write_text(ESCAPED.format(python=sys.executable, disk=disk, **own, **ports))
        program.chmod(0o755)
        guest = uml.boot(program, folder, [], MachineModel(64, "real"), cpu=lab.cpu, limit_s=30)
        assert guest.wait() == 0, Done(folder).log
    return list(json.loads((folder / "done.json").read_text()))


NEVER = {*"write create truncate remove mount remount tcp sysctl module link".split(), "rename out"}
OF_ITS_USER = "" if os.geteuid() == 0 else "read_secret"
BY_SOCKET = " socket" if os.access("/run", os.W_OK) else ""
WHOLE = BEST.namespaces and BEST.landlock >= 6


@pytest.mark.parametrize(
    ("isolation", "can", "may"),
    [
        (NOTHING, "write create chmod utime tcp udp abstract signal read_secret" + BY_SOCKET, None),
        # All of it: its folder and nothing else.
        (BEST if WHOLE else NOTHING, "", OF_ITS_USER),
        # Namespaces alone: what needs no mount and no network of the host's.
        (
            Isolation(BEST.namespaces, 0),
            "",
            "signal disk ptrace other_memory other_root read_secret",
        ),
        # Landlock alone: modes, owners and times, and datagrams.
        (Isolation(False, BEST.landlock), "", f"chmod chown utime udp socket {OF_ITS_USER}"),
    ],
    ids=["nothing", "all", "namespaces", "landlock"],
)
def test_an_escaped_guest_can_do_what_is_not_held(
    lab: Lab, victim: Path, held, isolation: Isolation, can: str, may: str | None
) -> None:
    """Where nothing holds it that is what its user may; may: None, anything."""
    if may is not None and isolation == NOTHING:
        pytest.skip("no Landlock or no user namespaces")
    before = seen(victim)
    held(isolation)

    got = set(escaped(lab, victim)) - {"in the folder"}

    assert {name.replace("_", " ") for name in can.split()} <= got
    if may is None:
        return
    assert not got & NEVER
    if isolation.landlock >= 6 or not isolation.landlock:  # an older one has not all of its words
        assert got <= {name.replace("_", " ") for name in may.split()}
    if not got - {"read secret"}:
        assert seen(victim) == before


def isolation_of(done: Done) -> str:
    return str(done.json("env.json")["host"]["isolation"])


def test_the_run_says_that_nothing_held_it(lab: Lab, held) -> None:
    path = direction(rate_bps=10_000_000, delay_ms=2.0)
    held(NOTHING)
    done = lab.run(describe(path, path, duration_s=1.0))
    assert isolation_of(done) == str(NOTHING)
    text = str(NOTHING).removesuffix(UNRESTRICTED_READING if os.geteuid() == 0 else "")
    assert text == "only the guest's own read-only mount"


def test_what_holds_the_sandbox_is_found_out_without_a_trace() -> None:
    before = (
        Path("/proc/self/mountinfo").read_text(),
        os.listdir(tempfile.gettempdir()),
        os.listdir("/proc/self/fd"),
    )
    uml.available_isolation.cache_clear()

    assert uml.available_isolation() == BEST
    assert before[0] == Path("/proc/self/mountinfo").read_text() and len(before[2]) == len(
        os.listdir("/proc/self/fd")
    )


def host_state() -> dict[str, object]:
    """What an experiment could change on a host (of processes and namespaces ours alone: there must
    be none; those of somebody else's sandboxes come and go).
    """
    environ = {**os.environ, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    state = said_by("sh", "-c", STATE, env=environ).stdout
    lsns = said_by("lsns", "--noheadings", "--output", "NS,TYPE,COMMAND").stdout
    return {
        "state": state.splitlines(),
        "namespaces of ours": foreign_namespaces(),
        "namespaces": [
            line.split()[:2]
            for line in lsns.splitlines()
            if not re.search("rootfstype=hostfs|uml-userspace|gostlab", line)
        ],
        "processes of ours": [process.pid for process in offspring()],
        "memory files": [name for name in os.listdir("/dev/shm") if name.startswith("vm_file")],
    }


def test_the_run_says_what_held_it_and_the_host_is_as_it_was_to_the_byte(lab: Lab) -> None:
    """Other work on the machine may change something meanwhile; a run of ours would do it every
    time.
    """
    adopt_orphans()
    path = direction(rate_bps=10_000_000, delay_ms=2.0)
    for _ in range(3):
        before = host_state()
        assert isolation_of(lab.run(describe(path, path, duration_s=1.0))) == str(BEST)
        deadline = time.monotonic() + 2
        while (after := host_state()) != before and time.monotonic() < deadline:
            time.sleep(0.1)
        if after == before:
            break
    assert after == before


@NEEDS_ROOT
def test_an_ordinary_user_is_held_as_well(lab: Lab, tmp_path: Path) -> None:
    """Nobody's sandbox, and a folder of nobody's own that it must not write."""
    become = as_nobody(tmp_path)
    kernel = shutil.copy(lab.kernel, tmp_path / "linux")
    place, victim = tmp_path / "run", tmp_path / "victim"
    for folder in (place, victim):
        folder.mkdir()
        shutil.chown(folder, "nobody")
    (victim / "file").write_text("kept\n")
    shutil.chown(victim / "file", "nobody")
    before = seen(victim)
    script = (
        "id -u; ip link add type veth && echo made\n"
        + attempt(victim, "a second hostfs", METADATA + CONTENT)
        + "touch /run/gostlab/kept"
    )

    words = booting(lab, kernel, place, script, clock="virtual", limit_s=60)
    done = said_by(*become, *words, timeout=60)

    log = (place / "log.txt").read_text()
    assert done.returncode == 0, done.stderr
    assert log.splitlines()[:2] == ["0", "made"] and "tried" in log, log
    assert (place / "kept").exists()
    if "namespaces" in done.stdout:
        assert seen(victim) == before
    else:
        assert (victim / "file").read_text() == "kept\n"


SECRETS = """
mkdir /tmp/again; mount -t hostfs -o / none /tmp/again
for file in FILES; do cat /tmp/again$file; ls /tmp/again$(dirname $file); done >/run/gostlab/got 2>&1
cat /tmp/again/run/nothing; echo tried
"""


@pytest.mark.skipif(not BEST.landlock, reason="no Landlock")
def test_on_its_own_root_a_guest_reads_nothing_of_the_hosts(
    lab: Lab, victim: Path, tmp_path: Path, held, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its root mounts the host's files, and may read what is said in SECURITY.md."""
    require_root_tree()
    root = rootfs.root_without_run()
    home = tmp_path / "home"
    home.mkdir()
    (home / "key").write_text("hidden\n")
    (victim / "file").write_text("hidden\n")
    files = f"{home}/key {victim}/file /etc/shadow /etc/hostname"
    seen = {}
    for isolation in (BEST, NOTHING):
        held(isolation)
        done = lab.command(SECRETS.replace("FILES", files), root=root)
        assert "tried" in done.log, done.log
        seen[isolation] = (done.folder / "got").read_text()

    assert seen[NOTHING].count("hidden") == 2 and "key" in seen[NOTHING].split()
    assert "hidden" not in seen[BEST] and not {"key", "other", "shadow"} & set(seen[BEST].split())
    assert seen[BEST].count("ermission denied") == 8, seen[BEST]


SECRETS_OF_ROOT = """
mkdir /tmp/again; mount -t hostfs -o / none /tmp/again
for at in '' /run/host /tmp/again /proc/1/root/run/host; do
    cat $at/etc/shadow $at/root/.bash_history ${at}VICTIM/secret; ls $at/root $at/root/.ssh
done
for at in /run/host /tmp/again; do cat $at/proc/PARENT/environ $at/proc/PARENT/mem; done
cat /etc/passwd && ls /etc/ssl/certs >/dev/null && ls /usr/bin >/dev/null && echo tried
"""


@NEEDS_ROOT
@pytest.mark.skipif(not BEST.landlock, reason="no Landlock")
def test_roots_guest_on_the_hosts_files_reads_what_an_ordinary_user_may(
    lab: Lab, victim: Path, held
) -> None:
    shadow = [line for line in Path("/etc/shadow").read_text().split() if line]
    script = SECRETS_OF_ROOT.replace("VICTIM", str(victim)).replace("PARENT", str(os.getpid()))
    for isolation in (BEST, Isolation(False, BEST.landlock)):
        held(isolation)
        done = lab.command(script)
        assert "tried" in done.log and "root:x:0:0" in done.log, done.log
        assert not any(line in done.log for line in ("hidden", *shadow)), done.log
        reached = re.findall(r"^(?:cat|ls): .*(?:environ|shadow|secret)'?: (.*)$", done.log, re.M)
        assert len(reached) == 10 and set(reached) == {"Permission denied"}, done.log
