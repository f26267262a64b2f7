"""Wait for what another process or thread does."""

import time


def until(condition, seconds=60):
    """Wait until something is so, and return it; a test that passes has waited for no clock."""
    limit = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < limit, "it never came to that"
        time.sleep(0.01)
    return found
