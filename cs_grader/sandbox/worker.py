"""The process inside the sandbox: it runs each probe against a submission in a forked process.

    server   imports torch and stays single-threaded; never runs a line of a submission
      host   forked for each problem: forbids operators, imports the submission's adapters
        run  forked for some items: answers their probes through a socket of its own

The grader says when it wants a new run: it asks an item that is wrong once more if others have run
in the same process before. A crash, an endless loop or a full memory ends one process. The server
watches it and says how it ended. It knows no answer: nothing here decides about right and wrong,
and whoever takes it over can send no more than wrong answers.

Started by sandbox.py as `python worker.py SETTINGS` with a socket as standard input.
"""

import contextlib
import importlib
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[2]))
if __name__ == "__main__":
    sys.path += json.loads(sys.argv[1])["packages"]

from cs_grader.sandbox import confine, wire
from cs_grader.sandbox.confine import Settings
from cs_grader.sandbox.host import (
    ENDED,
    Fence,
    Shared,
    last_words,
    prepare_to_fork,
    run_host,
    shown,
    use_huge_pages,
)
from cs_grader.sandbox.inputs import Inputs
from cs_grader.sandbox.ledger import Entry, Ledger
from cs_grader.sandbox.processes import (
    NOW,
    Watch,
    children,
    descendants,
    ending,
    is_ending,
    is_over,
)
from cs_grader.sandbox.workplace import Workplace

ONE_YEAR_S = 3e7
IMPORT_CPU_S = 20
SWEEP_S = 10
MOST_ABSENT = 12
# What PyTorch imports at the first gradient, and at the first optimizer or tensor on "meta", which
# would take up to a second in each run. And what most submissions import.
BEFOREHAND = (
    *("torch.fx.experimental.symbolic_shapes", "torch._dynamo"),
    *("einops", "jaxtyping", "regex", "scipy.special"),
)
# What torch.compile imports, which a submission may call while it is imported.
COMPILER = "torch._inductor.compile_fx"


class Host(NamedTuple):
    """A process that has imported the submission for one problem."""

    pid: int
    control: socket.socket
    fence: Fence


class Server:
    """Answers the grader's requests one after another."""

    def __init__(self, channel: socket.socket, settings: Settings, shared: Shared) -> None:
        self.channel = channel
        self.settings = settings
        self.shared = shared
        self.noted: list[Entry] = []
        """What was noted during import and has not been reported yet."""
        self.workplace = Workplace(settings.submission, settings.original, settings.scratch)
        self.host: Host | None = None
        self.run_channel: socket.socket | None = None
        """Leads to the process that runs probes, which the grader knows by the number `process`."""
        self.process = 0
        self.absent: list[dict[str, Any]] = []
        self.is_compiled = False
        """Whether the submission imports COMPILER, which each host would do anew."""
        self.failure: wire.Plain = None
        """What an import of the submission ended with, if it fails whatever the problem."""
        self.has_crashed_before = False
        """Whether an import has been tried a second time."""

    def serve(self) -> None:
        """Answer until the grader closes its end."""
        while (head := self.read()) is not None:
            request = wire.decode(head)
            payload = self.read()
            if payload is None:
                return
            if request["process"] != self.process:
                self.end_run()
            answer = self.start(fence_of(request)) or self.run(request, payload)
            if isinstance(answer, dict):
                answer = wire.encode(answer | {"absent": self.absent})
            wire.send(self.channel, answer, NOW() + ONE_YEAR_S)
            seen = self.seen(request["look_at"])
            wire.send(self.channel, wire.encode(seen), NOW() + ONE_YEAR_S)

    def seen(self, input_bytes: int) -> wire.Plain:
        """What the server saw since the last answer; files are named as their author knows them."""
        found = [*self.noted, *self.shared.ledger.take()]
        self.noted = []
        notes: list[wire.Plain] = []
        for kind, what, file, line in found:
            is_own = file.startswith(f"{self.settings.submission}/")
            place = [shown(file, self.settings), line] if is_own else ["", 0]
            notes.append([kind, what, *place])
        return {"notes": notes, "inputs": self.shared.inputs.look(input_bytes)}

    def read(self) -> bytes | None:
        """Wait for the grader."""
        return wire.receive(self.channel, NOW() + ONE_YEAR_S)

    # --- importing the submission ---

    def start(self, fence: Fence) -> wire.Plain:
        """Make sure that a problem has its host; return None, or how the import failed."""
        if self.failure is not None:
            return self.failure
        if self.host is not None and self.host.fence == fence:
            return None
        self.end_host()
        if self.is_compiled and COMPILER not in sys.modules:
            importlib.import_module(COMPILER)
            prepare_to_fork()
            use_huge_pages()
        while True:
            self.workplace.renew()
            outcome = self.import_in_host(fence)
            self.noted += self.shared.ledger.take()
            if outcome["ended"] == "imported":
                self.workplace.remember()
                return None
            self.end_host()
            if str(outcome.get("how")).startswith("crashed") and not self.has_crashed_before:
                self.has_crashed_before = True  # Perhaps the machine was at fault: once more.
                continue
            missing = outcome.pop("missing_package", None)
            known = [entry["package"] for entry in self.absent]
            if missing is None or missing["package"] in known or len(known) == MOST_ABSENT:
                if outcome.get("type") != "ForbiddenOperator":
                    self.failure = outcome
                return outcome
            self.absent.append(missing)

    def import_in_host(self, fence: Fence) -> dict[str, Any]:
        """Fork a host and wait until it has imported the submission, or has failed to."""
        control, theirs = socket.socketpair()
        pid = os.fork()
        if pid == 0:
            with last_words():
                control.close()
                self.channel.close()
                packages = [entry["package"] for entry in self.absent]
                run_host(theirs, self.settings, fence, packages, self.shared)
            os._exit(0)
        theirs.close()
        self.host = Host(pid, control, fence)
        watch = Watch(IMPORT_CPU_S, 5 * IMPORT_CPU_S, self.settings)
        how = watch.wait(control)
        if how is None:
            try:
                answer = wire.receive(control, NOW() + 5)
                if answer is not None:
                    outcome = wire.decode(answer)
                    if isinstance(outcome, dict) and outcome.get("ended") in ("imported", "raised"):
                        self.is_compiled |= bool(outcome.get("has_compiled"))
                        return outcome | {"during_import": True}
                how = self.end_host(IMPORT_CPU_S)
            except (wire.WireError, OSError) as error:
                how = str(error)
        return {"ended": "died", "how": how, "during_import": True}

    def end_host(self, cpu_s: float = 0.0) -> str:
        """End the host and all that it has started.

        Args:
            cpu_s: The CPU time that it had, if it has closed its end: then it is about to end.

        Returns:
            How it ended, if it did so by itself.
        """
        if self.run_channel is not None:
            self.run_channel.close()
            self.run_channel = None
        how = "closed its connection"
        if self.host is not None:
            for _ in range(40 if cpu_s else 0):
                pid, status = os.waitpid(self.host.pid, os.WNOHANG)
                if pid:
                    how = ending(status, cpu_s)
                    break
                time.sleep(0.05)
            else:
                with contextlib.suppress(OSError):
                    os.kill(self.host.pid, signal.SIGKILL)
                with contextlib.suppress(OSError):
                    os.wait4(self.host.pid, 0)
            self.host.control.close()
            self.host = None
        self.sweep()
        return how

    def sweep(self) -> None:
        """Kill whatever was left behind and is not the host, and wait until it is gone.

        A dead process counts against the limit of processes until its parent has waited for it, and
        this server is the parent of orphans. Otherwise what a fork bomb leaves would keep the next
        probe from starting.
        """
        me = os.getpid()
        spared = {self.host.pid} if self.host else set[int]()
        given_up_at = NOW() + SWEEP_S
        while NOW() < given_up_at:
            orphans = children(me) - spared
            left = {pid for pid in descendants(me) - spared if pid in orphans or not is_over(pid)}
            if not left:
                return
            for pid in left:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            for pid in orphans:
                with contextlib.suppress(OSError):
                    os.waitpid(pid, os.WNOHANG)
            time.sleep(0.001)

    # --- running a probe ---

    def run(self, request: Mapping[str, Any], payload: bytes) -> wire.Plain:
        """Let a run answer one probe; return its answer's frame, or how it ended."""
        if not request["module"]:
            return {"ended": "imported"}
        if self.run_channel is None:
            self.start_run(request["process"])
        channel, cpu_s = self.run_channel, request["cpu_s"]
        assert channel is not None
        watch = Watch(cpu_s, request["wall_s"], self.settings)
        with contextlib.suppress(OSError):
            wire.send(channel, payload, NOW() + request["wall_s"])
        how = watch.wait(channel)
        if how is None:
            try:
                answer = wire.receive(channel, NOW() + request["wall_s"], request["limit"])
            except (wire.WireError, OSError) as error:
                how = str(error)
            else:
                # A run that takes its host along has not ended well, whatever it could still send.
                if answer is None or (self.host and is_ending(self.host.pid)):
                    return {"ended": "died", "how": self.end_run(cpu_s)}
                return answer
        self.end_host()
        return {"ended": "died", "how": how}

    def start_run(self, process: int) -> None:
        """Let the host fork a process for probes."""
        assert self.host is not None
        self.run_channel, theirs = socket.socketpair()
        self.process = process
        with contextlib.suppress(OSError):
            socket.send_fds(self.host.control, [b"r"], [theirs.fileno()])
        theirs.close()

    def end_run(self, cpu_s: float = 0.0) -> str:
        """End the run, if there is one, and what it has left behind; say how it ended."""
        if self.run_channel is None:
            return ""
        self.run_channel.close()
        self.run_channel = None
        how = self.how_the_run_ended(cpu_s)
        self.sweep()
        if not self.workplace.clean():
            self.end_host()  # It was imported from files that have changed since.
        return how

    def how_the_run_ended(self, cpu_s: float) -> str:
        """Wait for the host's word on a process that ran probes."""
        assert self.host is not None
        self.host.control.settimeout(10.0)
        try:
            message = self.host.control.recv(ENDED.size)
        except TimeoutError:
            self.end_host()  # The run has closed its end but goes on all the same.
            return "left its answer unfinished"
        except OSError:
            message = b""
        if len(message) == ENDED.size:
            return ending(ENDED.unpack(message)[0], cpu_s)
        return self.end_host(cpu_s)


def fence_of(request: Mapping[str, Any]) -> Fence:
    """What a request's probe may call."""
    return Fence(request["problem"], tuple(request["excused"]))


def main() -> None:
    """Give up every right that is not needed, then serve."""
    settings = Settings(**json.loads(sys.argv[1]))
    channel = socket.socket(fileno=os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    confine.adopt_orphans()
    confine.take_away(settings)
    sys.path[1:1] = [settings.examination]
    import torch

    torch.set_num_threads(1)
    for file in sorted(Path(settings.examination, "probes").glob("*.py")):
        if "__main__" not in file.read_text(encoding="utf-8"):
            importlib.import_module(f"probes.{file.stem}")
    for name in BEFOREHAND:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    shared = Shared(Ledger(), Inputs())
    prepare_to_fork()
    use_huge_pages()
    with contextlib.suppress(ConnectionError):  # The grader asks no more.
        wire.send(channel, wire.encode({"ended": "ready"}), NOW() + 60)
        Server(channel, settings, shared).serve()


if __name__ == "__main__":
    main()
