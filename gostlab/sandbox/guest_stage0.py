#!/usr/bin/python3 -IS
"""The first process of a guest on the lab's own root: it mounts the run's folder and the lab's
init, and goes on as that.

This file lies in the root, which fits several versions of the lab; so it does no more than that.
Where things are on the host it knows by names in the run's folder, which are the same for every
run: Linux stirs its command line into its random numbers.
"""

import ctypes
import os

FOLDER = os.environ["GOSTLAB_BOOT"]
libc = ctypes.CDLL(None, use_errno=True)
for kind, mount_point, options in (
    ("proc", "/proc", ""),
    ("tmpfs", "/run", ""),
    ("hostfs", "/run/gostlab", FOLDER),
    ("hostfs", "/run/init", f"{FOLDER}/.host/init"),
):
    os.makedirs(mount_point, exist_ok=True)
    if libc.mount(b"none", mount_point.encode(), kind.encode(), 0, options.encode()) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), mount_point)
with open("/run/init/init.py", encoding="utf-8") as file:
    exec(compile(file.read(), "init.py", "exec"))
