"""The corpus of a run: texts, tokenizer and token files, prepared before the first step."""

import logging
import mmap
import shlex
from dataclasses import dataclass
from pathlib import Path

from cs_basics.bpe import train_bpe
from cs_basics.run.atomic import atomic_writer
from cs_basics.run.clock import Clock
from cs_basics.run.encoding import encode_file
from cs_basics.run.folder import RunFolder
from cs_basics.run.look import check_is_text, look_at_text, warn_of
from cs_basics.run.model import accelerate
from cs_basics.run.progress import OnProgress
from cs_basics.run.token_file import TokenFile, open_token_file, tokenizer_checksum
from cs_basics.run.tokenizer_folder import make_tokenizer, save_tokenizer
from cs_basics.settings.run import END_OF_TEXT, TrainConfig
from cs_basics.stories.grammar import VALID_BYTES, VALID_SEED_OFFSET, write_stories
from cs_basics.tokenizer import Tokenizer

logger = logging.getLogger(__name__)

TINYSTORIES = "https://huggingface.co/datasets/roneneldan/TinyStories/resolve/main"
FEW_TOKENS = 10_000
"""Of a validation text: with fewer, chance decides between runs that differ by a hundredth."""

SHARE, LEAST, MOST = 0.9, 0.8, 0.95
"""Share of a text that is trained on: the best, and within which limits it is cut."""
MARKS = {
    "an end of text": END_OF_TEXT.encode() + b"\n",
    "a line end": b"\n",
    "an end of text within a line": END_OF_TEXT.encode(),
}
"""Where a text may be cut, in the order in which they are looked for."""


@dataclass(frozen=True)
class Corpus:
    """Tokenizer and token files of a run."""

    tokenizer: Tokenizer
    train: TokenFile
    valid: TokenFile


def prepare_corpus(
    config: TrainConfig,
    folder: RunFolder,
    on_progress: OnProgress | None = None,
    *,
    is_fast: bool = True,
    clock: Clock | None = None,
) -> Corpus:
    """Return the corpus of a run; missing texts, tokenizer and token files are made first.

    All files are written atomically, so that an attempt after an error never reads partial files.

    Args:
        config: Settings of the run, with its texts (or none) and vocabulary size.
        folder: Folder of the run.
        on_progress: Called with the progress of each stage.
        is_fast: Whether to use the fast twins of the book's tokenizer and `train_bpe`.
        clock: Told which stage of the work begins.

    Raises:
        FileNotFoundError: A text is missing.
        ValueError: A text is shorter than one context or refused by `look_at_text`, or a token file
            is of a text of another size or of another tokenizer.
    """
    clock = clock or Clock(None, None)
    clock.enter("looking at the text")
    texts = _texts(config, folder, on_progress)
    clock.enter("vocabulary")
    tokenizer = _tokenizer(texts[0], config.model.vocab_size, folder, on_progress, is_fast)
    clock.enter("encoding")
    # The validation text first: it is shorter, and may be too short.
    valid, train = (
        _tokens(tokenizer, text, folder.tokens / name, config.model.context_length, on_progress)
        for text, name in zip(reversed(texts), ("valid.bin", "train.bin"), strict=True)
    )
    if train.num_tokens < (in_batch := config.data.batch_size * config.model.context_length):
        one_batch = f"one batch has {in_batch:,}, and repeats what it holds"
        warn_of(texts[0], f"{train.num_tokens:,} tokens, but {one_batch}")
    if valid.num_tokens < FEW_TOKENS:
        warn_of(texts[1], f"{valid.num_tokens:,} tokens: a loss on so few says little")
    return Corpus(tokenizer, train, valid)


def _tokenizer(
    text: Path, vocab_size: int, folder: RunFolder, on_progress: OnProgress | None, is_fast: bool
) -> Tokenizer:
    """Return the tokenizer of the run; train it on the text if there is none yet."""
    # vocab.json is written last: without it the folder is incomplete, and is written again.
    if (folder.tokenizer / "vocab.json").exists():
        tokenizer = folder.load_tokenizer(is_fast)
        logger.info("using %s, %s tokens", folder.tokenizer, f"{tokenizer.vocab_size:,}")
        return tokenizer
    logger.info("training a tokenizer of %s tokens on %s", f"{vocab_size:,}", text)
    train = accelerate(train_bpe) if is_fast else train_bpe
    # Only the fast twin reports progress.
    told = {} if train is train_bpe else {"on_progress": on_progress}
    vocab, merges = train(text, vocab_size, [END_OF_TEXT], **told)
    vocab = {int(token_id): bytes(token) for token_id, token in vocab.items()}
    merges = [(bytes(left), bytes(right)) for left, right in merges]
    tokenizer = make_tokenizer(vocab, merges, [END_OF_TEXT], is_fast)
    save_tokenizer(tokenizer, folder.tokenizer)
    return tokenizer


def _tokens(
    tokenizer: Tokenizer,
    text: Path,
    path: Path,
    context_length: int,
    on_progress: OnProgress | None,
) -> TokenFile:
    """Return the token file of a text, encoding it if there is none yet, and verify it."""
    if not path.exists():
        logger.info("encoding %s", text)
        encode_file(tokenizer, text, path, on_progress=on_progress)
    token_file = open_token_file(path, tokenizer_checksum(tokenizer))
    if token_file.num_bytes != text.stat().st_size:
        raise ValueError(
            f"{path} was encoded from {token_file.num_bytes:,} bytes, but {text} has "
            f"{text.stat().st_size:,}: delete the token file, or give the text it was made from"
        )
    if token_file.num_tokens <= context_length:
        raise ValueError(
            f"{text} holds {token_file.num_tokens} tokens, fewer than one context of "
            f"{context_length} + 1: give more text or a smaller context_length"
        )
    if (largest := int(token_file.tokens.max())) >= tokenizer.vocab_size:
        raise ValueError(
            f"{path} holds the id {largest}, but the vocabulary ends at "
            f"{tokenizer.vocab_size - 1}: delete the file, it will be encoded again"
        )
    return token_file


def _check_text(path: Path) -> None:
    """Refuse what is no file with text in it, and say where one comes from."""
    if not path.exists():
        mend = "name a text by --text, or two by --train-text and --valid-text"
        if path.name.startswith("TinyStories"):
            # Under another name until it is whole: a part of it would be trained on as it is.
            whole, part = (shlex.quote(str(name)) for name in (path, f"{path}.part"))
            fetch = "curl --fail --location --create-dirs --continue-at - --output"
            fetch = f"{fetch} {part} {TINYSTORIES}/{path.name} && mv {part} {whole}"
            mend = f"{fetch} fetches it, or goes on with it"
        raise FileNotFoundError(f"{path} does not exist: {mend}")
    check_is_text(path)
    if not path.is_file():
        raise ValueError(f"{path} is a pipe or a device, which cannot be read twice: name a file")


def _given_texts(config: TrainConfig, folder: RunFolder) -> tuple[Path, Path] | None:
    """Return the two texts that a run is given, or those that its one text is cut into."""
    data, is_begun = config.data, (folder.tokens / "valid.bin").exists()
    train, valid = data.train_text, data.valid_text
    if data.text is not None:
        train, valid = folder.corpus / "train.txt", folder.corpus / "valid.txt"
        if not valid.exists():
            _check_text(data.text)
            look_at_text(data.text)
            cut_text(data.text, train, valid)
    elif train is None or valid is None:
        return None
    else:
        _check_text(train)
        _check_text(valid)
        logger.info("training on %s, validating on %s", train, valid)
        if not is_begun:
            look_at_text(train)
            look_at_text(valid, train=train)
    for path in (train, valid):
        num_bytes, length = path.stat().st_size, config.model.context_length
        if num_bytes <= length:
            raise ValueError(
                f"{path} has {num_bytes} bytes, fewer than one context of {length} + 1 tokens: "
                "give more text or a smaller context_length"
            )
    return train, valid


def cut_text(text: Path, train: Path, valid: Path) -> None:
    """Write what comes before the mark that is nearest to SHARE of a text, and what comes after.

    Raises:
        OSError: A file cannot be read or written.
        ValueError: There is no mark within the limits.
    """
    with text.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        size = len(content)
        for what, mark in MARKS.items():
            places = [
                content.rfind(mark, int(LEAST * size), int(SHARE * size)),
                content.find(mark, int(SHARE * size), int(MOST * size)),
            ]
            if found := [place + len(mark) for place in places if place >= 0]:
                name = what
                break
        else:
            raise ValueError(
                f"{text} has no line end and no {END_OF_TEXT} where it could be cut in two: break "
                "it into lines, or give --train-text and --valid-text"
            )
        place = min(found, key=lambda place: abs(place - SHARE * size))
        for path, part in ((train, content[:place]), (valid, content[place:])):
            with atomic_writer(path) as out:
                out.write(part)
    shares = f"{place / 1e6:,.2f} MB to train on, {(size - place) / 1e6:,.2f} MB to validate"
    logger.info("%s is cut at %s: %s", text, name, shares)


def _texts(
    config: TrainConfig, folder: RunFolder, on_progress: OnProgress | None
) -> tuple[Path, Path]:
    """Return the given texts, or write those of the embedded corpus into the folder of the run."""
    if (given := _given_texts(config, folder)) is not None:
        return given
    texts = (folder.corpus / "train.txt", folder.corpus / "valid.txt")
    sizes = (round(config.data.corpus_megabytes * 1e6), VALID_BYTES)
    seeds = (config.run.seed, config.run.seed + VALID_SEED_OFFSET)
    for path, num_bytes, seed in zip(texts, sizes, seeds, strict=True):
        if not path.exists():
            logger.info("writing %g MB of stories to %s", num_bytes / 1e6, path)
            write_stories(path, num_bytes, seed, on_progress)
    return texts
