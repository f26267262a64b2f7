"""The programs of a few lines that show what is wrong with an error that circulates."""

import contextlib
import io
from collections.abc import Callable


def output_of(program: str) -> str:
    """Run a program and return what it prints.

    It runs in this process, since importing torch anew would take longer than the program.
    """
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(program, "<program>", "exec"), {"__name__": "program"})
    return printed.getvalue().strip()


def numbers_from(program: str, *names: str) -> Callable[[int], dict[str, float]]:
    """Return the measurement that runs a program and names the numbers that it prints.

    True counts as 1, False as 0.
    """

    def measure(_seed: int) -> dict[str, float]:
        truth = {"True": "1", "False": "0"}
        words = output_of(program).translate(str.maketrans(",[]()", "     ")).split()
        return {name: float(truth.get(word, word)) for name, word in zip(names, words, strict=True)}

    return measure
