# SPDX-License-Identifier: MIT
"""Congestion controls from C files: compiled, loaded, told apart, and what becomes of a bad one."""

import gzip
import json
import os
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gostlab.errors import BadInput
from gostlab.install import kernel_modules
from gostlab.install.rootfs import find_root
from gostlab.registry import congestion_controls
from gostlab.sandbox import module_probe
from gostlab.sandbox.module_probe import probe_module
from tests.sandboxed import Done, Lab, describe, direction

pytestmark = pytest.mark.sandbox

TEMPLATE = congestion_controls.CONTROLS / "template.c"
LINUX_S = ('.name = "mycc"', '.name = "bbr"')
# What makes it take a third parameter, with which it crashes the kernel at a loss.
CRASHES = (
    ("static int alpha", "static int crash;\nmodule_param(crash, int, 0644);\n\nstatic int alpha"),
    (
        "my->losses++;",
        'my->losses++; WARN(crash == 2, "crash"); if (crash == 1) *(volatile int *)8 = 1;',
    ),
)
REFUSES = """#include <linux/module.h>
#include <linux/init.h>
static int __init f(void) { return -EINVAL; }
module_init(f);
MODULE_LICENSE("GPL");
"""


def empty_cache(folder: Path) -> Path:
    """A cache with the sandbox's root and nothing else."""
    root = find_root()
    assert root is not None
    (folder / "root").symlink_to(root.tree.parents[1])
    return folder


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of the user's own controls, and no other."""
    monkeypatch.setenv("GOSTLAB_CACHE", str(empty_cache(tmp_path)))
    return tmp_path


def add(lab: Lab, file: Path, name: str | None = None) -> kernel_modules.AddedModule:
    return kernel_modules.compile_and_probe(
        file, name, lab.kernel, partial(probe_module, lab.kernel), keep=True
    )


def template(folder: Path, *changes: tuple[str, str]) -> Path:
    """The template in a folder, with changes."""
    text = TEMPLATE.read_text(encoding="utf-8")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    file = folder / "my_cc.c"
    file.write_text(text, encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def mine(
    lab: Lab, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, kernel_modules.AddedModule]:
    """The template as `mine`, compiled once, in a folder of the user's own controls. It registers a
    name of Linux's, as a tree's own tcp_bbr.c does, and so is loaded under its own.
    """
    folder = empty_cache(tmp_path_factory.mktemp("mine"))
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("GOSTLAB_CACHE", str(folder))
        return folder, add(lab, template(folder, LINUX_S, *CRASHES), "mine")


@pytest.fixture
def added(
    mine: tuple[Path, kernel_modules.AddedModule], monkeypatch: pytest.MonkeyPatch
) -> kernel_modules.AddedModule:
    """`mine`, and no other control of the user's own."""
    folder, found = mine
    monkeypatch.setenv("GOSTLAB_CACHE", str(folder))
    return found


def states(done: Done) -> list[dict[str, Any]]:
    with gzip.open(done.folder / "cc_state.jsonl.gz", "rt") as file:
        return [json.loads(line) for line in file]


LOSSY = direction(rate_bps=10_000_000, delay_ms=10.0, buffer_pkts=30)


def test_a_control_of_ones_own_runs_with_its_parameters(
    lab: Lab, added: kernel_modules.AddedModule
) -> None:
    assert (added.control.registers, added.control.parameters) == (
        "bbr",
        ("crash", "alpha", "beta"),
    )

    done = lab.run(describe(LOSSY, cc="mine(alpha=3)", acks=True, duration_s=2.0))

    assert done.leg("wan")["cc"] == ["mine(alpha=3)"]
    [module] = done.json("env.json")["modules"].values()
    assert (
        module["arguments"].startswith("alpha=3 ")
        and module["source"] == added.control.source.read_text()
    )
    seen = states(done)
    assert (
        len(seen) > 500 and seen[-1]["losses"] > 0 and {"t_s", "flow", "cwnd_pkts"} <= set(seen[0])
    )


def test_an_error_is_the_compilers_at_the_files_own_line(lab: Lab, own: Path) -> None:
    file = template(own, ("my->losses++;", "my->losse++;"))
    line = next(n for n, text in enumerate(file.read_text().splitlines(), 1) if "losse++" in text)
    with pytest.raises(kernel_modules.CompileError) as caught:
        add(lab, file)
    assert f"{file}:{line}:" in str(caught.value) and "losse" in str(caught.value)
    assert not congestion_controls.own_controls()


def test_a_file_that_registers_a_name_of_linux_needs_another(lab: Lab, own: Path) -> None:
    with pytest.raises(BadInput, match="bbr: there is Linux's own of that name: choose another"):
        add(lab, template(own, LINUX_S))


def test_what_the_kernel_says_of_a_file_is_said_of_that_file(lab: Lab, own: Path) -> None:
    file = own / "refusing.c"
    file.write_text(REFUSES, encoding="utf-8")
    with pytest.raises(kernel_modules.CompileError) as caught:
        add(lab, file)
    assert str(caught.value).startswith(f"{file}: it compiles, but the kernel does not take it")


def test_a_control_that_crashes_the_kernel_fails_its_run_and_says_so(
    lab: Lab, added: kernel_modules.AddedModule
) -> None:
    guest, folder = lab.start(describe(LOSSY, cc="mine(crash=1)", duration_s=3.0))
    guest.wait()

    assert not (folder / "outcome.json").exists()
    assert guest.complaint and "died with mine(crash=1) in it: Kernel panic" in guest.complaint


def test_a_kernel_that_warns_of_a_fault_degrades_its_run(
    lab: Lab, added: kernel_modules.AddedModule
) -> None:
    done = lab.run(describe(LOSSY, cc="mine(crash=2)", duration_s=2.0))
    assert done.verdicts["kernel_warned"] == "degraded"
    assert "kernel_warned" not in lab.run(describe(LOSSY, cc="mine", duration_s=1.0)).verdicts


def test_a_parameter_that_the_kernel_refuses_fails_its_run(
    lab: Lab, added: kernel_modules.AddedModule
) -> None:
    done = lab.run(describe(LOSSY, cc="mine(alpha=x)", duration_s=1.0), ends="failed")
    assert "mine(alpha=x): the kernel did not take it" in done.outcome["error"]
    assert "invalid for parameter" in done.outcome["error"]


def test_a_run_with_a_module_repeats_bit_for_bit(lab: Lab) -> None:
    run = describe(direction(rate_bps=20_000_000, loss=0.005), cc="bbr3", acks=True, duration_s=2.0)
    one, other = lab.run(run), lab.run(run)
    assert one.unlike(other) == []
    assert states(one) == states(other)


HOSTILE = {
    "reads for ever": ('#include "/dev/zero"\n', "/dev/zero"),
    "reads this machine's secrets": ('asm(".incbin \\"/etc/shadow\\"");\n', "/etc/shadow"),
    "takes all memory": (
        "#define A(x) x x x x x x x x x x x x x x x x\n#define B(x) A(A(A(A(A(x)))))\n"
        'static const char text[] = B(B("0123456789abcdef"));\n',
        "memory",
    ),
    "never ends": (
        "#include <linux/module.h>\n#include <linux/init.h>\n"
        "static int __init f(void) { for (;;) cpu_relax(); return 0; }\n"
        'module_init(f);\nMODULE_LICENSE("GPL");\n',
        "does not end",
    ),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_file_is_held_to_its_folder_and_to_limits(
    lab: Lab, own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setattr(module_probe, "LIMIT_S", 0.4)  # of CPU time; the others do not come so far
    monkeypatch.setattr(
        kernel_modules, "LIMITS", (512 << 20, *kernel_modules.LIMITS[1:])
    )  # else it takes 2 GiB
    source, says = HOSTILE[what]
    file = tmp_path / "hostile.c"
    file.write_text(source)
    with pytest.raises(kernel_modules.CompileError, match=says):
        add(lab, file)
    assert not congestion_controls.own_controls()


def test_what_a_compiler_started_ends_with_its_limit_and_what_it_says_is_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_modules, "LIMIT_S", 1)
    script = "cd $0; sleep 300 & echo $! >child; yes error | head -c 9000000; wait"
    with pytest.raises(kernel_modules.CompileError, match="did not end within 1 s"):
        kernel_modules.run_step(
            ["sh", "-c", script, tmp_path], "mine.c", reads=tmp_path, writes=tmp_path
        )
    child = int((tmp_path / "child").read_text())
    for _ in range(500):  # until whoever has adopted it has seen it end
        if not is_running(child):
            break
        time.sleep(0.01)
    assert not is_running(child)

    monkeypatch.undo()
    script = "yes error | head -c 9000000; exit 1"
    with pytest.raises(kernel_modules.CompileError) as failed:
        kernel_modules.run_step(["sh", "-c", script], "mine.c", reads=tmp_path, writes=tmp_path)
    assert len(str(failed.value)) < 1000 and "lines more" in str(failed.value)


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return False
    return state.rpartition(")")[2].split()[0] != "Z" and os.path.exists(f"/proc/{pid}")


REFUSED_BY_NAME = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
loaded = libc.syscall(313, os.open("{file}", os.O_RDONLY), b"gostlab_as=bbr3:reno", 0)
print(os.strerror(ctypes.get_errno()) if loaded else "loaded")
print([name for name in os.listdir("/proc") if "gostlab" in name])
"""


def test_a_module_that_cannot_register_leaves_no_file(lab: Lab) -> None:
    """It would be one whose code is gone. Linux has a reno already."""
    module = kernel_modules.module_for("bbr3", lab.kernel)
    assert module is not None
    script = REFUSED_BY_NAME.format(file=module.file)
    done = lab.command(f"python3 -S -c '{script}'", keep=[module.file.parent])
    error, files = done.log.splitlines()[-3:-1]
    assert (error != "loaded", files) == (True, "[]")
