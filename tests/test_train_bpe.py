"""Training byte-pair encoding."""

import numpy as np
import pytest
from compare import expect, expect_equal, noting, runs
from mistakes import merges as mistakes
from oracles import text as oracles
from probes.text import train_bpe, train_bpe_in_parallel, train_bpe_on_nothing, train_bpe_time
from texts import END, PROSE, in_letters
from trials import ask, once

pytestmark = pytest.mark.usefixtures("rng")

NAME = "run_train_bpe"


@once
def trials(observe):
    lines = "the dog's\r\n  fox\r\n\r\n12 12345 the fox\n\n IT'S it's cafe\u0301 caf\u00e9 fox\n"
    overlapping = f"ab{END}xycd{END}ab xyz{END}{END}xy the cab xyw " * 3
    for label, text, num_merges, specials in [
        ("ties", 2 * " zz yy xx zz yy xx ba ab ca ac abc abd", 14, [END]),
        ("tied pairs of tokens", 2 * " abc abc xbc xbc abx abx ax ax \u00e9a \u00e8a", 14, [END]),
        ("repeated letters", 2 * " aaaa aaa aaaaa baaa abab", 8, [END]),
        ("lines, numbers, contractions, accents", lines * 2, 20, [END]),
        ("white space", "a  b\n\n c \n\td   e  \n\n f" * 3, 20, [END]),
        ("bytes that are no UTF-8", b"\xef\xbb\xbfab\xff\xfe\n\xff\xfe ab\xe4\xbd ab", 8, [END]),
        ("a special token", f"ab{END}cd ab{END}{END}cdab the the{END}" * 3, 16, [END]),
        ("special tokens that overlap", overlapping, 12, [END, END + "xy"]),
        ("special tokens that overlap, the longer one first", overlapping, 12, [END + "xy", END]),
        ("a special token of symbols", "ab[X]+(?cd a|bab XX+( ab" * 3, 10, ["[X]+(?", "a|b"]),
        ("no special tokens", 2 * " low low lower lowest", 6, []),
        ("pairs that occur once", "the dog lies upon the mat", 12, [END]),
        ("more merges than pairs", " hello yellow hello yellow", 100, [END]),
    ]:
        text = text if isinstance(text, bytes) else text.encode()
        fewest = 1 if label == "pairs that occur once" else 2
        _, num_merges = learned(text, num_merges, specials, num_merges == 100, fewest)
        arguments = text, 256 + len(specials) + num_merges, specials
        yield ask(
            observe,
            label,
            oracles.train_bpe(*arguments),
            mistakes.bpe_merges(*arguments),
            read=lambda seen: seen["merges"],
            probe=train_bpe,
            text=text,
            vocab_size=arguments[1],
            special_tokens=specials,
        )


def learned(text, num_merges, specials, to_the_end=False, fewest=2):
    """Return the merges, and how many to ask for so that a pair is left; all, if `to_the_end`."""
    vocab_size = oracles.size_without_merges(specials) + num_merges + 1
    merges = oracles.train_bpe(text, vocab_size, specials, fewest=1 if to_the_end else fewest)
    if not to_the_end:
        num_merges = min(num_merges, len(merges) - 1)
        assert num_merges >= 0, f"this text has nothing to learn from: {text!r}"
    return merges[:num_merges], num_merges


def examine(observe, text, num_merges, special_tokens=(END,), to_the_end=False, fewest=2, **how):
    """Train for up to `num_merges` merges and compare with counting everything anew each time.

    A text is of ASCII words and spaces, in none of which the same two letters occur twice, with one
    special token, unless it is asked for something else.


    Pairs that occur less often than `fewest` times are not asked for, and one is always left: what
    happens at the end is asked for by `to_the_end`.
    """
    text, specials = observe.fresh.data(text), [*map(observe.fresh.special, special_tokens)]
    expected, num_merges = learned(text, num_merges, specials, to_the_end, fewest)
    vocab_size = oracles.size_without_merges(specials) + num_merges
    arguments = text, vocab_size, specials
    asked = {"text": text, "vocab_size": vocab_size, "special_tokens": specials, **how}

    def runs_with(applies, **others):
        return lambda: observe(train_bpe, **{**asked, **others}) if applies else 1 / 0

    decoded = text.decode("utf-8", "ignore")
    letters, rewritten = in_letters(specials)
    in_their_place = rewritten(text.decode("utf-8", "surrogateescape"))
    with (
        noting(
            "with as many merges as there are pairs; where no pair is left, training stops",
            runs_with(
                len(expected) < num_merges, vocab_size=vocab_size - num_merges + len(expected)
            ),
        ),
        noting(
            "with room for a merge; vocab_size may leave none",
            runs_with(num_merges == 0, vocab_size=vocab_size + 1),
        ),
        noting(
            "with a special token; the list of them may be empty",
            runs_with(not specials, special_tokens=[END]),
        ),
        noting(
            "with a pathlib.Path; a string may be given, too",
            runs_with(how.get("path_as") == "str", path_as="path"),
        ),
        noting(
            "on the same text without bytes that are not UTF-8; every byte is kept",
            runs_with(decoded.encode() != text, text=decoded.encode()),
        ),
        noting(
            "with special tokens of letters only; where they are part of a regular expression,"
            " escape them (regex.escape)",
            runs_with(
                any(special != oracles.regex.escape(special) for special in specials),
                special_tokens=letters,
                text=in_their_place.encode("utf-8", "surrogateescape"),
            ),
        ),
    ):
        seen = observe(train_bpe, **asked)
    check_kinds(seen)
    more = seen["merges"][len(expected) :]
    expect(
        not (to_the_end and more and seen["merges"][: len(expected)] == expected),
        f"{NAME} goes on after all {len(expected)} merges that the text has, with {more[:3]}:"
        " pairs that no longer occur are none; where no pair is left, training stops",
        "merges-pairs-that-are-gone",
    )
    expect_equal(
        seen["merges"],
        expected,
        f"{NAME}: merges",
        mistakes=lambda: mistakes.bpe_merges(*arguments),
        trials=lambda: trials(observe),
    )
    if to_the_end:
        check_ids(seen["vocab"])
    return seen["vocab"], expected, specials


def word_of(rng, letters, longest):
    """A word in which no two neighbours occur twice, so that each pair in it counts once."""
    word = str(rng.choice([*letters]))
    for letter in rng.choice([*letters], rng.integers(0, longest)):
        is_wide_again = letter in word and not letter.isascii()
        if word[-1] + letter not in word and letter != word[-1] and not is_wide_again:
            word += letter
    return word


def check_kinds(seen):
    expect(not seen["strange"], f"{NAME} returned {seen['strange']}", "wrong-type")


def check_ids(vocab):
    last = max(vocab, default=0)
    expect(
        len(vocab) == last - min(vocab, default=0) + 1,
        f"{NAME}: there are {len(vocab)} ids up to {last}: where no pair is left, the vocabulary is"
        " smaller than asked for, and its ids are 0, 1, 2, ... all the same",
        "ids-with-a-gap",
    )


def check_vocab(vocab, merges, specials):
    """Check the tokens and that ids are 0, 1, 2, ...; which token has which id is free."""
    lacking = [special for special in specials if special.encode() not in vocab.values()]
    expect(
        not lacking,
        f"{NAME}: the vocabulary lacks the special tokens {lacking}: all that are given are in it,"
        " whether or not they occur in the text",
        "special-token-is-missing",
    )
    wanted = [bytes([byte]) for byte in range(256)]
    wanted += [special.encode() for special in specials if len(special.encode()) > 1]
    wanted += [left + right for left, right in merges]
    missing = sorted(set(wanted) - set(vocab.values()))
    surplus = sorted(set(vocab.values()) - set(wanted))
    expect(not missing, f"{NAME}: the vocabulary lacks {missing[:5]}")
    expect(not surplus, f"{NAME}: the vocabulary holds {surplus[:5]}, which nothing makes")
    size = len(wanted)
    expect(
        sorted(vocab) == list(range(size)),
        f"{NAME}: {len(vocab)} ids from {min(vocab)} to {max(vocab)}, expected 0 to {size - 1}",
    )


@pytest.mark.parametrize("path_as", ["path", "str"])
def test_train_merges_the_most_frequent_pair(observe, path_as):
    examine(observe, 2 * PROSE.encode(), 60, [END], path_as=path_as)


def test_train_merges_pairs_that_occur_once(observe):
    examine(observe, b"the dog lies upon the mat", 12, fewest=1)


@pytest.mark.parametrize("round_", range(4))
def test_train_keeps_its_counts_up_to_date(observe, rng, round_):
    # Few letters and many merges: every merge changes the counts of many neighbours.
    words = [word_of(rng, "abcd" if round_ % 2 else "abc", 8) for _ in range(40)]
    text = " ".join(rng.choice(words, 120))
    examine(observe, text.encode(), 60)


@pytest.mark.parametrize(
    "text",
    [
        "ab cd",
        "ba ab ca ac",
        "zz yy xx zz yy xx",
        "abc abd",
        "Ab ab Ba ba",
        "ab a b ba abb bba",
        # After (b, c): the tie is between (a, bc) and others that join to greater strings.
        "abc abc xbc xbc abx abx ax ax",
    ],
)
def test_train_breaks_ties_by_comparing_byte_strings(observe, text):
    examine(observe, f"{text}\n{text}\n".encode(), 12)


@pytest.mark.parametrize(
    "text",
    [
        " \u00e8 \u00e9",
        " \u00ff\u0100 \u0100\u00ff",
        " \u00e9\u00e8 \u00ea\u00eb \u4f60\u597d \u4e16\u754c \U0001f643 \U0001f600",
    ],
)
def test_train_breaks_ties_between_bytes_that_are_not_characters(observe, text):
    # Halves of characters all decode to U+FFFD; as bytes they differ.
    examine(observe, 2 * text.encode(), 20)


WIDE = [
    4 * " na\u00efve" + 3 * " caf\u00e9s" + 2 * " caf",
    4 * " a\u4f60b" + 2 * " x\u0661y" + " b",
    4 * " a\x85b" + 3 * " c\u2028d" + " b",
    4 * " it\u2019s" + 2 * " he\u2019ll" + " it",
]
"""Letters, digits, spaces and marks that a pattern of ASCII or on bytes does not know."""


@pytest.mark.parametrize("text", WIDE)
def test_train_takes_letters_of_several_bytes(observe, text):
    examine(observe, text.encode(), 14)


@pytest.mark.parametrize(
    "text", ["aaa", "aaaa", "aaaaa aaa", "ababab", "aaaaaaaab", "abaabaaba aa"]
)
def test_train_counts_overlapping_pairs_like_any_others(observe, text):
    examine(observe, f"{text} xy xy\n{text} xy xy\n".encode(), 8)


def test_train_weighs_words_by_how_often_they_occur(observe):
    examine(observe, b"ab " * 3 + b"cd " * 5 + b"ce cf cg ch " + b"ab " * 3, 6)


def test_train_splits_like_gpt2(observe):
    text = "it's it'll IT'S we've 'tis don't 12 123 x12 a,b .. !? a  b \t c\n\n d\n" * 3
    examine(observe, text.encode(), 40)


def test_train_does_not_merge_across_pretokens(observe):
    examine(observe, b"a b a b a b a b. x1 x1 x1 x1", 20)


MORE = 2 * b" the dog"
"""What is left to learn when all in question is learned."""


@pytest.mark.parametrize(
    "text",
    [
        b"a\r\n\r\nb\r\n\r\n" * 4,
        b"\r\n x\r y" * 3,
        b"a\n\n\nb\r\r\rc" * 2,
        b"a\x0b\x0b\x0cb\x1c\x1cc" * 3,
        b"\xef\xbb\xbfab \xef\xbb\xbfab",
        b"a\x00\x00b\x1a\x1a\n" * 3,
    ],
)
def test_train_keeps_line_ends_marks_and_control_characters(observe, text):
    examine(observe, text + MORE, 10)


@pytest.mark.parametrize(
    "text",
    [
        b"\n\xff\xfe\xff\xfe\n\xff\xfe\n",
        b"ok\n\xc3\x28\n\xc3\x28\n",
        b"\n\xe4\xbd\n\xe4\xbd\nab",
        b"\n\xed\xa0\x80\n\xed\xa0\x80\n",
    ],
)
def test_train_keeps_invalid_utf8(observe, text):
    examine(observe, text + MORE, 6)


def test_train_keeps_text_that_is_not_nfc(observe):
    examine(observe, (3 * " cafe\u0301" + 2 * " caf\u00e9" + " x\ufb01").encode(), 10)


@pytest.mark.parametrize("text", [b"", b"a", b" ", b" a 1\n a 1\n", 2 * b" b c d"], ids=repr)
def test_train_takes_a_text_with_hardly_any_pairs(observe, text):
    data, special = observe.fresh.data(text), observe.fresh.special(END)
    if oracles.train_bpe(data, 256 + 1 + 50, [special]):
        examine(observe, text, 50, [END], to_the_end=True)
        return
    where = f"a file of {data!r}" if data else "an empty file"
    with noting(f"with a text that has a pair; {where} has nothing to learn from, and no merges"):
        seen = observe(train_bpe_on_nothing, text=data, special_tokens=[special])
    if seen is None:  # There is nothing to learn: no merges, or a ValueError.
        return
    check_kinds(seen)
    expect_equal(
        seen["merges"],
        [],
        f"{NAME} on {where}: merges",
        mistakes=lambda: mistakes.bpe_merges(data, 300, [special]),
        trials=lambda: trials(observe),
    )
    check_ids(seen["vocab"])


@pytest.mark.parametrize("text", [" ab ab", " low low lower lower", " aa bb aa bb"])
def test_train_stops_when_nothing_is_left_to_merge(observe, text):
    examine(observe, text.encode(), 100, [END], to_the_end=True)


@pytest.mark.parametrize("num_merges", [0, 1])
def test_train_counts_bytes_and_special_tokens_in_vocab_size(observe, num_merges):
    examine(observe, PROSE.encode(), num_merges)


def text_with(rng, specials, others=()):
    """Words of different letters with a space between them, or a special token and no space."""
    words = ["the", "dog", "lies", "upon", *others]
    between = [" ", " ", *specials]
    return "".join(rng.choice(kind) for _ in range(100) for kind in (words, between)).encode()


@pytest.mark.parametrize("special", [END, "dog", " the"])
def test_train_stops_at_special_tokens_and_never_counts_them(observe, rng, special):
    examine(observe, text_with(rng, [special]), 25, [special])


@pytest.mark.parametrize(
    "specials", [[END, "<|pad|>"], ["dog", " the"], ["DOG", "Lies", END.upper(), END]]
)
def test_train_takes_several_special_tokens(observe, rng, specials):
    one = examine(observe, text_with(rng, [END]), 12, [END])
    with noting("with one special token; there may be several"):
        several = examine(observe, text_with(rng, specials), 25, specials)
        if runs(lambda: check_vocab(*one)):  # Else another item says what the vocabulary lacks.
            check_vocab(*several)


def test_train_gives_a_special_token_of_one_byte_no_second_id(observe, rng):
    check_vocab(*examine(observe, text_with(rng, ["#"]), 12, ["#"]))


@pytest.mark.parametrize("specials", [["[x]+(?"], ["a|b"], ["\u00e9\U0001f643"]])
def test_train_takes_symbols_for_special_tokens(observe, rng, specials):
    examine(observe, text_with(rng, specials, ["[x]+ (?", "a b"]), 25, specials)


@pytest.mark.parametrize("specials", [["pause", "pausetoo"], ["pausetoo", "pause"]])
def test_train_takes_the_longest_special_token(observe, rng, specials):
    examine(observe, text_with(rng, specials), 25, specials)


def test_train_takes_the_first_of_special_tokens_that_overlap(observe, rng):
    # The first of " stop" and "pause" in " stopause" is " stop", though the other is longer.
    text = text_with(rng, ["stopausetoo"])
    examine(observe, text, 25, ["stop", "pausetoo"])


def test_train_does_not_join_the_text_around_a_special_token(observe):
    examine(observe, (f"ab{END}cd " * 6 + "xy xy xy").encode(), 8, [END])


def test_train_lists_all_tokens_in_the_vocabulary(observe):
    text = f"the{3 * ' lies upon the'}{END}".encode()
    seen = observe(train_bpe, text=2 * text, vocab_size=263, special_tokens=[END])
    expect(not seen["unlike"], f"{NAME} returned {seen['unlike']}", "wrong-type")
    check_vocab(*examine(observe, 2 * text, 6))


def test_train_takes_an_empty_list_of_special_tokens(observe):
    examine(observe, 2 * b" low low lower lowest", 8, [])


def test_train_leaves_the_special_tokens_alone(observe):
    # Neither in the order of their lengths nor in that of the alphabet.
    specials = [*map(observe.fresh.special, ["<|bb|>", "<|long one|>", "<|a|>"])]
    text = observe.fresh.data(b"the dog<|bb|>lies")
    seen = observe(train_bpe, text=text, vocab_size=262, special_tokens=specials)
    check_kinds(seen)
    expect(
        not seen["changed"],
        "run_train_bpe changed special_tokens, which the caller still needs: copy the list first",
        "input-changed",
    )


# --- texts large enough to be read in parts and to take time ---

RARE = "<|bgkp|>"
"""Of letters that no word has, and rare: whether it is counted is asked elsewhere."""

# Counting each distinct pre-token anew for each merge takes about 30, every occurrence 600.
MOST_COUNTS = 400


LETTERS = "eeettaoinshrdlu"
OF_SEVERAL_BYTES = "eeettaoinshrdlu\u00e9\u4f60"


def documents(rng, num_bytes, num_words, separator, letters=LETTERS):
    """Sentences of made-up words, a few of them frequent and most of them rare, as in a language.

    With letters of several bytes, a boundary at a random byte may split one. No space stands beside
    the separator: whether one would be dropped is asked elsewhere.
    """
    words = [" " + word_of(rng, letters, 9) for _ in range(num_words)]
    words += [".", ",", "'s", "\n", "  ", " 12"]
    chance = 1 / rng.permutation(np.arange(5, len(words) + 5))
    average = sum(len(word.encode()) for word in words) / len(words)
    picks = rng.choice(np.array(words, object), int(num_bytes / average), p=chance / chance.sum())
    picks[::500] = f"{separator}."
    return "".join(picks).encode()


def examine_large(observe, **arguments):
    seen = observe(train_bpe, **arguments)
    check_kinds(seen)
    expect_equal(
        seen["merges"],
        oracles.train_bpe(**arguments),
        f"{NAME}: merges",
        given=arguments["text"],
        hint="If small texts are right: is a large one split inside a character, a pre-token"
        " or a special token before it is counted?",
    )


# A text is read in parts that end at special tokens: what if there are none in it?
@pytest.mark.parametrize("separator", [RARE, "\n"])
def test_train_takes_a_text_of_megabytes(observe, rng, separator):
    text = documents(rng, 1_200_000, 300, separator)
    examine_large(observe, text=text, vocab_size=287, special_tokens=[RARE])


def test_train_takes_letters_of_several_bytes_in_a_large_text(observe, rng):
    text = documents(rng, 600_000, 300, RARE, OF_SEVERAL_BYTES)
    examine_large(observe, text=text, vocab_size=287, special_tokens=[RARE])


def test_train_splits_no_letter_of_several_bytes_of_a_large_text(observe, rng):
    # No two pairs are equally frequent: with a few letters split, the merges change places.
    letters = rng.permutation([*"abcdefghijkl"])
    words = np.array([f" {letter}{end}" for end in ("\u03b1", "") for letter in letters], object)
    often = np.concatenate([10_000 + np.arange(12), 5_000 + np.arange(12)])
    picks = rng.permutation(np.repeat(words, often))
    text = "".join(f"{RARE}.{''.join(part)}" for part in np.array_split(picks, 400)).encode()
    examine_large(observe, text=text, vocab_size=281, special_tokens=[RARE])


@pytest.mark.parametrize(
    ("separator", "repeats"), [(RARE, 6000), ("\n", 6000), (RARE, 30_000)], ids=repr
)
def test_train_counts_every_word_of_a_large_text(observe, rng, separator, repeats):
    # All words are equally frequent: with a single one lost or split, the merges change places.
    letters = "".join(rng.permutation([*"abcdefghijklmnopqrstuvwx"]))
    words = [f" {letters[i : i + 2]}" for i in range(0, 24, 2)]
    picks = rng.permutation(np.repeat(np.array(words, object), repeats))
    parts = np.array_split(picks, 400)
    text = "".join(f"{separator}.{''.join(part)}" for part in parts).encode()
    examine_large(observe, text=text, vocab_size=280, special_tokens=[RARE])


def test_train_gives_the_same_in_parallel(observe, rng):
    text = documents(rng, 200_000, 300, RARE)
    arguments = {"text": text, "vocab_size": 300, "special_tokens": [RARE]}
    for seen in observe(train_bpe_in_parallel, **arguments, workers=[1, 3]):
        check_kinds(seen)
        expect_equal(
            seen["merges"],
            oracles.train_bpe(**arguments),
            f"{NAME}: merges learned by several processes",
            given=text,
        )


def test_train_does_not_count_the_whole_text_anew_for_each_merge(observe, rng):
    text = documents(rng, 130_000, 1000, RARE)
    seen = observe(train_bpe_time, text=text, vocab_size=500, special_tokens=[RARE])
    counts = seen["training_s"] / seen["one_count_s"]
    expect(
        counts < MOST_COUNTS,
        f"{NAME}: 243 merges on 130 kB took {seen['training_s']:.1f} s of CPU time, as long as"
        f" counting the text's pairs {counts:.0f} times (allowed: {MOST_COUNTS}): count equal"
        " pre-tokens once, with their frequency, and after a merge update only what it changed",
        "too-slow",
    )
