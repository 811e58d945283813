"""A run's modules in one file (gostlab/sandbox/module_bundle.py), as the guest's init finds it."""

import sys
from pathlib import Path

import pytest

from gostlab.sandbox import guest_init
from gostlab.sandbox.module_bundle import LAB
from tests.lab_command import said_by


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("kept") / "modules"
    said_by(sys.executable, "-m", "gostlab.sandbox.module_bundle", file, check=True)
    return file


IMPORTS = """
import builtins, sys
real, compiled = builtins.exec, []
def count(code, *scopes):
    compiled.append(isinstance(code, str))
    real(code, *scopes)
from gostlab.sandbox.guest_init import BundleFinder
for name in [name for name in sys.modules if name.startswith("gostlab")]:
    del sys.modules[name]
others = [each for each in sys.meta_path if "gostlab" not in repr(each)]
sys.meta_path = [BundleFinder({file!r}), *others]
builtins.exec = count
import gostlab.guest.run
from gostlab import lazy
lazy.read_all()
"""


@pytest.mark.slow
def test_a_run_reads_each_of_the_labs_modules_from_it_and_compiles_nothing(kept: Path) -> None:
    script = IMPORTS.format(file=str(kept)) + (
        "lab = {name: each.__file__ for name, each in sys.modules.items()"
        " if name.startswith('gostlab') and name != 'gostlab.registry.kept'}\n"
        f"print(len(lab) > 60, [name for name, file in lab.items() if not file.startswith({LAB!r})],"
        " sum(compiled), gostlab.guest.__path__)"
    )
    done = said_by(sys.executable, "-c", script, check=True)
    assert done.stdout.strip() == f"True [] 0 ['{LAB}/gostlab/guest']"


@pytest.mark.parametrize("length", [0, 7, 1000, -1])
def test_one_that_is_not_whole_is_not_taken(length: int, kept: Path, tmp_path: Path) -> None:
    cut = tmp_path / "modules"
    cut.write_bytes(kept.read_bytes()[:length])
    with pytest.raises((OSError, ValueError, EOFError, TypeError, LookupError)):
        guest_init.BundleFinder(str(cut))
