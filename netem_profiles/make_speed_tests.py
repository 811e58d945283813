"""The profiles of the thesis's speed tests, from its tables: thesis-speed-tests.md says how.

python3 -m netem_profiles.make_speed_tests
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from gostlab.profile_import.profile_writer import SCHEMA, direction, profile_text
from gostlab.spec.profile import DEBIAN_WINDOW_BYTES, DerivedDirection, derive, share_text

FOLDER = Path(__file__).resolve().parent
TABLES = FOLDER / "thesis-4.1.txt"
PLACES = {"client": "client, near Los Angeles", "target": "target, in Finland"}
EXPLAINED = {"cap": "the rate cap", "windows": "windows", "loss": "loss"}
FEW_CONNECTIONS, MANY_CONNECTIONS = 4, 32
WAYS = ("upload", "download")
NO_ROW = "the thesis's table has no such row"
# A rate with BBR within these bounds of CUBIC's is about the same.
SAME = (Decimal("0.8"), Decimal("1.25"))
# RFC 9438's formula knows no timeouts, which decide above this.
FORMULA_LOSS = 0.05


@dataclass(frozen=True)
class Row:
    """A site's row of a table, as printed."""

    upload_mbit: Decimal
    download_mbit: Decimal
    rtt_ms: Decimal


Rows = Mapping[tuple[str, str, str], Row]


def read_tables(text: str) -> dict[tuple[str, str, str], Row]:
    """(vantage point, congestion control, site) -> its row."""
    found = {}
    cc = vantage = ""
    for line in text.splitlines():
        if heading := re.match(r"#### 4\.1\.[12] (Cubic|BBR) ", line):
            cc = heading.group(1).lower()
        elif point := re.match(r"- (Client|Target) ", line):
            vantage = point.group(1).lower()
        elif row := re.match(r" (\S.*?) {2,}([\d.]+) Mbps +([\d.]+) Mbps +([\d.]+) ms", line):
            site, *numbers = row.groups()
            found[vantage, cc, site] = Row(*map(Decimal, numbers))
    return found


def profile_name(vantage: str, site: str) -> str:
    """The name of a site's profile: target-los-angeles."""
    return f"{vantage}-{re.sub(r'[ .]', '-', site.partition(',')[0].lower())}"


def connections(rate_mbit: Decimal, rtt_ms: Decimal) -> int:
    """How many the test is taken to have had: few, unless more was in flight than they hold."""
    in_flight_bits = float(rate_mbit) * 1e3 * float(rtt_ms)
    few_hold_bits = FEW_CONNECTIONS * 8 * DEBIAN_WINDOW_BYTES
    return MANY_CONNECTIONS if in_flight_bits > few_hold_bits else FEW_CONNECTIONS


def caps_mbit(rows: Rows, vantage: str) -> tuple[Decimal, Decimal]:
    """The most that cubic showed a vantage point, up and down."""
    own = [row for (point, cc, _), row in rows.items() if (point, cc) == (vantage, "cubic")]
    return max(row.upload_mbit for row in own), max(row.download_mbit for row in own)


def notes(way: str, found: DerivedDirection, cubic: Decimal, bbr: Decimal | None) -> Iterator[str]:
    """What to know of a direction whose rate loss explains."""
    if found.loss > FORMULA_LOSS:
        yield (
            f"{way}: a loss of {share_text(found.loss)} is beyond what RFC 9438's formula is for,"
            " which knows no timeouts"
        )
    if found.explained_by != "loss" or bbr is None:
        return
    if bbr < SAME[0] * cubic:
        yield f"{way}: slower with bbr ({bbr} Mbit/s)"
    elif bbr <= SAME[1] * cubic:
        yield f"{way}: about the same with bbr ({bbr} Mbit/s)"


def derived_of(found: DerivedDirection) -> dict[str, Any]:
    """A derived direction as the file has it."""
    told = {
        "connections": found.connections,
        "explained_by": found.explained_by,
        "loss": share_text(found.loss),
    }
    if found.explained_by == "loss":
        told["loss_if_half"] = share_text(found.loss_if_half)
        told["loss_if_twice"] = share_text(found.loss_if_twice)
    return told


def speed_test_text(rows: Rows, vantage: str, site: str) -> str:
    cubic, bbr = rows[vantage, "cubic", site], rows.get((vantage, "bbr", site))
    delay_ms = f"{(cubic.rtt_ms / 2).normalize():f}"
    derived: dict[str, Any] = {"method": "rfc9438-inverse", "cc": "cubic"}
    ways: dict[str, Any] = {}
    said: list[str] = []
    heads: list[str] = []
    for way, name, cap in zip(WAYS, ("forward", "reverse"), caps_mbit(rows, vantage), strict=True):
        rate: Decimal = getattr(cubic, f"{way}_mbit")
        count = connections(rate, cubic.rtt_ms)
        found = derive(float(rate), float(cubic.rtt_ms), count, float(cap))
        said += notes(way, found, rate, None if bbr is None else getattr(bbr, f"{way}_mbit"))
        derived[name] = derived_of(found)
        ways[name] = direction(f"{cap}mbit", delay_ms, loss=share_text(found.loss))
        heads.append(f" cubic {rate:>8} Mbit/s, explained by {EXPLAINED[found.explained_by]}")
    told = {"cubic": vars(cubic), "bbr": {"missing": NO_ROW} if bbr is None else vars(bbr)}
    comments = [
        f"A speed test of the thesis: from its {PLACES[vantage]}, to {site}.",
        "",
        f"    {vantage} ══ uploads,   {delay_ms} ms ══> site     {heads[0]}",
        f"           <═ downloads, {delay_ms} ms ══          {heads[1]}",
        "",
        "Made by make_speed_tests.py: do not edit.",
        SCHEMA,
    ]
    document = {
        "name": profile_name(vantage, site),
        "title": f"The thesis's {vantage} to {site}",
        "source": {
            "seed": "thesis",
            "table": "4.1.1, 4.1.2",
            "note": f"the {vantage}'s rows for {site}",
        },
        "see": "thesis-speed-tests.md",
        "measured": [{"cc": cc, "node": site, **row} for cc, row in told.items()],
        "derived": derived,
        "notes": said,
        "machines": {"cpus": 2, "memory": "3.8GiB"},
        **ways,
    }
    return profile_text(comments, document)


def profiles() -> dict[str, str]:
    """Every profile's text by its file's name."""
    rows = read_tables(TABLES.read_text(encoding="utf-8"))
    return {
        f"{profile_name(vantage, site)}.yaml": speed_test_text(rows, vantage, site)
        for vantage, cc, site in rows
        if cc == "cubic"
    }


def main() -> None:
    for name, text in profiles().items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
