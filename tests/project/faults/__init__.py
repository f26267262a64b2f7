"""The fault bank: mistakes the examination must catch, and honest work it must accept.

`python -m lab.campaigns.faults` builds each one in turn, runs the items of its problem and writes
lab/campaigns/faults.md; with `--only 'outside the root' --show` it does so for one and prints what
that is told.

To add a fault, write what the wrong adapter would do and say so, in the file of its problem:

    @fault("rmsnorm", "eps is added outside the root", diagnosis="eps is added outside")
    def eps_outside(in_features, weights, eps, **_):
        rms = in_features.pow(2).mean(-1, keepdim=True).sqrt()
        return in_features / (rms + eps) * weights

The function stands in for the problem's adapter (bank.ADAPTERS) and is called with its keyword
arguments. `diagnosis` holds words that only the right explanation has; leave it out where the
examination knows no name for the mistake. `@variant(problem, name)` declares honest work.

    bank.py         what a fault is; how the bank is filled
    parts.py        right building blocks, for faults to get one thing wrong in
    layers.py       linear, embedding, SiLU, SwiGLU
    modules.py      what fresh modules start from and save
    functions.py    RMSNorm, softmax, cross-entropy
    attention.py    scaled dot-product attention, RoPE
    multihead.py    multi-head self-attention
    multihead_rope.py  the same with RoPE
    transformer.py  the block and the model
    optimizers.py   AdamW
    schedules.py    gradient clipping, learning rate schedule
    data.py         batches, checkpoints
    tokenizers.py   encoding and decoding
    merges.py       training byte-pair encoding
    run.py          builds each fault and runs the items of its problem
    report.py       what came out, in words and tables
    classroom.py    a class made of faults, to see whether those who answer alike are found
"""
