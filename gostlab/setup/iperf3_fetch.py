"""The lab's own iperf3s: Debian's packages, unpacked with the libraries that they were built with.

Each names its own dynamic loader and finds its own libraries, so that it is the same program on
every release of Debian, and nothing is installed. Python's own library alone.
"""

import shutil
from collections.abc import Sequence

from gostlab.declared.iperf3_versions import OWN, Iperf3Kind
from gostlab.setup import archive, parts
from gostlab.setup.unpacked import bind, libraries_in, sum_of, unpack
from gostlab.setup.workbench import SetupError, Workbench, replacing, write_json


def provide_iperf3(bench: Workbench, versions: Sequence[str] = tuple(OWN)) -> str:
    """The lab's own iperf3s. Raises SetupError naming those that must be there and are not."""
    got, failed = [], []
    for kind in (OWN[version] for version in versions):
        found = parts.find_own_iperf3(kind.version, bench.cache)
        try:
            got.append(found.version if found else _unpack(bench, kind))
        except SetupError as error:
            if not kind.may_lack:
                failed.append(f"iperf3 {kind.version}: {error}")
    if failed:
        raise SetupError("; ".join(failed))
    return f"{', '.join(got)}, private to the lab"


def _unpack(bench: Workbench, kind: Iperf3Kind) -> str:
    """Fetch and unpack one; returns its version. Raises SetupError."""
    apt = archive.private_apt(bench, "it", ": runs here need iperf3: system")
    bench.say(f"fetching iperf3 {kind.version} from {kind.suite}")
    wanted = archive.Wanted("iperf3", "iperf3", parts.version_tuple(kind.version))
    candidate = next(
        (one for one in apt.look_for(wanted, [[kind.suite]]) if one.upstream == wanted.oldest), None
    )
    if candidate is None:
        bench.notes += apt.complaints
        raise SetupError(f"the mirror's {kind.suite} does not have it")
    packages = bench.cache / "build" / f"iperf3-{kind.version}"
    shutil.rmtree(packages, ignore_errors=True)
    files = apt.download_current([candidate.package, *kind.libraries], packages)
    folder, log = bench.cache / "iperf3" / kind.version, bench.log("iperf3")
    with replacing(folder) as finished:
        contents = packages / "contents"
        unpack(files, contents, log)
        (finished / "lib").mkdir()
        shutil.copy2(contents / "usr/bin/iperf3", finished / "iperf3")
        for library in libraries_in(contents):
            shutil.copy2(library, finished / "lib" / library.name)
        sha256 = sum_of(finished)
        bind(finished / "iperf3", finished / "lib", folder / "lib", "$ORIGIN/lib", log)
        names = sorted(file.name for file in files)
        record = {"version": candidate.version, "packages": names, "sha256": sha256}
        write_json(finished / "iperf3.json", record)
    shutil.rmtree(packages)
    if parts.find_own_iperf3(kind.version, bench.cache) is None:
        shutil.rmtree(folder)
        raise SetupError(f"{candidate} was unpacked but does not run here")
    return candidate.version
