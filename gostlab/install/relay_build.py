"""The lab's own relay, built from tunnel/ by a Go of its own.

tunnel/toolchain pins that Go. It comes as a module through whichever module proxy the machine's Go
asks, must have the pinned sum, and is deleted once the relay is built. Where it cannot be had the
machine's Go builds the relay, and the set-up says what that costs.
"""

import json
import os
import platform
import shutil
import subprocess
import time
from pathlib import Path

from gostlab.install import locate
from gostlab.install.build_env import SetupError, Workbench, replacing, run_logged, write_json
from gostlab.registry import folders

GO_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
TOOLCHAIN = "golang.org/toolchain"
OLDEST_THAT_REPEATS = (1, 22)
RETRY_PINNED_AFTER_S = 3600.0


def provide_relay(bench: Workbench) -> str:
    """Build the lab's own relay, unless that has been done. Raises SetupError."""
    folder = bench.cache / "relay" / locate.relay_inputs_hash()
    shared = locate.find_relay(bench.cache)
    if shared is not None and shared.parent != folder and not _wants_pinned(shared.parent):
        return f"{locate.output_of([shared, '-V']).strip()} ({shared}, for all users)"
    said = locate.output_of([folder / "relay", "-V"]).strip()
    if said and not _wants_pinned(folder):
        return f"{said} (built before)"
    # Debian's, or another on PATH.
    installed = "/usr/bin/go" if os.access("/usr/bin/go", os.X_OK) else shutil.which("go")
    if installed is None:
        raise SetupError("there is no Go to build the relay with: install golang-go")
    pin = locate.read_pin((folders.ROOT / "tunnel" / "toolchain").read_text(encoding="utf-8"))
    scratch = bench.cache / "build" / "go"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    try:
        go, why_not = _pinned_go(bench, installed, pin, scratch)
        bench.say("building")
        # Which module proxy to ask is the environment's business.
        environment = {**go_environ(scratch), "CGO_ENABLED": "0", "GOTOOLCHAIN": "local"}
        if why_not is None:
            environment |= {"GOCACHE": str(scratch / "cache")}
            environment.pop("GOROOT", None)
        with replacing(folder) as finished:
            run_logged(
                [go, "build", "-trimpath", "-buildvcs=false", "-o", finished / "relay", "."],
                bench.log("relay-build"),
                cwd=folders.ROOT / "tunnel",
                environment=environment,
            )
            write_json(finished / "relay.json", {"pinned_go": why_not is None, "at": time.time()})
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    said = locate.output_of([folder / "relay", "-V"]).strip()
    if not said:
        shutil.rmtree(folder)
        raise SetupError("the relay was built but does not answer -V")
    return said if why_not is None else f"{said}, not by {pin['version']} ({why_not}){_cost(go)}"


def go_environ(scratch: Path) -> dict[str, str]:
    """The environment for a Go. Without a home folder, as in an image's build, it keeps its modules
    and its database of sums in a scratch folder; it would end otherwise.
    """
    if "HOME" in os.environ:
        return dict(os.environ)
    flags = f"{os.environ.get('GOFLAGS', '')} -modcacherw".strip()
    own = {"GOPATH": str(scratch / "path"), "GOCACHE": str(scratch / "cache"), "GOFLAGS": flags}
    return {**own, **os.environ, "GOFLAGS": flags}


def _cost(go: Path) -> str:
    """What it costs that a relay was built by another Go than the pinned one."""
    said = locate.output_of([go, "env", "GOVERSION"]).strip()
    if locate.version_tuple(said.removeprefix("go")) >= OLDEST_THAT_REPEATS:
        return ""
    return ": two runs of one seed through a tunnel will differ a little"


def _wants_pinned(folder: Path) -> bool:
    """Whether a relay was built by another Go, and not just now."""
    record = locate.read_json(folder / "relay.json") or {"pinned_go": False, "at": 0.0}
    return not record["pinned_go"] and time.time() - record["at"] > RETRY_PINNED_AFTER_S


def _pinned_go(
    bench: Workbench, installed: str, pin: dict[str, str], scratch: Path
) -> tuple[Path, str | None]:
    """The pinned Go, unpacked into a scratch folder; or the installed one, and why."""
    machine = GO_MACHINES.get(platform.machine(), "")
    if machine not in pin:
        return Path(installed), f"none is pinned for {platform.machine()}"
    module = f"{TOOLCHAIN}@v0.0.1-{pin['version']}.linux-{machine}"
    bench.say(f"fetching {pin['version']}, about 70 MB")
    done = subprocess.run(
        [installed, "mod", "download", "-json", module],
        cwd=scratch,  # outside of any module
        env={
            **go_environ(scratch),
            "GOMODCACHE": str(scratch / "modules"),
            "GOFLAGS": "-modcacherw",
            "GOTOOLCHAIN": "local",
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    try:
        got = json.loads(done.stdout)
    except ValueError:
        got = {"Error": done.stderr}
    if got.get("Error") or "Dir" not in got:
        lines = str(got.get("Error") or done.stderr).strip().splitlines()
        return Path(installed), lines[-1] if lines else "go mod download gave no reason"
    if got.get("Sum") != pin[machine]:
        raise SetupError(f"{module} is not the one that was pinned: its sum is {got.get('Sum')}")
    toolchain = Path(got["Dir"])
    for program in (*toolchain.glob("bin/*"), *toolchain.glob("pkg/tool/*/*")):
        program.chmod(0o755)  # a module's files are no programs
    return toolchain / "bin" / "go", None
