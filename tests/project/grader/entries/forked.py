"""Programs behind no wall at all, started within milliseconds: forks of a process that has torch.

To import torch takes more than a second, and thirty entries start a hundred programs. `Forked`
stands in for subprocess.Popen where a command is Python: a server that has imported what takes
long, and nothing of this project, forks and runs the program. Everything else is as it is in a new
process: module path, environment, folder, pipes, session.
"""

import contextlib
import json
import os
import runpy
import signal
import socket
import struct
import subprocess
import sys
import time
import traceback

LONG = (
    *("numpy", "regex", "torch", "torch._dynamo", "einops", "jaxtyping", "tyro"),
    *("matplotlib.pyplot", "matplotlib.backends.backend_agg"),
)


class Server:
    """Starts the server; a context manager."""

    def __init__(self, folder):
        self.address = str(folder / "socket")

    def __enter__(self):
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "MPLBACKEND": "Agg"}
        environment.pop("PYTHONPATH", None)
        command = [sys.executable, "-P", "-s", __file__, self.address]
        self.process = subprocess.Popen(command, env=environment, cwd="/")
        while not os.path.exists(self.address):  # noqa: PTH110
            assert self.process.poll() is None
            time.sleep(0.01)
        return self

    def __exit__(self, *error):
        self.process.kill()
        self.process.wait()

    def popen(self, command, **options):
        """Start a command like subprocess.Popen."""
        return Forked(self.address, command, **options)


class Forked:
    """What wall.py uses of subprocess.Popen."""

    def __init__(self, address, command, *, stdin, stdout, stderr, cwd, env, **_others):
        program = next(i for i, word in enumerate(command) if word.endswith(".py"))
        ours, theirs = {}, []
        for name, wanted in (("stdin", stdin), ("stdout", stdout), ("stderr", stderr)):
            if wanted == subprocess.PIPE:
                ends = os.pipe()
                mine, other = ends[::-1] if name == "stdin" else ends
                ours[name] = os.fdopen(mine, "wb" if name == "stdin" else "rb")
            elif wanted == subprocess.DEVNULL:
                other = os.open(os.devnull, os.O_RDWR)
            else:
                other = os.dup(wanted.fileno())
            theirs.append(other)
        self.stdin, self.stdout = ours.get("stdin"), ours.get("stdout")
        self.connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.connection.connect(address)
        order = {"argv": command[program:], "cwd": str(cwd), "env": env}
        socket.send_fds(self.connection, [json.dumps(order).encode()], theirs)
        for other in theirs:
            os.close(other)
        (self.pid,) = struct.unpack("i", self.connection.recv(4))
        self.returncode = None

    def poll(self):
        return self.wait(socket.MSG_DONTWAIT)

    def wait(self, flags=0):
        if self.returncode is None:
            with contextlib.suppress(BlockingIOError):
                (self.returncode,) = struct.unpack("i", self.connection.recv(4, flags))
                self.connection.close()
        return self.returncode


def serve(address):
    for name in LONG:
        __import__(name)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(f"{address}.tmp")
    listener.listen()
    os.rename(f"{address}.tmp", address)  # noqa: PTH104
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        connection, _ = listener.accept()
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            mind(connection)
            os._exit(0)
        connection.close()


def mind(connection):
    """Start one program, say its id, and say how it ended."""
    message, handles, _, _ = socket.recv_fds(connection, 1 << 20, 3)
    pid = os.fork()
    if pid == 0:
        connection.close()
        os._exit(become(json.loads(message), handles))
    for handle in handles:
        os.close(handle)
    connection.send(struct.pack("i", pid))
    _, status = os.waitpid(pid, 0)
    connection.send(struct.pack("i", os.waitstatus_to_exitcode(status)))


def become(order, handles):
    """Run a program as a new process would, and return its exit code."""
    os.setsid()
    for number, handle in enumerate(handles):
        os.dup2(handle, number)
        os.close(handle)
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["env"])
    sys.path[:0] = order["env"]["PYTHONPATH"].split(os.pathsep)
    sys.argv[:] = order["argv"]
    code = 0
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(bool(stop.code))
    except BaseException:
        traceback.print_exc()
        code = 1
    with contextlib.suppress(OSError):
        sys.stdout.flush()
    sys.stderr.flush()
    return code


if __name__ == "__main__":
    serve(sys.argv[1])
