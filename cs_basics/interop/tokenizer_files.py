"""Tokenizers in the formats of other libraries: Hugging Face's tokenizer.json and tiktoken's ranks.

Neither library is needed to read or write their files. With a file that is written here they give
the same ids as our tokenizer; one that a format cannot express is refused. Letters that are new in
Unicode 17, such as U+A7CE, are the exception: regex 2026.11.15, which we use, knows that they are
letters, tokenizers 0.23.3 and tiktoken 0.14.0 do not.
"""

import base64
import binascii
import json
import os
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from cs_basics.bpe import SINGLE_BYTES, Merge
from cs_basics.pretokenize import PRETOKEN
from cs_basics.run.atomic import atomic_writer, write_atomically
from cs_basics.run.json_file import read_at_once, read_json
from cs_basics.run.model import accelerate
from cs_basics.run.tokenizer_folder import from_printable, to_printable
from cs_basics.tokenizer import Tokenizer

_BYTE_LEVEL = {
    "type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True
}  # fmt: skip


def save_tokenizer_json(tokenizer: Tokenizer, path: str | os.PathLike[str]) -> None:
    """Write a tokenizer.json, which `tokenizers.Tokenizer.from_file` reads.

    Raises:
        OSError: The file cannot be written.
        ValueError: Two ids have the same bytes, or a byte has no token (the library would drop it).
    """
    vocab, specials = printable_vocab(tokenizer)
    content = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": token_id, "content": token, "single_word": False, "lstrip": False,
             "rstrip": False, "normalized": False, "special": True}
            for token, token_id in sorted(specials.items(), key=lambda item: item[1])
        ],
        "normalizer": None,
        "pre_tokenizer": _BYTE_LEVEL,
        "post_processor": None,
        "decoder": _BYTE_LEVEL,
        "model": {
            "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
            "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
            "ignore_merges": False, "vocab": vocab | specials,
            "merges": [[to_printable(part) for part in merge] for merge in tokenizer.merges],
        },
    }  # fmt: skip
    write_atomically(path, json.dumps(content, ensure_ascii=False).encode("utf-8"))


def printable_vocab(tokenizer: Tokenizer) -> tuple[dict[str, int], dict[str, int]]:
    """Return the ids of ordinary tokens, in printable characters, and those of special tokens.

    A special token of one byte is among both.

    Raises:
        ValueError: Two ids have the same bytes, or a byte has no token.
    """
    _check_bytes(tokenizer)
    specials = {token: tokenizer.encode(token)[0] for token in tokenizer.special_tokens}
    special_ids = set(specials.values())
    vocab = {
        to_printable(token): token_id
        for token_id, token in sorted(tokenizer.vocab.items())
        if token_id not in special_ids or len(token) == 1
    }
    if len(vocab | specials) < len(tokenizer.vocab):
        raise ValueError("two ids stand for the same bytes, which the format cannot hold")
    return vocab, specials


def load_tokenizer_json(path: str | os.PathLike[str]) -> Tokenizer:
    """Read a tokenizer.json like GPT-2's: byte-level BPE that leaves the text unchanged.

    Raises:
        OSError: The file cannot be read.
        ValueError: It is not such a file, or uses a feature that is not supported.
    """
    content = read_json(path)
    try:
        model = content["model"]
        _check_supported(content, model)
        specials = {token["content"]: token["id"] for token in content["added_tokens"]}
        vocab: dict[int, bytes] = {}
        for token, token_id in (model["vocab"] | specials).items():
            held = token.encode("utf-8") if token in specials else from_printable(token)
            if vocab.setdefault(token_id, held) != held:
                raise _UnsupportedError("gives one id to two tokens")
        # Older files write a merge as one string.
        pairs = [merge.split(" ") if isinstance(merge, str) else merge for merge in model["merges"]]
        merges: list[Merge] = [(from_printable(a), from_printable(b)) for a, b in pairs]
    except _UnsupportedError as error:
        raise ValueError(f"{path} {error}") from None
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"{path} is not a tokenizer.json of byte-level BPE: {error!r}") from None
    return accelerate(Tokenizer)(vocab, merges, list(specials))


class _UnsupportedError(Exception):
    """A tokenizer.json uses a feature that is not supported."""


def _check_supported(content: Mapping[str, Any], model: Mapping[str, Any]) -> None:
    if model["type"] != "BPE" or model.get("byte_fallback"):
        raise _UnsupportedError(f"has a model of type {model['type']}, not byte-level BPE")
    if content.get("normalizer"):
        raise _UnsupportedError("changes text before it splits it (normalizer)")
    added = content["added_tokens"]
    if any(token.get(flag) for token in added for flag in ("lstrip", "rstrip", "single_word")):
        raise _UnsupportedError("looks at what is beside a token (lstrip, rstrip, single_word)")
    if model.get("dropout") or model.get("ignore_merges"):
        raise _UnsupportedError("does not apply its merges in order (dropout, ignore_merges)")
    if (content.get("post_processor") or {}).get("type", "ByteLevel") != "ByteLevel":
        raise _UnsupportedError("adds tokens to every text (post_processor)")
    steps = content["pre_tokenizer"]
    steps = steps["pretokenizers"] if steps["type"] == "Sequence" else [steps]
    *before, byte_level = steps
    if byte_level["type"] != "ByteLevel" or byte_level.get("add_prefix_space"):
        raise _UnsupportedError("does not take text as it is (pre_tokenizer)")
    # Either ByteLevel splits by GPT-2's pattern, or one Split before it does.
    gpt2 = [] if byte_level.get("use_regex", True) else [("Split", PRETOKEN.pattern, "Isolated")]
    found = [
        (step["type"], step.get("pattern", {}).get("Regex"), step.get("behavior"))
        for step in before
    ]
    if found != gpt2 or any(step.get("invert") for step in before):
        raise _UnsupportedError("splits text by another pattern than GPT-2's (pre_tokenizer)")


def tiktoken_arguments(tokenizer: Tokenizer) -> dict[str, Any]:
    """Return arguments with which `tiktoken.Encoding(**arguments)` gives our ids.

    tiktoken has no merges: it joins the two neighbours whose bytes together are the token with the
    lowest id. Merges do the same if the ids of their products ascend and every token has a merge,
    as in GPT-2's tokenizer and in all that are trained here.

    Raises:
        ValueError: The ids do not ascend with the merges, a token has none, a byte has no token, or
            a special token begins with another one.
    """
    _check_bytes(tokenizer)
    for short, long in pairwise(sorted(tokenizer.special_tokens)):
        if long.startswith(short):
            raise ValueError(
                f"the special token {long!r} begins with {short!r}: tiktoken may take either where "
                "ours takes the longer one"
            )
    ids = {token: token_id for token_id, token in tokenizer.vocab.items()}
    products = [ids[left + right] for left, right in tokenizer.merges]
    specials = {token: tokenizer.encode(token)[0] for token in tokenizer.special_tokens}
    ordinary = {
        token: token_id
        for token, token_id in ids.items()
        if token_id not in specials.values() or len(token) == 1
    }
    if any(later <= earlier for earlier, later in pairwise(products)):
        raise ValueError("the ids do not ascend in the order of the merges, which tiktoken needs")
    if len(ordinary) != len(SINGLE_BYTES) + len(products) or len(ids) < len(tokenizer.vocab):
        raise ValueError("not every token is a byte or made by one merge, which tiktoken needs")
    return {
        "name": "cs_basics",
        "pat_str": PRETOKEN.pattern,
        "mergeable_ranks": ordinary,
        "special_tokens": specials,
    }


def save_tiktoken(tokenizer: Tokenizer, path: str | os.PathLike[str]) -> None:
    """Write ranks as tiktoken stores them: on each line a token in base64 and its id.

    The format holds neither the pattern nor the special tokens: see `tiktoken_arguments`.

    Raises:
        OSError: The file cannot be written.
        ValueError: As in `tiktoken_arguments`.
    """
    ranks = tiktoken_arguments(tokenizer)["mergeable_ranks"]
    with atomic_writer(path) as file:
        for token, rank in sorted(ranks.items(), key=lambda item: item[1]):
            file.write(base64.b64encode(token) + b" " + str(rank).encode() + b"\n")


def load_tiktoken(
    path: str | os.PathLike[str], special_tokens: Mapping[str, int] | None = None
) -> Tokenizer:
    """Read ranks as tiktoken stores them, for use with GPT-2's pattern.

    The merge that makes a token is found by encoding its bytes with the merges before it, which
    leaves its two parts.

    Args:
        path: The file.
        special_tokens: Their ids, which the file does not hold.

    Raises:
        OSError: The file cannot be read.
        ValueError: The file is not in this format, or a token cannot be made by a merge.
    """
    from cs_basics.bpe import merge_by_rank  # A student's bpe.py need not have it.

    vocab: dict[int, bytes] = {}
    for number, line in enumerate(read_at_once(path).splitlines(), 1):
        try:
            token, rank = line.split()
            vocab[int(rank)] = base64.b64decode(token, validate=True)
        except (ValueError, binascii.Error):
            raise ValueError(f"{path} line {number} is not a token and its rank") from None
    if not set(SINGLE_BYTES) <= set(vocab.values()):
        raise ValueError(f"{path} lacks a token of a single byte")
    merges: dict[Merge, int] = {}
    for rank, token in sorted(vocab.items()):
        if len(token) == 1:
            continue
        parts = merge_by_rank(token, merges)
        if len(parts) != 2:
            raise ValueError(f"{path} has no merge that makes {token!r}, rank {rank}")
        merges[parts[0], parts[1]] = len(merges)
    specials = special_tokens or {}
    both = vocab | {rank: token.encode("utf-8") for token, rank in specials.items()}
    if len(both) < len(vocab) + len(specials):
        raise ValueError(f"special_tokens={dict(specials)} take ids that {path} gives to others")
    return accelerate(Tokenizer)(both, merges, list(specials))


def _check_bytes(tokenizer: Tokenizer) -> None:
    tokens = set(tokenizer.vocab.values())
    missing = [byte for byte in SINGLE_BYTES if byte not in tokens]
    if missing:
        raise ValueError(f"the vocabulary has no token for byte {missing[0]!r}")
