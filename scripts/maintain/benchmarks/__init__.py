"""What scripts/maintain/bench.py measures. Read measuring, then a subject.

measuring    rows, clocks, the machine
pipeline     from text to stories, each station by itself
norms        normalisation layers: time against what moving the bytes costs
norm_claims  what is said of them: kernels, passes over memory, training, eps
norm_plot    the picture of norms
tokenizer    ours against tokenizers and tiktoken (..._contender: what is measured, in a process of
             its own; ..._team: the processes in turns; ..._texts; ..._plot)
training     updates against transformers (contender, training_worker, plain_model, training_plot)
loss         validation loss after equal time against transformers (loss_worker, loss_plot)
generation   writing text against transformers (peer: its model, and ours of the same shape)
"""
