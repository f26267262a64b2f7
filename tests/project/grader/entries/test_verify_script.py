"""verify.py as an instructor runs it: behind the real wall, with its exit codes and messages."""

import json
import subprocess

import pytest
from cheats import planted_code
from tiny import COMMAND, Recipe, Workshop, copied, write

from cs_grader.outside import tiers


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    return Workshop(tmp_path_factory.mktemp("shop"), subprocess.Popen)


@pytest.fixture(scope="module")
def honest(shop):
    return shop.make("honest")


@pytest.fixture
def verify(script, shop, tmp_path):
    def call(entry, *more):
        given = [f"--{role}-text={path}" for role, path in shop.paths.items()]
        board = tmp_path / "board.jsonl"
        return script("instructor/verify", entry, *given, "--leaderboard", board, *more)

    return call


LOOK = """
    for place in (Path({valid!r}), *Path("/").glob("tmp/**/valid.txt")):
        if place.is_file():
            return place, place
    if config.data.train_text is not None"""


@pytest.mark.slow
def test_behind_the_wall_the_validation_text_is_nowhere(verify, shop, honest, tmp_path):
    """Code that trains on it if it finds it leads to the figure of honest code."""
    if reason := tiers.why_not("bubblewrap"):
        pytest.skip(reason)
    entry = copied(honest, "looking")
    look = LOOK.format(valid=str(shop.paths["valid"]))
    source = planted_code("run/corpus.py", ("\n    if config.data.train_text is not None", look))
    write(entry / "code" / "cs_basics" / "run" / "corpus.py", source)

    result = verify(entry, "--seeds", "1", "--record")
    assert result.code == 0, result.out + result.err
    assert "accepted: the first of its class on this text" in result.out
    board = json.loads((tmp_path / "board.jsonl").read_text())
    claimed = float((entry / "entry.toml").read_text().split("bits_per_byte = ")[1].split()[0])
    assert f"ok          repeated          {claimed:.4f} when run again" in result.out
    assert len(board["bits_per_byte"]) == 1
    page = (tmp_path / "board.md").read_text()
    assert f"| {board['bits_per_byte'][0]:.4f} | 1 | honest | A. Student |" in page

    # Without a wall the text is found, and another tokenizer comes out.
    result = verify(entry, "--require-isolation", "process")
    assert result.code == 1
    assert "refused     settings          the command makes another tokenizer" in result.out


def test_what_was_not_run_again_is_not_verified(verify, honest):
    result = verify(honest, "--no-rerun", "--require-isolation", "process")
    assert result.code == 1
    assert "refused" not in result.out
    assert result.out.endswith("not verified: nothing was run again\n")


def test_the_first_refusal_is_the_reason(verify, shop, honest):
    entry = copied(honest, "two-reasons")
    (entry / "run" / "notes.txt").write_text("hello")
    for path in (entry / "run" / "checkpoints").glob("*.pt"):
        path.unlink()
    shop.sign(entry, Recipe(command=f"{COMMAND} --resume"), 1.0)
    result = verify(entry, "--no-rerun", "--require-isolation", "process")
    assert result.code == 1
    assert "refused     command           --resume is set by the verifier" in result.out
    assert "refused     weights           run/checkpoints/newest.pt is missing" in result.out
    assert "not judged  bits per byte     needs what was refused under weights" in result.out
    assert result.out.splitlines()[-1] == (
        "refused: files: run/notes.txt: no file of a run folder or of cs_basics (and 1 more)"
    )


ENTRY_TOML = {
    "no entry": (None, "there is no entry.toml"),
    "a broken file": ("seed = 0", "seed = ", "entry.toml cannot be read"),
    "an unknown key": ("seed = 0", 'seed = 0\nmail = "a"', "the unknown key mail"),
    "a class": ("ten-minutes", "two-minutes", "use one of ten-minutes, one-hour"),
    "a seed": ("seed = 0", "seed = -1", "seed = -1 must be 0 or more"),
    "a seed that is text": ("seed = 0", 'seed = "0"', "seed = '0' must be a number"),
    "a figure": ("byte = ", "byte = -", "must be positive"),
}
FLAGS = {
    "seeds": ("--seeds", "-1", "--seeds -1: use 0 to 11"),
    "tolerance": ("--tolerance", "2", "--tolerance 2: use bits per byte"),
    "no text": ("--valid-text", "none.txt", "none.txt is no file with a text in it"),
    "leaderboard": ("--leaderboard", "entry.toml", "line 1 is no verified entry"),
}


@pytest.mark.parametrize("name", [*ENTRY_TOML, *FLAGS, "a link"])
def test_bad_input_is_one_line(verify, honest, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    path, flags = tmp_path / "entry.toml", ()
    content = (honest / "entry.toml").read_text()
    *changed, words = ENTRY_TOML.get(name, ("is a link or too large",))
    if name in FLAGS:
        *flags, words = FLAGS[name]
    elif len(changed) == 2:
        assert changed[0] in content
        content = content.replace(*changed)
    if changed != [None]:
        path.write_text(content)
    if name == "a link":
        path = path.rename(tmp_path / "other.toml")
        (tmp_path / "entry.toml").symlink_to(path)
    result = verify(tmp_path, "--require-isolation", "process", *flags)
    assert result.code == 2, result.out
    lines = [line for line in result.err.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1
    assert words in lines[0]
    assert "Traceback" not in result.err
