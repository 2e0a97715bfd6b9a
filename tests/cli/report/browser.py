"""Headless Chromium over its DevTools pipe: enough to open a page, ask it things and take pictures."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

SECONDS = 120


def chromium() -> str | None:
    """Path of the browser, if there is one."""
    return next(
        (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
    )


class Browser:
    """One page in one browser; a context manager."""

    def __init__(self, width: int = 1280, height: int = 900, *, mobile: bool = False) -> None:
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        to_browser, self._out = os.pipe()
        self._in, from_browser = os.pipe()
        os.set_inheritable(to_browser, True)
        os.set_inheritable(from_browser, True)
        command = (
            f'exec 3<&{to_browser} 4>&{from_browser}; exec "$0" "$@"',
            str(chromium()),
            *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"),
            *("--no-first-run", "--disable-extensions", "--remote-debugging-pipe"),
            f"--user-data-dir={self._profile.name}",
            "about:blank",
        )
        self._process = subprocess.Popen(
            ["bash", "-c", *command],
            pass_fds=(to_browser, from_browser),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._buffer = b""
        self._id = 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)

    def __enter__(self) -> "Browser":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(timeout=SECONDS)
        os.close(self._in)
        os.close(self._out)
        self._profile.cleanup()

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Send one command and wait for its answer; events on the way are kept."""
        self._id += 1
        message: dict[str, Any] = {"id": self._id, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._out, data) :]
        end = time.monotonic() + SECONDS
        while True:
            found = self._message(end - time.monotonic())
            if found.get("id") == self._id:
                if "error" in found:
                    raise RuntimeError(f"{method}: {found['error']['message']}")
                return found["result"]
            self.events.append(found)

    def _message(self, seconds: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            if not select.select([self._in], [], [], max(0.0, seconds))[0]:
                raise TimeoutError("the browser does not answer")
            part = os.read(self._in, 1 << 20)
            if not part:
                raise RuntimeError("the browser is gone")
            self._buffer += part
        line, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(line)

    def run(self, code: str) -> Any:
        """Evaluate JavaScript; promises are waited for."""
        result = self.call("Runtime.evaluate", expression=code, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"]["exception"]["description"])
        return result["result"].get("value")

    def open(self, url: str) -> None:
        """Open a page and wait until it says that its charts are drawn."""
        self.call("Page.navigate", url=url)
        self.wait("document.documentElement?.dataset.ready === 'true'")

    def wait(self, condition: str) -> None:
        """Wait until a JavaScript condition holds."""
        end = time.monotonic() + SECONDS
        while not self.run(condition):
            if time.monotonic() > end:
                raise TimeoutError(f"never became true: {condition}")
            time.sleep(0.1)

    def complaints(self) -> list[str]:
        """Console errors and warnings, and exceptions, so far."""
        found = []
        for event in self.events:
            params = event.get("params", {})
            match event["method"]:
                case "Runtime.exceptionThrown":
                    found.append(params["exceptionDetails"].get("exception", {}).get("description", "exception"))
                case "Log.entryAdded" if params["entry"]["level"] in ("error", "warning"):
                    found.append(params["entry"]["text"])
                case "Runtime.consoleAPICalled" if params["type"] in ("error", "warning", "assert"):
                    found.append(str(params["args"]))
        return found

    def requests(self) -> list[str]:
        """Addresses asked for, the page itself and inline data left out."""
        asked = [e["params"]["request"]["url"] for e in self.events if e["method"] == "Network.requestWillBeSent"]
        return [url for url in asked if not url.startswith(("file:", "data:", "blob:", "about:"))]

    def picture(
        self, path: Path, *, whole: bool = False, clip: tuple[float, float, float, float] | None = None
    ) -> None:
        """Save a PNG of the view, of the whole page, or of `(x, y, width, height)`."""
        params: dict[str, Any] = {"format": "png", "captureBeyondViewport": whole or clip is not None}
        if whole:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            clip = (0, 0, size["width"], size["height"])
        if clip:
            x, y, width, height = clip
            params["clip"] = {"x": x, "y": y, "width": width, "height": height, "scale": 1}
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", **params)["data"]))
