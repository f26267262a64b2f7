"""What the adapters should return, in float64 NumPy and plain Python: slow, obvious, independent.

Shares no line with cs_basics.

    model.py     functions, layers, the model, gradients
    training.py  optimizer, clipping, schedule
    text.py      tokenizer and its training
"""
