# SPDX-License-Identifier: MIT
"""Define `./lab cc`, `kernel` and `gost`: add, list and remove user-supplied parts."""

import argparse
import os
import sys
from pathlib import Path

from gostlab import api
from gostlab.cc_cases import cc_test_cli
from gostlab.cli import common
from gostlab.registry.kernels import FEATURES
from gostlab.terminal_escape import StepOutput


def cc_arguments(verb: argparse.ArgumentParser) -> None:
    actions = common.add_actions(verb)
    for name, summary in (
        ("add", "compile and load a C file, and keep it as a level of cc"),
        ("check", "compile and load a C file, and keep nothing"),
    ):
        action = actions.add_parser(name, help=summary, description=summary)
        action.add_argument("file", type=Path, help="the C file (cc/template.c is one)")
        action.add_argument(
            "--name", help="name of the congestion control (default: the one in the file)"
        )
    cc_test_cli.add_test_action(actions)
    listing = actions.add_parser(
        "list", help="every congestion control that an experiment may name"
    )
    common.JSON(listing)
    remove = actions.add_parser("remove", help="remove one of your own (results are kept)")
    remove.add_argument("name")


@common.verb(
    cc_arguments,
    example="./lab cc add my_cc.c --name mine (docs/how-to/congestion-control.md goes through it)",
)
def cc_verb(arguments: argparse.Namespace) -> int:
    if arguments.action == "test":
        return cc_test_cli.test_cc(arguments)
    if arguments.action == "list":
        listed = api.congestion_controls()
        of_linux = [control.name for control in listed if control.origin == "Linux"]
        lines = [control.line for control in listed[len(of_linux) :]]
        text = "\n".join([f"{', '.join(of_linux)}: Linux's own", *lines])
        common.print_either(arguments, listed, text)
        return common.EXIT_OK
    if arguments.action == "remove":
        control = api.remove_cc(arguments.name)
        print(f"{control.name}: forgotten; {control.origin} and results made with it stay")
        return common.EXIT_OK
    added = api.add_cc(arguments.file, arguments.name, keep=arguments.action == "add")
    for line in added.warnings:
        print(line, file=sys.stderr)
    control = added.control
    parameters = f", parameters: {', '.join(control.parameters)}" if control.parameters else ""
    if arguments.action == "check":
        print(f"{arguments.file}: compiles and loads, as {control.name}{parameters}")
        return common.EXIT_OK
    print(
        f"{control.name}: {'replaced' if added.replaced else 'added'}{parameters}\n"
        f"in any experiment: cc: [{control.name}, cubic, bbr]"
    )
    return common.EXIT_OK


def kernel_arguments(verb: argparse.ArgumentParser) -> None:
    actions = common.add_actions(verb)
    summary = "build a version of Linux, a tree or a tarball, as a level of kernel"
    add = actions.add_parser("add", help=summary, description=summary)
    add.add_argument("what", help="5.10, 6.1, 6.12, 7.3; or a tree or tarball, 4.9 or later")
    add.add_argument("--name", help="name of a tree or tarball of your own")
    common.jobs_option("number of compiler processes (default: one per CPU)")(add)
    summary = "every kernel that an experiment may name, and what it lacks"
    common.JSON(actions.add_parser("list", help=summary))
    remove = actions.add_parser("remove", help="delete an added kernel (results are kept)")
    remove.add_argument("name")


@common.verb(
    kernel_arguments,
    example="./lab kernel add 5.10 (docs/reference/kernels.md says what each lacks)",
)
def kernel_verb(arguments: argparse.Namespace) -> int:
    if arguments.action == "list":
        listed = api.kernels()
        common.print_either(arguments, listed, "\n".join(kernel.line for kernel in listed))
        return common.EXIT_OK
    if arguments.action == "remove":
        for folder in api.remove_kernel(arguments.name):
            print(f"{arguments.name}: {folder} is deleted; results made with it stay")
        return common.EXIT_OK
    jobs = arguments.jobs or len(os.sched_getaffinity(0))
    output = StepOutput()
    try:
        kernel = api.add_kernel(arguments.what, arguments.name, jobs=jobs, say=output)
    finally:
        output.clear()
    origin = "built before" if kernel.build_s is None else f"built in {kernel.build_s:.0f} s"
    print(f"{kernel.name}: Linux {kernel.version}, {origin}")
    if kernel.refused:
        print(f"patches that this tree did not take: {', '.join(kernel.refused)}")
    for feature in kernel.lacks:
        print(f"it has no {FEATURES[feature].says}")
    print(f"in any experiment: kernel: [{kernel.name}, shipped]")
    return common.EXIT_OK


def gost_arguments(verb: argparse.ArgumentParser) -> None:
    actions = common.add_actions(verb)
    summary = "keep a GOST, as a level of gost: its file (.xz or .tar.gz, too), or a release"
    add = actions.add_parser("add", help=summary, description=summary)
    add.add_argument("what", help="a file, or the version of an official release (3.2.6)")
    add.add_argument("--name", help="name of the GOST (default: its version)")
    common.JSON(actions.add_parser("list", help="every GOST that an experiment may name"))
    remove = actions.add_parser("remove", help="delete an added GOST (results are kept)")
    remove.add_argument("name")


@common.verb(gost_arguments, example="./lab gost add gost-3.2.6-linux-amd64.xz")
def gost_verb(arguments: argparse.Namespace) -> int:
    if arguments.action == "list":
        listed, default = api.gosts()
        text = "\n".join([*(gost.line for gost in listed), default])
        common.print_either(arguments, listed, text)
    elif arguments.action == "remove":
        print(f"{arguments.name}: {api.remove_gost(arguments.name)} is deleted; its results stay")
    else:
        added = api.add_gost(arguments.what, arguments.name)
        name = added.path.parent.name
        print(f"{name}: {added.version} ({added.path})")
        print(f"in any experiment: gost: [{name}, relay]")
    return common.EXIT_OK
