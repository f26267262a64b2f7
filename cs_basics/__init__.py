"""A Transformer language model from scratch: a book of fourteen files, and what is built on it.

The book is the modules directly in this folder, to be read in this order: pretokenize, bpe,
tokenizer, functional, layers, norms, rope, attention, transformer, optim, data, checkpoint,
generate, training. Its ending is __main__: `python -m cs_basics TEXT` goes from a text to a story.
The book imports none of the subpackages.

The subpackages train models (run, by what settings says, on the corpus of stories), study them
(study) or carry them elsewhere (interop); where variants and fast are there, they vary the book's
parts and make them faster. The book is tested by the examination in tests/.
"""
