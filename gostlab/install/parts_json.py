# SPDX-License-Identifier: MIT
"""Declare parts.json: the programs and the kernel that a guest is given for a run."""

from collections.abc import Mapping
from typing import NotRequired, TypedDict


class TunnelJson(TypedDict):
    """A tunnel's program, by TunnelBinary's fields."""

    path: str
    kind: str
    version: str
    sha256: str
    helpers: NotRequired[Mapping[str, Mapping[str, str]]]


class KernelJson(TypedDict):
    """A kernel other than the shipped one, with features that it lacks."""

    name: str
    version: str
    lacks: list[str]


class PartsJson(TypedDict, total=False):
    """The contents of parts.json; a program of flows that is missing is None."""

    commit: str | None  # commit of the lab's checkout, with + if that is changed
    path_dirs: list[str]
    tc_lib_dir: str | None
    nginx: str | None
    irtt: str | None
    iperf3: Mapping[str, Mapping[str, str]]  # OwnProgram's fields, by version
    programs: Mapping[str, Mapping[str, str]]  # OwnProgram's fields, by name
    tunnel: TunnelJson | None  # the program of GOST's tunnels
    gosts: Mapping[str, TunnelJson]
    kernel: KernelJson  # absent for the shipped kernel
    files: Mapping[str, str]  # the folder of each command flow's own files, by its name
    modules: Mapping[str, object]  # records of congestion controls by name
