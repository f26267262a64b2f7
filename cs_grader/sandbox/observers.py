"""Keeps what observes a submission out of its reach, and notices what was replaced all the same.

    observers = Observers()          # in the server, which never imports a submission
    observers.hide()                 # sys.modules has neither probes nor the grader any more
    probe = observers.find("probes.model", "forward")
    observers.replaced("probes.model")  # before and after a probe of it: "" or a name

A probe runs in the same process as the submission, which can reach its globals through the frames
on the stack. What counts is compared with what was there before the first line of the submission:
the probes, their code, and what they call of other modules.

This misses a submission that puts everything back before a probe ends, and one that changes
something deeper (a function that torch.equal calls). The server therefore checks for itself whether
inputs were changed in place (inputs.py); the remaining observations (what is raised, how far a
stream was read) are only as good as this check.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from types import CodeType, FunctionType, ModuleType
from typing import Any

HIDDEN = ("probes", "cs_grader")
# Methods that may be replaced, as those who debug do: no probe's verdict depends on them.
FOR_PEOPLE = ("__repr__", "__str__", "__format__")
State = list[tuple[str, Callable[[], object], object]]


class Observers:
    """The probes and what they work with, as they were when this was made."""

    def __init__(self) -> None:
        self.probes = {
            name: module for name, module in sys.modules.items() if name.startswith("probes.")
        }
        states = {name: _state_of(name, module) for name, module in self.probes.items()}
        self.state = {
            module: [one for name in _with_imported(module, self.probes) for one in states[name]]
            for module in self.probes
        }

    def hide(self) -> None:
        """Take probes and grader out of sys.modules: an import then makes a copy nobody uses."""
        for name in list(sys.modules):
            if name.partition(".")[0] in HIDDEN:
                del sys.modules[name]

    def find(self, module: str, probe: str) -> Callable[..., Any]:
        """The probe of this name."""
        return getattr(self.probes[module], probe)

    def replaced(self, module: str) -> str:
        """Name something that a module's probes work with and that was replaced; "" if nothing was.

        What only other modules work with is not looked at: in a forked process a look changes the
        object's reference count, and that copies its page.
        """
        for name, look, before in self.state[module]:
            if look() is not before:
                return name
        return ""


def _with_imported(module: str, probes: dict[str, ModuleType]) -> list[str]:
    """A module of probes, and those that it imports from."""
    found = [module]
    for one in found:  # It grows meanwhile.
        values = vars(probes[one]).values()
        owners = {getattr(value, "__module__", getattr(value, "__name__", "")) for value in values}
        found += sorted(owners & probes.keys() - set(found))
    return found


def _state_of(name: str, module: ModuleType) -> State:
    """Everything that a module's functions work with: its name, how to look it up, what it is."""
    names = vars(module)
    used = {word for value in names.values() for word in _words(value)}
    looks: list[tuple[str, Callable[[], object]]] = []
    for word, value in names.items():
        looks.append((f"{name}.{word}", _entry(names, word)))
        if isinstance(value, type):
            looks += [
                (f"{name}.{word}.{part}", _entry(vars(value), part))
                for part, one in vars(value).items()
                if isinstance(one, FunctionType) and part not in FOR_PEOPLE
            ]
        for function in _functions(value):
            where = f"{name}.{function.__qualname__}"
            looks += [
                (where, _attribute(function, part))
                for part in ("__code__", "__defaults__", "__kwdefaults__")
            ]
        if isinstance(value, ModuleType):
            inner = vars(value)
            where = value.__name__
            looks += [(f"{where}.{one}", _entry(inner, one)) for one in sorted(used & inner.keys())]
    return [(where, look, look()) for where, look in looks]


def _entry(names: Mapping[str, Any], word: str) -> Callable[[], object]:
    return lambda: names.get(word)


def _attribute(owner: object, name: str) -> Callable[[], object]:
    return lambda: getattr(owner, name)


def _functions(value: object) -> Iterator[FunctionType]:
    """A function, or the methods of a class."""
    if isinstance(value, FunctionType):
        yield value
    elif isinstance(value, type):
        yield from (one for one in vars(value).values() if isinstance(one, FunctionType))


def _words(value: object) -> Iterator[str]:
    """The names that functions use, attributes among them."""
    waiting: list[CodeType] = [function.__code__ for function in _functions(value)]
    while waiting:
        code = waiting.pop()
        yield from code.co_names
        waiting += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
