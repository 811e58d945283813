"""Linux's own packetdrill scripts, run one after another in a guest.

    python3 -m gostlab.packetdrill.in_guest FOLDER

FOLDER holds order.json: packetdrill, scripts (their folder), names, words (further ones).

Each has a network namespace of its own, as in the kernel's ksft_runner.sh. A line of found.jsonl
for each, as soon as it is known: its name, whether it passed, and what packetdrill said.
"""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

# As in the kernel's ksft_runner.sh. A script without a protocol runs by IPv4, as the lab does.
WORDS = {
    "ipv4": """--ip_version=ipv4 --local_ip=192.168.0.1 --gateway_ip=192.168.0.1
 --netmask_ip=255.255.0.0 --remote_ip=192.0.2.1 -D TFO_COOKIE=3021b9d889017eeb
 -D TFO_COOKIE_ZERO=b7c12350a90dc8f5 -D CMSG_LEVEL_IP=SOL_IP -D CMSG_TYPE_RECVERR=IP_RECVERR""",
    "ipv6": """--ip_version=ipv6 --mtu=1520 --local_ip=fd3d:0a0b:17d6::1
 --gateway_ip=fd3d:0a0b:17d6:8888::1 --remote_ip=fd3d:fa7b:d17d::1
 -D TFO_COOKIE=c1d1e9742a47a9bc -D TFO_COOKIE_ZERO=82af1a8f9a205c34
 -D CMSG_LEVEL_IP=SOL_IPV6 -D CMSG_TYPE_RECVERR=IPV6_RECVERR""",
}
LIMIT_S = 300.0  # of the guest's clock
MAX_SAID = 2000


def main(argv: list[str]) -> int:
    """Run them all; exit status 0 whatever they say."""
    folder = Path(argv[1])
    order = json.loads((folder / "order.json").read_text(encoding="utf-8"))
    with (folder / "found.jsonl").open("a", encoding="utf-8") as found:
        for name in order["names"]:
            found.write(json.dumps({"name": name, **outcome(order, name)}) + "\n")
            found.flush()
    return 0


def outcome(order: dict[str, Any], name: str) -> dict[str, str | bool]:
    """Whether a script passes, and what was said."""
    script = Path(order["scripts"]) / name
    named = re.search(r"^--ip_version=(ipv[46])$", script.read_text(errors="replace"), re.M)
    words = [*WORDS[named[1] if named else "ipv4"].split(), *order["words"]]
    try:
        done = subprocess.run(
            ["unshare", "-n", order["packetdrill"], *words, name],
            cwd=script.parent,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
            timeout=LIMIT_S,
        )
    except subprocess.TimeoutExpired:
        return {"passed": False, "said": f"not over after {LIMIT_S:.0f} s"}
    said = done.stdout.decode(errors="replace").strip()[-MAX_SAID:]
    return {"passed": done.returncode == 0, "said": said}


if __name__ == "__main__":
    sys.exit(main(sys.argv))
