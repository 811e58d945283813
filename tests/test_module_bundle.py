"""A run's modules in one zip file (gostlab/sandbox/module_bundle.py), as a guest imports them."""

import sys
import zipimport
from pathlib import Path

import pytest

from tests.lab_command import said_by


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("bundle") / "modules.zip"
    said_by(sys.executable, "-m", "gostlab.sandbox.module_bundle", file, check=True)
    return file


@pytest.mark.slow
def test_a_run_imports_all_of_the_labs_modules_from_it(bundle: Path) -> None:
    script = (
        f"import sys; sys.path.insert(0, {str(bundle)!r})\n"
        "from gostlab.guest.run import main\n"
        "files = [str(module.__file__) for name, module in list(sys.modules.items())"
        " if name.startswith('gostlab')]\n"
        f"print(len(files) > 30, [file for file in files if not file.startswith({str(bundle)!r})],"
        " sys.modules['dataclasses'].__file__)"
    )
    done = said_by(sys.executable, "-P", "-S", "-c", script, cwd=bundle.parent, check=True)
    assert done.stdout.strip() == f"True [] {bundle}/dataclasses.pyc"


@pytest.mark.parametrize("length", [0, 7, 1000, -1])
def test_a_truncated_one_is_not_taken(length: int, bundle: Path, tmp_path: Path) -> None:
    cut = tmp_path / "modules.zip"
    cut.write_bytes(bundle.read_bytes()[:length])
    with pytest.raises(zipimport.ZipImportError):
        zipimport.zipimporter(str(cut))
