"""Convert a tokenizer to or from the formats of other libraries.

python scripts/convert_tokenizer.py tokenizer --out tokenizer.json
python scripts/convert_tokenizer.py tokenizer.json --out tokenizer
python scripts/convert_tokenizer.py tokenizer --out ranks.tiktoken
"""

import shlex
from itertools import chain
from pathlib import Path

import tyro
from cli import check_can_write, run

from cs_basics.interop.tokenizer_files import (
    load_tiktoken,
    load_tokenizer_json,
    save_tiktoken,
    save_tokenizer_json,
)
from cs_basics.run.tokenizer_folder import load_tokenizer, save_tokenizer


def main(
    tokenizer: tyro.conf.Positional[Path],
    out: Path,
    special_tokens: dict[str, int] | None = None,
    overwrite: bool = False,
) -> None:
    """Convert a tokenizer to or from the formats of other libraries.

    The format follows from the name: .json is a tokenizer.json (Hugging Face), .tiktoken a file of
    ranks in base64 (tiktoken), anything else a tokenizer folder of this project.

    Args:
        tokenizer: The tokenizer to read.
        out: The tokenizer to write.
        special_tokens: Special tokens and their ids, for files of ranks, which do not hold them.
        overwrite: Replace an existing file or folder.
    """
    check_can_write(out, overwrite)
    if special_tokens and tokenizer.suffix != ".tiktoken":
        raise ValueError("--special-tokens: only a .tiktoken file lacks them")
    if tokenizer.suffix == ".json":
        loaded = load_tokenizer_json(tokenizer)
    elif tokenizer.suffix == ".tiktoken":
        loaded = load_tiktoken(tokenizer, special_tokens)
    elif tokenizer.is_file():
        raise ValueError(f"{tokenizer}: name a folder, a .json file or a .tiktoken file")
    else:
        loaded = load_tokenizer(tokenizer)
    formats = {".json": save_tokenizer_json, ".tiktoken": save_tiktoken}
    formats.get(out.suffix, save_tokenizer)(loaded, out)
    print(f"{out}: {loaded.vocab_size} tokens, {len(loaded.merges)} merges")
    if out.suffix == ".tiktoken" and loaded.special_tokens:
        ids = [(token, str(loaded.encode(token)[0])) for token in loaded.special_tokens]
        print(
            "It holds no special tokens. To read it back here, add\n  --special-tokens "
            f"{shlex.join(chain.from_iterable(ids))}"
        )


if __name__ == "__main__":
    run(main)
