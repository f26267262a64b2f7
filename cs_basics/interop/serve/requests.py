"""What a request may hold; everything else is refused in one line that names it."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cs_basics.generate import Sampling

MAX_TOKENS = 5000
"""Most tokens that one text may grow by, the same as the limit on the page."""

TokenIds = Annotated[
    list[Annotated[int, Field(ge=0)]], Field(min_length=1, max_length=20 * MAX_TOKENS)
]
Seed = Annotated[int, Field(ge=0, lt=2**32)]
Factor = Annotated[float, Field(ge=-100, le=100)]
StopString = Annotated[str, Field(min_length=1, max_length=256)]
StopStrings = Annotated[list[StopString], Field(max_length=16)]


class Checked(BaseModel):
    """An object of a request: no other fields, and no conversions, such as of "1" to 1."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class Knobs(Checked):
    """How to sample; defaults are those of OpenAI's API."""

    temperature: float | None = Field(None, ge=0)
    top_k: int | None = Field(None, ge=1, lt=2**31)
    top_p: float | None = Field(None, gt=0, le=1)

    def sampling(self) -> Sampling:
        """Return the settings as generate.py has them."""
        temperature = 1.0 if self.temperature is None else self.temperature
        return Sampling(temperature=temperature, top_k=self.top_k, top_p=self.top_p)


class Operations(Checked):
    """The Operations of page/model.js."""

    off: list[str] = []
    scale: dict[str, Factor] = {}


class Read(Checked):
    """The page asks about a text."""

    text: TokenIds
    operations: Operations = Operations()
    position: int = 0


class Write(Checked):
    """The page asks for a continuation; the fields are those of worker.js."""

    text: TokenIds
    operations: Operations = Operations()
    sampling: Knobs
    seed: Seed
    max_tokens: int = Field(ge=1, le=MAX_TOKENS, alias="maxTokens")
    num_drawn: int = Field(ge=0, le=20 * MAX_TOKENS, alias="numDrawn")
    stop_id: int = Field(alias="stopId")


class StreamOptions(Checked):
    """What else a stream holds."""

    include_usage: bool = False


class Completion(Knobs):
    """The body of POST /v1/completions; unsupported fields accept only values without effect."""

    prompt: str | TokenIds | Annotated[list[str | TokenIds], Field(min_length=1)]
    model: str | None = None
    max_tokens: int = Field(16, ge=1, le=MAX_TOKENS)
    seed: Seed | None = None
    stop: StopString | StopStrings | None = None
    n: int = Field(1, ge=1)
    logprobs: int | None = Field(None, ge=0, le=5)
    echo: bool = False
    stream: bool = False
    stream_options: StreamOptions | None = None
    user: str | None = None
    best_of: Literal[1] | None = None
    suffix: Literal[""] | None = None
    logit_bias: Annotated[dict[str, float], Field(max_length=0)] | None = None
    frequency_penalty: float | None = Field(None, ge=0, le=0)
    presence_penalty: float | None = Field(None, ge=0, le=0)


_HINTS = {
    "prompt": "must be a text, token ids, or a list of either that is not empty",
    "stop": "must be a text or up to 16, each of 1 to 256 characters",
    **dict.fromkeys(
        ("best_of", "suffix", "logit_bias", "frequency_penalty", "presence_penalty"),
        "is not supported here",
    ),
}
"""What to say of fields for which pydantic's own message would list irrelevant alternatives."""


def in_one_line(error: ValidationError) -> str:
    """Describe the first error of a request in one line."""
    first = error.errors(include_url=False)[0]
    place, kind = ".".join(str(part) for part in first["loc"]) or "the request", first["type"]
    if kind in ("missing", "json_invalid"):
        return f"{place}: {first['msg']}"
    if kind == "extra_forbidden":
        return f"{place} is not a field of this request"
    value = repr(first["input"])
    shown = value if len(value) <= 40 else f"{value[:37]}..."
    name = place.partition(".")[0]
    return f"{name} {_HINTS[name]}" if name in _HINTS else f"{place}: {first['msg']}, not {shown}"
