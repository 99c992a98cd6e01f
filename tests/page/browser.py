"""A Chromium without a window, driven by its DevTools protocol over two pipes.

https://chromedevtools.github.io/devtools-protocol/ : messages are JSON, each ends with a zero byte.
"""

import base64
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = next(
    (found for name in ("chromium", "google-chrome") if (found := shutil.which(name))), ""
)
PATIENCE = 60.0
LEFT = ("Inspected target navigated or closed", "Cannot find default execution context")
WITH_BROWSER = pytest.mark.skipif(not CHROMIUM, reason="there is no Chromium on this machine")


class Navigated(Exception):
    """The page that was asked is left: another comes in its place."""


class Browser:
    """One tab. `complaints` are errors of its scripts, and what its policy forbade."""

    def __init__(self, into: int, out: int) -> None:
        self._into, self._out = into, out
        self._numbers = count(1)
        self._unread = b""
        self.complaints: list[str] = []
        self.asked: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    _session = ""

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """What the browser answers."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._into, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + PATIENCE
        while True:
            told = self._read(end)
            if told.get("id") == number:
                error = told.get("error")
                if error and error["message"] in LEFT:
                    raise Navigated(method)
                assert error is None, (method, error)
                result: dict[str, Any] = told["result"]
                return result
            self._heard(told.get("method", ""), told.get("params", {}))

    def _heard(self, method: str, params: dict[str, Any]) -> None:
        if method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(params["exceptionDetails"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.complaints.append(params["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.asked.append(params["request"]["url"])

    def _read(self, end: float) -> dict[str, Any]:
        while b"\0" not in self._unread:
            ready, _, _ = select.select([self._out], [], [], max(0.0, end - time.monotonic()))
            assert ready, "the browser says nothing"
            some = os.read(self._out, 1 << 20)
            assert some, "the browser has ended"
            self._unread += some
        line, _, self._unread = self._unread.partition(b"\0")
        told: dict[str, Any] = json.loads(line)
        return told

    # --- what tests do ----------------------------------------------------------------------------

    def open(self, url: str, width: int = 1280, height: int = 800, *, dark: bool = False) -> None:
        """Opens a page in a window of this size."""
        phone = width < 600
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=2 if phone else 1, mobile=phone,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Page.navigate", url=url)

    def run(self, script: str) -> Any:
        """The value of an expression; promises are awaited."""
        told = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in told, told["exceptionDetails"]
        return told["result"].get("value")

    def until(self, script: str, seconds: float = PATIENCE) -> Any:
        """Waits until an expression is true; what it is then."""
        end = time.monotonic() + seconds
        while True:
            found = None
            with suppress(Navigated):
                found = self.run(script)
            if found:
                return found
            assert time.monotonic() < end, (script, self.run("document.body?.innerText"))
            time.sleep(0.05)

    def picture(self, path: Path) -> None:
        """What is to be seen, as a PNG."""
        told = self.call("Page.captureScreenshot", format="png")
        path.write_bytes(base64.b64decode(told["data"]))


@contextmanager
def chromium(folder: Path) -> Iterator[Browser]:
    """A browser of its own, until the test ends."""
    words = [
        CHROMIUM, "--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu",
        "--no-first-run", "--disable-background-networking", "--disable-component-update",
        "--hide-scrollbars", f"--user-data-dir={folder}",
    ]  # fmt: skip
    their_in, into = os.pipe()
    out, their_out = os.pipe()
    with (folder.with_suffix(".log")).open("wb") as log:
        process = subprocess.Popen(
            ["/bin/bash", "-c", f'exec "$@" 3<&{their_in} 4>&{their_out}', "sh", *words],
            pass_fds=(their_in, their_out), stdout=log, stderr=log,
        )  # fmt: skip
    os.close(their_in)
    os.close(their_out)
    try:
        yield Browser(into, out)
    finally:
        os.close(into)  # it ends with its pipe
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)
        os.close(out)
