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
from collections.abc import Callable, Iterator
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


class Chromium:
    """The program. Its first page starts it; a page that ended badly ends it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    @contextmanager
    def page(self) -> Iterator["Browser"]:
        """A page in a context of its own, which shares nothing with others."""
        if self._process is None:
            self._start()
        try:
            context = self.call("Target.createBrowserContext")["browserContextId"]
            yield Browser(self, context)
            self.call("Target.disposeBrowserContext", browserContextId=context)
        except BaseException:
            self.end()
            raise

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """What the browser answers."""
        return self.ask(method, params, "", lambda *_: None)

    def ask(
        self, method: str, params: Any, session: str, heard: Callable[[str, Any], None]
    ) -> dict[str, Any]:
        """What is answered in a session; what else that says meanwhile is heard."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
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
            if told.get("sessionId", "") == session:
                heard(told.get("method", ""), told.get("params", {}))

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

    def _start(self) -> None:
        words = [
            CHROMIUM, "--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu",
            "--no-first-run", "--disable-background-networking", "--disable-component-update",
            "--hide-scrollbars", f"--user-data-dir={self._folder}",
        ]  # fmt: skip
        self._numbers, self._unread = count(1), b""
        their_in, self._into = os.pipe()
        self._out, their_out = os.pipe()
        with (self._folder.with_suffix(".log")).open("ab") as log:
            self._process = subprocess.Popen(
                ["/bin/bash", "-c", f'exec "$@" 3<&{their_in} 4>&{their_out}', "sh", *words],
                pass_fds=(their_in, their_out), stdout=log, stderr=log,
            )  # fmt: skip
        os.close(their_in)
        os.close(their_out)

    def end(self) -> None:
        """Ends it, if it runs."""
        process, self._process = self._process, None
        if process is None:
            return
        os.close(self._into)  # it ends with its pipe
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)
        os.close(self._out)


class Browser:
    """One tab. `complaints` are errors of its scripts, and what its policy forbade."""

    def __init__(self, program: Chromium, context: str) -> None:
        self._program = program
        self.complaints: list[str] = []
        self.asked: list[str] = []
        where = {"url": "about:blank", "browserContextId": context}
        target = program.call("Target.createTarget", **where)["targetId"]
        attached = program.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """What the browser answers."""
        return self._program.ask(method, params, self._session, self._heard)

    def _heard(self, method: str, params: dict[str, Any]) -> None:
        if method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(params["exceptionDetails"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.complaints.append(params["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.asked.append(params["request"]["url"])

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
