"""Say whether an observation is what an oracle expects, and if not, why.

Nothing here runs an adapter: observations arrive as plain data (probes.plain).
"""

import functools
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import pytest
from asked import shortened
from trials import (
    Trial,
    confirmed,
    explaining_most,
    explaining_their_part,
    growth,
    largest,
    num_different,
    options_of,
    possible,
    right_and_wrong,
    unexplained,
)

Array = npt.NDArray[Any]

# A wrong answer is put down to a mistake if it is this much nearer to it than to the right one.
NEARER = 0.1

EXPLANATION = "This is what comes out when"
AT_LEAST_FLOAT32 = ("float32", "float64")
"""What answers float32 in more precision breaks nothing; that it does is asked elsewhere."""
IF_VALUES_ARE_RIGHT = (
    "If its values are right, something is detached on one of the paths, or the formula of your own"
    " backward (autograd.Function) is wrong."
)


class WrongAnswer(pytest.fail.Exception):
    """Says what is wrong and, if it is known, the id of the mistake behind it."""

    __module__ = "builtins"  # Shown by its bare name, like pytest's own.

    def __init__(self, message: str, diagnosis: str | None = None) -> None:
        super().__init__(message, pytrace=False)
        self.diagnosis = diagnosis


class NotStarted(pytest.fail.Exception):
    """An adapter is missing or raises NotImplementedError."""

    __module__ = "builtins"

    def __init__(self, adapter: str) -> None:
        super().__init__(f"not started: {adapter}", pytrace=False)


MOST_OF_A_MESSAGE = 10_000
"""Characters; a message may quote an answer, and an answer may be of any length."""


def fail(message: str, diagnosis: str | None = None) -> NoReturn:
    if len(message) > MOST_OF_A_MESSAGE:
        message = f"{message[:MOST_OF_A_MESSAGE]} ..."
    raise WrongAnswer(message, diagnosis)


def expect(claim: bool, message: str, diagnosis: str | None = None) -> None:
    if not claim:
        fail(message, diagnosis)


@contextmanager
def noting(difference: str, control: Callable[[], object] = lambda: None) -> Iterator[None]:
    """Add to a failure that the call does well if it is made in another way, if it does.

    Args:
        difference: Completes "The same call runs ..." (or "is right", if it is an answer that is
            wrong) with what `control` does differently, and what the contract says of that. The
            exception's own text and lines say what failed. An answer that is explained by a known
            mistake is left as it is.
        control: Makes the call in that other way; nothing, if that was made just before.
    """
    try:
        yield
    except NotStarted:
        raise
    except WrongAnswer as error:
        is_explained = error.diagnosis == "out-of-time" or EXPLANATION in str(error)
        if not is_explained and runs(control):
            error.msg = f"{error.msg}\n  The same call is right {difference}."
        raise
    except Exception as error:
        if runs(control):
            error.add_note(f"The same call runs {difference}.")
        raise


def in_either_form(
    ask: Callable[..., None],
    observe: Callable[..., Any],
    usual: Sequence[Any],
    other: Sequence[Any],
) -> None:
    """Ask in the usual form; whoever answers that wrongly may answer the other one instead.

    Args:
        ask: Given `observe` and one of the two: asks, and fails if the answer is wrong.
        observe: Runs probes.
        usual: The form that a failure is about.
        other: One that some take alone, such as all batch axes in one.

    Returns:
        The form that was answered rightly.
    """
    first = failure_of(lambda: ask(observe, *usual))
    if first is None:
        return usual
    second = failure_of(lambda: ask(functools.partial(observe, aside=True), *other))
    if second is None:
        return other
    # Who takes the other form alone breaks on the usual one: what is wrong is that answer.
    takes_the_other = isinstance(second, WrongAnswer) and not isinstance(first, WrongAnswer)
    raise second if takes_the_other else first


def failure_of(call: Callable[[], object]) -> BaseException | None:
    try:
        call()
    except (Exception, WrongAnswer, NotStarted) as error:
        return error
    return None


def runs(control: Callable[[], object]) -> bool:
    return failure_of(control) is None


def id_of(diagnosis: str) -> str:
    """Make a short id of a sentence: its words up to the first explanation, with hyphens."""
    words: list[str] = []
    for part in re.split(r"[:;,] | \(that", diagnosis):
        words += re.findall(r"[a-z0-9]+", part.lower())
        if len(words) >= 3:
            break
    return "-".join(words)


def expect_tensor(
    observed: Mapping[str, Any], shape: tuple[int, ...], name: str, dtypes: Sequence[str]
) -> None:
    """Check type, shape and dtype, in the order in which a reader wants to hear of them."""
    values = observed["values"]
    kind = observed["dtype"]
    if values is None:
        fail(f"{name} returned {a(kind)}, expected a tensor", "wrong-type")
    shapes = f"{name} returned shape {values.shape}, expected {shape}"
    expect(values.shape == shape, shapes, "wrong-shape")
    kinds = f"{name} returned dtype {kind}, expected {' or '.join(dtypes)}"
    expect(kind in dtypes, kinds, "wrong-dtype")


def expect_close(
    observed: Mapping[str, Any],
    expected: Array,
    name: str,
    *,
    dtypes: str | Sequence[str] = AT_LEAST_FLOAT32,
    tolerance: float = 1e-5,
    mistakes: Callable[[], Mapping[str, Array | list[Array]]] = dict,
    trials: Callable[[], Sequence[Trial]] = tuple,
    hint: str = "",
    scale: float | None = None,
) -> None:
    """Fail unless every value is within `tolerance` times the largest expected magnitude.

    Args:
        observed: A tensor as `probes.plain` gives it.
        expected: The oracle's answer.
        name: Whose answer it is.
        dtypes: The dtype, or those, that the answer may have.
        tolerance: Allowed error relative to the largest expected magnitude.
        mistakes: Computes the answer under each known mistake, by diagnosis, after a failure.
        trials: Asks more questions after a failure: a mistake is named if it explains all answers.
        hint: What a failure means if no mistake fits.
        scale: Magnitude that stands in for the largest expected one.
    """
    expected = np.asarray(expected, np.float64)
    limit = tolerance * (scale or max(largest(expected), 1e-30))
    values = observed["values"]
    if values is not None and values.shape != expected.shape and expected.size:
        answers = mistakes()
        causes = same_answers(np.asarray(values, np.float64), limit, answers)
        this = Trial("this call", np.asarray(values, np.float64), expected, answers, limit)
        causes = confirmed(causes, [this, *trials()]) if causes else []
        if causes:
            shapes = f"{name} returned shape {values.shape}, expected {expected.shape}"
            report(shapes, causes, "")
    expect_tensor(observed, expected.shape, name, [dtypes] if isinstance(dtypes, str) else dtypes)
    got = np.asarray(values, np.float64)
    error = distance(got, expected)
    if np.all(error <= limit):
        return
    answers, others = mistakes(), trials()
    expect_settled(name, [trial.label for trial in others if not trial.is_settled])
    fitting = diagnoses(got, expected, limit, answers)
    asked = [Trial("this call", got, expected, answers, limit), *others]
    causes = confirmed(fitting, asked)
    if not causes and observed["dtype"] in ("float32", "float64"):
        causes = low_precision(got, expected, error)
        if not all(is_right_or_narrow(trial) for trial in others):
            causes = []
    causes = causes or explaining_most(fitting, asked)
    parts = [] if causes else explaining_their_part(asked)
    finding = describe(got, expected, error, limit, name, observed["dtype"])
    certain = [] if causes or parts else [pattern(error, limit), right_and_wrong(others)]
    if not all(trial.is_right or trial.got is None for trial in others):
        hint = hint if hint != IF_VALUES_ARE_RIGHT else "The values are wrong, too: fix them first."
    rest = unexplained(causes, asked) or "\n  ".join(map(one_of_several, parts[1:]))
    finding = "\n  ".join([finding, *filter(None, certain)])
    report(finding, causes or parts[:1], hint, rest)


def expect_settled(name: str, changing: Sequence[str]) -> None:
    """Nothing explains an answer that is another one the next time.

    Args:
        name: Whose answer it is.
        changing: The questions to which it is.
    """
    expect(
        not changing,
        f"{name}: the same question asked twice got two answers ({'; '.join(changing)})\n"
        "  Something is kept from one call to the next (a list or dict as a default argument, an"
        " attribute of a class, a global), or is random: dropout, weights that are not loaded.",
        "output-is-random",
    )


def one_of_several(cause: str) -> str:
    return f"In other places: {sentence([cause])}"


def is_right_or_narrow(trial: Trial) -> bool:
    if trial.got is None or trial.is_right or trial.got.size < 4:
        return True
    is_like = np.shape(trial.got) == np.shape(trial.expected)
    off = distance(trial.got, trial.expected) if is_like else np.array(np.inf)
    return is_like and bool(low_precision(trial.got, trial.expected, off))


def pattern(error: Array, limit: float) -> str:
    """Say along which axis wrong and right values part, if they do: "row 3 and later differ"."""
    wrong = error > limit
    if np.any(wrong & (error < 10 * limit)):
        return ""  # Where right and wrong are so near, they part by chance.
    for axis in range(wrong.ndim):
        others = tuple(place for place in range(wrong.ndim) if place != axis)
        bad = np.any(wrong, axis=others)
        if bad.all() or len(bad) < 3:
            continue
        places = np.flatnonzero(bad)
        first, last = int(places[0]), int(places[-1])
        said = f"only at {', '.join(map(str, places[:8].tolist()))}" + ", ..." * (len(places) > 8)
        if len(places) > 1 and len(places) == last - first + 1:
            said = f"at {first} and later" if last == len(bad) - 1 else f"from {first} to {last}"
        name = {wrong.ndim - 1: "the last axis", wrong.ndim - 2: "the last axis but one"}
        return f"along {name.get(axis, f'axis {axis}')}, values differ {said}; the others agree"
    return ""


def report(
    finding: str,
    causes: Sequence[str],
    hint: str,
    rest: str = "",
) -> NoReturn:
    """Fail with what was found, the mistakes that it looks like, or else a hint; then the rest."""
    explanation = [f"  {said}" for said in (sentence(causes) or hint, rest) if said]
    lines = [finding, *explanation]
    fail("\n".join(lines), id_of(causes[0]) if causes else None)


def distance(got: Array, expected: Array) -> Array:
    """Absolute error; infinite where a value is not a number or an infinity is unexpected."""
    with np.errstate(invalid="ignore"):
        error = np.abs(got - expected)
    error = np.where(got == expected, 0.0, error)
    return np.where(np.isnan(error), np.inf, error)


def describe(got: Array, expected: Array, error: Array, limit: float, name: str, dtype: str) -> str:
    worst = np.unravel_index(np.argmax(error), error.shape)
    where = f" at [{', '.join(str(int(i)) for i in worst)}]" if worst else ""
    wrong = int(np.sum(error > limit))
    verb = "is" if wrong == 1 else "are"
    count = (
        f"{wrong} of {error.size} values {verb} wrong" if error.size > 1 else "the value is wrong"
    )
    return (
        f"{name}: {count} ({dtype} of shape {got.shape})\n"
        f"  worst{where}: got {got[worst]:.8g}, expected {expected[worst]:.8g}"
        f" (error {error[worst]:.2g}, allowed {limit:.2g})"
    )


def same_answers(
    got: Array, limit: float, mistakes: Mapping[str, Array | list[Array]]
) -> list[str]:
    """Name the mistakes whose answer this is, shape and all."""
    return [
        diagnosis
        for diagnosis, answers in mistakes.items()
        if any(
            np.shape(answer) == got.shape
            and np.all(distance(got, np.asarray(answer, np.float64)) <= 2 * limit)
            for answer in options_of(answers)
        )
    ]


def low_precision(got: Array, expected: Array, error: Array) -> list[str]:
    """Say so if all values are numbers of a narrow float type, and off by about its precision."""
    if got.size < 4 or not np.all(np.isfinite(got)):
        return []
    for name, bits in (("bfloat16", 8), ("float16", 11)):
        precision = 2.0**-bits
        fractions, _ = np.frexp(got)
        is_narrow = np.all(fractions * 2**bits == np.round(fractions * 2**bits))
        # Numbers that are as round by nature prove nothing.
        fractions, _ = np.frexp(expected)
        is_round = np.mean(fractions * 2**bits == np.round(fractions * 2**bits)) > 0.5
        if is_narrow and not is_round and float(error.max()) < 16 * precision * largest(expected):
            return [f"values pass through {name}, which keeps {bits} bits: stay in float32"]
    return []


def diagnoses(
    got: Array, expected: Array, limit: float, mistakes: Mapping[str, Array | list[Array]]
) -> list[str]:
    """Name the mistakes whose answer this is, as far as they differ from the right answer.

    A list holds the answers that one mistake may lead to.
    """
    wrong = float(distance(got, expected).max())
    fits: dict[str, None] = {}
    for diagnosis, answers in mistakes.items():
        for answer in [] if answers is None else options_of(answers):
            answer = np.asarray(answer, np.float64)
            if answer.shape != got.shape or np.all(distance(answer, expected) <= limit):
                continue
            both_nan = np.isnan(got) & np.isnan(answer)
            away = float(np.where(both_nan, 0.0, distance(got, answer)).max())
            if num_different(answer, expected, limit) == 0:
                continue
            if away <= min(2 * limit * growth(answer, expected), NEARER * wrong):
                fits[diagnosis] = None
    return list(fits)


def sentence(causes: Sequence[str]) -> str:
    """Name all causes, which would look the same."""
    return f"{EXPLANATION} {', or when '.join(causes)}." if causes else ""


def expect_gradients(
    observed: Mapping[str, Mapping[str, Any]],
    expected: Mapping[str, Array],
    name: str,
    *,
    mistakes: Callable[[], Mapping[str, Array | list[Array]]] = dict,
    trials: Callable[[], Sequence[Trial]] = tuple,
    tolerance: float = 1e-5,
) -> None:
    """Check the gradients of a loss through adapter `name` with respect to its arguments."""
    missing = [of for of in expected if observed[of]["dtype"] == "missing"]
    expect(
        not missing,
        f"{name} passes no gradient to {' and '.join(missing)}: look for .data, .detach(), .item()"
        " or torch.no_grad() on the way, or for a tensor rebuilt with torch.tensor(...)",
        "no-gradient",
    )
    for of, gradient in expected.items():
        if observed[of]["dtype"] == "unrecognised":
            continue  # Weights in a layout of the submission's own: nothing to compare.
        expect_close(
            observed[of],
            gradient,
            f"the gradient of {name} with respect to {of}",
            mistakes=mistakes,
            trials=trials,
            tolerance=tolerance,
            hint=IF_VALUES_ARE_RIGHT,
        )


def expect_learned(observed: Mapping[str, Any], weights: Collection[Any], name: str) -> None:
    """Check that a backward pass reaches no more than these weights besides the inputs.

    They may be kept in more tensors (a projection for each head), but not in more numbers.
    """
    most = sum(map(np.size, weights))
    expect(
        observed["learned_numbers"] <= most,
        f"{name} learns {observed['learned_numbers']} numbers, expected {most}: there are no biases"
        " and no other parameters",
        "extra-parameters",
    )


def expect_unchanged(changed: Sequence[str], name: str) -> None:
    expect(
        not changed,
        f"{name} changed its input {' and '.join(changed)} in place; the caller still needs it",
        "input-changed",
    )


def expect_equal(
    got: Any,
    expected: Any,
    name: str,
    *,
    given: object = None,
    mistakes: Callable[[], Mapping[str, Any]] = dict,
    trials: Callable[[], Sequence[Trial]] = tuple,
    hint: str = "",
) -> None:
    """Fail unless two sequences (or strings) are equal, saying where they part."""
    if got == expected:
        return
    lines = [name if given is None else f"{name} for {shortened(given)}"]
    place = next(
        (i for i, (left, right) in enumerate(zip(got, expected, strict=False)) if left != right),
        min(len(got), len(expected)),
    )
    lines.append(f"  they part at [{place}] (lengths: got {len(got)}, expected {len(expected)})")
    theirs, right = excerpt(got, place), excerpt(expected, place)
    lines.append(f"  got       {theirs}")
    lines.append(f"  expected  {right}")
    others = trials()
    expect_settled(name, [trial.label for trial in others if not trial.is_settled])
    # Some mistakes take long to work out: only if there is one left that explains the trials.
    answers = mistakes() if not others or possible(others) else {}
    fitting = [what for what, answer in answers.items() if got in options_of(answer)]
    asked = [Trial("this call", got, expected, answers), *others]
    named = confirmed(fitting, asked) or explaining_most(fitting, asked)
    certain = "" if named else right_and_wrong(others)
    finding = "\n".join([*lines, *([f"  {certain}"] if certain else [])])
    rest = unexplained(named, asked)
    report(finding, named, hint, rest)


def excerpt(sequence: Any, place: int) -> str:
    start = max(place - 3, 0)
    shown = repr(sequence[start : place + 5])[:1000]
    return ("... " if start else "") + shown + (" ..." if place + 5 < len(sequence) else "")


def a(noun: str) -> str:
    return "nothing (None)" if noun == "NoneType" else f"a value of type {noun}"
