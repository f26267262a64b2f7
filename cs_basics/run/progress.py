"""Progress of long work, which the library reports and the scripts show (scripts/cli.py)."""

from collections.abc import Callable

OnProgress = Callable[[str, str, int, int], None]
"""Called now and then with the name of a stage ("encoding"), its unit ("bytes"), how many are done,
and how many there are in all (0 if unknown, as for a pipe). The first call of a stage is made when
it begins, so that the time between two calls gives a rate."""
