"""Probes that measure what a submission takes, from inside its process; the rest is added here.

What was computed by other processes that the submission has started, the server sees from outside.
The yardstick of a time is taken by the grader itself: a submission could slow it down.
"""

import dataclasses
import runpy
from pathlib import Path
from typing import Any

from cs_grader.trusted.answer import Answer

MEASURING = frozenset({"encode_times", "lazy_memory", "train_bpe_time"})
"""Probes that run in a process of their own, where nothing has been held or kept before."""
# More is work that was moved; less is what any process may do beside it.
MOST_ELSEWHERE_S = 0.3


def count_the_rest(probe: str, inputs: Any, answer: Answer, examination: Path) -> Answer:  # noqa: ANN401
    """Add what a measuring probe cannot see; where that is not possible, nothing was measured.

    Args:
        probe: Its name.
        inputs: Its inputs.
        answer: What came of it.
        examination: The folder with the probes.
    """
    if probe not in MEASURING or answer.ended != "returned":
        return answer
    if probe == "train_bpe_time" and isinstance(answer.value, dict):
        training_s = answer.value.get("training_s")
        if type(training_s) is float:
            yardstick = runpy.run_path(str(examination / "probes/yardstick.py"))
            value = {
                "one_count_s": yardstick["one_count_s"](inputs["text"]),
                "training_s": training_s + max(answer.elsewhere_s, 0.0),
            }
            return dataclasses.replace(answer, value=value)
    elif answer.elsewhere_s > MOST_ELSEWHERE_S:
        words = "the work was done in another process, whose time and memory cannot be measured"
        return dataclasses.replace(answer, ended="died", text=words)
    return answer
