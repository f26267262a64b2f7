"""Tokenizing large texts fast: the same results as the book's `train_bpe` and `Tokenizer`.

In reading order:

- boundaries: places where a text can be cut without changing a token.
- blocks: a text file cut into blocks, one for a process at a time, and these into chunks.
- parallel: work shared out among processes, with results in order.
- segments: the pieces of text between spaces, equal ones under one number, by arrays.
- counting: pre-tokens of a file counted.
- train_bpe: merges learned from these counts with a heap.
- merging: merges applied to one pre-token, or to many at once.
- pretoken_table: ids of the pre-tokens that were seen before.
- tokenizer: all of it together, `FastTokenizer`.

Nothing here imports torch.
"""
