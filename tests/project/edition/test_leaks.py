"""Nothing of the edition holds or computes what a student is to write, with one exception.

No file of any kind holds a body of the solution. No function or class computes an answer: neither
what is given in cs_basics/ and given/, nor the scripts, nor the examination and its helpers.

The exception is the JavaScript of given/interop/page/. It runs a trained model in a browser and has
a forward pass and an encoder of its own for that; whoever translates it has these parts. It learns
nothing: there are no gradients in it, no optimizer, and no training of a tokenizer.
"""

import ast
import json
import pickle
import subprocess
import sys
import zipfile

import pytest
from computes import forms
from copies import copied, solutions
from editions import HERE, make_starter, plain_environment
from twins import OPTIMIZER, TOLD_THE_NORM, TWINS

HIDING_PLACES = (
    "cs_basics/bpe.py", "cs_basics/training.py", "given/run/clock.py", "given/variants/__init__.py",
    "scripts/share.py", "tests/compare.py", "tests/test_rope.py", "tests/mistakes/attention.py",
    "tests/oracles/model.py", "tests/probes/modules.py",
)  # fmt: skip
"""Files of every folder, to each of which a twin of silu is added."""


def all_texts(folder):
    """Yield the text of every file by its place; of an archive, of each file in it."""
    for path in sorted(folder.rglob("*")):
        if path.is_dir() or "__pycache__" in path.parts:
            continue
        place = path.relative_to(folder).as_posix()
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                for name in archive.namelist():
                    yield f"{place}/{name}", archive.read(name).decode("latin-1")
        else:
            yield place, path.read_bytes().decode("utf-8")


def test_no_file_holds_a_body_of_the_solution(edition):
    texts = dict(all_texts(edition))
    assert {"docs/handout.md", "given/stories/plots.txt", "cs_basics/optim.py"} <= texts.keys()
    for place, text in texts.items():
        assert copied(place, text) == set(), place


def test_a_body_under_another_name_is_found(edition):
    given = (edition / "given" / "run" / "clock.py").read_text(encoding="utf-8")
    for name, _, node in solutions():
        twin = Renamed().visit(ast.parse(ast.unparse(node)))
        text = f"{given}\n\n{ast.unparse(twin)}\n"
        assert name in copied("given/run/clock.py", text), name


class Renamed(ast.NodeTransformer):
    """Gives all local names others, and takes the docstring away."""

    def visit_FunctionDef(self, node):
        node.name, node.decorator_list = "other", []
        node.body = node.body[ast.get_docstring(node) is not None :]
        local = {arg.arg for arg in node.args.args}
        local |= {
            part.id
            for part in ast.walk(node)
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
        }
        for part in ast.walk(node):
            if isinstance(part, ast.Name) and part.id in local:
                part.id = f"{part.id}_too"
            elif isinstance(part, ast.arg):
                part.arg = f"{part.arg}_too"
        return node


def test_a_body_in_a_text_is_found():
    for name, source, node in solutions():
        shown = "\n".join(source.splitlines()[node.lineno - 1 : node.end_lineno])
        if name.partition(".")[2] in {"learn_merges", "get_batch", "softmax"}:
            assert name in copied("docs/handout.md", f"For example:\n\n```\n{shown}\n```\n")


@pytest.fixture(scope="module")
def computed(edition, tmp_path_factory):
    """What of the edition computes an answer, and which planted twins do; [place, name, problem].

    One process looks at all of them, since it takes seconds to start.
    """
    folder = tmp_path_factory.mktemp("computes")
    made = pytest.MonkeyPatch()
    made.chdir(folder)
    (folder / "forms").write_bytes(pickle.dumps(forms()))
    made.undo()
    planted = {f"planted_{problem}": twin for problem, twin in TWINS.items()}
    planted["planted_optimizer"] = OPTIMIZER
    planted["planted_norm_told"] = TOLD_THE_NORM
    planted |= dict.fromkeys(HIDING_PLACES, TWINS["silu"])
    finished = subprocess.run(
        [sys.executable, HERE / "computes.py", edition, folder / "forms"],
        input=json.dumps(planted),
        cwd=folder,
        env=plain_environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,  # computes.py itself counts CPU only: what waits for ever uses none.
    )
    assert finished.returncode == 0, finished.stderr
    return json.loads(finished.stdout)


def test_nothing_given_computes_an_answer(computed):
    planted = [[place, "bend", "silu"] for place in HIDING_PLACES]
    found = [found for found in computed if not found[0].startswith("planted_")]
    assert [twin for twin in found if twin not in planted] == []


@pytest.mark.parametrize("place", HIDING_PLACES)
def test_a_twin_in_any_folder_is_noticed(computed, place):
    assert [place, "bend", "silu"] in computed


def test_each_problem_has_a_twin():
    assert TWINS.keys() == make_starter.SOLUTIONS.keys()


@pytest.mark.parametrize("problem", TWINS)
def test_a_twin_in_another_wording_is_noticed(computed, problem):
    assert problem in [found for place, _, found in computed if place == f"planted_{problem}"]


def test_a_twin_of_the_optimizer_is_noticed(computed):
    assert ["planted_optimizer", "Mover", "adamw"] in computed


def test_a_twin_of_clipping_that_is_told_the_norm_is_noticed(computed):
    assert ["planted_norm_told", "shrink", "gradient_clipping"] in computed
