"""What scripts/bench.py measures. Read measuring, then a subject: pipeline or norms.

measuring    rows, clocks, the machine
pipeline     from text to stories, each station by itself
norms        normalisation layers: time against what moving the bytes costs
norm_claims  what is said of them: kernels, passes over memory, training, eps
norm_plot    the picture of norms
"""
