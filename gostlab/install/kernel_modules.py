"""Congestion controls from C files: compiled as modules of the sandbox's kernel, and kept.

A module belongs to one kernel, and is kept with it under its control's name, a hash of all that it
was made of and the compiler's version. The kernel's headers are unpacked beside it by the first
compilation (70 MB): that is a third of a file's time, and a class has many files. The user's own
files are copied into the cache folder, so that an experiment means the same tomorrow.

Python's own library alone: the set-up compiles the lab's own controls before any package is there.
"""

import contextlib
import hashlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from gostlab.errors import BadInput
from gostlab.install import build_tools, landlock, locate
from gostlab.install.build_env import replacing, write_json
from gostlab.registry import congestion_controls, folders
from gostlab.registry.congestion_controls import Control
from gostlab.registry.folders import from_root

# What is compiled with every control, and what its file may include.
OUR_HALF = ("gostlab_module.c", "gostlab_cc.h")
KBUILD = """obj-m := {module}.o
{module}-y := control.o gostlab_module.o
CFLAGS_control.o := -DGOSTLAB -I$(src)
CFLAGS_control.o += -Dtcp_register_congestion_control=gostlab_register_congestion_control
CFLAGS_control.o += -Dtcp_unregister_congestion_control=gostlab_unregister_congestion_control
CFLAGS_gostlab_module.o := -DGOSTLAB
"""
# The kernel's struct module holds the name in so many bytes (MODULE_NAME_LEN, 64 bits).
MODULE_NAME_BYTES = 56
HEADERS_BYTES = 200_000_000
# A line of the compiler's about the control's own file, wherever it was compiled.
OWN_LINE = re.compile(r"(?:[^\s:]*/)?\b(?:control\.c|cc_\w+\.ko)(?=[:\s])")


# What a compilation may have: a C file of somebody else's may include /dev/zero, or this machine's
# secrets. So it reads its own folder and this machine's programs alone.
LIMITS = (2 << 30, 120, 512 << 20)  # memory and longest file in bytes, CPU time in seconds
LIMIT_S = 300
MAX_SAID_BYTES, MAX_LINES, MAX_LINE = 1 << 20, 60, 300  # of what the compiler says
PROGRAMS = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/alternatives")
EVERYTHING = (*landlock.READING, *landlock.WRITING)


class CompileError(BadInput):
    """A C file does not compile; the message is the compiler's, at the file's own lines."""


@dataclass(frozen=True)
class Module:
    """A control as a module that a kernel can load."""

    cc: str  # as the run writes it, with its parameters
    file: Path
    arguments: str  # for the kernel, as on modprobe's command line
    compiler: str
    control: Control

    @property
    def record(self) -> dict[str, object]:
        """What env.json says of it; of the user's own, with its source."""
        source, own = self.control.source, self.control.own
        text = source.read_text(encoding="utf-8") if own else None
        return {
            "kernel_name": congestion_controls.kernel_name(self.cc),  # what sockets ask for
            "file": source.name if own else from_root(source),
            "sha256": self.control.sha256,
            "arguments": self.arguments,
            "compiler": self.compiler,
            "source": text,
        }


def module_for(cc: str, kernel: Path) -> Module | None:
    """The module of a run's congestion control, compiled if need be; None for one of Linux's.
    Raises BadInput, MissingPart, CompileError, OSError.
    """
    asked = congestion_controls.parse_control(cc)
    control = congestion_controls.check_known(asked)
    if control is None:
        return None
    file, compiler = provide(control, kernel)
    words = [f"{name}={value}" for name, value in sorted(asked.parameters.items())]
    words.append(f"gostlab_as={control.registers}:{asked.kernel_name}")
    file = renamed(
        file, congestion_controls.module_name(control.name), congestion_controls.module_name(cc)
    )
    return Module(cc, file, " ".join(words), compiler, control)


def provide(control: Control, kernel: Path) -> tuple[Path, str]:
    """A control's module file and its compiler. Raises MissingPart, CompileError, OSError."""
    module = congestion_controls.module_name(control.name)
    brought = brought_with(kernel, control, module)
    compiler = brought[1] if brought else compiler_version()
    folder = module_folder(control, kernel, compiler)
    file = folder / f"{module}.ko"
    if not file.is_file() and brought:
        with replacing(folder, shared=True) as new:
            shutil.copy2(brought[0], new / file.name)
    elif not file.is_file():
        source = control.source.read_bytes()
        said = control.origin or from_root(control.source)
        with (
            compiled(source, said, module, kernel) as (made, _),
            replacing(folder, shared=True) as new,
        ):
            shutil.copy2(made, new / file.name)
    return file, compiler


def brought_with(kernel: Path, control: Control, module: str) -> tuple[Path, str] | None:
    """A module that came with a package's kernel, and the compiler that made it."""
    record = locate.kernel_record(kernel) if kernel.is_relative_to(folders.BROUGHT) else {}
    compiler = str(record.get("modules_compiler"))
    file = kernel.parent / "cc" / keyed(control, compiler) / f"{module}.ko"
    return (file, compiler) if file.is_file() else None


def module_folder(control: Control, kernel: Path, compiler: str | None = None) -> Path:
    """Where a control's module is kept: beside its kernel, or in the cache. Raises MissingPart."""
    brought = kernel.is_relative_to(folders.BROUGHT)
    beside = in_cache(kernel) if brought else kernel.parent
    return beside / "cc" / keyed(control, compiler or compiler_version())


def in_cache(kernel: Path) -> Path:
    """Where this user keeps what is made for a kernel that others have, too."""
    return folders.cache_folder() / "kernel" / kernel.parent.name


def keyed(control: Control, compiler: str) -> str:
    """A control's name, and a hash of what its module is made of."""
    made_of = [control.sha256, compiler, control.name, our_half_sha256()]
    key = hashlib.sha256("\n".join(made_of).encode()).hexdigest()[:12]
    return f"{control.name}-{key}"


@contextlib.contextmanager
def compiled(
    source: bytes, said: str, module: str, kernel: Path
) -> Iterator[tuple[Path, Sequence[str]]]:
    """A C file's module, until the end of the block; and what the compiler warns of, of the file as
    it is called (`said`). Raises MissingPart, CompileError, OSError.
    """
    headers = kernel.with_name(locate.HEADERS)
    if not headers.is_file():
        raise locate.MissingPart(
            f"{kernel}: without its headers ({locate.HEADERS}) no congestion control can be"
            " compiled for it: run ./lab setup"
        )
    # Nothing is written into a package, or beside a kernel that root made for all users.
    of_others = kernel.is_relative_to(folders.BROUGHT) or not os.access(kernel.parent, os.W_OK)
    tree = (in_cache(kernel) if of_others else kernel.parent) / "headers"
    if not tree.is_dir():
        unpack_headers(headers, tree, said)
    with tempfile.TemporaryDirectory(prefix="gostlab-cc-") as scratch:
        work = Path(scratch)
        (work / "control.c").write_bytes(source)
        for name in OUR_HALF:
            shutil.copyfile(folders.CONTROLS / name, work / name)
        (work / "Kbuild").write_text(KBUILD.format(module=module), encoding="ascii")
        make = ["make", "--silent", "ARCH=um", f"M={work}", "modules", "-C"]
        words = run([*make, tree], said, reads=tree, writes=work)
        yield work / f"{module}.ko", words


def unpack_headers(headers: Path, tree: Path, said: str) -> None:
    """A kernel's headers as a folder. Raises CompileError, MissingPart, OSError."""
    tree.parent.mkdir(parents=True, exist_ok=True)
    if shutil.disk_usage(tree.parent).free < HEADERS_BYTES:
        raise locate.MissingPart(
            f"{tree.parent}: its disk has less than {HEADERS_BYTES // 10**6} MB free, which the"
            " kernel's headers need to compile a control: make room"
        )
    with replacing(tree, shared=True) as new:
        unpack = ["tar", "--extract", "--no-same-owner", "--file", str(headers)]
        run([*unpack, "--directory", new], said, reads=headers, writes=new)


def run(argv: Sequence[str | Path], said: str, *, reads: Path, writes: Path) -> list[str]:
    """Run a step of the compilation, which reads one place and this machine's programs, and writes
    another; what it says of the file. Raises CompileError, MissingPart.
    """
    environ = {
        name: value
        for name, value in os.environ.items()
        if name not in ("SUBARCH", "CROSS_COMPILE", "MAKEFLAGS", "MFLAGS", "KBUILD_OUTPUT")
    }
    abi = landlock.abi()
    readable = dict.fromkeys((reads, *map(Path, PROGRAMS)), tuple(landlock.READING))
    allowed = {**readable, writes: EVERYTHING}
    allowed[Path("/dev/null")] = ("read_file", "write_file")

    def confine() -> None:
        build_tools.enter()
        landlock.limit(*LIMITS)
        landlock.gain_no_rights()
        if abi:
            landlock.enter(abi, landlock.READING | landlock.WRITING, allowed)

    # A file, and no pipe: LIMITS holds how long it may be.
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
            raise CompileError(f"{said}: {argv[0]} did not end within {LIMIT_S} s") from None
        finally:  # on a signal, too: whatever it has started ends with it
            end_group(process)
        output.seek(0)
        lines = output.read(MAX_SAID_BYTES).decode("utf-8", "replace").splitlines()
    words = told(lines, said)
    if status != 0:
        raise CompileError("\n".join(words) or f"{said}: {argv[0]} ended with {status}")
    return words


def end_group(process: subprocess.Popen[bytes]) -> None:
    """End all that is left of a process group, by the process that leads it."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def told(lines: Sequence[str], said: str) -> list[str]:
    """What the compiler said, at the file's own name, without make's own words."""
    kept = [line for line in lines if not re.match(r"(?:make(?:\[\d+\])?:|\s*(?:CC|LD) )", line)]
    words = [OWN_LINE.sub(lambda _: said, line)[:MAX_LINE] for line in kept if line.strip()]
    if len(words) > MAX_LINES:
        words[MAX_LINES:] = [f"… and {len(words) - MAX_LINES} lines more"]
    return words


def renamed(file: Path, old: str, new: str) -> Path:
    """A module's file under another name, by which the kernel may have it a second time."""
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
    """The compiler's first line. Raises MissingPart."""
    unpacked = Path(build_tools.build_path(), "gcc")
    words: list[list[str | Path]] = [["gcc", "--version"], [unpacked, "--version"]]
    said = (locate.output_of(words[0]) or locate.output_of(words[1])).splitlines()
    if not said:
        raise locate.MissingPart("gcc is missing: run ./lab setup")
    return said[0]


@cache
def our_half_sha256() -> str:
    """A hash of what is compiled with every control."""
    texts = [(folders.CONTROLS / name).read_bytes() for name in OUR_HALF]
    return hashlib.sha256(b"\0".join([*texts, KBUILD.encode()])).hexdigest()


def provide_shipped(kernel: Path, say: Callable[[str], None]) -> str:
    """Compile the lab's own controls; what came of it. Raises MissingPart, CompileError."""
    for control in congestion_controls.shipped_controls().values():
        say(f"compiling {from_root(control.source)} as {control.name}")
        provide(control, kernel)
    return ", ".join(sorted(congestion_controls.shipped_controls()))


# -- the user's own


@dataclass(frozen=True)
class AddedModule:
    """What became of a file."""

    control: Control
    warnings: tuple[str, ...]
    replaced: bool


Loads = Callable[[Path, str], Sequence[str]]


def check(
    path: Path, name: str | None, kernel: Path, loads: Loads, *, keep: bool = False
) -> AddedModule:
    """Compile a C file and load it into a kernel that ends with the question; keep: as a level of
    `cc`. `loads`: a module file and its arguments -> the names that the kernel then knows. Raises
    BadInput, CompileError, MissingPart, OSError.
    """
    text = congestion_controls.source_text(path)
    source = text.encode()
    if name is not None:
        check_name(name)
    said = congestion_controls.REGISTERED.findall(text)
    if name is None:
        for each in said:
            check_free(each)  # a kernel that has it says so less well
    # A kernel has each name once: a file that registers one of Linux's own is loaded under another.
    theirs = [each for each in said if each in congestion_controls.IN_LINUX] if name else []
    arguments = f"gostlab_as={theirs[0]}:{name}" if theirs else ""
    guess = name or next(iter(said), "unnamed")
    module = congestion_controls.module_name(
        guess if congestion_controls.NAME.fullmatch(guess) else "unnamed"
    )
    with compiled(source, str(path), module, kernel) as (file, warnings):
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
        control = Control(
            wanted,
            theirs[0] if theirs else registers[0],
            path,
            congestion_controls.parameters_in(text),
            hashlib.sha256(source).hexdigest(),
            own=True,
            origin=str(path.absolute()),
        )
        if keep:
            control = keep_own(control, source)
            folder = module_folder(control, kernel)
            if not folder.is_dir():
                with replacing(folder, shared=True) as new:
                    kept = renamed(file, module, congestion_controls.module_name(wanted))
                    shutil.copy2(kept, new / kept.name)
    return AddedModule(control, tuple(warnings), replaced)


def check_name(name: str) -> None:
    """Raises BadInput for a name that cannot be, or is somebody else's."""
    if not congestion_controls.NAME.fullmatch(name):
        raise BadInput(
            f"{name!r}: not a name for a congestion control (at most"
            f" {congestion_controls.MAX_CHARACTERS} letters, digits, _ . and -)"
        )
    check_free(name)


def check_free(name: str) -> None:
    """Raises BadInput for a name that is Linux's or the lab's."""
    if name in congestion_controls.IN_LINUX or name in congestion_controls.shipped_controls():
        whose = "Linux's own" if name in congestion_controls.IN_LINUX else "the lab's own"
        raise BadInput(f"{name}: there is {whose} of that name: choose another with --name")


def keep_own(control: Control, source: bytes) -> Control:
    """Keep a copy of a control's file; the control as it lies there. Raises OSError."""
    with replacing(folders.own_cc_folder() / control.name) as folder:
        (folder / f"{control.name}.c").write_bytes(source)
        said = {key: each for key, each in vars(control).items() if key not in ("source", "own")}
        write_json(folder / congestion_controls.RECORD, said)
    return congestion_controls.own_controls()[control.name]


def remove(name: str) -> Control:
    """Forget a control of the user's; what it was. Raises BadInput."""
    control = congestion_controls.own_controls().get(name)
    if control is None:
        own = ", ".join(congestion_controls.own_controls()) or "none so far"
        raise BadInput(f"{name}: no congestion control of yours (there are: {own})")
    shutil.rmtree(control.source.parent)
    return control


def has_changed(control: Control) -> bool:
    """Whether the file that was added has another content now."""
    try:
        now = hashlib.sha256(Path(control.origin).read_bytes()).hexdigest()
    except OSError:
        return False
    return now != control.sha256
