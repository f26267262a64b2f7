"""Fast twins of the book: the same results in less time.

`accelerate(thing)` returns what the two tables below name. It compares by identity, so that a class
of the same name that somebody else wrote is never replaced; anything in neither is returned
unchanged. The twin of a module is a subclass that computes the same and has no parameters of its
own, so state dicts, optimizers and checkpoints are the book's; that of Transformer builds itself of
twins. training.py compiles the training step made of these parts. Every twin is tested for equality
with what it replaces.
docs/performance.md explains where the speed comes from.

layers.py        one matrix product for W1 and W3 of SwiGLU
attention.py     fused QKV, half-split RoPE; in compiled code on a CPU a C++ kernel (native/), on
                 GPUs Triton kernels (triton_attention.py)
rope.py          tables of angles; transformer.py: the model made of twins
chunked_loss.py  the loss, some logits at a time; loss.py decides whether
adamw.py         the update rule of AdamW, compiled; muon.py: all matrices of a shape at once
compilation.py   torch.compile where it works; training.py: the whole step; native/: ahead of time
cached.py        keys and values kept while a text grows; decoding.py: one text or many
text/            the tokenizer on arrays and several processes

Every import is local to the function that needs it, so that encoding a text imports no torch.
"""

from typing import Any, TypeVar

Thing = TypeVar("Thing")


def accelerate(thing: Thing) -> Thing:
    """Return the fast twin of a class or a function of the book; anything else unchanged."""
    # Classes and functions are dictionary keys by identity.
    of_text = getattr(thing, "__module__", None) in ("cs_basics.tokenizer", "cs_basics.bpe")
    return (twins_of_the_tokenizer() if of_text else twins_of_the_model()).get(thing, thing)


def twins_of_the_model() -> dict[Any, Any]:
    """Return the table {original: fast twin} of model, optimizer and generation."""
    from cs_basics.attention import CausalSelfAttention
    from cs_basics.fast.adamw import FusedAdamW
    from cs_basics.fast.attention import FusedAttention
    from cs_basics.fast.decoding import generate as generate_with_cache
    from cs_basics.fast.layers import FusedSwiGLU
    from cs_basics.fast.muon import StackedMuon
    from cs_basics.fast.native.lookup import OrderedEmbedding
    from cs_basics.fast.rope import TabledRoPE
    from cs_basics.fast.transformer import FastTransformer
    from cs_basics.generate import generate
    from cs_basics.layers import Embedding, SwiGLU
    from cs_basics.optim import AdamW
    from cs_basics.rope import RotaryPositionalEmbedding
    from cs_basics.variants.attention import GroupedQueryAttention
    from cs_basics.variants.model import Transformer
    from cs_basics.variants.muon import Muon

    return {
        Embedding: OrderedEmbedding,
        CausalSelfAttention: FusedAttention,
        GroupedQueryAttention: FusedAttention,
        SwiGLU: FusedSwiGLU,
        RotaryPositionalEmbedding: TabledRoPE,
        Transformer: FastTransformer,
        AdamW: FusedAdamW,
        Muon: StackedMuon,
        generate: generate_with_cache,
    }


def twins_of_the_tokenizer() -> dict[Any, Any]:
    """Return the table {original: fast twin} of the tokenizer; imports no torch."""
    from cs_basics.bpe import train_bpe
    from cs_basics.fast.text.tokenizer import FastTokenizer
    from cs_basics.fast.text.train_bpe import train_bpe as train_bpe_in_parallel
    from cs_basics.tokenizer import Tokenizer

    return {
        Tokenizer: FastTokenizer,
        train_bpe: train_bpe_in_parallel,
    }
