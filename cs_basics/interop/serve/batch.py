"""Texts of several readers that grow together: readers come and go between two steps.

A step reads the weights once for all texts. It runs in a thread, so that the server goes on
answering; everything else here runs in the event loop, so that nothing needs a lock.
"""

import asyncio
import math
import time
from collections.abc import AsyncGenerator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Literal

import torch
from jaxtyping import Float
from starlette.exceptions import HTTPException
from torch import Tensor

from cs_basics.fast.decoding import Decoder
from cs_basics.functional import cross_entropy, softmax
from cs_basics.generate import GREEDY, Sampling, random_generator, sample
from cs_basics.transformer import TransformerLM

MAX_WAITING = 32
"""Texts that may wait for a place."""
NUM_RIVALS = 10

End = Literal["end", "length", "time", "closed", "stop", "gone"]
"""Why a text ended: its end token, its length, the time limit, the end of the server, a stop by its
reader, or a reader who is gone."""


@dataclass(frozen=True)
class Scored:
    """A token, how probable it was at temperature 1, and the likeliest in its place."""

    id: int
    probability: float
    bits: float
    """-log2 of the probability."""
    rivals: list[tuple[int, float]]


@dataclass(eq=False, kw_only=True)
class Text:
    """A text that grows."""

    ids: list[int]
    """What the model reads: at least one token, the newest last; at most context_length."""
    max_tokens: int
    sampling: Sampling
    stop_id: int
    seed: int | None = None
    num_drawn: int = 0
    """How many of its tokens were drawn with this seed before this request."""
    end: End | None = None
    """Why it ended; its reader sets it to end the text."""
    is_read: bool = False
    """Whether the batch has read all of it except its newest token."""
    deadline: float = math.inf
    news: "asyncio.Queue[tuple[Text, Scored | Exception | None]]" = field(
        default_factory=asyncio.Queue
    )

    def __post_init__(self) -> None:
        self.generator = random_generator(self.seed)
        torch.rand(self.num_drawn, generator=self.generator)
        self.num_left = self.max_tokens


class Batch:
    """Places for texts that grow side by side; texts beyond them wait in the order they came.

    Args:
        model: The language model.
        num_places: How many texts grow at the same time.
        executor: Where the model computes; one thread.
        max_seconds: A text that is not finished this long after it came is ended.

    Raises:
        TypeError: The model has parts that decoding.py does not know.
    """

    def __init__(
        self, model: TransformerLM, num_places: int, executor: Executor, max_seconds: float
    ) -> None:
        self.places: list[Text | None] = [None] * num_places
        self.waiting: list[Text] = []
        self.executor, self.max_seconds = executor, max_seconds
        self._decoder = Decoder(model, num_places, GREEDY)
        self._steps: asyncio.Task[None] | None = None

    def check_room(self, num_texts: int) -> None:
        """Refuse texts for which no place becomes free soon.

        Raises:
            HTTPException: Too many texts are waiting.
        """
        if len(self.waiting) + num_texts > MAX_WAITING + self.places.count(None):
            raise HTTPException(503, f"{len(self.waiting)} texts wait already: try again later")

    async def write(
        self, texts: Sequence[Text]
    ) -> AsyncGenerator[tuple[Text, Scored | None], None]:
        """Let texts grow until all have ended; closing the generator ends them.

        Yields:
            A text and its next token, stop_id included; a text and None when it has ended.
        """
        news: asyncio.Queue[tuple[Text, Scored | Exception | None]] = asyncio.Queue()
        for text in texts:
            text.news, text.deadline = news, time.monotonic() + self.max_seconds
        self.waiting += texts
        if self._steps is None:
            self._steps = asyncio.create_task(self._grow())
        growing = set(texts)
        try:
            while growing:
                text, scored = await news.get()
                if isinstance(scored, Exception):
                    raise scored
                if text not in growing:
                    continue  # drawn before the batch noticed that its reader has ended it
                if scored is not None:
                    yield text, scored
                if scored is None or text.end == "stop":
                    growing.remove(text)
                    yield text, None
        finally:
            for text in texts:
                text.end = text.end or "gone"

    def close(self) -> None:
        """End all texts."""
        for text in [*filter(None, self.places), *self.waiting]:
            if text.end is None:
                self._finish(text, "closed")

    async def _grow(self) -> None:
        """Step until no text is left."""
        loop = asyncio.get_running_loop()
        while self._seat():
            seated = list(self.places)
            try:
                drawn = await loop.run_in_executor(self.executor, self._step, seated)
            except Exception as error:  # whatever it is, the readers of these texts are told
                drawn = [error] * len(seated)
            for text, scored in zip(seated, drawn, strict=True):
                if text is None or text.end is not None:
                    continue
                text.news.put_nowait((text, scored))
                if isinstance(scored, Exception):
                    text.end = "gone"
                elif scored is not None and scored.id == text.stop_id:
                    self._finish(text, "end")
                elif text.num_left == 0:
                    self._finish(text, "length")
        self._steps = None

    def _seat(self) -> bool:
        """Give places of ended texts to waiting ones; return whether any place is taken."""
        now = time.monotonic()
        for text in [*filter(None, self.places), *self.waiting]:
            if text.end is None and now > text.deadline:
                self._finish(text, "time")
        self.waiting = [text for text in self.waiting if text.end is None]
        for place, text in enumerate(self.places):
            if text is None or text.end is not None:
                self.places[place] = self.waiting.pop(0) if self.waiting else None
        return any(self.places)

    def _finish(self, text: Text, end: End) -> None:
        text.end = end
        text.news.put_nowait((text, None))

    def _step(self, seated: Sequence[Text | None]) -> list[Scored | Exception | None]:
        """Draw the next token of each text."""
        most = self._decoder.model.context_length
        for place, text in enumerate(seated):
            if text is not None and len(text.ids) > most:  # drop the first half, as generate does
                text.ids, text.is_read = text.ids[-max(most // 2, 1) :], False
            if text is not None and not text.is_read:
                self._decoder.read([text.ids[:-1]], place)
                text.is_read = True
        last = max(place for place, text in enumerate(seated) if text is not None)
        newest = [(text.ids[-1], len(text.ids) - 1) if text else (0, 0) for text in seated]
        tokens, positions = zip(*newest[: last + 1], strict=True)
        logits = self._decoder.logits(tokens, positions).float().cpu()
        return [_draw(text, logits[place]) if text else None for place, text in enumerate(seated)]


def _draw(text: Text, logits: Float[Tensor, " vocab_size"]) -> Scored | Exception:
    """Draw a text's next token; an error is returned, so that it ends no other text."""
    if not logits.isfinite().all():
        return ArithmeticError("its scores are not finite, perhaps since its training diverged")
    token_id = sample(logits, text.sampling, text.generator)
    text.ids.append(token_id)
    text.num_left -= 1
    probabilities = softmax(logits, dim=-1)
    return Scored(
        id=token_id,
        probability=probabilities[token_id].item(),
        bits=cross_entropy(logits[None], torch.tensor([token_id])).item() / math.log(2),
        rivals=likeliest(probabilities, NUM_RIVALS),
    )


def likeliest(
    probabilities: Float[Tensor, " vocab_size"], num_tokens: int
) -> list[tuple[int, float]]:
    """Return the likeliest tokens, each with its probability."""
    top = probabilities.topk(min(num_tokens, len(probabilities)))
    return list(zip(top.indices.tolist(), top.values.tolist(), strict=True))
