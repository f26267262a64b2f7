"""Contracts: other conventions than the usual ones, in book, handout and examination alike."""

import ast
import importlib
import itertools
import random
import subprocess
import sys

import pytest
from editions import ROOT, make_starter, plain_environment

sys.path.append(str(ROOT / "scripts" / "maintain"))
contract = importlib.import_module("contract")
contracted = importlib.import_module("starter.contracted")
contracts = importlib.import_module("contracts")

OTHERS = {
    name: [option for option in options if option != getattr(contract.DEFAULT, name)]
    for name, options in contract.OPTIONS.items()
}
ALL_CHANGED = contract.Contract(**{name: options[0] for name, options in OTHERS.items()})
# An item of each of these problems, by its file: what all the others show is for `make contracts`.
ITEMS = {
    "rope": ("rope", "follows_the_token_positions"),
    "train_bpe": ("train_bpe", "piece_by_piece"),
    "rmsnorm": ("rmsnorm", "of_each_vector"),
    "positionwise_feedforward": ("layers", "gates"),
    "embedding": ("initialisation", "embedding_starts"),
    "adamw": ("adamw", "after_its_update"),
    "softmax": ("softmax", "sums_to_one"),
}


def test_every_option_says_something_to_student_and_reference():
    assert {path.stem for path in contracted.CONVENTIONS.iterdir()} == set(OTHERS)
    for name, options in OTHERS.items():
        assert list(contracted.edits_of(name)) == options
        for edits in contracted.edits_of(name).values():
            files = {file for file, _, _ in edits}
            assert "docs/handout.md" in files, name
            assert any(file.startswith(("cs_basics/", "tests/adapters.py")) for file in files), name


def test_every_choice_of_conventions_can_be_written():
    options = [contract.OPTIONS[name] for name in OTHERS]
    for values in itertools.product(*options):
        wanted = contract.Contract(**dict(zip(OTHERS, values, strict=True)))
        for file, text in contracted.rewritten(wanted).items():
            assert not file.endswith(".py") or max(map(len, text.splitlines())) <= 100, file


@pytest.mark.parametrize("name", [*OTHERS, "all"])
def test_what_is_written_is_python(name):
    wanted = ALL_CHANGED if name == "all" else contract.Contract(**{name: OTHERS[name][0]})
    for file, text in contracted.rewritten(wanted).items():
        if file.endswith(".py"):
            ast.parse(text)


def test_the_usual_contract_changes_nothing():
    assert contracted.rewritten(contract.DEFAULT) == {}


def test_what_an_edit_replaces_has_to_be_there(monkeypatch):
    monkeypatch.setattr(contracted, "HEADING", "what nobody has written")
    with pytest.raises(ValueError, match="does not say 'what nobody has written'"):
        contracted.rewritten(ALL_CHANGED)


def test_a_contract_is_read_as_it_was_written(tmp_path):
    contract.write(tmp_path / "contract.toml", ALL_CHANGED)
    assert contract.read(tmp_path / "contract.toml") == ALL_CHANGED


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('rope_pairs = "thirds"', 'use "neighbours" or "halves"'),
        ("rope_pairs = [1]", 'use "neighbours" or "halves"'),
        ('rope = "halves"', "there is no convention rope: use rope_pairs, "),
        ("rope_pairs", "contract.toml: "),
    ],
)
def test_a_contract_that_makes_no_sense_is_refused_in_a_line(script, tmp_path, text, complaint):
    file = tmp_path / "contract.toml"
    file.write_text(text, encoding="utf-8")
    made = tmp_path / "made"
    finished = script("instructor/make_starter", "--out", made, "--contract", file)
    assert finished.code == 2
    assert complaint in finished.err
    assert finished.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == [file]


def test_the_examination_refuses_such_a_contract_in_a_line(tmp_path):
    contracted.write_contracted(tmp_path / "repository", ALL_CHANGED)
    file = tmp_path / "repository" / "tests" / "contract.toml"
    file.write_text('rope_pairs = "thirds"', encoding="utf-8")
    finished = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:xdist", "tests/test_rope.py"],
        cwd=tmp_path / "repository",
        env=plain_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == pytest.ExitCode.USAGE_ERROR
    assert "rope_pairs = 'thirds' is no option" in finished.stderr
    assert "Traceback" not in finished.stderr


@pytest.mark.parametrize("seed", [1])
def test_a_reference_made_for_a_contract_passes_and_the_usual_one_is_told(seed):
    wanted = contracts.drawn(random.Random(seed))
    items = [ITEMS[problem] for problem in ITEMS if problem in contracts.touched(wanted)]
    files = [f"tests/test_{name}.py" for name, _ in items]
    trial = contracts.attempt(wanted, [*files, "-k", " or ".join(item for _, item in items)])
    assert trial.lost == []
    assert trial.failed == trial.named == trial.touched & ITEMS.keys()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """An edition in which all is changed, its solution, and the answers of a file of tests."""
    folder = tmp_path_factory.mktemp("contract")
    root, edition, solution = (folder / name for name in ("root", "edition", "solution"))
    contracted.write_contracted(root, ALL_CHANGED)
    make_starter.build(edition, root)
    make_starter.fill_in(solution, edition, root)
    answers = edition / "tests" / "stored_answers.npz"
    make_starter.record_answers(answers, ["tests/test_rope.py"], root)
    return edition, solution


def test_the_edition_says_what_it_asks_for_and_not_how(made):
    edition, solution = made
    handout = (edition / "docs" / "handout.md").read_text(encoding="utf-8")
    assert all(ALL_CHANGED.says(name) in handout for name in ALL_CHANGED.changed())
    # The grader would run it on the trusted side.
    assert not (solution / "conftest.py").exists()
    assert "i + d_head / 2 form a pair" in (edition / "cs_basics/rope.py").read_text("utf-8")
    for module, secret in (("attention", "divided_by_rms"), ("layers", "relu_squared")):
        assert secret in (solution / "cs_basics" / f"{module}.py").read_text(encoding="utf-8")
        for path in edition.rglob("*.py"):
            assert f"def {secret}" not in path.read_text(encoding="utf-8"), path


def test_stored_answers_follow_the_contract(made, sit, tmp_path):
    edition, solution = made
    at_home = tmp_path / "at-home"
    make_starter.shutil.copytree(edition, at_home)
    make_starter.shutil.copytree(solution / "cs_basics", at_home / "cs_basics", dirs_exist_ok=True)
    rows = sit(at_home, "tests/test_rope.py")
    assert {row["outcome"] for row in rows.values()} == {"passed"}
