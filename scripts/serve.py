"""Serve a trained model on this machine: the page of share.py, and the completions endpoint.

python scripts/serve.py runs/stories
curl -H 'Content-Type: application/json' -d '{"prompt": "Once"}' http://127.0.0.1:8000/v1/completions
"""

import socket
from pathlib import Path
from typing import Literal

import tyro
from cli import run
from process import keep_freed_memory

from cs_basics.run.folder import RunFolder, Which
from cs_basics.run.hardware import resolve_device

MAX_CONNECTIONS = 64
OWN_NAMES = ("127.0.0.1", "localhost")


def main(
    run_dir: tyro.conf.Positional[Path],
    port: int = 8000,
    host: str = "127.0.0.1",
    num_places: int = 8,
    max_seconds: float = 120.0,
    checkpoint: Which = "latest",
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto",
) -> None:
    """Serve a trained model on this machine: the page of share.py, and the completions endpoint.

    Args:
        run_dir: The run folder.
        port: Port; 0: any that is free.
        host: Address to listen at. Any but 127.0.0.1 lets other machines ask, without a password.
        num_places: Texts that grow at the same time, each with a cache; further ones wait.
        max_seconds: A text that is not finished this long after it was asked for is ended.
        checkpoint: latest, or best: the one with the lowest validation loss.
        device: Device; auto: CUDA if there is one, then MPS, then the CPU.
    """
    if num_places < 1 or not max_seconds > 0:
        raise ValueError(
            f"num_places={num_places} must be at least 1, max_seconds={max_seconds} above 0"
        )
    run_folder = RunFolder(run_dir)
    run_folder.read_config()
    keep_freed_memory()
    with listen(host, port) as listener:
        try:
            import uvicorn

            from cs_basics.interop.serve.app import Server, make_app
        except ModuleNotFoundError as error:
            raise ValueError(f"{error.name} is not installed: pip install -e '.[serve]'") from None
        app = make_app(
            run_folder,
            resolve_device(device),
            checkpoint,
            num_places=num_places,
            max_seconds=max_seconds,
            hosts=OWN_NAMES if host in OWN_NAMES else ("*",),
        )
        name, port = listener.getsockname()[:2]
        print(f"http://{name}:{port}  the page", flush=True)
        print(f"http://{name}:{port}/v1  the base URL of OpenAI's clients; Ctrl-C ends", flush=True)
        config = uvicorn.Config(
            app,
            log_level="warning",
            ws="none",
            lifespan="off",
            limit_concurrency=MAX_CONNECTIONS,
            timeout_graceful_shutdown=3,
        )
        Server(config).run(sockets=[listener])


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens, before anything is loaded.

    Raises:
        OSError: The port is in use, or the address is not of this machine.
        ValueError: There is no such port.
    """
    if not 0 <= port < 1 << 16:
        raise ValueError(f"--port {port}: ports go from 0 to 65535")
    try:
        return socket.create_server((host, port))
    except OSError as error:
        raise OSError(
            f"cannot listen at {host} port {port}: {error.strerror}; try --port"
        ) from None


if __name__ == "__main__":
    run(main)
