"""Small trainings with rotary embedding and with nothing that says where a token stands."""

from lab.claims.claim import FALSE, Claim, Intervals, true_if
from lab.claims.sources import CIRCULATES, HAVIV, SU
from lab.claims.training.placement import BROKEN, bits
from lab.claims.training.quality import SHOWS, compared, first_is_better

NOWHERE = {"positions": "none"}
ONE_BLOCK = {"num_layers": 1}


def judge_no_positions(values: Intervals) -> str:
    """Judge "without positions nothing is learnt"."""
    return true_if(values["no positions"].mean > values["RoPE"].mean + BROKEN, FALSE)


CLAIMS = [
    compared(
        "rope",
        "Rotary embedding beats no information on positions.",
        SU,
        {"RoPE": {}, "no positions": NOWHERE},
        first_is_better,
    ),
    Claim(
        name="no-positions",
        says="Without information on positions a language model cannot learn word order.",
        source=f"{CIRCULATES}; {HAVIV} finds the contrary: a causal mask tells them apart",
        shows=f"bits per byte with four blocks and with one, which cannot tell them apart: {SHOWS}",
        trains={
            "RoPE": {},
            "no positions": NOWHERE,
            "RoPE, one block": ONE_BLOCK,
            "no positions, one block": {**ONE_BLOCK, **NOWHERE},
        },
        measure=bits,
        verdict=judge_no_positions,
        cost="long",
    ),
]
