"""What a tokenizer is made of stays its maker's."""

import pytest
from compare import expect
from probes.text import tokenizer_arguments
from texts import CORPUS, tokenizer

pytestmark = [pytest.mark.problem("tokenizer"), pytest.mark.usefixtures("rng")]


@pytest.mark.parametrize("specials_in_vocab", [True, False])
def test_tokenizer_leaves_its_arguments_alone(observe, specials_in_vocab):
    # Neither in the order of their lengths nor in that of the alphabet.
    specials = ["<|bb|>", "<|long one|>", "<|a|>"]
    given = tokenizer(specials, specials_in_vocab=specials_in_vocab)
    given, text = observe.fresh.tokenizer(given), observe.fresh.text(f"{CORPUS}<|a|> and <|bb|>")
    seen = observe(tokenizer_arguments, tokenizer=given, text=text)
    # Special tokens that the vocabulary lacks are appended to it: to a copy, or to the one given.
    may_grow = ["vocab"] if not specials_in_vocab else []
    changed = [name for name in seen["changed"] if name not in may_grow]
    expect(
        not changed,
        f"get_tokenizer changed its argument {' and '.join(changed)}: the caller still"
        " needs it, copy it first",
        "input-changed",
    )
