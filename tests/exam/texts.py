"""Texts and corpora of the examination: what real text does to a tokenizer, in small."""

from oracles import text as oracles

END = "<|endoftext|>"
# Means the same if it is part of a regular expression without being escaped.
STOP = "STOP"

# English with contractions, numbers and punctuation, without capitals, in lines that may be encoded
# one by one. No word holds the same two letters twice: how such pairs count is asked apart.
PROSE = (
    "the quick brown fox jumps over the lazy dog. the dog doesn't mind; it's asleep, isn't it?\n"
    "they'll say \"we've 1234 reasons\", he'd see you're right: 3.14159, 2,718 and 10%.\n"
    "an orange or a lemon lies lower than the lowest, newer than the newest of wider ones.\n"
)
# Also accents composed and not; Cyrillic, Greek, Chinese, Arabic, Hindi; an emoji family held
# together by joiners; spaces of other kinds, line ends of Windows.
CORPUS = (
    f"{PROSE}\n\n"
    "  indented\ttabs\tand trailing space \r\nWindows line\r\n\r\nline line line\n"
    "na\u00efve cafe\u0301 \u041f\u0440\u0438\u0432\u0435\u0442 \u043c\u0438\u0440 "
    "\u03b1\u03b2\u03b3 "
    "\u4f60\u597d\u4e16\u754c \u0645\u0631\u062d\u0628\u0627 \u0928\u092e\u0938\u094d\u0924\u0947 "
    "\U0001f468\u200d\U0001f469\u200d\U0001f467 a\u00a0b\u2003c\u3000d\n"
    "aaaaaaaa aaa aa a banana bandana lower lowest newer newest wider widest\n"
)

PLAIN = {
    "one letter": "s",
    "words": "the lazy dog jumps over the quick brown fox.",
    "numbers": "in 1234 there were 56 of 007.",
    "repeats": "aaaaaaaaaaaa aaaaa aaaa aaa aa a",
    "prose": PROSE,
}

AWKWARD = {
    "empty": "",
    "one emoji": "\U0001f643",
    "contractions": "I'll we've don't it's I'm he'd 'tis 'll LL'LL o'clock ''s",
    "curly apostrophes": "it\u2019s don\u2019t we\u2019ll I\u2019m you\u2019re",
    "numbers": "In 1234 there were 12,345.678 of 007 x2y2 \u00b2\u00bd\u2167",
    "runs of spaces": "a  b   c    d     ",
    "leading spaces": "   a",
    "only spaces": "     ",
    "newlines": "a\n\n\nb\n \n  c\n\n",
    "crlf": "one\r\ntwo\r\n\r\nthree\r",
    "tabs and other spaces": "\t\ta\u00a0\u2003b\u3000\u200bc\x0b\x0c\x85\u2028",
    "control characters": "a\x00b\x01\x7f\x1b[0m",
    "not NFC": "cafe\u0301 \u1e9b\u0323 \u212b \ufb01",
    "scripts": "\u041f\u0440\u0438\u0432\u0435\u0442 \u4f60\u597d \u0928\u092e \u0645\u0631",
    "emoji family": "\U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f44d\U0001f3fd",
    "edge code points": "\ufeff\ufffd\uffff\U0010ffff\ue000",
    "punctuation": "!?... --- ((())) @#$%^&*_+={}[]|\\:;/~`",
    "code": "def f(x):\n    return x ** 2  # square\n",
}

WITH_STOP = {
    "alone": STOP,
    "in the middle": f"dog{STOP}fox",
    "between spaces": f"dog {STOP} fox",
    "at the ends": f"{STOP}dog{STOP}",
    "two of them": f"dog{STOP}{STOP}fox",
    "different ones": f"{STOP}PAUSE{STOP} PAUSE",
    "cut off": f"STO TOP S{STOP}P",
    "another case": "dogstopfox Stop pause",
    "after a newline": f"dog\n{STOP}\n\n{STOP}\nfox",
}

# Special tokens that a regular expression would misread, that contain spaces, and no ASCII.
SYMBOLS = [END, "<|end|>", "[X]+(?", " pad ", "\U0001f643\u00e9"]

WITH_SYMBOLS = {
    "alone": END,
    "in the middle": f"dog{END}fox",
    "two of them": f"dog{END}{END}fox",
    "different ones": f"{END}<|end|>{END}[X]+(?<|end|>",
    "metacharacters": "a[X]+(?b [X] X+(?",
    "with spaces": "dog pad fox  pad  pad pad ",
    "not ASCII": "\U0001f643\u00e9\U0001f643e\u0301",
    "cut off": f"{END[:-1]} {END[1:]} <|end|{END}|>",
    "another case": f"dog{END.upper()}fox <|EndOfText|> PAD  Pad ",
    "other spaces": "dog<| endoftext |>fox <|end |>\u00a0pad\u00a0",
}

# The longest wins, whichever is listed first.
OVERLAPPING = [STOP, STOP + STOP]

MERGES = oracles.train_bpe(CORPUS.encode(), 256 + 90, [])


def in_letters(special_tokens):
    """Special tokens of letters only, and a function that puts them into a text for the others."""
    specials = special_tokens or []
    letters = [f"special{place}token" for place in range(len(specials))]
    by_length = sorted(zip(specials, letters, strict=True), key=lambda pair: -len(pair[0]))

    def rewritten(text):
        for special, other in by_length:
            text = text.replace(special, other).replace(special.upper(), other.upper())
        return text

    return letters, rewritten


def tokenizer(special_tokens=(END,), merges=MERGES, specials_in_vocab=True):
    """Arguments of get_tokenizer. None as special tokens has an item of its own."""
    special_tokens = special_tokens and list(special_tokens)
    known = special_tokens if special_tokens and specials_in_vocab else []
    return {
        "vocab": oracles.vocab_of(merges, known),
        "merges": list(merges),
        "special_tokens": special_tokens,
    }
