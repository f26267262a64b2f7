"""Is an answer of the examination ready-made somewhere in PyTorch, where no block stops it?

    python -m lab.campaigns.ready_made [--only softmax]

For each problem that one operator could answer, with its operators blocked as in the sandbox
(cs_grader/sandbox/blocked.py), every callable that can be reached from torch is called with the
problem's inputs in many orders; one whose result is the answer is printed. A class is made first
and what it makes is called. What crashes or does not end costs its process and is passed over. Run
it when torch changes: it takes half an hour.
"""

import argparse
import contextlib
import importlib
import os
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from cs_grader.sandbox.blocked import forbid
from cs_grader.sandbox.worker import BEFOREHAND

SECONDS = 3
"""For one callable."""
# What libraries want after the inputs: an axis, what is kept, weights, eps, a share to drop, ...
TAILS: tuple[tuple[Any, ...], ...] = (
    *((), (-1,), (1, False), ([1], False), (-1, None), (-1, torch.float32)),
    *((None,), (None, None), (None,) * 4, (1e-5,), (None, 1e-5), (True,), (None, True)),
    *((0.0, True), (None, 0.0, True), (None, False, 0.0, True)),
    *((None, 1, -100), (None, 1, -100, 0.0)),
)
NAMED: tuple[dict[str, Any], ...] = ({"dim": -1}, {"eps": 1e-5}, {"is_causal": True})
MADE_WITH = ((), (-1,), (8,))


class Question(NamedTuple):
    """What an answer is looked for to."""

    answer: Tensor
    heads: list[tuple[Any, ...]]
    """The inputs, in the orders that libraries have them."""


def questions() -> dict[str, Question]:
    """Inputs and answers by problem; the answers are written out here."""
    x, gain, matrix = torch.randn(3, 8), torch.rand(8) + 0.5, torch.randn(5, 8)
    ids, targets = torch.tensor([4, 0, 2]), torch.tensor([1, 7, 0])
    qkv = tuple(torch.randn(2, 6, 8) for _ in range(3))
    heads = tuple(part.unsqueeze(1) for part in qkv)
    causal = torch.ones(6, 6).tril().bool()
    scores = (qkv[0] @ qkv[1].mT / 8**0.5).masked_fill(~causal, -torch.inf).exp()
    shares = x.exp() / x.exp().sum(-1, keepdim=True)
    normed = x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt() * gain
    loss = -shares[torch.arange(3), targets].log().mean()
    attended = scores / scores.sum(-1, keepdim=True) @ qkv[2]
    return {
        "silu": Question(x * x.sigmoid(), [(x,), (torch.cat([x, x], -1),)]),
        "softmax": Question(shares, [(x,)]),
        "linear": Question(x @ matrix.T, [(x, matrix)]),
        "embedding": Question(matrix[ids], [(matrix, ids), (ids, matrix), (matrix, 0, ids)]),
        "rmsnorm": Question(normed, [(x, [8], gain), (x, gain), (x, 1, gain)]),
        "cross_entropy": Question(loss, [(x, targets)]),
        "scaled_dot_product_attention": Question(
            attended, [qkv, heads, (*qkv, causal), (*heads, causal)]
        ),
    }


def reachable() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Every callable of torch: in a module that is loaded, a class of them, or the dispatcher."""
    seen: set[int] = set()
    for name in sorted(torch._C._dispatch_get_all_op_names()):  # pyright: ignore
        namespace, _, operator = name.partition("::")
        operator, _, overload = operator.partition(".")
        with contextlib.suppress(AttributeError, RuntimeError):
            packet = getattr(getattr(torch.ops, namespace), operator)
            yield name, getattr(packet, overload or "default")
    for name, module in sorted(sys.modules.items()):
        if name.partition(".")[0] != "torch" or not hasattr(module, "__dict__"):
            continue
        for owner in (module, *(one for one in vars(module).values() if isinstance(one, type))):
            for word in dir(owner):
                with contextlib.suppress(Exception):
                    found = getattr(owner, word)
                    home = getattr(found, "__module__", None) or "torch"
                    if callable(found) and home.startswith("torch") and id(found) not in seen:
                        seen.add(id(found))
                        yield f"{name}.{getattr(owner, '__qualname__', '')}.{word}", found


def results(call: Callable[..., Any], question: Question) -> Iterator[object]:
    """What comes of a callable, asked in each form with inputs of its own."""
    for head in question.heads:
        for tail, named in (*((tail, {}) for tail in TAILS), *(((), named) for named in NAMED)):
            given = [one.clone() if isinstance(one, Tensor) else one for one in head]
            with contextlib.suppress(Exception):
                yield call(*given, *tail, **named)
                yield given  # It may have written into them.
        for options in MADE_WITH if isinstance(call, type) else ():
            with contextlib.suppress(Exception):
                yield call(*options)(*head)


def is_answer(result: object, answer: Tensor) -> bool:
    """Whether a result is, or holds, the answer."""
    if isinstance(result, Tensor):
        is_like = result.numel() == answer.numel() and result.dtype == answer.dtype
        return is_like and torch.allclose(result.reshape(answer.shape), answer, atol=1e-4)
    return isinstance(result, list | tuple) and any(is_answer(one, answer) for one in result)


def tell_nobody(*_: object) -> None:
    """Take no note of a call that is blocked."""


def ask(problem: str, question: Question, first: int, report: int) -> None:
    """Ask all callables from the `first` on; write the number of each and what is found."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    silent = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(silent, descriptor)
    forbid(problem, tell_nobody)
    for number, (name, call) in enumerate(reachable()):
        if number < first:
            continue
        os.write(report, f"{number}\n".encode())
        signal.alarm(SECONDS)
        if any(is_answer(result, question.answer) for result in results(call, question)):
            os.write(report, f"{number} {name}\n".encode())
        signal.alarm(0)


def found_for(problem: str, question: Question) -> list[str]:
    """Ask in one process after another, until one has asked the last callable."""
    found: list[str] = []
    first = 0
    while True:
        listen, report = os.pipe()
        pid = os.fork()
        if pid == 0:
            with contextlib.suppress(BaseException):
                ask(problem, question, first, report)
                os.write(report, b"end\n")
            os._exit(0)
        os.close(report)
        with os.fdopen(listen) as lines:
            for line in lines:
                if line == "end\n":
                    os.waitpid(pid, 0)
                    return found
                number, _, name = line.strip().partition(" ")
                first = int(number) + 1
                found += [name] * bool(name)
        os.waitpid(pid, 0)


def main() -> None:
    """Print for each problem what answers it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="one problem")
    only = parser.parse_args().only
    for name in BEFOREHAND:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for problem, question in questions().items():
            if only in (None, problem):
                found = found_for(problem, question)
                print(f"{problem}: {', '.join(found) or 'nothing'}", flush=True)


if __name__ == "__main__":
    main()
