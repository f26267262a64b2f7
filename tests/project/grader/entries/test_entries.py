"""Entries of the contest: honest ones are accepted, and each cheat is refused for its reason."""

import json
import subprocess
import sys
from types import SimpleNamespace

import pytest
from cheats import CHEATS, planted_code
from forked import Forked
from tiny import COMMAND, Recipe, Texts, Workshop, copied, write

from cs_basics.run.folder import RunFolder
from cs_grader.entries import rerun, wall
from cs_grader.entries.checks import CHECKS, is_accepted, judge
from cs_grader.trusted import tiers

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="programs are forked, and /proc is read"
)


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    pipes = {"PIPE": subprocess.PIPE, "DEVNULL": subprocess.DEVNULL}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wall, "subprocess", SimpleNamespace(Popen=Forked, **pipes))
        patch.setattr(rerun, "START_S", 2.0)
        yield Workshop(tmp_path_factory.mktemp("shop"), Forked)


@pytest.fixture(scope="module")
def honest(shop):
    """The entry that the cheats start from."""
    return shop.make("honest")


# --- honest entries ---

SILU = ("    return x * torch.sigmoid(x)\n", "    return x * torch.sigmoid(1.702 * x)\n")


def with_other_settings(shop, _honest):
    more = "--norm layernorm --tie-embeddings --num-kv-heads 2 --qk-norm --order epochs"
    return shop.make("other-settings", Recipe(command=f"{COMMAND} {more}", seed=7))


def with_changed_code_and_half_precision(shop, _honest):
    code = {"functional.py": planted_code("functional.py", *SILU)}
    more = "--vocab-size 350 --dtype bfloat16"
    return shop.make("half-precision", Recipe(command=f"{COMMAND} {more}", code=code))


def stopped_and_resumed(shop, honest):
    """A run that was killed after its first checkpoint, and went on."""
    entry = copied(honest, "resumed")
    RunFolder(entry / "run").checkpoint_of(60).unlink()
    shop.train(entry / "run", Recipe(), "--resume")
    return entry


def of_the_student_edition(_shop, honest):
    """An entry of the edition, which fixes some settings: config.json does not have them."""
    entry = copied(honest, "edition")
    path = entry / "run" / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    for settings in config["settings"].values():
        for name in ("order", "optimizer", "norm", "tie_embeddings", "parallel"):
            settings.pop(name, None)
    write(path, json.dumps(config))
    write(entry / "notes.md", "A higher rate did not help.")
    return entry


HONEST = (
    with_other_settings,
    with_changed_code_and_half_precision,
    stopped_and_resumed,
    of_the_student_edition,
)


@pytest.mark.parametrize("make", HONEST)
def test_an_honest_entry_is_accepted(shop, honest, make):
    assert_accepted(shop.examine(make(shop, honest)))


def strange(text):
    """Letters of several bytes, and bytes that are no UTF-8."""
    exchanged = {b"e": "\u00e9".encode(), b"Mom": "\u6bcd".encode(), b"dog": b"d\xffg"}
    for before, after in exchanged.items():
        text = text.replace(before, after)
    return text.replace("<|\u00e9ndoft\u00e9xt|>".encode(), b"<|endoftext|>")


def test_an_honest_entry_on_strange_text_is_accepted(shop, tmp_path):
    texts = Texts(train=strange(shop.texts.train), valid=strange(shop.texts.valid))
    shop = Workshop(tmp_path, Forked, texts)
    assert_accepted(shop.examine(shop.make("entry")))


def assert_accepted(case):
    findings = list(judge(case))
    assert [finding.verdict for finding in findings] == ["ok"] * len(CHECKS), findings
    assert is_accepted(findings)
    rounding = 1e-3 if case.files.settings["run"]["dtype"] == "bfloat16" else 0
    assert abs(case.reading.bits_per_byte - case.entry.bits_per_byte) < 1e-4 + rounding


# --- entries that cheat ---


@pytest.mark.parametrize("name", CHEATS)
def test_a_cheat_is_refused_for_its_reason(shop, honest, name):
    cheat = CHEATS[name]
    # What the honest entry has in common with it is not computed again.
    list(judge(shop.examine(honest)))
    entry = copied(honest, name)
    case = shop.examine(cheat.plant(shop, entry) or entry, minutes=cheat.minutes)
    findings = list(judge(case))
    refused = [finding.check for finding in findings if finding.verdict == "refused"]
    assert cheat.check in refused, findings
    assert set(refused) <= {cheat.check, *cheat.also}, findings
    assert not is_accepted(findings)
    assert not (shop.folder / "exploded").exists()


# --- as an instructor runs it ---


@pytest.fixture
def command(shop, tmp_path):
    """The command that verifies an entry; the process of the tests stands for the wall."""

    def of(entry, *more):
        given = [f"--{role}-text={path}" for role, path in shop.paths.items()]
        given += ["--leaderboard", tmp_path / "board.md", "--require-isolation", "process"]
        return ["instructor/verify", entry, *given, *more]

    return of


@pytest.fixture
def verify(script, command):
    return lambda *given: script(*command(*given))


def test_an_accepted_entry_is_recorded(verify, shop, honest, tmp_path):
    result = verify(honest, "--seeds", "1", "--record")
    assert result.code == 0, result.out + result.err
    assert "bits per byte, one run\n" in result.out
    # The seed of the entry may have been chosen: that of the further run counts.
    (row,) = (tmp_path / "board.md").read_text().splitlines()[-1:]
    figure = float(row.split(" | ")[2])
    assert abs(figure - shop.examine(honest).entry.bits_per_byte) > 1e-4
    assert f" | {figure:.4f} | {figure:.4f} | honest | A. Student | " in row


def test_what_was_not_run_again_is_not_verified(verify, honest):
    result = verify(honest, "--no-rerun")
    assert result.code == 1
    assert "refused" not in result.out
    assert result.out.endswith("not verified: nothing was run again\n")


def test_the_first_refusal_is_the_reason(verify, shop, honest):
    entry = copied(honest, "two-reasons")
    weights = RunFolder(entry / "run").all_checkpoints()[-1]
    weights.write_bytes(weights.read_bytes()[:-1])
    shop.sign(entry, Recipe(command=f"{COMMAND} --resume"), 1.0)
    result = verify(entry)
    assert result.code == 1
    assert "refused     re-run            --resume is set by the verifier" in result.out
    told = "not judged  future            not possible: 'bits per byte' has refused what this needs"
    assert told in result.out
    assert result.out.splitlines()[-1].startswith("refused: bits per byte: the checkpoint ")


def a_link(run):
    (run / "corpus").mkdir()
    (run / "corpus" / "train.txt").symlink_to("/etc/passwd")
    return "run/corpus/train.txt: a link"


def a_terabyte(run):
    with (run / "tokens" / "valid.bin").open("r+b") as file:
        file.truncate(1 << 40)
    return "run/tokens/valid.bin: larger than 512 MB"


def a_pickle(run):
    (run / "checkpoints" / "moments.pkl").touch()
    return "run/checkpoints/moments.pkl: no file of a run folder"


@pytest.mark.parametrize("plant", [a_link, a_terabyte, a_pickle])
def test_a_folder_with_other_files_is_no_entry(refused, command, honest, plant):
    entry = copied(honest, plant.__name__)
    said = plant(entry / "run")
    assert refused(*command(entry)).endswith(f"is no entry: {said}")


ENTRY_TOML = {
    "no entry": (None, "there is no entry.toml"),
    "a broken file": ("seed = 0", "seed = ", "entry.toml cannot be read"),
    "arrays in arrays": ("seed = 0", f"seed = {'[' * 5000}", "entry.toml cannot be read"),
    "two lines": ('name = "', 'name = "a\\n', "name = 'a\\n"),
    "an unknown key": ("seed = 0", 'seed = 0\nmail = "a"', "the unknown key mail"),
    "a class": ("ten-minutes", "two-minutes", "use one of ten-minutes, one-hour"),
    "a seed": ("seed = 0", "seed = -1", "seed = -1 must be 0 or more"),
    "a seed that is text": ("seed = 0", 'seed = "0"', "seed = '0' must be a number"),
    "a figure": ("byte = ", "byte = -", "must be positive"),
}
FLAGS = {
    "seeds": ("--seeds", "-1", "--seeds -1: use 0 to 11"),
    "tolerance": ("--tolerance", "2", "--tolerance 2: use bits per byte"),
    "no text": ("--valid-text", "none.txt", "none.txt does not exist"),
    "leaky texts": ("--train-text", "leaky.txt", "100% of its 32-byte windows stand in leaky.txt"),
    "no folder": ("--record", "--leaderboard", "entry.toml/board", "entry.toml is not a folder"),
}


@pytest.mark.parametrize("name", [*ENTRY_TOML, *FLAGS, "a link"])
def test_bad_input_is_one_line(refused, command, honest, shop, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tiers.shutil, "which", lambda _: None)  # Told after what is given.
    (tmp_path / "leaky.txt").write_bytes(shop.texts.train + shop.texts.valid)
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
    flags = (*flags, "--require-isolation", "bubblewrap")
    assert words in refused(*command(honest if name in FLAGS else tmp_path, *flags))
