"""The lab's parts: what the set-up made, and where it is.

The set-up (gostlab.install) puts everything that it builds or fetches into one cache folder:

    kernel/<version>-<hash of kernel/>/linux    the sandbox's kernel, with kernel.json beside it,
                                                its headers, and the modules made with them
    kernels/<name>/                             a kernel of the user's own
    cc/<name>/                                  a congestion control of the user's own
    iproute2/<version>/                         iproute2 ≥ 6.6 where the system's is older
    iperf3/<version>/iperf3                     the lab's own iperf3s, each with lib/ of its own
    programs/<package>/<version>/bin/           tunnels' and flows' programs that the system lacks
    root/<hash of its lock>/tree                the sandbox's own root
    relay/<hash of tunnel/>/relay               the lab's own relay
    gost/<version>/gost                         GOSTs that were fetched or added
    tools/                                      the checkers that `make test` needs
    build/, log/                                what is being made, and what the makers said

`./lab setup --system` puts the same into one folder for all users of the machine, which is looked
at after the user's own (gostlab.install.shared_install).

This module only looks; it builds, fetches and changes nothing.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gostlab.errors import Complaint
from gostlab.install.shared_install import trusted_folder
from gostlab.registry import kernels
from gostlab.registry.folders import BROUGHT, ROOT, cache_folder, own_kernels_folder
from gostlab.registry.iperf3_versions import OWN
from gostlab.registry.kernels import SHIPPED, Declared
from gostlab.registry.tunnels import GOST, TunnelKind

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
OLDEST_KERNEL = (6, 16)  # the first whose User-Mode Linux has seccomp=on
HEADERS = "headers.tar.xz"  # beside a kernel: what a module of it is compiled with
OLDEST_IPROUTE2 = (6, 6)  # the first whose tc sets netem's seed


class MissingPart(Complaint):
    """A part of the lab is not there. The message says which, and what to do."""


@dataclass(frozen=True)
class Iproute2:
    """One iproute2."""

    version: str | None  # None: there is none
    dirs: tuple[Path, ...] = ()  # go in front of PATH; empty: the system's own
    tc_lib_dir: Path | None = None  # where its tc finds netem's tables; None: where the system's is

    @property
    def is_new_enough(self) -> bool:
        return version_tuple(self.version or "0") >= OLDEST_IPROUTE2


@dataclass(frozen=True)
class Parts:
    """Where each part is; None for one that is not there."""

    kernel: Path | None
    kernel_version: str | None
    iproute2: Iproute2
    relay: Path | None
    gost: Path | None
    gost_says: GostSays | None
    iperf3: Mapping[str, OwnProgram] = field(default_factory=dict)  # the lab's own, by version
    programs: Mapping[str, OwnProgram] = field(default_factory=dict)  # tunnels' and flows', by name
    gosts: Mapping[str, TunnelBinary] = field(default_factory=dict)  # added ones, by name
    tunnel_why: str = ""  # why runs that name no GOST take what they take


@dataclass(frozen=True)
class OwnProgram:
    """A program of Debian's, unpacked with its libraries for the lab alone; or the machine's."""

    path: Path
    version: str  # Debian's: 2.6.14-0+deb12u2
    sha256: str  # of the program and its libraries, as they came; of the machine's alone

    def to_json(self) -> dict[str, str]:
        """As parts.json and env.json have it."""
        return {**vars(self), "path": str(self.path)}

    @classmethod
    def from_json(cls, values: Mapping[str, str]) -> OwnProgram:
        return cls(Path(values["path"]), values["version"], values["sha256"])


@dataclass(frozen=True)
class TunnelBinary:
    """A tunnel's program: a real GOST, the lab's relay, the machine's or the lab's own."""

    path: Path
    kind: str  # gost | relay | the program's own name
    version: str  # "gost 3.2.6", "relay 0.1, go1.26.8", "socat 1.7.4.4"
    sha256: str
    # by name the further programs that its ends are started with: path, sha256
    helpers: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    # where, bytes into its file, it reads the CPU's cycle counter for random numbers, which in a
    # run is 0 (gostlab.guest.tsc_trap); None: nowhere
    cycle_counter_at: int | None = None

    @property
    def is_hashed_alone(self) -> bool:
        """Whether its hash is of its file, and of no library."""
        return self.kind in (GOST, RELAY)

    @property
    def paths(self) -> list[Path]:
        """Every program of it."""
        return [self.path, *(Path(each["path"]) for each in self.helpers.values())]

    def to_json(self) -> dict[str, Any]:
        """As parts.json and env.json have it."""
        found = {**vars(self), "path": str(self.path)}
        return {name: value for name, value in found.items() if value not in ({}, None)}


def folders_of(part: str, cache: Path | None = None) -> list[Path]:
    """Where a part may be: in the cache (default: the user's), in what root has built for all users
    of the machine, if that is to be trusted, and in this package. The first goes first.
    """
    own = (cache or cache_folder()) / part
    return list(dict.fromkeys(filter(None, (own, trusted_folder(part), BROUGHT / part))))


def versions_of(part: str, pattern: str, cache: Path | None = None) -> list[Path]:
    """What matches a pattern in a part's folders: the user's first, each in no order."""
    return [path for folder in folders_of(part, cache) for path in folder.glob(pattern)]


def newest_first(folders: Iterable[Path]) -> list[Path]:
    """Folders that are named after a version, the newest first."""
    return sorted(folders, key=lambda folder: version_tuple(folder.name), reverse=True)


def find_parts(gost: Path | None = None) -> Parts:
    """Look for every part; `gost`: what the user named, which must be one (MissingPart)."""
    kernel, kernel_version = _find_kernel()
    found_gost, gost_says, why = _find_gost(gost)
    return Parts(
        kernel=kernel,
        kernel_version=kernel_version,
        iproute2=find_iproute2(),
        relay=find_relay(),
        gost=found_gost,
        gost_says=gost_says,
        iperf3=find_iperf3s(),
        programs=find_programs(),
        gosts=find_gosts(),
        tunnel_why=why,
    )


def require_kernel(parts: Parts) -> Path:
    """The sandbox's kernel. Raises MissingPart."""
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
    """What runs GOST's tunnels; auto: GOST if there is one, else the relay. Raises MissingPart."""
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


def why_not_through(
    kind: TunnelKind,
    binary: TunnelBinary,
    others: Mapping[str, TunnelBinary] = {},
    options: Mapping[str, Any] = {},
) -> str:
    """Why a program cannot run one of GOST's tunnels, and what can (of `others`); "" if it can.
    GOST itself takes an unknown transport for plain TCP, and passes over an unknown word.
    """
    if options.get("nagle") == "on" and binary.kind == GOST:
        return f"nagle: {binary.version} has no switch for TCP_NODELAY: take gost: relay"
    if not kind.since or (binary.kind == GOST and has_since(binary.version, kind.since)):
        return ""
    able = ", ".join(name for name, one in others.items() if has_since(one.version, kind.since))
    advice = f"take gost: {able}" if able else "./lab gost add FILE brings one"
    return f"{binary.version} has no {kind.name}: GOST has it from {kind.since} on: {advice}"


def has_since(said: str, since: str) -> bool:
    """Whether a GOST ("gost 3.2.6, go1.26") is as new as a version; 3.0.0-rc8 is before 3.0.0."""
    found = re.search(r"\d[\w.+-]*", said)
    own = found[0] if found else ""
    return (version_tuple(own), "-" not in own) >= (version_tuple(since), "-" not in since)


def tunnel_program(
    kind: TunnelKind, provided: TunnelBinary | None, own: Mapping[str, OwnProgram] = {}
) -> TunnelBinary | None:
    """What a tunnel runs: the machine's, the lab's own or `provided`; None if any is missing."""
    helpers = {}
    for name in kind.helpers:
        found = find_program(name, own)
        if found is None:
            return None
        helpers[name] = {"path": str(found.path), "sha256": found.sha256}
    if kind.program == GOST:
        return replace(provided, helpers=helpers) if provided else None
    found = find_program(kind.program, own)
    if found is None:
        return None
    name = found.path.name
    printed = re.search(kind.version_pattern, output_of([found.path, *kind.version_words]))
    version = (printed[printed.re.groups and 1] or "") if printed else ""
    return TunnelBinary(found.path, name, f"{name} {version}".strip(), found.sha256, helpers)


def find_program(name: str, own: Mapping[str, OwnProgram]) -> OwnProgram | None:
    """A program by name: the machine's, else the lab's own; None if there is neither."""
    path = shutil.which(name, path=f"{os.environ.get('PATH', '')}:{SYSTEM_PATH}")
    if path is None:
        return own.get(name)
    return OwnProgram(Path(path), "", file_sha256(Path(path)))


def find_programs(cache: Path | None = None) -> dict[str, OwnProgram]:
    """The programs that were unpacked for the lab alone, by name; of two versions the later one."""
    found: dict[str, OwnProgram] = {}
    for record in sorted(versions_of("programs", "*/*/package.json", cache)):
        read = read_json(record) or {}
        for name, sha256 in read.get("sha256", {}).items():
            found[name] = OwnProgram(record.parent / "bin" / name, read["version"], sha256)
    return found


# -- the sandbox's kernel


def kernel_inputs_hash(folder: Path = ROOT / "kernel") -> str:
    """What a kernel was built with, besides its source: options, patches, scripts and profiles."""
    patches = (folder / "patches").glob("*.patch")
    profiles = (folder / "profiles").glob("*.tar.xz")
    fixed = (folder / "options", folder / "build.sh", *(folder / "precompiled").glob("*"))
    return hash_of_files(folder, [*fixed, *patches, *profiles])[:12]


def built_kernels(cache: Path | None = None) -> list[Path]:
    """The cache's kernels that fit today's options, patches and script; the newest first."""
    return [
        folder / "linux"
        for folder in newest_first(versions_of("kernel", f"*-{kernel_inputs_hash()}", cache))
        if os.access(folder / "linux", os.X_OK) and (folder / HEADERS).is_file()
    ]


def kernel_record(kernel: Path) -> dict[str, object]:
    """What is known of a kernel: its kernel.json, or what it says of itself."""
    return written_record(kernel) or {
        "version": output_of([kernel, "--version"]).strip() or None,
        "hz": kernel_hz(kernel),
    }


def written_record(kernel: Path) -> dict[str, object] | None:
    """What the build wrote of a kernel; None for one from elsewhere."""
    return read_json(kernel.parent / "kernel.json")


def kernel_for(name: str, parts: Parts) -> Path:
    """A run's kernel, by its name. Raises MissingPart."""
    if name == SHIPPED:
        return require_kernel(parts)
    if name not in kernels.declared_kernels():
        own = own_kernels_folder() / name / "linux"
        if os.access(own, os.X_OK):
            return own
        raise MissingPart(f"kernel {name} is not there: ./lab kernel add TREE --name {name}")
    built = built_version(name)
    if built is None:
        raise MissingPart(
            f"kernel {name} is not built yet: ./lab kernel add {name} (about five minutes)"
        )
    return built


def built_version(name: str, cache: Path | None = None) -> Path | None:
    """A declared version built from today's inputs, maybe as the shipped kernel; or None."""
    for kernel in built_kernels(cache):
        if str(kernel_record(kernel)["version"]).startswith(f"{name}."):
            return kernel
    declared = kernels.declared_kernels()[name]
    folders = versions_of("kernel", f"{name}.*-{version_inputs_hash(declared)}", cache)
    found = (folder / "linux" for folder in newest_first(folders))
    return next((kernel for kernel in found if os.access(kernel, os.X_OK)), None)


def version_inputs_hash(declared: Declared) -> str:
    """What a declared version is built with, besides its source."""
    total = hashlib.sha256(f"{versions_common_hash()}\n".encode())
    total.update(declared.file.read_bytes())
    for patch in declared.series:
        total.update(patch.text().encode())
    for profile in sorted(declared.file.parent.glob("*.tar.xz")):
        total.update(profile.read_bytes())
    return total.hexdigest()[:12]


def versions_common_hash() -> str:
    """What every kernel besides the shipped one is built with."""
    folder = ROOT / "kernel"
    scripts = (folder / "versions" / "build.sh", *(folder / "precompiled").glob("*"))
    return hash_of_files(folder, [folder / "options", *scripts])[:12]


def seccomp_words(kernel: Path) -> list[str]:
    """The word of a kernel's command line for the quicker of the ways to run programs, where it has
    it. A kernel from elsewhere is not asked: it would run with nothing to hold it, and one that
    does not know the word leaves it to init, which does not look at it.
    """
    record = written_record(kernel)
    if record is None:
        return ["seccomp=on"]
    has_it = version_tuple(str(record.get("version") or "")) >= kernels.FEATURES["seccomp"].since
    return ["seccomp=on"] if has_it else []


def kernel_hz(kernel: Path) -> int | None:
    """A kernel's tick rate, as it says itself; None for one that does not run."""
    found = re.search(r"^CONFIG_HZ=(\d+)$", output_of([kernel, "--showconfig"]), re.MULTILINE)
    return int(found[1]) if found else None


def _find_kernel() -> tuple[Path | None, str | None]:
    named = os.environ.get("GOSTLAB_KERNEL")
    if named:
        kernel = Path(named).absolute()
        version = output_of([kernel, "--version"]).strip()
        return (kernel, version) if re.match(r"\d+\.\d+", version) else (None, None)
    for kernel in built_kernels():
        return kernel, str(kernel_record(kernel)["version"])
    return None, None


# -- iproute2


def find_iproute2(cache: Path | None = None) -> Iproute2:
    """The system's iproute2 where it is new enough, else the lab's, else the system's old one."""
    system = Iproute2(_iproute2_version(SYSTEM_PATH))
    if system.is_new_enough:
        return system
    for folder in newest_first(versions_of("iproute2", "*[0-9]", cache)):
        private = look_at_iproute2(folder)
        if private.is_new_enough:
            return private
    return system


def look_at_iproute2(folder: Path) -> Iproute2:
    """An iproute2 unpacked into a folder; its version is None unless ip, tc and ss all run here."""
    dirs = tuple(
        folder / name for name in ("sbin", "usr/sbin", "bin", "usr/bin") if (folder / name).is_dir()
    )
    tables = next((path.parent for path in folder.glob("**/tc/normal.dist")), None)
    return Iproute2(_iproute2_version(":".join(map(str, dirs))), dirs, tables)


def _iproute2_version(search_path: str) -> str | None:
    versions = []
    for tool in ("tc", "ip", "ss"):
        path = shutil.which(tool, path=search_path)
        said = version_said(path, "-V") if path else ""
        found = re.search(r"iproute2-(?:ss)?v?([\d.]*\d)", said)
        if found is None:
            return None
        versions.append(found[1])
    return versions[0]


# -- iperf3


def find_iperf3s(cache: Path | None = None) -> dict[str, OwnProgram]:
    """The lab's own iperf3s that are there, by version; not tried."""
    found: dict[str, OwnProgram] = {}
    for version in OWN:
        for folder in folders_of("iperf3", cache):
            with contextlib.suppress(OSError, ValueError, KeyError):
                read = json.loads((folder / version / "iperf3.json").read_text(encoding="utf-8"))
                path = str(folder / version / "iperf3")
                found.setdefault(version, OwnProgram.from_json({**read, "path": path}))
    return found


def find_own_iperf3(version: str, cache: Path | None = None) -> OwnProgram | None:
    """One of the lab's own iperf3s, tried; None if it does not run here."""
    found = find_iperf3s(cache).get(version)
    said = re.match(r"iperf (\d[\d.]*\d)", version_said(found.path, "--version")) if found else None
    return found if said and said[1] == version else None


# -- tunnel programs


def find_relay(cache: Path | None = None) -> Path | None:
    """The relay that was built from today's source; None if there is none."""
    found = versions_of("relay", f"{relay_inputs_hash()}/relay", cache)
    return next((relay for relay in found if os.access(relay, os.X_OK)), None)


def relay_inputs_hash(folder: Path = ROOT / "tunnel") -> str:
    """The relay's source, without its tests, and the Go that builds it."""
    sources = [path for path in folder.rglob("*.go") if not path.name.endswith("_test.go")]
    names = ("go.mod", "go.sum", "toolchain")
    return hash_of_files(folder, [*sources, *(folder / name for name in names)])[:12]


def relay_version(relay: Path) -> str:
    """The relay's version and the Go that built it: "relay 0.1, go1.26.8"."""
    found = re.match(r"(relay \S+)(?: \((go\S+))?", version_said(relay, "-V"))
    return ", ".join(filter(None, found.groups())) if found else "relay"


# How an experiment may call a GOST, and what it may write in its place.
GOST_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,31}")
AUTO, RELAY = "auto", "relay"
GOST_WORDS = (AUTO, RELAY)
SEVERAL_GOSTS = "several are levels of gost: --set gost=A,B (./lab try: --setting.gost A,B)"
OLDEST_GOST = (2, 11)
ELF = b"\x7fELF"


@dataclass(frozen=True)
class GostSays:
    """What `gost -V` says."""

    version: str  # 3.2.6
    go: str  # go1.26.8

    def __str__(self) -> str:
        return f"gost {self.version}, {self.go}" if self.go else f"gost {self.version}"


def what_gost_says(binary: Path) -> GostSays | None:
    """A GOST's version and the Go that built it; None for a program that is not GOST."""
    found = re.match(r"gost\s+v?(\d+\.\d+\S*)(?:\s+\((go\S+))?", version_said(binary, "-V"))
    return GostSays(found[1], found[2] or "") if found else None


def said_when_added(binary: Path) -> GostSays | None:
    """What a GOST that was added said then, if its file is as it was and may be executed."""
    record = binary.with_name("gost.json")
    with contextlib.suppress(OSError, KeyError, TypeError):
        if binary.stat().st_mtime_ns <= record.stat().st_mtime_ns and os.access(binary, os.X_OK):
            read = read_json(record) or {}
            return GostSays(read["version"], read["go"])
    return None


def too_old(said: GostSays) -> bool:
    """Whether a GOST has none of the lab's tunnels: its relay protocol came with 2.11."""
    return version_tuple(said.version) < OLDEST_GOST


def why_no_gost(program: Path) -> str:
    """Why a program is no GOST for the lab, in words behind its name."""
    if not program.is_file():
        there = f"neither a file nor a GOST that was added ({', '.join(find_gosts()) or 'none'})"
        return f"{there}; {SEVERAL_GOSTS}" if "," in program.name else there
    said = what_gost_says(program)
    if said is not None and too_old(said):
        return f"{said} is too old: it has no relay protocol, which came with {dotted(OLDEST_GOST)}"
    with program.open("rb") as file:
        head = file.read(20)
    machine = int.from_bytes(head[18:20], "little") if head.startswith(ELF) else None
    if machine is not None and machine != own_machine():
        return "a program for another processor architecture than this machine's"
    return "not a GOST that runs here (its -V names none)"


def own_machine() -> int:
    """The architecture in this machine's own ELF programs (e_machine)."""
    with open(os.path.realpath("/proc/self/exe"), "rb") as file:
        return int.from_bytes(file.read(20)[18:20], "little")


def find_gosts(cache: Path | None = None) -> dict[str, TunnelBinary]:
    """The GOSTs that were added or fetched, by the name that an experiment calls them."""
    found: dict[str, TunnelBinary] = {}
    for binary in sorted(versions_of("gost", "*/gost", cache)):
        record = read_json(binary.with_name("gost.json")) or {}
        said = GostSays(str(record.get("version") or binary.parent.name), str(record.get("go", "")))
        sha256 = str(record.get("sha256") or file_sha256(binary))
        found.setdefault(binary.parent.name, TunnelBinary(binary, "gost", str(said), sha256))
    return found


def home_expanded(path: str | Path) -> Path:
    """Return a path with its ~ expanded; one of an unknown user stays as it is."""
    return Path(os.path.expanduser(path))


def _find_gost(named: Path | None) -> tuple[Path | None, GostSays | None, str]:
    """The GOST that runs take which do not ask for one, what it says, and why it."""
    env = os.environ.get("GOSTLAB_GOST")
    for asked, why in ((named, "--gost"), (Path(env) if env else None, "GOSTLAB_GOST")):
        if asked is not None:
            if str(asked) == RELAY:
                return None, None, f"{why} says so"
            added = find_gosts().get(str(asked))
            binary = added.path if added else home_expanded(asked).resolve()
            said = what_gost_says(binary)
            if said is None or too_old(said):
                raise MissingPart(f"{asked} ({why}): {why_no_gost(binary)}")
            return binary, said, f"{why} names it"
    on_path = shutil.which("gost")
    candidates = [(Path(on_path).resolve(), "it is on PATH")] if on_path else []
    newest = sorted(find_gosts().items(), key=lambda each: version_tuple(each[0]), reverse=True)
    candidates += [(kept.path, "it was added or fetched") for _, kept in newest]
    for binary, why in candidates:
        said = said_when_added(binary) or what_gost_says(binary)
        # A version 2 is passed over: its logs and exit codes differ. --gost still takes it.
        if said is not None and said.version.startswith("3."):
            return binary, said, why
    return None, None, "there is no GOST: ./lab gost add FILE"


# -- shared by the above


def version_tuple(version: str) -> tuple[int, ...]:
    """The leading numbers of a version: "7.3.4-1~bpo13+1" is (7, 3, 4)."""
    found = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(number) for number in found[0].split(".")) if found else ()


def dotted(version: tuple[int, ...]) -> str:
    """The same again: 7.3.4."""
    return ".".join(map(str, version))


def read_pin(text: str) -> dict[str, str]:
    """A file of pins: `name=value` lines and comments."""
    return dict(re.findall(r"^(\w+)=(\S+)$", text, re.MULTILINE))


def read_json(path: Path) -> dict[str, Any] | None:
    """A record that the set-up wrote; None for one that is not there or cannot be read."""
    try:
        record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return record
    except (OSError, ValueError):
        return None


def file_sha256(path: Path) -> str:
    """SHA-256 of a file's content."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def version_said(program: str | Path, word: str) -> str:
    """What a program prints for `-V` and the like, asked once as long as its file stays."""
    try:
        file = os.stat(program)
    except OSError:
        return ""
    return _version_said(str(program), word, file.st_ino, file.st_size, file.st_mtime_ns)


@functools.cache
def _version_said(program: str, word: str, *_file: int) -> str:
    return output_of([program, word])


def output_of(argv: list[str | Path], timeout_s: float = 60.0) -> str:
    """What a program prints, standard error included; empty for one that cannot run or does not
    end. An emulated machine takes more than five seconds to start a GOST.
    """
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        return subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout_s,
        ).stdout.decode(errors="replace")
    return ""


def hash_of_files(folder: Path, files: Iterable[Path]) -> str:
    """SHA-256 of what is in some files below a folder: of their names and contents."""
    there = (path for path in sorted(files) if path.is_file())
    return hash_of_named((str(path.relative_to(folder)), path) for path in there)


def hash_of_named(files: Iterable[tuple[str, Path]]) -> str:
    """The same of files by names that they have elsewhere."""
    total = hashlib.sha256()
    for name, path in files:
        total.update(f"{name}\0{file_sha256(path)}\n".encode("utf-8", "replace"))
    return total.hexdigest()
