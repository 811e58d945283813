# SPDX-License-Identifier: MIT
"""The set-up's steps: what they ask for, done again, and what they say when they cannot."""

import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import namedtuple
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from gostlab import atomic_write
from gostlab.install import apt, build_env, gost_versions, kernel_build, locate, relay_build
from gostlab.install import main as setup
from gostlab.install.build_env import HashMismatch, InstallContext, SetupError
from gostlab.install.task_graph import InstallProgress, SetupStep, run_steps
from gostlab.registry import folders, kernels
from gostlab.registry.run_requirements import RunRequirements
from gostlab.spec import requirements
from gostlab.spec.expand import expand
from gostlab.spec.experiment import load_experiment
from tests.install.programs import packed_gost, script
from tests.lab_command import said_by

# -- the relay


def test_without_a_home_folder_go_has_one_in_the_scratch_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends otherwise: its database of sums lies in GOPATH."""
    monkeypatch.setenv("HOME", "/home/somebody")
    assert relay_build.go_environ(tmp_path) == dict(os.environ)
    monkeypatch.delenv("HOME")
    monkeypatch.setenv("GOFLAGS", "-buildvcs=false")
    told = relay_build.go_environ(tmp_path)
    assert all(Path(told[name]).is_relative_to(tmp_path) for name in ("GOPATH", "GOCACHE"))
    assert told["GOFLAGS"] == "-buildvcs=false -modcacherw"  # else it could not be deleted


# -- packages


def test_only_what_dpkg_calls_installed_counts() -> None:
    answer = (
        "mininet installed\niperf3 config-files\nlibc6-dev installed\nlibc6-dev not-installed\n"
    )
    lacking = setup.not_installed(["mininet", "iperf3", "libc6-dev", "flex"], answer)
    assert lacking == ["iperf3", "flex"]


def step_called(name: str, chosen: list[SetupStep]) -> SetupStep:
    return next(step for step in chosen if step.name == name)


@pytest.mark.parametrize("asked", [False, True])
def test_what_the_bench_counts_with_is_installed_where_it_is_asked_for(
    bench: InstallContext, monkeypatch: pytest.MonkeyPatch, asked: bool
) -> None:
    asked_for: list[str] = []
    monkeypatch.setattr(os, "geteuid", lambda: 0)  # who may install
    monkeypatch.setattr(setup, "install_packages", lambda _bench, wanted: asked_for.extend(wanted))

    step_called("packages", setup.setup_steps(extra=["bench"] if asked else [])).does(bench)

    assert {"linux-perf", "util-linux"}.issubset(asked_for) is asked
    assert set(setup.TOOL_PACKAGES) <= set(asked_for)


def test_nothing_is_run_when_every_package_is_there(
    bench: InstallContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(setup, "missing_packages", lambda _wanted: [])
    monkeypatch.setattr(setup, "_apt_get", lambda *_: pytest.fail("apt-get was run"))
    monkeypatch.setattr(shutil, "which", lambda name, **_: f"/usr/bin/{name}")
    assert "installed" in setup.install_packages(bench, ["mininet"])


# -- what an experiment needs, and no more


@pytest.mark.parametrize(
    ("user", "names", "first"),
    [
        (0, "tools packages python iproute2 gost relay root kernel_5.10", "packages"),
        # who cannot install
        (12345, "tools python gost relay root kernel_5.10", "tools"),
    ],
)
def test_the_thesis_needs_its_kernel_its_iperf3_and_a_gost_and_no_more(
    user: int, names: str, first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    wanted = setup.needs_of("thesis-tunnel", folders.cache_folder(), quick=True)
    steps = setup.setup_steps(wanted)

    assert wanted == RunRequirements(
        kernels=("5.10",), iperf3s=("3.9",), gosts=("auto",), root=True
    )
    assert [step.name.replace(" ", "_") for step in steps] == names.split()
    assert step_called("relay", steps).needs == (first,)


def test_a_users_own_program_needs_a_new_iproute2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It runs on the user's own files, whose tc may not know netem's seed."""
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    file = tmp_path / "mine.yaml"
    mine = "{kind: command, server: sleep 1, client: sleep 1}"
    settings = f"{{profile: plain-100ms, rate: 10mbit, duration: 2s, flows: {{mine: {mine}}}}}"
    file.write_text(f"name: mine\ntitle: mine\nsettings: {settings}\nmatrices: [{{name: one}}]\n")
    wanted = requirements.requirements_of(expand(load_experiment(str(file))))

    assert wanted.iproute2 and not wanted.root
    assert "iproute2" in [step.name for step in setup.setup_steps(replace(wanted, root=True))]
    for_tests = {"iproute2", "tunnels", "iperf3"}
    assert not for_tests & {step.name for step in setup.setup_steps()}
    everything = for_tests | {"relay", "gost", "test-tools", "kernel"}
    assert everything <= {step.name for step in setup.setup_steps(extra=["test"])}


def test_a_question_of_the_defaults_needs_no_relay() -> None:
    names = [
        step.name
        for step in setup.setup_steps(setup.needs_of("try", folders.cache_folder(), quick=False))
    ]

    assert "kernel" in names and not {"relay", "gost", "tunnels"} & set(names)


@pytest.mark.parametrize("words", ["report x", "try --help"])
def test_without_its_environment_a_verb_that_makes_no_run_says_what_to_do(
    words: str, tmp_path: Path
) -> None:
    nothing = {"GOSTLAB_CACHE": str(tmp_path / "none"), "GOSTLAB_SYSTEM": ""}
    done = said_by("./lab", *words.split(), env={**os.environ, **nothing})
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "./lab setup" in done.stderr


# -- side by side


def quiet(total: int) -> InstallProgress:
    return InstallProgress(total, quiet=True)


def test_a_step_begins_when_those_it_waits_for_are_done(bench: InstallContext) -> None:
    marks = bench.cache / "marks"

    def mark(name: str) -> Callable[[InstallContext], str]:
        def does(own: InstallContext) -> str:
            with marks.open("a", encoding="utf-8") as file:
                file.write(f"{name}\n")
            return own.step

        return does

    last = SetupStep("last", mark("last"), after=("first", "not taken"))
    chosen = [last, SetupStep("first", mark("first"))]
    assert run_steps(chosen, quiet(2), bench) == {}
    assert marks.read_text().split() == ["first", "last"]


def test_steps_that_wait_for_nothing_are_under_way_at_once(bench: InstallContext) -> None:
    def meet(own: str, other: str) -> Callable[[InstallContext], str]:
        def does(bench: InstallContext) -> str:
            (bench.cache / own).touch()
            patience = time.monotonic() + 60
            while not (bench.cache / other).exists():
                assert time.monotonic() < patience
                time.sleep(0.01)
            return "met"

        return does

    chosen = [SetupStep("one", meet("one", "other")), SetupStep("other", meet("other", "one"))]
    assert run_steps(chosen, quiet(2), bench) == {}


def test_what_fails_stops_what_needs_it_and_nothing_else(
    bench: InstallContext, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(_bench: InstallContext) -> str:
        raise SetupError("the mirror is gone")

    def fine(_bench: InstallContext) -> str:
        return "fine"

    chosen = [
        SetupStep("packages", broken),
        SetupStep("relay", fine, after=("packages",), needs=("packages",)),
        SetupStep("gost", fine),
        SetupStep("kernel", fine, after=("packages",)),
    ]
    assert list(run_steps(chosen, quiet(4), bench)) == ["packages", "relay"]
    said = capsys.readouterr().out
    assert "packages: the mirror is gone" in said and "without packages" in said


def wait_for_end(pid: int) -> None:
    """Until a process is gone, or is only waited for by another."""
    process = Path("/proc", str(pid), "stat")
    deadline = time.monotonic() + 10
    with suppress(FileNotFoundError, ProcessLookupError):
        while process.read_text().split()[2] != "Z":
            assert time.monotonic() < deadline, "the program runs on"
            time.sleep(0.01)


@pytest.mark.parametrize("step_ends_it", [True, False])
def test_an_interrupted_set_up_ends_the_program_of_a_step(
    bench: InstallContext, step_ends_it: bool
) -> None:
    pid = bench.cache / "pid"

    def long(bench: InstallContext) -> str:
        bench.say("begun")
        program = ["sh", "-c", f"echo $$ >{pid}; exec sleep 600"]
        if step_ends_it:
            subprocess.run(program, check=True)
        else:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            subprocess.Popen(program).wait()
        return "never"

    class Interrupted(InstallProgress):
        def say(self, name: str, text: str) -> None:
            while not pid.exists() or not pid.read_text():
                time.sleep(0.01)
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, setup._exit_on_signal)
    try:
        with pytest.raises(KeyboardInterrupt):
            run_steps([SetupStep("long", long)], Interrupted(1, quiet=True), bench)
    finally:
        signal.signal(signal.SIGTERM, before)
    wait_for_end(int(pid.read_text()))


# -- downloads


def offer_gost(monkeypatch: pytest.MonkeyPatch, url: str, sha256: str) -> None:
    monkeypatch.setattr(gost_versions, "URL", url)
    monkeypatch.setattr(gost_versions, "OFFICIAL_SHA256", {(setup.GOST_VERSION, "amd64"): sha256})
    monkeypatch.setattr(gost_versions.platform, "machine", lambda: "x86_64")
    monkeypatch.setenv("PATH", "/usr/bin:/bin")


def test_gost_is_fetched_once(
    bench: InstallContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tarball = packed_gost("tar.gz", tmp_path)
    offer_gost(monkeypatch, tarball.as_uri(), locate.file_sha256(tarball))
    assert setup.provide_gost(bench).endswith("fetched")
    tarball.unlink()
    assert setup.provide_gost(bench).startswith("gost 3.2.6")
    assert locate.tunnel_binary(locate.find_parts()).program == "gost"


def test_another_file_than_the_pinned_one_is_deleted(
    bench: InstallContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer_gost(monkeypatch, packed_gost("tar.gz", tmp_path).as_uri(), "0" * 64)
    with pytest.raises(HashMismatch, match="not the file that was pinned"):
        setup.provide_gost(bench)
    assert not list((bench.cache / "build").iterdir())
    assert locate.find_parts().gost is None


def test_an_unreachable_release_page_is_said_and_not_asked_again_for_an_hour(
    bench: InstallContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer_gost(monkeypatch, (tmp_path / "nothing").as_uri(), "0" * 64)
    said = setup.provide_gost(bench)
    assert "release page cannot be reached" in said and "the lab's own relay is used" in said
    monkeypatch.setattr(gost_versions, "fetch_file", lambda *_: pytest.fail("asked again"))
    assert "tried within the hour" in setup.provide_gost(bench)
    record = bench.cache / "gost" / "unreachable.json"
    assert setup.failed_lately(record, time.time())
    assert not setup.failed_lately(record, time.time() + 3601)


def test_a_server_that_never_answers_costs_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build_env, "CONNECT_TIMEOUT_S", 0.1)
    end_of_test, answered = threading.Event(), threading.Event()

    def silent(*_args: object, **_keywords: object) -> None:
        end_of_test.wait(60)
        answered.set()

    monkeypatch.setattr("urllib.request.urlopen", silent)
    with pytest.raises(OSError, match="no answer"):
        build_env.fetch_file("https://release.example/", tmp_path / "file", "0" * 64)
    assert not answered.is_set()  # it was not waited for
    end_of_test.set()
    assert not list(tmp_path.iterdir())


# -- the kernel

FITS = """#!/bin/sh
set -e
[ ! -e "$1/broken" ]
echo "  CC      init/main.o"
cat >"$2" <<'END'
#!/bin/sh
case $1 in
    --version) echo 7.3.4 ;;
    --showconfig) echo CONFIG_HZ=250 ;;
    *) echo gostlab boots ;;
esac
END
chmod +x "$2"
echo headers >"$(dirname "$2")/headers.tar.xz"
"""


@pytest.fixture
def sources(bench: InstallContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository whose build.sh builds a pretended kernel at once, and a tarball to fetch as its
    source.
    """
    root = tmp_path / "repository"
    (root / "kernel").mkdir(parents=True)
    script(root / "kernel/build.sh", FITS)
    tree = tmp_path / "linux-7.3"
    tree.mkdir()
    (tree / "Makefile").touch()
    tarball = tmp_path / "linux-7.3.tar.xz"
    subprocess.run(["tar", "-C", tmp_path, "-cJf", tarball, "linux-7.3"], check=True)
    (root / "kernel" / "kernel-org.lock").write_text(
        f"version=7.3\nurl={tarball.as_uri()}\nsha256={locate.file_sha256(tarball)}\n",
        encoding="utf-8",
    )
    for module in (folders, locate):
        monkeypatch.setattr(module, "ROOT", root)
    monkeypatch.setattr(locate, "kernel_inputs_hash", lambda: "0123456789ab")
    monkeypatch.setattr(apt, "find_mirror", lambda: None)
    monkeypatch.setattr(kernel_build.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(kernel_build, "BUILD_BYTES", 1000)
    return root


def test_a_kernel_is_built_once_and_its_source_deleted(
    bench: InstallContext, sources: Path
) -> None:
    assert "7.3.4 built from linux 7.3 from kernel.org" in kernel_build.provide_kernel(bench)
    kernel = bench.cache / "kernel" / "7.3.4-0123456789ab" / "linux"
    assert kernel.with_name(locate.HEADERS).read_text() == "headers\n"
    record = locate.kernel_record(kernel)
    known = {"version": "7.3.4", "hz": 250, "inputs_hash": "0123456789ab"}
    assert record.items() >= {**known, "sha256": locate.file_sha256(kernel)}.items()
    assert not list((bench.cache / "build").iterdir())
    (sources / "kernel" / "build.sh").unlink()
    assert kernel_build.provide_kernel(bench) == "7.3.4 (built before)"


@pytest.mark.parametrize(
    ("left", "has_record", "said"),
    [
        ("half", False, "built from linux 7.3 from kernel.org"),  # cut off while unpacking
        ("whole", True, "built from left over"),
        ("broken", True, "built from linux 7.3 from kernel.org"),
    ],
)
def test_a_build_that_was_cut_off_goes_on_in_its_tree_where_that_is_whole(
    bench: InstallContext, sources: Path, left: str, has_record: bool, said: str
) -> None:
    folder = bench.cache / "build" / "kernel-0123456789ab"
    (folder / "source").mkdir(parents=True)
    (folder / "source" / left).touch()
    if has_record:
        atomic_write.write_json(
            folder / "source.json", {"origin": "left over", "sha256": "ab" * 32}
        )
    assert said in kernel_build.provide_kernel(bench)
    assert not folder.exists()


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("build.sh", "#!/bin/sh\necho 'kernel: 1.patch does not apply'\nexit 3\n", "not apply"),
        ("kernel-org.lock", "# none\n", "kernel/kernel-org.lock pins no tarball"),
    ],
)
def test_where_no_source_is_to_be_had_or_fits_it_says_so(
    bench: InstallContext, sources: Path, file: str, text: str, said: str
) -> None:
    (sources / "kernel" / file).write_text(text, encoding="utf-8")
    with pytest.raises(SetupError, match=said):
        kernel_build.provide_kernel(bench)


def test_a_full_disk_is_said_before_the_download(
    bench: InstallContext, sources: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10, 9, 1))
    with pytest.raises(SetupError, match="make room, or set GOSTLAB_CACHE"):
        kernel_build.provide_kernel(bench)


def test_the_repositorys_pins_are_whole() -> None:
    pin = locate.parse_pins(
        (folders.ROOT / "kernel" / "kernel-org.lock").read_text(encoding="utf-8")
    )
    if pin:  # of the series that the patches are tested on
        newest = max(each.version for each in kernels.declared_kernels().values())
        assert locate.version_tuple(pin["version"])[:2] == newest
        assert pin["url"].endswith(f"linux-{pin['version']}.tar.xz")
        assert re.fullmatch(r"[0-9a-f]{64}", pin["sha256"])
    go = locate.parse_pins((folders.ROOT / "tunnel" / "toolchain").read_text(encoding="utf-8"))
    assert locate.version_tuple(go["version"].removeprefix("go")) >= relay_build.OLDEST_THAT_REPEATS
    assert all(go[machine].startswith("h1:") for machine in ("amd64", "arm64"))


# -- the whole


def run_setup(cache: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return said_by(
        *(sys.executable, "-m", "gostlab.install", *arguments),
        env={**os.environ, "GOSTLAB_CACHE": str(cache), **environment},
    )


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        ("--for no-such --only gost", 1, "no-such"),
        ("--only gost", 1, "Not a directory"),  # a cache folder that cannot be made
        ("--only nothing", 2, "nothing"),
        ("--jobs 0", 2, "--jobs must be at least 1"),
    ],
)
def test_what_cannot_be_set_up_is_a_sentence(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: str,
    code: int,
    says: str,
) -> None:
    # This Python reads the experiment's file.
    monkeypatch.setattr(folders, "IS_PACKAGE", True)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    (tmp_path / "file").touch()
    cache = tmp_path / ("file/cache" if says == "Not a directory" else "cache")
    monkeypatch.setenv("GOSTLAB_CACHE", str(cache))
    try:
        status: object = setup.main(words.split())
    except SystemExit as end:
        status = end.code
    *usage, said = capsys.readouterr().err.splitlines()
    assert (status, bool(usage)) == (code, code == 2)
    assert says in said and not (tmp_path / "cache").exists()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("go") is None and not Path("/usr/bin/go").exists(), reason="no go")
def test_without_the_pinned_go_the_machines_own_builds_the_relay_once_and_says_so(
    tmp_path: Path,
) -> None:
    go = shutil.which("go") or "/usr/bin/go"
    if said_by(go, "mod", "download", cwd=folders.ROOT / "tunnel").returncode:
        pytest.skip("no Go module proxy")
    first = run_setup(tmp_path, "--only", "relay", GOPROXY="off")
    assert first.returncode == 0, first.stdout
    assert re.search(r"not by go1\.\S+ \(.*disabled by GOPROXY=off", first.stdout)
    second = run_setup(tmp_path, "--only", "relay", GOPROXY="off")
    assert "built before" in second.stdout
    relay = next((tmp_path / "relay").glob("*/relay"))
    assert locate.read_output([relay, "-V"]).startswith("relay ")


def test_two_set_ups_do_not_collide(tmp_path: Path) -> None:
    with open(tmp_path / "setup.lock", "w", encoding="utf-8") as lock:
        lock.write("4711")
        lock.flush()
        fcntl.flock(lock, fcntl.LOCK_EX)
        second = subprocess.Popen(
            [sys.executable, "-m", "gostlab.install", "--only", "packages", "--quiet"],
            cwd=folders.ROOT,
            env={**os.environ, "GOSTLAB_CACHE": str(tmp_path), "PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert second.stdout is not None
        assert "another set-up is at work (process 4711)" in second.stdout.readline()
        assert second.poll() is None
        second.terminate()
    second.communicate(timeout=10)
    assert second.returncode == 128 + signal.SIGTERM


# -- doctor, and the files that only call the set-up
# ------------------------------------------------------


@pytest.mark.slow
def test_doctor_says_what_is_missing_and_exits_with_1(tmp_path: Path) -> None:
    environment = {**os.environ, "GOSTLAB_CACHE": str(tmp_path / "none"), "GOSTLAB_KERNEL": ""}
    done = said_by(sys.executable, "-m", "gostlab.cli.doctor", env=environment)
    assert done.returncode == 1
    assert re.search(r"sandbox kernel +missing .*\n +→ run \./lab setup", done.stdout)
    assert done.stdout.splitlines()[-1].startswith("missing: ")
    assert not (tmp_path / "none").exists()


def provision_script() -> str:
    """What the Vagrantfile runs in the machine."""
    text = (folders.ROOT / "Vagrantfile").read_text(encoding="utf-8")
    found = re.search(r"inline: <<~SHELL\n(.*?)\n  SHELL\n", text, re.DOTALL)
    assert found is not None
    return found[1]


def test_vagrants_provisioner_is_the_set_up() -> None:
    lines = [line.strip() for line in provision_script().splitlines()]
    assert lines == ["set -eu", "cd /vagrant", "sudo ./lab setup --system", "./lab doctor"]
    assert "privileged: false" in (folders.ROOT / "Vagrantfile").read_text(encoding="utf-8")


def test_a_vagrant_machine_gets_every_file_of_the_checkout() -> None:
    """rsync leaves out what an unanchored pattern names at any depth: a package as well."""
    text = (folders.ROOT / "Vagrantfile").read_text(encoding="utf-8")
    listed = re.search(r"rsync__exclude: \[(.*)\]", text)
    assert listed is not None
    ours = said_by("git", "-c", f"safe.directory={folders.ROOT}", "ls-files", check=True).stdout
    paths = [f"/{path}" for path in ours.splitlines()]
    for pattern in re.findall(r'"(.*?)"', listed[1]):
        if pattern.startswith("/"):
            assert not [path for path in paths if path.startswith(pattern)]
        else:
            assert not [path for path in paths if f"/{pattern}" in path]


@pytest.mark.slow
@pytest.mark.sandbox
def test_vagrants_provisioner_works_where_the_lab_is_set_up() -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root")
    script = provision_script().replace("/vagrant", str(folders.ROOT))
    script = script.replace("sudo ./lab setup --system", "./lab setup")  # not for all users here
    done = said_by("sh", "-c", script, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "everything that the lab needs is there"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("vagrant") is None, reason="no vagrant")
def test_vagrant_accepts_its_file(tmp_path: Path) -> None:
    own = {"VAGRANT_HOME": str(tmp_path), "VAGRANT_DOTFILE_PATH": str(tmp_path / "dot")}
    done = said_by("vagrant", "validate", env={**os.environ, **own})
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_python_is_brought_where_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stock Debian has no `python`, and the command is `sudo python topo.py`."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "python-is-python3" in setup.wanted_packages()
    (tmp_path / "python").touch(mode=0o755)
    assert "python-is-python3" not in setup.wanted_packages()


def test_vagrant_up_is_left_out_in_one_line_where_vagrant_is_not_installed(tmp_path: Path) -> None:
    file = folders.ROOT / "tests" / "install" / "vagrant_up.py"
    done = said_by(sys.executable, file, env={"PATH": str(tmp_path)})
    assert (done.returncode, done.stderr, done.stdout.count("\n")) == (0, "", 1)
    assert "skipped" in done.stdout and "vagrant-libvirt" in done.stdout


def test_ci_runs_the_readmes_test_command_first() -> None:
    run, phases = ((folders.ROOT / ".ci" / name).read_text("utf-8") for name in ("run", "phases"))
    assert '/.ci/phases "$@"' in run and "set -- root" in phases
    body = re.search(r"^phase_root\(\) \{\n(.*?)^\}", phases, re.MULTILINE | re.DOTALL)
    assert body is not None and body[1].split()[-2:] == ["make", "test"]
