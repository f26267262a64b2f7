"""From text to token files: what a run does before its first step."""

import logging
from dataclasses import dataclass
from pathlib import Path

from cs_basics.bpe import train_bpe
from cs_basics.config import END_OF_TEXT, TrainConfig
from cs_basics.data import TokenFile, encode_file, open_token_file
from cs_basics.run_folder import RunFolder
from cs_basics.stories import write_stories
from cs_basics.tokenizer import Tokenizer

logger = logging.getLogger(__name__)

# Megabytes of validation text that the grammar writes.
_VALID_MEGABYTES = 0.5
# Validation stories come from seeds far from any that training uses.
_VALID_SEED_OFFSET = 1_000_003


@dataclass(frozen=True)
class Corpus:
    """Text as ids, ready for batches."""

    tokenizer: Tokenizer
    train: TokenFile
    valid: TokenFile


def prepare_corpus(config: TrainConfig, folder: RunFolder) -> Corpus:
    """Return the token files of a run; what it lacks is written, trained or encoded first.

    Args:
        config: Names the texts (or none, for the grammar's) and the vocabulary size.
        folder: Where everything is kept.

    Raises:
        FileNotFoundError: A text is missing.
        ValueError: A text is empty or shorter than one context, or a token file is another's.
    """
    train_text, valid_text = _texts(config, folder)
    if folder.tokenizer.exists():
        tokenizer = folder.load_tokenizer()
    else:
        logger.info("training a tokenizer of %s tokens on %s", f"{config.vocab_size:,}", train_text)
        vocab, merges = train_bpe(train_text, config.vocab_size, [END_OF_TEXT])
        tokenizer = Tokenizer(vocab, merges, [END_OF_TEXT])
        tokenizer.save(folder.tokenizer)
    token_files: list[TokenFile] = []
    for text, name in ((train_text, "train"), (valid_text, "valid")):
        path = folder.tokens / f"{name}.bin"
        if not path.exists():
            logger.info("encoding %s", text)
            path.parent.mkdir(parents=True, exist_ok=True)
            encode_file(tokenizer, text, path)
        token_file = open_token_file(path, tokenizer_checksum=tokenizer.checksum)
        if len(token_file.tokens) <= config.context_length:
            raise ValueError(
                f"{text} holds {len(token_file.tokens)} tokens, fewer than one context of "
                f"{config.context_length} + 1: give more text or a smaller context_length"
            )
        if (largest := int(token_file.tokens.max())) >= tokenizer.vocab_size:
            raise ValueError(
                f"{path} holds the id {largest}, but the vocabulary ends at "
                f"{tokenizer.vocab_size - 1}: delete the file, it will be encoded again"
            )
        token_files.append(token_file)
    return Corpus(tokenizer, *token_files)


def _texts(config: TrainConfig, folder: RunFolder) -> tuple[Path, Path]:
    """Return the texts that were given, or have the grammar write them into the run's folder."""
    if config.train_text is not None and config.valid_text is not None:
        for path in (config.train_text, config.valid_text):
            if not path.is_file():
                hint = (
                    " (scripts/download.py tinystories fetches it)"
                    if "TinyStories" in path.name
                    else ""
                )
                raise FileNotFoundError(f"{path} does not exist{hint}")
            if path.stat().st_size == 0:
                raise ValueError(f"{path} is empty")
        return config.train_text, config.valid_text
    texts = (folder.corpus / "train.txt", folder.corpus / "valid.txt")
    amounts = (config.corpus_megabytes, _VALID_MEGABYTES)
    seeds = (config.seed, config.seed + _VALID_SEED_OFFSET)
    for path, megabytes, seed in zip(texts, amounts, seeds, strict=True):
        if not path.exists():
            logger.info("writing %g MB of stories to %s", megabytes, path)
            path.parent.mkdir(parents=True, exist_ok=True)
            write_stories(path, round(megabytes * 1e6), seed)
    return texts
