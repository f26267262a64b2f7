"""Submissions that answer every question in one trivial way, with the right shape and type.

python tests/project/grader/trivial.py    # writes tests/trivial.toml: the items that they pass
"""

import json
import sys
import tempfile
from pathlib import Path

from grade_folders import ROOT, grade

from cs_grader.result import Result
from cs_grader.trusted.examination import rubric_of

KINDS = ("zeros", "input", "ones", "mean", "empty", "refuses")
FILE = ROOT / "tests" / "trivial.toml"
HEAD = """\
# Items that a trivial answer passes: zeros, the input, ones, the mean, an empty list, or a refusal.
# They earn something only beside an item of the same problem that none of these passes.
# Written by tests/project/grader/trivial.py.
items = [
"""
ADAPTERS = """
import torch

KIND = "@KIND@"


def answer(like, *shape, dtype=None):
    if KIND == "refuses":
        raise ValueError("this is not possible")
    if KIND == "empty":
        return []
    shape = shape or tuple(like.shape)
    dtype = dtype or like.dtype
    if KIND == "input":
        same = tuple(like.shape) == shape
        return like.clone() if same else torch.zeros(shape, dtype=dtype)
    value = {"zeros": 0.0, "ones": 1.0, "mean": float(like.double().mean())}[KIND]
    return torch.full(shape, value, dtype=dtype)


def run_linear(d_in, d_out, weights, in_features):
    return answer(in_features, *in_features.shape[:-1], d_out)


def run_embedding(vocab_size, d_model, weights, token_ids):
    return answer(weights, *token_ids.shape, d_model)


def run_swiglu(d_model, d_ff, in_features, **weights):
    return answer(in_features)


def run_scaled_dot_product_attention(Q, K, V, mask=None):
    return answer(V, *Q.shape[:-1], V.shape[-1])


def run_multihead_self_attention(in_features, **others):
    return answer(in_features)


run_multihead_self_attention_with_rope = run_multihead_self_attention
run_transformer_block = run_multihead_self_attention


def run_rope(d_k, theta, max_seq_len, in_query_or_key, token_positions):
    return answer(in_query_or_key)


def run_transformer_lm(vocab_size, in_indices, weights, **others):
    return answer(weights["lm_head.weight"], *in_indices.shape, vocab_size)


def run_rmsnorm(d_model, eps, weights, in_features):
    return answer(in_features)


def run_silu(in_features):
    return answer(in_features)


def run_softmax(in_features, dim):
    return answer(in_features)


def run_cross_entropy(inputs, targets):
    return answer(inputs, 1, dtype=inputs.dtype)[0] if KIND != "empty" else []


def run_gradient_clipping(parameters, max_l2_norm):
    for parameter in parameters:
        if parameter.grad is not None and KIND != "input":
            parameter.grad.copy_(answer(parameter.grad) if KIND != "empty" else 0)


def run_get_batch(dataset, batch_size, context_length, device):
    if KIND in ("refuses", "empty"):
        return answer(None), answer(None)
    tokens = torch.as_tensor(dataset[:context_length].astype("int64")).repeat(batch_size, 1)
    return (answer(tokens, batch_size, context_length) for _ in range(2))


class Optimizer(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        if KIND == "refuses":
            raise ValueError("this is not possible")
        options = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, options)

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for parameter in group["params"]:
                if KIND != "input" and parameter.grad is not None:
                    parameter.copy_(answer(parameter) if KIND != "empty" else 0)


def get_adamw_cls():
    return Optimizer


def run_get_lr_cosine_schedule(it, max_learning_rate, min_learning_rate, **others):
    mean = (max_learning_rate + min_learning_rate) / 2
    values = {"zeros": 0.0, "ones": 1.0, "input": float(it), "mean": mean, "empty": []}
    if KIND == "refuses":
        raise ValueError("this is not possible")
    return values[KIND]


def run_save_checkpoint(model, optimizer, iteration, out):
    if KIND == "refuses":
        raise ValueError("this is not possible")


def run_load_checkpoint(src, model, optimizer):
    if KIND == "refuses":
        raise ValueError("this is not possible")
    return {"ones": 1, "empty": []}.get(KIND, 0)


class Tokenizer:
    def encode(self, text):
        one = {"zeros": [0], "ones": [1], "mean": [127], "input": list(text.encode())}
        if KIND == "refuses":
            raise ValueError("this is not possible")
        return one.get(KIND, []) if KIND == "input" else one.get(KIND, []) * len(text)

    def encode_iterable(self, iterable):
        for text in iterable:
            yield from self.encode(text)

    def decode(self, ids):
        if KIND == "refuses":
            raise ValueError("this is not possible")
        if KIND != "input":
            return ""
        return bytes(token % 256 for token in ids).decode(errors="replace")


def get_tokenizer(vocab, merges, special_tokens=None):
    return Tokenizer()


def run_train_bpe(input_path, vocab_size, special_tokens, **others):
    if KIND == "refuses":
        raise ValueError("this is not possible")
    if KIND == "empty":
        return {}, []
    return {number: bytes([number]) for number in range(256)}, []
"""


def hand_in(kind: str, folder: Path) -> Path:
    """Make the trivial submission of a kind."""
    (folder / "tests").mkdir(parents=True)
    source = ADAPTERS.replace("@KIND@", kind)
    (folder / "tests" / "adapters.py").write_text(source, encoding="utf-8")
    return folder


def grade_all(folder: Path) -> dict[str, Result]:
    """Grade the trivial submissions over all problems."""
    given = {kind: hand_in(kind, folder / "in" / kind) for kind in KINDS}
    graded = grade(given, folder / "out", tuple(rubric_of(ROOT / "tests")))
    faults = [one.fault for one in graded if one.result is None]
    if faults:
        raise RuntimeError(faults[0])
    return {one.submission.name: one.result for one in graded if one.result is not None}


def main() -> None:
    """Write the file."""
    with tempfile.TemporaryDirectory() as folder:
        results = grade_all(Path(folder))
    items = {
        item.item for one in results.values() for item in one.items if item.outcome == "passed"
    }
    lines = "".join(f"    {json.dumps(item)},\n" for item in sorted(items))
    FILE.write_text(f"{HEAD}{lines}]\n", encoding="utf-8")
    for kind, result in results.items():
        sys.stdout.write(f"{kind}: {result.score:.2f} points\n")
    sys.stdout.write(f"{len(items)} items\n")


if __name__ == "__main__":
    main()
