# SPDX-License-Identifier: MIT
"""Inputs that used to give a wrong rate, direction or loss without a word."""

import gzip
import io
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from gostlab.cli import main
from gostlab.spec.profile import Profile, load_profile
from gostlab.spec.trace import changes_of

WIRE = 1514 / 1448


class Imports:
    """Write files into a folder, import them, and return the profile."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.capsys, self.printed = folder, capsys, ""

    def __call__(self, files: dict[str, str], *words: str) -> Profile:
        for name, text in files.items():
            (self.folder / name).write_text(text, encoding="utf-8")
        paths = [str(self.folder / name) for name in files]
        out = ("--out", str(self.folder), "--name", "path", "--force")
        assert main.main(["profile", "import", *paths, *words, *out]) == 0
        self.printed = self.capsys.readouterr().out
        return load_profile(str(self.folder / "path.yaml"))

    def losses(self, direction: str) -> list[tuple[float, float]]:
        return [
            (change.at_s, change.loss.p)
            for change in changes_of(self.folder / "path.csv")
            if change.direction == direction and change.loss is not None
        ]

    def delays(self, direction: str) -> list[tuple[float, float]]:
        return [
            (change.at_s, change.delay_ms)
            for change in changes_of(self.folder / "path.csv")
            if change.direction == direction and change.delay_ms is not None
        ]


@pytest.fixture
def imports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Imports:
    return Imports(tmp_path, capsys)


def rates_mbit(profile: Profile) -> tuple[float, float]:
    pair = (profile.forward.rate_bps or 0, profile.reverse.rate_bps or 0)
    return round(pair[0] / 1e6, 2), round(pair[1] / 1e6, 2)


# -- iperf3


def stream(mbit: float, start: float, seconds: float, **more: Any) -> dict[str, Any]:
    return {
        "start": start,
        "end": start + seconds,
        "seconds": seconds,
        "bytes": mbit * 1e6 * seconds / 8,
        "bits_per_second": mbit * 1e6,
        "omitted": False,
        "sender": True,
        **more,
    }


def report(intervals: Sequence[Any], end: Any = None, **test: Any) -> dict[str, Any]:
    test = {"protocol": "TCP", "num_streams": 1, "blksize": 1448, "reverse": 0, **test}
    start = {"version": "iperf 3.12", "connecting_to": {"host": "192.0.2.2"}, "test_start": test}
    return {"start": start, "intervals": list(intervals), "end": end or {}}


def intervals_of(rates: Sequence[float], **more: Any) -> list[dict[str, Any]]:
    made = []
    for start, mbit in enumerate(rates):
        one = stream(mbit, start, 1, **more)
        made.append({"streams": [one], "sum": one})
    return made


UPLOAD = intervals_of([8, 30, 48, 48, 48, 48], rtt=31_000)


def test_udp_is_what_arrived_with_udps_headers(imports: Imports) -> None:
    sent = intervals_of([40] * 6, packets=3453)
    whole = stream(40, 0, 6, packets=20_718, lost_packets=10_825, jitter_ms=0.4, lost_percent=52.25)
    of_3_9 = report(sent, {"sum": whole}, protocol="UDP")
    profile = imports({"udp.json": json.dumps(of_3_9)}, "--rtt", "40ms")
    assert rates_mbit(profile)[0] == pytest.approx(19.1 * 1490 / 1448, abs=0.01)
    assert profile.forward.loss.p == 0
    assert "52.25% lost of 41.16 Mbit/s offered" in imports.printed
    # A path that is faster than what was offered lost it on the line.
    profile = imports({"udp.json": json.dumps(of_3_9)}, "--rtt", "40ms", "--rate", "100mbit")
    assert profile.forward.loss.p == pytest.approx(0.5225, abs=1e-4)


def test_a_last_interval_of_milliseconds_weighs_little(imports: Imports) -> None:
    last = stream(104, 3, 0.004, sender=False)
    some = [*intervals_of([38.2] * 3, sender=False), {"streams": [last], "sum": last}]
    served = report(some)
    del served["start"]["connecting_to"]
    served["start"]["accepted_connection"] = {"host": "192.0.2.1"}
    profile = imports({"server.json": json.dumps(served)}, "--rtt", "80ms")
    assert rates_mbit(profile)[0] == round(38.2 * WIRE, 2)
    assert "received by the server" in imports.printed


def test_a_reverse_test_says_that_uploads_were_not_measured(imports: Imports) -> None:
    text = json.dumps(report(intervals_of([19.1] * 6, sender=False), reverse=1))
    profile = imports({"reverse.json": text}, "--rtt", "80ms")
    assert rates_mbit(profile) == (19.97, 19.97)
    assert "took rate 19.97 Mbit/s reverse" in imports.printed
    assert "The forward direction has the reverse direction's rate all the time; nobody" in (
        imports.printed
    )


def test_a_stream_that_was_killed_has_its_whole_lines(imports: Imports) -> None:
    whole = report(UPLOAD)
    lines = [{"event": "start", "data": whole["start"]}]
    lines += [{"event": "interval", "data": one} for one in UPLOAD]
    text = "\n".join(map(json.dumps, lines))
    profile = imports({"stream.jsonl": text + '\n{"event": "interval", "data": {"str'})
    assert (rates_mbit(profile)[0], profile.rtt_ms) == (50.19, 31)


def test_version_3_1_does_not_name_the_sender_of_a_stream(imports: Imports) -> None:
    intervals = intervals_of([19.1] * 6)
    for interval in intervals:
        del interval["streams"][0]["sender"]
    text = json.dumps(report(intervals, reverse=1))
    imports({"r.json": text}, "--rtt", "1ms")
    assert "19.97 Mbit/s reverse" in imports.printed


def test_a_test_of_a_limited_rate_does_not_measure_the_path(imports: Imports) -> None:
    text = json.dumps(report(intervals_of([5] * 6), target_bitrate=5_000_000))
    with pytest.raises(AssertionError):
        imports({"limited.json": text}, "--rtt", "40ms")
    assert "the path's rate is higher: give it by --rate" in imports.capsys.readouterr().err


# -- Flent


def flent(series: dict[str, Any]) -> str:
    return json.dumps({"x_values": [0.0, 0.2, 0.4, 0.6], "results": series, "metadata": {}})


def test_rrul_has_its_upload_and_its_download_apart(imports: Imports) -> None:
    sums = {
        "TCP upload sum": [None, 4.78, 4.78, None],
        "TCP download sum": [None, 23.9, 23.9, None],
    }
    series = {"Ping (ms) ICMP": [28.0, 61.0, 61.0, 28.0], **sums}
    series["TCP totals"] = [None, 28.68, 28.68, None]
    profile = imports({"rrul.flent": flent(series)})
    assert rates_mbit(profile) == (5.0, 24.99)
    assert profile.rtt_ms == 28


def test_single_flows_of_flent_are_added(imports: Imports) -> None:
    flows = {f"TCP download::{n}": [None, 10.0 * n, 10.0 * n, None] for n in (1, 2)}
    profile = imports({"n.flent": flent({"Ping (ms) ICMP": [28.0] * 4, **flows})})
    assert rates_mbit(profile)[1] == round(30 * WIRE, 2)
    assert "reverse (from series the sum of 2" in imports.printed


# -- probes


def irtt(lost: dict[int, str], count: int = 500) -> str:
    trips = [
        {"seqno": n, "lost": lost.get(n, "false"), "delay": {} if n in lost else {"rtt": 44e6}}
        for n in range(count)
    ]
    return json.dumps({"config": {"params": {"interval": 20_000_000}}, "round_trips": trips})


@pytest.mark.parametrize("words", [(), ("--rtt", "44ms")])
def test_irtts_losses_are_of_their_direction_and_outages(
    imports: Imports, words: tuple[str, ...]
) -> None:
    lost = dict.fromkeys(range(100, 110), "true_up") | dict.fromkeys(range(300, 340), "true_down")
    imports({"irtt.json": irtt(lost)}, "--rate", "50mbit", *words)
    assert imports.losses("forward") == [(0, 0), (2, 1), (2.2, 0)]
    assert imports.losses("reverse") == [(0, 0), (6, 1), (6.8, 0)]


def test_a_csv_loses_downlinks_too(imports: Imports) -> None:
    rows = [f"{1793613600 + n / 100:.2f},47,27,{'' if 400 <= n < 450 else 20}" for n in range(1000)]
    imports({"d.csv": "\n".join(["timestamp,rtt,uplink,downlink", *rows])}, "--rate", "50mbit")
    assert imports.losses("forward") == []
    assert imports.losses("reverse") == [(0, 0), (4, 1), (4.5, 0)]


def test_a_short_outage_is_no_random_loss(imports: Imports) -> None:
    rows = [f"{n / 100:.2f},{'' if 498 <= n < 503 else 40}" for n in range(1000)]
    imports({"o.csv": "\n".join(["time_s,rtt_ms", *rows])}, "--rate", "50mbit")
    assert imports.losses("forward") == [(0, 0), (4.98, 1), (5.03, 0)]


def test_single_losses_are_random(imports: Imports) -> None:
    rows = [f"{n / 100:.2f},{'' if n % 50 == 7 else 40}" for n in range(1000)]
    imports({"o.csv": "\n".join(["time_s,rtt_ms", *rows])}, "--rate", "50mbit")
    assert imports.losses("forward") == [(0, 0.02)]


def test_a_delay_of_0_is_a_lost_probe(imports: Imports) -> None:
    rows = [f"{n / 50:.2f},{0 if n in (20, 200, 300) else 40 + n % 2}" for n in range(500)]
    profile = imports({"z.csv": "\n".join(["time_s,rtt_ms", *rows])}, "--rate", "50mbit")
    assert profile.rtt_ms == 40
    assert "3 losses" in imports.printed
    assert "3 delays of 0 or less (lost: no packet takes 0 ms)" in imports.printed


def test_every_row_falls_into_its_own_bin(imports: Imports) -> None:
    rows = [f"{n / 10:.1f},{40 + n}" for n in range(20)]
    imports({"t.csv": "\n".join(["time_s,rtt_ms", *rows])}, "--rate", "50mbit")
    assert [at_s for at_s, _ in imports.delays("forward")] == [n / 10 for n in range(20)]


def test_a_column_names_its_unit(imports: Imports) -> None:
    rows = [f"{20 * n};0,0{40 + n % 2}" for n in range(100)]
    profile = imports({"u.csv": "\n".join(["time_ms;rtt_s", *rows])}, "--rate", "50mbit")
    assert profile.rtt_ms == pytest.approx(40)
    assert profile.imported is not None
    assert float(profile.imported.length_s) == pytest.approx(2)


# -- delivery traces


@pytest.mark.parametrize(
    ("stamps", "mbit"), [([n for n in range(10) for _ in range(3)], 40.37), ([0, 0, 1, 1], 48.45)]
)
def test_a_stamp_at_0_counts_once(imports: Imports, stamps: list[int], mbit: float) -> None:
    text = "\n".join(map(str, stamps))
    profile = imports({"zero.up": text}, "--rtt", "40ms", "--bin", "1s")
    assert rates_mbit(profile)[0] == mbit
    (first, *_) = changes_of(imports.folder / "path.csv")
    assert first.rate_bps == pytest.approx(mbit * 1e6, rel=1e-3)


def test_one_line_without_an_end_of_line_is_a_trace(imports: Imports) -> None:
    assert rates_mbit(imports({"one.up": "10"}, "--rtt", "40ms"))[0] == pytest.approx(1.21)


def test_two_traces_are_the_two_directions(imports: Imports) -> None:
    up = "".join(f"{ms}\n" for ms in range(1, 2001))
    down = "".join(f"{ms}\n{ms}\n" for ms in range(1, 2001))
    assert rates_mbit(imports({"p.down": down, "p.up": up}, "--rtt", "40ms")) == (12.11, 24.22)


def test_capacity_and_delay_begin_anew_together(imports: Imports) -> None:
    capacity = "".join(f"{ms}\n" for ms in range(1, 2001))
    delay = "".join(f"{20 if n < 50 else 60}\n" for n in range(150))
    imports({"leo.capacity": capacity, "leo.delay": delay}, "--for", "6s")
    assert imports.delays("forward") == [
        (at_s, ms) for n in range(4) for at_s, ms in ((1.5 * n, 20), (1.5 * n + 0.5, 60))
    ]
    assert "left out the last 0.5 s of the capacity" in imports.printed


# -- ping's other shapes

WINDOWS = {
    "en": (
        "Pinging 192.0.2.7 with 32 bytes of data:",
        "Reply from 192.0.2.7: bytes=32 time=31ms TTL=52",
        "Request timed out.",
        "    Packets: Sent = 3, Received = 2, Lost = 1 (33% loss),",
    ),
    "de": (
        "Ping wird ausgeführt für host [192.0.2.7] mit 32 Bytes Daten:",
        "Antwort von 192.0.2.7: Bytes=32 Zeit=31ms TTL=52",
        "Zeitüberschreitung der Anforderung.",
        "    Pakete: Gesendet = 3, Empfangen = 2, Verloren = 1\n    (33% Verlust),",
    ),
    "fr": (
        "Envoi d’une requête 'Ping'  192.0.2.7 avec 32 octets de données :",
        "Réponse de 192.0.2.7 : octets=32 temps=31 ms TTL=52",
        "Délai d’attente de la demande dépassé.",
        "    Paquets : envoyés = 3, reçus = 2, perdus = 1 (perte 33%),",
    ),
    "ru": (
        "Обмен пакетами с 192.0.2.7 по с 32 байтами данных:",
        "Ответ от 192.0.2.7: число байт=32 время=31мс TTL=52",
        "Превышен интервал ожидания для запроса.",
        "    Пакетов: отправлено = 3, получено = 2, потеряно = 1\n    (33% потерь)",
    ),
    "zh": (
        "正在 Ping 192.0.2.7 具有 32 字节的数据:",
        "来自 192.0.2.7 的回复: 字节=32 时间=31ms TTL=52",
        "请求超时。",
        "    数据包: 已发送 = 3，已接收 = 2，丢失 = 1 (33% 丢失)，",
    ),
    "IPv6": (
        "Pinging 2001:db8::7 with 32 bytes of data:",
        "Reply from 2001:db8::7: time=31ms",
        "Request timed out.",
        "    Packets: Sent = 3, Received = 2, Lost = 1 (33% loss),",
    ),
}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "cp866", "cp850", "gbk"])
@pytest.mark.parametrize("language", WINDOWS)
def test_windows_ping_in_any_language_and_code_page(
    imports: Imports, language: str, encoding: str
) -> None:
    head, answer, lost, counts = WINDOWS[language]
    text = "\r\n".join(["", head, answer, lost, answer, "", "Ping:", counts, ""])
    file = imports.folder / "ping.txt"
    file.write_bytes(text.encode(encoding, "replace"))
    profile = imports({}, str(file), "--rate", "50mbit")
    assert profile.rtt_ms == 31
    assert "took 2 RTTs" in imports.printed
    assert "1 losses" in imports.printed


@pytest.mark.parametrize(
    ("head", "answer", "counts"),
    [
        (
            "PING h (192.0.2.7) 56(84) Bytes an Daten.",
            "64 Bytes von 192.0.2.7: icmp_seq={} ttl=52 Zeit=31,2 ms",
            "4 Pakete übertragen, 2 empfangen, 50% packet loss, time 600ms",
        ),
        (
            "PING h (192.0.2.7) 56(84) 字节的数据。",
            "64 字节，来自 h (192.0.2.7): icmp_seq={} ttl=52 时间=31.2 毫秒",
            "已发送 4 个包， 已接收 2 个包, 50% packet loss, time 600ms",
        ),
    ],
)
def test_iputils_in_any_locale(imports: Imports, head: str, answer: str, counts: str) -> None:
    text = "\n".join([head, answer.format(1), answer.format(3), "", counts, ""])
    profile = imports({"ping.txt": text}, "--rate", "50mbit")
    assert profile.rtt_ms == pytest.approx(31.2)
    assert "took 2 RTTs" in imports.printed
    assert "2 losses" in imports.printed
    assert "packets 0.2 s apart (from ping's total time)" in imports.printed


def test_a_late_answer_of_macos_is_no_loss(imports: Imports) -> None:
    lines = ["PING h (192.0.2.7): 56 data bytes"]
    for seq in range(5):
        if seq == 3:
            lines.append("Request timeout for icmp_seq 3")
        if seq != 4:
            late = 1231.0 if seq == 3 else 31.0
            lines.append(f"64 bytes from 192.0.2.7: icmp_seq={seq} ttl=52 time={late:.3f} ms")
    lines += ["", "5 packets transmitted, 4 packets received, 20.0% packet loss"]
    imports({"mac.txt": "\n".join(lines)}, "--rate", "50mbit")
    assert "took 4 RTTs" in imports.printed
    assert imports.delays("forward")[-1] == (3, 1215.5)


def test_the_first_packet_of_ping6_has_the_number_0(imports: Imports) -> None:
    lines = ["PING6(56=40+8+8 bytes) 2001:db8::1 --> 2001:db8::7"]
    lines += [f"16 bytes from 2001:db8::7, icmp_seq={n} hlim=52 time=31.250 ms" for n in (1, 2)]
    lines += ["", "4 packets transmitted, 2 packets received, 50.0% packet loss"]
    profile = imports({"six.txt": "\n".join(lines)}, "--rate", "50mbit")
    assert profile.rtt_ms == pytest.approx(31.25)
    assert "2 losses" in imports.printed


def test_ooklas_bandwidth_is_bytes(imports: Imports) -> None:
    document = {
        "type": "result",
        "ping": {"jitter": 0.5, "latency": 23.4},
        "download": {"bandwidth": 11_682_098, "bytes": 1, "elapsed": 1},
        "upload": {"bandwidth": 2_279_321, "bytes": 1, "elapsed": 1},
        "packetLoss": 0.5,
    }
    progress = {"type": "download", "download": {"bandwidth": 1, "progress": 0.5}}
    imports({"ookla.jsonl": f"{json.dumps(progress)}\n{json.dumps(document)}\n"})
    profile = imports({"ookla.json": json.dumps(document)})
    up, down = 8 * 2_279_321 * WIRE / 1e6, 8 * 11_682_098 * WIRE / 1e6
    assert rates_mbit(profile) == (round(up, 2), round(down, 2))
    assert (profile.rtt_ms, profile.forward.loss.p) == (23.4, 0.005)


def test_what_was_taken_and_left_out_is_in_the_profile_and_printed(imports: Imports) -> None:
    profile = imports({"up.json": json.dumps(report(UPLOAD))})
    taken, left_out = imports.printed.splitlines()[1:3]
    assert taken == (
        "took rate 50.19 Mbit/s forward (from intervals[].streams[].bytes, sent by the client, plus"
        " headers); RTT 31 ms round trip (from intervals[].streams[].rtt, minimum of the loaded"
        " socket's)"
    )
    assert left_out == "left out the first 2 s (slow start)"
    assert not (imports.folder / "path.csv").exists()
    assert [f"{line[0].upper()}{line[1:]}." for line in (taken, left_out)] == list(
        profile.notes[:2]
    )


def test_a_gzipped_recording_comes_from_standard_input(
    imports: Imports, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = io.BytesIO(gzip.compress(json.dumps(report(UPLOAD)).encode()))
    monkeypatch.setattr(sys, "stdin", type("Stdin", (), {"buffer": data}))
    assert rates_mbit(imports({}, "-"))[0] == 50.19
