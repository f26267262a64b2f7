"""A server in a thread of the tests, and what asks it."""

import contextlib
import http.client
import json
import socket
import threading

import pytest
from waiting import until

needed = "not installed: pip install -e '.[dev]'"
uvicorn = pytest.importorskip("uvicorn", reason=needed)
pytest.importorskip("starlette", reason=needed)

from cs_basics.interop.serve.app import Server, make_app  # noqa: E402


class Served:
    """A server of a run at a free port; a context manager."""

    def __init__(self, run, **limits):
        self.app = make_app(run, **limits)
        self.batch = self.app.state.batch
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        config = uvicorn.Config(
            self.app, log_level="error", ws="none", lifespan="off", timeout_graceful_shutdown=3
        )
        self.server = Server(config)
        self.thread = threading.Thread(target=self.server.run, args=([self.listener],))

    def __enter__(self):
        self.thread.start()
        until(lambda: self.server.started)
        return self

    def __exit__(self, *error):
        self.server.should_exit = True
        self.thread.join(20)
        self.listener.close()
        self.batch.executor.shutdown()

    @contextlib.contextmanager
    def asked(self, path, body=None, **headers):
        """Send a request and give its response, to be read as it comes."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
            headers = {"Content-Type": "application/json", **headers}
            connection.request("GET" if body is None else "POST", path, data, headers)
            with connection.getresponse() as response:
                yield response
        finally:
            connection.close()

    def ask(self, path, body=None, **headers):
        """Return the status and the JSON of a response."""
        with self.asked(path, body, **headers) as response:
            return response.status, json.loads(response.read())

    def events(self, path, body):
        """Yield what the events of a stream hold."""
        with self.asked(path, body) as response:
            assert response.headers["Content-Type"].startswith("text/event-stream")
            for line in response:
                if line.startswith(b"data: "):
                    data = line.removeprefix(b"data: ").decode()
                    yield data.strip() if data.startswith("[") else json.loads(data)

    def is_idle(self):
        return not self.batch.waiting and not any(self.batch.places)
