"""The one way to the fast twins: by identity, and nothing is imported before it is asked for."""

import subprocess
import sys
from pathlib import Path

from cs_basics.bpe import train_bpe
from cs_basics.fast import accelerate
from cs_basics.fast.text import train_bpe as fast_training
from cs_basics.fast.text.tokenizer import FastTokenizer
from cs_basics.tokenizer import Tokenizer

ROOT = Path(__file__).parents[3]


def test_the_book_is_replaced_by_its_twins():
    assert accelerate(Tokenizer) is FastTokenizer
    assert accelerate(train_bpe) is fast_training.train_bpe
    assert accelerate(FastTokenizer) is FastTokenizer


def test_what_only_looks_like_the_book_stays():
    impostor = type("Tokenizer", (), {"__module__": "cs_basics.tokenizer"})
    student = type("Student", (Tokenizer,), {})
    for thing in (impostor, student, 5, "cs_basics.tokenizer.Tokenizer", None, len):
        assert accelerate(thing) is thing


def test_text_needs_no_torch():
    code = """
import sys
from cs_basics.fast import accelerate
assert "numpy" not in sys.modules
from cs_basics.bpe import train_bpe
from cs_basics.tokenizer import Tokenizer
accelerate(Tokenizer), accelerate(train_bpe)
import cs_basics.run.encoding, cs_basics.run.tokenizer_folder
assert "torch" not in sys.modules
"""
    environment = {"PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, env=environment)
