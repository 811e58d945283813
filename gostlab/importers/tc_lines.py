# SPDX-License-Identifier: MIT
"""Parse a path that is written for tc(8) or Mininet: not a recording, but what somebody set.

Three texts are read: scripts with `tc qdisc add …` lines, what `tc qdisc show` prints (with
`tc class show` where there are classes), and Mininet's `TCLink(bw=…, delay=…)`.

netem's delay is one way, on what leaves the device. A device that a filter redirects incoming
packets to (ifb) shapes the reverse direction. Units are tc's own: `mbps` is bytes, `kb` is 1024
bytes, a percentage needs no sign.
"""

import ast
import re
import shlex
import textwrap
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from gostlab.importers.base import (
    ImportFormat,
    Recording,
    SpecifiedDirection,
    SpecifiedPath,
    UnreadableRecording,
)
from gostlab.spec import units
from gostlab.spec.path_spec import PolicerSpec, ReorderSpec, ShareSpec, SlotSpec
from gostlab.tcpmodel.delay_tables import TABLE_NAMES, delay_table
from gostlab.tcpmodel.run_limits import MTU_BYTES

RATE_FACTORS = {
    **{
        f"{prefix}{binary}{unit}": bits * (1024 if binary else 1000) ** power
        for power, prefix in enumerate(("", "k", "m", "g", "t"))
        for binary in (("", "i") if prefix else ("",))
        for unit, bits in (("bit", 1), ("bps", 8))
    },
    "": 1,
}
TIME_FACTORS_S = {
    **dict.fromkeys(("s", "sec", "secs"), Fraction(1)),
    **dict.fromkeys(("ms", "msec", "msecs"), Fraction(1, 1000)),
    **dict.fromkeys(("us", "usec", "usecs"), Fraction(1, 10**6)),
    **dict.fromkeys(("ns", "nsec", "nsecs"), Fraction(1, 10**9)),
}
SIZE_FACTORS = {
    **dict.fromkeys(("", "b"), Fraction(1)),
    **dict.fromkeys(("k", "kb"), Fraction(1024)),
    **dict.fromkeys(("m", "mb"), Fraction(1024**2)),
    **dict.fromkeys(("g", "gb"), Fraction(1024**3)),
    "kbit": Fraction(1024, 8),
    "mbit": Fraction(1024**2, 8),
    "gbit": Fraction(1024**3, 8),
}
# netem's names of delay tables; uniform is also the shape without a name.
DISTRIBUTIONS = ("normal", "pareto", "paretonormal", "experimental")
DEFAULT_LIMIT_PKTS = 1000  # netem's limit, and that of a class without a qdisc (txqueuelen)
FRAME_BYTES = MTU_BYTES + 14  # a full packet as qdiscs count it
# Qdiscs under a token bucket that are a `queue` of the lab, by tc's name.
QUEUES = {"pfifo": "fifo", "bfifo": "bfifo"} | {
    name: name for name in ("codel", "fq_codel", "pie", "fq_pie", "sfq", "red", "fq")
}
INCOMING, OUTGOING = "incoming", "outgoing"  # the packets that a filter is for
# Qdiscs with classes, of which one leaf carries the path.
CLASSFUL = ("htb", "hfsc", "prio", "drr", "qfq", "ets", "mq", "multiq", "cbq")
MAX_LINES = 20_000

NETEM_WORDS = (
    "limit delay latency loss drop distribution rate slot ecn seed reorder gap duplicate corrupt"
).split()


@dataclass(frozen=True)
class TcCommand:
    """One tc command, or one line of its output in the form of a command."""

    position: str  # FILE:LINE
    namespace: str
    args: tuple[str, ...]  # after `tc`


@dataclass(frozen=True)
class TcObject:
    """One installed qdisc or class: `options` are its arguments after the kind."""

    position: str
    discipline: str
    handle: str  # 1: of a qdisc, 1:10 of a class
    parent: str  # root, ingress, 1: or 1:10
    options: tuple[str, ...]
    default: str = ""  # the class of packets that no filter classifies


@dataclass
class TcDevice:
    """A device's qdiscs by their parent and its classes by their handle."""

    name: str
    qdiscs: dict[str, TcObject] = field(default_factory=dict)
    classes: dict[str, TcObject] = field(default_factory=dict)
    policers: dict[str, TcObject] = field(default_factory=dict)  # by INCOMING and OUTGOING
    redirects_to: str = ""
    reads_output: bool = False  # whether the lines are what tc printed


@dataclass(frozen=True)
class NetemOptions:
    """netem's options, in SI units."""

    limit_pkts: int = DEFAULT_LIMIT_PKTS
    delay_s: Fraction = Fraction(0)
    jitter_s: Fraction = Fraction(0)
    distribution: str = ""
    # (p,), gemodel's (p, r, 1-h, 1-k), or state's (p13, p31, p32, p23, p14)
    loss: tuple[Fraction, ...] = ()
    rate_bps: int | None = None
    loss_correlation: Fraction = Fraction(0)
    reorder: ReorderSpec | None = None
    duplicate: ShareSpec | None = None
    corrupt: ShareSpec | None = None
    slot: SlotSpec | None = None

    @property
    def emulates(self) -> bool:
        """Return whether it does more than to queue packets at a rate."""
        others = (self.reorder, self.duplicate, self.corrupt, self.slot)
        return bool(self.delay_s or self.loss or any(others))


# -- tc's units


def read_number(text: str, factors: Mapping[str, Fraction | int], what: str) -> Fraction:
    """Return a number in tc's units, in the base unit. Raises ValueError."""
    match = re.fullmatch(r"([0-9]{1,15}(?:\.[0-9]{1,15})?|\.[0-9]{1,15})([A-Za-z]*)", text)
    if match is None:
        raise ValueError(f"{text!r:.40} is no {what} of tc's")
    if (unit := match[2].lower()) not in factors:
        known = ", ".join(dict.fromkeys(filter(None, factors)))
        raise ValueError(f"{text!r:.40}: unknown unit of a {what} (one of {known:.60})")
    return Fraction(match[1]) * factors[unit]


def read_rate_bps(text: str) -> int:
    """Return the bit/s of a rate like 20mbit, 2mbps (bytes), 500000. Raises ValueError."""
    if text.endswith("%"):
        raise ValueError(f"{text!r:.40} is a share of the device's speed: write the rate")
    return round(read_number(text, RATE_FACTORS, "rate"))


def read_time_s(text: str) -> Fraction:
    """Return the seconds of a time like 100ms. Raises ValueError, also without a unit.

    A bare number is µs to older tc and ns to newer.
    """
    if re.fullmatch(r"[0-9.]+", text) and Fraction(text):
        raise ValueError(f"{text!r:.40} has no unit: µs to an old tc, ns to a new (write {text}ms)")
    return read_number(text, {**TIME_FACTORS_S, "": Fraction(0)}, "time")


def read_share(text: str) -> Fraction:
    """Return the share 0..1 of a percentage, with or without its sign. Raises ValueError."""
    share = read_number(text.removesuffix("%"), {"": Fraction(1, 100)}, "percentage")
    if share > 1:
        raise ValueError(f"{text!r:.40} is more than 100%")
    return share


def read_size_bytes(text: str) -> int:
    """Return the bytes of a size like 32kbit, 10kb. Raises ValueError."""
    return round(read_number(text, SIZE_FACTORS, "size"))


def is_number(text: str) -> bool:
    return text[:1].isdigit() or text[:1] == "."


# -- commands


def shell_commands(recording: Recording) -> Iterator[TcCommand]:
    """Yield the tc commands of a script. Raises UnreadableRecording for a variable in one."""
    lines = recording.text.splitlines()
    if len(lines) > MAX_LINES:
        raise UnreadableRecording(f"{recording.label}: more than {MAX_LINES} lines")
    line = position = ""
    for number, written in enumerate(lines, 1):
        position = position if line else f"{recording.label}:{number}"
        line += written.removesuffix("\\")
        if written.endswith("\\"):
            line += " "
            continue
        called = re.search(r"""\bcmd\(\s*['"](.*)['"]""", line)  # h1.cmd('tc qdisc …') of Mininet
        for part in re.split(r"&&|\|\||[;|]", called[1] if called else line):
            argv = re.sub(r"(?:^|\s)#.*", "", part).split()
            argv = [word for word in argv if not re.match(r"\d?>|&>", word)]
            if not any(word.rpartition("/")[2] == "tc" for word in argv[:8]):
                continue
            at = next(i for i, word in enumerate(argv) if word.rpartition("/")[2] == "tc")
            variable = next((word for word in argv[at:] if re.search(r"[$`%]\w|[$`{]", word)), "")
            if variable:
                raise UnreadableRecording(
                    f"{position}: {variable:.40} is a variable: write its value (`sh -x` prints"
                    " each command with the values)"
                )
            prefix = argv[:at]
            namespace = prefix[prefix.index("exec") + 1] if "exec" in prefix[:-1] else ""
            try:
                args = shlex.split(" ".join(argv[at + 1 :]))
            except ValueError as error:
                raise UnreadableRecording(f"{position}: {error}") from None
            yield TcCommand(position, namespace, tuple(args))
        line = ""


SHOWN = re.compile(
    r"(qdisc|class) (\w+) (\S+) (?:dev (\S+) )?(root|ingress|parent \S+|clsact)\b(.*)"
)
SHOWN_NOISE = re.compile(r" (?:refcnt|bands|priomap|prio|leaf|seed) \S+(?: [01](?= |$))*|offloaded")


def shown_commands(recording: Recording) -> Iterator[TcCommand]:
    """Yield what `tc qdisc show` and `tc class show` printed, as the commands that install it."""
    for number, line in enumerate(recording.text.splitlines(), 1):
        match = SHOWN.match(line)
        if match is None:
            continue
        table, qdisc_name, handle, device, parent, options = match.groups()
        given = SHOWN_NOISE.sub("", options).split()
        of_class = ("classid", handle) if table == "class" else ("handle", handle)
        location = ("dev", device or "the device", *parent.split(), *of_class)
        args = (table, "add", *location, qdisc_name, *given)
        yield TcCommand(f"{recording.label}:{number}", "", args)


def is_shown(text: str) -> bool:
    """Return whether a text is what tc prints."""
    return any(SHOWN.match(line) for line in text.splitlines()[:200])


# -- what the commands install


def apply_commands(commands: Sequence[TcCommand], *, reads_output: bool) -> list[TcDevice]:
    """Return the devices with what is installed after all commands. Raises UnreadableRecording."""
    devices: dict[str, TcDevice] = {}
    for command in commands:
        try:
            apply_command(command, devices)
        except IndexError:
            raise UnreadableRecording(f"{command.position}: the line ends too soon") from None
        except ValueError as error:
            raise UnreadableRecording(f"{command.position}: {error}") from None
    for device in devices.values():
        device.reads_output = reads_output
    return list(devices.values())


def apply_command(command: TcCommand, devices: dict[str, TcDevice]) -> None:
    """Apply one command to the devices. Raises ValueError or IndexError."""
    args = [arg for arg in command.args if not re.fullmatch(r"-[a-zA-Z]+", arg)]
    if len(args) < 2:
        return
    table = next((t for t in ("qdisc", "class", "filter") if t.startswith(args[0])), "")
    verbs = ("add", "change", "replace", "delete", "show", "list", "ls", "link", "get")
    verb = next((v for v in verbs if v.startswith(args[1])), "")
    if not table or verb in ("show", "list", "ls", "get"):
        return
    keywords = ["dev", "parent", "handle", "classid"]
    keywords += ["protocol", "prio", "pref"] if table == "filter" else []
    location: dict[str, str] = {}
    rest = args[2:]
    while rest:
        if rest[0] in ("root", "ingress", "clsact", "egress") and "parent" not in location:
            location["parent"] = rest.pop(0)
        elif rest[0] in keywords:
            location[rest[0]] = rest[1]
            del rest[:2]
        elif rest[0] in ("estimator", "stab"):
            raise ValueError(f"{rest[0]} has no equivalent here: leave it out")
        else:
            break
    if not location.get("dev"):
        raise ValueError(f"tc {args[0]} without dev")
    name = " ".join(filter(None, (command.namespace, location["dev"])))
    device = devices.setdefault(name, TcDevice(name))
    if table == "filter":
        if "redirect" in rest or "mirror" in rest:
            device.redirects_to = rest[rest.index("dev") + 1]
            target = " ".join(filter(None, (command.namespace, device.redirects_to)))
            device.redirects_to = target
        if "police" in rest:
            parent = canonical_handle(location.get("parent", "root"))
            where = INCOMING if parent == "ingress" or parent.startswith("ffff:") else OUTGOING
            arguments = tuple(rest[rest.index("police") + 1 :])
            device.policers[where] = TcObject(command.position, "police", "", parent, arguments)
        return
    location["parent"] = canonical_handle(location.get("parent", "root"))
    if verb == "delete":
        remove_subtree(device, table, location)
        return
    if not rest and location["parent"] in ("ingress", "clsact"):
        rest = [location["parent"]]
    qdisc_name, *options = rest or [""]
    if table == "qdisc" and location["parent"].startswith("ffff:"):
        location["parent"] = "ingress"
    handle = canonical_handle(location.get("classid") or location.get("handle", ""))
    default = options[options.index("default") + 1] if "default" in options[:-1] else ""
    new_object = TcObject(
        command.position, qdisc_name, handle, location["parent"], tuple(options), default
    )
    if table == "class":
        device.classes[handle] = new_object
        return
    before = device.qdiscs.get(new_object.parent)
    if before and before.discipline == qdisc_name == "netem" and verb in ("change", "replace"):
        new_object = replace(
            new_object,
            handle=handle or before.handle,
            options=kept_netem_options(before, new_object),
        )
    if verb == "add" and before:
        raise ValueError(
            f"add where {before.position} has a {before.discipline} already, which tc refuses (File"
            " exists): write replace, or delete the other first"
        )
    if verb == "change" and not before:
        raise ValueError(f"change of a qdisc that no line adds (dev {name}, {new_object.parent})")
    device.qdiscs[new_object.parent] = new_object


def canonical_handle(handle: str) -> str:
    """Return a handle without leading zeros: 1:0a as 1:a, 1:0 as 1:, a word as it is."""
    match = re.fullmatch(r"([0-9a-fA-F]*):(?:([0-9a-fA-F]*))", handle)
    if match is None:
        return f"{handle.lstrip('0')}:" if re.fullmatch(r"[0-9a-fA-F]+", handle) else handle
    major, minor = (part.lstrip("0").lower() for part in match.groups())
    return f"{major}:{minor}"


def remove_subtree(device: TcDevice, table: str, location: Mapping[str, str]) -> None:
    """Remove a qdisc or class with all below it; what is not there is no error."""
    if table == "class":
        device.classes.pop(canonical_handle(location.get("classid", "")), None)
        return
    if location["parent"] == "root":
        remaining = {name: qdisc for name, qdisc in device.qdiscs.items() if name == "ingress"}
        device.qdiscs, device.classes = remaining, {}
    else:
        device.qdiscs.pop(location["parent"], None)
        if location["parent"] == "ingress":
            device.redirects_to = ""


def kept_netem_options(before: TcObject, after: TcObject) -> tuple[str, ...]:
    """Return a netem's options after `change`: the kernel keeps only rate and distribution."""
    remaining: list[str] = []
    for word in ("rate", "distribution"):
        if word in before.options[:-1] and word not in after.options:
            if word == "distribution" and "delay" not in after.options:
                continue
            remaining += [word, before.options[before.options.index(word) + 1]]
    return (*after.options, *remaining)


# -- one device's path


class DirectionReader:
    """Reads the shaping of one device, and collects what it took and what it left out."""

    def __init__(self, device: TcDevice) -> None:
        self.device = device
        self.left_out: list[str] = []
        self.settings: dict[str, str] = {}

    def direction(self) -> SpecifiedDirection | None:
        """Return the device's egress, or None if nothing shapes it. Raises UnreadableRecording."""
        chain = list(self._chain())
        netems = [self._netem(qdisc) for qdisc in chain if qdisc.discipline == "netem"]
        if not any(qdisc.discipline in ("netem", "tbf", "class", "cake") for qdisc in chain):
            return None
        delays = [netem for netem in netems if netem.emulates]
        if len(delays) > 1:
            raise UnreadableRecording(
                f"{chain[0].position}: two netems with delay or loss on {self.device.name}: write"
                " them as one"
            )
        netem = delays[0] if delays else NetemOptions()
        rates = [one.rate_bps for one in netems if one.rate_bps]
        buckets = [qdisc for qdisc in chain if qdisc.discipline in ("tbf", "class", "cake")]
        rates += [rate for qdisc in buckets if (rate := self._bucket_rate_bps(qdisc))]
        rate_bps = min(rates, default=None)
        buffer, buffer_from = self._buffer(chain, netems, rate_bps)
        if buckets:
            qdisc_name = "htb" if buckets[0].discipline == "class" else "tbf"
            self.settings.setdefault("bottleneck", qdisc_name)
        # With a rate of its own netem sends in the order of arrival, whatever the jitter.
        ordered = any(one.rate_bps and one.jitter_s for one in netems)
        return SpecifiedDirection(
            device=self.device.name,
            position=chain[0].position,
            rate_bps=rate_bps,
            delay_s=netem.delay_s,
            jitter_s=netem.jitter_s,
            distribution=netem.distribution,
            loss=netem.loss,
            buffer=buffer,
            buffer_from=buffer_from,
            ordered=ordered,
            loss_correlation=netem.loss_correlation,
            policer=self.policer(OUTGOING),
            reorder=netem.reorder,
            duplicate=netem.duplicate,
            corrupt=netem.corrupt,
            slot=netem.slot,
        )

    def policer(self, packets: str) -> PolicerSpec | None:
        """Return the policer of incoming or outgoing packets. Raises UnreadableRecording."""
        police = self.device.policers.get(packets)
        if police is None:
            return None
        values = dict(zip(police.options, police.options[1:], strict=False))
        if "drop" not in " ".join(police.options):
            self._leave(police.position, "police that drops nothing (conform-exceed drop does)")
            return None
        try:
            return PolicerSpec(
                rate_bps=read_rate_bps(values.get("rate", "")),
                burst_bytes=read_size_bytes((values.get("burst") or "").partition("/")[0]),
            )
        except ValueError as error:
            raise UnreadableRecording(f"{police.position}: police: {error}") from None

    def _chain(self) -> Iterator[TcObject]:
        """Yield what a packet passes, from the root down; a class has the kind `class`."""
        qdisc = self.device.qdiscs.get("root")
        passed: list[TcObject] = []
        while qdisc:
            if qdisc in passed:
                raise UnreadableRecording(f"{qdisc.position}: {qdisc.handle} stands below itself")
            passed.append(qdisc)
            yield qdisc
            if qdisc.discipline in CLASSFUL:
                leaf = self._leaf_class(qdisc)
                if leaf is None:
                    return
                yield replace(leaf, discipline="class")
                qdisc = self.device.qdiscs.get(leaf.handle)
            else:
                major = qdisc.handle.partition(":")[0]
                below = (
                    other
                    for parent, other in self.device.qdiscs.items()
                    if major and parent.partition(":")[0] == major and ":" in parent
                )
                qdisc = next(below, None)

    def _leaf_class(self, qdisc: TcObject) -> TcObject | None:
        """Return the class that carries the path, or None.

        It is the only leaf, the only one with a netem, or the default. Raises UnreadableRecording
        if there are several.
        """
        major = qdisc.handle.partition(":")[0]
        classes = dict(self.device.classes)
        for parent, child in self.device.qdiscs.items():  # prio and others have classes unwritten
            if parent.partition(":")[0] == major and ":" in parent and parent not in classes:
                classes[parent] = TcObject(child.position, "prio", parent, qdisc.handle, ())
        parents = {one.parent for one in classes.values()}
        leaves = [one for name, one in classes.items() if name not in parents]
        if qdisc.discipline in ("mq", "multiq") and not leaves:
            return None
        emulating = [one for one in leaves if self._has_netem(one.handle)]
        default = canonical_handle(f"{major}:{qdisc.default.removeprefix('0x')}")
        by_default = [one for one in leaves if one.handle == default]
        for candidates in (leaves, emulating, by_default):
            if len(candidates) == 1:
                for other in leaves:
                    if other is not candidates[0]:
                        self._leave(other.position, f"class {other.handle}, other traffic's")
                return candidates[0]
        if not leaves:
            return None
        names = ", ".join(one.handle for one in leaves)
        raise UnreadableRecording(
            f"{qdisc.position}: classes {names:.60} on {self.device.name}: leave the one that your"
            " traffic takes"
        )

    def _has_netem(self, parent: str) -> bool:
        below = self.device.qdiscs.get(parent)
        return below is not None and below.discipline == "netem"

    def _bucket_rate_bps(self, bucket: TcObject) -> int | None:
        """Return the rate of a token bucket; a class may borrow up to its and its parents' ceil."""
        word = "bandwidth" if bucket.discipline == "cake" else "rate"
        values = dict(zip(bucket.options, bucket.options[1:], strict=False))
        try:
            if bucket.discipline != "class":
                self._leave_bucket_options(bucket, values)
                return read_rate_bps(values[word]) if word in values else None
            ceils: list[int] = []
            current: TcObject | None = bucket
            for _ in range(1 + len(self.device.classes)):  # parents may name each other
                if current is None:
                    break
                values = dict(zip(current.options, current.options[1:], strict=False))
                text = values.get("ceil") or values.get("rate")
                if text is None and current.options:
                    raise ValueError(f"class {current.handle} without a rate")
                ceils += [read_rate_bps(text)] if text else []
                current = self.device.classes.get(current.parent)
            return min(ceils, default=None)
        except ValueError as error:
            raise UnreadableRecording(f"{bucket.position}: {bucket.discipline}: {error}") from None

    def _leave_bucket_options(self, bucket: TcObject, values: Mapping[str, str]) -> None:
        if bucket.discipline == "cake":
            self._leave(bucket.position, "cake's own options (the setting is queue: cake)")
            self.settings |= {"queue": "cake"}
        for word in ("peakrate", "mpu", "overhead", "linklayer"):
            if word in values:
                self._leave(bucket.position, f"{word} {values[word]}")

    def _buffer(
        self, chain: Sequence[TcObject], netems: Sequence[NetemOptions], rate_bps: int | None
    ) -> tuple[str, str]:
        """Return the queue's size in the form of a profile, and how it follows from the lines."""
        last = chain[-1]
        position = last.position
        values = dict(zip(last.options, last.options[1:], strict=False))
        try:
            if last.discipline == "netem":
                return self._netem_buffer(position, netems[-1], rate_bps)
            if last.discipline == "tbf":
                return self._tbf_buffer(values)
            if last.discipline in QUEUES:
                if last.discipline not in ("pfifo", "bfifo"):
                    self.settings["queue"] = QUEUES[last.discipline]
                if "limit" not in values:
                    return "", ""
                limit = values["limit"].removesuffix("p")
                if last.discipline in ("bfifo", "red"):
                    return frames_of(read_size_bytes(limit)), f"{last.discipline}'s limit {limit}"
                return f"{int(limit)}pkts", f"{last.discipline}'s limit {limit}"
        except ValueError as error:
            raise UnreadableRecording(f"{position}: {last.discipline}: {error}") from None
        if last.discipline == "class":
            return f"{DEFAULT_LIMIT_PKTS}pkts", "the class's own queue, of txqueuelen 1000"
        if last.discipline not in ("cake", *CLASSFUL):
            self._leave(position, f"{last.discipline}, which the lab does not have as a queue")
        return "", ""

    def _netem_buffer(
        self, position: str, last: NetemOptions, rate_bps: int | None
    ) -> tuple[str, str]:
        """Return what netem's limit leaves to the queue: it counts packets in flight, too."""
        if rate_bps is None:
            return "", ""
        in_flight = packets_in_flight(rate_bps, last.delay_s)
        left = last.limit_pkts - in_flight
        if left < 1:
            raise UnreadableRecording(
                f"{position}: netem's limit of {last.limit_pkts} packets is less than the"
                f" {in_flight} that {units.show_rate(rate_bps)} has in flight for"
                f" {units.show_s(last.delay_s)}: it drops them at any load; write limit"
                f" {2 * in_flight + DEFAULT_LIMIT_PKTS} there"
            )
        how = f"limit {last.limit_pkts}"
        if in_flight:
            how += f" less the {in_flight} packets in flight, which netem counts too"
        return f"{left}pkts", how

    def _tbf_buffer(self, values: Mapping[str, str]) -> tuple[str, str]:
        if "limit" in values:
            limit = values["limit"]
            return frames_of(read_size_bytes(limit)), f"tbf's limit {limit} of full frames"
        text = values.get("latency") or values.get("lat")
        if text is None:
            return "", ""
        burst = values.get("burst") or values.get("buffer") or values.get("maxburst") or "0"
        latency_bytes = read_rate_bps(values.get("rate", "")) * read_time_s(text) / 8
        size = round(latency_bytes) + read_size_bytes(burst.partition("/")[0])
        return frames_of(size), f"tbf's latency {text} at its rate, and burst {burst}"

    def _netem(self, qdisc: TcObject) -> NetemOptions:
        """Return a netem's options. Raises UnreadableRecording with the line."""
        try:
            return self._netem_options(qdisc)
        except ValueError as error:
            raise UnreadableRecording(f"{qdisc.position}: netem: {error}") from None

    def _netem_options(self, qdisc: TcObject) -> NetemOptions:
        options, netem = list(qdisc.options), NetemOptions()
        gap = 0
        while options:
            word = options.pop(0)
            name = next((known for known in NETEM_WORDS if known.startswith(word)), "")
            if word in NETEM_WORDS:
                name = word
            numbers = []
            while options and is_number(options[0]):
                numbers.append(options.pop(0))
            if name == "reorder" and numbers:
                share, correlation = share_and_correlation(numbers)
                reorder = ReorderSpec(share=share, correlation=correlation)
                netem = replace(netem, reorder=reorder)
            elif name == "gap" and numbers:
                gap = int(numbers[0])
            elif name in ("duplicate", "corrupt") and numbers:
                share, correlation = share_and_correlation(numbers)
                impairment = ShareSpec(share=share, correlation=correlation)
                if name == "duplicate":
                    netem = replace(netem, duplicate=impairment)
                else:
                    netem = replace(netem, corrupt=impairment)
            elif name in ("delay", "latency") and numbers:
                netem = replace(netem, delay_s=read_time_s(numbers[0]))
                if len(numbers) > 1:
                    netem = replace(netem, jitter_s=read_time_s(numbers[1]))
                if len(numbers) > 2:
                    self._leave(qdisc.position, f"delay's correlation {numbers[2]}")
            elif name == "limit" and numbers:
                netem = replace(netem, limit_pkts=int(numbers[0]))
            elif name in ("loss", "drop"):
                loss, loss_correlation = self._loss(options, numbers)
                netem = replace(netem, loss=loss, loss_correlation=loss_correlation)
            elif name == "distribution" and options:
                netem = replace(netem, distribution=self._distribution(options.pop(0)))
            elif name == "rate" and numbers:
                netem = replace(netem, rate_bps=read_rate_bps(numbers[0]))
                if len(numbers) > 1 and any(Fraction(number) for number in numbers[1:]):
                    self._leave(qdisc.position, f"rate's overhead {' '.join(numbers[1:])}")
                while options[:1] and options[0] in ("packetoverhead", "cellsize", "celloverhead"):
                    self._leave(qdisc.position, f"rate's {options[0]} {options[1]}")
                    del options[:2]
            elif name == "slot":
                netem = replace(netem, slot=self._slot(qdisc, options, numbers))
            elif name == "ecn":
                self._leave(qdisc.position, "ecn (the setting is ecn: losses)")
            elif name != "seed" and not (name and not numbers and not options):
                raise ValueError(f"{word!r:.40} is no option of netem's")
        if gap > 1 or (gap and netem.reorder is None):  # without a share of its own it is 100%
            reorder = netem.reorder or ReorderSpec(share=1.0)
            netem = replace(netem, reorder=replace(reorder, distance=gap))
        if netem.reorder and netem.slot:
            raise ValueError("reorder and slot: a reordered packet is sent at once, in no slot")
        if netem.jitter_s and not netem.distribution and self.device.reads_output:
            self._leave(
                qdisc.position, "jitter's distribution: tc does not show it (uniform is taken)"
            )
        return netem

    def _slot(self, qdisc: TcObject, options: list[str], numbers: list[str]) -> SlotSpec | None:
        """Return slots, or None if their distribution is unknown. Raises ValueError."""
        shape = ""
        if options[:1] == ["distribution"] and not numbers:
            shape = options[1] if not is_number(options[1]) else "?"
            del options[: 1 if shape == "?" else 2]
            while options and is_number(options[0]):
                numbers.append(options.pop(0))
        pkts = size_bytes = None
        while options[:1] and options[0] in ("packets", "bytes"):
            if options[0] == "packets":
                pkts = int(options[1]) or None
            else:
                size_bytes = read_size_bytes(options[1]) or None
            del options[:2]
        times_ms = [float(read_time_s(text) * 1000) for text in numbers[:2]]
        if not times_ms or (shape and len(times_ms) < 2):
            raise ValueError("slot without a time")
        if not shape:
            return SlotSpec(min_ms=times_ms[0], max_ms=times_ms[-1], packets=pkts, bytes=size_bytes)
        if shape not in TABLE_NAMES:
            why = "tc does not show it" if shape == "?" else "the lab has no such table for slots"
            self._leave(qdisc.position, f"slot's distribution {shape}: {why}")
            return None
        delay_ms, jitter_ms = times_ms
        table = delay_table(shape)
        return SlotSpec(
            delay_ms=delay_ms,
            jitter_ms=jitter_ms,
            distribution=table,
            packets=pkts,
            bytes=size_bytes,
        )

    def _loss(
        self, options: list[str], numbers: list[str]
    ) -> tuple[tuple[Fraction, ...], Fraction]:
        """Return (p,), or a model's numbers with tc's defaults, and the correlation of random.

        Raises ValueError.
        """
        model = "random"
        if not numbers and options and options[0] in ("random", "state", "gemodel"):
            model = options.pop(0)
            while options and (is_number(options[0]) or options[0] in ("p", "r", "1-h", "1-k")):
                word = options.pop(0)
                if is_number(word) and word not in ("1-h", "1-k"):
                    numbers.append(word)
            # `tc qdisc show` names the four numbers of loss state, too.
            while options and re.fullmatch(r"p(13|31|32|23|14)", options[0]):
                numbers.append(options[1])
                del options[:2]
        shares = [read_share(number) for number in numbers]
        if not shares:
            raise ValueError("loss without a percentage")
        if model == "random":
            return (shares[0],), shares[1] if len(shares) > 1 else Fraction(0)
        if len(shares) == 1:  # Bernoulli: each packet alone
            return (shares[0],), Fraction(0)
        # States of which two are never entered are Gilbert's model.
        if model == "state" and any(shares[2:]):
            defaults = (shares[0], 1 - shares[0], Fraction(0), Fraction(1), Fraction(0))
            return (*shares[:5], *defaults[len(shares[:5]) :]), Fraction(0)
        given = shares[:2] if model == "state" else shares[:4]
        of_gilbert = (shares[0], 1 - shares[0], Fraction(1), Fraction(0))
        return (*given, *of_gilbert[len(given) :]), Fraction(0)

    def _distribution(self, name: str) -> str:
        if name == "uniform":
            return ""
        if name not in DISTRIBUTIONS:
            raise ValueError(
                f"distribution {name!r:.40}: one of uniform, {', '.join(DISTRIBUTIONS)} (a table of"
                " your own: a profile with distribution: FILE.dist)"
            )
        return name

    def _leave(self, position: str, what: str) -> None:
        self.left_out.append(f"{position}: {what}")


def share_and_correlation(numbers: Sequence[str]) -> tuple[float, float]:
    """Return the share of some packets, and the correlation or 0. Raises ValueError."""
    share, *more = map(read_share, numbers)
    return float(share), float(more[0]) if more else 0.0


def frames_of(limit_bytes: int) -> str:
    """Return a limit in bytes as a profile's buffer: the full frames that it holds, at least one.

    A profile counts a buffer in packets of the MTU, a qdisc with the Ethernet header.
    """
    return f"{max(1, limit_bytes // FRAME_BYTES)}pkts"


def packets_in_flight(rate_bps: int, delay_s: Fraction) -> int:
    """Return the full packets that a rate sends in a delay."""
    return round(rate_bps * delay_s / (8 * FRAME_BYTES))


# -- the path


def path_of_devices(devices: Sequence[TcDevice]) -> SpecifiedPath:
    """Return the path of up to two shaped devices. Raises UnreadableRecording."""
    readers = {device.name: DirectionReader(device) for device in devices}
    by_device = {name: one for name, reader in readers.items() if (one := reader.direction())}
    incoming = {device.redirects_to for device in devices if device.redirects_to}
    left_out = tuple(line for reader in readers.values() for line in reader.left_out)
    settings = {
        name: value for reader in readers.values() for name, value in reader.settings.items()
    }
    outgoing = [name for name in by_device if name not in incoming]
    reverse_names = [name for name in by_device if name in incoming] or outgoing[1:]
    forward_names = [name for name in outgoing if name not in reverse_names]
    if not by_device:
        raise UnreadableRecording("no netem, tbf, htb or cake in these lines shapes anything")
    if len(forward_names) > 1 or len(reverse_names) > 1:
        raise UnreadableRecording(
            f"{len(by_device)} devices are shaped ({', '.join(by_device):.80}): leave the one or"
            " two whose ends are your path's"
        )
    forward = by_device[forward_names[0]] if forward_names else None
    reverse = by_device[reverse_names[0]] if reverse_names else None
    for name, reader in readers.items():
        police = reader.device.policers.get(INCOMING)
        if police is None:
            continue
        is_forwards = name in reverse_names and name not in incoming
        other = forward if is_forwards else reverse
        if other is None:
            left_out += (
                f"{police.position}: police of incoming packets, which no other line shapes"
                " (--set reverse.policer)",
            )
        elif is_forwards:
            forward = replace(other, policer=reader.policer(INCOMING))
        else:
            reverse = replace(other, policer=reader.policer(INCOMING))
    return SpecifiedPath(forward=forward, reverse=reverse, settings=settings, left_out=left_out)


def read_tc(recording: Recording) -> SpecifiedPath:
    """Return the path of tc's lines or output. Raises UnreadableRecording."""
    is_output = is_shown(recording.text)
    commands = list((shown_commands if is_output else shell_commands)(recording))
    try:
        return path_of_devices(apply_commands(commands, reads_output=is_output))
    except UnreadableRecording as error:
        text = str(error)
        prefix = "" if text.startswith(recording.label) else f"{recording.label}: "
        raise UnreadableRecording(f"{prefix}{text}") from None


# -- Mininet

LINK_OPTIONS = ("bw", "delay", "loss", "max_queue_size", "jitter", "use_htb", "use_tbf", "use_hfsc")
LINK_UNSUPPORTED = ("enable_ecn", "enable_red", "speedup", "latency_ms", "params1", "params2")


@dataclass(frozen=True)
class MininetLink:
    """The options of one TCLink, by name, as constants of Python."""

    position: str
    options: Mapping[str, object]


def mininet_links(recording: Recording) -> Iterator[MininetLink]:
    """Yield the calls with options of a TCLink. Raises UnreadableRecording."""
    try:
        with warnings.catch_warnings(action="ignore"):
            tree = ast.parse(textwrap.dedent(recording.text))
    except (SyntaxError, ValueError, RecursionError) as error:
        line = getattr(error, "lineno", None) or 1
        raise UnreadableRecording(
            f"{recording.label}:{line}: not Python 3: leave only the line with bw=, delay=, …"
        ) from None
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        keywords = {word.arg: word.value for word in node.keywords if word.arg}
        if not {"bw", "delay", "loss", "max_queue_size"} & set(keywords):
            continue
        position = f"{recording.label}:{node.lineno}"
        options: dict[str, object] = {}
        for name, value in keywords.items():
            if name in (*LINK_OPTIONS, *LINK_UNSUPPORTED):
                if not isinstance(value, ast.Constant) and name in LINK_OPTIONS:
                    raise UnreadableRecording(
                        f"{position}: {name}={ast.unparse(value):.40} is a variable: write its"
                        " value"
                    )
                options[name] = value.value if isinstance(value, ast.Constant) else ""
        yield MininetLink(position, options)


def read_mininet(recording: Recording) -> SpecifiedPath:
    """Return the path of a TCLink, both of whose ends are shaped. Raises UnreadableRecording."""
    links = list(mininet_links(recording))
    if not links:
        raise UnreadableRecording(f"{recording.label}: no call with bw=, delay= or loss=")
    different = [link for link in links if link.options != links[0].options]
    if different:
        raise UnreadableRecording(
            f"{different[0].position}: a link of other options than {links[0].position}'s: leave"
            " the one that is your path"
        )
    [position, options] = links[0].position, links[0].options
    netem = ["limit", str(options.get("max_queue_size") or DEFAULT_LIMIT_PKTS)]
    if options.get("delay") or options.get("jitter"):
        netem += ["delay", str(options.get("delay") or "0ms")]
        netem += [str(options["jitter"])] if options.get("jitter") else []
    netem += ["loss", f"{options['loss']}%"] if options.get("loss") else []
    device = TcDevice("both ends of the link")
    if options.get("bw") is not None:
        rate = ("rate", f"{options['bw']}mbit")
        device.qdiscs["root"] = TcObject(position, "htb", "5:", "root", (), default="1")
        device.classes["5:1"] = TcObject(position, "htb", "5:1", "5:", rate)
    below = "5:1" if device.qdiscs else "root"
    device.qdiscs[below] = TcObject(position, "netem", "a:", below, tuple(netem))
    path = path_of_devices([device])
    unsupported = [name for name in LINK_UNSUPPORTED if options.get(name)]
    left_out = (f"{position}: {name}={options[name]}".rstrip("=") for name in unsupported)
    return replace(path, reverse=path.forward, left_out=(*path.left_out, *left_out))


# -- the format


def read(recordings: Sequence[Recording]) -> SpecifiedPath:
    """Return the path of a script, tc's output or a Mininet file. Raises UnreadableRecording."""
    [recording] = recordings
    return (read_mininet if is_mininet(recording.text) else read_tc)(recording)


def is_mininet(text: str) -> bool:
    has_link = re.search(r"TCLink|addLink\(|linkopts", text)
    return bool(has_link and re.search(r"\b(bw|delay|loss|max_queue_size)\s*=", text))


TC_LINE = re.compile(r"^[^#\n]*\btc\s+(?:-\w+\s+)*q\w*\s+(add|change|replace)\b", re.MULTILINE)


def recognises(text: str) -> bool:
    return is_shown(text) or is_mininet(text) or TC_LINE.search(text) is not None


DESCRIPTION = "lines for tc, `tc qdisc show`, or Mininet's TCLink(bw=…, delay=…)"
FORMAT = ImportFormat("tc", DESCRIPTION, ("the lines",), recognises, read)
