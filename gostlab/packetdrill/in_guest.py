# SPDX-License-Identifier: MIT
"""Run packetdrill scripts one after another in a guest.

    python3 -m gostlab.packetdrill.in_guest FOLDER

FOLDER holds order.json: packetdrill, scripts (their folder), names, words (further arguments).

Each script has its own network namespace, as in the kernel's ksft_runner.sh. A row is appended to
found.jsonl after each script: its name, whether it passed, and packetdrill's output.
"""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import TypedDict

# Arguments of the kernel's ksft_runner.sh. A script without a protocol uses IPv4, as the lab does.
WORDS = {
    "ipv4": """--ip_version=ipv4 --local_ip=192.168.0.1 --gateway_ip=192.168.0.1
 --netmask_ip=255.255.0.0 --remote_ip=192.0.2.1 -D TFO_COOKIE=3021b9d889017eeb
 -D TFO_COOKIE_ZERO=b7c12350a90dc8f5 -D CMSG_LEVEL_IP=SOL_IP -D CMSG_TYPE_RECVERR=IP_RECVERR""",
    "ipv6": """--ip_version=ipv6 --mtu=1520 --local_ip=fd3d:0a0b:17d6::1
 --gateway_ip=fd3d:0a0b:17d6:8888::1 --remote_ip=fd3d:fa7b:d17d::1
 -D TFO_COOKIE=c1d1e9742a47a9bc -D TFO_COOKIE_ZERO=82af1a8f9a205c34
 -D CMSG_LEVEL_IP=SOL_IPV6 -D CMSG_TYPE_RECVERR=IPV6_RECVERR""",
}
LIMIT_S = 300.0  # limit on the guest's clock
MAX_SAID = 2000


def main(argv: list[str]) -> int:
    """Run all scripts and return 0, whatever their results are."""
    folder = Path(argv[1])
    order: GuestOrder = json.loads((folder / "order.json").read_text(encoding="utf-8"))
    with (folder / "found.jsonl").open("a", encoding="utf-8") as results:
        for name in order["names"]:
            results.write(json.dumps({"name": name, **outcome(order, name)}) + "\n")
            results.flush()
    return 0


class GuestOrder(TypedDict):
    """The contents of order.json."""

    packetdrill: str
    scripts: str
    names: list[str]
    options: list[str]


def outcome(order: GuestOrder, name: str) -> dict[str, str | bool]:
    """Return whether a script passes, and its output."""
    script = Path(order["scripts"]) / name
    named = re.search(r"^--ip_version=(ipv[46])$", script.read_text(errors="replace"), re.M)
    args = [*WORDS[named[1] if named else "ipv4"].split(), *order["options"]]
    try:
        done = subprocess.run(
            ["unshare", "-n", order["packetdrill"], *args, name],
            cwd=script.parent,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
            timeout=LIMIT_S,
        )
    except subprocess.TimeoutExpired:
        return {"passed": False, "said": f"not over after {LIMIT_S:.0f} s"}
    output = done.stdout.decode(errors="replace").strip()[-MAX_SAID:]
    return {"passed": done.returncode == 0, "said": output}


if __name__ == "__main__":
    sys.exit(main(sys.argv))
