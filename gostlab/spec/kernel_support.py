"""What a run asks of its kernel, and what a kernel that cannot do it makes of that.

What nobody wrote gives way: the setting takes the value that needs nothing. What somebody wrote
for a kernel that cannot do it is refused, with what to write instead.
"""

from dataclasses import replace

from gostlab.errors import SandboxOnly
from gostlab.registry import kernels
from gostlab.registry.kernels import FEATURES, SHIPPED, Kernel
from gostlab.registry.qdiscs import BOTTLENECK, names_for, qdisc_kind
from gostlab.spec.request import RunRequest
from gostlab.spec.settings import DEFAULTS, Settings, default_setting, read_override

# What a feature of the kernel's serves, and the value of that setting that needs nothing.
NEEDS = (
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

# From this version on Linux has no other way to detect losses than RACK.
RACK_ALONE = (6, 17)


def fit_settings(written: Settings, machine: str) -> tuple[RunRequest, Kernel]:
    """A run's settings as its kernel can have them, and that kernel. Raises BadInput."""
    settings = {name: written.get(name) or default_setting(name) for name in DEFAULTS}
    asked = settings["kernel"]
    kernel = kernels.kernel_named(asked.value)
    if machine == "native" and asked.value != SHIPPED:
        # What an experiment is made for gives way, and the run's verdict says so.
        if "settings." not in asked.node.key:
            raise SandboxOnly(
                asked.node.bad_value(
                    "a native run has this machine's own kernel: another is the sandbox's"
                    " (--machine sandbox)"
                )
            )
        kernel = replace(kernels.kernel_named(SHIPPED), name=kernel.name)
    fitted = dict(settings)
    declared = kernels.declared_kernels()
    for feature, setting, instead in NEEDS:
        if feature in kernel.features:
            continue
        [free] = read_override(setting, instead)
        own = written.get(setting)
        if own is not None and own.value not in (free.value, "auto"):
            having = [name for name, each in declared.items() if feature in each.features]
            raise own.node.bad_value(
                f"kernel {kernel.name} has no {FEATURES[feature].says}: write {setting}: {instead},"
                f" or kernel: {' or '.join(having)}"
            )
        fitted[setting] = free
    queue = qdisc_kind(fitted["queue"].value)
    if kernel.version < queue.since:
        raise fitted["queue"].node.bad_value(
            f"kernel {kernel.name} has no qdisc {queue.name}: another queue, or another kernel"
        )
    if fitted["loss_detection"].value == "dupacks" and kernel.version >= RACK_ALONE:
        older = [name for name, each in declared.items() if each.version < RACK_ALONE]
        raise fitted["loss_detection"].node.bad_value(
            f"kernel {kernel.name} detects losses by time alone: write loss_detection: rack, or"
            f" kernel: {' or '.join(older)}"
        )
    return RunRequest(
        fitted, {name: fitted.get(name, each) for name, each in written.items()}
    ), kernel


def where_queues_act() -> list[str]:
    """The bottlenecks under which a queue has packets to decide on, the usual one first."""
    kinds = [kind for kind in map(qdisc_kind, names_for(BOTTLENECK)) if kind.takes_queue]
    return [kind.name for kind in sorted(kinds, key=lambda kind: not kind.usual)]
