# SPDX-License-Identifier: MIT
"""Fit a run's settings to the features of its kernel.

A default that the kernel does not support is replaced by a value that it supports. An explicit
setting that the kernel does not support is an error, with an alternative.
"""

from dataclasses import replace

from gostlab.errors import SandboxOnly
from gostlab.registry import kernels
from gostlab.registry.kernels import FEATURES, SHIPPED, Kernel
from gostlab.registry.qdiscs import BOTTLENECK, qdisc_kind, qdisc_names
from gostlab.spec.run_request import RunRequest
from gostlab.spec.settings import DEFAULTS, Settings, default_setting, read_override

# The kernel features that settings require, and the value of each setting that requires nothing.
FEATURE_SETTINGS = (
    ("time travel", "clock", "real"),
    ("costs", "syscall_cost", "0us"),
    ("costs", "byte_cost", "0ns"),
    ("costs", "host_cpus", "shared"),
    ("costs", "cpu_share", "whole"),
    ("costs", "packet_cost", "0ns"),
    ("packet cost", "packet_cost", "0ns"),
    ("free clock", "clock_reads", "charged"),
    ("host memory", "host_tcp_memory", "shared"),
    ("host memory", "host_memory", "shared"),
    ("program costs", "machine", "uniform"),
    ("moderated", "receive", "packet"),
)

# From this version on, RACK is Linux's only loss detection.
RACK_ALONE = (6, 17)


def fit_settings(written: Settings, machine: str) -> tuple[RunRequest, Kernel]:
    """Return a run's settings as its kernel supports them, and the kernel. Raises BadInput."""
    settings = {name: written.get(name) or default_setting(name) for name in DEFAULTS}
    kernel_setting = settings["kernel"]
    kernel = kernels.kernel_named(kernel_setting.value)
    if machine == "native" and kernel_setting.value != SHIPPED:
        # A kernel setting of the experiment is replaced, and the run's verdict reports it.
        if "settings." not in kernel_setting.node.key:
            raise SandboxOnly(
                kernel_setting.node.bad_value(
                    "a native run has this machine's own kernel: another is the sandbox's"
                    " (--machine sandbox)"
                )
            )
        kernel = replace(kernels.kernel_named(SHIPPED), name=kernel.name)
    fitted = dict(settings)
    declared = kernels.declared_kernels()
    for feature, setting, replacement in FEATURE_SETTINGS:
        if feature in kernel.features:
            continue
        [free] = read_override(setting, replacement)
        explicit = written.get(setting)
        if explicit is not None and explicit.value not in (free.value, "auto"):
            supporting = [
                name
                for name, declared_kernel in declared.items()
                if feature in declared_kernel.features
            ]
            raise explicit.node.bad_value(
                f"kernel {kernel.name} has no {FEATURES[feature].says}: write {setting}:"
                f" {replacement},"
                f" or kernel: {' or '.join(supporting)}"
            )
        fitted[setting] = free
    queue = qdisc_kind(fitted["queue"].value)
    if kernel.version < queue.since:
        raise fitted["queue"].node.bad_value(
            f"kernel {kernel.name} has no qdisc {queue.name}: another queue, or another kernel"
        )
    if fitted["loss_detection"].value == "dupacks" and kernel.version >= RACK_ALONE:
        older = [
            name
            for name, declared_kernel in declared.items()
            if declared_kernel.version < RACK_ALONE
        ]
        raise fitted["loss_detection"].node.bad_value(
            f"kernel {kernel.name} detects losses by time alone: write loss_detection: rack, or"
            f" kernel: {' or '.join(older)}"
        )
    return RunRequest(
        fitted, {name: fitted.get(name, setting) for name, setting in written.items()}
    ), kernel


def bottlenecks_with_queue() -> list[str]:
    """Return the bottlenecks under which a queue has packets to decide on, the default first."""
    qdiscs = [qdisc for qdisc in map(qdisc_kind, qdisc_names(BOTTLENECK)) if qdisc.takes_queue]
    return [qdisc.name for qdisc in sorted(qdiscs, key=lambda qdisc: not qdisc.usual)]
