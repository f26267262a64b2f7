"""POST /v1/completions and GET /v1/models, as the clients of OpenAI's API use them.

https://platform.openai.com/docs/api-reference/completions. The end of another story is put before a
prompt given as text, as in training and in scripts/generate.py; token ids are used as they are.
Beside OpenAI's fields an answer has `hints`: what generate.py would remark on its prompts.
"""

import math
import time
import uuid
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from starlette.exceptions import HTTPException

from cs_basics.generate import checked_prompt
from cs_basics.interop.serve.batch import Batch, Scored, Text
from cs_basics.interop.serve.requests import Completion
from cs_basics.run.text_stream import TextStream
from cs_basics.run.writing import hints, opening
from cs_basics.settings.run import END_OF_TEXT
from cs_basics.tokenizer import Tokenizer
from cs_basics.transformer import TransformerLM


@dataclass
class Choice:
    """One of the texts that a request asks for."""

    index: int
    growing: Text
    stream: TextStream
    text: str
    """What has been answered of it so far."""
    tokens: list[Scored] = field(default_factory=list[Scored])


class Completer:
    """Answers one request.

    Args:
        asked: The request.
        name: Name of the model.
        model: The model.
        tokenizer: Its tokenizer.
        batch: Where its texts grow.

    Raises:
        HTTPException: Another model is asked for, or too many wait.
        ValueError: A prompt cannot be read or is too long, there are too many, or the probabilities
            of an echoed prompt are asked for.
    """

    def __init__(
        self, asked: Completion, name: str, model: TransformerLM, tokenizer: Tokenizer, batch: Batch
    ) -> None:
        if asked.model not in (None, name):
            raise HTTPException(404, f"model: there is no {asked.model!r}, only {name!r}")
        self._asked, self._batch, self._tokenizer = asked, batch, tokenizer
        if asked.echo and asked.logprobs is not None:
            raise ValueError("logprobs: the tokens of an echoed prompt have none here")
        stop_strings = [asked.stop] if isinstance(asked.stop, str) else asked.stop or []
        several, places = _several(asked.prompt), len(batch.places)
        if (count := len(several) * asked.n) > places:
            raise ValueError(f"n: {count} texts are asked for, at most {places} grow at once")
        batch.check_room(count)
        prompts = [read_prompt(one, model, tokenizer) for one in several]
        self._num_read = sum(map(len, prompts))
        longest, pairs = model.context_length, zip(several, prompts, strict=True)
        told = [hints(text, len(ids), longest) for text, ids in pairs if isinstance(text, str)]
        self._head = {
            "id": f"cmpl-{uuid.uuid4().hex}", "object": "text_completion",
            "created": int(time.time()), "model": name,
            "hints": [hint for one in told for hint in one],
        }  # fmt: skip
        self._choices = [
            Choice(
                index=index,
                growing=Text(
                    ids=list(ids),
                    max_tokens=asked.max_tokens,
                    sampling=asked.sampling(),
                    stop_id=tokenizer.encode(END_OF_TEXT)[0],
                    seed=None if asked.seed is None else asked.seed + index,
                ),
                stream=TextStream(tokenizer, stop_strings),
                text=prompt if asked.echo else "",
            )
            for index, (prompt, ids) in enumerate(
                (one if isinstance(one, str) else tokenizer.decode(ids), ids)
                for one, ids in zip(several, prompts, strict=True)
                for _ in range(asked.n)
            )
        ]

    async def whole(self) -> dict[str, Any]:
        """Wait for all texts and return the answer in one piece."""
        echoed = [len(choice.text) for choice in self._choices]
        async with aclosing(self._grow()) as growing:
            async for choice, piece, _ in growing:
                choice.text += piece
        choices = [
            self._said(choice, choice.text, choice.tokens, offset, is_last=True)
            for choice, offset in zip(self._choices, echoed, strict=True)
        ]
        return self._head | {"choices": choices, "usage": self._usage()}

    async def chunks(self) -> AsyncGenerator[dict[str, Any], None]:
        """Yield the answer as it grows."""
        for choice in self._choices:
            if choice.text:
                yield self._head | {"choices": [self._said(choice, choice.text, [], 0)]}
        async with aclosing(self._grow()) as growing:
            async for choice, piece, scored in growing:
                tokens = [] if scored is None else [scored]
                said = self._said(choice, piece, tokens, len(choice.text), is_last=not tokens)
                choice.text += piece
                if piece or said["logprobs"] or said["finish_reason"]:
                    yield self._head | {"choices": [said]}
        if self._asked.stream_options and self._asked.stream_options.include_usage:
            yield self._head | {"choices": [], "usage": self._usage()}

    async def _grow(self) -> AsyncGenerator[tuple[Choice, str, Scored | None], None]:
        """Yield a text, its next characters and token; a text and no token when it has ended."""
        by_text = {choice.growing: choice for choice in self._choices}
        async with aclosing(self._batch.write(list(by_text))) as news:
            async for text, scored in news:
                choice = by_text[text]
                if scored is None:
                    yield choice, choice.stream.close(), None
                elif scored.id != text.stop_id:
                    choice.tokens.append(scored)
                    piece = choice.stream.push(scored.id)
                    if choice.stream.is_finished:
                        text.end = "stop"
                    yield choice, piece, scored

    def _said(
        self,
        choice: Choice,
        text: str,
        tokens: Sequence[Scored],
        offset: int,
        *,
        is_last: bool = False,
    ) -> dict[str, Any]:
        why = "stop" if choice.growing.end in ("end", "stop") else "length"
        return {
            "index": choice.index,
            "text": text,
            "finish_reason": why if is_last else None,
            "logprobs": None if self._asked.logprobs is None else self._logprobs(tokens, offset),
        }

    def _logprobs(self, tokens: Sequence[Scored], offset: int) -> dict[str, Any]:
        names = [self._tokenizer.decode([one.id]) for one in tokens]
        starts = accumulate(map(len, names), initial=offset)
        top = [
            {
                self._tokenizer.decode([rival]): math.log(share)
                for rival, share in one.rivals[: self._asked.logprobs]
                if share > 0
            }
            for one in tokens
        ]
        return {
            "tokens": names,
            "token_logprobs": [-one.bits * math.log(2) for one in tokens],
            "top_logprobs": top,
            "text_offset": [start for start, _ in zip(starts, names, strict=False)],
        }

    def _usage(self) -> dict[str, int]:
        written = sum(len(choice.tokens) for choice in self._choices)
        return {
            "prompt_tokens": self._num_read,
            "completion_tokens": written,
            "total_tokens": self._num_read + written,
        }


def _several(prompt: str | list[int] | list[str | list[int]]) -> list[str | list[int]]:
    """Return a prompt or several as a list."""
    if isinstance(prompt, list) and not all(isinstance(one, int) for one in prompt):
        return prompt  # pyright: ignore[reportReturnType]
    return [prompt]  # pyright: ignore[reportReturnType]


def read_prompt(prompt: str | list[int], model: TransformerLM, tokenizer: Tokenizer) -> list[int]:
    """Return the token ids of a prompt.

    Raises:
        ValueError: It is too long, or holds what the tokenizer or the model does not know.
    """
    most = model.context_length - 1
    longest = most * max(map(len, tokenizer.vocab.values()))
    if len(prompt) > longest:  # encoding a megabyte would keep the other readers waiting
        raise ValueError(f"prompt: it has {len(prompt)} characters, {most} tokens hold {longest}")
    is_text = isinstance(prompt, str)
    ids = tokenizer.encode(opening(prompt)) if is_text else prompt
    if len(ids) > most:
        raise ValueError(f"prompt: it has {len(ids)} tokens, this model reads at most {most}")
    return checked_prompt(model, ids)


def models(name: str, created: int) -> dict[str, Any]:
    """Return the answer of GET /v1/models."""
    model = {"id": name, "object": "model", "created": created, "owned_by": "cs_basics"}
    return {"object": "list", "data": [model]}
