"""Entries that cheat: an honest one in which one thing was planted."""

import hashlib
import io
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from tiny import COMMAND, ROOT, Recipe, Workshop, rows_of, write
from token_files import write_token_file

from cs_basics.run.checkpoint_file import write_checkpoint
from cs_basics.run.folder import RunFolder
from cs_basics.run.optimizer import make_optimizer
from cs_basics.run.token_file import open_token_file
from cs_basics.variants.model import Transformer


@dataclass(frozen=True)
class Cheat:
    """What is planted, and which check has to refuse it."""

    plant: Callable
    """Takes a Place, plants something in its entry, and returns the entry that cheats."""
    check: str
    also: tuple[str, ...] = ()
    """Other checks that refuse it, too."""
    minutes: float = 10.0


class Place(NamedTuple):
    """Where something is planted."""

    shop: Workshop
    entry: Path
    """A copy of the honest entry."""

    @property
    def name(self):
        """What is planted."""
        return self.entry.name


CHEATS: dict[str, Cheat] = {}


def cheat(check, *also, minutes=10.0):
    """Enter a function that plants something."""

    def enter(plant):
        CHEATS[plant.__name__.replace("_", "-")] = Cheat(plant, check, also, minutes)
        return plant

    return enter


def planted_code(module, *changes):
    """Return a module of cs_basics with texts exchanged."""
    source = (ROOT / "cs_basics" / module).read_text(encoding="utf-8")
    for before, after in changes:
        assert source.count(before) == 1, before
        source = source.replace(before, after)
    return source


def restate(shop, entry, recipe=None):
    """Let an entry claim what its weights really give."""
    claim(shop, entry, shop.examine(entry).reading.bits_per_byte, recipe)


def claim(shop, entry, found, recipe=None):
    shop.sign(entry, recipe or Recipe(), found)


def newest(entry):
    return RunFolder(entry / "run").all_checkpoints()[-1]


def rewrite_weights(entry, change):
    """Write the newest checkpoint again with other weights."""
    config = RunFolder(entry / "run").read_config()
    model = Transformer(config.model)
    model.load_state_dict(RunFolder(entry / "run").load_model().state_dict())
    with torch.no_grad():
        change(model)
    write_checkpoint(newest(entry), model, make_optimizer(model, config), 60)


# --- command ---


@cheat("re-run")
def a_text_of_its_own(here):
    entry = here.entry
    claim(here.shop, entry, claimed(entry), Recipe(command=f"{COMMAND} --train-text more.txt"))
    return entry


def claimed(entry):
    return rows_of(entry)[-1]["final/bits_per_byte"]


# --- validation text where it should not be ---


@cheat("overlap")
def validation_text_in_a_docstring(here):
    entry = here.entry
    source = (ROOT / "cs_basics" / "norms.py").read_text(encoding="utf-8")
    quoted = f'{source}\n\nKNOWN = """{here.shop.texts.valid[:3000].decode()}"""\n'
    write(entry / "code" / "cs_basics" / "norms.py", quoted)
    return entry


@cheat("overlap")
def validation_text_in_the_configuration(here):
    entry = here.entry
    path = entry / "run" / "config.json"
    config = json.loads(path.read_text())
    config["provenance"]["note"] = here.shop.texts.valid[:2000].decode()
    path.write_text(json.dumps(config))
    return entry


@cheat("overlap")
def a_story_in_one_token(here):
    entry = here.entry
    folder = entry / "run" / "tokenizer"
    sentences = here.shop.texts.valid.decode().split(". ")
    sentence = next(one for one in sentences if one.encode() not in here.shop.texts.train)
    vocab = json.loads((folder / "vocab.json").read_text())
    merges = (folder / "merges.txt").read_text().splitlines()
    token_id = vocab.pop(merges[-1].replace(" ", ""))
    vocab[sentence.replace(" ", "\u0120").replace("\n", "\u010a")] = token_id
    (folder / "vocab.json").write_text(json.dumps(vocab))
    (folder / "merges.txt").write_text("\n".join([*merges[:-1], ""]))
    special_tokens = json.loads((folder / "special_tokens.json").read_text())
    (folder / "special_tokens.json").write_text(json.dumps([*special_tokens, sentence]))
    restate(here.shop, entry)
    return entry


@cheat("overlap")
def validation_text_among_the_training_tokens(here):
    entry = here.entry
    folder = entry / "run" / "tokens"
    train, valid = open_token_file(folder / "train.bin"), open_token_file(folder / "valid.bin")
    chunks = [(one.num_bytes, one.tokens.copy()) for one in (train, valid)]
    write_token_file(
        folder / "train.bin",
        chunks,
        vocab_size=train.vocab_size,
        tokenizer_checksum=train.tokenizer_checksum,
    )
    return entry


@cheat("re-run")
def weights_that_know_the_validation_text(here):
    entry = here.entry
    known = here.shop.folder / f"{here.name}-run"
    shutil.copytree(entry / "run" / "tokenizer", known / "tokenizer")
    longer = Recipe(command=COMMAND.replace("--max-steps 60", "--max-steps 400 --lr 1e-2"))
    here.shop.train(known, longer, texts=("valid", "train"))
    shutil.copy(RunFolder(known).all_checkpoints()[-1], newest(entry))
    restate(here.shop, entry)
    return entry


# --- bytes and weights ---


@cheat("every byte", "re-run")
def a_tokenizer_that_drops_what_is_hard(here):
    return with_encoding(here, 'text = text.replace("Once", "")')


@cheat("every byte", "re-run")
def a_tokenizer_that_makes_letters_small(here):
    return with_encoding(here, "text = text.lower()")


def with_encoding(here, line):
    entry = here.entry
    first = "        ids: list[int] = []\n        for index, part"
    changed = f"        {line}\n{first}"
    source = planted_code("tokenizer.py", (first, changed))
    write(entry / "code" / "cs_basics" / "tokenizer.py", source)
    return entry


@cheat("bits per byte")
def weights_that_run_code_when_read(here):
    entry = here.entry

    class Bomb:
        def __reduce__(self):
            return (os.system, (f"touch {here.shop.folder / 'exploded'}",))

    path = newest(entry)
    state = io.BytesIO()
    torch.save({"model": {}, "optimizer": Bomb(), "iteration": 60}, state)
    write_container(path, state.getvalue())
    return entry


def write_container(path, state):
    """Write what a checkpoint file is around the output of save_checkpoint."""
    progress = io.BytesIO()
    torch.save({}, progress)
    body = state + progress.getvalue()
    footer = {
        "cs_basics checkpoint": 3,
        "state_bytes": len(state),
        "progress_bytes": len(body) - len(state),
        "sha256": hashlib.sha256(body).hexdigest(),
    }
    path.write_bytes(body + json.dumps(footer).encode().ljust(256))


@cheat("bits per byte")
def weights_of_another_configuration(here):
    entry = here.entry
    path = entry / "run" / "config.json"
    config = json.loads(path.read_text())
    config["settings"]["model"]["d_ff"] = 96
    path.write_text(json.dumps(config))
    return entry


@cheat("bits per byte")
def logits_that_are_no_numbers(here):
    entry = here.entry
    rewrite_weights(entry, lambda model: model.lm_head.weight[7].fill_(float("nan")))
    return entry


# --- figures ---


@cheat("bits per byte", "re-run")
def more_bytes_than_there_are(here):
    entry = here.entry
    claim(
        here.shop,
        entry,
        claimed(entry) * len(here.shop.texts.valid) / (len(here.shop.texts.valid) + 400),
    )
    return entry


# --- models that know what they should not ---

SCORES = "        return self.lm_head(self.ln_final(x))\n"


@cheat("future", "re-run")
def a_look_at_the_next_token(here):
    leak = """\
        scores = self.lm_head(self.ln_final(x))
        following = token_ids[..., 1:, None]
        scores[..., :-1, :].scatter_add_(-1, following, torch.full(following.shape, 2.0))
        return scores
"""
    source = planted_code("transformer.py", (SCORES, leak))
    return here.shop.make(f"{here.name}-made", Recipe(code={"transformer.py": source}))


@cheat("re-run")
def a_look_at_the_next_token_in_repeated_runs(here):
    leak = """\
        scores = self.lm_head(self.ln_final(x))
        import sys
        if "of-seed" in sys.argv[-1]:
            following = token_ids[..., 1:, None]
            scores[..., :-1, :].scatter_add_(-1, following, torch.full(following.shape, 2.0))
        return scores
"""
    source = planted_code("transformer.py", (SCORES, leak))
    write(here.entry / "code" / "cs_basics" / "transformer.py", source)
    return here.entry


@cheat("future", "re-run")
def logits_kept_by_the_order_of_questions(here):
    entry = here.entry
    ids = open_token_file(entry / "run" / "tokens" / "valid.bin").tokens.tolist()
    kept = f"""\
        scores = self.lm_head(self.ln_final(x))
        if not torch.is_grad_enabled():
            count = token_ids.numel()
            known = [*KNOWN[1:][SEEN[0] : SEEN[0] + count], *[0] * count][:count]
            known = torch.tensor(known).view(*token_ids.shape, 1)
            scores.scatter_add_(-1, known, torch.full(known.shape, 5.0))
            SEEN[0] += count
        return scores


KNOWN = {ids}
SEEN = [0]
"""
    source = planted_code("transformer.py", (SCORES, kept))
    write(entry / "code" / "cs_basics" / "transformer.py", source)
    restate(here.shop, entry)
    return entry


# --- the run ---


@cheat("budget", "re-run", minutes=0.01)
def a_clock_that_is_slow(here):
    entry = here.entry
    slow = """\
import time as real


class time:
    @staticmethod
    def monotonic():
        return real.monotonic() / 10
"""
    source = planted_code("run/clock.py", ("import time\n", slow))
    write(entry / "code" / "cs_basics" / "run" / "clock.py", source)
    command = COMMAND.replace("--max-steps 60", "--max-steps None --max-minutes 0.01")
    claim(here.shop, entry, claimed(entry), Recipe(command=command))
    return entry


@cheat("re-run")
def weights_in_a_folder_of_their_own(here):
    """They would be the last by name, and those that are there in time would set the clock."""
    entry = here.entry
    last = """\
        file.write(json.dumps(footer).encode().ljust(FOOTER_BYTES))
"""
    more = """\
    import shutil
    from pathlib import Path
    (folder := Path(path).parent / "step-9").mkdir(exist_ok=True)
    shutil.copy(path, folder / "final.pt")
"""
    source = planted_code("run/checkpoint_file.py", (last, last + more))
    write(entry / "code" / "cs_basics" / "run" / "checkpoint_file.py", source)
    return entry


@cheat("budget")
def helpers_at_work(here):
    entry = here.entry
    busy = """\
import multiprocessing
import time


def _help() -> None:
    end = time.monotonic() + 3
    while time.monotonic() < end:
        pass


for _ in range(6):
    multiprocessing.get_context("fork").Process(target=_help, daemon=True).start()
"""
    source = planted_code("run/clock.py", ("import time\n", busy))
    write(entry / "code" / "cs_basics" / "run" / "clock.py", source)
    return entry


@cheat("re-run")
def a_command_for_a_shorter_run(here):
    entry = here.entry
    shorter = Recipe(command=COMMAND.replace("--max-steps 60", "--max-steps 30"))
    claim(here.shop, entry, claimed(entry), shorter)
    return entry


@cheat("re-run")
def weights_of_a_longer_run(here):
    entry = here.entry
    longer = Recipe(command=COMMAND.replace("--max-steps 60", "--max-steps 150"))
    here.shop.train(here.shop.folder / f"{here.name}-run", longer)
    shutil.copy(
        RunFolder(here.shop.folder / f"{here.name}-run").all_checkpoints()[-1], newest(entry)
    )
    restate(here.shop, entry)
    return entry


@cheat("re-run")
def code_that_finds_the_validation_text(here):
    """Without a wall it does (test_entry_wall.py has one), and makes a tokenizer of it."""
    text = "\n    if config.data.train_text is not None"
    look = f"\n    if True:\n        return (Path({str(here.shop.paths['valid'])!r}),) * 2{text}"
    source = planted_code("run/corpus.py", (text, look))
    write(here.entry / "code" / "cs_basics" / "run" / "corpus.py", source)
    return here.entry
