# SPDX-License-Identifier: MIT
"""Write the zip that an autograder needs: the lab program, the lab's folder and a script."""

import shlex
import zipfile
from collections.abc import Iterator
from pathlib import Path

from gostlab.classroom.lab import CourseLab
from gostlab.registry import folders
from gostlab.spec.yaml_source import BadInput

SECRET = "course.secret"
# Unix mode 0755 in the upper half of a zip entry's external attributes.
EXECUTABLE = 0o755 << 16

GRADESCOPE_SETUP = """#!/bin/bash
# Gradescope runs this once, as it builds the grader's image.
set -eu
apt-get update
apt-get install -y --no-install-recommends python3 python3-yaml
/usr/bin/python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    { echo "Python 3.11 or newer is needed: choose Ubuntu 24.04 or newer" >&2; exit 1; }
"""
GRADESCOPE_RUN = """#!/bin/bash
# Gradescope runs this for every submission.
set -eu
home=${{AUTOGRADER:-/autograder}}
exec /bin/sh "$home/source/lab" grade "$home/source/labs/{lab}" "$home/submission" \\
    --metadata "$home/submission_metadata.json" --course {course}{secret} \\
    --format gradescope --out "$home/results/results.json"
"""
CLASSROOM50_RUN = '''"""Classroom 50 runs this in a student's checkout; it leaves ./result.json."""

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
words = [
    "/bin/sh", str(HERE / "lab"), "grade", str(HERE / "labs" / {lab!r}), os.getcwd(),
    "--student", os.environ["OWNER"], "--course", {course!r},
    "--format", "classroom50", "--out", "result.json",
]
sys.exit(subprocess.run(words, check=False).returncode)
'''


def write_bundle(lab: CourseLab, form: str, course: str, secret: bytes | None, out: Path) -> None:
    """Write an autograder's zip. Raises OSError; BadInput for a secret that students could read."""
    if secret is not None and form == "classroom50":
        raise BadInput(
            "--secret: Classroom 50 grades in the student's own repository, where an editor of its"
            " workflow reads the secret: leave it out, or grade with a secret on your own machine"
        )
    files = dict(program_files(lab))
    if secret is not None:
        files[SECRET] = secret
    if form == "gradescope":
        secret_option = f' --secret "$home/source/{SECRET}"' if secret is not None else ""
        files["setup.sh"] = GRADESCOPE_SETUP.encode()
        files["run_autograder"] = GRADESCOPE_RUN.format(
            lab=lab.name, course=shlex.quote(course), secret=secret_option
        ).encode()
    else:
        files["autograder.py"] = CLASSROOM50_RUN.format(lab=lab.name, course=course).encode()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in sorted(files.items()):
            # A fixed time gives the same zip for the same files.
            entry = zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0))
            entry.external_attr = EXECUTABLE
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)


def program_files(lab: CourseLab) -> Iterator[tuple[str, bytes]]:
    """Yield the files of the lab program that grading needs, and the files of this lab's folder."""
    yield "lab", (folders.ROOT / "lab").read_bytes()
    for name, path in folders.sources("gostlab", "gostlab/analysis"):
        yield name, path.read_bytes()
    # Validating an experiment requires the names of the files in these folders.
    for folder in (folders.PROFILES, folders.CONTROLS):
        for path in sorted(folder.glob("*.*")):
            if path.is_file():
                yield f"{folder.name}/{path.name}", path.read_bytes()
    for path in sorted(lab.folder.iterdir()):
        if path.is_file() and path.suffix in (".yaml", ".md"):
            yield f"labs/{lab.name}/{path.name}", path.read_bytes()
