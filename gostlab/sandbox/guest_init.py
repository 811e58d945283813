"""Initialise the sandbox's guest: process 1 of the User-Mode Linux guest.

The kernel starts it as `python3 -S init.py`, with the host's files as a read-only root; or
guest_stage0.py does on the lab's own root, where the guest sees some folders of the host. It mounts
what a Linux userland expects, gives the guest one writable folder, runs one command there, and
powers off. Its arguments are on the kernel's command line, which the kernel passes to init as
environment variables:

GOSTLAB_BOOT  the folder on the host that the guest may write; the orders are in its `boot.json`:
    argv        the command to run
    environ     its environment
    keep        host paths that must stay visible although /tmp and the like are covered
    terminal    true: give the command the console as its controlling terminal
    modules     kernel modules to load first: [{cc, file, arguments}]; the command's environment
                has those that the kernel rejected, GOSTLAB_NOT_LOADED: {cc: reason}
    capture     the module that records packets, a file of the folder; absent: none
"""

import ctypes
import gc
import json
import os
import site
import sys
import traceback

OUT = "/run/gostlab"
HOST = "/run/host"
BUNDLE = f"{HOST}/kept"  # see gostlab.sandbox.python_bundle
MS_RDONLY, MS_NOSUID, MS_REMOUNT, MS_BIND = 1, 2, 32, 4096
RB_POWER_OFF = 0x4321FEDC
SYS_FINIT_MODULE = 313
SYSLOG_ACTION_READ_ALL, LOG_BYTES = 3, 1 << 16
REBOOTED = "a program of the run rebooted its kernel"
COVERED = ("/run", "/tmp", "/var/tmp", "/dev/shm")

libc = ctypes.CDLL(None, use_errno=True)


def mount(
    source: str, target: str, fs_type: str | None, flags: int = 0, options: str | None = None
) -> None:
    """Mount a file system by mount(2). Raises OSError naming the target."""
    encoded = [
        text.encode() if text is not None else None for text in (source, target, fs_type, options)
    ]
    if libc.mount(encoded[0], encoded[1], encoded[2], flags, encoded[3]) != 0:
        error_number = ctypes.get_errno()
        raise OSError(error_number, os.strerror(error_number), target)


def mount_all(writable: str) -> dict:
    """Mount the guest's file systems; return the orders of the writable folder."""
    shared = f"{OUT}/.host/shown"
    if os.path.isdir(
        shared
    ):  # the lab's own root: guest_stage0.py has mounted /proc, /run and this
        for name in sorted(os.listdir(shared)):
            os.makedirs(f"{HOST}/{name}")
            source = f"{writable}/.host/shown/{name}"
            mount("none", f"{HOST}/{name}", "hostfs", MS_RDONLY, source)
    else:
        # In an ordinary user's guest the host root's files belong to nobody, so that a setuid
        # `mount` would run as nobody.
        mount("none", "/", None, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID)
        mount("proc", "/proc", "proc")
        mount("tmpfs", "/run", "tmpfs")
        # HOST is a second view of the host's files, in which nothing is covered.
        os.mkdir(HOST)
        mount("/", HOST, None, MS_BIND)
        os.mkdir(OUT)
        mount("none", OUT, "hostfs", 0, writable)
    mount("sysfs", "/sys", "sysfs")
    if not os.path.exists(f"{OUT}/boot.json"):  # User-Mode Linux reboots by executing itself
        raise RuntimeError(REBOOTED)
    with open(f"{OUT}/boot.json", encoding="utf-8") as file:
        orders: dict = json.load(file)
    os.unlink(f"{OUT}/boot.json")
    for folder in ("/dev/pts", "/dev/shm"):
        os.makedirs(folder, exist_ok=True)
    mount("devpts", "/dev/pts", "devpts", 0, "ptmxmode=0666,mode=0620")
    for folder in COVERED[1:]:
        mount("tmpfs", folder, "tmpfs", MS_NOSUID)
    mount("tracefs", "/sys/kernel/tracing", "tracefs")
    mount("cgroup2", "/sys/fs/cgroup", "cgroup2")
    for path in orders["keep"]:
        if path.startswith(tuple(f"{folder}/" for folder in COVERED)):
            if os.path.isdir(HOST + path):
                os.makedirs(path, exist_ok=True)
            else:
                os.makedirs(os.path.dirname(path), exist_ok=True)
                os.close(os.open(path, os.O_CREAT))
            mount(HOST + path, path, None, MS_BIND)
    for link, target in (
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
    ):
        if not os.path.lexists(f"/dev/{link}"):
            os.symlink(target, f"/dev/{link}")
    return orders


def load_modules(orders: dict) -> None:
    """Load the ordered modules; the command's environment has why the kernel rejected some."""
    rejected = {}
    for module in orders.get("modules", ()):
        before = len(kernel_log())
        descriptor = os.open(HOST + module["file"], os.O_RDONLY | os.O_CLOEXEC)
        status = libc.syscall(SYS_FINIT_MODULE, descriptor, module["arguments"].encode(), 0)
        error_number = ctypes.get_errno()
        os.close(descriptor)
        # The kernel loads a module even if it cannot set a parameter, but logs a message.
        messages = [
            line.partition(">")[2].partition("] ")[2] or line.partition(">")[2]
            for line in kernel_log()[before:].splitlines()
            if "taint" not in line
        ]
        if status != 0 or messages:
            rejected[module["cc"]] = "; ".join(messages) or os.strerror(error_number)
    orders["environ"]["GOSTLAB_NOT_LOADED"] = json.dumps(rejected)


def load_capture(name: str) -> None:
    """Load the module that records packets, and remove its file.

    gostlab.guest.capture reports it if the kernel rejects it, with a reason in the log.
    """
    descriptor = os.open(f"{OUT}/{name}", os.O_RDONLY | os.O_CLOEXEC)
    if libc.syscall(SYS_FINIT_MODULE, descriptor, b"", 0) != 0:
        print(f"init: {name}: {os.strerror(ctypes.get_errno())}", file=sys.stderr, flush=True)
    os.close(descriptor)
    os.unlink(f"{OUT}/{name}")


def kernel_log() -> str:
    """Return the kernel's log so far."""
    buffer = ctypes.create_string_buffer(LOG_BYTES)
    length = libc.klogctl(SYSLOG_ACTION_READ_ALL, buffer, LOG_BYTES)
    return buffer.raw[: max(0, length)].decode(errors="replace")


def run(orders: dict) -> int:
    """Run the ordered command, reap orphaned processes, and return the exit status."""
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            if orders.get("terminal"):
                console = os.open("/dev/tty0", os.O_RDWR)
                for descriptor in (0, 1, 2):
                    os.dup2(console, descriptor)
                import fcntl
                import termios

                fcntl.ioctl(0, termios.TIOCSCTTY, 0)
            if orders["argv"][:2] == [sys.executable, "-m"]:
                os._exit(run_module(orders["argv"][2:], orders["environ"]))
            os.execvpe(orders["argv"][0], orders["argv"], orders["environ"])
        except OSError as error:
            print(f"init: {orders['argv'][0]}: {error}", file=sys.stderr, flush=True)
            os._exit(127)
    while True:
        pid, status = os.wait()
        if pid == child:
            return os.waitstatus_to_exitcode(status)


def run_module(argv: list[str], environ: dict[str, str]) -> int:
    """Run a module as `python3 -m` does, in this process, and return the exit status.

    Starting another Python, and finalizing this one, would take a tenth of a short run.
    """
    os.closerange(3, 16)  # init's own files; each open one costs its children a call
    os.environ.clear()
    os.environ.update(environ)
    # These replace this file's folder. A module that is not in the bundle has a file of its own.
    sys.path[:1] = [BUNDLE, os.getcwd(), *environ["PYTHONPATH"].split(":")]
    status = 1
    try:
        import runpy

        gc.disable()  # objects that an import creates are no garbage
        site.main()
        sys.argv = argv
        runpy.run_module(argv[0], run_name="__main__", alter_sys=True)
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    return status


def main() -> None:
    status = 125
    try:
        orders = mount_all(os.environ["GOSTLAB_BOOT"])
        libc.sethostname(b"gostlab", 7)
        load_modules(orders)
        if "capture" in orders:
            load_capture(orders["capture"])
        status = run(orders)
        with open(f"{OUT}/exit", "w", encoding="ascii") as file:
            file.write(f"{status}\n")
    except BaseException:  # the kernel would panic if process 1 returned
        traceback.print_exc()
    sys.stdout.flush()
    libc.reboot(RB_POWER_OFF)


if __name__ == "__main__":
    main()
