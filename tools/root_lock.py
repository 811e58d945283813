# SPDX-License-Identifier: MIT
"""Pin the packages of the sandbox's root (gostlab/install/root.lock) to what the mirror has now.

python3 -m tools.root_lock
"""

import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from gostlab.install import apt as archive
from gostlab.install import locate
from gostlab.install.build_env import InstallContext
from gostlab.install.deb_extract import is_program, needed_libraries, shared_libraries, unpack
from gostlab.install.rootfs import LOCK, SUITE, excluded
from gostlab.registry.folders import cache_folder
from gostlab.registry.iperf3_versions import OWN

# Programs and Python's modules; the libraries that they need are added when the lock is written.
# libgcc-s1 is listed because no program names it: glibc opens it when a thread ends (stunnel's).
PACKAGES = (
    "base-files base-passwd bash coreutils dash debianutils diffutils findutils gcc-12-base grep"
    " gzip libgcc-s1 hostname libc-bin mawk mount ncurses-base netbase procps sed tar util-linux"
    " python3 python3-minimal python3.11 python3.11-minimal libpython3-stdlib"
    " libpython3.11-stdlib libpython3.11-minimal python3-distutils python3-lib2to3 python3-yaml"
    " mininet ethtool iputils-ping net-tools wget irtt nginx nginx-common openssl openvpn"
    " wireguard-tools openssh-client openssh-server stunnel4 shadowsocks-libev"
).split()
BACKPORTS = ("iproute2",)  # its tc sets netem's seed
TOOLS = ("patchelf",)  # needed for the build, not part of the root


def write_lock(bench: InstallContext) -> None:
    """Pin the mirror's current packages. Raises SetupError."""
    apt = archive.private_apt(bench.apt_folder, "the packages to pin")
    scratch = bench.cache / "build" / "lock"
    shutil.rmtree(scratch, ignore_errors=True)
    lines: set[str] = set()

    def pin(target: str, suite: str, packages: Sequence[str]) -> None:
        """Pin packages in the versions of the suite read last."""
        for file in apt.download_current(packages, scratch / target / suite):
            name, version, _ = file.name.split("_")
            version = version.replace("%3a", ":")
            lines.add(f"{target} {suite} {name} {version} {locate.file_sha256(file)}")

    backports = f"{SUITE}-backports"
    apt.read_suites([backports])
    pin("root", backports, BACKPORTS)
    apt.read_suites([SUITE])
    pin("root", SUITE, PACKAGES)
    libraries = [
        item for item in apt.with_libraries([*PACKAGES, *BACKPORTS]) if item not in PACKAGES
    ]
    libraries = [item for item in libraries if item not in BACKPORTS]
    files = {
        item.name.split("_")[0]: item for item in apt.download_current(libraries, scratch / "all")
    }
    pin("root", SUITE, needed_packages(bench, scratch, files))
    pin("tool", SUITE, [*TOOLS, "libstdc++6"])
    for iperf3 in OWN.values():
        apt.read_suites([iperf3.suite])
        pin(f"iperf3/{iperf3.version}", iperf3.suite, ["iperf3", *iperf3.libraries])
    now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    header = f"# What the sandbox's root is made of, at {now}: python3 -m tools.root_lock\n"
    LOCK.write_text(header + "".join(f"{line}\n" for line in sorted(lines)), encoding="utf-8")


def needed_packages(bench: InstallContext, scratch: Path, files: Mapping[str, Path]) -> list[str]:
    """Return the packages whose libraries programs, Python's modules or libraries need."""
    log = bench.log("root-lock")
    unpack((scratch / "root").rglob("*.deb"), scratch / "programs", log, excluded())
    owner = {}
    libraries = {}
    for name, file in files.items():
        unpack([file], scratch / "libraries" / name, log, excluded())
        for path in shared_libraries(scratch / "libraries" / name):
            owner[path.name] = name
            libraries[path.name] = path
    programs = [path for path in (scratch / "programs").rglob("*") if is_program(path)]
    return sorted({owner[name] for name in needed_libraries(programs, libraries)})


def main() -> None:
    """Write the lock."""
    bench = InstallContext(cache_folder(), 1, print, -1, step="root")
    (bench.cache / "log").mkdir(parents=True, exist_ok=True)
    write_lock(bench)


if __name__ == "__main__":
    main()
