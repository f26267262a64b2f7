"""Small programs that drive the adapters and return plain data. They observe; they never judge.

Each probe takes the adapters and plain inputs, and returns plain outputs, so that it can run in
another process that holds a submission and nothing worth stealing.

    model.py        functions, layers, the model: values and gradients
    modules.py      what constructors leave behind
    devices.py      what a module or an optimizer leaves on its first device
    training.py     optimizer, clipping, schedule, batches, checkpoints
    text.py         tokenizer and its training
    lazy_memory.py  the memory of encode_iterable, in a process of its own
    yardstick.py    what the time of other code is compared with
    without_gpu.py  what a CPU build of torch lacks, so that code which calls it runs
"""
