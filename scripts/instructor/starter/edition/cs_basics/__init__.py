"""A Transformer language model from scratch: yours.

In the order in which the data flows (what is not yours to write stands in brackets):

    text -> ids          [pretokenize.py], bpe.py, tokenizer.py
    ids -> logits        functional.py, layers.py, norms.py, rope.py, attention.py, transformer.py
    logits -> update     functional.py, optim.py
    batches, files       data.py, checkpoint.py
    all of it together   [training.py, generate.py]
"""

from pathlib import Path

# What trains, measures and exports your model, as cs_basics.run and so on: it lies in given/.
__path__.append(str(Path(__file__).parents[1] / "given"))
