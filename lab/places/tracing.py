"""Watch the lines of a submission compute: each operation on tensors, its line and its values."""

import sys
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

import numpy as np
import torch
from probes.model import Plain, plain, tensors
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode, resolve_name

from lab.places.lines import Watcher, is_own, root_of, text_of

MOST_EVENTS = 3000
MOST_NUMBERS = 20_000
MOST_FRAMES = 12
MOST_SCALARS = 64
WRITES_DATA = Tensor.data.__set__  # type: ignore[attr-defined]

Replaced = Mapping[int, Any]
"""Values that take the place of what an operation, by its number, computes."""


def traced(
    adapters: Any,
    function: str,
    arguments: Plain,
    dtypes: Mapping[str, str] | None = None,
    replaced: Replaced | None = None,
) -> Plain:
    """Call one adapter and see every operation that its lines carry out on tensors.

    Returns:
        "events" (see Recorder.note) in the order of their computation, none if values are
        replaced; and as "outputs" the number of the one that made the output, with its values.
    """
    made = tensors(arguments, dtypes or {})
    recorder = Recorder(adapters, replaced)
    with recorder.put_back():
        with recorder, Watcher(recorder.note_scalar, (float, list)):
            output = getattr(adapters, function)(**made)
        number = recorder.number_of(output) if isinstance(output, Tensor) else -1
        outputs = [[number, values_of(output)]] if number >= 0 else []
    return {"events": recorder.events, "outputs": outputs}


def traced_steps(
    adapters: Any,
    parameters: Sequence[Any],
    options: Plain,
    gradients: Sequence[Sequence[Any]],
    replaced: Replaced | None = None,
) -> Plain:
    """Step AdamW; the outputs are the parameters after each step, one after another."""
    made = [nn.Parameter(torch.tensor(array)) for array in parameters]
    recorder = Recorder(adapters, replaced)
    outputs = []
    with recorder.put_back(), recorder, Watcher(recorder.note_scalar, (float, list)):
        optimizer = adapters.get_adamw_cls()(made, **options)
        for row in gradients:
            for parameter, gradient in zip(made, row, strict=True):
                parameter.grad = torch.tensor(gradient)
            optimizer.step()
            outputs += [[max(recorder.sources_of(p)), values_of(p)] for p in made]
    return {"events": recorder.events, "outputs": outputs}


def traced_clipping(
    adapters: Any,
    gradients: Sequence[Any],
    max_l2_norm: float,
    replaced: Replaced | None = None,
) -> Plain:
    """Clip gradients; the outputs are what the parameters hold then."""
    made = [nn.Parameter(torch.ones(np.shape(gradient))) for gradient in gradients]
    for parameter, gradient in zip(made, gradients, strict=True):
        parameter.grad = torch.tensor(gradient)
    recorder = Recorder(adapters, replaced)
    with recorder.put_back():
        with recorder, Watcher(recorder.note_scalar, (float, list)):
            adapters.run_gradient_clipping(parameters=made, max_l2_norm=max_l2_norm)
        held = [parameter.grad for parameter in made]
        outputs = [[max(recorder.sources_of(g)), values_of(g)] for g in held if g is not None]
    return {"events": recorder.events, "outputs": outputs}


def answers(adapters: Any, function: str, cases: Sequence[Plain]) -> list[Plain | None]:
    """Call one adapter with each of several cases; None where it raises."""
    seen: list[Plain | None] = []
    for case in cases:
        try:
            seen.append(plain(getattr(adapters, function)(**tensors(case, {}))))
        except Exception:
            seen.append(None)
    return seen


class Recorder(TorchFunctionMode):
    """Notes what is computed by the operations that a submission calls, one by one."""

    def __init__(self, adapters: Any, replaced: Replaced | None = None) -> None:
        super().__init__()
        self.events: list[Plain] = []
        self._count = 0
        self._root = root_of(adapters)
        self._replaced = replaced or {}
        self._frames: list[FrameType] = []  # Kept, so that no two have the same identity.
        self._kept: list[Tensor] = []  # The same.
        self._numbers: dict[int, int] = {}
        self._scalars: dict[float, int] = {}
        """For each number outside of tensors, the operation that made it."""
        self._places: dict[int, tuple[int, int]] = {}
        """For each operation that made such a number, its call and line."""
        self._writes: dict[int, list[int]] = {}
        """For each tensor's memory, the operations that wrote into it, also through a view."""
        self._overwritten: list[tuple[Tensor, Tensor]] = []
        """Tensors that values were put into, and what they held."""

    @contextmanager
    def put_back(self) -> Generator[None]:
        """Give the memory of replaced values back as it was: a table may serve later calls."""
        try:
            yield
        finally:
            for tensor, held in reversed(self._overwritten):
                tensor.data.copy_(held)

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__name__", "") == "__get__":
            held = func(*args, **kwargs)
            if not isinstance(held, Tensor):  # A shape, a dtype, ...
                return held
        given = [leaf for leaf in leaves((args, kwargs)) if is_plain(leaf)]
        held = [leaf for leaf in given if isinstance(leaf, Tensor)]
        scalars = [float(leaf) for leaf in given if not isinstance(leaf, Tensor)]
        if self._replaced and self._count >= MOST_EVENTS:
            raise RuntimeError("with other values this goes on and on")
        # A tensor that is overwritten as a whole has no part in the result.
        used = held[1:] if func == Tensor.copy_ else held
        sources = [number for leaf in used for number in self.sources_of(leaf)]
        # A whole number may come from anywhere: an axis, a size.
        telling = [one for one in scalars if not one.is_integer()]
        sources += [self._scalars[s] for one in telling for s in (one, -one) if s in self._scalars]
        result = func(*args, **kwargs)
        made = [leaf for leaf in leaves(result) if isinstance(leaf, Tensor | float)]
        if getattr(func, "__name__", "") == "__setitem__" or func == WRITES_DATA:
            made.append(args[0])
        for leaf in made:
            if self._count < MOST_EVENTS:
                is_write = any(leaf is one for one in held)
                name = str(resolve_name(func) or func)
                number = self.note(name, leaf, sources, scalars[:8], is_write=is_write)
                if isinstance(leaf, float):
                    self._scalars[leaf] = number
        return result

    def note_scalar(
        self, frame: FrameType, line: int, name: str, value: float | list[float]
    ) -> None:
        """Note that a line has computed a number, or a list of them, outside of any tensor."""
        numbers = value if isinstance(value, list) else [value]
        are_numbers = 0 < len(numbers) <= MOST_SCALARS and all(type(n) is float for n in numbers)
        if not are_numbers or self._count >= MOST_EVENTS:
            return
        here = (self.call_of(frame), line)
        earlier = [self._scalars[n] for n in numbers if n in self._scalars]
        if any(self._places.get(number) == here for number in earlier):
            return  # Another round of a loop.
        if name and len(earlier) == len(numbers) and min(earlier) == self._count - 1:
            return  # What a function has just returned: its line says more.
        self._scalars |= dict.fromkeys(numbers, self._count)
        self._places[self._count] = here
        self._count += 1
        if not self._replaced:
            lines = list(self.own_lines(frame))
            lines[0][2], lines[0][4] = line, text_of(frame.f_code.co_filename, line)
            sources = earlier + list(self._of_line(here))
            self.add("=", lines, sources, [], np.squeeze(np.array(numbers)))

    def _of_line(self, here: tuple[int, int]) -> Iterator[int]:
        """The numbers of what the same line has just computed."""
        for number in range(len(self.events) - 1, -1, -1):
            lines = self.events[number]["lines"]
            if not lines or (lines[0][0], lines[0][2]) != here:
                return
            yield number

    def sources_of(self, tensor: Tensor) -> list[int]:
        """The numbers of the operations that made a tensor what it is now."""
        number = self.number_of(tensor)
        if number < 0:
            number = self.note("given", tensor, [], [], is_write=False)
        later = [one for one in self._writes.get(memory_of(tensor), ()) if one > number]
        return [number, *later]

    def number_of(self, tensor: Tensor) -> int:
        return self._numbers.get(id(tensor), -1)

    def note(
        self,
        operation: str,
        made: Tensor | float,
        sources: Sequence[int],
        scalars: Sequence[float],
        *,
        is_write: bool,
    ) -> int:
        """Note one operation: its name, its lines, what it used and what it made."""
        number = self._count
        self._count += 1
        if isinstance(made, Tensor):
            if number in self._replaced and np.shape(self._replaced[number]) == shape_of(made):
                self._overwritten.append((made, made.detach().clone()))
                put(self._replaced[number], made)
            self._kept.append(made)
            self._numbers[id(made)] = number
            if is_write:
                self._writes.setdefault(memory_of(made), []).append(number)
        if not self._replaced:
            lines = [] if operation == "given" else list(self.own_lines(torch_caller()))
            self.add(operation.removeprefix("torch."), lines, sources, scalars, made)
        return number

    def add(
        self,
        operation: str,
        lines: list[list[Any]],
        sources: Sequence[int],
        scalars: Sequence[float],
        made: Any,
    ) -> None:
        self.events.append(
            {
                "operation": operation,
                "lines": lines,
                "sources": list(dict.fromkeys(sources)),
                "scalars": list(scalars),
                "dtype": str(getattr(made, "dtype", "float")).removeprefix("torch."),
                "values": values_of(made),
            }
        )

    def own_lines(self, frame: FrameType | None) -> Iterator[list[Any]]:
        """Call, file, line, function and text of the submission's frames, the innermost first."""
        count = 0
        while frame is not None and count < MOST_FRAMES and frame.f_code not in PROBES:
            file = frame.f_code.co_filename
            if is_own(file):
                count += 1
                shown, text = file.removeprefix(self._root), text_of(file, frame.f_lineno)
                yield [self.call_of(frame), shown, frame.f_lineno, frame.f_code.co_name, text]
            frame = frame.f_back

    def call_of(self, frame: FrameType) -> int:
        """Number the calls of functions: the same one while it runs."""
        for number in range(len(self._frames) - 1, -1, -1):
            if self._frames[number] is frame:
                return number
        self._frames.append(frame)
        return len(self._frames) - 1


PROBES = {function.__code__ for function in (traced, traced_steps, traced_clipping)}


def torch_caller() -> FrameType | None:
    """The frame of whoever called the operation that is being noted."""
    return sys._getframe(2).f_back  # pyright: ignore[reportPrivateUsage]  the only way


def leaves(value: Any) -> Iterator[Any]:
    """Yield what lists, tuples and dicts hold, at any depth."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for one in value:
            yield from leaves(one)
    else:
        yield value


def is_plain(leaf: object) -> bool:
    return isinstance(leaf, Tensor | float | int) and not isinstance(leaf, bool)


def memory_of(tensor: Tensor) -> int:
    try:
        return Tensor.untyped_storage(tensor).data_ptr()
    except (NotImplementedError, RuntimeError):  # Sparse tensors and such on "meta".
        return 0


def shape_of(tensor: Tensor) -> tuple[int, ...]:
    """The shape of its values, as values_of gives them."""
    return (*tensor.shape, 2) if tensor.is_complex() else tuple(tensor.shape)


@torch.no_grad()
def put(values: Any, tensor: Tensor) -> None:
    """Write other values into a tensor that has just been made."""
    given = torch.as_tensor(np.asarray(values))
    if tensor.is_complex():
        given = torch.view_as_complex(given.contiguous())
    tensor.data.copy_(given.reshape(tensor.shape))


def values_of(made: Any) -> Any:
    """What was made, as float64 (complex numbers as pairs); None if it is too much."""
    if not isinstance(made, Tensor):
        return np.asarray(made, np.float64)
    if made.numel() > MOST_NUMBERS or made.is_meta or made.is_sparse:
        return None
    dense = made.detach().cpu()
    if dense.is_complex():
        dense = torch.view_as_real(dense.resolve_conj())
    return np.array(dense.to(torch.float64).numpy())
