"""The scripts that read files, a small world of healthy files, and what each script reads of it."""

import shlex
from dataclasses import dataclass
from pathlib import Path

from cs_basics.stories.grammar import write_stories
from lab.campaigns.fuzz.damage import (
    ANY,
    SMALL_ONLY,
    Damage,
    another_file,
    change_checkpoint,
    change_checkpoint_body,
    change_checkpoint_footer,
    change_ids,
    change_json,
    change_json_line,
    change_line,
    change_safetensors,
    change_token_header,
    malicious,
)
from lab.campaigns.fuzz.trial import run_script

TINY = shlex.split("""
    --vocab-size 300 --context-length 32 --d-model 32 --d-ff 64 --num-kv-heads 2 --batch-size 2
    --max-steps 2 --log-every 1 --eval-every 2 --eval-tokens 100 --checkpoint-every 2
    --num-samples 0 --device cpu --dtype float32
""")

WORLD = [
    ["train", "debug", "--train-text", "text.txt", "--valid-text", "valid.txt", "--run-dir", "run",
     *TINY],
    ["export", "run", "--out", "llama"],
    ["train_tokenizer", "--text", "text.txt", "--vocab-size", "290", "--out", "tokenizer"],
    ["convert_tokenizer", "tokenizer", "--out", "tokenizer.json"],
    ["convert_tokenizer", "tokenizer", "--out", "ranks.tiktoken"],
    ["encode", "--tokenizer", "tokenizer", "--text", "text.txt", "--out", "a.bin"],
    ["encode", "--tokenizer", "tokenizer", "--text", "valid.txt", "--out", "b.bin"],
]  # fmt: skip
"""What makes the healthy files out of two texts."""


@dataclass(frozen=True)
class Command:
    """A script, its flags, and the files of the world that it reads."""

    arguments: tuple[str, ...]
    reads: tuple[str, ...]
    weight: int = 1
    """How often it is tried: the more it reads, and the less it costs, the more often."""


TOKENIZER = ("vocab.json", "merges.txt", "special_tokens.json")
MODEL = (
    "run/config.json",
    "run/checkpoints/step-00000002.pt",
    "run/checkpoints/step-00000002.pt",
    *(f"run/tokenizer/{name}" for name in TOKENIZER),
)
COMMANDS = [
    Command(("generate", "run", "--max-tokens", "3", "--seed", "1", "--device", "cpu"), MODEL, 4),
    Command(
        ("evaluate", "run", "--text", "valid.txt", "--device", "cpu", "--dtype", "float32"),
        (*MODEL, "valid.txt"),
        2,
    ),
    Command(
        ("train", "debug", "--run-dir", "run", "--resume", "--max-steps", "3", "--device", "cpu",
         "--num-samples", "0", "--eval-tokens", "64"),
        (*MODEL, "run/tokens/train.bin", "run/tokens/valid.bin", "run/metrics.jsonl", "text.txt"),
        4,
    ),
    Command(
        ("train", "debug", "--train-text", "text.txt", "--valid-text", "valid.txt", "--run-dir",
         "out", *TINY),
        ("text.txt", "valid.txt"),
    ),
    Command(("export", "run", "--out", "out"), MODEL, 3),
    Command(
        ("import_llama", "llama", "--out", "out"),
        ("llama/config.json", "llama/config.json", "llama/tokenizer.json",
         "llama/model.safetensors", "llama/model.safetensors"),
        6,
    ),
    Command(
        ("encode", "--tokenizer", "tokenizer", "--text", "valid.txt", "--out", "out"),
        (*(f"tokenizer/{name}" for name in TOKENIZER), "valid.txt"),
        2,
    ),
    Command(
        ("train_tokenizer", "--text", "valid.txt", "--vocab-size", "280", "--out", "out"),
        ("valid.txt",),
    ),
    Command(
        ("convert_tokenizer", "tokenizer", "--out", "out.json"),
        tuple(f"tokenizer/{name}" for name in TOKENIZER),
        2,
    ),
    Command(
        ("convert_tokenizer", "tokenizer", "--out", "out.tiktoken"),
        tuple(f"tokenizer/{name}" for name in TOKENIZER),
    ),
    Command(("convert_tokenizer", "tokenizer.json", "--out", "out"), ("tokenizer.json",), 2),
    Command(("convert_tokenizer", "ranks.tiktoken", "--out", "out"), ("ranks.tiktoken",), 2),
    Command(("join_tokens", "a.bin", "b.bin", "--out", "out"), ("a.bin", "b.bin"), 2),
]  # fmt: skip


def ways_to_damage(name: str) -> list[Damage]:
    """Return what can be done to a file of this name; half of it knows the format."""
    match Path(name).suffix:
        case ".json":
            return [*SMALL_ONLY, *[change_json] * len(SMALL_ONLY)]
        case ".jsonl":
            return [*ANY, *[change_json_line] * len(ANY)]
        case ".txt" if Path(name).name == "merges.txt":
            return [*SMALL_ONLY, *[change_line] * len(SMALL_ONLY)]
        case ".tiktoken":
            return [*SMALL_ONLY, *[change_line] * len(SMALL_ONLY)]
        case ".bin":
            return [*SMALL_ONLY, *[change_token_header] * len(ANY), *[change_ids] * 2]
        case ".pt":
            of_format = [change_checkpoint] * 6 + [change_checkpoint_body] * 3
            return [*SMALL_ONLY, *of_format, *[change_checkpoint_footer] * 5, *[malicious] * 2]
        case ".safetensors":
            return [*SMALL_ONLY, *[change_safetensors] * len(ANY)]
        case _:
            # Every file is a text, and some would take long.
            return [damage for damage in ANY if damage is not another_file]


def make_world(folder: Path) -> None:
    """Fill a folder with healthy files.

    Raises:
        RuntimeError: A script fails on healthy input.
    """
    folder.mkdir(parents=True)
    write_stories(folder / "text.txt", 8_000, seed=1)
    write_stories(folder / "valid.txt", 3_000, seed=2)
    for arguments in WORLD:
        ending = run_script(arguments, folder)
        if ending.code:
            raise RuntimeError(f"{' '.join(arguments)}: {ending.err}")
