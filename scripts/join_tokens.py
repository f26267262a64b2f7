"""Concatenate token files, such as those of one text encoded by several processes.

python scripts/join_tokens.py tokens.bin.*-of-00008 --out tokens.bin
"""

from pathlib import Path

import tyro
from cli import check_can_write, run

from cs_basics.run.encoding import join_token_files


def main(
    shards: tyro.conf.Positional[tuple[Path, ...]],
    out: Path,
    overwrite: bool = False,
) -> None:
    """Concatenate token files of one tokenizer, in the order given.

    Args:
        shards: The token files.
        out: Token file to write.
        overwrite: Replace the token file if it exists.
    """
    check_can_write(out, overwrite)
    tokens = join_token_files(shards, out)
    print(f"{out}: {tokens.num_tokens} tokens of {len(shards)} files")


if __name__ == "__main__":
    run(main)
