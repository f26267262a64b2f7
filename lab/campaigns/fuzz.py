"""Damage files and run scripts on them: each ends with 0, or with 2 and one line.

python -m lab.campaigns.fuzz --files 1000
python -m lab.campaigns.fuzz --files 1 --first 714    # one case again

Each script runs in a forked process, which has everything imported and little memory and time.
Whatever the file, it leaves no half-made output.
"""

import contextlib
import json
import os
import random
import resource
import runpy
import shlex
import shutil
import signal
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

# One thread, before torch starts: a fork takes no others along.
os.environ["OMP_NUM_THREADS"] = "1"

from cli import run

import cs_basics.interop.llama
from cs_basics.stories.grammar import write_stories
from lab import ROOT

assert cs_basics.interop.llama

MAX_CPU_S, MAX_S, MAX_BYTES = 10, 60, 3_000_000_000
TINY = """--vocab-size 300 --context-length 32 --d-model 32 --d-ff 64 --num-kv-heads 2
    --batch-size 2 --max-steps 2 --eval-every 2 --num-samples 0 --device cpu --dtype float32"""
WORLD = (
    f"train debug --train-text text.txt --valid-text valid.txt --run-dir run {TINY}",
    "export run --out llama",
    "train_tokenizer --text text.txt --vocab-size 290 --out tokenizer",
    "convert_tokenizer tokenizer --out tokenizer.json",
    "convert_tokenizer tokenizer --out ranks.tiktoken",
    "encode --tokenizer tokenizer --text text.txt --out a.bin",
    "encode --tokenizer tokenizer --text valid.txt --out b.bin",
)
"""What makes the healthy files out of two texts."""
COMMANDS = {
    "generate run --max-tokens 3 --seed 1 --device cpu": "run/*.json run/checkpoints/* run/tok*/*",
    "evaluate run --text valid.txt --device cpu": "run/*.json run/checkpoints/* valid.txt",
    "train debug --run-dir run --resume --max-steps 3 --device cpu --num-samples 0": "run/**/*.*",
    "export run --out out": "run/*.json run/checkpoints/* run/tokenizer/*",
    "import_llama llama --out out": "llama/*",
    "encode --tokenizer tokenizer --text valid.txt --out out": "tokenizer/* valid.txt",
    "train_tokenizer --text valid.txt --vocab-size 280 --out out": "valid.txt",
    "convert_tokenizer tokenizer --out out.json": "tokenizer/*",
    "convert_tokenizer tokenizer.json --out out": "tokenizer.json",
    "convert_tokenizer ranks.tiktoken --out out": "ranks.tiktoken",
    "join_tokens a.bin b.bin --out out": "*.bin",
}
"""Scripts, and the files of the world that each reads."""
VALUES: list[Any] = [
    None, True, 0, -1, 7, 65_536, 10**9, 2**63, 10**400, 0.5, 1e300, float("nan"), "", "x" * 10**5,
    "\ud800", "../../x", [], {}, [[]], [None] * 1000,
]  # fmt: skip


def damaged_bytes(data: bytes, chance: random.Random) -> bytes:
    """Cut off, flip, insert, replace or deepen a part of a file."""
    place = chance.randrange(len(data) + 1)
    noise = chance.randbytes(chance.choice((1, 8, 1000)))
    flipped = bytearray(data or b"\0")
    flipped[min(place, len(flipped) - 1)] ^= 1 << chance.randrange(8)
    inserted, overwritten = data[:place] + noise + data[place:], data[:place] + noise
    deep = b"[" * 100_000
    return chance.choice(
        (data[:place], b"", bytes(flipped), inserted, overwritten + data[len(overwritten) :], noise,
         data + noise, deep)
    )  # fmt: skip


def damaged_json(content: Any, chance: random.Random) -> Any:  # noqa: ANN401
    """Change or take away a value somewhere, at any depth."""
    if not isinstance(content, dict | list) or not content or chance.random() < 0.1:
        return chance.choice(VALUES)
    keys: list[Any] = list(content) if isinstance(content, dict) else list(range(len(content)))
    key = chance.choice(keys)
    if chance.random() < 0.1:
        del content[key]
    else:
        content[key] = damaged_json(content[key], chance)
    return content


def damage(path: Path, chance: random.Random) -> None:
    """Damage a file: its bytes, its values if it is JSON, or put a folder in its place."""
    if chance.random() < 0.05:
        path.unlink()
        path.mkdir()
    elif path.suffix == ".json" and chance.random() < 0.5:
        path.write_text(json.dumps(damaged_json(json.loads(path.read_text("utf-8")), chance)))
    else:
        path.write_bytes(damaged_bytes(path.read_bytes(), chance))


def main(files: int = 1000, first: int = 0) -> None:
    """Damage files, run a script on each, and print the cases that ended as no script may.

    The exit code is 1 if there are any.

    Args:
        files: How many files to damage.
        first: Number of the first case; the number decides everything.
    """
    bad = 0
    with tempfile.TemporaryDirectory() as scratch:
        healthy, case = Path(scratch) / "healthy", Path(scratch) / "case"
        healthy.mkdir()
        write_stories(healthy / "text.txt", 8_000, seed=1)
        write_stories(healthy / "valid.txt", 3_000, seed=2)
        for command in WORLD:
            assert not complaints(command, healthy), command
        for number in range(first, first + files):
            chance = random.Random(number)
            command = chance.choice(list(COMMANDS))
            shutil.copytree(healthy, case)
            reads = [p for glob in COMMANDS[command].split() for p in sorted(case.glob(glob))]
            path = chance.choice([path for path in reads if path.is_file()])
            damage(path, chance)
            if found := complaints(command, case):
                bad += 1
                print(f"case {number}: {path.relative_to(case)}: {command}: {found}", flush=True)
            shutil.rmtree(case)
    print(f"{files} damaged files: {bad} bad")
    if bad:
        sys.exit(1)


def complaints(command: str, folder: Path) -> str:
    """Run a script in a folder; return how it broke the rules, empty if it did not."""
    before = set(folder.rglob("*"))
    said = folder.with_name("said.txt")
    child = os.fork()
    if child == 0:
        code = 1
        with contextlib.suppress(BaseException):
            code = script(shlex.split(command), folder, said)
        os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    errors = said.read_text("utf-8", "replace")
    made = {path.name for path in {*folder.rglob("*")} - before}
    if code == 0 and "Traceback" not in errors:
        return ""
    is_clear = code == 2 and errors.count("error: ") == 1 and "Traceback" not in errors
    leaves = {name for name in made if name.endswith(".tmp") or name.startswith("out")}
    return "" if is_clear and not leaves else f"code {code}, left {leaves}: {errors[-1000:]}"


def script(arguments: list[str], folder: Path, said: Path) -> int:
    """Run a script in this process, within limits; its errors go to a file."""
    os.chdir(folder)
    signal.alarm(MAX_S)  # For what waits instead of computing.
    resource.setrlimit(resource.RLIMIT_CPU, (MAX_CPU_S, MAX_CPU_S + 1))
    resource.setrlimit(resource.RLIMIT_DATA, (MAX_BYTES, MAX_BYTES))
    path = str(ROOT / "scripts" / f"{arguments[0]}.py")
    sys.argv = [path, *arguments[1:]]
    with (
        said.open("w", encoding="utf-8") as file,
        contextlib.redirect_stderr(file),
        contextlib.redirect_stdout(Path(os.devnull).open("w", encoding="utf-8")),
    ):
        try:
            runpy.run_path(path, run_name="__main__")
        except SystemExit as stop:
            return stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 1
        except BaseException:
            traceback.print_exc()
            return 1
    return 0


if __name__ == "__main__":
    run(main)
