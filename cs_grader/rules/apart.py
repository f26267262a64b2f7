"""Reads a source in a process of its own, where it can hurt nothing: parsers can be crashed."""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from cs_grader.result import Excerpt, Finding
from cs_grader.rules.check import Policy, unreadable

# Parsed, 40 MB of source can take 7 GB.
MEMORY_BYTES = 2 * 2**30
CPU_S = 30
# Only a machine that does ten other things is that slow.
TIMEOUT_S = 10 * CPU_S
APART = """
import json, resource, sys
resource.setrlimit(resource.RLIMIT_DATA, 2 * (int(sys.argv[2]),))
resource.setrlimit(resource.RLIMIT_CPU, 2 * (int(sys.argv[3]),))
sys.path.append(sys.argv[1])
from cs_grader.rules.apart import to_json
from cs_grader.rules.check import check_source
sys.stdout.write(to_json(check_source(*json.load(sys.stdin))))
"""


def check_apart(
    files: Mapping[str, str],
    adapters: Mapping[str, Sequence[str]],
    memory_bytes: int = MEMORY_BYTES,
) -> Policy:
    """Do what `check_source` does where it can hurt nothing: Python's parser can be crashed."""
    try:
        finished = subprocess.run(
            [
                *(sys.executable, "-I", "-c", APART),
                str(Path(__file__).parents[2]),
                str(memory_bytes),
                str(CPU_S),
            ],
            input=json.dumps([files, adapters]),
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        if finished.returncode == 0:
            return _from_json(finished.stdout)
        reason = f"reading the source ended with status {finished.returncode}"
    except subprocess.TimeoutExpired:
        reason = f"reading the source takes longer than {TIMEOUT_S} s"
    return unreadable(reason)


def to_json(policy: Policy) -> str:
    """Write a policy for another process."""
    return json.dumps(asdict(policy))


def _from_json(text: str) -> Policy:
    fields = json.loads(text)
    return Policy(
        named=tuple(Finding(**finding) for finding in fields["named"]),
        review=tuple(Finding(**finding) for finding in fields["review"]),
        solutions=tuple(Excerpt(**excerpt) for excerpt in fields["solutions"]),
    )
