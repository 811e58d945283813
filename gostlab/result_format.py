"""The format of a result folder, as data: every file, every key, every column, with its unit.

    python3 -m gostlab.result_format > docs/result-format.md

The page is made from these tables, and real folders are checked against them
(gostlab.result_check). A file
or field that is not here fails a test, and so does one that is here and not in the folder: whoever
writes something new into a folder says here what it is. SCHEMA counts what a reader must know: it
grows when a field changes its meaning or goes, not when one is added.

A path in a table has a dot before a key inside an object, `[]` for each element of a list, and `*`
for a key that is a name (of a host, a device, a flow).
"""

from __future__ import annotations

from dataclasses import dataclass

# 1: one flow, no flows.json. 2: flows and changes. 3: status.json says this number. 4: hosts are
# machines: CPU and TCP memory of hosts.jsonl and of the verdict are the busiest and fullest host's.
SCHEMA = 4

FLOW_NAME = "[A-Za-z0-9_.-]+"
KINDS: dict[str, tuple[type, ...]] = {
    "text": (str,),
    "number": (int, float),
    "count": (int,),
    "yes/no": (bool,),
    "object": (dict,),
    "list": (list,),
    "text or object": (str, dict),
    "any": (object,),
}


@dataclass(frozen=True)
class Field:
    """One value."""

    path: str
    kind: str  # one of KINDS
    unit: str
    says: str
    null: bool = False  # may be null: not known, or not applicable
    always: bool = True  # False: absent where the meaning says so


@dataclass(frozen=True)
class File:
    """One file of a folder, or several of one kind."""

    name: str  # as people read it; FLOW and NODE stand for a name
    pattern: str  # of the name, a regular expression
    form: str  # JSON | JSON lines | CSV, gzip | text
    when: str  # in which folders it is
    says: str
    fields: tuple[Field, ...] = ()
    needed: bool = False  # in every folder whose status is ok


def direction_fields(path: str) -> tuple[Field, ...]:
    """One direction of a path, as run.json has it."""
    return (
        Field(f"{path}.rate_bps", "count", "bit/s", "the bottleneck's rate", null=True),
        Field(f"{path}.delay_ms", "number", "ms", "one-way delay of the delay line"),
        Field(f"{path}.jitter_ms", "number", "ms", "netem's jitter, of its distribution"),
        Field(f"{path}.ordered", "yes/no", "", "jitter leaves packets in order"),
        Field(
            f"{path}.distribution",
            "list",
            "",
            "the delay's table; null: uniform",
            null=True,
        ),
        Field(
            f"{path}.loss",
            "object",
            "",
            "model (random, gemodel, periodic) and its probabilities, 0 to 1: p; of gemodel also r,"
            " one_minus_h and one_minus_k as tc-netem(8) names them; of periodic packets",
        ),
        Field(
            f"{path}.buffer_pkts",
            "count",
            "packets",
            "the bottleneck's queue; null: never full",
            null=True,
        ),
    )


RUN_FIELDS = (
    Field("schema", "count", "", "of this file"),
    Field("experiment", "text", "", "the experiment's name"),
    Field("matrix", "text", "", "which of its matrices"),
    Field("factors", "object", "", "what varies in the matrix: the levels as people write them"),
    Field("repetition", "count", "", "from 1"),
    Field("seed", "count", "", "of everything random; the same for every cell of a repetition"),
    Field("machine", "text", "", "sandbox or native"),
    Field("clock", "text", "", "virtual or real"),
    Field("syscall_cost_us", "number", "µs", "of a system call on the virtual clock"),
    Field("byte_cost_ns", "number", "ns", "of a byte that it moves; absent: 0", always=False),
    Field("clock_reads", "text", "", "free; absent: charged as calls", always=False),
    Field("host_cpus", "count", "CPUs", "of each host; absent: one for all", always=False),
    Field("cpus_by_host", "object", "CPUs", "of the hosts that have others", always=False),
    Field("packet_cost_ns", "count", "ns", "of a packet received; absent: 0", always=False),
    Field("kernel", "text", "", "the sandbox's, by name; absent: the shipped", always=False),
    Field("kernel_sha256", "text", "", "of your own: what it is made of", always=False),
    Field("iperf3", "text", "", "the lab's own: version; absent: the system's", always=False),
    Field("host_tcp_memory_mib", "count", "MiB", "of each host; absent: shared", always=False),
    Field("tcp_memory_mib_by_host", "object", "MiB", "of the hosts with others", always=False),
    Field("receive", "text", "", "moderated; absent: an interrupt per packet", always=False),
    Field("rx_usecs", "count", "µs", "least between a card's interrupts", always=False),
    Field("costs_of", "text", "", "the measured machine; absent: uniform", always=False),
    Field("program_costs.*.call_ns", "count", "ns", "of its calls, each", always=False),
    Field("program_costs.*.byte_ps", "count", "ps", "of each byte they move", always=False),
    Field("topology", "text", "", "which hosts, routers and links"),
    Field("placement", "text", "", "where the tunnel's near end runs: endpoint or gateway"),
    Field("profile", "text", "", "the path's profile"),
    *direction_fields("path.*"),
    Field("sites", "object", "", "star: every site's path by its profile", null=True),
    Field("hops", "count", "", "paths one behind the other; absent: 1", always=False),
    Field("links", "object", "", "paths of links with one of their own", always=False),
    Field("tunnel", "text", "", "direct, or what carries the load"),
    Field("tunnel_options", "object", "", "what it is asked for besides", always=False),
    Field("cc", "text", "", "the setting; a flow's own goes before it"),
    Field("own_cc.*", "text", "", "of your own: the start of its SHA-256", always=False),
    Field("cc_by_end", "object", "", "of the ends that have another", always=False),
    Field("bottleneck", "text", "", "what shapes; absent: netem", always=False),
    Field("queue", "text", "", "the bottleneck's queue; absent: first in, first out", always=False),
    Field("ecn", "text", "", "on, or losses too; absent: off", always=False),
    Field("pacing", "text", "", "fq, on the senders' cards; absent: internal", always=False),
    Field(
        "loss_detection",
        "text",
        "",
        "dupacks: by duplicate ACKs alone (RFC 6675); absent: as the kernel does by itself",
        always=False,
    ),
    Field("streams", "count", "", "parallel connections of a flow, as set"),
    Field("duration_s", "number", "s", "of the load, as set"),
    Field("direction", "text", "", "upload: the client sends; download: it receives"),
    Field("buffers", "text or object", "bytes", "tcp_rmem and tcp_wmem, or system"),
    Field("offloads", "yes/no", "", "segmentation and receive offloads are on"),
    Field("sample_ms", "number", "ms", "between two samples of the series"),
    Field("mtu", "count", "bytes", "of every link"),
    Field("memory_mib", "count", "MiB", "the sandbox's memory"),
    Field("tcp_memory_mib", "count", "MiB", "the limit for all TCP sockets together"),
    Field("acks", "yes/no", "", "the sender's window is recorded at every ACK"),
    Field("flows[].name", "text", "", "a flow"),
    Field("flows[].kind", "text", "", "tcp, udp, http, short or ping"),
    Field("flows[].cc", "text", "", "its congestion control; udp and ping have none", null=True),
    Field("flows[].streams", "count", "", "its parallel connections"),
    Field("flows[].direction", "text", "", "upload or download"),
    Field("flows[].start_s", "number", "s", "since the load began"),
    Field("flows[].duration_s", "number", "s", "http: the longest that it may take"),
    Field("flows[].sender", "text", "", "the host that connects"),
    Field("flows[].receiver", "text", "", "the host that accepts"),
    Field("flows[].rtt_ms", "number", "ms", "its idle round trip"),
    Field("flows[].buffers", "text or object", "bytes", "as above, of its hosts"),
    Field("flows[].rate_bps", "count", "bit/s", "udp: what it offers", null=True),
    Field("flows[].size_bytes", "count", "bytes", "http: what it fetches", null=True),
    Field("flows[].sizes_bytes[]", "count", "bytes", "short: fetched in turn", always=False),
    Field("flows[].interval_ms", "number", "ms", "ping: between two requests", always=False),
    Field(
        "changes[]",
        "object",
        "",
        "at_s, direction, and what changes then: as under path; link: of which of several",
    ),
)
ENVIRONMENT_FIELDS = (
    Field("lab.version", "text", "", "of the lab"),
    Field("lab.commit", "text", "", "of its sources", null=True),
    Field("kernel", "text", "", "its release"),
    Field("kernel_build", "text", "", "its build"),
    Field("hz", "count", "Hz", "CONFIG_HZ", null=True),
    Field("machine", "text", "", "sandbox or native"),
    Field("clock", "text", "", "virtual or real"),
    Field("syscall_cost_us", "number", "µs", "as the kernel says it", null=True),
    Field("cc.*", "text", "", "each host's default congestion control"),
    Field("iproute2", "text", "", "version"),
    Field("iperf3", "text", "", "version"),
    Field("iperf3_program.version", "text", "", "and Debian's revision", always=False),
    Field("iperf3_program.path", "text", "", "where it was", always=False),
    Field(
        "iperf3_program.sha256",
        "text",
        "",
        "of program and libraries; the system's: of the program",
        always=False,
    ),
    Field("mininet", "text", "", "version"),
    Field("python", "text", "", "version"),
    Field("nginx", "text", "", "version; with an http flow", always=False),
    Field("wget", "text", "", "version; with an http flow", always=False),
    Field("tunnel", "object", "", "what was the tunnel; null: direct", null=True),
    Field("tunnel.kind", "text", "", "gost, relay, or another program's name"),
    Field("tunnel.version", "text", "", "as it says it"),
    Field("tunnel.path", "text", "", "where it was"),
    Field("tunnel.sha256", "text", "", "of the program; of the lab's own with its libraries"),
    Field("tunnel.helpers.*.path", "text", "", "of a further program of its", always=False),
    Field("tunnel.helpers.*.sha256", "text", "", "of it, as above", always=False),
    Field("tcp_mem_pages[]", "text", "pages", "tcp_mem: low, pressure, high"),
    Field("sysctls.*.*", "any", "", "of each host: what was set, as read back"),
    Field("offloads.*.*", "yes/no", "", "of each device: what ethtool says"),
    Field("receive.*.gro", "yes/no", "", "of each card that is moderated: it merges", always=False),
    Field("receive.*.rx_usecs", "count", "µs", "least between its interrupts", always=False),
    Field("receive.*.rx_frames", "count", "packets", "the most that wait for one", always=False),
    Field("qdiscs_before.*", "text", "", "of each device: what tc says before the load"),
    Field("qdiscs_after.*", "text", "", "and after it"),
    Field("modules.*.kernel_name", "text", "", "what the kernel calls it", always=False),
    Field("modules.*.file", "text", "", "its C file", always=False),
    Field("modules.*.sha256", "text", "", "of that file", always=False),
    Field("modules.*.arguments", "text", "", "that it was loaded with", always=False),
    Field("modules.*.compiler", "text", "", "which one", always=False),
    Field("modules.*.source", "text", "", "the file, if it is your own", null=True, always=False),
    *(
        Field(f"other_kernel.{name}", kind, unit, says, always=False, null=null)
        for name, kind, unit, says, null in (
            ("name", "text", "", "where it is not the shipped one: what run.json calls it", False),
            ("version", "text", "", "its version, whole", False),
            ("hz", "count", "Hz", "its CONFIG_HZ", True),
            ("source", "text", "", "the package, tree or tarball", False),
            ("source_sha256", "text", "", "of that file; of a tree, of all its files", False),
            ("sha256", "text", "", "of the kernel as it was built", False),
            ("inputs_hash", "text", "", "what it was built with: options, patches", False),
            ("patches", "list", "", "that it took, by number", False),
            ("patches_refused", "list", "", "that it did not take", False),
            ("options_missing", "list", "", "that it does not have", False),
            ("lacks", "list", "", "what it cannot do for a run", False),
        )
    ),
    Field("cc_state.rows", "count", "rows", "in cc_state.jsonl.gz", always=False),
    Field("cc_state.lines_lost", "count", "rows", "that found no room", always=False),
    Field("acks", "object", "", "where acks.csv.gz comes from; null: not asked for", null=True),
    Field("acks.source", "text", "", "tracepoint, or the samples that stand in for it"),
    Field("acks.ssthresh", "text", "", "which it has; absent before 0.2", always=False),
    Field("acks.rows", "count", "rows", "in the file"),
    Field("acks.events_lost", "count", "events", "that the kernel could not keep"),
    Field(
        "host_cpu.*.*",
        "count",
        "",
        "what each host used of its own CPUs (docs/machine-model.md); absent: one for all",
        always=False,
    ),
    Field(
        "program_costs.*.*.*",
        "count",
        "",
        "by host and program: its call_ns and byte_ps as the kernel has them, and the calls, bytes"
        " and busy_ns charged; absent: all programs pay alike",
        always=False,
    ),
    Field("host.kernel", "text", "", "of the machine below"),
    Field("host.cpu", "text", "", "its name", always=False),
    Field("host.cpus", "count", "", "how many it has", always=False),
    Field("host.isolation", "text", "", "what parts the guest from it", always=False),
    Field("host.memory", "text", "", "where the guest's memory is a file", always=False),
    Field("host.image", "text", "", "the container image's name, if one says it", always=False),
    Field("host.worker", "text", "", "of a cluster: which worker made it", always=False),
)
FLOW_FIELDS = (
    Field("flows[].name", "text", "", "which flow of run.json"),
    Field("flows[].kind", "text", "", "tcp, udp, http, short or ping"),
    Field("flows[].started_s", "number", "s", "since the load began"),
    Field("flows[].ended_s", "number", "s", "since the load began"),
    Field(
        "flows[].goodput_bps",
        "number",
        "bit/s",
        "payload that the receiver got, per second of its own `seconds`: flows that begin or end at"
        " other times may add up to more than the path carries",
    ),
    Field("flows[].bytes", "count", "bytes", "that it got"),
    Field("flows[].seconds", "number", "s", "over which the goodput is"),
    Field(
        "flows[].retransmits",
        "count",
        "segments",
        "iperf3's Retr: sent again by its own sockets, which in a tunnel are the loopback's",
        null=True,
    ),
    Field("flows[].lost_datagrams", "count", "datagrams", "udp", null=True, always=False),
    Field("flows[].sent_datagrams", "count", "datagrams", "udp", null=True, always=False),
    Field("flows[].round_trips.over", "text", "", "ping: udp, or tcp", always=False),
    Field("flows[].round_trips.program", "text", "", "irtt, or the lab's echo", always=False),
    Field("flows[].round_trips.sent", "count", "requests", "ping: sent", always=False),
    Field("flows[].round_trips.lost", "count", "requests", "never answered", always=False),
    *(
        Field(f"flows[].round_trips.{name}_ms", "number", "ms", f"ping: {says}", always=False)
        for name, says in (
            ("min", "the shortest"),
            ("mean", "their mean"),
            ("median", "half were no longer"),
            ("p95", "95 % of the answered were no longer"),
            ("p99", "99 % of the answered were no longer"),
            ("max", "the longest"),
        )
    ),
    Field("flows[].fetches[].size_bytes", "count", "bytes", "short: of a size", always=False),
    Field("flows[].fetches[].count", "count", "downloads", "of that size", always=False),
    Field("flows[].fetches[].median_s", "number", "s", "half took no longer", always=False),
    Field("flows[].fetches[].p95_s", "number", "s", "95 % took no longer", always=False),
    Field("flows[].fetches[].max_s", "number", "s", "the longest", always=False),
)
PING_FIELDS = (
    Field("t_s", "number", "s", "when the request left, since the load began"),
    Field("flow", "text", "", "whose"),
    Field("rtt_ms", "number", "ms", "until its answer came; null: none came", null=True),
)
FETCH_FIELDS = (
    Field("t_s", "number", "s", "when the download began, since the load began"),
    Field("flow", "text", "", "whose"),
    Field("size_bytes", "count", "bytes", "what was fetched"),
    Field("seconds", "number", "s", "from before its connection to its last byte"),
)
LEG_FIELDS = (
    Field(
        "legs[].leg",
        "text",
        "",
        "app, wan, exit: before the tunnel, across, behind; of a chain wan2, join; of a VPN inner",
    ),
    Field("legs[].flow", "text", "", "whose"),
    Field("legs[].sender", "text", "", "the host whose sockets send the data"),
    Field("legs[].loopback", "yes/no", "", "it stays within a host"),
    Field("legs[].receiver", "text", "", "the host that gets the data", always=False),
    Field("legs[].receiver_cc[]", "text", "", "congestion controls seen there", always=False),
    Field("legs[].cc[]", "text", "", "congestion controls seen on its live sockets"),
    Field("legs[].sockets", "count", "sockets", "that sent"),
    Field("legs[].segments_out", "count", "segments", "sent, ACKs among them"),
    Field("legs[].data_segments_out", "count", "segments", "sent with data"),
    Field("legs[].segments_retransmitted", "count", "segments", "sent again"),
    Field("legs[].bytes_acked", "count", "bytes", "acknowledged"),
    Field("legs[].busy_ms", "number", "ms", "with data to send, of all its sockets"),
    Field("legs[].rwnd_limited_ms", "number", "ms", "of those, held by the receiver's window"),
    Field("legs[].sndbuf_limited_ms", "number", "ms", "of those, held by the send buffer"),
    Field("nstat.*.*", "count", "", "of each host: how far TCP's counters grew, named as by nstat"),
    Field("closed_sockets_missed", "yes/no", "", "a socket's last word may be missing"),
)
FIDELITY_FIELDS = (
    Field("verdict", "text", "", "ok, degraded or invalid: the worst of the checks"),
    Field("checks[].name", "text", "", "what was looked at"),
    Field("checks[].verdict", "text", "", "ok, degraded or invalid"),
    Field("checks[].asked", "any", "its unit", "what should be", null=True),
    Field("checks[].got", "any", "its unit", "what was", null=True),
    Field("checks[].unit", "text", "", "of both"),
    Field("checks[].reason", "text", "", "why it is not ok; empty where it is"),
)
STATUS_FIELDS = (
    Field(
        "schema",
        "count",
        "",
        "of the folder's format; absent before 3",
        always=False,
    ),
    Field(
        "epoch",
        "count",
        "",
        "what run.json meant; absent before 0.2",
        always=False,
    ),
    Field("outcome", "text", "", "ok, failed, unsupported or interrupted"),
    Field("error", "text", "", "why, in a line", null=True),
    Field(
        "cause",
        "text",
        "",
        "of a failure: the lab's own error, which is no answer; else null",
        null=True,
        always=False,
    ),
    Field("wall_s", "number", "s", "that it took"),
    Field("guest_s", "number", "s", "that it took on the guest's clock", null=True),
    Field("finished", "text", "", "when, in UTC"),
    Field("files.*", "count", "bytes", "length of every file as it finished", always=False),
)
SOCKET_FIELDS = (
    Field("t_s", "number", "s", "since the load began"),
    Field("host", "text", "", "where the socket is"),
    Field("flow", "text", "", "whose it is"),
    Field("leg", "text", "", "app, wan, exit, wan2, join or inner"),
    Field("end", "text", "", "near: it connected; far: it accepted"),
    Field("local", "text", "", "address and port"),
    Field("peer", "text", "", "address and port"),
    Field("cc", "text", "", "its congestion control", null=True),
    Field("cwnd_pkts", "count", "segments", "congestion window"),
    Field("ssthresh_pkts", "count", "segments", "slow start's end; null: infinite", null=True),
    Field("srtt_ms", "number", "ms", "smoothed round trip"),
    Field("rttvar_ms", "number", "ms", "its variation"),
    Field("min_rtt_ms", "number", "ms", "least round trip of late", null=True),
    Field("rto_ms", "number", "ms", "retransmission timeout"),
    Field("mss", "count", "bytes", "of a segment's payload"),
    Field("unacked_pkts", "count", "segments", "sent and not acknowledged"),
    Field("pacing_rate_bps", "count", "bit/s", "null: not paced", null=True),
    Field("delivery_rate_bps", "count", "bit/s", "as the kernel estimates it"),
    Field("bytes_acked", "count", "bytes", "since it was opened"),
    Field("bytes_received", "count", "bytes", "since it was opened"),
    Field("segments_out", "count", "segments", "since it was opened, ACKs among them"),
    Field("data_segments_out", "count", "segments", "since it was opened"),
    Field("segments_retransmitted", "count", "segments", "since it was opened"),
    Field("delivered_pkts", "count", "segments", "acknowledged or SACKed since it was opened"),
    Field("lost_pkts", "count", "segments", "thought lost just now"),
    Field("reordering", "count", "segments", "the distance that is not taken for loss"),
    Field("reord_seen", "count", "events", "reordering seen"),
    Field("busy_ms", "number", "ms", "with data to send"),
    Field("rwnd_limited_ms", "number", "ms", "of those, held by the receiver's window"),
    Field("sndbuf_limited_ms", "number", "ms", "of those, held by the send buffer"),
    Field("snd_wnd_bytes", "count", "bytes", "the window that the receiver offers"),
    Field("bbr", "object", "", "BBR's own model; null: another control", null=True),
    Field("bbr.bw_bps", "number", "bit/s", "the bottleneck's rate as it sees it"),
    Field("bbr.min_rtt_ms", "number", "ms", "the path's round trip as it sees it", null=True),
    Field("bbr.pacing_gain", "number", "", "1 in steady state", null=True),
    Field("bbr.cwnd_gain", "number", "", "of the window over the BDP", null=True),
)
QUEUE_FIELDS = (
    Field("t_s", "number", "s", "since the load began"),
    Field("node", "text", "", "where the queue is"),
    Field("dev", "text", "", "its device"),
    Field(
        "role",
        "text",
        "",
        "bottleneck (rate and buffer), delay (delay, jitter, loss) or sender (fq)",
    ),
    Field("direction", "text", "", "forward (client to target) or reverse"),
    Field("link", "text", "", "of several links, its name", always=False),
    Field("backlog_pkts", "count", "packets", "waiting; of a delay line: in flight"),
    Field("backlog_bytes", "count", "bytes", "the same"),
    Field("drops", "count", "packets", "since it was made"),
    Field("marks", "count", "packets", "marked (ECN) since it was made, if it can", always=False),
    Field("sent_pkts", "count", "packets", "since it was made"),
    Field("sent_bytes", "count", "bytes", "since it was made, Ethernet's header of 14 included"),
)
HOST_FIELDS = (
    Field("t_s", "number", "s", "since the load began"),
    Field("cpu_busy_s", "number", "s", "of CPU time that all hosts together used"),
    Field("cpu_idle_s", "number", "s", "of CPU time that was left"),
    Field(
        "tcp_memory_mib",
        "number",
        "MiB",
        "that all TCP sockets together hold; those of one host, if each has its own: the most",
    ),
    Field(
        "host_busy_s.*",
        "number",
        "s",
        "of each of a host's CPUs; absent where all hosts share one",
        always=False,
    ),
    Field(
        "host_packets_s.*",
        "number",
        "s",
        "of that, what receiving packets took; absent where packets cost nothing",
        always=False,
    ),
    Field(
        "host_tcp_memory_mib.*",
        "number",
        "MiB",
        "that each host's TCP sockets hold; absent where no host has a pool of its own",
        always=False,
    ),
)
CHANGE_FIELDS = (
    Field("at_s", "number", "s", "since the load began, as asked"),
    Field("applied_s", "number", "s", "since the load began, as done"),
    Field("direction", "text", "", "forward or reverse"),
    Field("node", "text", "", "where"),
    Field("dev", "text", "", "at which device"),
    Field("rate_bps", "count", "bit/s", "the new rate, if that changes", always=False),
    Field("delay_ms", "number", "ms", "the new delay, if that changes", always=False),
    Field("jitter_ms", "number", "ms", "the new jitter, if that changes", always=False),
    Field("loss", "object", "", "the new loss, if that changes", always=False),
    Field("installed", "object", "", "the qdisc as it was read back"),
)
ACK_FIELDS = (
    Field("t_s", "number", "s", "since the load began"),
    Field("flow", "text", "", "whose ACK"),
    Field("cwnd_pkts", "count", "segments", "congestion window after it"),
    Field(
        "snd_ssthresh_pkts",
        "count",
        "segments",
        "the socket's own threshold; empty: infinite. The column is missing where the kernel does"
        " not tell it",
        null=True,
        always=False,
    ),
    Field(
        "ssthresh_pkts",
        "count",
        "segments",
        "of version 0.1 alone: tcp_current_ssthresh(), which is no threshold outside recovery",
        null=True,
        always=False,
    ),
    Field("srtt_ms", "number", "ms", "smoothed round trip"),
    Field("snd_wnd_bytes", "count", "bytes", "the window that the receiver offers"),
    Field("inflight_bytes", "count", "bytes", "sent and not acknowledged"),
)
FILES = (
    File("run.json", r"run\.json", "JSON", "every", "what was asked, resolved", RUN_FIELDS, True),
    File(
        "status.json",
        r"status\.json",
        "JSON",
        "every finished; without it a folder is run again",
        "how it ended; written last",
        STATUS_FIELDS,
        True,
    ),
    File(
        "fidelity.json",
        r"fidelity\.json",
        "JSON",
        "ok; failed if a check found why",
        "how far the numbers can be trusted",
        FIDELITY_FIELDS,
        True,
    ),
    File("flows.json", r"flows\.json", "JSON", "ok", "what each flow did", FLOW_FIELDS, True),
    File(
        "legs.json",
        r"legs\.json",
        "JSON",
        "ok",
        "what each TCP leg's sending sockets did, and every host's counters",
        LEG_FIELDS,
        True,
    ),
    File(
        "env.json",
        r"env\.json",
        "JSON",
        "ok",
        "what made the numbers",
        ENVIRONMENT_FIELDS,
        True,
    ),
    File(
        "sockets.jsonl",
        r"sockets\.jsonl",
        "JSON lines",
        "ok",
        "every socket that sends data, at every sample, from the kernel's tcp_info",
        SOCKET_FIELDS,
        True,
    ),
    File(
        "queues.jsonl",
        r"queues\.jsonl",
        "JSON lines",
        "ok",
        "every shaped queue at every sample",
        QUEUE_FIELDS,
        True,
    ),
    File(
        "hosts.jsonl",
        r"hosts\.jsonl",
        "JSON lines",
        "ok",
        "CPU and TCP memory at every sample",
        HOST_FIELDS,
        True,
    ),
    File(
        "changes.jsonl",
        r"changes\.jsonl",
        "JSON lines",
        "ok; empty where nothing changes",
        "what changed on the path while the load ran",
        CHANGE_FIELDS,
        True,
    ),
    File(
        "acks.csv.gz",
        r"acks\.csv\.gz",
        "CSV, gzip",
        "with acks: on",
        "the sender's window at every ACK that it got",
        ACK_FIELDS,
    ),
    File(
        "cc_state.jsonl.gz",
        r"cc_state\.jsonl\.gz",
        "JSON lines, gzip",
        "with a congestion control that shows its state (docs/your-own-cc.md)",
        "what it says of itself at every sample, with acks: on at every ACK: t_s, flow, of a flow"
        " with several connections socket (its ip:port), and the names that it gives",
    ),
    File(
        "iperf3.json, iperf3-server.json",
        rf"iperf3(-{FLOW_NAME})?(-server)?\.json",
        "JSON of iperf3",
        "with tcp and udp flows; of several flows iperf3-FLOW.json",
        "iperf3's report of either end, as it came",
    ),
    File(
        "wget.log",
        rf"wget(-{FLOW_NAME})?\.log",
        "text",
        "with http flows; of several flows wget-FLOW.log",
        "what wget said",
    ),
    File(
        "nginx-FLOW.log",
        rf"nginx-{FLOW_NAME}\.log",
        "text",
        "with http and short flows",
        "its words",
    ),
    File(
        "pings.jsonl",
        r"pings\.jsonl",
        "JSON lines",
        "with ping flows",
        "every request and its round trip",
        PING_FIELDS,
    ),
    File(
        "fetches.jsonl",
        r"fetches\.jsonl",
        "JSON lines",
        "with short flows",
        "every download and how long it took",
        FETCH_FIELDS,
    ),
    File(
        "ping.json",
        rf"ping(-{FLOW_NAME})?\.json",
        "JSON of irtt, or of the lab's echo",
        "with ping flows; of several flows ping-FLOW.json",
        "the client's report, as it came",
    ),
    File(
        "ping-server-FLOW.log",
        rf"ping-server-{FLOW_NAME}\.log",
        "text",
        "with ping flows",
        "what answered said",
    ),
    File(
        "short.jsonl",
        rf"short(-{FLOW_NAME})?\.jsonl",
        "JSON lines",
        "with short flows; of several flows short-FLOW.jsonl",
        "what the client printed: at_s from its first download, size_bytes, seconds",
    ),
    File(
        "tunnel-NODE.log",
        rf"tunnel-{FLOW_NAME}\.log",
        "text",
        "with a tunnel",
        "what each end of the tunnel said",
    ),
    File(
        "commands.sh",
        r"commands\.sh",
        "text",
        "every that began",
        "what the lab did, as a script that repeats it (docs/replay.md)",
        (),
        True,
    ),
    File("log.txt", r"log\.txt", "text", "every", "what the machine and the lab said", (), True),
)


def to_markdown() -> str:
    """docs/result-format.md."""
    lines = [
        "# A result folder",
        "",
        "<!-- Generated by `python3 -m gostlab.result_format`: do not edit. -->",
        "",
        f"Format {SCHEMA}. Each run is a folder, `results/EXPERIMENT/RUN/`, and every table and"
        " figure is made from nothing else. `results/EXPERIMENT/experiment.yaml` is the"
        " experiment's file as it was read. JSON has sorted keys, and units in the keys' names; a"
        " series is JSON lines, a row per sample. What is not known, or does not apply, is null or"
        " absent, never 0. In a path `[]` is each element of a list, and `*` a key that is a name.",
        "",
        "| file | form | in which folders | what |",
        "|---|---|---|---|",
        *(f"| `{file.name}` | {file.form} | {file.when} | {file.says} |" for file in FILES),
    ]
    for file in FILES:
        if file.fields:
            lines += ["", f"## {file.name}", "", f"{file.says[0].upper()}{file.says[1:]}.", ""]
            lines += ["| field | kind | unit | what |", "|---|---|---|---|"]
            lines += [field_line(each) for each in file.fields]
    return "\n".join(lines) + "\n"


def field_line(each: Field) -> str:
    """A field's row of the page."""
    kind = (
        each.kind + (" or null" if each.null else "") + ("" if each.always else ", may be absent")
    )
    return f"| `{each.path}` | {kind} | {each.unit} | {each.says} |"


if __name__ == "__main__":
    print(to_markdown(), end="")
