"""A real browser, headless, driven over the WebDriver protocol (https://www.w3.org/TR/webdriver2/).

It needs no package: chromedriver answers plain HTTP.
"""

import http.client
import json
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from processes import until

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
DRAWN = "return [...document.querySelectorAll('.figure text')].map(t => getComputedStyle(t).fill)"


class Browser:
    """A session of headless Chromium; a context manager."""

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="browser-")
        self.log = Path(self.folder.name) / "chromedriver.log"
        command = ["chromedriver", "--port=0", f"--log-path={self.log}"]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        try:
            self.port = self._port()
            self.session = self._start()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *error):
        try:
            self.call("DELETE", "")
        finally:
            self._stop()

    def _stop(self):
        self.process.terminate()
        self.process.wait(20)
        self.process.stdout.close()
        self.folder.cleanup()

    def _port(self):
        for line in self.process.stdout:
            if "successfully on port" in line:
                return int(line.rpartition("port")[2].strip(" .\n"))
        raise OSError("chromedriver did not start")

    def _start(self):
        arguments = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
            f"--user-data-dir={self.folder.name}/profile",
        ]
        options = {"binary": shutil.which("chromium"), "args": arguments}
        wanted = {
            "browserName": "chrome",
            "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        }
        answer = self._ask("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        return answer["sessionId"]

    def _ask(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            text = None if body is None else json.dumps(body)
            connection.request(method, path, text, {"Content-Type": "application/json"})
            value = json.loads(connection.getresponse().read())["value"]
        finally:
            connection.close()
        if isinstance(value, dict) and "error" in value:
            raise AssertionError(f"{value['error']}: {value['message']}")
        return value

    def call(self, method, command, body=None):
        return self._ask(method, f"/session/{self.session}{command}", body)

    def open(self, path):
        self.call("POST", "/url", {"url": Path(path).as_uri()})

    def run(self, script, *arguments):
        return self.call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def find(self, selector):
        found = self.call("POST", "/element", {"using": "css selector", "value": selector})
        return found[ELEMENT]

    def click(self, selector):
        self.call("POST", f"/element/{self.find(selector)}/click", {})

    def type(self, selector, text):
        self.call("POST", f"/element/{self.find(selector)}/value", {"text": text})

    def choose(self, selector, text):
        """Choose an entry of a menu, as a keyboard does."""
        self.type(selector, text)

    def devtools(self, command, **parameters):
        return self.call("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def resize(self, width, height):
        self.devtools(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )

    def prefer(self, media="", **features):
        named = [{"name": f.replace("_", "-"), "value": v} for f, v in features.items()]
        self.devtools("Emulation.setEmulatedMedia", media=media, features=named)

    def log_entries(self, kind):
        return self.call("POST", "/se/log", {"type": kind})

    def sent(self):
        """Return the addresses of all that was loaded since this was asked for last."""
        entries = self.log_entries("performance")
        events = [json.loads(entry["message"])["message"] for entry in entries]
        sent = [event for event in events if event["method"] == "Network.requestWillBeSent"]
        addresses = [event["params"]["request"]["url"] for event in sent]
        # A browser that is slow to start still loads its own first tab.
        return [address for address in addresses if not address.startswith("chrome://")]

    def brightness(self):
        """Return the brightness of the page's ground, 0 to 765."""
        ground = self.run("return getComputedStyle(document.body).backgroundColor")
        return sum(map(int, re.findall(r"\d+", ground)))

    def wait(self, condition):
        """Wait until an expression of JavaScript, or a function, says so; return what it says."""
        return until(condition if callable(condition) else lambda: self.run(f"return {condition}"))

    def complaints(self, path):
        """Open a page on a phone, in the dark and on paper; say what is wrong there."""
        for kind in ("browser", "performance"):
            self.log_entries(kind)
        self.resize(390, 844)
        self.prefer()
        self.open(path)
        width = self.run("return document.documentElement.scrollWidth")
        grounds = []
        for media, scheme in (("screen", "light"), ("print", "dark"), ("screen", "dark")):
            self.prefer(media=media, prefers_color_scheme=scheme)
            grounds.append(self.brightness())
        light, paper, dark = grounds
        drawn = {*self.run(DRAWN)}
        self.prefer()
        said, loaded = self.log_entries("browser"), self.sent()
        is_right = {
            f"{width} pixels wide": width == 390,
            f"light {light}, paper {paper}, dark {dark}": dark < 150 < 600 < min(light, paper),
            f"figures in the dark have text of {drawn}": drawn <= {"rgb(229, 228, 224)"},
            f"loads {loaded}": loaded
            and all(url.startswith(("file://", "blob:", "data:")) for url in loaded),
            f"the browser says {said}": not said,
        }
        return [words for words, right in is_right.items() if not right]
