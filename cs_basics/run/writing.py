"""Generation of text for several prompts, streamed token by token; what to know of a prompt."""

from collections.abc import Callable, Collection, Iterator, Sequence

from cs_basics.generate import GREEDY, Sampling, generate
from cs_basics.run.folder import RunFolder
from cs_basics.run.model import batch_generator
from cs_basics.run.text_stream import TextStream
from cs_basics.run.token_file import open_token_file
from cs_basics.settings.run import END_OF_TEXT
from cs_basics.tokenizer import Tokenizer
from cs_basics.transformer import TransformerLM


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


def hints(text: str, num_tokens: int, context_length: int) -> Iterator[str]:
    """Yield what a user may not expect of a prompt, which has so many tokens."""
    if text.endswith(" "):
        yield f"{text[-40:]!r} ends in a blank, which belongs to the next word: leave it out"
    if num_tokens > context_length:
        yield (
            f"the prompt has {num_tokens:,} tokens, and the model reads the last "
            f"{context_length:,} (its context_length)"
        )


def generate_texts(
    model: TransformerLM,
    tokenizer: Tokenizer,
    prompts: Sequence[Sequence[int]],
    max_tokens: int,
    sampling: Sampling = GREEDY,
    stop_ids: Collection[int] = (),
    stop_strings: Collection[str] = (),
    seed: int | None = None,
    *,
    is_fast: bool = True,
    is_compiled: bool = False,
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
        stop_strings: A text ends before the first of these, even if it spans several tokens.
        seed: Equal seeds give equal texts; None: a random seed.
        is_fast: Use the fast twin of `generate` if there is one.
        is_compiled: Compile it first, which pays off after a few thousand tokens.

    Yields:
        The index of a prompt and the next chunk of its continuation, in whole characters.

    Raises:
        ValueError: There is no prompt, one is empty or holds ids that the model does not know, or a
            stop string is empty.
    """
    streams = [TextStream(tokenizer, stop_strings) for _ in prompts]

    def is_end(row: int, _: int) -> bool:
        return streams[row].is_finished

    how = (max_tokens, sampling, stop_ids, seed)
    if is_fast and (side_by_side := batch_generator(model)) is not None:
        steps = side_by_side(model, prompts, *how, is_compiled=is_compiled, is_end=is_end)
    else:
        steps = _in_turn(model, prompts, *how, is_end)
    for tokens in steps:
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
    is_end: Callable[[int, int], bool],
) -> Iterator[list[int | None]]:
    """Do what `generate_batch` of cs_basics/fast does, one text after the other."""
    if not prompts:
        raise ValueError("there is no prompt: give at least one")
    for row, prompt in enumerate(prompts):
        row_seed = None if seed is None else seed + row
        for token in generate(model, prompt, max_tokens, sampling, stop_ids, row_seed):
            yield [token if other == row else None for other in range(len(prompts))]
            if is_end(row, token):
                break
