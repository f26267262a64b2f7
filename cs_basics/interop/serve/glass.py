"""The page's own requests, answered as its worker does: page/worker.js lists them."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import asdict
from functools import partial
from typing import Any

from starlette.exceptions import HTTPException

from cs_basics.generate import checked_prompt
from cs_basics.interop.serve.batch import Batch, Text
from cs_basics.interop.serve.inside import look, loss, next_logits, operated, parts, rivals
from cs_basics.interop.serve.requests import Operations, Read, Write
from cs_basics.transformer import TransformerLM

LONGEST_LOOK = 128
"""Most tokens that are looked into at once: the attention maps grow with their square."""
LONGEST_OPERATED = 100
"""Most tokens that an operated model (inside.py) writes."""

Answer = AsyncGenerator[dict[str, Any], None]
"""Objects that hold `news`, and finally one that holds `result`."""
Operate = Callable[[], TransformerLM]
"""Makes an operated model."""


class Glass:
    """Answers the page.

    Args:
        model: The language model.
        batch: Where its texts grow; its thread computes everything else, too.
    """

    def __init__(self, model: TransformerLM, batch: Batch) -> None:
        self.model, self.batch = model, batch
        self._parts = set(parts(model))
        self._layers = {f"layers.{i}" for i in range(len(model.layers))}
        self._one_operates = asyncio.Lock()  # an operated model takes memory of its own

    def ask(self, name: str, body: bytes) -> Answer:
        """Check a request and return what answers it.

        Raises:
            HTTPException: There is no such request, or too many wait.
            ValueError: The request cannot be answered; the message says why.
        """
        if name == "write":
            return self._write(Write.model_validate_json(body))
        if name not in ("look", "loss", "rivals", "logits"):
            raise HTTPException(404, f"there is no request {name!r}")
        asked = Read.model_validate_json(body)
        text, operate = asked.text, self._operate(asked.operations)
        checked_prompt(self.model, text)
        most = self.model.context_length
        longest = {"look": min(LONGEST_LOOK, most), "loss": most + 1}.get(name, most)
        if not (name == "loss") < len(text) <= longest:
            raise ValueError(f"text: {name} reads at most {longest} tokens, not {len(text)}")
        if name == "look":
            if not 0 <= asked.position < len(text):
                raise ValueError(f"position: {asked.position} is not in the text")
            return self._compute(lambda: look(self.model, text, asked.position))
        function = {"loss": loss, "rivals": rivals, "logits": next_logits}[name]
        return self._compute(lambda: function(operate() if operate else self.model, text))

    def _operate(self, operations: Operations) -> Operate | None:
        """Return what makes the operated model; None for the model as it is."""
        for name in {*operations.off} - self._parts:
            raise ValueError(f"operations: the model has no part {name!r} that can be off")
        for name in {*operations.scale} - self._layers:
            raise ValueError(f"operations: the model has no layer {name!r} to scale")
        if not operations.off and not operations.scale:
            return None
        return partial(operated, self.model, operations.off, operations.scale)

    async def _compute(self, function: Callable[[], object]) -> Answer:
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(self.batch.max_seconds):
            result = await loop.run_in_executor(self.batch.executor, function)
        yield {"result": result}

    def _write(self, asked: Write) -> Answer:
        checked_prompt(self.model, asked.text)
        text = Text(
            ids=asked.text[-self.model.context_length :],
            max_tokens=asked.max_tokens,
            sampling=asked.sampling.sampling(),
            stop_id=asked.stop_id,
            seed=asked.seed,
            num_drawn=asked.num_drawn,
        )
        operate = self._operate(asked.operations)
        if operate is None:
            self.batch.check_room(1)
            return written(self.batch, text)
        if text.max_tokens > LONGEST_OPERATED:
            raise ValueError(f"maxTokens: an operated model writes at most {LONGEST_OPERATED}")
        return self._write_operated(text, operate)

    async def _write_operated(self, text: Text, operate: Operate) -> Answer:
        executor, max_seconds = self.batch.executor, self.batch.max_seconds
        async with asyncio.timeout(max_seconds), self._one_operates:
            batch = await asyncio.get_running_loop().run_in_executor(
                executor, lambda: Batch(operate(), 1, executor, max_seconds)
            )
            # Write all of it before any is sent, so that a slow reader keeps nobody else waiting.
            said = [part async for part in written(batch, text)]
        for part in said:
            yield part


async def written(batch: Batch, text: Text) -> Answer:
    """Yield the tokens of a text, and why it ended."""
    async with aclosing(batch.write([text])) as news:
        async for _, scored in news:
            yield {"news": asdict(scored)} if scored is not None else {"result": text.end}
