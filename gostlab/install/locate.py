# SPDX-License-Identifier: MIT
"""Locate the lab's parts in the cache folder, on the machine and in this package.

The set-up (gostlab.install) puts everything that it builds or fetches into one cache folder:

    kernel/<version>-<hash of kernel/>/linux    the sandbox's kernel, with kernel.json, its
                                                headers, and the modules compiled with them
    kernels/<name>/                             a kernel of the user's
    cc/<name>/                                  a congestion control of the user's
    iproute2/<version>/                         iproute2 ≥ 6.6 if the system's is older
    iperf3/<version>/iperf3                     the lab's own iperf3s, each with its lib/
    programs/<package>/<version>/bin/           tunnels' and flows' programs that the system lacks
    root/<hash of its lock>/tree                the sandbox's own root
    relay/<hash of tunnel/>/relay               the lab's own relay
    gost/<version>/gost                         GOSTs that were fetched or added
    python/                                     the environment of what the lab imports
    tools/                                      the checkers that `make test` needs
    build/, log/                                unfinished builds, and their logs

`./lab setup --system` puts the same parts into one folder for all users of the machine, which is
searched after the user's own (gostlab.install.shared_install).

This module only reads; it builds, fetches and changes nothing.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gostlab.errors import Complaint
from gostlab.install.shared_install import trusted_folder
from gostlab.registry import kernels
from gostlab.registry.folders import BROUGHT, ROOT, cache_folder, own_kernels_folder
from gostlab.registry.iperf3_versions import OWN
from gostlab.registry.kernels import SHIPPED, DeclaredKernel
from gostlab.registry.tunnels import GOST, TunnelKind

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
OLDEST_KERNEL = (6, 16)  # the first version whose User-Mode Linux has seccomp=on
HEADERS = "headers.tar.xz"  # archive beside a kernel, with which its modules are compiled
OLDEST_IPROUTE2 = (6, 6)  # the first version whose tc sets netem's seed
LINKING = "by path"  # how unpacked programs name their libraries; others are unpacked anew
RACY_S = 2.0  # a file that changed less than this ago may change without a trace in its stat(2)
# Digests of files by path, device, inode, size, and times of modification and change.
_SHA256_BY_STAT: dict[tuple[str | int, ...], str] = {}


class MissingPart(Complaint):
    """An error for a missing part of the lab; the message names it and a remedy."""


@dataclass(frozen=True)
class Iproute2:
    """An installation of iproute2."""

    version: str | None  # None: not installed
    dirs: tuple[Path, ...] = ()  # prepended to PATH; empty: the system's
    tc_lib_dir: Path | None = None  # folder of netem's tables; None: the system's

    @property
    def is_new_enough(self) -> bool:
        return version_tuple(self.version or "0") >= OLDEST_IPROUTE2


@dataclass(frozen=True)
class Parts:
    """The locations of the parts, None for a missing one."""

    kernel: Path | None
    kernel_version: str | None
    iproute2: Iproute2
    relay: Path | None
    gost: Path | None
    gost_says: GostVersion | None
    iperf3: Mapping[str, OwnProgram] = field(default_factory=dict)  # the lab's own, by version
    programs: Mapping[str, OwnProgram] = field(default_factory=dict)  # tunnels' and flows', by name
    gosts: Mapping[str, TunnelBinary] = field(default_factory=dict)  # added ones, by name
    tunnel_why: str = ""  # why runs without a named GOST use theirs


@dataclass(frozen=True)
class OwnProgram:
    """A program of Debian's unpacked with its libraries for the lab alone, or the machine's."""

    path: Path
    version: str  # Debian's: 2.6.14-0+deb12u2
    sha256: str  # digest of program and libraries as packaged; the machine's: of the program

    def to_json(self) -> dict[str, str]:
        """Return the entry of parts.json and env.json."""
        return {**vars(self), "path": str(self.path)}

    @classmethod
    def from_json(cls, values: Mapping[str, str]) -> OwnProgram:
        return cls(Path(values["path"]), values["version"], values["sha256"])


@dataclass(frozen=True)
class TunnelBinary:
    """A tunnel's program: a real GOST, the lab's relay, the machine's or the lab's own."""

    path: Path
    program: str  # gost | relay | the program's own name
    version: str  # "gost 3.2.6", "relay 0.1, go1.26.8", "socat 1.7.4.4"
    sha256: str
    # The further programs of its ends, by name: path and sha256.
    helpers: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    # File offset of the instruction that reads the CPU's cycle counter for random numbers, which in
    # a run is 0 (gostlab.guest.tsc_trap); None: no such instruction.
    cycle_counter_at: int | None = None

    @property
    def is_hashed_alone(self) -> bool:
        """Return whether the digest is of the file alone, without libraries."""
        return self.program in (GOST, RELAY)

    @property
    def paths(self) -> list[Path]:
        """Return the paths of the program and its helpers."""
        return [self.path, *(Path(helper["path"]) for helper in self.helpers.values())]

    def to_json(self) -> dict[str, object]:
        """Return the entry of parts.json and env.json."""
        optional = {"helpers": self.helpers, "cycle_counter_at": self.cycle_counter_at}
        return {
            "path": str(self.path),
            "kind": self.program,
            "version": self.version,
            "sha256": self.sha256,
            **{key: value for key, value in optional.items() if value not in ({}, None)},
        }


def folders_of(part: str, cache: Path | None = None) -> list[Path]:
    """Return the folders in which a part may be, in order of preference.

    They are in the cache (default: the user's), in what root has built for all users of the
    machine, if that is trusted, and in this package.
    """
    user_folder = (cache or cache_folder()) / part
    return list(dict.fromkeys(filter(None, (user_folder, trusted_folder(part), BROUGHT / part))))


def versions_of(part: str, pattern: str, cache: Path | None = None) -> list[Path]:
    """Return the matches of a pattern in a part's folders, the user's first."""
    return [path for folder in folders_of(part, cache) for path in folder.glob(pattern)]


def newest_first(folders: Iterable[Path]) -> list[Path]:
    """Sort folders named after a version, the newest first."""
    return sorted(folders, key=lambda folder: version_tuple(folder.name), reverse=True)


def find_parts(gost: Path | None = None) -> Parts:
    """Locate every part; `gost`: the user's choice, which must be one (MissingPart)."""
    kernel, kernel_version = _find_kernel()
    found_gost, gost_says, reason = _find_gost(gost)
    return Parts(
        kernel=kernel,
        kernel_version=kernel_version,
        iproute2=find_iproute2(),
        relay=find_own_relay(),
        gost=found_gost,
        gost_says=gost_says,
        iperf3=find_iperf3s(),
        programs=find_programs(),
        gosts=find_gosts(),
        tunnel_why=reason,
    )


def find_python() -> Path | None:
    """Return the Python of the environment with the lab's packages; None if there is none."""
    folders = (folder for folder in folders_of("python") if (folder / "complete").is_file())
    return next((folder / "bin/python" for folder in folders), None)


def require_kernel(parts: Parts) -> Path:
    """Return the sandbox's kernel. Raises MissingPart."""
    if parts.kernel is not None:
        return parts.kernel
    named = os.environ.get("GOSTLAB_KERNEL")
    if named:
        raise MissingPart(
            f"GOSTLAB_KERNEL names {named}, which is not a kernel that runs: unset it, or name one"
        )
    for kernel in versions_of("kernel", f"*-{kernel_inputs_hash()}/linux"):
        if os.access(kernel, os.R_OK) and not os.access(kernel, os.X_OK):
            raise MissingPart(
                f"{kernel} cannot be executed, as its file system is mounted noexec or it has lost"
                " its mode: name a cache folder elsewhere with GOSTLAB_CACHE, and run ./lab setup"
            )
    raise MissingPart("the sandbox's kernel is missing: run ./lab setup")


def tunnel_binary(parts: Parts, asked: str = "auto") -> TunnelBinary:
    """Return the program of GOST's tunnels.

    auto: GOST if there is one, else the relay. Raises MissingPart.
    """
    if asked not in GOST_WORDS:
        if asked not in parts.gosts:
            there = ", ".join(parts.gosts) or "none"
            raise MissingPart(
                f"gost: {asked}: not there (added: {there}): ./lab gost add FILE|VERSION"
            )
        return parts.gosts[asked]
    if parts.gost is not None and asked == AUTO:
        version = str(parts.gost_says)
        return TunnelBinary(parts.gost, "gost", version, file_sha256(parts.gost))
    if parts.relay is not None:
        version = relay_version(parts.relay)
        return TunnelBinary(parts.relay, "relay", version, file_sha256(parts.relay))
    raise MissingPart("there is neither GOST nor the lab's relay: run ./lab setup")


def explain_unusable_tunnel(
    kind: TunnelKind,
    binary: TunnelBinary,
    others: Mapping[str, TunnelBinary] = {},
    options: Mapping[str, object] = {},
) -> str:
    """Return why a program cannot run one of GOST's tunnels and which of `others` can.

    "" if it can. GOST itself treats an unknown transport as plain TCP, and ignores an unknown
    option.
    """
    if options.get("nagle") == "on" and binary.program == GOST:
        return f"nagle: {binary.version} has no switch for TCP_NODELAY: take gost: relay"
    if not kind.since or (binary.program == GOST and has_version(binary.version, kind.since)):
        return ""
    able = ", ".join(name for name, one in others.items() if has_version(one.version, kind.since))
    advice = f"take gost: {able}" if able else "./lab gost add FILE brings one"
    return f"{binary.version} has no {kind.name}: GOST has it from {kind.since} on: {advice}"


def has_version(output: str, since: str) -> bool:
    """Return whether a GOST ("gost 3.2.6, go1.26") has a version; 3.0.0-rc8 is before 3.0.0."""
    match = re.search(r"\d[\w.+-]*", output)
    version = match[0] if match else ""
    return (version_tuple(version), "-" not in version) >= (version_tuple(since), "-" not in since)


def tunnel_program(
    kind: TunnelKind, provided: TunnelBinary | None, own: Mapping[str, OwnProgram] = {}
) -> TunnelBinary | None:
    """Return the program of a tunnel, None if any of its programs is missing.

    It is the machine's, the lab's own or `provided`.
    """
    helpers = {}
    for name in kind.helpers:
        program = find_program(name, own)
        if program is None:
            return None
        helpers[name] = {"path": str(program.path), "sha256": program.sha256}
    if kind.program == GOST:
        return replace(provided, helpers=helpers) if provided else None
    program = find_program(kind.program, own)
    if program is None:
        return None
    name = program.path.name
    printed = re.search(kind.version_pattern, read_output([program.path, *kind.version_words]))
    version = (printed[printed.re.groups and 1] or "") if printed else ""
    return TunnelBinary(program.path, name, f"{name} {version}".strip(), program.sha256, helpers)


def find_program(name: str, own: Mapping[str, OwnProgram]) -> OwnProgram | None:
    """Return a program by name: the machine's, else the lab's own; None if neither exists."""
    path = shutil.which(name, path=f"{os.environ.get('PATH', '')}:{SYSTEM_PATH}")
    if path is None:
        return own.get(name)
    return OwnProgram(Path(path), "", file_sha256(Path(path)))


def find_programs(cache: Path | None = None) -> dict[str, OwnProgram]:
    """Return the programs unpacked for the lab alone, by name; the later of two versions."""
    programs: dict[str, OwnProgram] = {}
    for record in sorted(versions_of("programs", "*/*/package.json", cache)):
        values = read_json(record) or {}
        if values.get("linking") != LINKING:
            continue
        for name, sha256 in values.get("sha256", {}).items():
            programs[name] = OwnProgram(record.parent / "bin" / name, values["version"], sha256)
    return programs


# -- the sandbox's kernel


def kernel_inputs_hash(folder: Path = ROOT / "kernel") -> str:
    """Return the digest of the inputs of the shipped kernel, besides its source."""
    return version_inputs_hash(kernels.shipped_declaration(folder / "versions"))


def built_kernels(cache: Path | None = None) -> list[Path]:
    """Return the cached kernels of today's options, patches and scripts, newest first."""
    return [
        folder / "linux"
        for folder in newest_first(versions_of("kernel", f"*-{kernel_inputs_hash()}", cache))
        if os.access(folder / "linux", os.X_OK) and (folder / HEADERS).is_file()
    ]


def kernel_record(kernel: Path) -> dict[str, object]:
    """Return a kernel's kernel.json, or what the kernel itself prints."""
    return read_built_record(kernel) or {
        "version": read_output([kernel, "--version"]).strip() or None,
        "hz": kernel_hz(kernel),
    }


def read_built_record(kernel: Path) -> dict[str, object] | None:
    """Return the record that the build wrote; None for a kernel from elsewhere."""
    return read_json(kernel.parent / "kernel.json")


def kernel_for(name: str, parts: Parts) -> Path:
    """Return a run's kernel by name. Raises MissingPart."""
    if name == SHIPPED:
        return require_kernel(parts)
    if name not in kernels.declared_kernels():
        user_kernel = own_kernels_folder() / name / "linux"
        if os.access(user_kernel, os.X_OK):
            return user_kernel
        raise MissingPart(f"kernel {name} is not there: ./lab kernel add TREE --name {name}")
    built = built_version(name)
    if built is None:
        raise MissingPart(
            f"kernel {name} is not built yet: ./lab kernel add {name} (about five minutes)"
        )
    return built


def built_version(name: str, cache: Path | None = None) -> Path | None:
    """Return the kernel of a declared version built from today's inputs, or None.

    It may be the shipped kernel.
    """
    for kernel in built_kernels(cache):
        if str(kernel_record(kernel)["version"]).startswith(f"{name}."):
            return kernel
    declared = kernels.declared_kernels()[name]
    folders = versions_of("kernel", f"{name}.*-{version_inputs_hash(declared)}", cache)
    built = (folder / "linux" for folder in newest_first(folders))
    return next((kernel for kernel in built if os.access(kernel, os.X_OK)), None)


def version_inputs_hash(declared: DeclaredKernel) -> str:
    """Return the digest of a declared version's inputs but its source and its patches' messages."""
    folder = declared.file.parents[2]
    digest = hashlib.sha256(f"{versions_common_hash(folder)}\n".encode())
    digest.update(declared.file.read_bytes())
    for patch in declared.series:
        digest.update(f"{patch.label}\n{patch.diff()}".encode())
    for profile in sorted((folder / "profiles").glob(f"linux-{declared.name}.*.tar.xz")):
        digest.update(f"{profile.name}\n".encode() + profile.read_bytes())
    return digest.hexdigest()[:12]


def versions_common_hash(folder: Path = ROOT / "kernel") -> str:
    """Return the digest of the inputs that all kernels share."""
    shared = [path for name in ("precompiled", "src") for path in (folder / name).rglob("*")]
    return hash_of_files(folder, [folder / "kconfig.fragment", folder / "build.sh", *shared])[:12]


def seccomp_args(kernel: Path) -> list[str]:
    """Return the kernel argument for running programs by seccomp, if the kernel has it.

    It is the faster way to run them. A kernel from elsewhere is not executed to find out: it would
    run unconfined, and one that does not know the argument passes it to init, which ignores it.
    """
    record = read_built_record(kernel)
    if record is None:
        return ["seccomp=on"]
    has_seccomp = (
        version_tuple(str(record.get("version") or "")) >= kernels.FEATURES["seccomp"].since
    )
    return ["seccomp=on"] if has_seccomp else []


def kernel_hz(kernel: Path) -> int | None:
    """Return a kernel's tick rate, None for a kernel that does not run."""
    match = re.search(r"^CONFIG_HZ=(\d+)$", read_output([kernel, "--showconfig"]), re.MULTILINE)
    return int(match[1]) if match else None


def _find_kernel() -> tuple[Path | None, str | None]:
    named = os.environ.get("GOSTLAB_KERNEL")
    if named:
        kernel = Path(named).absolute()
        version = read_output([kernel, "--version"]).strip()
        return (kernel, version) if re.match(r"\d+\.\d+", version) else (None, None)
    for kernel in built_kernels():
        return kernel, str(kernel_record(kernel)["version"])
    return None, None


# -- iproute2


def find_iproute2(cache: Path | None = None) -> Iproute2:
    """Return the system's iproute2 if it is new enough, else the lab's, else the system's."""
    system = Iproute2(_iproute2_version(SYSTEM_PATH))
    if system.is_new_enough:
        return system
    for folder in newest_first(versions_of("iproute2", "*[0-9]", cache)):
        private = inspect_iproute2(folder)
        if private.is_new_enough:
            return private
    return system


def inspect_iproute2(folder: Path) -> Iproute2:
    """Inspect an iproute2 unpacked into a folder; version is None unless ip, tc and ss run here."""
    dirs = tuple(
        folder / name for name in ("sbin", "usr/sbin", "bin", "usr/bin") if (folder / name).is_dir()
    )
    tables = next((path.parent for path in folder.glob("**/tc/normal.dist")), None)
    return Iproute2(_iproute2_version(":".join(map(str, dirs))), dirs, tables)


def _iproute2_version(search_path: str) -> str | None:
    versions = []
    for tool in ("tc", "ip", "ss"):
        path = shutil.which(tool, path=search_path)
        output = read_version_output(path, "-V") if path else ""
        match = re.search(r"iproute2-(?:ss)?v?([\d.]*\d)", output)
        if match is None:
            return None
        versions.append(match[1])
    return versions[0]


# -- iperf3


def find_iperf3s(cache: Path | None = None) -> dict[str, OwnProgram]:
    """Return the lab's own iperf3s, by version, without executing them."""
    programs: dict[str, OwnProgram] = {}
    for version in OWN:
        for folder in folders_of("iperf3", cache):
            with contextlib.suppress(OSError, ValueError, KeyError):
                values = json.loads((folder / version / "iperf3.json").read_text(encoding="utf-8"))
                path = str(folder / version / "iperf3")
                if values.get("linking") == LINKING:
                    programs.setdefault(version, OwnProgram.from_json({**values, "path": path}))
    return programs


def find_own_iperf3(version: str, cache: Path | None = None) -> OwnProgram | None:
    """Return one of the lab's own iperf3s; None if it does not run here."""
    program = find_iperf3s(cache).get(version)
    match = (
        re.match(r"iperf (\d[\d.]*\d)", read_version_output(program.path, "--version"))
        if program
        else None
    )
    return program if match and match[1] == version else None


# -- tunnel programs


def find_own_relay(cache: Path | None = None) -> Path | None:
    """Return the relay built from today's source; None if there is none."""
    relays = versions_of("relay", f"{relay_inputs_hash()}/relay", cache)
    return next((relay for relay in relays if os.access(relay, os.X_OK)), None)


def relay_inputs_hash(folder: Path = ROOT / "tunnel") -> str:
    """Return the digest of the relay's source, without tests, and the Go that builds it."""
    sources = [path for path in folder.rglob("*.go") if not path.name.endswith("_test.go")]
    names = ("go.mod", "go.sum", "toolchain")
    return hash_of_files(folder, [*sources, *(folder / name for name in names)])[:12]


def relay_version(relay: Path) -> str:
    """Return the version of the relay and its Go: "relay 0.1, go1.26.8"."""
    match = re.match(r"(relay \S+)(?: \((go\S+))?", read_version_output(relay, "-V"))
    return ", ".join(filter(None, match.groups())) if match else "relay"


# Names of GOSTs in an experiment, and the reserved words in their place.
GOST_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,31}")
AUTO, RELAY = "auto", "relay"
GOST_WORDS = (AUTO, RELAY)
SEVERAL_GOSTS = "several are levels of gost: --set gost=A,B (./lab try: --setting.gost A,B)"
OLDEST_GOST = (2, 11)
ELF = b"\x7fELF"


@dataclass(frozen=True)
class GostVersion:
    """The output of `gost -V`."""

    version: str  # 3.2.6
    go: str  # go1.26.8

    def __str__(self) -> str:
        return f"gost {self.version}, {self.go}" if self.go else f"gost {self.version}"


def read_gost_version(binary: Path) -> GostVersion | None:
    """Return the version of a GOST and its Go; None for a program that is not GOST."""
    match = re.match(r"gost\s+v?(\d+\.\d+\S*)(?:\s+\((go\S+))?", read_version_output(binary, "-V"))
    return GostVersion(match[1], match[2] or "") if match else None


def recorded_gost_version(binary: Path) -> GostVersion | None:
    """Return the recorded version of an added GOST if its file is unchanged and executable."""
    record = binary.with_name("gost.json")
    with contextlib.suppress(OSError, KeyError, TypeError):
        if binary.stat().st_mtime_ns <= record.stat().st_mtime_ns and os.access(binary, os.X_OK):
            values = read_json(record) or {}
            return GostVersion(values["version"], values["go"])
    return None


def gost_too_old(said: GostVersion) -> bool:
    """Return whether a GOST lacks the relay protocol, which came with 2.11."""
    return version_tuple(said.version) < OLDEST_GOST


def explain_no_gost(program: Path) -> str:
    """Return why a program is no GOST for the lab, as a predicate."""
    if not program.is_file():
        reason = f"neither a file nor a GOST that was added ({', '.join(find_gosts()) or 'none'})"
        return f"{reason}; {SEVERAL_GOSTS}" if "," in program.name else reason
    version = read_gost_version(program)
    if version is not None and gost_too_old(version):
        oldest = format_version(OLDEST_GOST)
        return f"{version} is too old: it has no relay protocol, which came with {oldest}"
    with program.open("rb") as file:
        head = file.read(20)
    machine = int.from_bytes(head[18:20], "little") if head.startswith(ELF) else None
    if machine is not None and machine != host_elf_machine():
        return "a program for another processor architecture than this machine's"
    return "not a GOST that runs here (its -V names none)"


def host_elf_machine() -> int:
    """Return the architecture (e_machine) of this machine's own ELF programs."""
    with open(os.path.realpath("/proc/self/exe"), "rb") as file:
        return int.from_bytes(file.read(20)[18:20], "little")


def find_gosts() -> dict[str, TunnelBinary]:
    """Return the GOSTs that were added or fetched, by their names in an experiment."""
    gosts: dict[str, TunnelBinary] = {}
    for binary in sorted(versions_of("gost", "*/gost")):
        record = read_json(binary.with_name("gost.json")) or {}
        version = GostVersion(
            str(record.get("version") or binary.parent.name), str(record.get("go", ""))
        )
        sha256 = str(record.get("sha256") or file_sha256(binary))
        gosts.setdefault(binary.parent.name, TunnelBinary(binary, "gost", str(version), sha256))
    return gosts


def home_expanded(path: str | Path) -> Path:
    """Return a path with its ~ expanded; one of an unknown user stays as it is."""
    return Path(os.path.expanduser(path))


def _find_gost(named: Path | None) -> tuple[Path | None, GostVersion | None, str]:
    """Return the GOST of runs that request none, its version, and the reason."""
    env = os.environ.get("GOSTLAB_GOST")
    for choice, reason in ((named, "--gost"), (Path(env) if env else None, "GOSTLAB_GOST")):
        if choice is not None:
            if str(choice) == RELAY:
                return None, None, f"{reason} says so"
            added = find_gosts().get(str(choice))
            binary = added.path if added else home_expanded(choice).resolve()
            version = read_gost_version(binary)
            if version is None or gost_too_old(version):
                raise MissingPart(f"{choice} ({reason}): {explain_no_gost(binary)}")
            return binary, version, f"{reason} names it"
    on_path = shutil.which("gost")
    candidates = [(Path(on_path).resolve(), "it is on PATH")] if on_path else []
    newest = sorted(find_gosts().items(), key=lambda item: version_tuple(item[0]), reverse=True)
    candidates += [(gost.path, "it was added or fetched") for _, gost in newest]
    for binary, reason in candidates:
        version = recorded_gost_version(binary) or read_gost_version(binary)
        # GOST 2 is not chosen: its logs and exit codes differ. --gost still accepts it.
        if version is not None and version.version.startswith("3."):
            return binary, version, reason
    return None, None, "there is no GOST: ./lab gost add FILE"


# -- helpers


def version_tuple(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version: "7.3.4-1~bpo13+1" is (7, 3, 4)."""
    match = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(number) for number in match[0].split(".")) if match else ()


def format_version(version: tuple[int, ...]) -> str:
    """Format a version tuple: 7.3.4."""
    return ".".join(map(str, version))


def parse_pins(text: str) -> dict[str, str]:
    """Parse a file of pins: `name=value` lines and comments."""
    return dict(re.findall(r"^(\w+)=(\S+)$", text, re.MULTILINE))


def read_json(path: Path) -> dict[str, Any] | None:
    """Return a record of the set-up; None if it is missing or unreadable."""
    try:
        record: dict[str, object] = json.loads(path.read_text(encoding="utf-8"))
        return record
    except (OSError, ValueError):
        return None


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file's content, cached while its stat(2) is unchanged.

    A file that changed in the last RACY_S is hashed each time: another change may leave it with the
    same size and times, because a file system's clock has ticks of some milliseconds.
    """
    stat = os.stat(path)
    changed_ns = (stat.st_mtime_ns, stat.st_ctime_ns)
    key = (str(path), stat.st_dev, stat.st_ino, stat.st_size, *changed_ns)
    digest = _SHA256_BY_STAT.get(key)
    if digest is None:
        with open(path, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if time.time_ns() - max(changed_ns) > RACY_S * 1e9:
            _SHA256_BY_STAT[key] = digest
    return digest


def read_version_output(program: str | Path, word: str) -> str:
    """Return a program's output for `-V` and the like, cached while its file is unchanged."""
    try:
        file = os.stat(program)
    except OSError:
        return ""
    return _cached_version_output(str(program), word, file.st_ino, file.st_size, file.st_mtime_ns)


@functools.cache
def _cached_version_output(program: str, word: str, *_file: int) -> str:
    return read_output([program, word])


def read_output(argv: list[str | Path], timeout_s: float = 60.0) -> str:
    """Return a program's output, standard error included.

    It is empty for a program that cannot run or does not end; such a program is killed with all
    that it has started. An emulated machine needs more than five seconds to start a GOST.
    """
    try:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            process_group=0,
        )
    except OSError:
        return ""
    with process, contextlib.suppress(subprocess.TimeoutExpired):
        try:
            return process.communicate(timeout=timeout_s)[0].decode(errors="replace")
        except BaseException:  # at the limit, or on a signal
            end_group(process)
            raise
    return ""


def end_group(process: subprocess.Popen[bytes]) -> None:
    """Kill what is left of a process group, given its leader, which may have ended."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def hash_of_files(folder: Path, files: Iterable[Path]) -> str:
    """Return the SHA-256 of the names and contents of files below a folder."""
    existing = (path for path in sorted(files) if path.is_file())
    return hash_of_named((str(path.relative_to(folder)), path) for path in existing)


def hash_of_named(files: Iterable[tuple[str, Path]]) -> str:
    """Return the SHA-256 of files under the given names."""
    digest = hashlib.sha256()
    for name, path in files:
        digest.update(f"{name}\0{file_sha256(path)}\n".encode("utf-8", "replace"))
    return digest.hexdigest()
