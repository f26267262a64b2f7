"""Walk the whole way of a run with your code, in miniature: what will fail, and how to mend it.

python scripts/rehearse.py

Two updates, a stop, --resume, a text, an evaluation, an export and a page, in some ten seconds.
"""

import logging
import shutil
import sys
import tempfile
import tomllib
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from cli import ROOT, definition_called, is_students, run

from cs_basics.generate import Sampling
from cs_basics.interop.llama import export_llama
from cs_basics.interop.page_file import write_page
from cs_basics.run import batches
from cs_basics.run.batches import draw_batch
from cs_basics.run.evaluation import evaluate, make_loss_function
from cs_basics.run.folder import RunFolder
from cs_basics.run.metrics import read_metrics
from cs_basics.run.model import build_model
from cs_basics.run.random_state import random_states, restore_random_states
from cs_basics.run.run import train_run
from cs_basics.run.samples import SAMPLING, SHORT_TOKENS, write_story
from cs_basics.run.token_file import open_token_file
from cs_basics.run.writing import generate_texts
from cs_basics.settings.run import END_OF_TEXT, TrainConfig
from cs_basics.stories.grammar import write_stories
from cs_basics.study.accounting import parameters
from cs_basics.training import Batch

EXACT = "an exact --resume"
"""The part of the way without which a run is as good as with it."""
BEYOND = ("export", "the page")
"""The parts without which a model can be of use."""
NOT_FOR_THEM = {"rope_halves", "gain_one_plus", "gate_w3"}
"""Conventions of a class that neither of these two knows (docs/contract/)."""
TEXT = f"Once upon a time{END_OF_TEXT}\n\nZo\u00eb's  cat \u732b said: 12 mice!\n"
# No two sizes are equal, so that no axis is taken for another.
SIZES = {
    "vocab_size": 300, "context_length": 12, "d_model": 16, "d_ff": 40, "num_layers": 2,
    "num_heads": 2, "batch_size": 3,
}  # fmt: skip
CPU, ALL = torch.device("cpu"), slice(None)
RUN = {
    "max_steps": 3, "warmup_steps": 1, "eval_every": 2, "num_samples": 1, "fast": "off",
    "device": "cpu", "dtype": "float32",
}  # fmt: skip


def main() -> None:
    """Walk the whole way of a run with your code, in miniature."""
    try:
        works = check()
    except NotImplementedError:
        print("rehearsal: it begins when everything is written")
        return
    if not works:
        sys.exit(2)
    if others := conventions() & NOT_FOR_THEM:
        print("rehearsal: training, --resume and writing work; for export and the page your class")
        print(f"has other conventions than they know: {', '.join(sorted(others))}")
        return
    print("rehearsal: training, --resume, writing, export and the page work")


def conventions() -> set[str]:
    """Return the conventions that this class has chosen."""
    contract = ROOT / "tests" / "contract.toml"
    chosen = tomllib.loads(contract.read_text()) if contract.exists() else {"conventions": []}
    return {str(name) for name in chosen["conventions"]}


def check() -> bool:
    """Rehearse, print a line for each thing that will not work, and return whether a run does.

    Raises:
        NotImplementedError: Something is still to be written.
        ValueError: A run would be lost; a model can be of use without export and page.
    """
    found = list(rehearse())
    for line in found:
        print(line)
    grave = [line for line in found if not line.startswith(EXACT)]
    if not all(line.startswith(BEYOND) for line in grave):
        raise ValueError("the run would be lost: see above (it costs no points)")
    return not grave


def rehearse() -> Iterator[str]:
    """Yield a line for each reason why parts of the way do not work."""
    names: dict[str, list[str]] = {}
    logging.disable(logging.WARNING)
    try:
        with tempfile.TemporaryDirectory() as scratch:
            for name, part in Way(Path(scratch)).parts().items():
                if reason := failure(part):
                    names.setdefault(reason.replace(f"{scratch}/", ""), []).append(name)
                    if name == "training":  # Nothing is there to go on with.
                        break
    finally:
        logging.disable(logging.NOTSET)
    for reason, parts in names.items():
        yield f"{' and '.join(parts)} will not work: {reason}"


class Way:
    """The parts of the way, each of which raises if something does not work.

    Args:
        folder: Where everything is kept.
    """

    def __init__(self, folder: Path) -> None:
        texts = {f"{name}_text": folder / f"{name}.txt" for name in ("train", "valid")}
        for path, num_bytes in zip(texts.values(), (12_000, 1_500), strict=True):
            write_stories(path, num_bytes, seed=num_bytes)
        self.folder, self.run = folder, RunFolder(folder / "run")
        self.drawn: list[Batch] = []
        self.config = TrainConfig.of(run_dir=self.run.path, **texts, **SIZES, **RUN)

    def parts(self) -> dict[str, Callable[[], object]]:
        """Return what is tried, by its name."""
        parts: dict[str, Callable[[], object]] = {
            "training": self.train,
            "--resume": self.resume,
            EXACT: self.draw_again,
            "writing": self.write,
        }
        beyond = (
            lambda: export_llama(self.run, self.folder / "llama"),
            lambda: write_page(self.run, self.folder / "page.html"),
        )
        if not conventions() & NOT_FOR_THEM:
            parts |= zip(BEYOND, beyond, strict=True)
        return parts

    def train(self) -> None:
        """Train, and measure the model once more after it was saved and loaded."""
        with patch.object(batches, "draw_batch", self.draw):
            of_run = train_run(self.config).loss
        found = sum(p.numel() for p in build_model(self.config.model).parameters())
        asked = sum(parameters(self.config.model).values())
        if found < asked:
            raise ValueError(
                f"TransformerLM lists {found:,} parameters, and weights of these sizes are "
                f"{asked:,}: modules in a Python list or dictionary are neither trained nor saved; "
                "keep them in nn.ModuleList, and tensors in nn.Parameter"
            )
        rates = [row["optim/lr"] for row in read_metrics(self.run.metrics) if "optim/lr" in row]
        # A rate of float32 may be rounded up.
        if not 0 <= min(rates) <= max(rates) <= self.config.optim.lr * (1 + 1e-6):
            raise ValueError(
                f"cosine_schedule gave the rates {rates}, not between 0 and "
                f"{self.config.optim.lr}: does it take its arguments in the order of the handout?"
            )
        loss_of = make_loss_function(self.run.load_model(), torch.float32)
        valid = open_token_file(self.run.tokens / "valid.bin")
        loss = evaluate(loss_of, valid, SIZES["context_length"], SIZES["batch_size"], CPU).loss
        if not abs(loss - of_run) < 1e-4:
            raise ValueError(
                f"the model had the loss {of_run:.4f}, and {loss:.4f} when it was saved and "
                "loaded: save_checkpoint or load_checkpoint loses some of it"
            )

    def draw(self, tokens: Any, config: TrainConfig, step: int, *rest: Any) -> Batch:  # noqa: ANN401
        """Draw the batch of a step as a run does; of a step that was made before, the same."""
        if step == len(self.drawn):
            self.drawn.append(draw_batch(tokens, config, step, *rest))
        return self.drawn[step]

    def resume(self) -> None:
        """Go on from the middle: with the same batches the weights have to be the same, too."""
        again = RunFolder(self.folder / "again")
        shutil.copytree(self.run.path, again.path)
        again.checkpoint_of(3).unlink()
        with patch.object(batches, "draw_batch", self.draw):
            train_run(self.config.replace(run_dir=again.path), resume=True)
        weights = (folder.load_model().parameters() for folder in (self.run, again))
        if not all(torch.allclose(*pair, atol=1e-6) for pair in zip(*weights, strict=True)):
            raise ValueError(
                "a run that was stopped goes on to other weights than one that was not: AdamW has "
                "to keep everything in self.state and its groups, and both have to be saved and "
                "loaded"
            )

    def draw_again(self) -> None:
        """Draw two batches from one state of the generators: they have to be equal."""
        tokens, states = open_token_file(self.run.tokens / "train.bin").tokens, random_states()
        (first, _), (second, _) = (
            (restore_random_states(states), draw_batch(tokens, self.config, 0, ALL, CPU))[1]
            for _ in range(2)
        )
        if not torch.equal(first, second):
            raise ValueError(
                "get_batch draws from a generator of its own, such as np.random.default_rng(), "
                "whose state no checkpoint keeps: a run that was stopped goes on with other "
                "batches. Nothing else is lost; torch.randint or np.random.randint mend it"
            )

    def write(self) -> None:
        """Encode, decode, and write more than a context."""
        tokenizer, model = self.run.load_tokenizer(), self.run.load_model()
        ids = tokenizer.encode(TEXT)
        if tokenizer.decode(ids) != TEXT:
            raise ValueError(f"decode(encode(text)) is {tokenizer.decode(ids)!r} for {TEXT!r}")
        if list(tokenizer.encode_iterable([TEXT[:9], TEXT[9:]])) != ids:
            raise ValueError("encode_iterable yields other ids than encode returns")
        write_story(model, tokenizer, SHORT_TOKENS, 0, is_fast=False)  # A run would only warn.
        prompts = [tokenizer.encode(END_OF_TEXT)]
        for sampling in (SAMPLING, Sampling(temperature=1.0)):
            length = 2 * SIZES["context_length"]
            list(generate_texts(model, tokenizer, prompts, length, sampling, seed=0))


def failure(part: Callable[[], object]) -> str | None:
    """Return why a part does not work, and where in your code it broke; None if it works."""
    try:
        part()
    except NotImplementedError:
        raise
    except Exception as error:
        causes = [cause for cause in (error.__cause__, error) if cause is not None]
        if isinstance(causes[0], NotImplementedError):
            raise causes[0] from None
        frames = [frame for cause in causes for frame in traceback.extract_tb(cause.__traceback__)]
        yours = [frame for frame in frames if is_students(Path(frame.filename))]
        if not yours and (definition := definition_called(error)):
            yours = [definition]
        package = ROOT / "cs_basics"
        ours = [frame for frame in frames if Path(frame.filename).is_relative_to(package)]
        at, said = (yours or ours or frames)[-1], " ".join(str(error).split())
        if not yours and (at.line or "").startswith("raise "):
            return said  # Ours, with the mend.
        place = "/".join(Path(at.filename).parts[-2:])
        return f"{type(error).__name__}: {said} ({place}, line {at.lineno}: {at.line})"
    return None


if __name__ == "__main__":
    run(main)
