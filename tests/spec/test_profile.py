# SPDX-License-Identifier: MIT
"""Profiles hold the thesis's numbers, and what was derived from them can be derived again."""

import re
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest

from gostlab.registry.folders import PROFILES
from gostlab.spec import profile as profiles
from gostlab.spec.compatible_json import to_json
from gostlab.spec.path_spec import LossSpec
from gostlab.spec.profile import MeasuredRow, Profile, load_profile
from gostlab.spec.yaml_source import BadInput, parse_document
from gostlab.tcpmodel.run_limits import period_factors
from netem_profiles import make_speed_tests
from tests.asked import refusal
from tests.sandboxed import direction

# One connection's window, 3 MiB, in Mbit.
WINDOW_MBIT = Decimal(8 * 3 * 2**20) / 10**6


# Section 4.1 of the thesis, as it came.
ROWS = make_speed_tests.read_tables(make_speed_tests.TABLES.read_text(encoding="utf-8"))
SITES = [(vantage, site) for vantage, cc, site in ROWS if cc == "cubic"]


def profile_of(vantage: str, site: str) -> Profile:
    return load_profile(make_speed_tests.profile_name(vantage, site))


def written(text: str, name: str = "p") -> Profile:
    return profiles.read_profile(parse_document(text, f"{name}.yaml"), PROFILES / f"{name}.yaml")


def test_the_thesis_has_12_sites_from_2_points_with_2_congestion_controls_less_one() -> None:
    assert len(SITES) == 24
    assert len(ROWS) == 47
    assert ("client", "bbr", "Nanjing, CN") not in ROWS


@pytest.mark.parametrize(("vantage", "site"), SITES)
def test_measured_is_the_table_digit_by_digit_and_says_which_row_is_missing(
    vantage: str, site: str
) -> None:
    rows = profile_of(vantage, site).measured
    assert [row.cc for row in rows] == ["cubic", "bbr"]
    for row in rows:
        if (vantage, row.cc, site) == ("client", "bbr", "Nanjing, CN"):
            why = "the thesis's table has no such row"
            assert row == MeasuredRow(row.cc, None, None, None, site, why)
            continue
        assert (row.node, row.missing) == (site, None)
        for name, number in vars(ROWS[vantage, row.cc, site]).items():
            assert str(getattr(row, name)) == str(number)


@pytest.mark.parametrize(("vantage", "site"), SITES)
def test_caps_delays_and_connections_follow_from_the_cubic_rows(vantage: str, site: str) -> None:
    profile, row = profile_of(vantage, site), ROWS[vantage, "cubic", site]
    assert profile.derived is not None
    for way, column in zip(profiles.DIRECTIONS, ("upload_mbit", "download_mbit"), strict=True):
        direction = getattr(profile, way)
        # The most that CUBIC got from that vantage point; half its latency each way.
        assert direction.rate_bps == 10**6 * max(
            getattr(each, column)
            for (point, cc, _), each in ROWS.items()
            if (point, cc) == (vantage, "cubic")
        )
        assert direction.delay_s == Fraction(row.rtt_ms) / 2000
        # Four, or 32 where four windows would not hold what was in flight.
        four_are_enough = getattr(row, column) * row.rtt_ms / 1000 <= 4 * WINDOW_MBIT
        assert getattr(profile.derived, way).connections == (4 if four_are_enough else 32)


def test_the_thesis_path_is_168_ms_and_1967_mbit_without_loss() -> None:
    path = load_profile("la-hamina")
    assert path.rtt_ms == 168
    assert path.forward.rate_bps == path.reverse.rate_bps == 1_967_000_000
    assert path.forward.loss.is_lossless and path.reverse.loss.is_lossless
    assert profiles.compile_path(path.forward, path.reverse).forward.buffer_pkts == 27538
    known = {tuple(map(str, vars(row).values())) for row in ROWS.values()}
    rows = {(row.upload_mbit, row.download_mbit, row.rtt_ms) for row in path.measured}
    assert {tuple(map(str, row)) for row in rows} <= known
    assert any("uffer" in line for line in path.assumptions)


PLAIN = """name: p
forward: {rate: 100mbit, delay: 50ms, jitter: 1ms, loss: 1%, buffer: 1bdp}
reverse: {rate: 100mbit, delay: 50ms, buffer: 100pkts}
"""


SHAPED = PLAIN.replace("jitter: 1ms", "jitter: 1ms, distribution: p.dist, ordered: true")


def shaped(folder: Path, table: str, old: str = "", new: str = "") -> Profile:
    """A profile with a distribution beside it."""
    (folder / "p.dist").write_text(table, encoding="ascii")
    (folder / "p.yaml").write_text(SHAPED.replace(old, new, 1), encoding="utf-8")
    return load_profile(f"{folder}/p.yaml")


def test_a_path_becomes_run_jsons_path() -> None:
    path = written(PLAIN)
    assert to_json(profiles.compile_path(path.forward, path.reverse)) == {
        "forward": direction(10**8, 50.0, loss=0.01, buffer_pkts=833, jitter_ms=1.0),
        "reverse": direction(10**8, 50.0, buffer_pkts=100),
    }


def test_a_direction_may_keep_order_and_have_a_distribution_beside_the_profile(
    tmp_path: Path,
) -> None:
    path = shaped(tmp_path, "# three numbers\n -8192 0\n8192\n")
    compiled = profiles.compile_path(path.forward, path.reverse)
    assert compiled.forward.distribution == (-8192, 0, 8192)
    assert compiled.forward.ordered is True
    assert compiled.reverse.distribution is None
    assert path.forward.least_delay_s == Fraction(49, 1000)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("1 2\n3 x\n", 'p.dist:2: "x": not a whole number'),
        ("010\n", 'p.dist:1: "010": not a whole number'),
        ("# only words\n", "p.dist: 0 numbers in it: netem takes from 1 to 16384"),
        ("# a\n32768\n", 'p.dist:2: "32768": not within 16 bits (-32768 to 32767)'),
        ("0 0\n" * 8192 + "1\n", "p.dist: 16385 numbers in it: netem takes from 1 to 16384"),
        ("0" * 300_000, "p.dist: larger than any such file should be (262144 bytes)"),
    ],
)
def test_a_bad_distribution_is_refused_where_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert message in refusal(lambda: shaped(Path("."), table))


@pytest.mark.parametrize("entries", [1, 16384])
def test_the_shortest_and_the_longest_distribution_that_netem_takes_are_taken(
    tmp_path: Path, entries: int
) -> None:
    table = shaped(tmp_path, "7\n" * entries).forward.distribution
    assert table is not None and len(table) == entries


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("distribution: p.dist", "distribution: q.dist", '"q.dist": no such file beside the'),
        ("distribution: p.dist", "distribution: ../p.dist", "not the name of a file beside the"),
        ("jitter: 1ms, ", "", "forward: distribution without jitter: it is the shape of the"),
        ("delay: 50ms", "delay: 0.75ms", "jitter and distribution reach 250 µs beyond delay"),
        ("ordered: true", "ordered: yes", 'ordered "yes": not known here (known: true, false)'),
    ],
)
def test_a_distribution_that_does_not_fit_its_direction_is_refused(
    tmp_path: Path, old: str, new: str, words: str
) -> None:
    with pytest.raises(BadInput, match=re.escape(words)):
        shaped(tmp_path, "-8192 0 8192\n", old, new)


def test_a_distribution_may_have_more_jitter_than_delay_where_it_never_reaches_below_0(
    tmp_path: Path,
) -> None:
    path = shaped(tmp_path, "-100 20000\n", "jitter: 1ms", "jitter: 80ms")
    assert path.forward.least_delay_s > 0


def test_periodic_loss_loses_exactly_every_nth_packet() -> None:
    path = written(PLAIN.replace("loss: 1%", "loss: {model: periodic, packets: 1000000}"))
    assert path.forward.loss == LossSpec(model="periodic", p=1e-6, packets=1_000_000)
    assert not path.forward.loss.is_lossless
    assert "periodic loss 0.0001%" in profiles.summary(path)


@pytest.mark.parametrize(
    ("packets", "factors"),
    [
        (2, (2, 1)),
        (10_000, (10_000, 1)),
        (1_000_000, (10_000, 100)),
        (10_000**2, (10_000, 10_000)),
        (9973 * 9967, (9973, 9967)),
        (10_007, None),
        (99_999_989, None),
    ],
)
def test_a_period_is_what_two_counters_of_ten_thousand_can_count(
    packets: int, factors: tuple[int, int] | None
) -> None:
    assert period_factors(packets) == factors


def test_gilbert_elliott_loss_has_tcs_four_numbers() -> None:
    bursts = "loss: {model: gemodel, p: 1%, r: 10%, one_minus_k: 0.1%}"
    assert written(PLAIN.replace("loss: 1%", bursts)).forward.loss == LossSpec(
        model="gemodel", p=0.01, r=0.1, one_minus_h=1.0, one_minus_k=0.001
    )


def test_a_path_may_be_unlimited_and_then_has_no_queue() -> None:
    path = written(PLAIN.replace("rate: 100mbit", "rate: unlimited"))
    assert profiles.compile_path(path.forward, path.reverse).forward.rate_bps is None
    assert profiles.compile_path(path.forward, path.reverse).forward.buffer_pkts is None


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("jitter: 1ms", "jiter: 1ms", "p.yaml:2: forward.jiter: unknown key (did you mean"),
        ("delay: 50ms", "delay: 60s", 'p.yaml:2: forward.delay "60s": not between 0s and 10s'),
        ("loss: 1%", "loss: 101%", 'p.yaml:2: forward.loss "101%": more than 100%'),
        ("loss: 1%", "loss: {model: gemodel, p: 1%}", "p.yaml:2: forward.loss: r is missing"),
        ("loss: 1%", "loss: {model: periodic, packets: 10007}", 'packets "10007": not the product'),
        ("loss: 1%", "loss: {model: periodic, packets: 1}", 'loss.packets "1": not within 2'),
        ("loss: 1%", "loss: {model: periodic, p: 1%}", "p.yaml:2: forward.loss.p: unknown key"),
        ("loss: 1%", "loss: {packets: 100}", "p.yaml:2: forward.loss: model is missing (one of"),
        ("loss: 1%", "loss: {model: periodical}", '"periodical": not known here'),
        ("loss: 1%", "loss: [1%]", "p.yaml:2: forward.loss: a list where a value should be"),
        ("jitter: 1ms", "jitter: 51ms", "p.yaml:2: forward: jitter is larger than delay: no"),
        ("name: p", "name: q", 'p.yaml:1: name "q": a profile is named like its file (p)'),
        (", buffer: 1bdp", "", "p.yaml:2: forward: buffer is missing"),
    ],
)
def test_bad_input_is_refused_where_it_stands(old: str, new: str, message: str) -> None:
    assert message in refusal(lambda: written(PLAIN.replace(old, new, 1)))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("loss: 0.1364%, loss_if", "loss: 0.14%, loss_if", "forward.loss is 0.14%, recomputed it"),
        ("explained_by: loss, loss: 0.1364%", "explained_by: cap, loss: 0.1364%", "it is loss"),
        ("upload_mbit: 10.80", "upload_mbit: 108.0", "recomputed it is"),
        ("loss: 0.1364%, buffer", "loss: 0.2%, buffer", "but the path's forward.loss is another"),
        ("cc: cubic, node", "cc: reno, node", "no measured row with cc cubic"),
    ],
)
def test_derived_numbers_that_do_not_follow_are_refused(old: str, new: str, words: str) -> None:
    text = (PROFILES / "client-shanghai.yaml").read_text(encoding="utf-8")
    assert old in text
    with pytest.raises(BadInput, match=re.escape(words)):
        written(text.replace(old, new, 1), "client-shanghai")


def test_a_missing_profile_is_refused_with_what_was_meant() -> None:
    said = refusal(lambda: load_profile("la-hamin"))
    assert said.startswith('profile "la-hamin": ') and "did you mean la-hamina?" in said
    assert "no such file" in refusal(lambda: load_profile("nowhere/x.yaml"))


@pytest.mark.parametrize("name", sorted(make_speed_tests.profiles()))
def test_a_speed_tests_profile_is_what_its_generator_writes(name: str) -> None:
    assert (PROFILES / name).read_text(encoding="utf-8") == (make_speed_tests.profiles()[name]), (
        "python3 -m netem_profiles.make_speed_tests writes it"
    )


def test_the_generator_makes_every_speed_test_and_nothing_else() -> None:
    made = {name.removesuffix(".yaml") for name in make_speed_tests.profiles()}
    assert made == {name for name in profiles.list_profiles() if load_profile(name).derived}
    assert {load_profile(name).see for name in made} == {"thesis-speed-tests.md"}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no-such.md", 'see "no-such.md": no such file beside the profile'),
        ("../README.md", "not the name of a text beside the profile"),
        ("la-hamina.yaml", "not the name of a text beside the profile"),
    ],
)
def test_what_a_profile_refers_to_must_stand_beside_it(name: str, message: str) -> None:
    text = (PROFILES / "client-tokyo.yaml").read_text(encoding="utf-8")
    document = parse_document(text.replace("thesis-speed-tests.md", name), "client-tokyo.yaml")
    file = PROFILES / "client-tokyo.yaml"
    assert message in refusal(lambda: profiles.read_profile(document, file))
