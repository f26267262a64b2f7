"""The process inside the sandbox: it runs each probe against a submission in a forked process.

    server   imports torch and stays single-threaded; never runs a line of a submission
      host   forked from it: forbids operators, imports the adapters, answers probes

The grader says when it wants a new host. A crash, an endless loop or a full memory ends one host.
The server watches it and says how it ended. It knows no answer: nothing here decides about right
and wrong, and whoever takes it over can send no more than wrong answers.

Started by sandbox.py as `python worker.py SETTINGS` with a socket as standard input.
"""

import contextlib
import gc
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

from cs_grader.sandbox import blocked, confine, wire
from cs_grader.sandbox.confine import Settings
from cs_grader.sandbox.host import (
    Restriction,
    Shared,
    last_words,
    run_host,
    shown,
    take_out_of_reach,
)
from cs_grader.sandbox.inputs import Inputs
from cs_grader.sandbox.ledger import Entry, Ledger
from cs_grader.sandbox.processes import (
    NOW,
    Watch,
    children,
    cpu_elsewhere,
    descendants,
    ending,
    is_over,
)
from cs_grader.sandbox.workplace import Workplace

ONE_YEAR_S = 3e7
IMPORT_CPU_S = 20
SWEEP_S = 10
MOST_ABSENT = 12
ENDS_OF_IMPORT = ("imported", "raised")
# What PyTorch imports at the first gradient, and at the first optimizer or tensor on "meta", which
# would take up to a second in each host. And what most submissions import.
BEFOREHAND = (
    *("torch.fx.experimental.symbolic_shapes", "torch._dynamo"),
    # Where operators are written once more: blocked.py closes what is loaded.
    *("torch._refs.nn.functional", "torch._refs.special", "torch._inductor.decomposition"),
    *("einops", "jaxtyping", "regex", "scipy.special"),
)


class Host(NamedTuple):
    """A process that has imported the submission for one problem."""

    pid: int
    channel: socket.socket
    process: int
    """The number by which the grader knows it."""
    restriction: Restriction


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
        self.absent: list[dict[str, Any]] = []
        self.failure: wire.Plain = None
        """What an import of the submission ended with, if it fails whatever the problem."""
        self.has_crashed_before = False
        """Whether an import has been tried a second time."""
        self.elsewhere_s = 0.0
        """CPU seconds that the last probe took in other processes than its host."""
        self.import_s = 0.0
        """How long the last import took."""

    def serve(self) -> None:
        """Answer until the grader closes its end."""
        while (head := self.read()) is not None:
            request = wire.decode(head)
            payload = self.read()
            if payload is None:
                return
            restriction = Restriction(request["problem"], tuple(request["lent"]))
            answer = self.start(request["process"], restriction) or self.run(request, payload)
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
        inputs = self.shared.inputs.look(input_bytes)
        times = {"elsewhere_s": self.elsewhere_s, "import_s": self.import_s}
        return {"notes": notes, "inputs": inputs, **times}

    def read(self) -> bytes | None:
        """Wait for the grader."""
        return wire.receive(self.channel, NOW() + ONE_YEAR_S)

    # --- importing the submission ---

    def start(self, process: int, restriction: Restriction) -> wire.Plain:
        """Make sure that the right host is there; return None, or how the import failed."""
        if self.failure is not None:
            return self.failure
        if self.host is not None and (self.host.process, self.host.restriction) == (
            process,
            restriction,
        ):
            return None
        while True:
            self.end_host()
            self.workplace.renew()
            started = NOW()
            outcome = self.import_in_host(process, restriction)
            self.import_s = NOW() - started
            self.noted += self.shared.ledger.take()
            if outcome["ended"] == "imported":
                return None
            if str(outcome.get("how")).startswith("crashed") and not self.has_crashed_before:
                self.has_crashed_before = True  # Perhaps the machine was at fault: once more.
                continue
            self.end_host()
            missing = outcome.pop("missing_package", None)
            known = [entry["package"] for entry in self.absent]
            if missing is None or missing["package"] in known or len(known) == MOST_ABSENT:
                if outcome.get("type") != "ForbiddenOperator":
                    self.failure = outcome
                return outcome
            self.absent.append(missing)

    def import_in_host(self, process: int, restriction: Restriction) -> dict[str, Any]:
        """Fork a host and wait until it has imported the submission, or has failed to."""
        channel, theirs = socket.socketpair()
        self.shared.inputs.renew()
        self.shared = self.shared._replace(ledger=Ledger())
        pid = os.fork()
        if pid == 0:
            with last_words():
                channel.close()
                self.channel.close()
                packages = [entry["package"] for entry in self.absent]
                run_host(theirs, self.settings, restriction, packages, self.shared)
            os._exit(0)
        theirs.close()
        self.host = Host(pid, channel, process, restriction)
        answer = self.await_answer(IMPORT_CPU_S, 5 * IMPORT_CPU_S, self.settings)
        if isinstance(answer, bytes):
            try:
                outcome = wire.decode(answer)
            except wire.WireError as error:
                outcome = {"ended": "died", "how": str(error)}
            is_known = isinstance(outcome, dict) and outcome.get("ended") in ENDS_OF_IMPORT
            answer = outcome if is_known else {"ended": "died", "how": "what came is no answer"}
        return answer | {"during_import": True}

    def end_host(self, cpu_s: float = 0.0) -> str:
        """End the host and all that it has started.

        Args:
            cpu_s: The CPU time that it had, if it has closed its end: then it is about to end.

        Returns:
            How it ended, if it did so by itself.
        """
        how = "closed its connection"
        if self.host is not None:
            for _ in range(40 if cpu_s else 0):
                pid, status = os.waitpid(self.host.pid, os.WNOHANG)
                if pid:
                    how = ending(status, cpu_s)
                    break
                time.sleep(0.05)
            self.host.channel.close()
            self.host = None
        self.sweep()
        return how

    def sweep(self) -> None:
        """Kill all that is below this process, and wait until it is gone.

        A dead process counts against the limit of processes until its parent has waited for it, and
        this server is the parent of orphans. Otherwise what a fork bomb leaves would keep the next
        probe from starting.
        """
        me = os.getpid()
        given_up_at = NOW() + SWEEP_S
        while NOW() < given_up_at:
            orphans = children(me)
            left = {pid for pid in descendants(me) if pid in orphans or not is_over(pid)}
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
        """Let the host answer one probe; return its answer's frame, or how it ended."""
        if not request["module"]:
            return {"ended": "imported"}
        assert self.host is not None
        pid, self.elsewhere_s = self.host.pid, 0.0
        before = cpu_elsewhere(pid) if request["measures"] else 0.0
        with contextlib.suppress(OSError):
            wire.send(self.host.channel, payload, NOW() + request["wall_s"])
        settings = self.settings._replace(idle_s=request["idle_s"])
        answer = self.await_answer(request["cpu_s"], request["wall_s"], settings, request["limit"])
        if isinstance(answer, bytes) and request["measures"]:
            self.elsewhere_s = cpu_elsewhere(pid) - before
        return answer

    def await_answer(
        self, cpu_s: float, wall_s: float, settings: Settings, limit: int = wire.MAX_BYTES
    ) -> bytes | dict[str, Any]:
        """Wait for the host's next frame, or end it and say why there is none."""
        assert self.host is not None
        how = Watch(cpu_s, wall_s, settings).wait(self.host.channel)
        if how is None:
            try:
                answer = wire.receive(self.host.channel, NOW() + wall_s, limit)
                if answer is not None:
                    return answer
                how = self.end_host(cpu_s)
            except (wire.WireError, OSError) as error:
                how = str(error)
        self.end_host()
        return {"ended": "died", "how": how}


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
    for name in ("submission", *BEFOREHAND):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    blocked.prepare()
    inputs = Inputs()
    shared = Shared(Ledger(), inputs, take_out_of_reach(inputs))
    # Kept from the garbage collectors of hosts: to visit an object is to copy its page.
    gc.collect()
    gc.freeze()
    with contextlib.suppress(ConnectionError):  # The grader asks no more.
        wire.send(channel, wire.encode({"ended": "ready"}), NOW() + 60)
        Server(channel, settings, shared).serve()


if __name__ == "__main__":
    main()
