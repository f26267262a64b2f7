"""The grader's end of the wire: hands a probe to the sandbox and checks what comes back.

Nothing that arrives is trusted: an answer is rebuilt field by field, texts are cut, and whoever
sends something else has only lost the item. If the sandbox itself is gone, the next probe gets a
new one.
"""

import contextlib
import dataclasses
import os
import socket
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from cs_grader.plain_text import plain
from cs_grader.rules.names import NAMES
from cs_grader.sandbox import wire
from cs_grader.sandbox.audit import KNOWN as KNOWN_CODE
from cs_grader.sandbox.forbidden import PACKAGES
from cs_grader.sandbox.ledger import Entry
from cs_grader.trusted import sandbox
from cs_grader.trusted.sandbox import Limits, Stage
from cs_grader.trusted.unchanged import add_changes, num_bytes, placed
from cs_grader.trusted.watch import Watch

NOT_ASKED = "not run: "
"""How the message of an item begins if its probe was not run any more."""
TIME_IS_UP = f"{NOT_ASKED}the time is up, "
DEFAULT_CPU_S = 10
# The reference needs less than a second for any of their probes, but text is many times slower in
# some honest solutions, and one of the probes encodes for 40 seconds.
CPU_S = {"train_bpe": 60, "tokenizer": 90}
# After so many probes of a problem that took too long, the others get less time.
PATIENCE, IMPATIENT_CPU_S = 2, 2
# A problem that ends so many sandboxes in a row gets no other; nor does a submission whose import
# does.
MOST_LOST = 3
# Wall-clock seconds for each CPU second: fair even to a grader that has a fifth of a processor. A
# submission that only waits is noticed sooner.
WALL = 5
STARTING_S = 120
IMPORTING_S = 150
# A probe that began before the time for all of them was up may go on for so long.
OVERTIME_S = 10
# What a note of each kind may be about.
KNOWN = {"forbidden": NAMES.keys() | PACKAGES.keys(), "code": KNOWN_CODE}
MOST_NOTES = 20
MAX_OUTPUT = 100_000
MAX_TEXT = 3900


def time_is_up(budget_s: float) -> str:
    """Return the message of an item that was not examined because a submission's time is up."""
    return f"{TIME_IS_UP}{budget_s / 60:g} minutes for a submission"


class Frame(NamedTuple):
    """A line of the submission on the way to an exception."""

    file: str
    line: int
    function: str


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What came of a probe."""

    ended: str
    """ "imported", "returned", "raised", or "died"."""
    value: wire.Plain = None
    kind: str = ""
    """Name of the exception's class."""
    text: str = ""
    """What the exception says, or how the process died."""
    frames: tuple[Frame, ...] = ()
    missing: str | None = None
    """Name of an adapter that is not there."""
    is_not_implemented: bool = False
    during_import: bool = False
    noted: tuple[Entry, ...] = ()
    """What it did that a person has to look at, with files relative to the submission."""
    inputs: bytes = b""
    """Memory with the tensors that it was given, as they are after the call (unchanged.py)."""
    absent: tuple[tuple[str, str, int], ...] = ()
    """Packages that are not installed, and where they are imported."""

    @property
    def is_over_time(self) -> bool:
        """Whether it used up the time that it had."""
        return self.ended == "died" and ("of CPU" in self.text or "no answer" in self.text)


class Connection:
    """A sandbox that is put up whenever it is needed."""

    def __init__(
        self, tier: str, stage: Stage, limits: Limits, more: dict[str, Any], budget_s: float
    ) -> None:
        """Prepare to put up a sandbox at the first request.

        Args:
            tier: One of tiers.TIERS.
            stage: Its folders.
            limits: What may be used in it.
            more: What the worker has to know about the submission.
            budget_s: Seconds after which no probe is run any more.
        """
        self.tier = tier
        self.stage = stage
        self.limits = limits
        self.more = more
        self.budget_s = budget_s
        self.deadline = time.monotonic() + budget_s
        self.watch = Watch(limits)
        self.output = Output()
        self.over_time: dict[str, int] = {}
        self.lost: Counter[str] = Counter()
        """For each problem, how many of its last probes ended the sandbox; imports count as ""."""
        self.process: subprocess.Popen[bytes] | None = None
        self.channel: socket.socket | None = None

    def import_adapters(self, problem: str, excused: Sequence[str] = ()) -> Answer:
        """Import the submission as a probe of this problem would."""
        head = {"module": "", "problem": problem, "excused": list(excused), "process": 0}
        head |= {"look_at": 0, "cpu_s": 0, "wall_s": 0}
        return self._ask(head, None)

    def run(
        self,
        process: int,
        problem: str,
        module: str,
        probe: str,
        seed: int,
        inputs: wire.Plain,
        excused: Sequence[str] = (),
    ) -> Answer:
        """Run one probe.

        Args:
            process: A number for the process that it runs in, if that has not ended.
            problem: The problem that it is part of.
            module: Where the probe is.
            probe: Its name.
            seed: What the submission's own randomness starts from.
            inputs: Its inputs, plain data.
            excused: Groups of operators that may be called although the problem forbids them.

        Raises:
            TypeError: The inputs are not plain data.
        """
        cpu_s = CPU_S.get(problem, DEFAULT_CPU_S)
        if self.over_time.get(problem, 0) >= PATIENCE:
            cpu_s = IMPATIENT_CPU_S
        given = placed(probe, inputs)
        head = {"module": module, "problem": problem, "excused": list(excused)}
        head |= {"process": process, "look_at": num_bytes(given)}
        head |= {"cpu_s": cpu_s, "wall_s": WALL * cpu_s + 20}
        payload = {"module": module, "probe": probe, "seed": seed, "inputs": inputs, "cpu_s": cpu_s}
        answer = self._ask(head, payload)
        add_changes(answer.value, given, answer.inputs)
        if answer.is_over_time:
            self.over_time[problem] = self.over_time.get(problem, 0) + 1
            if cpu_s == IMPATIENT_CPU_S:
                before = f"{PATIENCE} earlier checks of this problem took too long"
                answer = dataclasses.replace(answer, text=f"{answer.text} ({before})")
        return answer

    def close(self) -> str:
        """End the sandbox; return what was printed in it."""
        self._end()
        return self.output.close()

    def _ask(self, head: dict[str, Any], payload: wire.Plain) -> Answer:
        if reason := self._why_not(head["problem"]):
            return _died(reason)
        if self.channel is None and head["module"]:
            # By itself, so that an import that ends the sandbox is told from a probe that does.
            imported = self.import_adapters(head["problem"], head["excused"])
            if self.channel is None:
                return imported
        answer = self._exchange(head, payload)
        whose = head["problem"] if head["module"] else ""
        self.lost[whose] = 0 if self.channel else self.lost[whose] + 1
        return answer if head["module"] else dataclasses.replace(answer, during_import=True)

    def _why_not(self, problem: str) -> str:
        """Say why a probe is not run any more; "" if it is."""
        if time.monotonic() > self.deadline:
            return time_is_up(self.budget_s)
        if self.lost[""] == MOST_LOST:
            return f"{NOT_ASKED}importing it has ended the sandbox {MOST_LOST} times in a row"
        if self.lost[problem] == MOST_LOST:
            return f"{NOT_ASKED}this problem has ended the sandbox {MOST_LOST} times in a row"
        if not self.watch.may_wait(problem):
            waited = f"waited for {self.limits.problem_idle_s:g} s in this problem"
            return f"{NOT_ASKED}{waited} without computing anything"
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
            with self.watch.during(head["problem"], self._kill):
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
        return _died(self.watch.excess or how)

    def _kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            sandbox.sweep(self.tier)

    def _start(self) -> socket.socket:
        self.process, self.channel = sandbox.start(
            self.tier, self.stage, self.limits, self.more, self.output.write_end
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
        sandbox.sweep(self.tier)


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


def answer_of(received: wire.Plain, seen: wire.Plain) -> Answer:
    """Rebuild an answer from what the sandbox sent.

    Args:
        received: The answer.
        seen: What the server has seen besides: "notes" of the ledger, "inputs" after the call.

    Raises:
        WireError: It is nothing that the worker would send.
    """
    if not isinstance(received, dict) or not isinstance(seen, dict):
        raise wire.WireError("what came is not an answer")
    ended = received.get("ended")
    if ended not in ("imported", "returned", "raised", "died"):
        raise wire.WireError("what came is not an answer")
    try:
        kind = _text(received.get("type", ""), 100)
        return Answer(
            ended=ended,
            value=received.get("value"),
            kind=kind if kind.isidentifier() else "Exception",
            text=_text(received.get("how" if ended == "died" else "text", ""), MAX_TEXT),
            frames=tuple(
                Frame(_text(file, 300), _line(line), _text(function, 100))
                for file, line, function in received.get("frames", [])[:40]
            ),
            missing=None if received.get("missing") is None else _text(received["missing"], 100),
            is_not_implemented=received.get("is_not_implemented") is True,
            during_import=received.get("during_import") is True,
            noted=tuple(
                Entry(kind, _what(kind, what), _text(file, 300), _line(line))
                for kind, what, file, line in seen["notes"][:MOST_NOTES]
            ),
            inputs=_bytes(seen["inputs"]),
            absent=tuple(
                (_text(one["package"], 100), _text(one["file"], 300), _line(one["line"]))
                for one in received.get("absent", [])[:20]
            ),
        )
    except (TypeError, ValueError, KeyError, AttributeError):
        raise wire.WireError("what came is not an answer") from None


def _died(how: str) -> Answer:
    return Answer(ended="died", text=how)


def _text(value: wire.Plain, limit: int) -> str:
    if not isinstance(value, str):
        raise TypeError
    return plain(value, limit)


def _bytes(value: wire.Plain) -> bytes:
    if not isinstance(value, np.ndarray) or value.dtype != np.uint8:
        raise TypeError
    return value.tobytes()


def _what(kind: str, value: wire.Plain) -> str:
    # The ledger lies beside the submission, which could write anything into it.
    text = _text(value, 200)
    return text if text in KNOWN[kind] else "something unknown"


def _line(value: wire.Plain) -> int:
    if type(value) is not int or not 0 <= value < 10_000_000:
        raise TypeError
    return value
