"""Training byte-pair encoding on texts large enough to be read in parts and to take time."""

import numpy as np
import pytest
from compare import expect, expect_equal
from oracles import text as oracles
from probes.text import train_bpe, train_bpe_in_parallel, train_bpe_time

pytestmark = pytest.mark.problem("train_bpe")

NAME = "run_train_bpe"
END = "<|bgkp|>"
"""Of letters that no word has, and rare: whether it is counted is asked elsewhere."""

# Counting each distinct pre-token anew for each merge takes about 30, every occurrence 600.
MOST_COUNTS = 400


def documents(rng, num_bytes, num_words, separator):
    """Sentences of made-up words, a few of them frequent and most of them rare, as in a language.

    Some words hold letters of several bytes, so that a boundary at a random byte may split one.
    No space stands beside the separator: whether one would be dropped is asked elsewhere.
    """
    letters = np.array([*"eeettaoinshrdlu", "\u00e9", "\u4f60", "\U0001f643"], object)
    words = [" " + "".join(rng.choice(letters, rng.integers(1, 10))) for _ in range(num_words)]
    words += [".", ",", "'s", "\n", "  ", " 12"]
    chance = 1 / rng.permutation(np.arange(5, len(words) + 5))
    average = sum(len(word.encode()) for word in words) / len(words)
    picks = rng.choice(np.array(words, object), int(num_bytes / average), p=chance / chance.sum())
    picks[::500] = f"{separator}."
    return "".join(picks).encode()


def examine(observe, **arguments):
    seen = observe(train_bpe, **arguments)
    expect(not seen["strange"], f"{NAME} returned {seen['strange']}", "wrong-type")
    expect_equal(
        seen["merges"],
        oracles.train_bpe(**arguments),
        f"{NAME}: merges",
        given=arguments["text"],
        hint="If small texts are right: is a large one split inside a character, a pre-token"
        " or a special token before it is counted?",
    )


# A text is read in parts that end at special tokens: what if there are none in it?
@pytest.mark.parametrize(
    ("special_tokens", "separator"), [([END, "<|pad|>"], END), (["<|pad|>"], "\n")], ids=str
)
def test_train_takes_a_text_of_megabytes(observe, rng, special_tokens, separator):
    text = documents(rng, 1_500_000, 300, separator)
    vocab_size = 256 + len(special_tokens) + 30
    examine(observe, text=text, vocab_size=vocab_size, special_tokens=special_tokens)


@pytest.mark.parametrize(
    ("separator", "repeats"), [(END, 6000), ("\n", 6000), (END, 30_000)], ids=repr
)
def test_train_counts_every_word_of_a_large_text(observe, rng, separator, repeats):
    # All words are equally frequent: with a single one lost or split, the merges change places.
    letters = "".join(chr(code) for code in rng.choice(np.arange(0x4E00, 0x9F00), 24, False))
    words = [f" {letters[i : i + 2]}" for i in range(0, 24, 2)]
    picks = rng.permutation(np.repeat(np.array(words, object), repeats))
    parts = np.array_split(picks, 400)
    text = "".join(f"{separator}.{''.join(part)}" for part in parts).encode()
    examine(observe, text=text, vocab_size=290, special_tokens=[END])


def test_train_gives_the_same_in_parallel(observe, rng):
    text = documents(rng, 200_000, 300, END)
    arguments = {"text": text, "vocab_size": 300, "special_tokens": [END]}
    for seen in observe(train_bpe_in_parallel, **arguments, workers=[1, 3]):
        expect(not seen["strange"], f"{NAME} returned {seen['strange']}", "wrong-type")
        expect_equal(
            seen["merges"],
            oracles.train_bpe(**arguments),
            f"{NAME}: merges learned by several processes",
            given=text,
        )


def test_train_does_not_count_the_whole_text_anew_for_each_merge(observe, rng):
    text = documents(rng, 130_000, 1000, END)
    seen = observe(train_bpe_time, text=text, vocab_size=500, special_tokens=[END])
    counts = seen["training_s"] / seen["one_count_s"]
    expect(
        counts < MOST_COUNTS,
        f"{NAME}: 243 merges on 130 kB took {seen['training_s']:.1f} s of CPU time, as long as"
        f" counting the text's pairs {counts:.0f} times (allowed: {MOST_COUNTS}): count equal"
        " pre-tokens once, with their frequency, and after a merge update only what it changed",
        "too-slow",
    )
