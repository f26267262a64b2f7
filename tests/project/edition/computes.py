"""Which functions and classes of an edition compute what one of the problems asks for?

python computes.py EDITION FORMS, inside the edition as it is handed out: there nothing that relies
on the student's own code can. FORMS is what `forms()` returns, pickled, made with the reference.
Prints [[file, name, problem], ...]. Sources to look at besides come as {name: source} on standard
input; where the name is that of a file, the source is added to what the file defines.
"""

import ast
import contextlib
import importlib
import inspect
import io
import itertools
import json
import pickle
import signal
import sys
import types
from pathlib import Path

import numpy as np
import torch
from torch import nn

LOOKED_AT = (
    "cs_basics/*.py", "given/**/*.py", "scripts/*.py", "tests/**/*.py", "cs_grader/**/*.py",
)  # fmt: skip
MOST_PERMUTED = 4
CPU_S = 5  # CPU and not the clock: on a busy machine an answer takes long, too.

# What an annotation says of a parameter that takes such a value; none at all takes anything.
WORDS = {
    torch.Tensor: ("Tensor",),
    np.ndarray: ("NDArray", "ndarray"),
    int: ("int", "float"),
    float: ("float",),
    str: ("str",),
    list: ("Sequence", "Iterable", "list", "Collection"),
    dict: ("Mapping", "dict"),
    Path: ("Path", "str"),
}


def forms():
    """Return (problem, how to compare, arguments, the answer) of each problem, in some forms."""
    from cs_basics.attention import CausalSelfAttention
    from cs_basics.bpe import train_bpe
    from cs_basics.fast.adamw import update_in_place
    from cs_basics.functional import cross_entropy, scaled_dot_product_attention, silu, softmax
    from cs_basics.layers import Embedding, Linear, SwiGLU
    from cs_basics.norms import RMSNorm
    from cs_basics.optim import cosine_schedule
    from cs_basics.rope import RotaryPositionalEmbedding
    from cs_basics.tokenizer import Tokenizer
    from cs_basics.transformer import TransformerBlock, TransformerLM

    torch.manual_seed(0)
    x, scores, ids = torch.randn(2, 5, 8), torch.randn(4, 7), torch.tensor([[1, 4, 2, 0, 3]])
    q, k, v = torch.randn(3, 2, 5, 8).unbind(0)
    mask = torch.ones(5, 5, dtype=torch.bool).tril()
    targets = torch.tensor([1, 0, 6, 3])
    linear, table, norm, ffn = Linear(8, 6), Embedding(9, 8), RMSNorm(8), SwiGLU(8, 12)
    nn.init.normal_(norm.weight)
    rope = RotaryPositionalEmbedding(100.0, 4, 16)
    bare, turned = CausalSelfAttention(8, 2), CausalSelfAttention(8, 2, rope)
    block = TransformerBlock(8, 2, 12, rope)
    model = TransformerLM(9, 16, 8, 2, 2, 12, 100.0)
    update = (x, q, k, v.square(), 0.9, 0.95, 0.01, 1e-8, 0.99)
    updated = [part.clone() for part in update[:4]]
    update_in_place(*updated, *update[4:])
    text = "the cat the hat a cat sat"
    merges = [(b"t", b"h"), (b"th", b"e"), (b" ", b"c")]
    vocab = dict(enumerate([bytes([b]) for b in range(256)] + [a + b for a, b in merges]))
    tokens = Tokenizer(vocab, merges).encode(text)
    path = Path("text-to-learn-from.txt")
    path.write_text(text * 9)
    learned = train_bpe(path, 262, [])[1]
    answers = [
        ("silu", "value", (x,), silu(x)),
        ("softmax", "value", (scores, -1), softmax(scores, -1)),
        ("cross_entropy", "value", (scores, targets), cross_entropy(scores, targets)),
        ("scaled_dot_product_attention", "value", (q, k, v, mask),
         scaled_dot_product_attention(q, k, v, mask)),
        ("linear", "value", (x, linear.weight), linear(x)),
        ("linear", "module", ((8, 6), list(linear.parameters()), x), linear(x)),
        ("embedding", "value", (ids, table.weight), table(ids)),
        ("embedding", "module", ((9, 8), list(table.parameters()), ids), table(ids)),
        ("rmsnorm", "value", (x, norm.weight, 1e-5), norm(x)),
        ("rmsnorm", "value", (x, norm.weight), norm(x)),
        ("rmsnorm", "module", ((8,), list(norm.parameters()), x), norm(x)),
        ("positionwise_feedforward", "value", (x, ffn.w1.weight, ffn.w2.weight, ffn.w3.weight),
         ffn(x)),
        ("positionwise_feedforward", "module", ((8, 12), list(ffn.parameters()), x), ffn(x)),
        ("rope", "value", (q[..., :4], torch.arange(5), 100.0),
         rope(q[..., :4], torch.arange(5))),
        ("rope", "module", ((100.0, 4, 16), [], q[..., :4], torch.arange(5)),
         rope(q[..., :4], torch.arange(5))),
        ("multihead_self_attention", "value", (x, *parameters(bare), 2), bare(x)),
        ("multihead_self_attention", "module", ((8, 2), list(bare.parameters()), x), bare(x)),
        ("multihead_self_attention_with_rope", "value", (x, *parameters(turned), 2, 100.0),
         turned(x)),
        ("transformer_block", "value", (x, dict(block.state_dict()), 2, 100.0), block(x)),
        ("transformer_lm", "value", (ids, dict(model.state_dict()), 2, 2, 100.0), model(ids)),
        ("transformer_lm", "module", ((9, 16, 8, 2, 2, 12, 100.0), list(model.parameters()), ids),
         model(ids)),
        ("learning_rate_schedule", "value", (30, 1.0, 0.1, 10, 110),
         cosine_schedule(30, 1.0, 0.1, 10, 110)),
        ("adamw", "value", update, updated[0]),
        ("adamw", "optimizer", (), None),
        ("gradient_clipping", "gradients", (), None),
        ("data_loading", "batch", (), None),
        ("checkpointing", "file", (), None),
        ("tokenizer", "tokenizer", (vocab, merges, text), tokens),
        ("tokenizer", "value", (text, merges), [vocab[i] for i in tokens]),
        ("train_bpe", "merges", (text * 9, 262), learned),
    ]  # fmt: skip
    return [(*form[:2], *pickled(form[2:])) for form in answers]


def parameters(attention):
    names = ("q_proj", "k_proj", "v_proj", "output_proj")
    return [getattr(attention, name).weight for name in names]


def pickled(value):
    """Detach what is to be pickled."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, list | tuple):
        return type(value)(pickled(part) for part in value)
    return {k: pickled(v) for k, v in value.items()} if isinstance(value, dict) else value


# --- inside the edition ---


def main(edition, forms):
    sources = json.load(sys.stdin)
    sys.path[:0] = [str(edition), str(edition / "scripts"), str(edition / "tests")]
    found = []
    for path in sorted(path for pattern in LOOKED_AT for path in edition.glob(pattern)):
        place = path.relative_to(edition)
        name = ".".join(place.with_suffix("").parts[1:]).removesuffix(".__init__")
        if place.parts[0] == "cs_grader":
            name = f"cs_grader.{name}".removesuffix(".__init__")
        elif place.parts[0] in ("cs_basics", "given"):
            name = f"cs_basics.{name}".removesuffix(".__init__")
        with contextlib.redirect_stdout(io.StringIO()):
            is_test = place.parent.name == "tests"
            module = defined_in(path) if is_test else importlib.import_module(name)
        if place.as_posix() in sources:
            exec(sources.pop(place.as_posix()), vars(module))
        found += [(place.as_posix(), *twin) for twin in twins(module, forms)]
    for name, source in sources.items():
        assert name.isidentifier(), f"{name} is no file that is looked at"
        module = sys.modules[name] = types.ModuleType(name)
        exec(source, vars(module))
        found += [(name, *twin) for twin in twins(module, forms)]
    json.dump(found, sys.stdout)


def defined_in(path):
    """Run a file statement by statement, without those that need the stored answers."""
    module = sys.modules[path.stem] = types.ModuleType(path.stem)
    for node in ast.parse(path.read_text()).body:
        with contextlib.suppress(Exception):
            exec(compile(ast.Module([node], []), path, "exec"), vars(module))
    return module


def twins(module, forms):
    """Name what a module defines and the problem that it solves."""
    for name, thing in list(vars(module).items()):
        is_own = getattr(thing, "__module__", None) == module.__name__
        if not callable(thing) or not is_own or name.startswith("test_"):
            continue
        for problem, how, given, expected in forms:
            signal.setitimer(signal.ITIMER_PROF, CPU_S)
            try:
                is_twin = HOW[how](thing, pickled(given), expected)
            except BaseException:
                is_twin = False
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
            if is_twin:
                yield name, problem
                break


def is_twin_by_value(thing, given, expected):
    """Call a function with its arguments in any order that its annotations allow."""
    if isinstance(thing, type):
        return False
    orders = itertools.permutations(given) if len(given) <= MOST_PERMUTED else [given]
    for arguments in orders:
        if accepts(thing, arguments):
            with contextlib.suppress(Exception):
                if agrees(thing(*pickled(arguments)), expected):
                    return True
    return False


def accepts(thing, arguments):
    """Tell whether a call is safe to try: its parameters say that they take such values."""
    signature = inspect.signature(thing)
    with contextlib.suppress(TypeError):
        bound = signature.bind(*arguments).arguments
        return all(
            suits(signature.parameters[name].annotation, value) for name, value in bound.items()
        )
    return False


def suits(annotation, value):
    if annotation is inspect.Parameter.empty:
        return True
    words = next((words for kind, words in WORDS.items() if isinstance(value, kind)), ())
    return any(word in str(annotation) for word in words)


def agrees(answer, expected):
    if isinstance(answer, tuple) and not isinstance(expected, tuple):
        answer = answer[0]
    if isinstance(expected, torch.Tensor):
        return torch.allclose(answer, expected, rtol=1e-4, atol=1e-5)
    if isinstance(expected, float):
        return abs(answer - expected) < 1e-6
    return answer == expected


def is_twin_module(thing, given, expected):
    sizes, weights, *inputs = given
    if not issubclass(thing, nn.Module):
        return False
    module = thing(*sizes)
    for own, weight in zip(module.parameters(), weights, strict=True):
        own.data.copy_(weight)
    return agrees(module(*inputs), expected)


def is_twin_optimizer(thing, given, expected):
    """Two updates of AdamW, with decay, against the rule written out for a scalar."""
    del given, expected
    if not issubclass(thing, torch.optim.Optimizer):
        return False
    p = nn.Parameter(torch.tensor([1.0]))
    optimizer, m, v, value = thing([p], lr=0.1, weight_decay=0.5), 0.0, 0.0, 1.0
    beta1, beta2 = optimizer.param_groups[0]["betas"]
    for step, gradient in enumerate((0.3, -0.8), start=1):
        p.grad = torch.tensor([gradient])
        optimizer.step()
        m, v = beta1 * m + (1 - beta1) * gradient, beta2 * v + (1 - beta2) * gradient**2
        value -= 0.1 * 0.5 * value
        value -= 0.1 * (m / (1 - beta1**step)) / ((v / (1 - beta2**step)) ** 0.5 + 1e-8)
    return abs(p.item() - value) < 1e-4


def is_twin_clipping(thing, given, expected):
    del given, expected
    norm = 20**0.5
    for rest in ((1.0,), (norm, 1.0)):  # A function may be told the norm.
        weights = [nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(2))]
        for weight in weights:
            weight.grad = torch.full_like(weight, 2.0)
        if accepts(thing, (weights, *rest)):
            thing(weights, *rest)
            return abs(sum(w.grad.square().sum().item() for w in weights) - 1) < 1e-3
    return False


def is_twin_batch(thing, given, expected):
    del given, expected
    dataset = np.arange(50)
    for arguments in ((dataset, 3, 8, "cpu"), (dataset, 3, 8)):
        if accepts(thing, arguments):
            inputs, targets = thing(*arguments)
            return inputs.shape == (3, 8) and bool((targets == inputs + 1).all())
    return False


def is_twin_checkpoint(thing, given, expected):
    """Write model, optimizer and step in any order, or read back what such a call wrote."""
    del given, expected
    model = nn.Sequential()
    model.weight = nn.Parameter(torch.tensor([3.25]))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.125)
    names = list(inspect.signature(thing).parameters)
    if len(names) != MOST_PERMUTED or isinstance(thing, type):
        return False
    for arguments in itertools.permutations((model, optimizer, 7)):
        file = io.BytesIO()
        with contextlib.suppress(Exception):
            thing(*arguments, file)
            file.seek(0)
            held = repr(torch.load(file))
            if "3.25" in held and "0.125" in held:
                return True
    return False


def is_twin_tokenizer(thing, given, expected):
    vocab, merges, text = given
    return isinstance(thing, type) and thing(vocab, merges, []).encode(text) == expected


def is_twin_training(thing, given, expected):
    text, vocab_size = given
    path = Path("text-to-learn-from.txt")
    path.write_text(text)
    for arguments in ((path, vocab_size, []), (text, vocab_size - 256), (path, vocab_size)):
        if accepts(thing, arguments):
            with contextlib.suppress(Exception):
                answer = thing(*arguments)
                return (answer[1] if isinstance(answer, tuple) else answer) == expected
    return False


HOW = {
    "value": is_twin_by_value,
    "module": is_twin_module,
    "optimizer": is_twin_optimizer,
    "gradients": is_twin_clipping,
    "batch": is_twin_batch,
    "file": is_twin_checkpoint,
    "tokenizer": is_twin_tokenizer,
    "merges": is_twin_training,
}


if __name__ == "__main__":
    signal.signal(signal.SIGPROF, signal.default_int_handler)
    main(Path(sys.argv[1]).resolve(), pickle.loads(Path(sys.argv[2]).read_bytes()))
