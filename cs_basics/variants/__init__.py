"""Parts that can replace those of the book, chosen by the configuration of a run.

norms.py         LayerNorm; relatives of RMSNorm: Llama's and Gemma's gain, partial, group
attention.py     grouped-query attention, heads of any size, RMSNorm of queries and keys
value_residual.py  values mixed with those of the first block
head_bias.py     a bias of the output head, which starts at the tokens' shares
feed_forward.py  feed-forward parts without a gate
blocks.py        blocks of given parts: pre-norm, post-norm, sandwich-norm
muon.py          Muon, an optimizer for matrices beside the book's AdamW
dropout.py       dropout of what each part of a block adds to the residual stream
model.py         Transformer: the model that a ModelConfig describes
"""
