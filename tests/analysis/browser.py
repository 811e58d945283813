# SPDX-License-Identifier: MIT
"""Debian's Chromium without a window, driven by Selenium."""

from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.wait import WebDriverWait

PATIENCE_S = 240.0  # of one answer, on a machine that is busy
ALONE = """--headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run
 --disable-extensions --disable-background-networking"""
KEYS = {
    "Tab": Keys.TAB,
    "Enter": Keys.ENTER,
    "Space": Keys.SPACE,
    "Escape": Keys.ESCAPE,
    "ArrowRight": Keys.ARROW_RIGHT,
    "ArrowLeft": Keys.ARROW_LEFT,
}


class Browser(webdriver.Chrome):
    """One page of a Chromium with a profile of its own; it ends on leaving."""

    def __init__(self, chromium: str, chromedriver: str, profile: Path) -> None:
        options = webdriver.ChromeOptions()
        options.binary_location = chromium
        for word in (*ALONE.split(), f"--user-data-dir={profile}"):
            options.add_argument(word)
        options.ignore_local_proxy_environment_variables()  # the driver is on this machine
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        super().__init__(options=options, service=Service(chromedriver))
        self.set_script_timeout(PATIENCE_S)

    def complaints(self) -> list[dict[str, Any]]:
        """What the console and the policy have said since they were last asked."""
        said = self.get_log("browser")
        return [each for each in said if each["level"] in ("WARNING", "SEVERE")]

    def look(self, script: str) -> Any:
        """The value of an expression on the page. Raises WebDriverException."""
        return self.execute_script(f"return {script}")

    def until(self, script: str) -> None:
        """Wait until an expression is true. Raises TimeoutException."""
        wait = WebDriverWait(self, PATIENCE_S, poll_frequency=0.05)
        wait.until(lambda _: self.look(f"Boolean({script})"), f"never true: {script}")

    def open(self, address: str) -> None:
        """Go to a page and wait for its scripts."""
        self.get("about:blank")  # an address that differs in its # alone
        self.get(address)
        self.until("'ready' in document.documentElement.dataset")

    def press(self, key: str) -> None:
        """A key, down and up."""
        webdriver.ActionChains(self).send_keys(KEYS.get(key, key)).perform()

    def drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        """The mouse from one point of the view to another, its button down."""
        actions = webdriver.ActionChains(self)
        mouse = actions.w3c_actions.pointer_action
        mouse.move_to_location(*map(round, start)).pointer_down()
        mouse.move_to_location(*map(round, end)).pointer_up()
        actions.perform()

    def show_as(self, width: int, scheme: str) -> None:
        """The view's width in px, and whether its owner likes it dark or light."""
        view = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", view)
        likes = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        self.execute_cdp_cmd("Emulation.setEmulatedMedia", likes)

    def picture(self, path: Path) -> None:
        """A screenshot of what the view shows, as PNG."""
        path.parent.mkdir(parents=True, exist_ok=True)
        assert self.save_screenshot(str(path))
