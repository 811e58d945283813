"""Congestion controls: Linux's own, those in cc/, and those that the user has added.

Linux's are in the sandbox's kernel. The others are C files, which the lab compiles as modules of
it (gostlab.install.kernel_modules). What a file in cc/ registers, and which parameters it takes, is
read from its text; what a user's registers was found by loading it (`./lab cc add`), and lies
beside the copy of it.

An experiment writes a control by name, and may set its parameters: `mycc(alpha=3)`.
"""

import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from gostlab.errors import BadInput
from gostlab.registry.folders import CONTROLS, from_root, own_cc_folder
from gostlab.registry.static_loader import records
from gostlab.safe_read import plain_size

# Those in Linux's tree; whether this kernel has one, only a run can say.
NAMES_IN_LINUX = (
    "bbr bic cdg cubic dctcp highspeed htcp hybla illinois lp nv reno scalable vegas veno westwood"
    " yeah"
)
IN_LINUX = tuple(NAMES_IN_LINUX.split())
RECORD = "control.json"
MAX_CHARACTERS = 15  # of a name (Linux's TCP_CA_NAME_MAX, less its end)
NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9_.-]{{0,{MAX_CHARACTERS - 1}}}")
WORD = r"[A-Za-z_][A-Za-z0-9_]*"
# `mycc`, `mycc(alpha=3)`, `mycc(alpha=3; beta=7)`: a comma serves too, where it does not end a list
WRITTEN = re.compile(rf"\s*({NAME.pattern})\s*(?:\((.*)\)\s*)?")
PARAMETER = re.compile(rf"\s*({WORD})\s*=\s*([A-Za-z0-9_.+-]+)\s*")
PATTERN = rf"^{WRITTEN.pattern}$"  # for the schema
# In a C file
REGISTERED = re.compile(r"\.name\s*=\s*\"([^\"]+)\"")
DECLARED = re.compile(rf"^\s*module_param(?:_named)?\s*\(\s*({WORD})\s*,", re.MULTILINE)


@dataclass(frozen=True)
class Control:
    """A congestion control that is a C file."""

    name: str  # as an experiment writes it
    registers: str  # what the file itself calls it
    source: Path
    parameters: tuple[str, ...]
    sha256: str  # of the file
    own: bool  # the user's, not the lab's
    origin: str = ""  # where the user's lay when it was added


@dataclass(frozen=True)
class CongestionControlChoice:
    """A congestion control as an experiment writes it."""

    name: str
    parameters: Mapping[str, str]

    def __str__(self) -> str:
        if not self.parameters:
            return self.name
        said = ",".join(f"{key}={value}" for key, value in sorted(self.parameters.items()))
        return f"{self.name}({said})"

    @property
    def kernel_name(self) -> str:
        """The kernel's name for it; with parameters another module's, beside the one without."""
        if not self.parameters:
            return self.name
        tag = hashlib.sha256(str(self).encode()).hexdigest()[:4]
        return f"{self.name[: MAX_CHARACTERS - 5]}.{tag}"


def parse_control(text: str) -> CongestionControlChoice:
    """`mycc(alpha=3)`. Raises BadInput if it is not written like one."""
    found = WRITTEN.fullmatch(text)
    if found is None:
        raise BadInput("not the name of a congestion control (like cubic, or mycc(alpha=3))")
    name, inside = found.groups()
    parameters: dict[str, str] = {}
    for part in re.split(r"[,;]", inside) if inside is not None else ():
        pair = PARAMETER.fullmatch(part)
        if pair is None:
            raise BadInput(f"{part.strip()!r}: not a parameter (like alpha=3)")
        if pair[1] in parameters:
            raise BadInput(f"{pair[1]}: said twice")
        parameters[pair[1]] = pair[2]
    return CongestionControlChoice(name, parameters)


def kernel_name(cc: str) -> str:
    """What the kernel calls a congestion control of a run. Raises BadInput."""
    return parse_control(cc).kernel_name


def module_name(cc: str) -> str:
    """The name of its module. Raises BadInput."""
    return "cc_" + re.sub(r"[^A-Za-z0-9_]", "_", kernel_name(cc))


def source_text(path: Path) -> str:
    """A C file. Raises BadInput."""
    try:
        plain_size(Path(os.path.realpath(path)))
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise BadInput(f"{from_root(path)}: cannot be read: {reason}") from None


def parameters_in(text: str) -> tuple[str, ...]:
    """The parameters that a C file declares, in its order."""
    return tuple(dict.fromkeys(DECLARED.findall(text)))


def needs_accurate_ecn(cc: str) -> bool:
    """Whether a congestion control's file asks the kernel for accurate ECN. Raises BadInput."""
    control = module_controls().get(parse_control(cc).name)
    return control is not None and "TCP_CONG_NEEDS_ACCECN" in source_text(control.source)


@cache
def shipped_controls() -> dict[str, Control]:
    """The controls in cc/ by name: every tcp_*.c with what it registers. Raises BadInput."""
    found = {}
    for path in sorted(CONTROLS.glob("tcp_*.c")):
        text = source_text(path)
        digest = hashlib.sha256(text.encode()).hexdigest()
        for name in REGISTERED.findall(text):
            found[name] = Control(name, name, path, parameters_in(text), digest, own=False)
    return found


def own_controls() -> dict[str, Control]:
    """The user's controls by name. A folder that is half there is none."""

    def read(file: Path, record: Any) -> Control:
        known = {**record, "parameters": tuple(record["parameters"])}
        return Control(**known, source=file.with_name(f"{record['name']}.c"), own=True)

    return {each.name: each for each in records(own_cc_folder(), RECORD, read)}


def module_controls() -> dict[str, Control]:
    """Every control that is a C file."""
    return {**own_controls(), **shipped_controls()}


def known_names() -> tuple[str, ...]:
    """What an experiment may write."""
    return tuple(sorted({*IN_LINUX, *module_controls()}))


_strangers: ContextVar[bool] = ContextVar("strangers", default=False)


@contextmanager
def welcoming_strangers() -> Iterator[None]:
    """Read what is written here with any congestion control, known or not: results are reported on
    a machine that never had the one that made them.
    """
    token = _strangers.set(True)
    try:
        yield
    finally:
        _strangers.reset(token)


def strangers_welcome() -> bool:
    """Whether a congestion control that is not known here may be named."""
    return _strangers.get()


def check_known(asked: CongestionControlChoice) -> Control | None:
    """The control; None: one of Linux's. Raises BadInput for an unknown one or parameter."""
    control = module_controls().get(asked.name)
    if control is None:
        if asked.name not in IN_LINUX:
            raise BadInput(
                f"no congestion control {asked.name} (there are"
                f" {', '.join(known_names())}; one of your own: ./lab cc add FILE.c)"
            )
        if asked.parameters:
            raise BadInput(f"{asked.name}: one of Linux's own, which are taken as they are")
        return None
    for name in asked.parameters:
        if name not in control.parameters:
            has = ", ".join(control.parameters) or "none"
            raise BadInput(f"{asked.name} has no parameter {name} (it has {has})")
    return control
