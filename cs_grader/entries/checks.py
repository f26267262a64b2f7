"""The six checks of an entry, one question each. All are asked, even after one has refused it.

The figure that counts is that of the repeated run: what was handed in only has to be consistent.
Each limit says what honest runs have; docs/teach.md says how that was measured.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from cs_grader.entries.case import Case
from cs_grader.entries.evaluation import MAX_SHIFT, told_of_shift
from cs_grader.entries.refusal import NotJudgedError, RefusedError
from cs_grader.entries.run_files import RunFiles
from cs_grader.plain_text import one_line

CLAIM_TOLERANCE = 0.002
"""Bits per byte that rounding may explain: a run evaluates itself with bfloat16 products."""
MAX_SHARE = 0.001
"""Share of the validation text's own pieces in the training tokens; honest runs have none."""
Check = Callable[[Case], str]
"""Returns what it found, and raises RefusedError or NotJudgedError."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What became of one check."""

    check: str
    verdict: Literal["ok", "refused", "not judged"]
    reason: str


def judge(case: Case) -> Iterator[Finding]:
    """Ask all checks in turn."""
    named: dict[RefusedError, str] = {}
    for name, check in CHECKS.items():
        try:
            yield Finding(name, "ok", _told(check(case)))
        except NotJudgedError as error:
            yield Finding(name, "not judged", _told(error))
        except RefusedError as error:
            # Several checks may need a value that cannot be had: only the first names the reason.
            first = named.setdefault(error, name)
            if first == name:
                yield Finding(name, "refused", _told(error))
            else:
                told = f"not possible: {first!r} has refused what this needs"
                yield Finding(name, "not judged", told)
        except Exception as error:
            # A check that stumbles over an entry, in whatever way, refuses it.
            yield Finding(name, "refused", _told(f"{type(error).__name__}: {error}"))


def _told(text: object) -> str:
    """Return a text on one line; names of files in an entry may hold anything."""
    return one_line(str(text), 2_000)


def is_accepted(findings: list[Finding]) -> bool:
    """Whether nothing was refused and the command was run again."""
    verdicts = {finding.check: finding.verdict for finding in findings}
    return "refused" not in verdicts.values() and verdicts.get("re-run") == "ok"


def overlap(case: Case) -> str:
    """Does anything that was handed in say what only the validation text says?"""
    files, entry = case.files, case.entry
    share = share_of_training_tokens(case, files)
    texts = {"a token of the vocabulary": b"\n".join(files.vocabulary)}
    code = sorted(path for path in entry.code.rglob("*") if path.is_file())
    for path in (*code, entry.folder / "entry.toml", files.run / "config.json"):
        texts[path.relative_to(entry.folder).as_posix()] = path.read_bytes()
    for name, text in texts.items():
        if found := case.overlap.count(text):
            raise RefusedError(f"{name} holds {found} pieces of the validation text")
    return f"{len(files.training_text):,} bytes, {share:.2%} of the validation text's pieces"


def share_of_training_tokens(case: Case, files: RunFiles) -> float:
    """Return which share of the validation text's own pieces the training tokens hold.

    Raises:
        RefusedError: It is more than chance explains.
    """
    share = case.overlap.share(files.training_text)
    if share > MAX_SHARE:
        raise RefusedError(
            f"tokens/train.bin holds {share:.1%} of the pieces that only the validation text has"
        )
    return share


def every_byte(case: Case) -> str:
    """Do the tokens of the validation text stand for each of its bytes, once?"""
    return f"{len(case.ids):,} tokens stand for all {len(case.texts.valid):,} bytes"


def bits_per_byte(case: Case) -> str:
    """Is the figure what another evaluator finds, with finite logits?"""
    found, claimed = case.reading.bits_per_byte, case.entry.bits_per_byte
    if claimed < found - CLAIM_TOLERANCE:
        raise RefusedError(f"{found:.4f}, but {claimed:.4f} is claimed")
    return f"{found:.4f} ({claimed:.4f} is claimed)"


def future(case: Case) -> str:
    """Does a prediction depend on nothing but the earlier tokens of its window?"""
    return not_too_large(case.shift)


def rerun(case: Case) -> str:
    """Does the command, run again in the sandbox, lead to the figure by honest means?"""
    share_of_training_tokens(case, case.rerun_model.files)
    found, limit = case.rerun_reading.bits_per_byte, case.entry.bits_per_byte
    if found > limit + case.terms.tolerance:
        raise RefusedError(f"{found:.4f} when run again, {limit:.4f} is claimed")
    return f"{found:.4f} when run again; {not_too_large(case.rerun_shift)}"


def budget(case: Case) -> str:
    """Were the weights there in time, by the verifier's clock, and the threads not too many?"""
    again = case.rerun
    if again.weights_s is None:
        raise NotJudgedError("there are no weights")
    if reason := again.delay or again.crowd:
        raise RefusedError(reason)
    threads = "" if again.mean_threads is None else f", {again.mean_threads:.1f} threads at work"
    return f"weights after {again.weights_s:.0f} s, {again.limit_s:.0f} are allowed{threads}"


def not_too_large(shift: float) -> str:
    """Refuse a shift that no honest model has."""
    if not shift <= MAX_SHIFT:
        raise RefusedError(told_of_shift(shift))
    return told_of_shift(shift)


CHECKS: dict[str, Check] = {
    "overlap": overlap,
    "every byte": every_byte,
    "bits per byte": bits_per_byte,
    "future": future,
    "re-run": rerun,
    "budget": budget,
}
