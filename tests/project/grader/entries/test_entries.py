"""Entries of the contest: honest ones are accepted, and each cheat is refused for its reason."""

import subprocess
import sys
from types import SimpleNamespace

import pytest
from cheats import CHEATS, Place, planted_code
from forked import Server
from tiny import COMMAND, Recipe, Texts, Workshop, copied

from cs_basics.run.folder import RunFolder
from cs_grader.entries import rerun, wall
from cs_grader.entries.checks import CHECKS, is_accepted, judge

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="programs are forked, and /proc is read"
)


@pytest.fixture(scope="module")
def popen(tmp_path_factory):
    with Server(tmp_path_factory.mktemp("server")) as server:
        patch = pytest.MonkeyPatch()
        pipes = {"PIPE": subprocess.PIPE, "DEVNULL": subprocess.DEVNULL}
        patch.setattr(wall, "subprocess", SimpleNamespace(Popen=server.popen, **pipes))
        patch.setattr(rerun, "START_S", 2.0)
        yield server.popen
        patch.undo()


@pytest.fixture(scope="module")
def shop(popen, tmp_path_factory):
    return Workshop(tmp_path_factory.mktemp("shop"), popen)


@pytest.fixture(scope="module")
def honest(shop):
    """The entry that the cheats start from."""
    return shop.make("honest")


# --- honest entries ---

SILU = ("    return x * torch.sigmoid(x)\n", "    return x * torch.sigmoid(1.702 * x)\n")


def made(more="", **recipe):
    return lambda shop: shop.make("entry", Recipe(command=f"{COMMAND} {more}".strip(), **recipe))


def resumed(shop):
    """A run that was killed after its first checkpoint, and went on."""
    entry = shop.make("resumed")
    folder = RunFolder(entry / "run")
    folder.checkpoint_of(60).unlink()
    shop.train(entry / "run", Recipe(), "--resume")
    return entry


HONEST = {
    "another seed": made(seed=7),
    "another norm and tied embeddings": made("--norm layernorm --tie-embeddings"),
    "grouped heads": made("--num-kv-heads 2 --qk-norm"),
    "epochs": made("--order epochs"),
    "another vocabulary": made("--vocab-size 350"),
    "bfloat16": made("--dtype bfloat16"),
    "changed code": made(code={"functional.py": planted_code("functional.py", SILU)}),
    "stopped and resumed": resumed,
}


@pytest.mark.parametrize("name", HONEST)
def test_an_honest_entry_is_accepted(shop, name):
    shop = shop.beside(name)
    assert_accepted(shop.examine(HONEST[name](shop)))


def resembling(texts):
    """Texts whose stories are those of the training text, with other names."""
    stories = texts.train[:10_000].rpartition(b"<|endoftext|>\n")[0] + b"<|endoftext|>\n"
    return Texts(
        train=texts.train,
        valid=stories.replace(b"Tom", b"Bob")
        .replace(b"Lily", b"Anna")
        .replace(b"The", b"Then the"),
        fresh=stories.replace(b"Tom", b"Max").replace(b"Lily", b"Rosa").replace(b"The", b"Now the"),
    )


def strange(texts):
    """Texts with letters of several bytes, and bytes that are no UTF-8."""
    exchanged = {b"e": "\u00e9".encode(), b"Mom": "\u6bcd".encode(), b"dog": b"d\xffg"}

    def made(text):
        for before, after in exchanged.items():
            text = text.replace(before, after)
        return text.replace("<|\u00e9ndoft\u00e9xt|>".encode(), b"<|endoftext|>")

    return Texts(train=made(texts.train), valid=made(texts.valid), fresh=made(texts.fresh))


@pytest.mark.parametrize("change", [resembling, strange], ids=lambda change: change.__name__)
def test_an_honest_entry_on_another_text_is_accepted(shop, change):
    shop = shop.beside(change.__name__, change(shop.texts))
    assert_accepted(shop.examine(shop.make("entry")))


def assert_accepted(case):
    findings = list(judge(case))
    assert [finding.verdict for finding in findings] == ["ok"] * len(CHECKS), findings
    assert is_accepted(findings)
    assert abs(case.readings[0].bits_per_byte - case.files.claimed) < 1e-4 + (
        1e-3 if case.files.settings["run"]["dtype"] == "bfloat16" else 0
    )


# --- entries that cheat ---

GIVE_VALUES = {"command", "weights", "every byte"}
"""Checks that pass on what others need: without them the next one has the same reason."""


@pytest.mark.parametrize("name", CHEATS)
def test_a_cheat_is_refused_for_its_reason(shop, honest, name):
    cheat = CHEATS[name]
    # What the honest entry has in common with it is not computed again.
    list(judge(shop.examine(honest)))
    case = shop.examine(cheat.plant(Place(shop, copied(honest, name))), minutes=cheat.minutes)
    findings = list(judge(case))
    refused = [finding.check for finding in findings if finding.verdict == "refused"]
    assert cheat.check in refused, findings
    assert set(refused) <= {cheat.check, *cheat.also}, findings
    assert not is_accepted(findings)
    if cheat.check not in GIVE_VALUES:
        # Nothing else has noticed: without these checks it would get through.
        left = CHECKS.keys() - {cheat.check, *cheat.also}
        assert is_accepted(
            list(judge(case, {name: CHECKS[name] for name in CHECKS if name in left}))
        )
    assert not (shop.folder / "exploded").exists()


def test_there_are_twenty_cheats_and_ten_honest_entries():
    assert len(CHEATS) >= 20
    assert len(HONEST) + 2 >= 10
