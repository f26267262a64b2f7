"""A model of which each process holds a part: what --parallel asks for beside DDP.

split.py            what both share: checkpoints and clipping of a model in parts
fsdp.py             FSDP: a shard of every weight
tensor_parallel.py  tensor parallelism: a share of every matrix product (parallel_layers.py)
"""
