"""A Transformer language model from scratch: a book of fourteen files, and what is built on it.

The book is the modules directly in this folder, to be read in this order: pretokenize, bpe,
tokenizer, functional, layers, norms, rope, attention, transformer, optim, data, checkpoint,
generate, training. It imports none of the subpackages.

The subpackages vary the book's parts (variants), make them faster (fast), train them (run), study
them (study) or carry them elsewhere (interop); stories writes the embedded corpus.
Their tests are in tests/project/, in folders of the same names. The book is tested by the
examination in tests/ and by tests/project/book/.
"""
