"""Progress of long work, which the library reports and the scripts show (scripts/cli.py)."""

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Generator

logger = logging.getLogger(__name__)

SIGN_EVERY_S = 10.0

OnProgress = Callable[[str, str, int, int], None]
"""Called now and then with the name of a stage ("encoding"), its unit ("bytes"), how many are done,
and how many there are in all (0 if unknown, as for a pipe). The first call of a stage is made when
it begins, so that the time between two calls gives a rate."""


@contextlib.contextmanager
def signs_of_life(work: str) -> Generator[None]:
    """Log now and then that work goes on which cannot say how far it is."""
    has_ended, began_s = threading.Event(), time.monotonic()

    def tell() -> None:
        while not has_ended.wait(SIGN_EVERY_S):
            logger.info("%s: %.0f s so far", work, time.monotonic() - began_s)

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield
    finally:
        has_ended.set()
        teller.join()
