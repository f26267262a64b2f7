"""Measure what this project promises, on this machine.

python scripts/bench.py pipeline
python scripts/bench.py pipeline --json
"""

import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

from process import keep_freed_memory  # isort: split

import torch
import tyro
from cli import run

from cs_basics.bpe import train_bpe
from cs_basics.config import END_OF_TEXT, PRESETS
from cs_basics.evaluation import make_loss_function
from cs_basics.generate import generate
from cs_basics.hardware import compile_if_possible, matmul_rate, resolve_dtype
from cs_basics.optim import AdamW, clip_grad_norm
from cs_basics.run_folder import build_model
from cs_basics.stories import write_stories
from cs_basics.tokenizer import Tokenizer

SCRIPTS = Path(__file__).parent
MEGABYTES = 100
ROUNDS = 5


@dataclass(frozen=True)
class Row:
    """One measurement, with what it is compared to."""

    name: str
    ours: float
    unit: str
    peer: float | None = None
    """The same by the other way that the name says, in the same run."""
    goal: str | None = None
    met: bool | None = None

    @property
    def ratio(self) -> float | None:
        """Ours in terms of the peer."""
        return None if self.peer is None else self.ours / self.peer


def main(
    subject: Annotated[Literal["pipeline"], tyro.conf.Positional],
    as_json: Annotated[bool, tyro.conf.arg(name="json")] = False,
) -> None:
    """Measure, show a table, and say which goals are met.

    Args:
        subject: pipeline: the way from text to stories, each station by itself.
        as_json: Print one JSON object instead of the table.
    """
    keep_freed_memory()
    rows: list[Row] = []
    for measure in {"pipeline": PIPELINE}[subject]:
        print(f"measuring. {measure.__doc__}", file=sys.stderr)
        rows += measure()
    if as_json:
        cells = [asdict(row) | {"ratio": row.ratio} for row in rows]
        print(json.dumps({"machine": machine(), "rows": cells}))
        return
    print(f"\n{machine()}\n")
    print(f"{'':44}{'ours':>10}{'peer':>10}  {'unit':<10}{'ratio':>7}  goal")
    for row in rows:
        peer = "" if row.peer is None else f"{row.peer:,.4g}"
        ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
        goal = "" if row.goal is None else f"{row.goal}: {'met' if row.met else 'MISSED'}"
        print(f"{row.name:44}{row.ours:>10,.4g}{peer:>10}  {row.unit:<10}{ratio:>7}  {goal}")


def machine() -> str:
    """Describe what the figures were measured on."""
    return (
        f"{platform.machine()}, {os.cpu_count()} cores, {torch.get_num_threads()} threads, "
        f"Python {platform.python_version()}, torch {torch.__version__}"
    )


def median_time(function: Callable[[], object], rounds: int = ROUNDS) -> float:
    """Return the median seconds of a call, after one that does not count."""
    return alternating_times([function], rounds)[0]


def alternating_times(functions: list[Callable[[], object]], rounds: int = ROUNDS) -> list[float]:
    """Return the median seconds of each function, called in turn so that all share the noise."""
    times: list[list[float]] = [[] for _ in functions]
    for number in range(rounds + 1):
        for function, elapsed in zip(functions, times, strict=True):
            start = time.perf_counter()
            function()
            if number:
                elapsed.append(time.perf_counter() - start)
    return [statistics.median(elapsed) for elapsed in times]


def measure_corpus_and_tokenizer() -> list[Row]:
    """Stories, a vocabulary, ids."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "stories.txt"
        write_s = median_time(lambda: write_stories(path, 4_000_000, seed=0))
        train_s = median_time(lambda: train_bpe(path, 10_000, [END_OF_TEXT], num_workers=1))
        tokenizer = Tokenizer(*train_bpe(path, 2_000, [END_OF_TEXT]), [END_OF_TEXT])
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
        Tokenizer(vocab, merges, [END_OF_TEXT]).save(folder / "tokenizer")
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
from cs_basics.tokenizer import Tokenizer
tokenizer = Tokenizer.load(sys.argv[1])
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
start = peak()
with Path(sys.argv[2]).open(newline="") as lines:
    for _ in tokenizer.encode_iterable(lines):
        pass
print(peak() - start)
"""


def peak_memory_of(command: list[str]) -> float:
    """Run a command; return the largest sum of the resident memory of its processes, in MB."""
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    peak = 0.0
    while process.poll() is None:
        peak = max(peak, sum(resident_megabytes(pid) for pid in with_children(process.pid)))
        time.sleep(0.05)
    if process.returncode:
        raise ValueError(f"exit code {process.returncode} from {' '.join(command)}")
    return peak


def with_children(pid: int) -> list[int]:
    """Return a process and all that descend from it (Linux)."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return [pid]
    return [pid, *(known for child in children for known in with_children(int(child)))]


def resident_megabytes(pid: int) -> float:
    """Return the resident memory of a process, 0 if it is gone."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def measure_training() -> list[Row]:
    """Training steps of the stories preset, eager and compiled in turn."""
    config = PRESETS["stories"][1]
    device = torch.device("cpu")
    dtype = resolve_dtype("auto", device)
    torch.manual_seed(0)
    model = build_model(config)
    optimizer = AdamW(model.parameters())
    ids = torch.randint(config.vocab_size, (config.batch_size, config.context_length + 1))
    inputs, targets = ids[:, :-1].contiguous(), ids[:, 1:].contiguous()
    plain = make_loss_function(model, dtype)

    def step_with(loss_of: Callable[..., torch.Tensor]) -> Callable[[], None]:
        def step() -> None:
            optimizer.zero_grad(set_to_none=True)
            loss_of(inputs, targets).backward()
            clip_grad_norm(model.parameters(), 1.0)
            optimizer.step()

        return step

    compiled = compile_if_possible(plain, device)
    eager_s, compiled_s = alternating_times([step_with(plain), step_with(compiled)])
    num_tokens = config.batch_size * config.context_length
    seconds = median_time(lambda: list(generate(model, [1], 100, seed=0)), rounds=3)
    name = f"train, {str(dtype)[6:]}, compiled (peer: eager)"
    return [
        Row("matrix products, float32", matmul_rate(torch.float32, device) / 1e9, "GFLOP/s"),
        Row("matrix products, bfloat16", matmul_rate(torch.bfloat16, device) / 1e9, "GFLOP/s"),
        Row(name, num_tokens / compiled_s, "tokens/s", peer=num_tokens / eager_s),
        Row("generate, one story", 100 / seconds, "tokens/s"),
    ]


PIPELINE = [measure_corpus_and_tokenizer, measure_memory, measure_training]


if __name__ == "__main__":
    run(main)
