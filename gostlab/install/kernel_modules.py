# SPDX-License-Identifier: MIT
"""Compile congestion controls and the lab's capture as modules of the sandbox's kernel.

A module belongs to one kernel. It is cached beside the kernel under its control's name, a digest of
its inputs and the compiler's version. The first compilation unpacks the kernel's headers (70 MB):
that takes a third of a file's time, and a class has many files. The user's files are copied into
the cache folder, so that an experiment stays the same.

Only Python's standard library is imported: the set-up compiles the lab's own controls before any
package is installed.
"""

import contextlib
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

from gostlab.atomic_write import write_json
from gostlab.errors import BadInput
from gostlab.install import build_tools, landlock, locate
from gostlab.install.build_env import replaced_folder
from gostlab.registry import congestion_controls, folders
from gostlab.registry.congestion_controls import ControlFile
from gostlab.registry.folders import from_root

# The source that is compiled with every control, and the header that its file may include.
LAB_SOURCES = ("gostlab_module.c", "gostlab_cc.h")
KBUILD = """obj-m := {module}.o
{module}-y := control.o gostlab_module.o
CFLAGS_control.o := -DGOSTLAB -I$(src)
CFLAGS_control.o += -Dtcp_register_congestion_control=gostlab_register_congestion_control
CFLAGS_control.o += -Dtcp_unregister_congestion_control=gostlab_unregister_congestion_control
CFLAGS_gostlab_module.o := -DGOSTLAB
"""
# The module that records packets (kernel/modules/capture.c).
CAPTURE, CAPTURE_SOURCE = "gostlab_capture", folders.KERNEL_MODULES / "capture.c"
CAPTURE_KBUILD = f"obj-m := {CAPTURE}.o\n{CAPTURE}-y := control.o\n"
# Size of the name in the kernel's struct module (MODULE_NAME_LEN on 64-bit machines).
MODULE_NAME_BYTES = 56
HEADERS_BYTES = 200_000_000
# Matches the control's own file in a compiler message, whatever its folder.
OWN_LINE = re.compile(r"(?:[^\s:]*/)?\b(?:control\.c|cc_\w+\.ko)(?=[:\s])")


# Limits of a compilation: a foreign C file may include /dev/zero, or this machine's secrets. So a
# compilation may only read its own folder and this machine's programs.
LIMITS = (2 << 30, 120, 512 << 20)  # memory and longest file in bytes, CPU time in seconds
LIMIT_S = 300
MAX_OUTPUT_BYTES, MAX_LINES, MAX_LINE = 1 << 20, 60, 300  # limits of the compiler's output
PROGRAMS = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/alternatives")
EVERYTHING = (*landlock.READING, *landlock.WRITING)


class CompileError(BadInput):
    """A compiler error in a C file; the message is the compiler's."""


@dataclass(frozen=True)
class KernelModule:
    """A control as a module that a kernel can load."""

    cc: str  # the run's value, with parameters
    file: Path
    arguments: str  # module parameters in the format of modprobe
    compiler: str
    control: ControlFile

    @property
    def record(self) -> dict[str, object]:
        """Return the entry of env.json, with the source of a user's control."""
        source, is_user_file = self.control.source, self.control.is_user_supplied
        text = source.read_text(encoding="utf-8") if is_user_file else None
        return {
            "kernel_name": congestion_controls.kernel_name(self.cc),  # the value of TCP_CONGESTION
            "file": source.name if is_user_file else from_root(source),
            "sha256": self.control.sha256,
            "arguments": self.arguments,
            "compiler": self.compiler,
            "source": text,
        }


def module_for(cc: str, kernel: Path) -> KernelModule | None:
    """Return the module of a run's congestion control, compiled if necessary.

    It is None for one of Linux's. Raises BadInput, MissingPart, CompileError, OSError.
    """
    parsed = congestion_controls.parse_control(cc)
    control = congestion_controls.find_control(parsed)
    if control is None:
        return None
    file, compiler = provide_module(control, kernel)
    args = [f"{name}={value}" for name, value in sorted(parsed.parameters.items())]
    args.append(f"gostlab_as={control.registers}:{parsed.kernel_name}")
    file = rename_module(
        file, congestion_controls.module_name(control.name), congestion_controls.module_name(cc)
    )
    return KernelModule(cc, file, " ".join(args), compiler, control)


def provide_module(control: ControlFile, kernel: Path) -> tuple[Path, str]:
    """Return a control's module file and compiler. Raises MissingPart, CompileError, OSError."""
    module = congestion_controls.module_name(control.name)
    bundled = find_bundled(kernel, control, module)
    compiler = bundled[1] if bundled else compiler_version()
    folder = module_folder(control, kernel, compiler)
    file = folder / f"{module}.ko"
    if not file.is_file() and bundled:
        with replaced_folder(folder, shared=True) as new:
            shutil.copy2(bundled[0], new / file.name)
    elif not file.is_file():
        source = control.source.read_bytes()
        label = control.origin or from_root(control.source)
        with (
            compile_module(source, label, module, kernel) as (built, _),
            replaced_folder(folder, shared=True) as new,
        ):
            shutil.copy2(built, new / file.name)
    return file, compiler


def find_bundled(kernel: Path, control: ControlFile, module: str) -> tuple[Path, str] | None:
    """Return the module in a package's kernel and its compiler, None if there is none."""
    record = locate.kernel_record(kernel) if kernel.is_relative_to(folders.BROUGHT) else {}
    compiler = str(record.get("modules_compiler"))
    file = kernel.parent / "cc" / cache_key(control, compiler) / f"{module}.ko"
    return (file, compiler) if file.is_file() else None


def provide_capture(kernel: Path) -> Path:
    """Return the file of the module that records packets, compiled if necessary.

    Raises MissingPart, CompileError, OSError.
    """
    bundled = kernel.parent / "capture" / f"{CAPTURE}.ko"
    if kernel.is_relative_to(folders.BROUGHT) and bundled.is_file():
        return bundled
    source = CAPTURE_SOURCE.read_bytes()
    inputs = b"\0".join([source, CAPTURE_KBUILD.encode(), compiler_version().encode()])
    folder = modules_folder(kernel) / f"capture-{hashlib.sha256(inputs).hexdigest()[:12]}"
    file = folder / f"{CAPTURE}.ko"
    if not file.is_file():
        label = from_root(CAPTURE_SOURCE)
        with (
            compile_module(source, label, CAPTURE, kernel, kbuild=CAPTURE_KBUILD) as (built, _),
            replaced_folder(folder, shared=True) as new,
        ):
            shutil.copy2(built, new / file.name)
    return file


def module_folder(control: ControlFile, kernel: Path, compiler: str | None = None) -> Path:
    """Return the folder of a control's module: beside its kernel, or in the cache."""
    return modules_folder(kernel) / cache_key(control, compiler or compiler_version())


def modules_folder(kernel: Path) -> Path:
    """Return the folder of a kernel's modules: beside it, or in the cache."""
    is_bundled = kernel.is_relative_to(folders.BROUGHT)
    return (cached_kernel_folder(kernel) if is_bundled else kernel.parent) / "cc"


def cached_kernel_folder(kernel: Path) -> Path:
    """Return this user's folder of files for a kernel that others use, too."""
    return folders.cache_folder() / "kernel" / kernel.parent.name


def cache_key(control: ControlFile, compiler: str) -> str:
    """Return a control's name with a digest of its module's inputs."""
    inputs = [control.sha256, compiler, control.name, lab_sources_sha256()]
    key = hashlib.sha256("\n".join(inputs).encode()).hexdigest()[:12]
    return f"{control.name}-{key}"


@contextlib.contextmanager
def compile_module(
    source: bytes, label: str, module: str, kernel: Path, *, kbuild: str = KBUILD
) -> Iterator[tuple[Path, Sequence[str]]]:
    """Compile a C file; yield its module and the compiler's warnings.

    The module exists until the end of the block. `label` is the file's name in messages. Raises
    MissingPart, CompileError, OSError.
    """
    headers = kernel.with_name(locate.HEADERS)
    if not headers.is_file():
        raise locate.MissingPart(
            f"{kernel}: without its headers ({locate.HEADERS}) no module can be compiled for it:"
            " run ./lab setup"
        )
    # The headers are not unpacked in a package, or beside a kernel that root built for all users.
    is_shared = kernel.is_relative_to(folders.BROUGHT) or not os.access(kernel.parent, os.W_OK)
    tree = (cached_kernel_folder(kernel) if is_shared else kernel.parent) / "headers"
    if not tree.is_dir():
        unpack_headers(headers, tree, label)
    with tempfile.TemporaryDirectory(prefix="gostlab-cc-") as scratch:
        work = Path(scratch)
        (work / "control.c").write_bytes(source)
        for name in LAB_SOURCES:
            shutil.copyfile(folders.CONTROLS / name, work / name)
        (work / "Kbuild").write_text(kbuild.format(module=module), encoding="ascii")
        make = ["make", "--silent", "ARCH=um", f"M={work}", "modules", "-C"]
        warnings = run_step([*make, tree], label, reads=tree, writes=work)
        yield work / f"{module}.ko", warnings


def unpack_headers(headers: Path, tree: Path, label: str) -> None:
    """Unpack a kernel's headers. Raises CompileError, MissingPart, OSError."""
    tree.parent.mkdir(parents=True, exist_ok=True)
    if shutil.disk_usage(tree.parent).free < HEADERS_BYTES:
        raise locate.MissingPart(
            f"{tree.parent}: its disk has less than {HEADERS_BYTES // 10**6} MB free, which the"
            " kernel's headers need to compile a control: make room"
        )
    with replaced_folder(tree, shared=True) as new:
        unpack = ["tar", "--extract", "--no-same-owner", "--file", str(headers)]
        run_step([*unpack, "--directory", new], label, reads=headers, writes=new)


def run_step(argv: Sequence[str | Path], label: str, *, reads: Path, writes: Path) -> list[str]:
    """Run a step of the compilation and return its messages on the file.

    It may read one path and this machine's programs, and write one path. Raises CompileError,
    MissingPart.
    """
    environ = {
        name: value
        for name, value in os.environ.items()
        if name not in ("SUBARCH", "CROSS_COMPILE", "MAKEFLAGS", "MFLAGS", "KBUILD_OUTPUT")
    }
    abi = landlock.landlock_abi()
    readable = dict.fromkeys((reads, *map(Path, PROGRAMS)), tuple(landlock.READING))
    allowed = {**readable, writes: EVERYTHING}
    allowed[Path("/dev/null")] = ("read_file", "write_file")

    def confine() -> None:
        build_tools.enter_build_namespace()
        landlock.set_resource_limits(*LIMITS)
        landlock.gain_no_rights()
        if abi:
            landlock.enter_landlock(abi, landlock.READING | landlock.WRITING, allowed)

    # The output is a file instead of a pipe, so that LIMITS bounds its length.
    with tempfile.TemporaryFile() as output:
        try:
            process = subprocess.Popen(
                argv,
                env={**environ, "LC_ALL": "C", "TMPDIR": str(writes)},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                preexec_fn=confine,  # noqa: PLW1509
                process_group=0,
            )
        except FileNotFoundError as error:
            raise locate.MissingPart(f"{argv[0]} is missing: run ./lab setup") from error
        try:
            status = process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            raise CompileError(f"{label}: {argv[0]} did not end within {LIMIT_S} s") from None
        finally:  # also on a signal: end all processes of the group
            locate.end_group(process)
        output.seek(0)
        lines = output.read(MAX_OUTPUT_BYTES).decode("utf-8", "replace").splitlines()
    messages = compiler_messages(lines, label)
    if status != 0:
        raise CompileError("\n".join(messages) or f"{label}: {argv[0]} ended with {status}")
    return messages


def compiler_messages(lines: Sequence[str], label: str) -> list[str]:
    """Return the compiler's messages with the file's own name, without make's messages."""
    compiler_lines = [
        line for line in lines if not re.match(r"(?:make(?:\[\d+\])?:|\s*(?:CC|LD) )", line)
    ]
    messages = [
        OWN_LINE.sub(lambda _: label, line)[:MAX_LINE] for line in compiler_lines if line.strip()
    ]
    if len(messages) > MAX_LINES:
        messages[MAX_LINES:] = [f"… and {len(messages) - MAX_LINES} lines more"]
    return messages


def rename_module(file: Path, old: str, new: str) -> Path:
    """Return a module's file with another name, so that a kernel can load it a second time."""
    if old == new:
        return file
    other = file.with_name(f"{new}.ko")
    if not other.is_file():
        field, content = old.encode().ljust(MODULE_NAME_BYTES, b"\0"), file.read_bytes()
        if content.count(field) != 1:
            raise CompileError(f"{file}: its name is not where this lab looks for it")
        part = other.with_name(f".{other.name}.{os.getpid()}")
        part.write_bytes(content.replace(field, new.encode().ljust(MODULE_NAME_BYTES, b"\0")))
        part.rename(other)
    return other


@cache
def compiler_version() -> str:
    """Return the first line of the compiler's version. Raises MissingPart."""
    unpacked = Path(build_tools.build_path(), "gcc")
    commands: list[list[str | Path]] = [["gcc", "--version"], [unpacked, "--version"]]
    lines = (locate.read_output(commands[0]) or locate.read_output(commands[1])).splitlines()
    if not lines:
        raise locate.MissingPart("gcc is missing: run ./lab setup")
    return lines[0]


@cache
def lab_sources_sha256() -> str:
    """Return the digest of what is compiled with every control."""
    texts = [(folders.CONTROLS / name).read_bytes() for name in LAB_SOURCES]
    return hashlib.sha256(b"\0".join([*texts, KBUILD.encode()])).hexdigest()


def provide_shipped(kernel: Path, jobs: int, say: Callable[[str], None]) -> str:
    """Compile the lab's own controls and its capture; return the controls' names.

    Raises MissingPart, CompileError, OSError.
    """
    say("compiling the capture")
    provide_capture(kernel)  # it unpacks the headers, which the others share
    controls = congestion_controls.shipped_controls()
    say(f"compiling {', '.join(sorted(controls))}")
    with ThreadPoolExecutor(jobs) as threads:
        for _ in threads.map(partial(provide_module, kernel=kernel), controls.values()):
            pass  # raises the error of the first that failed
    return ", ".join(sorted(controls))


# -- the user's own


@dataclass(frozen=True)
class AddedModule:
    """The result of adding a C file."""

    control: ControlFile
    warnings: tuple[str, ...]
    replaced: bool


Loads = Callable[[Path, str], Sequence[str]]


def compile_and_probe(
    path: Path, name: str | None, kernel: Path, loads: Loads, *, keep: bool = False
) -> AddedModule:
    """Compile a C file and load it into the kernel of a temporary guest.

    `keep` saves it as a level of `cc`. `loads` maps a module file and its arguments to the names
    that the kernel then has. Raises BadInput, CompileError, MissingPart, OSError.
    """
    text = congestion_controls.source_text(path)
    source = text.encode()
    if name is not None:
        check_name(name)
    registered = congestion_controls.REGISTERED.findall(text)
    if name is None:
        for registered_name in registered:
            check_free(registered_name)  # the kernel's own message would be less clear
    # Names are unique in a kernel: a file that registers one of Linux's is loaded under another.
    in_linux = (
        [
            registered_name
            for registered_name in registered
            if registered_name in congestion_controls.IN_LINUX
        ]
        if name
        else []
    )
    arguments = f"gostlab_as={in_linux[0]}:{name}" if in_linux else ""
    guess = name or next(iter(registered), "unnamed")
    module = congestion_controls.module_name(
        guess if congestion_controls.NAME.fullmatch(guess) else "unnamed"
    )
    with compile_module(source, str(path), module, kernel) as (file, warnings):
        try:
            registers = loads(file, arguments)
        except CompileError as error:
            raise CompileError(str(error).replace(file.name, str(path), 1)) from None
        if not registers:
            raise CompileError(
                f"{path}: it compiles and loads, and registers no congestion control (its init has"
                " to call tcp_register_congestion_control)"
            )
        if name is not None and len(registers) > 1:
            raise BadInput(
                f"--name {name}: {path} registers {' and '.join(registers)}: add it without"
            )
        wanted = name or registers[0]
        check_name(wanted)
        replaced = wanted in congestion_controls.own_controls()
        control = ControlFile(
            wanted,
            in_linux[0] if in_linux else registers[0],
            path,
            congestion_controls.parameters_in(text),
            hashlib.sha256(source).hexdigest(),
            is_user_supplied=True,
            origin=str(path.absolute()),
        )
        if keep:
            control = save_user_control(control, source)
            folder = module_folder(control, kernel)
            if not folder.is_dir():
                with replaced_folder(folder, shared=True) as new:
                    copy = rename_module(file, module, congestion_controls.module_name(wanted))
                    shutil.copy2(copy, new / copy.name)
    return AddedModule(control, tuple(warnings), replaced)


def check_name(name: str) -> None:
    """Check that a name is valid and free. Raises BadInput."""
    if not congestion_controls.NAME.fullmatch(name):
        raise BadInput(
            f"{name!r}: not a name for a congestion control (at most"
            f" {congestion_controls.MAX_CHARACTERS} letters, digits, _ . and -)"
        )
    check_free(name)


def check_free(name: str) -> None:
    """Check that a name is not Linux's or the lab's. Raises BadInput."""
    if name in congestion_controls.IN_LINUX or name in congestion_controls.shipped_controls():
        owner = "Linux's own" if name in congestion_controls.IN_LINUX else "the lab's own"
        raise BadInput(f"{name}: there is {owner} of that name: choose another with --name")


def save_user_control(control: ControlFile, source: bytes) -> ControlFile:
    """Save a copy of a control's file; return the saved control. Raises OSError."""
    with replaced_folder(folders.own_cc_folder() / control.name) as folder:
        (folder / f"{control.name}.c").write_bytes(source)
        record = {
            key: value
            for key, value in vars(control).items()
            if key not in ("source", "is_user_supplied")
        }
        write_json(folder / congestion_controls.RECORD, record)
    return congestion_controls.own_controls()[control.name]


def remove_user_control(name: str) -> ControlFile:
    """Delete a user's control and return it. Raises BadInput."""
    control = congestion_controls.own_controls().get(name)
    if control is None:
        names = ", ".join(congestion_controls.own_controls()) or "none so far"
        raise BadInput(f"{name}: no congestion control of yours (there are: {names})")
    shutil.rmtree(control.source.parent)
    return control


def has_changed(control: ControlFile) -> bool:
    """Return whether the original of an added file has another content now."""
    try:
        current = hashlib.sha256(Path(control.origin).read_bytes()).hexdigest()
    except OSError:
        return False
    return current != control.sha256
