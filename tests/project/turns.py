"""What takes minutes takes turns: CI tries another part of it each day, and all of it in a few."""

import datetime


def todays(things, num_days):
    """Return today's part of a list, which is not empty; in so many days each has its turn."""
    first = datetime.date.today().toordinal() % min(num_days, len(things))
    return things[first::num_days]
