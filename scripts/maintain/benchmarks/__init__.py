"""What scripts/maintain/bench.py measures. Read measuring, then a subject.

measuring    rows, clocks, the machine
worker       a contender in a process of its own, asked in turns with others
models       the models that are compared, and an update of ours
pipeline     from text to stories, each station by itself
norms        normalisation layers: time against what moving the bytes costs (norm_contenders;
             norm_points: sizes and table; norm_document: the tables of docs/norms.md)
tokenizer    ours against tokenizers and tiktoken (tokenizer_contender, tokenizer_texts)
training     updates against transformers (training_worker)
loss         validation loss after equal time against transformers (loss_worker)
generation   writing text against transformers
"""
