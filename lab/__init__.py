"""The laboratory: what measures, races or narrates the products. README.md has each folder's door.

It runs from a checkout, in its root: python -m lab.claims. The scripts' command line and the
modules of the examination are used as they lie there.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]

sys.path += [str(ROOT / folder) for folder in ("scripts", "tests/exam", "tests/project")]
