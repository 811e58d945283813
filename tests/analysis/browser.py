"""Debian's Chromium without a window, driven by its DevTools protocol over two pipes: no library
beside Python's own.
"""

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
WHY_NOT = "no chromium here: ./lab setup --with test installs it"
PATIENCE_S = 240.0  # of one answer, on a machine that is busy
# Chromium reads from 3 and writes to 4.
WITH_PIPES = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(each), fcntl.F_DUPFD, 10) for each in sys.argv[1:3]]
for place, end in zip((3, 4), ends):
    os.dup2(end, place)
os.execv(sys.argv[3], sys.argv[3:])
"""
ALONE = """--headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run
 --disable-extensions --disable-background-networking --remote-debugging-pipe"""
KEYS = {
    "Tab": ("Tab", 9, ""),
    "Enter": ("Enter", 13, "\r"),
    "Space": ("Space", 32, " "),
    "Escape": ("Escape", 27, ""),
    "ArrowRight": ("ArrowRight", 39, ""),
    "ArrowLeft": ("ArrowLeft", 37, ""),
    "+": ("Equal", 187, "+"),
    "0": ("Digit0", 48, "0"),
}


class Browser:
    """One page of a Chromium that has been started."""

    def __init__(self, to: int, of: int) -> None:
        self._to, self._of = to, of
        self._rest = b""
        self._count = 0
        self._session = ""
        self.complaints: list[str] = []  # what the console and the policy said
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Log"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """A command's result. Raises RuntimeError for one that fails."""
        self._count += 1
        asked = {"id": self._count, "method": method, "params": parameters}
        if self._session:
            asked["sessionId"] = self._session
        os.write(self._to, json.dumps(asked).encode() + b"\0")
        while True:
            said = self._next()
            if said.get("id") == self._count:
                if "error" in said:
                    raise RuntimeError(f"{method}: {said['error']}")
                return dict(said["result"])
            self._hear(said)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            if not select.select([self._of], [], [], PATIENCE_S)[0]:
                raise RuntimeError("Chromium says nothing")
            read = os.read(self._of, 1 << 20)
            if not read:
                raise RuntimeError("Chromium has ended")
            self._rest += read
        one, _, self._rest = self._rest.partition(b"\0")
        return dict(json.loads(one))

    def _hear(self, said: dict[str, Any]) -> None:
        told = said.get("params", {})
        if said.get("method") == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(told["exceptionDetails"]))
        if said.get("method") == "Runtime.consoleAPICalled" and told["type"] in (
            "error",
            "warning",
            "assert",
        ):
            self.complaints.append(json.dumps(told["args"]))
        if said.get("method") == "Log.entryAdded" and told["entry"]["level"] in (
            "error",
            "warning",
        ):
            self.complaints.append(told["entry"]["text"])

    def look(self, script: str) -> Any:
        """The value of an expression on the page. Raises RuntimeError."""
        found = self.ask(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in found:
            raise RuntimeError(json.dumps(found["exceptionDetails"]))
        return found["result"].get("value")

    def until(self, script: str) -> None:
        """Wait until an expression is true. Raises RuntimeError."""
        end = time.monotonic() + PATIENCE_S
        while not self.look(f"Boolean({script})"):
            if time.monotonic() > end:
                raise RuntimeError(f"never true: {script}")
            time.sleep(0.05)

    def open(self, address: str) -> None:
        """Go to a page and wait for its scripts."""
        self.ask("Page.navigate", url="about:blank")  # an address that differs in its # alone
        self.until("location.href === 'about:blank'")
        self.ask("Page.navigate", url=address)
        self.until(
            "document.readyState === 'complete' && location.href !== 'about:blank'"
            " && 'ready' in document.documentElement.dataset"
        )

    def press(self, key: str) -> None:
        """A key, down and up."""
        code, number, text = KEYS[key]
        told = {
            "key": " " if key == "Space" else key,
            "code": code,
            "windowsVirtualKeyCode": number,
        }
        typed = {"text": text} if text else {}
        self.ask("Input.dispatchKeyEvent", type="keyDown", **told, **typed)
        self.ask("Input.dispatchKeyEvent", type="keyUp", **told)

    def drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        """The mouse from one point of the view to another, its button down."""
        left = {"button": "left", "clickCount": 1}
        self.ask("Input.dispatchMouseEvent", type="mouseMoved", x=start[0], y=start[1])
        self.ask("Input.dispatchMouseEvent", type="mousePressed", x=start[0], y=start[1], **left)
        for share in (0.3, 0.7, 1.0):
            x, y = (a + share * (b - a) for a, b in zip(start, end, strict=True))
            self.ask("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y, **left)
        self.ask("Input.dispatchMouseEvent", type="mouseReleased", x=end[0], y=end[1], **left)

    def show_as(self, width: int, scheme: str) -> None:
        """The view's width in px, and whether its owner likes it dark or light."""
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=900,
            deviceScaleFactor=1,
            mobile=False,
        )
        self.ask(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": scheme}],
        )

    def picture(self, path: Path) -> None:
        """A screenshot of what the view shows, as PNG."""
        shot = self.ask("Page.captureScreenshot", format="png")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(shot["data"]))


@contextmanager
def chromium(profile: Path) -> Iterator[Browser]:
    """A Chromium with a profile of its own; it ends on leaving."""
    assert CHROMIUM is not None
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    running = subprocess.Popen(
        [
            *(sys.executable, "-c", WITH_PIPES, str(theirs_in), str(theirs_out), CHROMIUM),
            *ALONE.split(),
            f"--user-data-dir={profile}",
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=(theirs_in, theirs_out),
        start_new_session=True,
    )
    os.close(theirs_in)
    os.close(theirs_out)
    try:
        yield Browser(ours_out, ours_in)
    finally:
        os.close(ours_out)
        os.close(ours_in)
        running.terminate()
        try:
            running.wait(20)
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait()
