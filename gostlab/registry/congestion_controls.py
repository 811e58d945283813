# SPDX-License-Identifier: MIT
"""Declare congestion controls: Linux's own, those in cc/, and user-supplied ones.

Linux's controls are in the sandbox's kernel. The others are C files that are compiled as kernel
modules (gostlab.install.kernel_modules). The name and the parameters of a file in cc/ are read from
its text; those of a user's file are determined by loading it (`./lab cc add`), and are saved beside
the copy.

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
from gostlab.registry.plugin_loader import read_records
from gostlab.safe_read import plain_size

# The controls in Linux's tree; only a run can determine whether its kernel has one.
NAMES_IN_LINUX = (
    "bbr bic cdg cubic dctcp highspeed htcp hybla illinois lp nv reno scalable vegas veno westwood"
    " yeah"
)
IN_LINUX = tuple(NAMES_IN_LINUX.split())
RECORD = "control.json"
# The maximum length of a name (Linux's TCP_CA_NAME_MAX, minus the terminating NUL).
MAX_CHARACTERS = 15
NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9_.-]{{0,{MAX_CHARACTERS - 1}}}")
IDENTIFIER = r"[A-Za-z_][A-Za-z0-9_]*"
# The forms are `mycc`, `mycc(alpha=3)`, `mycc(alpha=3; beta=7)`; a comma may separate parameters
# where it does not end a list item.
WRITTEN = re.compile(rf"\s*({NAME.pattern})\s*(?:\((.*)\)\s*)?")
PARAMETER = re.compile(rf"\s*({IDENTIFIER})\s*=\s*([A-Za-z0-9_.+-]+)\s*")
PATTERN = rf"^{WRITTEN.pattern}$"  # The pattern for the JSON Schema.
# The declarations in a C file.
REGISTERED = re.compile(r"\.name\s*=\s*\"([^\"]+)\"")
DECLARED = re.compile(rf"^\s*module_param(?:_named)?\s*\(\s*({IDENTIFIER})\s*,", re.MULTILINE)


@dataclass(frozen=True)
class ControlFile:
    """Represent a congestion control that is a C file."""

    name: str  # The name in an experiment.
    registers: str  # The name that the file itself registers.
    source: Path
    parameters: tuple[str, ...]
    sha256: str  # The checksum of the file.
    is_user_supplied: bool  # Whether the file is user-supplied, not gostlab's.
    origin: str = ""  # The path of the user's file when it was added.


@dataclass(frozen=True)
class CongestionControlChoice:
    """Represent a congestion control as an experiment writes it."""

    name: str
    parameters: Mapping[str, str]

    def __str__(self) -> str:
        if not self.parameters:
            return self.name
        parameters = ",".join(f"{key}={value}" for key, value in sorted(self.parameters.items()))
        return f"{self.name}({parameters})"

    @property
    def kernel_name(self) -> str:
        """Return the kernel's name; parameters make it that of a separate module."""
        if not self.parameters:
            return self.name
        tag = hashlib.sha256(str(self).encode()).hexdigest()[:4]
        return f"{self.name[: MAX_CHARACTERS - 5]}.{tag}"


def parse_control(text: str) -> CongestionControlChoice:
    """Parse a control like `mycc(alpha=3)`. Raises BadInput."""
    match = WRITTEN.fullmatch(text)
    if match is None:
        raise BadInput("not the name of a congestion control (like cubic, or mycc(alpha=3))")
    name, parameter_text = match.groups()
    parameters: dict[str, str] = {}
    for part in re.split(r"[,;]", parameter_text) if parameter_text is not None else ():
        pair = PARAMETER.fullmatch(part)
        if pair is None:
            raise BadInput(f"{part.strip()!r}: not a parameter (like alpha=3)")
        if pair[1] in parameters:
            raise BadInput(f"{pair[1]}: said twice")
        parameters[pair[1]] = pair[2]
    return CongestionControlChoice(name, parameters)


def kernel_name(cc: str) -> str:
    """Return the kernel's name of a run's congestion control. Raises BadInput."""
    return parse_control(cc).kernel_name


def module_name(cc: str) -> str:
    """Return the name of a congestion control's module. Raises BadInput."""
    return "cc_" + re.sub(r"[^A-Za-z0-9_]", "_", kernel_name(cc))


def source_text(path: Path) -> str:
    """Return the text of a C file. Raises BadInput."""
    try:
        plain_size(Path(os.path.realpath(path)))
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise BadInput(f"{from_root(path)}: cannot be read: {reason}") from None


def parameters_in(text: str) -> tuple[str, ...]:
    """Return the parameters that a C file declares, in its order."""
    return tuple(dict.fromkeys(DECLARED.findall(text)))


def needs_accurate_ecn(cc: str) -> bool:
    """Return whether a congestion control's file requires accurate ECN. Raises BadInput."""
    control = module_controls().get(parse_control(cc).name)
    return control is not None and "TCP_CONG_NEEDS_ACCECN" in source_text(control.source)


@cache
def shipped_controls() -> dict[str, ControlFile]:
    """Return the controls in cc/ by name: every tcp_*.c by what it registers. Raises BadInput."""
    controls = {}
    for path in sorted(CONTROLS.glob("tcp_*.c")):
        text = source_text(path)
        digest = hashlib.sha256(text.encode()).hexdigest()
        for name in REGISTERED.findall(text):
            controls[name] = ControlFile(
                name, name, path, parameters_in(text), digest, is_user_supplied=False
            )
    return controls


def own_controls() -> dict[str, ControlFile]:
    """Return the user's controls by name, without incomplete ones."""

    def read(file: Path, record: Any) -> ControlFile:
        known = {**record, "parameters": tuple(record["parameters"])}
        return ControlFile(
            **known, source=file.with_name(f"{record['name']}.c"), is_user_supplied=True
        )

    return {control.name: control for control in read_records(own_cc_folder(), RECORD, read)}


def module_controls() -> dict[str, ControlFile]:
    """Return every control that is a C file."""
    return {**own_controls(), **shipped_controls()}


def known_names() -> tuple[str, ...]:
    """Return the valid names of a congestion control in an experiment."""
    return tuple(sorted({*IN_LINUX, *module_controls()}))


_strangers: ContextVar[bool] = ContextVar("strangers", default=False)


@contextmanager
def accept_unknown_controls() -> Iterator[None]:
    """Accept unknown congestion controls within the context.

    Results may be reported on a machine that lacks the controls that made them.
    """
    token = _strangers.set(True)
    try:
        yield
    finally:
        _strangers.reset(token)


def unknown_controls_accepted() -> bool:
    """Return whether unknown congestion controls are accepted."""
    return _strangers.get()


def find_control(choice: CongestionControlChoice) -> ControlFile | None:
    """Return the control, or None for one of Linux's. Raises BadInput if it is unknown.

    An unknown parameter is an error, too.
    """
    control = module_controls().get(choice.name)
    if control is None:
        if choice.name not in IN_LINUX:
            raise BadInput(
                f"no congestion control {choice.name} (there are"
                f" {', '.join(known_names())}; one of your own: ./lab cc add FILE.c)"
            )
        if choice.parameters:
            raise BadInput(f"{choice.name}: one of Linux's own, which are taken as they are")
        return None
    for name in choice.parameters:
        if name not in control.parameters:
            available = ", ".join(control.parameters) or "none"
            raise BadInput(f"{choice.name} has no parameter {name} (it has {available})")
    return control
