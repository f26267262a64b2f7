"""What became of the tensors that a probe gave to a submission, judged from their bytes.

A probe says what was changed in place, but it runs in the submission's process. The server sends
the bytes as they are after the call; here they are compared with those that the tensors had, and a
change is added to the probe's report. Tensors lie in memory in the order of the probe's arguments
(tests/exam/probes/model.py, `tensors`; sandbox/inputs.py).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cs_grader.sandbox.settings import place_for

REPORTING = ("forward", "forward_if_supported", "forward_in_turns")
"""Probes that report changes of tensors."""
Plain = Any
Given = Mapping[str, Any]
"""Inputs of a probe: `arguments`, or `cases` with arguments for each; `dtypes` and `strided`."""


class Placed(NamedTuple):
    """A tensor in the memory that the server sees."""

    case: int
    name: str
    start: int
    was: bytes


def placed(probe: str, inputs: Given) -> list[Placed]:
    """Every tensor that a probe gives to a submission, where it lies and what it was."""
    found: list[Placed] = []
    end = 0
    for case, arguments in enumerate(_cases(inputs) if probe in REPORTING else ()):
        for name, array in _arrays(arguments):
            was = _storage(array, inputs.get("dtypes") or {}, name, inputs.get("strided") or ())
            start = place_for(len(was), end)
            if start is not None:
                found.append(Placed(case, name, start, was))
                end = start + len(was)
    return found


def num_bytes(tensors: Sequence[Placed]) -> int:
    """How much of the memory these tensors take."""
    return tensors[-1].start + len(tensors[-1].was) if tensors else 0


def add_changes(value: Plain, tensors: Sequence[Placed], after: bytes) -> None:
    """Say in a probe's reports what was changed, if they do not say so themselves.

    Args:
        value: What the probe returned: a report, or one for each case.
        tensors: What was `placed`.
        after: The memory as it was after the call.
    """
    for case, report in enumerate(value if isinstance(value, list) else [value]):
        if isinstance(report, dict) and "changed" in report:
            here = [one for one in tensors if one.case == case]
            found = [
                one.name for one in here if after[one.start : one.start + len(one.was)] != one.was
            ]
            report["changed"] = found or report["changed"]


def _cases(inputs: Given) -> Sequence[Given]:
    return inputs["cases"] if "cases" in inputs else [inputs["arguments"]]


def _arrays(arguments: Given) -> Iterator[tuple[str, npt.NDArray[Any]]]:
    for name, value in arguments.items():
        if isinstance(value, dict):
            yield from _arrays(value)
        elif isinstance(value, np.ndarray):
            yield name, value


def _storage(
    array: npt.NDArray[Any], dtypes: Mapping[str, str], name: str, strided: Sequence[str]
) -> bytes:
    """The bytes of the tensor that a probe makes of an array; none if it has no values."""
    if name in strided:
        array = array.T if array.ndim > 1 else np.stack([array, array], -1)
    dtype = dtypes.get(name, array.dtype.name)
    if dtype != "bfloat16":
        return array.astype(dtype, order="C").tobytes()
    # Round to the nearest, to even in the middle; NumPy has no such type. No item asks for NaN in
    # it, of which PyTorch makes one of several forms.
    bits = np.ascontiguousarray(array, np.float32).view(np.uint32)
    return (bits + 0x7FFF + (bits >> 16 & 1) >> 16).astype(np.uint16).tobytes()
