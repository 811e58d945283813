"""What a process gives up for itself and all that comes of it: by Landlock (<linux/landlock.h>)
what it does not need, by namespaces of its own the machine's folders at some paths.
"""

import ctypes
import os
import resource
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

SYS_LANDLOCK_CREATE_RULESET, SYS_LANDLOCK_ADD_RULE, SYS_LANDLOCK_RESTRICT_SELF = 444, 445, 446
LANDLOCK_CREATE_RULESET_VERSION, LANDLOCK_RULE_PATH_BENEATH = 1, 1
TCP_BIND_AND_CONNECT, SCOPE_SOCKETS_AND_SIGNALS = 3, 3
PR_SET_NO_NEW_PRIVS = 38
CLONE_NEWNS, CLONE_NEWUSER, MS_BIND, MS_REC = 0x20000, 0x10000000, 0x1000, 0x4000
# By the numbers of their bits.
RIGHTS = (
    "execute write_file read_file read_dir remove_dir remove_file make_char make_dir make_reg"
    " make_sock make_fifo make_block make_sym refer truncate ioctl_dev"
).split()
BITS = {name: 1 << number for number, name in enumerate(RIGHTS)}
READING = {name: BITS[name] for name in ("execute", "read_file", "read_dir")}
WRITING = {name: bit for name, bit in BITS.items() if name not in READING}
SINCE = {"refer": 2, "truncate": 3, "ioctl_dev": 5}  # the ABI that brought it; the others: 1
# What a file, and no folder, may be given.
OF_FILES = ("execute", "write_file", "read_file", "truncate", "ioctl_dev")

UNUSED = [ctypes.c_ulong(0)] * 3  # the further arguments of prctl(2)

libc = ctypes.CDLL(None, use_errno=True)


def abi() -> int:
    """What this host's kernel has of it; 0: nothing."""
    version = ctypes.c_uint(LANDLOCK_CREATE_RULESET_VERSION)
    found = libc.syscall(SYS_LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), version)
    return max(0, int(found))


def enter(abi: int, rights: Mapping[str, int], allowed: Mapping[Path, Sequence[str]]) -> None:
    """Give up some rights but for those allowed at or below paths that are there; TCP, and signals
    to processes outside, where the ABI has them. Needs no_new_privs. Raises OSError.
    """
    handled = {name: bit for name, bit in rights.items() if SINCE.get(name, 1) <= abi}
    attributes = (ctypes.c_uint64 * 3)(
        sum(handled.values()),
        TCP_BIND_AND_CONNECT if abi >= 4 else 0,
        SCOPE_SOCKETS_AND_SIGNALS if abi >= 6 else 0,
    )
    # of struct landlock_ruleset_attr as the ABI knows it: files; networks; what is shared
    size = ctypes.c_size_t(8 if abi < 4 else 16 if abi < 6 else 24)
    made = libc.syscall(SYS_LANDLOCK_CREATE_RULESET, attributes, size, ctypes.c_uint(0))
    ruleset = checked(made, "landlock")
    for path, names in allowed.items():
        if not path.exists():
            continue
        given = [name for name in names if path.is_dir() or name in OF_FILES]
        descriptor = os.open(path, os.O_PATH)
        # struct landlock_path_beneath_attr is packed: 64 bits of rights, 32 of descriptor
        rule = sum(handled.get(name, 0) for name in given).to_bytes(8, sys.byteorder)
        rule += descriptor.to_bytes(4, sys.byteorder)
        added = libc.syscall(
            SYS_LANDLOCK_ADD_RULE, ruleset, LANDLOCK_RULE_PATH_BENEATH, rule, ctypes.c_uint(0)
        )
        checked(added, str(path))
        os.close(descriptor)
    checked(libc.syscall(SYS_LANDLOCK_RESTRICT_SELF, ruleset, ctypes.c_uint(0)), "landlock")
    os.close(ruleset)


def gain_no_rights() -> None:
    """No program that is executed from here on gains rights (set-user-id). Raises OSError."""
    checked(libc.prctl(PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), *UNUSED), "no_new_privs")


def enter_namespaces(kinds: int, *, of_users: bool = True) -> None:
    """Namespaces of its own, as the same user; not of_users: only root has any. Raises OSError."""
    user, group = os.geteuid(), os.getegid()
    checked(libc.unshare(ctypes.c_int(kinds | (CLONE_NEWUSER if of_users else 0))), "unshare")
    if not of_users:
        return
    for name, text in (("setgroups", "deny"), ("uid_map", user), ("gid_map", group)):
        words = text if text == "deny" else f"{text} {text} 1"
        Path("/proc/self", name).write_text(words, encoding="ascii")


def bind(folder: Path, place: Path) -> None:
    """Have a folder at another place, in mounts of its own. Raises OSError."""
    flags = ctypes.c_ulong(MS_BIND | MS_REC)
    done = libc.mount(os.fsencode(folder), os.fsencode(place), None, flags, None)
    checked(done, str(place))


def checked(result: int, what: str) -> int:
    """A system call's result. Raises OSError with `what` as its file name."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)
    return int(result)


def limit(memory_bytes: int, cpu_s: int, file_bytes: int) -> None:
    """The most that this process, and each that it starts, may have of this machine."""
    for what, most in (
        (resource.RLIMIT_AS, memory_bytes),
        (resource.RLIMIT_CPU, cpu_s),
        (resource.RLIMIT_FSIZE, file_bytes),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(what)
        least = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (least, least))
