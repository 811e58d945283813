# SPDX-License-Identifier: MIT
"""Flows that measure: ping and short, as requested, and what of their reports becomes numbers."""

import json
import re
import threading
from dataclasses import asdict, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from gostlab.guest import short_downloads
from gostlab.guest.command_log import PRELUDE
from gostlab.guest.flow_result import FlowInterval, TrafficError, percentile
from gostlab.guest.probes import fidelity
from gostlab.guest.traffic_plugins import last_output_line, result_of
from gostlab.guest.tunnel_context import pairs_of, sink_ports
from gostlab.results.metrics import total_goodput_bps
from gostlab.spec.flow import FlowSpec
from gostlab.spec.run_spec import RunSpec
from gostlab.traffic import udp
from gostlab.traffic.ping import parse_pings
from tests.lab_command import said_by
from tests.spec.test_flow import one

SIZES = [10_000, 100_000, 1_000_000, 10_000_000]


@pytest.mark.parametrize(
    ("asked", "fields"),
    [
        # Ten times a second, without a congestion control.
        ("kind: ping", {"interval_ms": 100.0, "cc": None, "streams": 1, "direction": "upload"}),
        # Downloads whatever way others go, one after the other or some time apart.
        ("kind: short", {"direction": "download", "sizes_bytes": SIZES, "interval_ms": 0.0}),
        ("kind: short, interval: 1s", {"interval_ms": 1000.0}),
    ],
)
def test_a_flow_that_measures_has_fields_of_its_kind(asked: str, fields: dict[str, Any]) -> None:
    run = one(f"{{flows: {{bulk: {{}}, own: {{{asked}}}}}}}")

    bulk, own = map(asdict, run.flows)
    assert {name: own[name] for name in fields} == fields
    assert bulk["direction"] == "upload"
    assert RunSpec.from_json(json.loads(json.dumps(run.to_json()))) == run


def test_a_second_apart_is_when_downloads_begin(capsys: pytest.CaptureFixture[str]) -> None:
    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"x" * 10)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        short_downloads.main(["", "--every=0.2", "127.0.0.1", str(server.server_port), "0.5", "10"])
        server.shutdown()
    began_s = [json.loads(line)["at_s"] for line in capsys.readouterr().out.splitlines()]
    assert began_s[0] < 0.2 <= began_s[1] and 2 <= len(began_s) <= 3


@pytest.mark.parametrize(
    ("asked", "pairs"),
    [
        # One connection for all where a tunnel has one.
        ("tunnel: gost+mws, shared: auto", ["bulk"]),
        ("tunnel: gost+ws, shared: auto", ["bulk", "web"]),
        # A forwarder has a pair of ends for each stream, and datagrams take the first.
        ("tunnel: gost+ws", ["bulk", "web"]),
        ("tunnel: split", ["bulk", "lag", "web"]),
    ],
)
def test_flows_go_through_pairs_of_ends(asked: str, pairs: list[str]) -> None:
    run = one(f"{{{asked}, flows: {{lag: {{kind: ping}}, bulk: {{}}, web: {{kind: short}}}}}}")

    assert [*pairs_of(run)] == pairs
    # the same question, asked in two ways
    assert run.tunnel_options == ({"shared": "on"} if pairs == ["bulk"] else {})
    ports = sink_ports(run)
    assert (ports["lag"] == ports["bulk"]) == ("lag" not in pairs) and ports["web"] != ports["lag"]


def test_what_no_flow_of_old_has_is_not_in_its_run() -> None:
    assert {"sizes_bytes", "interval_ms"}.isdisjoint(one("{}").to_json()["flows"][0])


def row(kind: str, bytes: int, started_s: float, seconds: float) -> dict[str, object]:
    own = {"goodput_bps": 8 * bytes / seconds}
    return {"kind": kind, "bytes": bytes, "started_s": started_s, "seconds": seconds, **own}


def test_a_total_is_of_one_window_and_pings_do_not_count() -> None:
    alone = row("tcp", 10**6, 0.0, 8.0)
    assert total_goodput_bps([alone, row("ping", 10**5, 0.0, 10.0)]) == 1e6
    # 1 Mbit/s for eight seconds, then another flow for two at 4: 16 Mbit in ten seconds
    assert total_goodput_bps([alone, row("http", 10**6, 8.0, 2.0)]) == 1.6e6
    old = [{"kind": "tcp", "goodput_bps": 2e6}, {"kind": "tcp", "goodput_bps": 3e6}]
    assert total_goodput_bps(old) == 5e6


def test_a_total_of_a_part_is_of_that_part() -> None:
    inside = {"measured_from_s": 40.0, "measured_to_s": 100.0}
    first = {**row("tcp", 6 * 10**6, 0.0, 60.0), **inside}
    late = {**row("tcp", 3 * 10**6, 70.0, 30.0), **inside, "measured_from_s": 70.0}
    over = {**row("tcp", 0, 2.0, 1.0), "measured_from_s": 40.0, "measured_to_s": 40.0}
    assert total_goodput_bps([first, late, over]) == pytest.approx(1.2e6)


def of_udp(folder: Path, heading: str, *ends: list[tuple[float, float, int, int, int]]) -> Path:
    """Write the reports of a udp flow's sender and receiver: of each interval when it began and
    ended, and the bytes, lost datagrams and datagrams in it. Return its client's.
    """
    reports = [folder / "iperf3.json", folder / "iperf3-server.json"]
    for path, rows in zip(reports if heading == "upload" else reports[::-1], ends, strict=True):
        counts = ("bytes", "lost_packets", "packets")
        intervals = [
            {
                "start": start,
                "end": end,
                "seconds": end - start,
                **dict(zip(counts, its, strict=True)),
            }
            for start, end, *its in rows
        ]
        path.write_text(json.dumps({"intervals": [{"sum": each} for each in intervals]}))
    return reports[0]


def udp_flow(heading: str, seconds: int) -> FlowSpec:
    load = f"kind: udp, rate: 100kbit, direction: {heading}, duration: {seconds}s"
    [flow] = one(f"{{rtt: 100ms, flows: {{u: {{{load}}}}}}}").flows
    return replace(flow, datagram_bytes=1000)


SECOND = (10_000, 2, 12)  # what arrives in a second, of 12 kB that are sent
SENDER = [(float(at), at + 1.0, 12_000, 0, 12) for at in range(4)]
FULL = [(float(at), at + 1.0, *SECOND) for at in range(1, 4)]


@pytest.mark.parametrize(
    ("heading", "first", "last", "seconds"),
    [
        # The first data are there after a round trip, the last ones before the word that they are.
        ("upload", (0.0, 1.0, 9_000, 2, 11), (4.0, 4.5, 2_000, 0, 2), 4.1),
        # They wait in a queue that others had filled.
        ("upload", (0.0, 1.0, 5_000, 1, 6), (4.0, 4.7, 6_000, 1, 7), 4.1),
        # A client stops to count when its own time is up.
        ("download", (0.0, 1.0, *SECOND), None, 4.0),
    ],
)
def test_a_udp_flow_is_what_its_receiver_got_while_it_arrived(
    tmp_path: Path, heading: str, first: Any, last: Any, seconds: float
) -> None:
    flow = udp_flow(heading, 4)
    report = of_udp(tmp_path, heading, SENDER, [first, *FULL, *([last] if last else [])])

    told = result_of(flow, report, (0.0, 5.0))

    assert told.bytes == first[2] + 30_000 + (last[2] if last else 0)
    assert told.seconds == pytest.approx(seconds)
    assert told.goodput_bps == pytest.approx(8 * told.bytes / seconds)
    assert told.offered_bps == pytest.approx(96_000)
    assert told.sent_datagrams == sum(each[4] for each in (first, *FULL, last or [0] * 5))
    # The two ends' clocks are half a round trip apart.
    later_s = -0.05 if heading == "upload" else 0.05
    assert udp.part(flow, report, 1.0 + later_s, 3.5 + later_s) == FlowInterval(25_000, None, 5, 30)


def test_few_udp_datagrams_are_as_long_under_way_as_they_are_sent(tmp_path: Path) -> None:
    flow = udp_flow("upload", 2)
    sent = [(0.0, 1.0, 1000, 0, 1), (1.0, 2.0, 1000, 0, 1)]
    told = result_of(flow, of_udp(tmp_path, "upload", sent, sent), (0.0, 3.0))
    assert (told.seconds, told.goodput_bps) == (2.0, 8000)


def test_a_download_that_ends_after_a_part_counts_there_in_part(tmp_path: Path) -> None:
    flow = one("{flows: {web: {kind: short, sizes: [1MB]}}}").flows[0]
    report = tmp_path / "short.jsonl"
    rows = [{"at_s": at, "size_bytes": 10**6, "seconds": 2.0} for at in (0.0, 2.0, 4.0)]
    report.write_text("".join(f"{json.dumps(row)}\n" for row in rows))

    assert result_of(flow, report, (0.0, 6.0)).bytes == 3 * 10**6
    part = result_of(flow, report, (0.0, 6.0), (1.0, 4.5))
    assert part.bytes == 10**6 / 2 + 10**6 + 10**6 / 4
    assert part.fetches is not None and part.fetches[0]["count"] == 2  # those that began in it


def test_percentiles_are_values_that_were_measured() -> None:
    values = [float(number) for number in range(1, 101)]

    assert [percentile(values, share) for share in (0.5, 0.95, 0.99, 1.0)] == [50, 95, 99, 100]
    assert percentile([7.0], 0.95) == 7.0


def test_irtts_report_and_the_echos_say_the_same(tmp_path: Path) -> None:
    def trip(sent_ns: int, rtt_ns: int | None) -> dict[str, object]:
        return {
            "timestamps": {"client": {"send": {"monotonic": sent_ns}}},
            "delay": {} if rtt_ns is None else {"rtt": rtt_ns},
        }

    irtt = {
        "version": {"irtt": "0.9.0"},
        "round_trips": [trip(5, 20_000_000), trip(10**8 + 5, None)],
    }
    echo = {
        "program": "echo",
        "over": "tcp",
        "round_trips": [{"at_s": 0.0, "rtt_ms": 20.0}, {"at_s": 0.1, "rtt_ms": None}],
    }
    assert parse_pings(irtt) == parse_pings(echo) == [(0.0, 20.0), (0.1, None)]

    flow = one("{flows: {lag: {kind: ping}}}").flows[0]
    report = tmp_path / "ping.json"
    report.write_text(json.dumps(irtt), encoding="utf-8")
    found = result_of(flow, report, (0.0, 1.0)).to_json()["round_trips"]
    assert (found["sent"], found["lost"], found["median_ms"]) == (2, 1, 20.0)
    assert (found["over"], found["program"]) == ("udp", "irtt 0.9.0")


def test_downloads_are_summed_up_by_size(tmp_path: Path) -> None:
    flow = one("{flows: {web: {kind: short, sizes: [1kB, 2kB]}}}").flows[0]
    lines = [(0.0, 1000, 0.2), (0.2, 2000, 0.5), (0.7, 1000, 0.4)]
    report = tmp_path / "short.jsonl"
    report.write_text(
        "".join(
            json.dumps({"at_s": at, "size_bytes": size, "seconds": took}) + "\n"
            for at, size, took in lines
        ),
        encoding="utf-8",
    )

    result = result_of(flow, report, (0.0, 1.1)).to_json()
    assert result["bytes"] == 4000
    assert [(row["size_bytes"], row["count"], row["median_s"]) for row in result["fetches"]] == [
        (1000, 2, pytest.approx(0.3)),
        (2000, 1, 0.5),
    ]


@pytest.mark.parametrize(
    ("report", "said"),
    [
        ('{"end": {}, "error": "no route"}', "no route"),
        ('warning: no size\n{\n\t"end":\t{\n\t},\n\t"error":\t"no results"\n}\n', "no results"),
        ("one line\nanother\n", "another"),
    ],
)
def test_the_reason_of_a_failure_is_what_the_program_said(
    tmp_path: Path, report: str, said: str
) -> None:
    (tmp_path / "report").write_text(report)
    assert last_output_line(tmp_path / "report") == said


def test_a_client_that_gave_up_on_its_servers_results_has_the_servers(tmp_path: Path) -> None:
    """Through a tunnel of one connection the results wait behind the data: iperf3 gives up."""
    [flow] = one("{}").flows
    report, of_server = tmp_path / "iperf3-a.json", tmp_path / "iperf3-a-server.json"
    gave_up = {"end": {}, "error": "unable to receive results: No such file or directory"}
    warned = "warning: Failed to read JSON data size"
    report.write_text(f"{warned}\n{json.dumps(gave_up, indent=1)}")
    received = {"bits_per_second": 4e5, "bytes": 10**6, "seconds": 20.0}
    of_server.write_text(json.dumps({"end": {"sum_received": received, "sum_sent": {}}}, indent=1))

    found = result_of(flow, report, (0.0, 31.0))

    assert (found.goodput_bps, found.bytes, found.seconds) == (4e5, 10**6, 20.0)
    assert (found.retransmits, found.counted_by) == (None, "server")
    # A script that repeats the run prints the same.
    goodput = re.search(r"^goodput\(\) \{.*?^\}$", PRELUDE.read_text(), re.MULTILINE | re.DOTALL)
    assert goodput is not None
    printed = said_by("sh", "-c", f"{goodput[0]}\ngoodput a tcp {report}")
    assert printed.stdout == "a: 0.4 Mbit/s\n"
    [check] = fidelity.check_counts([found])
    assert check.verdict == "degraded" and flow.name in check.reason
    assert not fidelity.check_counts([replace(found, counted_by=None)])
    of_server.write_text(json.dumps({"end": {}, "error": "the client is gone"}))
    with pytest.raises(TrafficError, match=rf"{flow.name}: iperf3's report cannot be read"):
        result_of(flow, report, (0.0, 31.0))
