"""Runs first in the sandbox of an entry: gives up rights, then becomes a program of the entry.

    python launch.py SETTINGS PROGRAM ARGUMENTS...

SETTINGS is JSON: uid (become this user; null: stay), processes, memory_bytes of each of them,
file_bytes, and may_start_programs (training compiles; a model that answers does not).
"""

import json
import resource
import runpy
import sys

from cs_grader.sandbox import confine


def main() -> None:
    """Confine this process as the settings say and run the program in it."""
    settings, program = json.loads(sys.argv[1]), sys.argv[2]
    if settings["uid"] is not None:
        confine.become(settings["uid"])
        confine.limit(resource.RLIMIT_NPROC, settings["processes"])
    confine.die_with_parent()
    confine.limit(resource.RLIMIT_DATA, settings["memory_bytes"])
    confine.limit(resource.RLIMIT_FSIZE, settings["file_bytes"])
    confine.limit(resource.RLIMIT_CORE, 0)
    confine.keep_processors()
    if not settings["may_start_programs"]:
        # There is no network to reach: a namespace has taken care of it.
        confine.filter_system_calls(allow_network=True)
    sys.argv[:] = sys.argv[2:]
    runpy.run_path(program, run_name="__main__")


if __name__ == "__main__":
    main()
