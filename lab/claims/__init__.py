"""The ledger: what is said of normalisation layers, measured and judged.

claims.md has a row for each sentence: who says it, what is measured, and the verdict. What measures
and judges it is a function in a file of the folders below, under `claim` and the name of the row.
To add a claim, write its row and such a function.

forgets/       invariances, gradients, RMSNorm and LayerNorm in terms of each other
rounding/      order of cast and gain, eps, float32 inside, rsqrt
cost/          operations, passes over memory, bytes kept, time
neighbours/    batch, partial, group and gated norms, QK-norm, pruning
depth/         fresh models: residual stream, gradients by depth, weights before a norm
training/      small trainings: quality, placement, activations, int8

claim.py       Claim, and what keeps one under its name
interval.py    mean and 95 % t interval over seeds
ledger.py      finds the claims, measures and judges them, fills in their rows
trainings.py   the small trainings, made once and kept

draws.py, counting.py, looking.py, norm_calls.py: what claims share
"""
