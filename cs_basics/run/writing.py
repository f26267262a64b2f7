"""Generation of text for several prompts, streamed token by token; what to know of a prompt."""

import codecs
import re
from collections.abc import Collection, Iterator, Sequence

from cs_basics.generate import GREEDY, Sampling, generate
from cs_basics.run.folder import RunFolder
from cs_basics.run.model import batch_generator
from cs_basics.run.token_file import open_token_file
from cs_basics.settings.run import END_OF_TEXT
from cs_basics.tokenizer import Tokenizer
from cs_basics.transformer import TransformerLM

NO_TOKEN = "\ufffd".encode()


def first_words(run: RunFolder) -> str:
    """Return how the validation text of a run begins, as a prompt for it; "" if it is not there."""
    path = run.tokens / "valid.bin"
    if not path.exists():
        return ""
    text = run.load_tokenizer().decode(open_token_file(path).tokens[:64].tolist())
    return " ".join(text.replace(END_OF_TEXT, " ").split()[:4])[:40].rstrip("\ufffd")


def opening(text: str) -> str:
    """Return what the model is given: as in training, each story follows the end of another one."""
    return f"{END_OF_TEXT}\n{text}"


def hints(text: str, tokenizer: Tokenizer, context_length: int) -> Iterator[str]:
    """Yield what a user may not expect of a prompt."""
    for token in {*re.findall(r"<\|\w+\|>", text)}.difference(tokenizer.special_tokens):
        yield f"{token} is no special token of this run: the model reads its letters"
    if text.endswith(" "):
        yield f"{text[-40:]!r} ends in a blank, which belongs to the next word: leave it out"
    if (num_tokens := len(tokenizer.encode(opening(text)))) > context_length:
        yield (
            f"the prompt has {num_tokens:,} tokens, and the model reads the last "
            f"{context_length:,} (its context_length)"
        )


class TextStream:
    """The text of one sequence, in whole characters: an incomplete one waits for the next token.

    An id without a token is written as U+FFFD, as are bytes that are not UTF-8.

    Args:
        tokenizer: The tokenizer of the tokens.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._vocab = tokenizer.vocab
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token_id: int) -> str:
        """Add a token and return the new text that is certain."""
        return self._decoder.decode(self._vocab.get(token_id, NO_TOKEN))

    def close(self) -> str:
        """Return what is left when no token follows."""
        return self._decoder.decode(b"", final=True)


def generate_texts(
    model: TransformerLM,
    tokenizer: Tokenizer,
    prompts: Sequence[Sequence[int]],
    max_tokens: int,
    sampling: Sampling = GREEDY,
    stop_ids: Collection[int] = (),
    seed: int | None = None,
    *,
    is_fast: bool = True,
) -> Iterator[tuple[int, str]]:
    """Continue several prompts: as one batch if cs_basics/fast can, else one after the other.

    Texts are independent: that of prompt r is what `generate` returns with seed + r.

    Args:
        model: The language model.
        tokenizer: The tokenizer of the model.
        prompts: Token ids of each text, at least one.
        max_tokens: Largest number of new tokens per text.
        sampling: How to sample.
        stop_ids: Any of these tokens ends its text and is not part of it.
        seed: Equal seeds give equal texts; None: a random seed.
        is_fast: Use the fast twin of `generate` if there is one.

    Yields:
        The index of a prompt and the next chunk of its continuation, in whole characters.

    Raises:
        ValueError: There is no prompt, or one is empty or holds ids that the model does not know.
    """
    streams = [TextStream(tokenizer) for _ in prompts]
    how = (max_tokens, sampling, stop_ids, seed)
    side_by_side = batch_generator(model) if is_fast else None
    for tokens in (side_by_side or _in_turn)(model, prompts, *how):
        for row, token_id in enumerate(tokens):
            if token_id is not None and (chunk := streams[row].push(token_id)):
                yield row, chunk
    for row, stream in enumerate(streams):
        if rest := stream.close():
            yield row, rest


def _in_turn(
    model: TransformerLM,
    prompts: Sequence[Sequence[int]],
    max_tokens: int,
    sampling: Sampling,
    stop_ids: Collection[int],
    seed: int | None,
) -> Iterator[list[int | None]]:
    """Do what `generate_batch` of cs_basics/fast does, one text after the other."""
    if not prompts:
        raise ValueError("there is no prompt: give at least one")
    for row, prompt in enumerate(prompts):
        row_seed = None if seed is None else seed + row
        for token in generate(model, prompt, max_tokens, sampling, stop_ids, row_seed):
            yield [token if other == row else None for other in range(len(prompts))]
