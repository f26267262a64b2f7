"""scripts/ladder.py: what each run is given, stopped, resumed, refused; trainings are acted."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from cs_basics.study.record.texts import checksum

GAIN = {"": 0.0, "linear": -0.1, "noise": 0.2}


@pytest.fixture
def acted(monkeypatch):
    """Replace train.py and evaluate.py; the list of their command lines."""
    calls = []

    def act(command, *, env, stdout, stderr, **_):
        calls.append(SimpleNamespace(command=command, env=env))
        if "--run-dir" in command:
            in_half_a_minute = int(os.environ.get("LADDER_STEPS", "12"))
            minutes = float(after(command, "--max-minutes"))
            # A choice is slower than its first half a minute, where a test says so.
            slower = float(os.environ.get("LADDER_SLOWER", "1")) if minutes > 0.5 else 1
            steps = round(2 * minutes * in_half_a_minute / slower)
            run = Path(command[command.index("--run-dir") + 1])
            run.mkdir()
            (run / "checkpoints").mkdir()
            (run / "metrics.jsonl").write_text(f'{{"step": {steps}, "elapsed_s": 1.0}}\n')
            if env.get("LADDER_FAILS") and env.get("LADDER_FAILS_WITH", "linear") in command:
                stderr.write(env.get("LADDER_SAYS", "").encode())
                return SimpleNamespace(returncode=int(env["LADDER_FAILS"]))
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
        given += [
            "--rungs",
            "linear",
            "noise",
            "--seeds",
            0,
            1,
            2,
            "--choice-minutes",
            4,
            "--choice-stories",
            1,
        ]
        return script("ladder", *given, *more)

    return call


def is_run(call):
    """Whether it is a training that counts, not one that compiles."""
    return "--run-dir" in call.command and after(call.command, "--run-dir").endswith("run")


def after(command, flag):
    return command[command.index(flag) + 1]


def test_rungs_are_chosen_without_the_validation_text_and_the_winner_gets_all(
    acted, ladder, texts, tmp_path
):
    result = ladder()
    assert result.code == 0, result.err
    assert "accepted: linear" in result.out
    trained = [call for call in acted if is_run(call)]
    judged = [call.command for call in acted if "--run-dir" not in call.command]
    # The speed; base, linear, noise, linear + noise; base and linear again; linear for an hour.
    assert [after(call.command, "--max-minutes") for call in trained] == (
        ["0.5"] + 12 * ["4.0"] + 6 * ["10.0"] + ["60.0"]
    )
    valid, out = str(texts[1]), tmp_path / "out"
    assert not any(valid in call.command for call in trained)
    assert [valid in command for command in judged] == [False] * 12 + [True] * 7
    for call in trained[:13]:
        part = out / "texts" / checksum(texts[0]) / "part-1.txt"
        assert after(call.command, "--train-text") == str(part)
        assert call.env["TORCHINDUCTOR_CACHE_DIR"] == str(out / "cache")
    for call in trained[13:]:
        assert after(call.command, "--train-text") == str(texts[0])
        assert not Path(call.env["TORCHINDUCTOR_CACHE_DIR"]).exists()
    # Each recipe was compiled once before it was measured.
    assert len(acted) - len(trained) - len(judged) == 4
    for call in acted:
        assert int(call.env["OMP_NUM_THREADS"]) <= 2
    page = (out / "record.md").read_text()
    assert "rehearsal" in page
    assert "better than the base on the validation text" in page
    assert (out / "pictures" / "record.png").read_bytes().startswith(b"\x89PNG")
    assert not list(out.glob("choice/*/*/run/checkpoints"))
    # Again: nothing is left to do.
    acted.clear()
    assert ladder().code == 0
    assert not acted
    # A run that was killed left no score; it alone is repeated, after the speed was measured.
    scores = out / "record.jsonl"
    noise = '"choice", "recipe": ["noise"], "seed": 1,'
    kept = [line for line in scores.read_text().splitlines() if noise not in line]
    scores.write_text("\n".join(kept))
    assert ladder().code == 0
    assert [after(call.command, "--seed") for call in acted if is_run(call)] == ["0", "1"]
    assert noise in scores.read_text()


def test_on_a_slower_machine_a_run_takes_longer(acted, ladder, monkeypatch, tmp_path):
    for seed, steps, minutes, final in ((0, 100, 4, 10), (1, 50, 8, 20), (2, 400, 1, 2.5)):
        acted.clear()
        monkeypatch.setenv("LADDER_STEPS", str(steps))
        result = ladder("--seeds", *range(seed + 1))
        assert result.code == 0, result.err
        assert (f"{steps} updates in half a minute, 100 when" in result.out) == (seed > 0)
        lengths = [after(call.command, "--max-minutes") for call in acted if is_run(call)]
        hour = str(6.0 * final)
        num_speeds = 3 if seed else 1  # A difference is measured twice more.
        assert lengths[: num_speeds + 1] == ["0.5"] * num_speeds + [str(float(minutes))]
        assert {*lengths[num_speeds + 1 :]} - {hour} == {str(float(minutes)), str(float(final))}
        assert ("updates of the base as a choice, 800 when" in result.out) == (seed > 0)
    for steps in (0, 24, 401):
        acted.clear()
        monkeypatch.setenv("LADDER_STEPS", str(steps))
        result = ladder("--seeds", 0, 1, 2, 3)
        assert (result.code, result.err.count("\n")) == (2, 1)
        assert f"makes {steps} updates in half a minute, and 100 were made when" in result.err
        assert len([call for call in acted if is_run(call)]) == 3
    written = (tmp_path / "out" / "record.jsonl").read_text()
    assert '"seed": 3' not in written
    assert [written.count(f'"stretch": {stretch}') > 0 for stretch in (1.0, 2.0, 0.25)] == [
        True
    ] * 3


def test_a_whole_run_of_the_base_corrects_the_half_minute(acted, ladder, monkeypatch):
    monkeypatch.setenv("LADDER_STEPS", "100")
    assert ladder("--seeds", 0).code == 0
    acted.clear()
    monkeypatch.setenv("LADDER_STEPS", "50")
    monkeypatch.setenv("LADDER_SLOWER", "1.25")
    result = ladder("--seeds", 0, 1)
    lengths = [after(call.command, "--max-minutes") for call in acted if is_run(call)]
    assert lengths[:5] == ["0.5", "0.5", "0.5", "8.0", "10.0"]
    assert "640 updates of the base as a choice, 800 when the ladder was begun: 2.50" in result.out


def test_a_base_that_fails_on_another_machine_ends_the_ladder(acted, ladder, monkeypatch):
    monkeypatch.setenv("LADDER_STEPS", "100")
    assert ladder("--seeds", 0).code == 0
    monkeypatch.setenv("LADDER_STEPS", "50")
    monkeypatch.setenv("LADDER_FAILS", "2")
    monkeypatch.setenv("LADDER_FAILS_WITH", "8.0")
    monkeypatch.setenv("LADDER_SAYS", "error: loss is nan. Try a lower lr than 0.003\n")
    acted.clear()
    result = ladder("--seeds", 0, 1)
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert "the base cannot be trained: " in result.err
    assert after([call for call in acted if is_run(call)][-1].command, "--max-minutes") == "8.0"


def test_without_a_base_of_the_first_machine_the_half_minute_has_to_do(
    acted, ladder, monkeypatch, tmp_path
):
    monkeypatch.setenv("LADDER_STEPS", "100")
    assert ladder("--seeds", 0).code == 0
    scores = tmp_path / "out" / "record.jsonl"
    scores.write_text(scores.read_text().replace('"stretch": 1.0', '"stretch": 1.5'))
    acted.clear()
    monkeypatch.setenv("LADDER_STEPS", "50")
    result = ladder("--seeds", 0, 1)
    assert result.code == 0, result.err
    assert "as a choice" not in result.out
    lengths = [after(call.command, "--max-minutes") for call in acted if is_run(call)]
    assert lengths[:5] == ["0.5", "0.5", "0.5", "8.0", "8.0"]


def test_a_difference_of_speed_that_is_chance_changes_nothing(acted, ladder, monkeypatch):
    monkeypatch.setenv("LADDER_STEPS", "100")
    assert ladder("--seeds", 0).code == 0
    acted.clear()
    monkeypatch.setenv("LADDER_STEPS", "92")
    result = ladder("--seeds", 0, 1)
    assert "updates in half a minute" not in result.out
    lengths = [after(call.command, "--max-minutes") for call in acted if is_run(call)]
    assert lengths[:2] == ["0.5", "4.0"]


def test_two_ladders_at_once_are_refused(acted, ladder, tmp_path):
    (tmp_path / "out").mkdir()
    holding = (
        "import fcntl, sys; file = open(sys.argv[1], 'ab'); fcntl.lockf(file, fcntl.LOCK_EX); "
        "print(flush=True); input()"
    )
    command = [sys.executable, "-c", holding, tmp_path / "out" / "lock"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        other.stdout.readline()
        result = ladder()
        other.communicate("\n")
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert (
        f"another process is climbing in {tmp_path / 'out'}: wait for it, or stop it" in result.err
    )
    assert not acted
    assert ladder().code == 0


@pytest.mark.usefixtures("acted")
def test_rungs_that_have_changed_are_trained_again(ladder, tmp_path):
    assert ladder().code == 0
    scores = tmp_path / "out" / "record.jsonl"
    scores.write_text(scores.read_text().replace('"token_noise": 0.1', '"token_noise": 0.3'))
    result = ladder()
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert "noise have changed since" in result.err


@pytest.mark.usefixtures("acted")
def test_a_run_that_lacks_something_says_nothing_of_its_rung(ladder, monkeypatch, tmp_path):
    monkeypatch.setenv("LADDER_FAILS", "2")
    monkeypatch.setenv("LADDER_SAYS", "error: [Errno 28] No space left on device\n")
    result = ladder()
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert "failed, and counts for nothing: error: [Errno 28]" in result.err
    assert "linear" not in (tmp_path / "out" / "record.jsonl").read_text().split("\n", 1)[1]


@pytest.mark.usefixtures("acted")
def test_a_rung_whose_run_fails_is_not_accepted(ladder, monkeypatch, tmp_path):
    monkeypatch.setenv("LADDER_FAILS", "2")
    monkeypatch.setenv("LADDER_SAYS", "error: step 3: loss nan. Try a lower lr than 0.003\n")
    result = ladder()
    assert result.code == 0, result.err
    assert "accepted: nothing" in result.out
    assert "a run failed" in (tmp_path / "out" / "record.md").read_text()


@pytest.mark.parametrize("code", [-9, 130, 143])
@pytest.mark.usefixtures("acted")
def test_a_run_that_is_killed_says_nothing_of_its_rung(ladder, monkeypatch, tmp_path, code):
    monkeypatch.setenv("LADDER_FAILS", str(code))
    result = ladder()
    assert result.code == 2
    assert f"was killed (exit code {code}): call this again" in result.err
    assert "linear" not in (tmp_path / "out" / "record.jsonl").read_text().split("\n", 1)[1]


@pytest.mark.usefixtures("acted")
def test_a_folder_is_not_continued_with_another_length(ladder):
    assert ladder().code == 0
    result = ladder("--max-minutes", 3)
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert "was begun with another minutes=10.0, now 3.0" in result.err


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--seeds", 1, 1), "give one or more, each once"),
        (("--seeds", -1), "seeds=(-1,): each must be 0 or greater"),
        (("--max-minutes", 0), "max_minutes=0.0 must be greater than 0"),
        (("--choice-stories", 0), "choice_stories=0 must be at least 1"),
        (("--choice-minutes", 0), "max_minutes=0.0 must be greater than 0"),
        (("--choice-stories", 1000), "no tenth can be held back: at least 10000 are needed"),
        (("--rungs", "moun"), "there is no rung 'moun'"),
        (("--valid-text", "nowhere.txt"), "nowhere.txt does not exist"),
    ],
)
def test_bad_input_is_one_line(acted, ladder, tmp_path, more, message):
    result = ladder(*more)
    assert (result.code, message in result.err) == (2, True)
    assert not acted
    assert not (tmp_path / "out").exists()
