# SPDX-License-Identifier: MIT
"""The licence's line at the top of source files."""

from pathlib import Path

import pytest

from tools import spdx_lines


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("a.py", '"""Do."""\n', '# {}\n"""Do."""\n'),
        ("run", "#!/bin/sh\nset -eu\n", "#!/bin/sh\n# {}\nset -eu\n"),
        ("page.css", "p {}\n", "/* {} */\np {{}}\n"),
    ],
)
def test_the_line_stands_below_an_interpreters(
    tmp_path: Path, name: str, before: str, after: str
) -> None:
    file = tmp_path / name
    file.write_text(before)
    spdx_lines.add_line(file)
    assert file.read_text() == after.format(spdx_lines.LINE)


def test_what_is_hashed_into_a_build_or_read_on_a_runs_clock_is_left_as_it_is() -> None:
    names = {str(path.relative_to(spdx_lines.ROOT)) for path in spdx_lines.source_files()}
    assert {"topo.py", "gostlab/cli/main.py", "lab"} <= names
    left = ("gostlab/guest/rtt_echo.py", "gostlab/sandbox/guest_stage0.py", "kernel/build.sh")
    assert not names & {*left, "gostlab/qdiscs/dualpi2_netlink.py"}
