"""The ledger: what is said of normalisation layers, measured, and judged by a printed rule.

A sentence is data: an entry of a file in sentences/, which is a chapter of the page. It says who
says it, what measures it, and by which rule its figures are judged. What measures is a function in
measures/ that returns numbers and no verdict, called with the entry's arguments, or a program of a
few lines that a reader can run. What the function measures stands in the entry as well: a norm by
its name or as a formula ("x / (mean_square(x).sqrt() + eps) * gain"), a change as a statement
("x[:, 1:] *= 7"). Rules are of few forms, in one table. Every entry also has what must turn its
verdict: other arguments (`contrary`: the thing measured is exchanged, and the measurement run
again), or figures (`otherwise`), where a measurement takes minutes.

What the seeds of a claim gave lies in results.jsonl, with a checksum of what measured it. The
runner measures what is missing or stale and writes claims.md, which git does not keep, and the
table of docs/norms.md; a verdict can be judged again without measuring. To add a claim, write its
entry.

sentences.py   Claim: an entry, its checksum, its measurement
rules.py       the forms of rules, and their three outcomes; interval.py: spreads over seeds
results.py     results.jsonl, verdicts, and what a claim may need
page.py        claims.md, and the rows of docs/norms.md
texts.toml     the sentences of five texts, and which claims judge each

measures/forms.py makes a norm of its name or its formula; comparison.py compares two of them.
changes, gradients, weights, depth: functions and fresh models; operations, compiled, times: costs;
carried: the norm that adds first; batch_norm, toys: neighbours; trainings, swaps, trained: small
trainings; examined: tests of the project, run on a copy with a fault.
"""
