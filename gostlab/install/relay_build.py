# SPDX-License-Identifier: MIT
"""Build the lab's own relay from tunnel/ with a Go of its own.

tunnel/toolchain pins that Go. It is fetched as a module through the module proxy of the machine's
Go, must have the pinned checksum, and is deleted after the build. If it is not available, the
machine's Go builds the relay, and the set-up reports the consequences.
"""

import json
import os
import platform
import shutil
import subprocess
import time
from pathlib import Path

from gostlab.atomic_write import write_json
from gostlab.install import locate
from gostlab.install.build_env import InstallContext, SetupError, replaced_folder, run_logged
from gostlab.registry import folders

GO_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
TOOLCHAIN = "golang.org/toolchain"
OLDEST_THAT_REPEATS = (1, 22)
RETRY_PINNED_AFTER_S = 3600.0


def provide_relay(bench: InstallContext) -> str:
    """Build the lab's own relay unless it exists. Raises SetupError."""
    folder = bench.cache / "relay" / locate.relay_inputs_hash()
    shared = locate.find_own_relay(bench.cache)
    if shared is not None and shared.parent != folder and not _wants_pinned(shared.parent):
        return f"{locate.read_output([shared, '-V']).strip()} ({shared}, for all users)"
    version = locate.read_output([folder / "relay", "-V"]).strip()
    if version and not _wants_pinned(folder):
        return f"{version} (built before)"
    # Debian's Go is preferred to another one on PATH.
    installed = "/usr/bin/go" if os.access("/usr/bin/go", os.X_OK) else shutil.which("go")
    if installed is None:
        raise SetupError("there is no Go to build the relay with: install golang-go")
    pin = locate.parse_pins((folders.ROOT / "tunnel" / "toolchain").read_text(encoding="utf-8"))
    scratch = bench.cache / "build" / "go"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    try:
        go, reason = _pinned_go(bench, installed, pin, scratch)
        bench.say("building")
        # The environment decides on the module proxy.
        environment = {**go_environ(scratch), "CGO_ENABLED": "0", "GOTOOLCHAIN": "local"}
        if reason is None:
            environment |= {"GOCACHE": str(scratch / "cache")}
            environment.pop("GOROOT", None)
        with replaced_folder(folder) as finished:
            run_logged(
                [go, "build", "-trimpath", "-buildvcs=false", "-o", finished / "relay", "."],
                bench.log("relay-build"),
                cwd=folders.ROOT / "tunnel",
                environment=environment,
            )
            write_json(finished / "relay.json", {"pinned_go": reason is None, "at": time.time()})
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    version = locate.read_output([folder / "relay", "-V"]).strip()
    if not version:
        shutil.rmtree(folder)
        raise SetupError("the relay was built but does not answer -V")
    return (
        version if reason is None else f"{version}, not by {pin['version']} ({reason}){_cost(go)}"
    )


def go_environ(scratch: Path) -> dict[str, str]:
    """Return the environment of a Go command.

    Without HOME, as in an image's build, Go would fail; its modules and its checksum database then
    are in a scratch folder.
    """
    if "HOME" in os.environ:
        return dict(os.environ)
    flags = f"{os.environ.get('GOFLAGS', '')} -modcacherw".strip()
    defaults = {
        "GOPATH": str(scratch / "path"),
        "GOCACHE": str(scratch / "cache"),
        "GOFLAGS": flags,
    }
    return {**defaults, **os.environ, "GOFLAGS": flags}


def _cost(go: Path) -> str:
    """Return the consequences of building the relay with another Go than the pinned one."""
    version = locate.read_output([go, "env", "GOVERSION"]).strip()
    if locate.version_tuple(version.removeprefix("go")) >= OLDEST_THAT_REPEATS:
        return ""
    return ": two runs of one seed through a tunnel will differ a little"


def _wants_pinned(folder: Path) -> bool:
    """Return whether a relay was built by another Go, and the pinned one should be retried."""
    record = locate.read_json(folder / "relay.json") or {"pinned_go": False, "at": 0.0}
    return not record["pinned_go"] and time.time() - record["at"] > RETRY_PINNED_AFTER_S


def _pinned_go(
    bench: InstallContext, installed: str, pin: dict[str, str], scratch: Path
) -> tuple[Path, str | None]:
    """Return the pinned Go, unpacked into a scratch folder; or the installed one, and why."""
    machine = GO_MACHINES.get(platform.machine(), "")
    if machine not in pin:
        return Path(installed), f"none is pinned for {platform.machine()}"
    module = f"{TOOLCHAIN}@v0.0.1-{pin['version']}.linux-{machine}"
    bench.say(f"fetching {pin['version']}, about 70 MB")
    process = subprocess.run(
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
        module_info = json.loads(process.stdout)
    except ValueError:
        module_info = {"Error": process.stderr}
    if module_info.get("Error") or "Dir" not in module_info:
        lines = str(module_info.get("Error") or process.stderr).strip().splitlines()
        return Path(installed), lines[-1] if lines else "go mod download gave no reason"
    if module_info.get("Sum") != pin[machine]:
        raise SetupError(
            f"{module} is not the one that was pinned: its sum is {module_info.get('Sum')}"
        )
    toolchain = Path(module_info["Dir"])
    for program in (*toolchain.glob("bin/*"), *toolchain.glob("pkg/tool/*/*")):
        program.chmod(0o755)  # files of a module are not executable
    return toolchain / "bin" / "go", None
