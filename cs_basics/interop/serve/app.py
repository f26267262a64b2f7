"""The application: routes, limits, errors, server-sent events.

Requests must be JSON and name this machine as their host. So no other page that is open in a
reader's browser can ask the model, by a form or under a host name of its own (DNS rebinding).
"""

import asyncio
import json
import logging
import socket
import time
from collections.abc import AsyncGenerator, Awaitable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from typing import Any

import torch
import uvicorn
from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from cs_basics.interop.page_data import float32_data
from cs_basics.interop.page_file import served_page
from cs_basics.interop.serve.batch import Batch
from cs_basics.interop.serve.completions import Completer, models
from cs_basics.interop.serve.glass import Glass
from cs_basics.interop.serve.requests import Completion, in_one_line
from cs_basics.run.folder import RunFolder, Which

logger = logging.getLogger(__name__)

MAX_BODY_BYTES = 1_000_000
MAX_BODY_SECONDS = 10


def make_app(
    run: RunFolder,
    device: torch.device | str = "cpu",
    which: Which = "latest",
    *,
    num_places: int = 8,
    max_seconds: float = 120.0,
    hosts: tuple[str, ...] = ("127.0.0.1", "localhost"),
) -> Starlette:
    """Return the application that serves the model of a run; `app.state.batch` is its Batch.

    Args:
        run: The run.
        device: Where the model computes.
        which: The checkpoint.
        num_places: Texts that grow at the same time.
        max_seconds: Longest time for one request.
        hosts: Host names that a request may use; "*" for any.

    Raises:
        OSError: A file is missing.
        TypeError: The model has parts that decoding.py does not know.
        ValueError: A file of the run is damaged.
    """
    model, tokenizer = run.load_model(device, which), run.load_tokenizer()
    page = served_page(run, model)
    batch = Batch(model, num_places, ThreadPoolExecutor(1, "model"), max_seconds)
    glass, name, started = Glass(model, batch), run.path.absolute().name, int(time.time())

    async def show_page(_: Request) -> Response:
        policy = {"Content-Security-Policy": "frame-ancestors 'none'"}
        return HTMLResponse(page, headers=policy | {"X-Content-Type-Options": "nosniff"})

    async def ask(request: Request) -> Response:
        return _events(glass.ask(request.path_params["name"], await _body(request)))

    async def complete(request: Request) -> Response:
        asked = Completion.model_validate_json(await _body(request))
        completer = Completer(asked, name, model, tokenizer, batch)
        if asked.stream:
            return _events(completer.chunks(), last="data: [DONE]\n\n")
        return JSONResponse(await _unless_gone(request, completer.whole()))

    async def list_models(_: Request) -> Response:
        return JSONResponse(models(name, started))

    app = Starlette(
        routes=[
            Route("/", show_page),
            Route("/glass/{name}", ask, methods=["POST"]),
            Route("/v1/completions", complete, methods=["POST"]),
            Route("/v1/models", list_models),
        ],
        middleware=[
            Middleware(TrustedHostMiddleware, allowed_hosts=list(hosts), www_redirect=False)
        ],
        exception_handlers=dict.fromkeys(
            (ValueError, HTTPException, TimeoutError, ClientDisconnect, Exception), _refuse
        ),
    )
    app.state.batch = batch
    return app


class Server(uvicorn.Server):
    """A server that ends all texts before it stops, so that no reader is cut off in mid-line."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop listening, end all texts, wait for what is still being sent."""
        app: Any = self.config.app
        app.state.batch.close()
        await super().shutdown(sockets)


async def _body(request: Request) -> bytes:
    """Read a request's JSON, within limits of size and time."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise HTTPException(415, "the request must have the Content-Type application/json")
    read = bytearray()
    async with asyncio.timeout(MAX_BODY_SECONDS):
        async for chunk in request.stream():
            read += chunk
            if len(read) > MAX_BODY_BYTES:
                raise HTTPException(413, f"the request has more than {MAX_BODY_BYTES:,} bytes")
    return bytes(read)


async def _unless_gone(request: Request, answer: Awaitable[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Wait for an answer, but stop when its reader disconnects."""
    work = asyncio.ensure_future(answer)
    gone = asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            raise ClientDisconnect
        return work.result()
    finally:
        for task in (work, gone):
            task.cancel()


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _events(answer: AsyncGenerator[dict[str, Any], None], last: str = "") -> Response:
    """Send the parts of an answer as server-sent events; an error becomes the last event."""

    async def events() -> AsyncGenerator[str, None]:
        try:
            async with aclosing(answer) as parts:
                async for part in parts:
                    yield f"data: {json.dumps(part, default=float32_data, allow_nan=False)}\n\n"
            yield last
        except Exception as error:  # the status is sent already
            content, status = _described(error)
            if status == 500:
                logger.exception("a request failed")
            yield f"data: {json.dumps(content)}\n\n"

    headers = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
    return StreamingResponse(events(), media_type="text/event-stream", headers=headers)


async def _refuse(_: Request, error: Exception) -> Response:
    content, status = _described(error)
    return JSONResponse(content, status)


def _described(error: Exception) -> tuple[dict[str, Any], int]:
    """Return an error in the format of OpenAI's API, and its HTTP status."""
    match error:
        case ValidationError():
            status, message = 400, in_one_line(error)
        case ValueError():
            status, message = 400, str(error)
        case HTTPException():
            status, message = error.status_code, error.detail
        case TimeoutError():
            status, message = 503, "the time limit of this server is reached"
        case _:
            status, message = 500, f"the model failed: {' '.join(str(error).split())[:200]}"
    kind = "invalid_request_error" if status < 500 else "server_error"
    return {"error": {"message": message, "type": kind, "param": None, "code": None}}, status
