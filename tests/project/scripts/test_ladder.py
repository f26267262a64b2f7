"""scripts/ladder.py: what each run is given, stopped, resumed, refused; trainings are acted."""

import json
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

GAIN = {"": 0.0, "linear": -0.1, "noise": 0.2}


@pytest.fixture
def acted(monkeypatch):
    """Replace train.py and evaluate.py; the list of their command lines."""
    calls = []

    def act(command, *, env, stdout, **_):
        calls.append(SimpleNamespace(command=command, env=env))
        if "--run-dir" in command:
            run = Path(command[command.index("--run-dir") + 1])
            run.mkdir()
            (run / "checkpoints").mkdir()
            (run / "metrics.jsonl").write_text('{"step": 12, "elapsed_s": 1.0}\n')
            if calls[0].env.get("LADDER_FAILS") and "linear" in command:
                return SimpleNamespace(returncode=2)
        else:
            folder = Path(command[2]).parent
            recipe = folder.parent.name.replace("base", "")
            score = 1 + sum(GAIN[name] for name in recipe.split("+"))
            score += 0.001 * int(folder.name.removeprefix("seed-"))
            stdout.write(json.dumps({"bits_per_byte": score}).encode())
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr(subprocess, "run", act)
    return calls


@pytest.fixture
def ladder(script, texts, tmp_path):
    """Call the script with three seeds and two rungs."""

    def call(*more):
        given = ["--train-text", texts[0], "--valid-text", texts[1], "--out", tmp_path / "out"]
        return script("ladder", *given, "--rungs", "linear", "noise", "--seeds", 0, 1, 2, *more)

    return call


def after(command, flag):
    return command[command.index(flag) + 1]


def test_rungs_are_chosen_without_the_validation_text_and_the_winner_gets_all(
    acted, ladder, texts, tmp_path
):
    result = ladder()
    assert result.code == 0, result.err
    assert "accepted: linear" in result.out
    trained = [call.command for call in acted if "--run-dir" in call.command]
    judged = [call.command for call in acted if "--run-dir" not in call.command]
    # base, linear, noise, linear + noise; then base and linear again.
    assert len(trained) == len(judged) == 6 * 3
    valid, out = str(texts[1]), tmp_path / "out"
    assert not any(valid in command for command in trained)
    assert [valid in command for command in judged] == [False] * 12 + [True] * 6
    for command in trained[:12]:
        assert after(command, "--train-text") == str(out / "texts" / "rest.txt")
    for command in trained[12:]:
        assert after(command, "--train-text") == str(texts[0])
    for call in acted:
        assert int(call.env["OMP_NUM_THREADS"]) <= 2
        assert not Path(call.env["TORCHINDUCTOR_CACHE_DIR"]).exists()
    page = (out / "record.md").read_text()
    assert "rehearsal" in page
    assert "better than the base on the validation text" in page
    assert (out / "pictures" / "record.png").read_bytes().startswith(b"\x89PNG")
    assert not list(out.glob("choice/*/*/run/checkpoints"))
    # Again: nothing is left to do.
    acted.clear()
    assert ladder().code == 0
    assert not acted
    # A run that was killed left no score; it alone is repeated.
    (out / "choice" / "noise" / "seed-1" / "score.json").unlink()
    assert ladder().code == 0
    assert [after(call.command, "--seed") for call in acted if "--seed" in call.command] == ["1"]


@pytest.mark.usefixtures("acted")
def test_a_rung_whose_run_fails_is_not_accepted(ladder, monkeypatch, tmp_path):
    monkeypatch.setenv("LADDER_FAILS", "1")
    result = ladder()
    assert result.code == 0, result.err
    assert "accepted: nothing" in result.out
    assert "a run failed" in (tmp_path / "out" / "record.md").read_text()


@pytest.mark.usefixtures("acted")
def test_a_folder_is_not_continued_with_another_length(ladder):
    assert ladder().code == 0
    result = ladder("--max-minutes", 3)
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert "was begun with another minutes" in result.err


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--seeds", 1, 1), "give one or more, each once"),
        (("--max-minutes", 0), "max_minutes=0.0 must be greater than 0"),
        (("--rungs", "moun"), "there is no rung 'moun'"),
        (("--valid-text", "nowhere.txt"), "nowhere.txt does not exist"),
    ],
)
def test_bad_input_is_one_line(acted, ladder, tmp_path, more, message):
    result = ladder(*more)
    assert (result.code, message in result.err) == (2, True)
    assert not acted
    assert not (tmp_path / "out").exists()
