"""scripts/ladder.py: what each run is given, stopped, resumed, refused; trainings are acted."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from cs_basics.run.folder import RunFolder
from cs_basics.study.record.texts import checksum

GAIN = {"": 0.0, "linear": -0.1, "noise": 0.2}


@pytest.fixture
def acted(monkeypatch):
    """Replace train.py and evaluate.py; the list of their command lines."""
    calls = []

    def act(command, *, env, stdout, stderr, **_):
        calls.append(SimpleNamespace(command=command, env=env))
        if "update_cost.py" in str(command[1]):
            noise = {"noise": 1.25}.get(Path(command[3]).name, 1.0)
            stdout.write(f"a line that is logged\n{json.dumps({'cost': noise})}\n".encode())
            return SimpleNamespace(returncode=int(env.get("COST_FAILS", "0")))
        if "--run-dir" in command:
            steps = after(command, "--max-steps") if "--max-steps" in command else 5
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
            "--choice-updates",
            100,
            "--choice-stories",
            1,
        ]
        return script("ladder", *given, *more)

    return call


def is_run(call):
    """Whether it is a training."""
    return "--run-dir" in call.command


def after(command, flag):
    return command[command.index(flag) + 1]


def test_rungs_are_chosen_without_the_validation_text_and_the_winner_gets_all(
    acted, ladder, texts, tmp_path
):
    result = ladder()
    assert result.code == 0, result.err
    assert "accepted: linear" in result.out
    trained = [call for call in acted if is_run(call)]
    judged = [call.command for call in acted if "evaluate.py" in str(call.command[1])]
    costs = [call for call in acted if "update_cost.py" in str(call.command[1])]
    # Base, linear, noise on top of it; base and linear again, in turns; an hour; noise alone.
    choices, finals = [*trained[:9], *trained[16:]], trained[9:16]
    updates = [after(call.command, "--max-steps") for call in choices]
    assert updates == 6 * ["100"] + 6 * ["80"]
    assert {after(call.command, "--max-minutes") for call in choices} == {"None"}
    minutes = [after(call.command, "--max-minutes") for call in finals]
    assert minutes == 6 * ["10.0"] + ["60.0"]
    assert not any("--max-steps" in call.command for call in finals)
    schedules = [after(call.command, "--schedule") for call in trained[6:]]
    assert schedules == 3 * ["linear"] + 3 * ["cosine", "linear"] + ["linear"] + 3 * ["cosine"]
    valid, out = str(texts[1]), tmp_path / "out"
    assert not any(valid in call.command for call in trained)
    assert [valid in command for command in judged] == [False] * 9 + [True] * 7 + [False] * 3
    for call in choices:
        part = out / "texts" / checksum(texts[0]) / "part-1.txt"
        assert after(call.command, "--train-text") == str(part)
        assert call.env["TORCHINDUCTOR_CACHE_DIR"] == str(out / "cache")
    for call in finals:
        assert after(call.command, "--train-text") == str(texts[0])
        assert not Path(call.env["TORCHINDUCTOR_CACHE_DIR"]).exists()
    # The time of an update is measured once, against the base; a schedule does not change it.
    assert [tuple(path.name for path in map(Path, call.command[2:])) for call in costs] == [
        ("base", "noise")
    ]
    measured = [RunFolder(Path(path)).read_config() for path in costs[0].command[2:]]
    assert [(c.optim.schedule, c.data.token_noise) for c in measured] == [
        ("cosine", 0.0), ("cosine", 0.1)
    ]  # fmt: skip
    assert {c.data.train_text for c in measured} == {part}
    for call in acted:
        assert int(call.env["OMP_NUM_THREADS"]) <= 2
    # Ten minutes of the base and of what is accepted, for each seed, and the hour.
    assert result.out.split("(at most about ")[1].startswith("2h 00m left)")
    assert "(at most about 1h 10m left)" in result.out
    assert "(at most about 1h 00m left)" in result.out
    page = (out / "record.md").read_text()
    assert "rehearsal" in page
    assert "together are better than the base on the validation text" in page
    assert (out / "pictures" / "record.png").read_bytes().startswith(b"\x89PNG")
    assert not list(out.glob("choice/*/*/run/checkpoints"))
    # Again: nothing is left to do.
    acted.clear()
    assert ladder().code == 0
    assert not acted
    # A run that was killed left no score; it alone is repeated, and for the same time.
    scores = out / "record.jsonl"
    noise = '"choice", "recipe": ["noise"], "seed": 1,'
    kept = [line for line in scores.read_text().splitlines() if noise not in line]
    scores.write_text("\n".join(kept))
    assert ladder().code == 0
    assert [after(call.command, "--seed") for call in acted if is_run(call)] == ["1"]
    assert after(acted[0].command, "--max-steps") == "80"
    assert noise in scores.read_text()


@pytest.mark.usefixtures("acted")
def test_a_time_that_cannot_be_measured_ends_the_ladder(ladder, monkeypatch, tmp_path):
    monkeypatch.setenv("COST_FAILS", "2")
    result = ladder()
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert "noise failed, and counts for nothing" in result.err
    assert '"noise"' not in (tmp_path / "out" / "record.jsonl").read_text().split("\n", 1)[1]


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
    scores.write_text(scores.read_text().replace('"noise"', '"gone"'))
    result = ladder()
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert "gone have changed since" in result.err


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
    page = (tmp_path / "out" / "record.md").read_text()
    assert "a run failed" in page
    assert "inf \N{PLUS-MINUS SIGN}" not in page
    rows = map(json.loads, (tmp_path / "out" / "record.jsonl").read_text().splitlines()[1:])
    assert {row["steps"] for row in rows if row["failure"]} == {100}


@pytest.mark.parametrize("code", [-9, 130, 143])
@pytest.mark.usefixtures("acted")
def test_a_run_that_is_killed_says_nothing_of_its_rung(ladder, monkeypatch, tmp_path, code):
    monkeypatch.setenv("LADDER_FAILS", str(code))
    result = ladder()
    assert result.code == 2
    assert f"was killed (exit code {code}): call this again" in result.err
    assert "linear" not in (tmp_path / "out" / "record.jsonl").read_text().split("\n", 1)[1]


@pytest.mark.usefixtures("acted")
def test_the_time_of_an_update_is_measured_in_a_fresh_folder(ladder, tmp_path):
    """Tokens of another text would be refused there."""
    left = tmp_path / "out" / "cost" / "noise" / "tokens"
    left.mkdir(parents=True)
    assert ladder().code == 0
    assert left.parent.is_dir()
    assert not left.exists()


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
        (("--choice-updates", 0), "choice_updates=0 must be at least 1"),
        (("--choice-stories", 1000), "no tenth can be held out: at least 10000 are needed"),
        (("--rungs", "moun"), "there is no rung 'moun'"),
        (("--valid-text", "nowhere.txt"), "nowhere.txt does not exist"),
    ],
)
def test_bad_input_is_one_line(acted, ladder, tmp_path, more, message):
    result = ladder(*more)
    assert (result.code, message in result.err) == (2, True)
    assert not acted
    assert not (tmp_path / "out").exists()
