"""The init of a guest on the lab's own root, begun by first.py, which has mounted /proc, /run, the
run's folder and this file's: it shows the guest some folders of the host, and goes on as init.py.
"""

import ctypes
import os

PLACES, LINKS = "/run/host", ".host/shown"
MS_RDONLY = 1
libc = ctypes.CDLL(None, use_errno=True)

for name in sorted(os.listdir(f"/run/gostlab/{LINKS}")):
    place, source = f"{PLACES}/{name}", f"{os.environ['GOSTLAB_BOOT']}/{LINKS}/{name}"
    os.makedirs(place)
    if libc.mount(b"none", place.encode(), b"hostfs", MS_RDONLY, source.encode()) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), place)
init: dict = {"__name__": "init"}
with open(f"{PLACES}/lab/gostlab/machine/init.py", encoding="utf-8") as file:
    exec(compile(file.read(), "init.py", "exec"), init)


def mount_all(_writable: str) -> dict:
    """Lay out what first.py and this file have not."""
    init["mount"]("sysfs", "/sys", "sysfs")
    orders: dict = init["mount_rest"]()
    return orders


init["mount_all"] = mount_all
init["main"]()
