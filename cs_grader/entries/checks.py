"""The checks of an entry, one question each. All are asked, even after one has refused the entry.

Further seeds are the exception: an entry that is already refused is not run with them, since each
takes as long as the first run.

Each limit says what honest runs have; docs/running.md says how that was measured.
"""

import lzma
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from cs_grader.entries.case import Case
from cs_grader.entries.comparison import no_easier_in_order, no_easier_than_fresh
from cs_grader.entries.evaluation import MAX_SHIFT, told_of_shift
from cs_grader.entries.refusal import NotJudgedError, RefusedError
from cs_grader.result import printable

CLAIM_TOLERANCE = 0.002
"""Bits per byte that rounding may explain: a run evaluates itself with bfloat16 products."""
MAX_SHARE = 0.001
"""Share of the validation text's own pieces in the training tokens; honest runs have none."""
MAX_CODE_BYTES = 16_000
"""What changed code may add, compressed. A new optimizer of 150 lines adds about 2,500; a megabyte
of stories cannot be squeezed into less than some 200,000."""
OF_VERIFIER = {
    "run": {"run_dir", "device", "dtype"},
    "data": {"train_text", "valid_text", "corpus_megabytes"},
}
"""Settings that may differ: they depend on the machine, or on how the verifier gives the texts."""
Check = Callable[[Case], str]
"""Returns what it found, and raises RefusedError or NotJudgedError."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What became of one check."""

    check: str
    verdict: Literal["ok", "refused", "not judged"]
    reason: str


def judge(case: Case, checks: Mapping[str, Check] | None = None) -> Iterator[Finding]:
    """Ask these checks in turn; all of them if none are given."""
    named: dict[RefusedError, str] = {}
    is_refused = False
    for name, check in (CHECKS if checks is None else checks).items():
        if is_refused and check is seeds:
            yield Finding(name, "not judged", "refused above: no further seeds are run")
            continue
        try:
            yield Finding(name, "ok", _told(check(case)))
        except NotJudgedError as error:
            yield Finding(name, "not judged", _told(error))
        except RefusedError as error:
            is_refused = True
            # Several checks may need a value that cannot be had: only the first names the reason.
            first = named.setdefault(error, name)
            if first == name:
                yield Finding(name, "refused", _told(error))
            else:
                told = f"not possible: {first!r} has refused what this needs"
                yield Finding(name, "not judged", told)
        except Exception as error:
            is_refused = True
            # A check that stumbles over an entry, in whatever way, refuses it.
            yield Finding(name, "refused", _told(f"{type(error).__name__}: {error}"))


def _told(text: object) -> str:
    """Return a text on one line; names of files in an entry may hold anything."""
    return " ".join(printable(str(text), 2_000).split())


def is_accepted(findings: list[Finding]) -> bool:
    """Whether nothing was refused and the command was run again."""
    verdicts = {finding.check: finding.verdict for finding in findings}
    return "refused" not in verdicts.values() and verdicts.get("re-run") == "ok"


def files(case: Case) -> str:
    """Are all files what a run leaves, whole, of bounded size and no links?"""
    if case.entry.left_out:
        more = len(case.entry.left_out) - 1
        raise RefusedError(case.entry.left_out[0] + (f" (and {more} more)" if more else ""))
    return "ordinary files of a run folder and of cs_basics"


def command(case: Case) -> str:
    """Is the command one of scripts/train.py and nothing else?"""
    return f"train.py {' '.join(case.arguments)}"


def code(case: Case) -> str:
    """Does the code, or what configures it, carry validation text, or room for it?"""
    texts = sorted(path for path in case.entry.code.rglob("*") if path.is_file())
    configs = [case.entry.folder / "entry.toml", case.files.run / "config.json"]
    names = [path.relative_to(case.entry.code).as_posix() for path in texts]
    known = case.terms.repository / "cs_basics"
    new = [name for name in names if not (known / name).is_file()]
    # Names and the command can carry data, too.
    added = compressed("\n".join(new).encode()) + compressed(case.entry.command.encode())
    for path in (*texts, *(path for path in configs if path.is_file())):
        content = path.read_bytes()
        if found := case.overlap.count(content):
            place = path.relative_to(case.entry.folder)
            raise RefusedError(f"{place} holds {found} pieces of the validation text")
        if path in texts:
            place = path.relative_to(case.entry.code)
            added += added_bytes(content, known / place)
    if added > MAX_CODE_BYTES:
        raise RefusedError(
            f"code and command add {added:,} bytes, compressed: more than {MAX_CODE_BYTES:,} hold "
            "data"
        )
    return f"{len(texts)} changed files and the command add {added:,} bytes, compressed"


def added_bytes(content: bytes, original: Path) -> int:
    """Return how many bytes a file adds, compressed, to the repository's version of it."""
    known = original.read_bytes() if original.is_file() else b""
    return max(0, compressed(known + content) - compressed(known))


def compressed(content: bytes) -> int:
    """Return how many bytes a content has, compressed."""
    return len(lzma.compress(content)) - len(lzma.compress(b""))


def vocabulary(case: Case) -> str:
    """Does every token stand somewhere in the training text?"""
    train = case.texts.train
    strangers = [
        token
        for token in case.files.vocabulary
        if len(token) > 1 and token not in train and token in case.texts.valid
    ]
    if strangers:
        longest = max(strangers, key=len)
        shown = printable(longest.decode("utf-8", "replace"), 60)
        raise RefusedError(
            f"{len(strangers)} tokens stand in the validation text and not in the training text,"
            f" such as {shown!r}"
        )
    return f"{len(case.files.vocabulary):,} tokens, none from the validation text alone"


def training_tokens(case: Case) -> str:
    """Do the tokens that were trained on say what only the validation text says?"""
    share = case.overlap.share(case.files.training_text)
    if share > MAX_SHARE:
        raise RefusedError(
            f"tokens/train.bin holds {share:.1%} of the pieces that only the validation text has"
        )
    return f"{len(case.files.training_text):,} bytes, {share:.2%} of the validation text's pieces"


def every_byte(case: Case) -> str:
    """Do the tokens of the validation text stand for each of its bytes, once?"""
    return f"{len(case.encoded[0]):,} tokens stand for all {len(case.texts.valid):,} bytes"


def weights(case: Case) -> str:
    """Do the weights fit the configuration, and is every logit a number?"""
    return f"{case.readings[0].nats.size:,} tokens predicted with finite logits"


def bits_per_byte(case: Case) -> str:
    """Is the figure what an independent evaluation finds?"""
    found, claimed = case.readings[0].bits_per_byte, case.entry.bits_per_byte
    if claimed < found - CLAIM_TOLERANCE:
        raise RefusedError(f"{found:.4f}, but {claimed:.4f} is claimed")
    return f"{found:.4f} ({claimed:.4f} is claimed)"


def metrics(case: Case) -> str:
    """Does metrics.jsonl end with the same figure?"""
    found, said = case.readings[0].bits_per_byte, case.files.claimed
    if not abs(said - found) <= CLAIM_TOLERANCE:
        raise RefusedError(f"metrics.jsonl ends with {said:.4f}, the weights give {found:.4f}")
    return f"metrics.jsonl ends with {said:.4f}"


def future(case: Case) -> str:
    """Does a prediction depend on nothing but the earlier tokens of its window?"""
    return not_too_large(case.shift)


def order(case: Case) -> str:
    """Is the validation text as hard with its stories in another order?"""
    plain, shuffled = case.readings[:2]
    return no_easier_in_order(plain, shuffled, case.shuffled_order)


def fresh(case: Case) -> str:
    """Is fresh text as hard as the validation text?"""
    return no_easier_than_fresh(case.readings[0], case.readings[2:], case.num_compared)


def rerun(case: Case) -> str:
    """Does the command end well, and leave weights?"""
    if case.rerun.complaint:
        raise RefusedError(case.rerun.complaint)
    return f"ended well with seed {case.rerun.seed}"


def run_time(case: Case) -> str:
    """Are the weights there in time, by the verifier's clock?"""
    seconds, limit_s = case.rerun.weights_s, case.rerun.limit_s
    if seconds is None:
        raise NotJudgedError("there are no weights")
    if case.rerun.delay:
        raise RefusedError(case.rerun.delay)
    return f"the last weights came after {seconds:.0f} s, {limit_s:.0f} are allowed"


def threads(case: Case) -> str:
    """Were no more threads at work than allowed?"""
    mean = case.rerun.mean_threads
    if mean is None:
        raise NotJudgedError("this system does not tell")
    if case.rerun.crowd:
        raise RefusedError(case.rerun.crowd)
    return f"{mean:.1f} threads at work on average"


def settings(case: Case) -> str:
    """Does the command lead to the settings and the tokenizer of the entry?

    The student edition fixes some settings, and its config.json does not have them: they are not
    compared. What counts is the figure to which the command leads.
    """
    ours, theirs = case.rerun_model.files.settings, case.files.settings
    for section in sorted(theirs):
        left, right = ours.get(section, {}), theirs.get(section, {})
        for name in sorted(right.keys() - OF_VERIFIER.get(section, set())):
            if left.get(name) != right.get(name):
                raise RefusedError(
                    f"config.json has {name}={_shown(right.get(name))},"
                    f" the command leads to {_shown(left.get(name))}"
                )
    if case.rerun_model.files.vocabulary != case.files.vocabulary:
        raise RefusedError("the command makes another tokenizer of the training text")
    return "the command leads to the same configuration and the same tokenizer"


def repeated(case: Case) -> str:
    """Does the run lead to the claimed figure again?"""
    found, limit = case.rerun_readings[0].bits_per_byte, case.entry.bits_per_byte
    if found > limit + case.terms.tolerance:
        raise RefusedError(f"{found:.4f} when run again, {limit:.4f} is claimed")
    return f"{found:.4f} when run again ({limit:.4f} is claimed)"


def fresh_again(case: Case) -> str:
    """Is fresh text as hard as the validation text for the repeated run?"""
    valid, *fresh_ones = case.rerun_readings
    return no_easier_than_fresh(valid, fresh_ones, case.num_compared)


def future_again(case: Case) -> str:
    """Does the repeated run's model keep to the earlier tokens, too?"""
    return not_too_large(case.rerun_shift)


def not_too_large(shift: float) -> str:
    """Refuse a shift that no honest model has."""
    if not shift <= MAX_SHIFT:
        raise RefusedError(told_of_shift(shift))
    return told_of_shift(shift)


def seeds(case: Case) -> str:
    """Do further seeds give other figures, and which?"""
    figures = [case.rerun_readings[0].bits_per_byte, *case.further]
    if len(set(figures)) < len(figures):
        raise RefusedError("two seeds give the same figure: the seed has no effect")
    return ", ".join(f"{figure:.4f}" for figure in case.further) or "none asked for"


CHECKS: dict[str, Check] = {
    "files": files,
    "command": command,
    "code": code,
    "vocabulary": vocabulary,
    "training tokens": training_tokens,
    "every byte": every_byte,
    "weights": weights,
    "bits per byte": bits_per_byte,
    "metrics": metrics,
    "future": future,
    "order of stories": order,
    "fresh text": fresh,
    "re-run": rerun,
    "time": run_time,
    "threads": threads,
    "settings": settings,
    "repeated": repeated,
    "future again": future_again,
    "fresh text again": fresh_again,
    "seeds": seeds,
}


def _shown(value: Any) -> str:  # noqa: ANN401  of any setting
    return printable(repr(value), 60)
