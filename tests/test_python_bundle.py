# SPDX-License-Identifier: MIT
"""A run's modules in one folder (gostlab/sandbox/python_bundle.py), as a guest imports them."""

import sys
from pathlib import Path

import pytest

from tests.lab_command import said_by


@pytest.mark.slow
def test_a_run_imports_all_of_the_labs_modules_from_it(tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    said_by(sys.executable, "-m", "gostlab.sandbox.python_bundle", bundle, check=True)
    script = (
        f"import sys; sys.path.insert(0, {str(bundle)!r})\n"
        "from gostlab.guest.run import main\n"
        "files = [str(module.__file__) for name, module in list(sys.modules.items())"
        " if name.startswith('gostlab')]\n"
        f"print(len(files) > 30, [file for file in files if not file.startswith({str(bundle)!r})],"
        " sys.modules['dataclasses'].__file__)"
    )
    done = said_by(sys.executable, "-P", "-S", "-c", script, cwd=tmp_path, check=True)
    assert done.stdout.strip() == f"True [] {bundle}/dataclasses.pyc"
