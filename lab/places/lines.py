"""Watch the lines of a submission run: which ones, and what its local variables hold after each."""

import linecache
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

MOST_CHARACTERS = 100
MOST_LINES = 100
# Lines of these are nobody's mistake: libraries, and the examination itself.
LIBRARIES = (sysconfig.get_path("stdlib"), "<", str(Path(__file__).parent))
INSTALLED = "site-packages"

# Frame, line, name of a variable ("" for what is returned), value.
OnValue = Callable[[FrameType, int, str, Any], None]
OnLine = Callable[[FrameType, int], None]


def is_own(file: str) -> bool:
    """Whether a line of this file is one of the submission's."""
    return INSTALLED not in file and not file.startswith(LIBRARIES)


def root_of(adapters: Any) -> str:
    """The folder of a submission, which is left out where its files are shown."""
    file = getattr(adapters, "__file__", None)
    return f"{Path(file).resolve().parents[1]}/" if file else ""


def text_of(file: str, number: int) -> str:
    return linecache.getline(file, number).strip()[:MOST_CHARACTERS]


class Watcher:
    """Reports the lines that a submission executes, and variables of some kinds that change."""

    def __init__(
        self,
        on_value: OnValue,
        kinds: tuple[type, ...] = (float,),
        on_line: OnLine | None = None,
    ) -> None:
        self._on_value, self._on_line, self._kinds = on_value, on_line, kinds
        self._held: dict[FrameType, dict[str, Any]] = {}
        self._last: dict[FrameType, int] = {}
        self._before: Any = None

    def __enter__(self) -> None:
        self._before = sys.gettrace()
        sys.settrace(self._call)

    def __exit__(
        self, kind: type[BaseException] | None, error: object, frames: TracebackType | None
    ) -> None:
        sys.settrace(self._before)

    def _call(self, frame: FrameType, _event: str, _argument: object) -> Any:
        if not is_own(frame.f_code.co_filename):
            return None
        self._held[frame] = self._values(frame)
        return self._step

    def _step(self, frame: FrameType, event: str, argument: object) -> Any:
        held, line = self._held.get(frame, {}), self._last.get(frame)
        if line is not None:
            values = self._values(frame)
            for name, value in values.items():
                if name not in held or held[name] is not value:
                    self._on_value(frame, line, name, value)
            self._held[frame] = values
        if event == "line":
            self._last[frame] = frame.f_lineno
            if self._on_line is not None:
                self._on_line(frame, frame.f_lineno)
        elif event == "return" and isinstance(argument, self._kinds):
            self._on_value(frame, frame.f_lineno, "", argument)
        return self._step

    def _values(self, frame: FrameType) -> dict[str, Any]:
        variables = dict(frame.f_locals)
        own = getattr(variables.get("self"), "__dict__", {})
        variables |= {f"self.{name}": value for name, value in own.items()}
        return {n: v for n, v in variables.items() if isinstance(v, self._kinds)}


def traced_rates(adapters: Any, iterations: list[int], settings: dict[str, Any]) -> dict[str, Any]:
    """Ask for learning rates; see each rate, which lines ran for it, and what they computed.

    Returns:
        "rates", and as "paths" for each of them a row of [file, line, function, text, name, value]
        for each line that ran: the name of a variable that it set, if any, "" for what it returned.
    """
    root = root_of(adapters)
    rates: list[float] = []
    paths: list[list[list[Any]]] = []
    for iteration in iterations:
        path: list[list[Any]] = []

        def note(
            frame: FrameType,
            line: int,
            name: str | None = None,
            value: Any = None,
            path: list[list[Any]] = path,
        ) -> None:
            code = frame.f_code
            row = [code.co_filename.removeprefix(root), line, code.co_name]
            if name is not None and path and path[-1][:3] == row and path[-1][4] is None:
                path[-1][4:] = [name, float(value)]
            elif len(path) < MOST_LINES:
                known = None if name is None else float(value)
                path.append([*row, text_of(code.co_filename, line), name, known])

        with Watcher(note, (float,), note):
            rate = adapters.run_get_lr_cosine_schedule(it=iteration, **settings)
        rates.append(float(rate))
        paths.append(path)
    return {"rates": rates, "paths": paths}
