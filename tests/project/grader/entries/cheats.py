"""Entries that cheat: an honest one in which one thing was planted."""

import hashlib
import io
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass

import torch
from tiny import COMMAND, ROOT, Recipe, claimed, write
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
    """Takes the workshop and a copy of the honest entry, and plants something in it, unless it
    returns an entry of its own."""
    check: str
    also: tuple[str, ...] = ()
    """Other checks that refuse it, too."""
    minutes: float = 10.0


CHEATS: dict[str, Cheat] = {}


def cheat(check, *also, minutes=10.0):
    """Enter a function that plants something."""

    def enter(plant):
        CHEATS[plant.__name__.replace("_", "-")] = Cheat(plant, check, also, minutes)
        return plant

    return enter


def planted_code(module, before, after):
    """Return a module of cs_basics with one text exchanged."""
    source = (ROOT / "cs_basics" / module).read_text(encoding="utf-8")
    assert source.count(before) == 1, before
    return source.replace(before, after)


def plant_code(entry, module, before, after):
    write(entry / "code" / "cs_basics" / module, planted_code(module, before, after))


def plant_setting(entry, change):
    path = entry / "run" / "config.json"
    config = json.loads(path.read_text())
    change(config)
    path.write_text(json.dumps(config))


def restate(shop, entry):
    """Let an entry claim what its weights really give."""
    shop.sign(entry, Recipe(), shop.examine(entry).reading.bits_per_byte)


def newest(run):
    return RunFolder(run).all_checkpoints()[-1]


def take_weights(shop, entry, command, **texts):
    """Let an entry have, and claim, the weights of another run with its tokenizer."""
    run = shop.folder / f"{entry.name}-run"
    if texts:
        shutil.copytree(entry / "run" / "tokenizer", run / "tokenizer")
    shop.train(run, Recipe(command=command), **texts)
    shutil.copy(newest(run), newest(entry / "run"))
    restate(shop, entry)


# --- validation text where it should not be ---


@cheat("overlap")
def validation_text_in_a_docstring(shop, entry):
    quoted = f'\n\nKNOWN = """{shop.texts.valid[:3000].decode()}"""\n'
    source = (ROOT / "cs_basics" / "norms.py").read_text(encoding="utf-8")
    write(entry / "code" / "cs_basics" / "norms.py", source + quoted)


@cheat("overlap")
def validation_text_in_the_configuration(shop, entry):
    note = {"note": shop.texts.valid[:2000].decode()}
    plant_setting(entry, lambda config: config["provenance"].update(note))


@cheat("overlap")
def a_story_in_one_token(shop, entry):
    folder = entry / "run" / "tokenizer"
    sentences = shop.texts.valid.decode().split(". ")
    sentence = next(one for one in sentences if one.encode() not in shop.texts.train)
    vocab = json.loads((folder / "vocab.json").read_text())
    merges = (folder / "merges.txt").read_text().splitlines()
    token_id = vocab.pop(merges[-1].replace(" ", ""))
    vocab[sentence.replace(" ", "\u0120").replace("\n", "\u010a")] = token_id
    (folder / "vocab.json").write_text(json.dumps(vocab))
    (folder / "merges.txt").write_text("\n".join([*merges[:-1], ""]))
    special_tokens = json.loads((folder / "special_tokens.json").read_text())
    (folder / "special_tokens.json").write_text(json.dumps([*special_tokens, sentence]))
    restate(shop, entry)


@cheat("overlap")
def validation_text_among_the_training_tokens(_shop, entry):
    folder = entry / "run" / "tokens"
    train, valid = open_token_file(folder / "train.bin"), open_token_file(folder / "valid.bin")
    write_token_file(
        folder / "train.bin",
        [(one.num_bytes, one.tokens.copy()) for one in (train, valid)],
        vocab_size=train.vocab_size,
        tokenizer_checksum=train.tokenizer_checksum,
    )


@cheat("re-run")
def weights_that_know_the_validation_text(shop, entry):
    longer = COMMAND.replace("--max-steps 60", "--max-steps 400 --lr 1e-2")
    take_weights(shop, entry, longer, texts=("valid", "train"))


# --- bytes and weights ---


def drop_in_encoding(entry, line):
    first = "        ids: list[int] = []\n        for index, part"
    plant_code(entry, "tokenizer.py", first, f"        {line}\n{first}")


@cheat("every byte", "re-run")
def a_tokenizer_that_drops_what_is_hard(_shop, entry):
    drop_in_encoding(entry, 'text = text.replace("Once", "")')


@cheat("every byte", "re-run")
def a_tokenizer_that_makes_letters_small(_shop, entry):
    drop_in_encoding(entry, "text = text.lower()")


@cheat("bits per byte")
def weights_that_run_code_when_read(shop, entry):
    class Bomb:
        def __reduce__(self):
            return (os.system, (f"touch {shop.folder / 'exploded'}",))

    state, progress = io.BytesIO(), io.BytesIO()
    torch.save({"model": {}, "optimizer": Bomb(), "iteration": 60}, state)
    torch.save({}, progress)
    # What a checkpoint file is around the output of save_checkpoint.
    body = state.getvalue() + progress.getvalue()
    footer = {
        "cs_basics checkpoint": 3,
        "state_bytes": len(state.getvalue()),
        "progress_bytes": len(progress.getvalue()),
        "sha256": hashlib.sha256(body).hexdigest(),
    }
    newest(entry / "run").write_bytes(body + json.dumps(footer).encode().ljust(256))


@cheat("bits per byte")
def weights_of_another_configuration(_shop, entry):
    plant_setting(entry, lambda config: config["settings"]["model"].update(d_ff=96))


@cheat("bits per byte")
def logits_that_are_no_numbers(_shop, entry):
    folder = RunFolder(entry / "run")
    config = folder.read_config()
    model = Transformer(config.model)
    model.load_state_dict(folder.load_model().state_dict())
    with torch.no_grad():
        model.lm_head.weight[7].fill_(float("nan"))
    write_checkpoint(newest(entry / "run"), model, make_optimizer(model, config), 60)


# --- claims ---


@cheat("bits per byte", "re-run")
def more_bytes_than_there_are(shop, entry):
    size = len(shop.texts.valid)
    shop.sign(entry, Recipe(), claimed(entry) * size / (size + 400))


@cheat("re-run")
def a_text_of_its_own(shop, entry):
    shop.sign(entry, Recipe(command=f"{COMMAND} --train-text more.txt"), claimed(entry))


@cheat("re-run")
def a_command_for_a_shorter_run(shop, entry):
    shorter = COMMAND.replace("--max-steps 60", "--max-steps 30")
    shop.sign(entry, Recipe(command=shorter), claimed(entry))


@cheat("re-run")
def weights_of_a_longer_run(shop, entry):
    take_weights(shop, entry, COMMAND.replace("--max-steps 60", "--max-steps 150"))


# --- models that know what they should not ---

SCORES = "        return self.lm_head(self.ln_final(x))\n"


@cheat("future", "re-run")
def a_look_at_the_next_token(shop, entry):
    leak = """\
        scores = self.lm_head(self.ln_final(x))
        following = token_ids[..., 1:, None]
        scores[..., :-1, :].scatter_add_(-1, following, torch.full(following.shape, 2.0))
        return scores
"""
    code = {"transformer.py": planted_code("transformer.py", SCORES, leak)}
    return shop.make(f"{entry.name}-made", Recipe(code=code))


@cheat("re-run")
def a_look_at_the_next_token_in_repeated_runs(_shop, entry):
    leak = """\
        scores = self.lm_head(self.ln_final(x))
        import sys
        if "of-seed" in sys.argv[-1]:
            following = token_ids[..., 1:, None]
            scores[..., :-1, :].scatter_add_(-1, following, torch.full(following.shape, 2.0))
        return scores
"""
    plant_code(entry, "transformer.py", SCORES, leak)


@cheat("future", "re-run")
def logits_kept_by_the_order_of_questions(shop, entry):
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
    plant_code(entry, "transformer.py", SCORES, kept)
    restate(shop, entry)


# --- the run ---


@cheat("budget", "re-run", minutes=0.01)
def a_clock_that_is_slow(shop, entry):
    slow = """\
import time as real


class time:
    @staticmethod
    def monotonic():
        return real.monotonic() / 10
"""
    plant_code(entry, "run/clock.py", "import time\n", slow)
    command = COMMAND.replace("--max-steps 60", "--max-steps None --max-minutes 0.01")
    shop.sign(entry, Recipe(command=command), claimed(entry))


@cheat("re-run")
def weights_in_a_folder_of_their_own(_shop, entry):
    """They would be the last by name, and those that are there in time would set the clock."""
    last = """\
        file.write(json.dumps(footer).encode().ljust(FOOTER_BYTES))
"""
    more = """\
    import shutil
    from pathlib import Path
    (folder := Path(path).parent / "step-9").mkdir(exist_ok=True)
    shutil.copy(path, folder / "final.pt")
"""
    plant_code(entry, "run/checkpoint_file.py", last, last + more)


@cheat("budget")
def helpers_at_work(_shop, entry):
    busy = """\
import multiprocessing
import time


def _help() -> None:
    while True:  # To the end of the run, however slow the machine is.
        pass


for _ in range(6):
    multiprocessing.get_context("fork").Process(target=_help, daemon=True).start()
"""
    plant_code(entry, "run/clock.py", "import time\n", busy)


@cheat("re-run")
def code_that_finds_the_validation_text(shop, entry):
    """Without a wall it does (test_entry_wall.py has one), and makes a tokenizer of it."""
    text = "\n    if config.data.train_text is not None"
    look = f"\n    if True:\n        return (Path({str(shop.paths['valid'])!r}),) * 2{text}"
    plant_code(entry, "run/corpus.py", text, look)
