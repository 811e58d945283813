# SPDX-License-Identifier: MIT
"""Write the profiles of the thesis's speed tests from its tables; see thesis-speed-tests.md.

python3 -m netem_profiles.make_speed_tests
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from gostlab.profile_import.profile_writer import SCHEMA, direction_values, profile_text
from gostlab.spec.profile import DEBIAN_WINDOW_BYTES, DerivedDirection, derive, share_text

FOLDER = Path(__file__).resolve().parent
TABLES = FOLDER / "thesis-4.1.txt"
VANTAGE_POINTS = {"client": "client, near Los Angeles", "target": "target, in Finland"}
EXPLAINED = {"cap": "the rate cap", "windows": "windows", "loss": "loss"}
FEW_CONNECTIONS, MANY_CONNECTIONS = 4, 32
DIRECTIONS = ("upload", "download")
NO_ROW = "the thesis's table has no such row"
# Bounds of the ratio of BBR's rate to CUBIC's within which both count as about the same.
SAME = (Decimal("0.8"), Decimal("1.25"))
# RFC 9438's formula ignores timeouts, which dominate at a larger loss.
FORMULA_LOSS = 0.05


@dataclass(frozen=True)
class Row:
    """The row of a site in a table, as printed."""

    upload_mbit: Decimal
    download_mbit: Decimal
    rtt_ms: Decimal


Rows = Mapping[tuple[str, str, str], Row]


def read_tables(text: str) -> dict[tuple[str, str, str], Row]:
    """Parse the tables: (vantage point, congestion control, site) -> row."""
    rows = {}
    cc = vantage = ""
    for line in text.splitlines():
        if heading := re.match(r"#### 4\.1\.[12] (Cubic|BBR) ", line):
            cc = heading.group(1).lower()
        elif point := re.match(r"- (Client|Target) ", line):
            vantage = point.group(1).lower()
        elif row := re.match(r" (\S.*?) {2,}([\d.]+) Mbps +([\d.]+) Mbps +([\d.]+) ms", line):
            site, *numbers = row.groups()
            rows[vantage, cc, site] = Row(*map(Decimal, numbers))
    return rows


def profile_name(vantage: str, site: str) -> str:
    """Return the name of a site's profile, such as target-los-angeles."""
    return f"{vantage}-{re.sub(r'[ .]', '-', site.partition(',')[0].lower())}"


def connections(rate_mbit: Decimal, rtt_ms: Decimal) -> int:
    """Return the assumed number of connections of a test.

    It is FEW_CONNECTIONS unless the BDP exceeds their windows.
    """
    in_flight_bits = float(rate_mbit) * 1e3 * float(rtt_ms)
    few_hold_bits = FEW_CONNECTIONS * 8 * DEBIAN_WINDOW_BYTES
    return MANY_CONNECTIONS if in_flight_bits > few_hold_bits else FEW_CONNECTIONS


def caps_mbit(rows: Rows, vantage: str) -> tuple[Decimal, Decimal]:
    """Return the maximum rates of cubic at a vantage point, upload and download."""
    cubic_rows = [row for (point, cc, _), row in rows.items() if (point, cc) == (vantage, "cubic")]
    return max(row.upload_mbit for row in cubic_rows), max(row.download_mbit for row in cubic_rows)


def notes(
    direction: str, derived: DerivedDirection, cubic: Decimal, bbr: Decimal | None
) -> Iterator[str]:
    """Yield remarks on a direction whose rate is explained by loss."""
    if derived.loss > FORMULA_LOSS:
        yield (
            f"{direction}: a loss of {share_text(derived.loss)} is beyond what RFC 9438's formula"
            " is for, which knows no timeouts"
        )
    if derived.explained_by != "loss" or bbr is None:
        return
    if bbr < SAME[0] * cubic:
        yield f"{direction}: slower with bbr ({bbr} Mbit/s)"
    elif bbr <= SAME[1] * cubic:
        yield f"{direction}: about the same with bbr ({bbr} Mbit/s)"


def derived_of(derived: DerivedDirection) -> dict[str, object]:
    """Return a derived direction in the format of the profile."""
    values = {
        "connections": derived.connections,
        "explained_by": derived.explained_by,
        "loss": share_text(derived.loss),
    }
    if derived.explained_by == "loss":
        values["loss_if_half"] = share_text(derived.loss_if_half)
        values["loss_if_twice"] = share_text(derived.loss_if_twice)
    return values


def speed_test_text(rows: Rows, vantage: str, site: str) -> str:
    cubic, bbr = rows[vantage, "cubic", site], rows.get((vantage, "bbr", site))
    delay_ms = f"{(cubic.rtt_ms / 2).normalize():f}"
    derived: dict[str, object] = {"method": "rfc9438-inverse", "cc": "cubic"}
    directions: dict[str, Any] = {}
    remarks: list[str] = []
    headings: list[str] = []
    for direction, name, cap in zip(
        DIRECTIONS, ("forward", "reverse"), caps_mbit(rows, vantage), strict=True
    ):
        rate: Decimal = getattr(cubic, f"{direction}_mbit")
        count = connections(rate, cubic.rtt_ms)
        derivation = derive(float(rate), float(cubic.rtt_ms), count, float(cap))
        remarks += notes(
            direction, derivation, rate, None if bbr is None else getattr(bbr, f"{direction}_mbit")
        )
        derived[name] = derived_of(derivation)
        directions[name] = direction_values(
            f"{cap}mbit", delay_ms, loss=share_text(derivation.loss)
        )
        headings.append(
            f" cubic {rate:>8} Mbit/s, explained by {EXPLAINED[derivation.explained_by]}"
        )
    measured = {"cubic": vars(cubic), "bbr": {"missing": NO_ROW} if bbr is None else vars(bbr)}
    comments = [
        f"A speed test of the thesis: from its {VANTAGE_POINTS[vantage]}, to {site}.",
        "",
        f"    {vantage} ══ uploads,   {delay_ms} ms ══> site     {headings[0]}",
        f"           <═ downloads, {delay_ms} ms ══          {headings[1]}",
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
        "measured": [{"cc": cc, "node": site, **row} for cc, row in measured.items()],
        "derived": derived,
        "notes": remarks,
        "machines": {"cpus": 2, "memory": "3.8GiB"},
        **directions,
    }
    return profile_text(comments, document)


def profiles() -> dict[str, str]:
    """Return the text of every profile by file name."""
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
