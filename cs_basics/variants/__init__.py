"""One part of the book's model exchanged, and the configuration that says which.

config.py        ModelConfig: the sizes of a model and its choices; the defaults are the book's
norms.py         relatives of RMSNorm: Llama's order of cast and gain, partial, group, gated
attention.py     grouped-query attention, and RMSNorm of queries and keys
feed_forward.py  the feed-forward part without a gate
blocks.py        post-norm and sandwich-norm blocks
model.py         build_model: the model that a ModelConfig describes
"""
