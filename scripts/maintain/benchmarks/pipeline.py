"""From text to stories, each station by itself: corpus, tokenizer, token file, training."""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

from cs_basics.fast import accelerate, compile_training
from cs_basics.fast.text.tokenizer import FastTokenizer
from cs_basics.fast.text.train_bpe import train_bpe
from cs_basics.generate import generate
from cs_basics.run.config import END_OF_TEXT
from cs_basics.run.evaluation import make_loss_function
from cs_basics.run.hardware import matmul_rate, resolve_dtype
from cs_basics.run.optimizer import make_optimizer
from cs_basics.run.presets import PRESETS
from cs_basics.run.tokenizer_folder import save_tokenizer
from cs_basics.stories.grammar import write_stories
from cs_basics.study.timing import alternating_times

from .measuring import Report, Row, median_time, peak_memory_of
from .models import ours, random_batch, training_step

SCRIPTS = Path(__file__).parents[2]
MEGABYTES = 100


def measure() -> Report:
    """Measure every station in turn."""
    rows: list[Row] = []
    for station in (measure_corpus_and_tokenizer, measure_memory, measure_training):
        print(f"measuring. {station.__doc__}", file=sys.stderr)
        rows += station()
    return Report(rows)


def measure_corpus_and_tokenizer() -> list[Row]:
    """Stories, a vocabulary, ids."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "stories.txt"
        write_s = median_time(lambda: write_stories(path, 4_000_000, seed=0))
        train_s = median_time(lambda: train_bpe(path, 10_000, [END_OF_TEXT], num_workers=1))
        tokenizer = FastTokenizer(*train_bpe(path, 2_000, [END_OF_TEXT]), [END_OF_TEXT])
        text = path.read_text()
    encode_s = median_time(lambda: tokenizer.encode(text))
    ids = tokenizer.encode(text)
    decode_s = median_time(lambda: tokenizer.decode(ids))
    return [
        Row("write stories", 4 / write_s, "MB/s"),
        Row("train 10,000 tokens on 4 MB of stories", train_s, "s"),
        Row("encode them, one process", 4 / encode_s, "MB/s"),
        Row("decode them", 4 / decode_s, "MB/s"),
    ]


def measure_memory() -> list[Row]:
    """The memory of encoding 100 MB, in processes of their own."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_stories(folder / "text", MEGABYTES * 1_000_000, seed=0)
        vocab, merges = train_bpe(folder / "text", 2_000, [END_OF_TEXT])
        save_tokenizer(FastTokenizer(vocab, merges, [END_OF_TEXT]), folder / "tokenizer")
        encode = [sys.executable, SCRIPTS / "encode.py", "--tokenizer", folder / "tokenizer"]
        encode += ["--text", folder / "text", "--out", folder / "tokens.bin"]
        start = time.perf_counter()
        peak = peak_memory_of(list(map(str, encode)))
        elapsed_s = time.perf_counter() - start
        lazily = subprocess.run(
            [sys.executable, "-c", _ENCODE_LAZILY, str(folder / "tokenizer"), str(folder / "text")],
            check=True,
            capture_output=True,
            text=True,
        )
    grown = float(lazily.stdout)
    return [
        Row("encode 100 MB to a token file", MEGABYTES / elapsed_s, "MB/s"),
        Row("  peak memory of all its processes", peak, "MB", goal="below 500", met=peak < 500),
        Row("encode_iterable over 100 MB, growth", grown, "MB", goal="below 50", met=grown < 50),
    ]


_ENCODE_LAZILY = """
import resource, sys
from pathlib import Path
from cs_basics.run.tokenizer_folder import save_tokenizer
from cs_basics.run.tokenizer_folder import load_tokenizer
tokenizer = load_tokenizer(sys.argv[1])
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
start = peak()
with Path(sys.argv[2]).open(newline="") as lines:
    for _ in tokenizer.encode_iterable(lines):
        pass
print(peak() - start)
"""


def measure_training() -> list[Row]:
    """Training steps of the stories preset, of ours and of the book in turn."""
    config = PRESETS["stories"][1]
    device = torch.device("cpu")
    dtype = resolve_dtype("auto", device)
    batch = random_batch(config)
    book, fast = ours(config.model), accelerate(ours(config.model))
    optimizer = make_optimizer(fast, config, is_fast=True)
    loss_of = compile_training(fast, config.model, optimizer, dtype, config.data.batch_size)
    fast_s, book_s = alternating_times([
        training_step(fast, optimizer, loss_of, batch),
        training_step(book, make_optimizer(book, config), make_loss_function(book, dtype), batch),
    ])  # fmt: skip
    num_tokens = config.data.batch_size * config.model.context_length
    seconds = median_time(lambda: list(accelerate(generate)(book, [1], 100, seed=0)), rounds=3)
    name = f"train, {str(dtype)[6:]} (peer: the book, not compiled)"
    return [
        Row("matrix products, float32", matmul_rate(torch.float32, device) / 1e9, "GFLOP/s"),
        Row("matrix products, bfloat16", matmul_rate(torch.bfloat16, device) / 1e9, "GFLOP/s"),
        Row(name, num_tokens / fast_s, "tokens/s", peer=num_tokens / book_s),
        Row("generate, one story", 100 / seconds, "tokens/s"),
    ]
