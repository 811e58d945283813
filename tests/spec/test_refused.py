# SPDX-License-Identifier: MIT
"""What cannot be asked together, or of what is there, is refused in one line that says why."""

import re

import pytest

from tests.asked import refusal, run_of

UDP = "{a: {kind: udp, rate: 10mbit}}"
REFUSED = [
    # hosts as machines of their own
    ({"host_cpus": "{gost: 2}"}, "gost: no program runs on such a host here"),
    ({"host_cpus": "{client: 0}"}, "within 1 to 64"),
    ({"host_cpus": "{}"}, "no host"),
    ({"host_cpus": "0"}, "0"),
    ({"host_cpus": "65"}, "64"),
    ({"host_cpus": "two"}, "two"),
    ({"host_cpus": "shared", "packet_cost": "1us"}, "all hosts share one"),
    ({"host_cpus": "shared", "cpu_share": "1"}, "all hosts share one"),
    ({"host_cpus": "2", "cpu_share": "whole", "cpu_burst": "2s"}, "needs a cpu_share"),
    ({"host_memory": "{Far: 4GiB}"}, "no name of a host"),
    ({"host_memory": "{far: 4GiB}"}, "far: no program runs"),
    ({"host_memory": "1MiB"}, "64MiB"),
    ({"host_memory": "8GiB", "memory": "1GiB"}, "1536 MiB together.* 1024 MiB"),
    ({"host_tcp_memory": "1GiB", "memory": "1GiB"}, "2048 MiB together.* 1024 MiB"),
    ({"host_tcp_memory": "1GiB", "host_memory": "8GiB"}, "write one of them"),
    ({"host_tcp_memory": "0MiB"}, "1MiB"),
    ({"byte_cost": "2us"}, "1us"),
    ({"byte_cost": "0.0001ns"}, "0.001ns"),
    ({"packet_cost": "2ms"}, "1ms"),
    ({"packet_cost": "0.5ns"}, "1ns"),
    ({"clock_reads": "never"}, "free"),
    # how end hosts receive
    ({"receive": "moderated", "offloads": "on"}, "super-packets"),
    ({"rx_usecs": "100us"}, "needs receive: moderated"),
    ({"receive": "moderated", "rx_usecs": "0us"}, "1us and 10ms"),
    ({"receive": "moderated", "rx_usecs": "20ms"}, "1us and 10ms"),
    ({"receive": "moderated", "rx_usecs": "1.5us"}, "finer than 1us"),
    ({"receive": "adaptive"}, "moderated"),
    # congestion controls by end
    ({"cc": "{clint: bbr}"}, "clint: no connection ends on such a host here"),
    ({"cc": "{client: warp}"}, "not known here"),
    ({"cc": "{}"}, "no host, or leg of a tunnel"),
    ({"cc.s1": "bbr"}, r"s1: no connection ends on such a host here \(they end on client,"),
    ({"cc.gost": "bbr"}, "gost: no connection ends on such a host here"),
    ({"cc.app": "bbr"}, "app: a leg of a tunnel, and this run has none"),
    ({"cc.client": "bbr", "flows": "{a: {cc: reno}}"}, "a: cc of its own, and cc by end"),
    ({"tunnel": "wireguard", "cc.app": "bbr"}, r"wireguard has no such leg \(it has inner"),
    ({"tunnel": "gost+ws", "cc.inner": "bbr"}, r"no such leg \(it has app and wan and exit"),
    ({"tunnel": "gost+ws", "cc": "{wan2: bbr}"}, "has no such leg"),
    ({"tunnel": "gost+ws", "cc": "{join: bbr}", "hops": "2"}, "has no such leg"),
    ({"tunnel": "gost+ws", "flows": "{a: {cc: bbr}, b: {}}"}, "both leave client through"),
    # what a kernel does not have
    ({"kernel": "5.10", "receive": "moderated"}, "5.10 has no .*: packet, or kernel: 7.3 or 6.12"),
    ({"kernel": "6.1", "host_memory": "2GiB"}, "6.1 has no .*: shared, or kernel: 7.3 or 5.10"),
    ({"kernel": "6.1", "host_tcp_memory": "64MiB"}, "6.1 has no .*host_tcp_memory: shared"),
    ({"kernel": "5.10", "queue": "dualpi2"}, "5.10 has no .*another queue, or another kernel"),
    ({"kernel": "2.4"}, r"no such kernel \(shipped, 7.3, 6.12, 6.1, 5.10"),
    ({"loss_detection": "dupacks"}, "shipped detects losses by time .*: 6.12 or 6.1 or 5.10$"),
    ({"machine": "nowhere"}, "known: uniform, amd-epyc, development"),
    # what a tunnel does not have
    ({"tunnel": "gost"}, r"did you mean gost\+w"),
    ({"tunnel": "gost+ws", "topology": "router"}, "tunnels run in topology tunnel or dumbbell"),
    ({"tunnel": "gost+ws", "topology": "ring", "placement": "gateway"}, "has no gateway"),
    ({"tunnel": "gost+ws", "shared": "on"}, "has no shared"),
    ({"tunnel": "wireguard", "sndbuf": "1MiB"}, r"no sndbuf \(openvpn.tcp, openvpn.udp have"),
    ({"tunnel": "stunnel", "nagle": "on"}, "tunnel stunnel has no nagle"),
    ({"tunnel": "gost+tls", "kcp_mode": "fast"}, "tunnel gost.tls has no kcp_mode"),
    ({"tunnel": "gost+quic", "streams": "128"}, "gost.quic carries 100 connections, not 129"),
    ({"tunnel": "gost+quic", "acks": "on"}, "gost.quic sends datagrams across the path"),
    # what no topology, link, queue or program is
    ({"topology": "torus"}, "torus"),
    ({"topology": "parking-lot", "flows": "{a: {sender: 17}}"}, "there is no s17 in topolog"),
    ({"flows": "{a: {sender: 2}}"}, "sender belongs to topology dumbbell"),
    # flows in both directions
    ({"direction": "sideways"}, "known: upload, download, both"),
    ({"flows": "{a: {direction: both}, a-up: {}}"}, "a-up: two flows are called so"),
    ({"flows": "{a: {kind: short, direction: both}}"}, "kind short is a download"),
    ({"flows": "{a: {kind: ping, direction: both}}"}, "it goes there and back"),
    (
        {"flows": "{a: {kind: command, server: x, client: x, direction: both}}"},
        "whose data count .upload or download.",
    ),
    ({"flows": "rrull"}, "rrull"),
    # an application's rate
    ({"flows": "{a: {kind: ping, rate: 1mbit}}"}, "a ping flow has no rate"),
    ({"flows": "{a: {rate: 10bit}}"}, "1kbit"),
    # transfers, on-off sources and video
    ({"flows": "{a: {kind: tcp, bytes: 1MB}}"}, "a tcp flow has no bytes"),
    ({"flows": "{a: {bytes: 1MB, streams: 2}}"}, "a transfer flow has no streams"),
    ({"flows": "{a: {bytes: 1MB, rate: 1mbit}}"}, "a transfer flow has no rate"),
    ({"flows": "{a: {bytes: 1MB, on: 1s}}"}, "an? .* flow has no (on|bytes)"),
    ({"flows": "{a: {bytes: 0B}}"}, "1B"),
    ({"flows": "{a: {kind: transfer}}"}, "a transfer flow needs bytes"),
    ({"flows": "{a: {on: 1s}}"}, "an? onoff flow needs off"),
    ({"flows": "{a: {on: 1ms, off: 1s}}"}, "10ms"),
    ({"flows": "{a: {ladder: [2mbit, 1mbit]}}"}, "bit rates do not rise"),
    ({"flows": "{a: {ladder: []}}"}, "at least 1"),
    ({"flows": "{a: {kind: video, segment: 4s, playback_buffer: 6s}}"}, "less than two segments"),
    ({"flows": "{a: {kind: video, direction: both}}"}, "kind video is a download"),
    # jitter that has packets arrive before they were sent, at any time and on any link
    ({"rtt": "20ms", "jitter": "30ms"}, "jitter: forward: .*30 ms is more than its delay of 10 ms"),
    ({"rtt": "20ms", "reverse.jitter": "11ms"}, "reverse: jitter of 11 ms"),
    ({"changes": "[{at: 1s, jitter: 90ms}]"}, "changes: forward: jitter of 90 ms"),
    ({"jitter": "9ms", "changes": "[{at: 1s, delay: 5ms}]"}, "delay of 5 ms allows"),
    ({"hops": "2", "jitter": "9ms", "links": "{hop2: {rtt: 4ms}}"}, "links: .*delay of 2 ms"),
    ({"topology": "dumbbell", "jitter": "9ms", "flows": "{a: {rtt: 4ms}}"}, "delay of 2 ms"),
    (
        {"topology": "dumbbell", "flows": "{a: {rtt: 4ms}}", "changes": "[{at: 1s, delay: 0ms}]"},
        "changes: forward: .*for a flow with a shorter rtt",
    ),
    # what iperf3's control connection does not wait for
    ({"rtt": "10s", "duration": "200s"}, "rtt: flow1 has a round trip of 10 s: iperf3 gives up"),
    ({"rtt": "8500ms", "flows": "{a: {}, b: {}}"}, "8.5 s: iperf3 gives up"),
    ({"hops": "3"}, "1 to 2"),
    ({"hops": "2", "topology": "dumbbell"}, "one behind the other in topology tunnel, not in d"),
    ({"links": "{hop2: {rtt: 1ms}}"}, "or there are two of them in a row"),
    ({"topology": "dumbbell", "links": "{n1-n2: {rtt: 1ms}}"}, "links with paths of their own"),
    ({"topology": "ring", "links": "{n1-n3: {rtt: 1ms}}"}, "no link is called n1-n3"),
    ({"topology": "ring", "links": "{left: {rtt: 1ms}}"}, "no name of a link"),
    ({"topology": "ring", "links": "{n1-n2: {}}"}, "nothing of its own"),
    ({"topology": "ring", "links": "{n1-n2: {colour: 1}}"}, "unknown key"),
    ({"topology": "ring", "links": "{n1-n2: nowhere}"}, "not in netem_profiles"),
    ({"topology": "ring", "links": "{n1-n2: {rtt: 1ms, delay: 1ms}}"}, "both rtt and delay"),
    ({"changes": "[{at: 1s, loss: 1%, link: hop2}]"}, "link: hop2: there is one path, and no"),
    ({"changes": "[{at: 1s, loss: 1%, link: n1-n2}]", "hops": "2"}, "n1-n2: no link is called"),
    ({"changes": "[{at: 1s, loss: 1%, link: far}]", "hops": "2"}, 'link "far": no name of a link'),
    ({"queue": "fq_codel", "bottleneck": "netem"}, "it needs bottleneck: tbf"),
    ({"bottleneck": "tbf", "queue": "fifo", "target": "5ms"}, "queue fifo has none .*codel"),
    ({"bottleneck": "hfsc"}, "htb.*netem.*tbf"),
    ({"bottleneck": "tbf", "rate": "unlimited", "clock": "real"}, "it needs a rate"),
    ({"bottleneck": "htb", "rate": "unlimited", "clock": "real"}, "it needs a rate"),
    ({"bottleneck": "tbf", "mtu": "9000"}, "at most 1500 bytes"),
    ({"bottleneck": "htb", "mtu": "9000"}, "at most 1500 bytes"),
    ({"mtu": "1000"}, "1280"),
    ({"flows": UDP, "iperf3": "3.9"}, r"UDP flow's rate here: write iperf3: 3\.18 or 3\.12$"),
]


@pytest.mark.parametrize(("asked", "says"), REFUSED)
def test_what_cannot_be_is_one_line(asked: dict[str, str], says: str) -> None:
    assert re.search(says, refusal(lambda: run_of(**{"profile": "la-hamina", **asked})))
