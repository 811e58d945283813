# SPDX-License-Identifier: MIT
"""Captures of a run: they change no sample, and have what crossed the path, for other programs."""

import os
import re
import stat
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from gostlab.guest.probes import fidelity
from gostlab.install.kernel_modules import provide_capture
from gostlab.results import capture_files, pcapng
from tests.sandboxed import Done, Lab
from tests.skips import NEEDS_ROOT, require_programs

pytestmark = pytest.mark.sandbox

LOSSY = "{duration: 3s, rate: 20mbit, loss: 0.5%, capture: CAPTURE, KERNEL}"
KERNELS = ["shipped", "'5.10'", "'6.1'", "'6.12'"]
TCP, ICMP = 6, 1


def with_and_without(lab: Lab, settings: str, captured: str) -> tuple[Done, Done]:
    """A run with a capture, and the same one without."""
    runs = [lab.run(settings.replace("CAPTURE", value)) for value in (captured, "off")]
    return runs[0], runs[1]


def packets_of(done: Done, name: str) -> tuple[pcapng.Capture, list[pcapng.Packet]]:
    data = (done.folder / name).read_bytes()
    return pcapng.read_capture(data), list(pcapng.read_packets(data))


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_capture_changes_no_sample(lab: Lab, kernel: str) -> None:
    settings = LOSSY.replace("KERNEL", f"kernel: {kernel}")
    captured, plain = with_and_without(lab, settings, "wan")
    assert captured.unlike(plain) == []
    assert len(list(captured.folder.glob("*.pcapng"))) == 2
    assert not list(plain.folder.glob("*.pcapng"))


@pytest.mark.parametrize(
    ("captured", "settings"),
    [
        ("wan", "{duration: 2s, tunnel: relay+ws, acks: on, capture: CAPTURE}"),
        ("wan", "{duration: 2s, topology: dumbbell, streams: 4, jitter: 1ms, capture: CAPTURE}"),
        ("wan", "{duration: 2s, offloads: on, capture: CAPTURE}"),
        ("wan", "{duration: 2s, receive: moderated, host_cpus: 2, capture: CAPTURE}"),
        ("wan", "{duration: 2s, topology: router, capture: CAPTURE}"),
        ("links", "{duration: 2s, capture: CAPTURE}"),
        ("hop2", "{duration: 2s, hops: 2, capture: CAPTURE}"),
        ("legs", "{duration: 2s, tunnel: relay+wss, capture: CAPTURE}"),
        ("legs", "{duration: 2s, tunnel: wireguard, capture: CAPTURE}"),
        ("legs", "{duration: 2s, tunnel: openvpn+udp, capture: CAPTURE}"),
    ],
)
def test_no_capture_of_any_network_changes_a_sample(lab: Lab, captured: str, settings: str) -> None:
    with_it, without = with_and_without(lab, settings, captured)
    assert with_it.unlike(without) == []
    assert capture_files.captured_files(with_it.folder)


@pytest.fixture(scope="module")
def captured(lab: Lab) -> Done:
    return lab.run("{duration: 3s, rate: 20mbit, loss: 0.5%, capture: wan}")


def test_a_capture_has_each_packet_that_the_path_delivered(captured: Done) -> None:
    capture, packets = packets_of(captured, "capture-wan-reverse.pcapng")
    assert [interface.name for interface in capture.interfaces] == ["wan_b-eth1"] * 2
    delivered = Counter(packet.interface for packet in packets)[1]
    shown = captured.json("env.json")["qdiscs_after"]["wan_b-eth1"]
    sent = re.search(r"Sent \d+ bytes (\d+) pkt", shown)
    assert sent is not None
    assert delivered == int(sent[1])


def test_what_enters_a_path_is_more_than_what_it_delivers(captured: Done) -> None:
    _, entered = packets_of(captured, "capture-wan-forward.pcapng")
    _, left = packets_of(captured, "capture-wan-reverse.pcapng")
    lost = Counter(packet.interface for packet in entered)[0]
    lost -= Counter(packet.interface for packet in left)[1]
    assert 0 < lost < 0.05 * len(entered)


@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_a_file_says_what_it_is_and_when_the_load_began(captured: Done, direction: str) -> None:
    capture, packets = packets_of(captured, f"capture-wan-{direction}.pcapng")
    began_ns = captured.json("env.json")["capture"]["load_began_ns"]
    assert f"link wan, direction {direction};" in capture.comment
    assert f"the load begins at {began_ns // 10**9}.{began_ns % 10**9:09d} s" in capture.comment
    for interface in capture.interfaces:
        assert "link wan" in interface.comment
        assert re.search("forward|reverse", interface.comment)
    times = [packet.t_ns for packet in packets]
    assert times == sorted(times)
    protocols_before = {packet.data[23] for packet in packets if packet.t_ns < began_ns}
    assert ICMP in protocols_before
    assert TCP not in protocols_before


def test_a_packet_is_cut_at_the_snap_length_and_knows_its_own(lab: Lab, captured: Done) -> None:
    _, packets = packets_of(captured, "capture-wan-forward.pcapng")
    assert max(len(packet.data) for packet in packets) == 96
    assert max(packet.original_bytes for packet in packets) == 1514
    whole = lab.run("{duration: 1s, rate: 5mbit, capture: wan, snaplen: 1514}")
    _, packets = packets_of(whole, "capture-wan-forward.pcapng")
    assert all(len(packet.data) == packet.original_bytes for packet in packets)


def test_a_file_is_hardly_longer_than_its_packets(captured: Done) -> None:
    for name, entry in captured.json("env.json")["capture"]["files"].items():
        size = (captured.folder / name).stat().st_size
        assert size == entry["file_bytes"]
        assert size <= 1.2 * entry["packets"] * (96 + 32)


def test_legs_are_told_apart(lab: Lab) -> None:
    done = lab.run("{duration: 1s, rate: 10mbit, tunnel: relay+ws, capture: legs}")
    names = [f"capture-{leg}-forward.pcapng" for leg in ("app", "exit", "wan")]
    assert set(names) < set(capture_files.captured_files(done.folder))
    for name in names:
        ports = {
            port
            for packet in packets_of(done, name)[1]
            for port in (packet.data[34:36], packet.data[36:38])
        }
        listening = {int.from_bytes(port, "big") for port in ports} & {80, 443}
        assert len(listening) == 1


def test_other_programs_read_a_capture(captured: Done) -> None:
    require_programs("tshark")
    file = captured.folder / "capture-wan-forward.pcapng"
    argv = ["tshark", "-n", "-r", file, "-Y", "tcp.analysis.retransmission", "-T", "fields"]
    output = subprocess.run([*argv, "-e", "frame.time_epoch"], capture_output=True, check=True)
    assert len(output.stdout.split()) > 3
    counts = captured.json("env.json")["capture"]["files"][file.name]
    everything = subprocess.run(["tshark", "-n", "-r", file], capture_output=True, check=True)
    assert len(everything.stdout.splitlines()) == counts["packets"]


@NEEDS_ROOT
def test_a_write_that_fails_is_counted(lab: Lab) -> None:
    folder = lab.folder()
    os.mknod(folder / "full", stat.S_IFCHR | 0o666, os.makedev(1, 7))  # /dev/full
    tap = "/sys/module/gostlab_capture/parameters/tap"
    script = (
        f"ip link set lo up; echo 1 lo full 96 0 1 >{tap}; ping -qc3 127.0.0.1 >/dev/null;"
        f" echo stop >{tap}; cat {tap}"
    )
    guest = lab.boot(["/bin/sh", "-c", script], folder, capture=provide_capture(lab.kernel))
    guest.wait()
    name, packets, _, lost, error, _ = Done(folder).log.splitlines()[-2].split()
    assert (name, packets, lost, error) == ("full", "0", "6", "28")


def test_missing_packets_are_a_failed_check() -> None:
    lost = {"capture-wan-forward.pcapng": 0, "capture-wan-reverse.pcapng": 7}
    check = fidelity.check_capture(lost, "No space left on device")
    assert check.verdict == "invalid"
    assert "7 packets are missing from capture-wan-reverse.pcapng" in check.reason
    assert "No space left on device" in check.reason
    assert fidelity.check_capture(dict.fromkeys(lost, 0), None).verdict == "ok"


def test_a_cut_off_file_is_no_capture(tmp_path: Path) -> None:
    interface = pcapng.CaptureInterface("eth0", "a device")
    data = pcapng.header("", "", "", [interface])
    assert pcapng.read_capture(data).interfaces == [interface]
    for wrong in (b"", data[:-3], data[:40], b"text of another file"):
        with pytest.raises(pcapng.BadCapture):
            list(pcapng.read_packets(wrong))
