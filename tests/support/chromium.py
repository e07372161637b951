# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium, controlled through its debugging pipe: without a port, a driver or another package."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

_LIMIT_S = 60.0
_FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)


def _high(descriptor: int) -> int:
    """Return the same pipe under a number that does not collide with the browser's own descriptors."""
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 20)
    os.close(descriptor)
    return moved


class Chromium:
    """One browser with one page. It collects the page's log messages and network requests."""

    def __init__(self, folder: Path) -> None:
        # The browser reads commands from descriptor 3 and answers on 4; a shell puts them there.
        to_browser, self._write = (_high(one) for one in os.pipe())
        self._read, from_browser = (_high(one) for one in os.pipe())
        script = f'exec 3<&{to_browser} 4>&{from_browser} && exec "$@"'
        self._process = subprocess.Popen(
            [
                "/bin/bash",
                "-c",
                script,
                "bash",
                "/usr/bin/chromium",
                *_FLAGS,
                f"--user-data-dir={folder}",
                "about:blank",
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(to_browser, from_browser),
        )
        os.close(to_browser)
        os.close(from_browser)
        self._buffer = b""
        self._number = 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(one["targetId"] for one in targets if one["type"] == "page")
        self._session = self.call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._write)
        os.close(self._read)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command and return its answer; events that arrive meanwhile are stored."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + _LIMIT_S
        while True:
            found = self._next(until)
            if found.get("id") == self._number:
                assert "error" not in found, f"{method}: {found['error']}"
                answer: dict[str, Any] = found["result"]
                return answer
            self.events.append(found)

    def _next(self, until: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(0.0, until - time.monotonic()))
            assert ready, "the browser does not answer"
            part = os.read(self._read, 1 << 16)
            assert part, f"the browser ended with {self._process.wait()}"
            self._buffer += part
        line, _, self._buffer = self._buffer.partition(b"\0")
        found: dict[str, Any] = json.loads(line)
        return found

    def open(self, page: Path, *, width: int, dark: bool = False, script: bool = True) -> None:
        """Load a file, and wait until it is loaded."""
        self.events.clear()
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=features)
        self.call("Emulation.setScriptExecutionDisabled", value=not script)
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=width < 500
        )
        self.call("Page.navigate", url=page.as_uri())
        until = time.monotonic() + _LIMIT_S
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._next(until))

    def value(self, expression: str) -> Any:
        """Return the value of an expression in the page."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def key(self, name: str, code: int = 0) -> None:
        """Press a key."""
        for kind in ("keyDown", "keyUp"):
            text = {"text": {"Enter": "\r", " ": " "}[name]} if name in {"Enter", " "} and kind == "keyDown" else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=name, code=name, windowsVirtualKeyCode=code, **text)

    def screenshot(self, path: Path, *, whole: bool = True) -> None:
        """Save a picture of the whole page, or of its visible part."""
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))

    @property
    def complaints(self) -> list[str]:
        """Return errors and warnings of the console, and exceptions."""
        found = []
        for event in self.events:
            if event.get("method") == "Runtime.exceptionThrown":
                found.append(str(event["params"]["exceptionDetails"]))
            elif event.get("method") == "Log.entryAdded":
                found.append(event["params"]["entry"]["text"])
            elif event.get("method") == "Runtime.consoleAPICalled":
                found.append(str(event["params"]["args"]))
        return found

    @property
    def requests(self) -> list[str]:
        """Return the addresses that the page requested, including its own."""
        sent = (event for event in self.events if event.get("method") == "Network.requestWillBeSent")
        return [event["params"]["request"]["url"] for event in sent]
