"""Text from a model, for several prompts: tokens drawn, decoded and shown as they come."""

from collections.abc import Callable, Collection, Iterator, Sequence

from cs_basics.fast import batch_generator
from cs_basics.generate import GREEDY, Sampling, generate
from cs_basics.run.text_stream import TextStream
from cs_basics.tokenizer import Tokenizer
from cs_basics.transformer import TransformerLM

IsEnd = Callable[[int, int], bool]
"""Told a row and its new token: is the text of that row complete with it?"""


def generate_rows(
    model: TransformerLM,
    prompts: Sequence[Sequence[int]],
    max_tokens: int,
    sampling: Sampling = GREEDY,
    stop_ids: Collection[int] = (),
    seed: int | None = None,
    *,
    is_compiled: bool = False,
    is_end: IsEnd | None = None,
) -> Iterator[list[int | None]]:
    """Continue several prompts: side by side where the model's parts allow it, else in turns.

    Row r is what `generate` writes with seed + r, however many there are.

    Args:
        model: The language model.
        prompts: Token ids of each text, at least one.
        max_tokens: Tokens to write at the most, each text.
        sampling: How to draw, and what to do when a context is full.
        stop_ids: A token of these ends its text and is not yielded.
        seed: The same seed gives the same texts; None draws afresh.
        is_compiled: Compile first: it pays from some thousand tokens on.
        is_end: Ends the text of a row after the token that it is told of.

    Yields:
        The next token of each row, None where none has come.

    Raises:
        ValueError: There is no prompt, or one is empty or holds ids that the model does not know.
    """
    side_by_side = batch_generator(model)
    if side_by_side is not None:
        yield from side_by_side(
            model,
            prompts,
            max_tokens,
            sampling,
            stop_ids,
            seed,
            is_compiled=is_compiled,
            is_end=is_end,
        )
        return
    for row, prompt in enumerate(prompts):
        row_seed = None if seed is None else seed + row
        for token in generate(model, prompt, max_tokens, sampling, stop_ids, row_seed):
            yield [token if other == row else None for other in range(len(prompts))]
            if is_end is not None and is_end(row, token):
                break


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
    is_compiled: bool = False,
) -> Iterator[tuple[int, str]]:
    """Continue several prompts at once as text, piece by piece.

    Args:
        model: The language model.
        tokenizer: Knows the bytes of each token.
        prompts: Token ids of each text.
        max_tokens: Tokens to write at the most, each text.
        sampling: As in `generate_rows`.
        stop_ids: As in `generate_rows`.
        stop_strings: A text ends before the first of these, wherever tokens begin and end.
        seed: As in `generate_rows`.
        is_compiled: As in `generate_rows`.

    Yields:
        The number of a prompt and the next piece of its continuation, never a part of a character.

    Raises:
        ValueError: As in `generate_rows`, or a stop string is empty.
    """
    streams = [TextStream(tokenizer, stop_strings) for _ in prompts]
    for tokens in generate_rows(
        model,
        prompts,
        max_tokens,
        sampling,
        stop_ids,
        seed,
        is_compiled=is_compiled,
        is_end=lambda row, _: streams[row].is_finished,
    ):
        for row, token_id in enumerate(tokens):
            if token_id is not None and (piece := streams[row].push(token_id)):
                yield row, piece
    for row, stream in enumerate(streams):
        if rest := stream.close():
            yield row, rest
