"""A model of which each process holds a part: not in the student edition."""

from typing import Any, NoReturn

from cs_basics.run.distributed import DDP


class FSDP(DDP):
    """Refuses to be made."""

    def __init__(self, *_: Any) -> NoReturn:  # noqa: ANN401  as the real one's
        raise ValueError("parallel=fsdp: the student edition trains with parallel=ddp only")
