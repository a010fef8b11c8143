"""A headless Chromium, driven over a pipe: no other package, no port."""

import contextlib
import fcntl
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

QUIET = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run")


class Tab:
    """One tab: it opens files, evaluates scripts and clicks; `events` has what the browser reported."""

    def __init__(self, to: int, back: int):
        self._to, self._back, self._rest, self._number = to, back, b"", 0
        self.events: list[dict[str, Any]] = []
        self._session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != self._number:
            self.events.append(answer)
        assert "error" not in answer, answer["error"]
        return answer["result"]

    def open(self, path: Path, fragment: str = "", width: int = 1400, height: int = 900) -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        self.call("Page.navigate", url="about:blank")
        self.events.clear()
        self.call("Page.navigate", url=f"file://{path}{fragment}")
        loaded = "new Promise((done) => document.readyState === 'complete' ? done() : addEventListener('load', done))"
        self.evaluate(f"{loaded}.then(() => 0)")

    def evaluate(self, script: str) -> Any:
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def click(self, element: str) -> None:
        """Click the middle of the part of an element that can be seen."""
        find = f"document.getElementById({json.dumps(element)})"
        x, y = self.evaluate(
            f"(() => {{ const e = {find}; e.scrollIntoView({{block: 'center', inline: 'nearest'}});"
            "const b = e.getBoundingClientRect(), c = e.closest('.code').getBoundingClientRect();"
            "return [Math.max(b.left, c.left) + 40, (b.top + b.bottom) / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def press(self, *keys: str) -> None:
        for key in keys:
            self.call("Input.dispatchKeyEvent", type="keyDown", key=key, code=key)
            self.call("Input.dispatchKeyEvent", type="keyUp", key=key, code=key)

    def reported(self, method: str) -> list[dict[str, Any]]:
        return [event["params"] for event in self.events if event.get("method") == method]

    def close(self) -> None:
        """End the browser."""
        self._session = None
        self.call("Browser.close")

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            read = os.read(self._back, 1 << 20)
            assert read, "the browser has ended"
            self._rest += read
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)


def check_silent(tab: Tab, path: Path) -> None:
    """Check that nothing was logged or thrown, and that nothing but the page itself was fetched."""
    tab.evaluate("0")
    assert tab.reported("Runtime.exceptionThrown") == []
    assert tab.reported("Log.entryAdded") == []
    assert tab.reported("Runtime.consoleAPICalled") == []
    asked = {request["request"]["url"].partition("#")[0] for request in tab.reported("Network.requestWillBeSent")}
    assert asked == {f"file://{path}"}


@contextlib.contextmanager
def browser(chromium: str, folder: Path) -> Iterator[Tab]:
    """Run Chromium, by its path, with its profile in a folder, and end it."""
    (read, to), (back, write) = os.pipe(), os.pipe()
    asks, answers = (fcntl.fcntl(handle, fcntl.F_DUPFD_CLOEXEC, 10) for handle in (read, write))
    command = [chromium, *QUIET, f"--user-data-dir={folder}", "--remote-debugging-pipe"]
    silent = [(os.POSIX_SPAWN_OPEN, handle, os.devnull, os.O_RDWR, 0) for handle in (1, 2)]
    pipes = [(os.POSIX_SPAWN_DUP2, asks, 3), (os.POSIX_SPAWN_DUP2, answers, 4)]
    process = os.posix_spawn(chromium, command, os.environ, file_actions=[*silent, *pipes])
    for handle in (read, write, asks, answers):
        os.close(handle)
    try:
        tab = Tab(to, back)
        yield tab
        tab.close()
    finally:
        os.close(to)
        os.close(back)
        os.kill(process, signal.SIGTERM)
        os.waitpid(process, 0)
