"""A Transformer language model from scratch, small enough to read in an evening.

Reading order, the way the data flows:

    text -> pretokens    pretokenize.py
    pretokens -> ids     bpe.py, tokenizer.py
    ids -> batches       data.py
    batches -> logits    functional.py, layers.py, norms.py, rope.py, attention.py, transformer.py
    logits -> loss       functional.py
    loss -> update       optim.py
    all of it together   training.py (config.py, checkpoint.py, metrics.py, generate.py)
    text from nothing    stories/
"""
