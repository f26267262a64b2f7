"""The ledger: what is said of normalisation layers, measured and judged.

Each claim is a Claim in the list CLAIMS of a file in one of the folders below: the sentence, who
says it, the measurement (a function of a seed) and the rule that judges it. To find one, look into
the folder of its subject, or ask `python -m lab.claims --list-claims`. To add one,
add it to such a list.

forgets/       invariances, gradients, RMSNorm and LayerNorm in terms of each other
rounding/      order of cast and gain, eps, float32 inside, rsqrt
cost/          operations, passes over memory, bytes kept, time
neighbours/    batch, partial, group and gated norms, QK-norm, pruning
depth/         fresh models: residual stream, gradients by depth, weights before a norm
training/      small trainings: quality, placement, activations, int8
errors/        errors that circulate, each with a program of a few lines

claim.py       Claim, and what a verdict may be
interval.py    mean and 95 % t interval over seeds
row.py         what was measured of a claim, kept after every seed
ledger.py      finds the claims, measures and judges them
trainings.py   the small trainings, made once and kept
document.py    the table, as Markdown and as HTML; its pictures

sources.py, draws.py, counting.py, looking.py, norm_calls.py, program.py: what claims share
"""
