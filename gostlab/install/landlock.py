# SPDX-License-Identifier: MIT
"""Restrict a process and its descendants by Landlock (<linux/landlock.h>) and namespaces.

Landlock takes away rights that they do not need; mounts of their own replace the machine's folders
at some paths.
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
# Names of the rights in the order of their bits.
RIGHTS = (
    "execute write_file read_file read_dir remove_dir remove_file make_char make_dir make_reg"
    " make_sock make_fifo make_block make_sym refer truncate ioctl_dev"
).split()
BITS = {name: 1 << number for number, name in enumerate(RIGHTS)}
READING = {name: BITS[name] for name in ("execute", "read_file", "read_dir")}
WRITING = {name: bit for name, bit in BITS.items() if name not in READING}
SINCE = {"refer": 2, "truncate": 3, "ioctl_dev": 5}  # ABI version that introduced a right, if not 1
# The rights that may be granted on a file, not only on a folder.
OF_FILES = ("execute", "write_file", "read_file", "truncate", "ioctl_dev")

UNUSED = [ctypes.c_ulong(0)] * 3  # the further arguments of prctl(2)

libc = ctypes.CDLL(None, use_errno=True)


def landlock_abi() -> int:
    """Return the Landlock ABI version of this host's kernel, 0 without Landlock."""
    version = ctypes.c_uint(LANDLOCK_CREATE_RULESET_VERSION)
    result = libc.syscall(SYS_LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), version)
    return max(0, int(result))


def enter_landlock(
    abi: int, rights: Mapping[str, int], allowed: Mapping[Path, Sequence[str]]
) -> None:
    """Give up rights except those allowed at or below existing paths.

    TCP, and signals to processes outside, are given up if the ABI supports it. Needs no_new_privs.
    Raises OSError.
    """
    handled = {name: bit for name, bit in rights.items() if SINCE.get(name, 1) <= abi}
    attributes = (ctypes.c_uint64 * 3)(
        sum(handled.values()),
        TCP_BIND_AND_CONNECT if abi >= 4 else 0,
        SCOPE_SOCKETS_AND_SIGNALS if abi >= 6 else 0,
    )
    # Size of struct landlock_ruleset_attr in the ABI: with files; networks; scopes.
    size = ctypes.c_size_t(8 if abi < 4 else 16 if abi < 6 else 24)
    result = libc.syscall(SYS_LANDLOCK_CREATE_RULESET, attributes, size, ctypes.c_uint(0))
    ruleset = raise_on_failure(result, "landlock")
    for path, names in allowed.items():
        if not path.exists():
            continue
        granted = [name for name in names if path.is_dir() or name in OF_FILES]
        descriptor = os.open(path, os.O_PATH)
        # struct landlock_path_beneath_attr is packed: 64 bits of rights, 32 of descriptor
        rule = sum(handled.get(name, 0) for name in granted).to_bytes(8, sys.byteorder)
        rule += descriptor.to_bytes(4, sys.byteorder)
        added = libc.syscall(
            SYS_LANDLOCK_ADD_RULE, ruleset, LANDLOCK_RULE_PATH_BENEATH, rule, ctypes.c_uint(0)
        )
        raise_on_failure(added, str(path))
        os.close(descriptor)
    raise_on_failure(
        libc.syscall(SYS_LANDLOCK_RESTRICT_SELF, ruleset, ctypes.c_uint(0)), "landlock"
    )
    os.close(ruleset)


def gain_no_rights() -> None:
    """Disable gaining rights by exec (set-user-ID). Raises OSError."""
    raise_on_failure(libc.prctl(PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), *UNUSED), "no_new_privs")


def enter_namespaces(kinds: int, *, of_users: bool = True) -> None:
    """Enter new namespaces as the same user.

    not of_users: without a user namespace, which only root may do. Raises OSError.
    """
    user, group = os.geteuid(), os.getegid()
    raise_on_failure(
        libc.unshare(ctypes.c_int(kinds | (CLONE_NEWUSER if of_users else 0))), "unshare"
    )
    if not of_users:
        return
    for name, text in (("setgroups", "deny"), ("uid_map", user), ("gid_map", group)):
        content = text if text == "deny" else f"{text} {text} 1"
        Path("/proc/self", name).write_text(content, encoding="ascii")


def bind_mount(folder: Path, target: Path) -> None:
    """Bind-mount a folder at another path, in this process's mount namespace. Raises OSError."""
    flags = ctypes.c_ulong(MS_BIND | MS_REC)
    result = libc.mount(os.fsencode(folder), os.fsencode(target), None, flags, None)
    raise_on_failure(result, str(target))


def raise_on_failure(result: int, what: str) -> int:
    """Return a system call's result. Raises OSError with `what` as its file name."""
    if result < 0:
        error_number = ctypes.get_errno()
        raise OSError(error_number, os.strerror(error_number), what)
    return int(result)


def set_resource_limits(memory_bytes: int, cpu_s: int, file_bytes: int) -> None:
    """Limit memory, CPU time and file sizes of this process and each that it starts."""
    for what, maximum in (
        (resource.RLIMIT_AS, memory_bytes),
        (resource.RLIMIT_CPU, cpu_s),
        (resource.RLIMIT_FSIZE, file_bytes),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(what)
        soft = maximum if hard == resource.RLIM_INFINITY else min(maximum, hard)
        resource.setrlimit(what, (soft, soft))
