"""What a tokenizer is made of stays its maker's."""

import pytest
from compare import expect
from probes.text import tokenizer_arguments
from texts import PROSE, tokenizer

pytestmark = [pytest.mark.problem("tokenizer"), pytest.mark.usefixtures("rng")]


def test_tokenizer_leaves_its_arguments_alone(observe):
    # Neither in the order of their lengths nor in that of the alphabet.
    given = observe.fresh.tokenizer(tokenizer(["SECOND", "LONGEST", "END"]))
    text = observe.fresh.text(f"{PROSE}END and SECOND")
    changed = observe(tokenizer_arguments, tokenizer=given, text=text)["changed"]
    expect(
        not changed,
        f"get_tokenizer changed its argument {' and '.join(changed)}: the caller still"
        " needs it, copy it first",
        "input-changed",
    )
