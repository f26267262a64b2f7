"""What the answer would be under each known mistake, by a diagnosis that completes the sentence
"This is what comes out when ...". Built from the oracles' parts, in float64 like them.

    functions.py    functions and layers
    transformer.py  multi-head attention, the block, the model
    training.py     optimizer, clipping, schedule
    text.py         tokenizer and its training
"""
