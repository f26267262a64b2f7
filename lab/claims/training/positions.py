"""Small trainings with rotary embedding and with nothing that says where a token stands."""

from lab.claims.claim import Intervals, claim
from lab.claims.training.placement import BROKEN, bits
from lab.claims.training.quality import compared, first_is_better

NOWHERE = {"positions": "none"}
ONE_BLOCK = {"num_layers": 1}


def judge_no_positions(values: Intervals) -> bool:
    """Judge "without positions nothing is learnt"."""
    return values["no positions"].mean > values["RoPE"].mean + BROKEN


compared("rope", {"RoPE": {}, "no positions": NOWHERE}, first_is_better)
claim(
    "no-positions",
    judge_no_positions,
    trains={
        "RoPE": {},
        "no positions": NOWHERE,
        "RoPE, one block": ONE_BLOCK,
        "no positions, one block": {**ONE_BLOCK, **NOWHERE},
    },
)(bits)
