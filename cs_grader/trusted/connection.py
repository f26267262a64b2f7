"""The grader's end of the wire: hands a probe to the sandbox and checks what comes back.

If the sandbox itself is gone, the next probe gets a new one.
"""

import contextlib
import dataclasses
import os
import socket
import subprocess
import threading
import time
from collections.abc import Sequence
from typing import Any

from cs_grader.sandbox import wire
from cs_grader.trusted import sandbox
from cs_grader.trusted.answer import Answer, answer_of, died
from cs_grader.trusted.measured import MEASURING, count_the_rest
from cs_grader.trusted.patience import BROKEN, HURRIED_S, Patience
from cs_grader.trusted.sandbox import Limits, Stage
from cs_grader.trusted.unchanged import add_changes, num_bytes, placed
from cs_grader.trusted.watch import Watch

NOT_ASKED = "not run: "
"""How the message of an item begins if its probe was not run any more."""
TIME_IS_UP = f"{NOT_ASKED}the time is up, "
# A submission whose import ends so many sandboxes in a row gets no other.
MOST_LOST = 3
# Wall-clock seconds for each CPU second: fair even to a grader that has a fifth of a processor. A
# submission that only waits is noticed sooner.
WALL = 5
STARTING_S = 120
IMPORTING_S = 150
# A probe that began before the time for all of them was up may go on for so long.
OVERTIME_S = 10
MAX_OUTPUT = 100_000


def time_is_up(budget_s: float) -> str:
    """Return the message of an item that was not examined because a submission's time is up."""
    return f"{TIME_IS_UP}{budget_s / 60:g} minutes for a submission"


class Connection:
    """A sandbox that is put up whenever it is needed."""

    def __init__(
        self, isolation: str, stage: Stage, limits: Limits, more: dict[str, Any], budget_s: float
    ) -> None:
        """Prepare to put up a sandbox at the first request.

        Args:
            isolation: One of isolation.ISOLATIONS.
            stage: Its folders.
            limits: What may be used in it.
            more: What the worker has to know about the submission.
            budget_s: Seconds after which no probe is run any more.
        """
        self.isolation = isolation
        self.stage = stage
        self.limits = limits
        self.more = more
        self.budget_s = budget_s
        self.deadline = time.monotonic() + budget_s
        self.patience = Patience(limits.idle_s, limits.problem_idle_s)
        self.watch = Watch(limits, self.patience.waited_s)
        self.output = Output()
        self.broken: dict[tuple[str, str], Answer] = {}
        """For each problem and function, what importing a broken file has raised."""
        self.lost_imports = 0
        """How many of the last imports ended the sandbox."""
        self.process: subprocess.Popen[bytes] | None = None
        self.channel: socket.socket | None = None

    def import_adapters(self, process: int, problem: str, lent: Sequence[str] = ()) -> Answer:
        """Import the submission as a probe of this problem would."""
        head = {"module": "", "problem": problem, "lent": list(lent), "process": process}
        head |= {"look_at": 0, "cpu_s": 0, "wall_s": 0, "idle_s": self.limits.idle_s}
        if reason := self._why_not():
            return died(reason)
        answer = self._exchange(head, None)
        self.lost_imports = 0 if self.is_up() else self.lost_imports + 1
        return dataclasses.replace(answer, during_import=True)

    def run(
        self,
        process: int,
        problem: str,
        module: str,
        probe: str,
        seed: int,
        inputs: wire.Plain,
        lent: Sequence[str] = (),
        item: str = "",
    ) -> Answer:
        """Run one probe.

        Args:
            process: A number for the process that it runs in, if that has not ended. One with
                another number has nothing of what the submission did in this one.
            problem: The problem that it is part of.
            module: Where the probe is.
            probe: Its name.
            seed: What the submission's own randomness starts from.
            inputs: Its inputs, plain data.
            lent: Groups of operators that may be called although the problem forbids them.
            item: Whose time it takes.

        Raises:
            TypeError: The inputs are not plain data.
        """
        function = str(inputs.get("function", ""))
        if reason := self._why_not():
            return died(reason)
        if self.patience.gives_up(problem, function):
            what = f"no call of {function}" if function else "no call of this problem"
            silent = died(f"{NOT_ASKED}{what} has ever come back; does it end?")
            return self.broken.get((problem, function), silent)
        if not self.is_up():
            # By itself, so that an import that ends the sandbox is told from a probe that does.
            imported = self.import_adapters(process, problem, lent)
            if not self.is_up():
                return imported
        cpu_s, idle_s = self.patience.time_for(problem, item)
        given = placed(probe, inputs)
        head = {"module": module, "problem": problem, "lent": list(lent)}
        head |= {"process": process, "look_at": num_bytes(given), "idle_s": idle_s}
        head |= {"cpu_s": cpu_s, "wall_s": WALL * cpu_s + 20, "measures": probe in MEASURING}
        payload = {"module": module, "probe": probe, "seed": seed, "inputs": inputs, "cpu_s": cpu_s}
        answer = self._exchange(head, payload)
        if answer.kind in BROKEN:
            self.broken[problem, function] = dataclasses.replace(answer, noted=(), inputs=b"")
        is_fatal = answer.kind in BROKEN or not self.is_up()
        self.patience.learn(problem, function, item, slow=answer.is_over_time, fatal=is_fatal)
        add_changes(answer.value, given, answer.inputs)
        if answer.is_over_time and cpu_s == HURRIED_S:
            before = "earlier checks of this problem took too long"
            answer = dataclasses.replace(answer, text=f"{answer.text} ({before})")
        return count_the_rest(probe, inputs, answer, self.stage.examination)

    def is_up(self) -> bool:
        """Whether there is a sandbox now."""
        return self.channel is not None

    def close(self) -> str:
        """End the sandbox; return what was printed in it."""
        self._end()
        return self.output.close()

    def _why_not(self) -> str:
        """Say why a probe, or an import, is not run any more; "" if it is."""
        if time.monotonic() > self.deadline:
            return time_is_up(self.budget_s)
        if self.lost_imports == MOST_LOST:
            return f"{NOT_ASKED}importing it has ended the sandbox {MOST_LOST} times in a row"
        return ""

    def _exchange(self, head: dict[str, Any], payload: wire.Plain) -> Answer:
        request = [wire.encode(head | {"limit": wire.MAX_BYTES}), wire.encode(payload)]
        try:
            channel = self.channel or self._start()
        except (OSError, wire.WireError) as error:
            raise SandboxError(f"the sandbox does not start: {error}") from None
        deadline = time.monotonic() + IMPORTING_S + 2 * head["wall_s"]
        deadline = min(deadline, max(self.deadline, time.monotonic()) + OVERTIME_S)
        try:
            with self.watch.during(head["problem"], head["idle_s"], self._kill):
                for part in request:
                    wire.send(channel, part, deadline)
                frame, seen = (wire.receive(channel, deadline) for _ in range(2))
            if frame is not None and seen is not None and not self.watch.excess:
                return answer_of(wire.decode(frame), wire.decode(seen))
            how = "ended the whole sandbox"
        except wire.WireError as error:
            how = str(error)
        except TimeoutError:
            is_up = time.monotonic() > self.deadline
            how = time_is_up(self.budget_s) if is_up else "no answer: the sandbox hangs"
        except OSError:
            how = "ended the whole sandbox"
        except BaseException:
            # An alarm or Ctrl-C: the answer still to come must not be taken for the next one.
            self._end()
            raise
        self._end()
        return died(self.watch.excess or how)

    def _kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            sandbox.sweep(self.isolation)

    def _start(self) -> socket.socket:
        self.process, self.channel = sandbox.start(
            self.isolation, self.stage, self.limits, self.more, self.output.write_end
        )
        try:
            ready = wire.receive(self.channel, time.monotonic() + STARTING_S)
        except BaseException:
            self._end()
            raise
        if ready is None:
            self._end()
            raise OSError(f"it ended at once; it said: {self.output.so_far()[-500:]!r}")
        return self.channel

    def _end(self) -> None:
        if self.channel is not None:
            self.channel.close()
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        self.channel = self.process = None
        sandbox.sweep(self.isolation)


class SandboxError(RuntimeError):
    """The grader is at fault: there is no sandbox to run anything in."""


class Output:
    """Reads all that is printed in the sandbox, keeps the beginning, and never lets it wait."""

    def __init__(self) -> None:
        read_end, self.write_end = os.pipe()
        os.set_inheritable(self.write_end, False)
        self.kept = bytearray()
        self.reader = threading.Thread(target=self._read, args=(read_end,), daemon=True)
        self.reader.start()

    def _read(self, read_end: int) -> None:
        with open(read_end, "rb", buffering=0) as file:
            while part := file.read(2**16):
                self.kept += part[: max(MAX_OUTPUT - len(self.kept), 0)]

    def so_far(self) -> str:
        """Return the beginning of what was printed."""
        return self.kept.decode("utf-8", "replace")

    def close(self) -> str:
        """Return it once all is read."""
        with contextlib.suppress(OSError):
            os.close(self.write_end)
        self.reader.join(timeout=2)
        return self.so_far()
