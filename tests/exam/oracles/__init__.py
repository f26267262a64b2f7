"""What the adapters should return, in float64 NumPy and plain Python: slow, obvious, independent.

Shares no line with cs_basics.

    model.py     functions, layers, the model, gradients
    training.py  optimizer, clipping, schedule
    text.py      tokenizer and its training

What a class may choose instead (docs/teach.md) is named in contract.toml, where there is one.
"""

import tomllib
from pathlib import Path

CONTRACT = Path(__file__).parents[2] / "contract.toml"
CONVENTIONS = ("decay_last", "gain_one_plus", "gate_w3", "rope_halves", "ties_lesser")
CHOSEN: set[str] = set()
if CONTRACT.exists():
    try:
        names = tomllib.loads(CONTRACT.read_text(encoding="utf-8"))["conventions"]
    except (tomllib.TOMLDecodeError, KeyError) as error:
        raise ValueError(f'{CONTRACT}: expected conventions = ["rope_halves"]: {error}') from None
    wrong = (
        [name for name in names if name not in CONVENTIONS] if isinstance(names, list) else names
    )
    if wrong or not isinstance(names, list):
        raise ValueError(f"{CONTRACT}: {wrong} is not of the conventions {', '.join(CONVENTIONS)}")
    CHOSEN.update(names)
OF_CLASS = frozenset(CHOSEN)
"""The same, whatever is left out of CHOSEN for a while (conventions.py)."""
