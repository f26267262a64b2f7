"""What the answer would be under each known mistake, by a diagnosis that completes the sentence
"This is what comes out when ...". Built from the oracles' parts, in float64 like them.

    functions.py        functions and layers
    attention.py        scaled dot-product attention, RoPE
    multihead.py        multi-head attention
    transformer.py      the block, the model
    training.py         optimizer, clipping, schedule
    encoding.py         tokenizer
    merges.py           training of a tokenizer
"""
