# SPDX-License-Identifier: MIT
"""Recorded, replayed and recorded again, a path is the same. Measured in the sandbox, on the lab's
own emulated path.

Seeds are fixed: a bound that holds once holds every time. Each is stated with the probability that
a correct lab would miss it with another seed.
"""

import itertools
import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import binom, ks_2samp

from gostlab.profile_import.path_estimator import burst_lengths
from gostlab.profile_import.ping_parser import Pings, parse_ping
from gostlab.profile_import.ping_runner import ping_argv
from gostlab.profile_import.write_recorded import RecordingOptions, write_recorded
from gostlab.spec.compatible_json import to_json
from gostlab.spec.profile import compile_path, load_profile
from tests.profile_import.test_write_recorded import most_within
from tests.sandboxed import Lab, describe, direction

pytestmark = pytest.mark.sandbox

Thrice = tuple[Pings, dict[str, Any], Pings]
INTERVAL_S = Fraction(20, 1000)
COUNT = 4000  # pings, where chance is judged
FALSE_ALARM = 0.001

# In the guest: lay out the run's path, and ping across it once to learn addresses, then as a
# recording does.
PING_ACROSS = """
import json, os, sys
from pathlib import Path
from gostlab.spec.run_spec import RunSpec
from gostlab.guest.network import build_network
from gostlab.guest.environment import run_environ
from gostlab.guest.shaping import Shaper

folder, argv = Path(sys.argv[1]), sys.argv[2:]
run = RunSpec.from_json(json.loads((folder / "run.json").read_text()))
environ = run_environ(json.loads((folder / "parts.json").read_text()))
os.environ.update(environ)
with build_network(run, Path("/run/gostlab"), environ) as network:
    Shaper(network, run).install()
    network.read("client", ["ping", "-c", "1", "-w", "10", "-i", "0.2", network.ip("target")])
    Path("/run/gostlab/ping.txt").write_text(network.read("client", [*argv, network.ip("target")], check=False))
"""


def ping_across(lab: Lab, path: dict[str, Any], out: Path, seed: int, count: int = COUNT) -> Pings:
    """What a recording's ping sees of a path."""
    asked = lab.folder()
    run = describe(path["forward"], path["reverse"], seed=seed)
    (asked / "run.json").write_text(json.dumps(run.to_json()), encoding="utf-8")
    (asked / "parts.json").write_text(json.dumps(lab.handed), encoding="utf-8")
    (asked / "ping_across.py").write_text(PING_ACROSS, encoding="utf-8")
    argv = ping_argv(order(out, "host", count), exact=False)[:-1]  # all but the host
    words = f"python3 {asked}/ping_across.py {asked} {' '.join(argv)}"
    done = lab.command(words, seed=seed, keep=[*lab.keep, asked])
    assert (done.folder / "ping.txt").exists(), done.log
    return parse_ping((done.folder / "ping.txt").read_text(encoding="utf-8"))


def order(out: Path, name: str, count: int) -> RecordingOptions:
    return RecordingOptions("target", name, count, INTERVAL_S, True, "100mbit", out)


def replay(lab: Lab, recorded: Pings, out: Path, seed: int) -> tuple[dict[str, Any], Pings]:
    """The profile of a recording as run.json has it, and what a ping sees of that."""
    written = write_recorded(
        order(out, "recorded", recorded.sent), recorded, "2026-01-02T03:04:05Z"
    )
    profile = load_profile(str(written))
    path = to_json(compile_path(profile.forward, profile.reverse))
    return path, ping_across(lab, path, out, seed, recorded.sent)


def rtts_ms(pings: Pings) -> list[float]:
    return [answer.rtt_ms for answer in pings.answers]


def one_sample_bound(count: int, false_alarm: float) -> float:
    """The Kolmogorov-Smirnov distance that `count` draws keep to what they are drawn from, but with
    this probability (Dvoretzky-Kiefer-Wolfowitz, with Massart's constant).
    """
    return math.sqrt(math.log(2 / false_alarm) / (2 * count))


@pytest.fixture(scope="module")
def thrice(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Thrice:
    """A path with jitter both ways, so that its round trips are not uniform, and with loss in
    bursts: recorded; its profile; the recording of that.
    """
    out = tmp_path_factory.mktemp("recorded")
    forward = direction(delay_ms=20.0, jitter_ms=4.0) | {
        "loss": {"model": "gemodel", "p": 0.02, "r": 0.3, "one_minus_h": 1.0, "one_minus_k": 0.0}
    }
    both = {"forward": forward, "reverse": direction(delay_ms=20.0, jitter_ms=4.0)}
    first = ping_across(lab, both, out, seed=3)
    path, again = replay(lab, first, out, seed=4)
    return first, path, again


def by_chance(count: int, tries: int, chance: float) -> bool:
    """Whether so many of so many are likely, but for 1 in 1000."""
    low, high = binom.interval(1 - FALSE_ALARM, tries, chance)
    return bool(low <= count <= high)


def test_a_recording_finds_the_loss_that_the_lab_was_asked_for(thrice: Thrice) -> None:
    first, path, _ = thrice

    # Of the packets in each state, how many left it.
    left_good, good, left_bad, bad = transitions(first)
    assert by_chance(left_good, good, 0.02) and by_chance(left_bad, bad, 0.3)
    assert path["forward"]["loss"]["p"] == pytest.approx(left_good / good, rel=1e-3)
    assert path["forward"]["loss"]["r"] == pytest.approx(left_bad / bad, rel=1e-3)


def test_a_replayed_recording_has_the_recorded_round_trips(thrice: Thrice) -> None:
    first, path, again = thrice

    # The replay draws from what was recorded: 1 in 1000. What ping's own system calls take is in
    # what was recorded and comes on top once more; with ping's rounding to 0.1 ms that moves a
    # round trip by one such step, or not at all.
    assert len(path["forward"]["distribution"]) == len(first.answers)
    most = one_sample_bound(len(again.answers), FALSE_ALARM) + most_within(0.1, rtts_ms(first))
    assert ks_2samp(rtts_ms(first), rtts_ms(again)).statistic <= most
    # And that tells: the uniform jitter of the same standard deviation is further off.
    forward, back_ms = path["forward"], path["reverse"]["delay_ms"]
    least_ms = forward["delay_ms"] + back_ms - forward["jitter_ms"]
    uniform = [least_ms + forward["jitter_ms"] * i / 2000 for i in range(4001)]
    assert ks_2samp(rtts_ms(first), uniform).statistic > most


def test_a_replayed_recording_has_the_recorded_losses_and_bursts(thrice: Thrice) -> None:
    _, path, again = thrice
    loss = path["forward"]["loss"]

    left_good, good, left_bad, bad = transitions(again)

    assert by_chance(left_good, good, loss["p"]) and by_chance(left_bad, bad, loss["r"])
    # Bursts are geometric, with a standard deviation of sqrt(1-r)/r: 3.3 standard errors of their
    # mean, 1 in 1000.
    lengths = burst_lengths(again.lost)
    off = 3.3 * math.sqrt(1 - loss["r"]) / loss["r"] / math.sqrt(len(lengths))
    assert sum(lengths) / len(lengths) == pytest.approx(1 / loss["r"], abs=off)


def transitions(pings: Pings) -> tuple[int, int, int, int]:
    """Of the received packets how many had a lost one next, and of how many; the reverse."""
    steps = list(itertools.pairwise(pings.lost))
    good = [after for before, after in steps if not before]
    bad = [after for before, after in steps if before]
    return sum(good), len(good), len(bad) - sum(bad), len(bad)


def test_a_path_without_jitter_and_loss_is_recorded_to_a_tenth_of_a_millisecond(
    lab: Lab, tmp_path: Path
) -> None:
    plain = direction(delay_ms=15.0)
    first = ping_across(lab, {"forward": plain, "reverse": plain}, tmp_path, seed=5, count=500)

    path, again = replay(lab, first, tmp_path, seed=6)

    assert path["forward"]["loss"]["p"] == 0
    rtt_ms = path["forward"]["delay_ms"] + path["reverse"]["delay_ms"]
    assert rtt_ms == pytest.approx(30.0, abs=0.15)
    assert sum(again.lost) == 0
    assert max(rtts_ms(again)) == pytest.approx(max(rtts_ms(first)), abs=0.15)
