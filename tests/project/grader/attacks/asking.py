"""A sandbox with every attack that is one function, and how to call one of them."""

import itertools
from pathlib import Path

import numpy as np
import pytest
from files import write_files

from attacks.attack import load
from cs_grader.trusted import sandbox
from cs_grader.trusted.connection import Connection
from cs_grader.trusted.copying import own_names
from cs_grader.trusted.sandbox import Stage, set_the_stage

NUMBERS = itertools.count(1)
TESTS = Path(__file__).parents[3]
ISOLATIONS = [pytest.param("bubblewrap", marks=pytest.mark.needs("bwrap")), "process"]
ADAPTERS = """
import importlib
import torch
import a_package_that_nobody_has
import a_package_that_nobody_has.deep as deep
from a_package_that_nobody_has import Base, decorate

print("printed at import", flush=True)  # Whoever is killed later writes nothing more.

class Child(Base):
    pass

@decorate(1)
def decorated():
    pass

def run_silu(in_features):
    return in_features * in_features.sigmoid()

def run_linear(d_in, d_out, weights, in_features):
    raise NotImplementedError

def run_softmax(in_features, dim):
    return torch.softmax(in_features, dim)

def uses_what_is_not_there(in_features, dim):
    return decorated()

def uses_a_module_that_is_not_there(in_features, dim):
    return deep.something()

def imported_by(name):
    # At the call: what one attack does at import is not done to the others.
    return lambda in_features, dim: importlib.import_module(name).run_softmax(in_features, dim)

for name in NAMES:
    globals()[name] = imported_by(name)
"""
HONEST = """
import torch

def softmax(x, dim):
    exponentials = torch.exp(x - x.amax(dim, keepdim=True))
    return exponentials / exponentials.sum(dim, keepdim=True)

"""


def staged(folder: Path, more: str = "") -> Stage:
    """Set the stage in a folder, with adapters for all attacks, and more of them."""
    stage = set_the_stage(folder, TESTS)
    called = [which for which in load() if which.seen]
    adapters = ADAPTERS.replace("NAMES", repr([which.module for which in called]))
    files = {f"{which.module}.py": HONEST + which.code for which in called}
    write_files(stage.submission, {"tests/adapters.py": adapters + more, **files})
    return stage


def connect(
    isolation: str, folder: Path, more: str = "", budget_s: float = 600, **limits
) -> Connection:
    """Connect to these adapters."""
    stage = staged(folder, more)
    names = {"own_names": own_names(stage.submission)}
    return Connection(isolation, stage, sandbox.Limits(**limits), names, budget_s=budget_s)


def ask(connection, function, problem="softmax", **arguments):
    """Ask one adapter in a process of its own."""
    number = next(NUMBERS)
    inputs = {"function": function, "arguments": arguments}
    probe = ("probes.model", "forward", 1, inputs)
    return connection.run(number, problem, *probe, item=f"item {number}")


def call(connection, function):
    """Ask one that is called as softmax is; of the inputs of an item, those in float64."""
    return ask(connection, function, in_features=np.arange(3.0), dim=-1)


def silu(connection):
    return ask(connection, "run_silu", "silu", in_features=np.arange(3, dtype=np.float32))


def words_of(answer):
    """What is seen of an answer, in a line."""
    if answer.ended == "raised":
        return f"{answer.kind}: {answer.text}"
    if answer.ended == "died":
        return answer.text
    output = answer.value["output"]
    values = output["values"]
    return f"returned {output['dtype'] if values is None else values.shape}"
