"""The sentences: what is said, how it is measured and judged, from the files in sentences/.

A file is a chapter of the page and has an entry for each sentence; its keys are Claim's fields.
"""

import ast
import hashlib
import importlib
import json
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import torch

from lab.claims.measures.trainings import trained
from lab.claims.rules import Figures

HERE = Path(__file__).parent
MEASURES = "lab.claims.measures."


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A sentence, and all that decides what is true of it."""

    name: str
    chapter: str
    sentence: str
    source: str
    """Who says it; "circulates": texts repeat it without a measurement."""
    measured: str
    """What the figures are, in words."""
    rule: str
    """Judges the sentence; rules.py."""
    by: str = ""
    """The measuring function: MODULE.NAME in measures/."""
    given: Mapping[str, Any] = field(default_factory=dict)
    """Its arguments."""
    trains: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Small trainings that it compares, by name: settings that differ from the base's."""
    program: str = ""
    """Instead of a function: lines that a reader can run, and leave `figures`."""
    where: str = ""
    """Judges a weaker sentence, if the first is not true."""
    words: str = ""
    """How that one is told: "where the gain is 1"."""
    limits: str = ""
    """What the verdict holds for: "this CPU, 5 M parameters"."""
    contrary: Mapping[str, Any] = field(default_factory=dict)
    """An exchange of what is measured that turns the verdict: other arguments, or of a program
    other lines."""
    otherwise: Mapping[str, float] = field(default_factory=dict)
    """Figures that turn the verdict, where an exchange would cost minutes."""
    cost: str = "quick"
    """quick; slow (compiles, or trains for seconds, or runs tests); quiet (times, which need a
    machine with nothing else to do); trained."""
    needs: str = ""
    """What a machine must have (results.py: NEEDS)."""
    seeds: int = 6
    """Measured with at most so many."""
    taught: str = ""
    """The figure in docs/norms.md, with figures in braces; there it is one of the claims that
    teach."""
    why: str = ""
    """What is right, of an error."""

    @cached_property
    def code(self) -> str:
        """Checksum of what measures it; a result of another code is stale."""
        parts = [self.program, json.dumps([self.given, self.trains], sort_keys=True)]
        if self.by:
            module, name = self.by.split(".")
            parts += sources_of(module, name, set())
        if self.trains:
            parts += sources_of("trainings", "BASE", set())
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]

    @property
    def function(self) -> Callable[..., Figures]:
        """The measuring function."""
        module, name = self.by.split(".")
        return getattr(importlib.import_module(MEASURES + module), name)

    def measure(self, seed: int, exchange: Mapping[str, Any] | None = None) -> Figures:
        """Measure with one seed, with or without an exchange of what is measured."""
        if self.program:
            program, names = self.program, dict[str, Any](seed=seed)
            for old, new in (exchange or {}).items():
                assert old in program, f"{self.name}: {old} is not in the program"
                program = program.replace(old, new)
            exec(program, names)
            return {n: float(torch.as_tensor(v).item()) for n, v in names["figures"].items()}
        first = {name: trained(run, seed) for name, run in self.trains.items()} or seed
        return self.function(first, **{**self.given, **(exchange or {})})


def sources_of(module: str, name: str, seen: set[tuple[str, str]]) -> list[str]:
    """Return the code of a name of a module in measures/ and of all there that it uses.

    As syntax trees, which layout and comments do not change.
    """
    defined, imported = names_of(module)
    if module == "trainings" and name != "BASE":
        return []  # Not a trained model's code, or a night of trainings would be stale too soon.
    if name in imported:
        return sources_of(*imported[name], seen)
    if name not in defined or (module, name) in seen:
        return []
    seen.add((module, name))
    used = {node.id for node in ast.walk(defined[name]) if isinstance(node, ast.Name)}
    parts = (sources_of(module, each, seen) for each in sorted(used))
    return [ast.dump(defined[name]), *(source for part in parts for source in part)]


@cache
def names_of(module: str) -> tuple[dict[str, ast.stmt], dict[str, tuple[str, str]]]:
    """Return what a module defines, and what it imports from others in measures/."""
    defined: dict[str, ast.stmt] = {}
    imported: dict[str, tuple[str, str]] = {}
    for node in ast.parse((HERE / "measures" / f"{module}.py").read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            defined[node.name] = node
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                defined |= {n.id: node for n in ast.walk(target) if isinstance(n, ast.Name)}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(MEASURES):
            source = str(node.module).removeprefix(MEASURES)
            imported |= {alias.name: (source, alias.name) for alias in node.names}
    return defined, imported


def read_sentences() -> dict[str, Claim]:
    """Return all claims by name, in the order of the page."""
    claims: dict[str, Claim] = {}
    for path in sorted((HERE / "sentences").glob("*.toml")):
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        title = content.pop("title")
        for name, entry in content.items():
            assert name not in claims, f"two sentences are called {name}"
            claims[name] = Claim(name=name, chapter=title, **entry)
    return claims
