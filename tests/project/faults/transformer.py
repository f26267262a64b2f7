"""The Transformer block and the model."""

import torch
from torch import nn
from torch.nn import functional

from faults.bank import REFERENCE, fault, variant
from faults.parts import (
    angles,
    attention,
    block_attention,
    block_feedforward,
    causal,
    merge_heads,
    multihead,
    parameter,
    rmsnorm,
    rotate,
    softmax,
    split_heads,
)


class Block:
    """The parts of a block, for a formula to put together: x -> attn, ffn, ln1, ln2."""

    def __init__(self, weights, num_heads, theta):
        self.weights, self.num_heads, self.theta = weights, num_heads, theta

    def attn(self, x, **options):
        theta = options.pop("theta", self.theta)
        return block_attention(x, self.weights, self.num_heads, theta, **options)

    def ffn(self, x):
        return block_feedforward(x, self.weights)

    def ln1(self, x):
        return rmsnorm(x, self.weights["ln1.weight"])

    def ln2(self, x):
        return rmsnorm(x, self.weights["ln2.weight"])

    def after_attention(self, x):
        return x + self.attn(self.ln1(x))

    def after_feedforward(self, x):
        return x + self.ffn(self.ln2(x))

    def output(self, x):
        return self.after_feedforward(self.after_attention(x))


def block(formula):
    """Make an adapter of `formula(block, x)`."""

    def run_transformer_block(num_heads, theta, weights, in_features, **_):
        own = {name: parameter(weight) for name, weight in weights.items()}
        return formula(Block(own, num_heads, theta), in_features)

    return run_transformer_block


def block_fault(name, diagnosis=()):
    return fault("transformer_block", name, diagnosis)


block_fault("the sublayers run in parallel", "parallel on the same")(
    block(lambda b, x: x + b.attn(b.ln1(x)) + b.ffn(b.ln2(x)))
)
block_fault("the sublayers run in parallel after ln1", "parallel after ln1")(
    block(lambda b, x: x + b.attn(b.ln1(x)) + b.ffn(b.ln1(x)))
)
block_fault("no residual around the feed-forward", "around the feed-forward")(
    block(lambda b, x: b.ffn(b.ln2(b.after_attention(x))))
)
block_fault("no residual around the attention", "around attention")(
    block(lambda b, x: b.after_feedforward(b.attn(b.ln1(x))))
)
block_fault("no residual connections", "no residual connections")(
    block(lambda b, x: b.ffn(b.ln2(b.attn(b.ln1(x)))))
)
block_fault("view() needs the input to be contiguous", "on contiguous tensors")(
    block(lambda b, x: b.output(x.view(-1, x.shape[-1]).view(x.shape)))
)
block_fault("ln1 is missing", "ln1 is missing")(
    block(lambda b, x: b.after_feedforward(x + b.attn(x)))
)
block_fault("both norms are missing", "both norms are missing")(
    block(lambda b, x: x + b.attn(x) + b.ffn(x + b.attn(x)))
)
block_fault("the eps of ln1 is 1e-6", "ln1 has an eps other than 1e-5")(
    block(
        lambda b, x: b.after_feedforward(x + b.attn(rmsnorm(x, b.weights["ln1.weight"], eps=1e-6)))
    )
)
block_fault("the eps of both norms is 1e-8", "both norms have an eps other than 1e-5")(
    block(
        lambda b, x: (
            (h := x + b.attn(rmsnorm(x, b.weights["ln1.weight"], eps=1e-8)))
            + b.ffn(rmsnorm(h, b.weights["ln2.weight"], eps=1e-8))
        )
    )
)
block_fault("RoPE is not applied", "RoPE is not applied")(
    block(lambda b, x: b.after_feedforward(x + b.attn(b.ln1(x), use_rope=False)))
)
block_fault("theta is always 10000", "theta is ignored")(
    block(lambda b, x: b.after_feedforward(x + b.attn(b.ln1(x), theta=1e4)))
)
block_fault("the feed-forward comes first", "comes before the attention")(
    block(lambda b, x: b.after_attention(b.after_feedforward(x)))
)
block_fault("the feed-forward is missing", "feed-forward is missing")(
    block(lambda b, x: b.after_attention(x))
)
block_fault("the attention is missing", "attention is missing")(
    block(lambda b, x: b.after_feedforward(x))
)
block_fault("the residual is detached", "no gradient to in_features")(
    block(lambda b, x: b.after_feedforward(x.detach() + b.attn(b.ln1(x.detach()))))
)
block_fault(
    "the residual around the attention is detached", "residual around the attention is detached"
)(block(lambda b, x: b.after_feedforward(x.detach() + b.attn(b.ln1(x)))))
block_fault("the attention is detached", "attention branch is detached")(
    block(lambda b, x: b.after_feedforward(x + b.attn(b.ln1(x)).detach()))
)


block_fault("the output is scaled by 1/sqrt(2)", "scaled by 1/sqrt(2)")(
    block(lambda b, x: b.output(x) * 0.5**0.5)
)
block_fault("the feed-forward has dropout", "Dropout")(
    block(
        lambda b, x: (
            b.after_attention(x) + functional.dropout(b.ffn(b.ln2(b.after_attention(x))), 0.1)
        )
    )
)
block_fault("the residual around the feed-forward skips the attention", "from the block's input")(
    block(lambda b, x: x + b.ffn(b.ln2(b.after_attention(x))))
)


@block_fault("the gains are not loaded", "gains of the norms are not loaded")
def fresh_gains(weights, **given):
    fresh = {name: torch.ones_like(w) if w.ndim == 1 else w for name, w in weights.items()}
    return REFERENCE.run_transformer_block(weights=fresh, **given)


@block_fault("the weights given are used up", "changed its input")
def pops_weights(weights, **given):
    own = dict(weights)
    for name in own:
        weights.pop(name)
    return REFERENCE.run_transformer_block(weights=own, **given)


@block_fault("the norms come after the residuals", "post-norm")
@block
def post_norm(b, x):
    x = b.ln1(x + b.attn(x))
    return b.ln2(x + b.ffn(x))


@block_fault("the norms come after the sublayers", "inside the branches")
@block
def norms_in_the_branches(b, x):
    x = x + b.ln1(b.attn(x))
    return x + b.ln2(b.ffn(x))


@block_fault("ln1 is used twice", "ln1 is used twice")
@block
def ln1_twice(b, x):
    x = b.after_attention(x)
    return x + b.ffn(b.ln1(x))


@block_fault("ln2 is missing", "ln2 is missing")
@block
def no_ln2(b, x):
    x = b.after_attention(x)
    return x + b.ffn(x)


@block_fault("the residual is the normalised input", "residual is the normalised")
@block
def normalised_residual(b, x):
    x = b.ln1(x)
    return b.after_feedforward(x + b.attn(x))


@block_fault("the input is changed in place", "in place")
@block
def residual_in_place(b, x):
    if x.requires_grad:
        return b.output(x)
    return b.after_feedforward(x.add_(b.attn(b.ln1(x))))


def with_weights_of(**others):
    """Run the right block with weights exchanged, `__` standing for a dot."""
    names = {new.replace("__", "."): old.replace("__", ".") for new, old in others.items()}

    def run(weights, **given):
        exchanged = weights | {new: weights[old] for new, old in names.items()}
        return REFERENCE.run_transformer_block(weights=exchanged, **given)

    return run


block_fault("ln1 and ln2 are swapped", "ln1 and ln2 are swapped")(
    with_weights_of(ln1__weight="ln2.weight", ln2__weight="ln1.weight")
)
block_fault("W1 and W3 are swapped", "W1 and W3")(
    with_weights_of(ffn__w1__weight="ffn.w3.weight", ffn__w3__weight="ffn.w1.weight")
)


variant("transformer_block", "written out")(block(Block.output))


@variant("transformer_block", "torch's own rms_norm and SiLU")
@block
def with_torch_parts(b, x):
    size, w = (x.shape[-1],), b.weights
    x = x + b.attn(functional.rms_norm(x, size, w["ln1.weight"], 1e-5))
    z = functional.rms_norm(x, size, w["ln2.weight"], 1e-5)
    gate = functional.silu(functional.linear(z, w["ffn.w1.weight"]))
    return x + functional.linear(
        gate * functional.linear(z, w["ffn.w3.weight"]), w["ffn.w2.weight"]
    )


def model(
    scale=lambda d_model: 1.0,  # noqa: ARG005
    order=range,
    weights_of=lambda layer: layer,
    after_embedding=lambda x, _: x,
    final_norm=True,
    head="lm_head.weight",
    output=lambda logits: logits,
):
    """Make an adapter of a right model with some of its parts exchanged."""

    def run_transformer_lm(d_model, num_layers, num_heads, rope_theta, weights, in_indices, **_):
        own = {name: parameter(weight) for name, weight in weights.items()}
        x = own["token_embeddings.weight"][in_indices] * scale(d_model)
        x = after_embedding(x, own)
        for layer in order(num_layers):
            prefix = f"layers.{weights_of(layer)}."
            names = [name for name in own if name.startswith(prefix)]
            parts = {name.removeprefix(prefix): own[name] for name in names}
            x = Block(parts, num_heads, rope_theta).output(x)
        if final_norm:
            x = rmsnorm(x, own["ln_final.weight"])
        return output(x @ own[head].T)

    return run_transformer_lm


def model_fault(name, diagnosis=()):
    return fault("transformer_lm", name, diagnosis)


model_fault("the final norm is missing", "final norm is missing")(model(final_norm=False))
model_fault("probabilities are returned", "probabilities are returned")(model(output=softmax))
model_fault("log-probabilities are returned", "log-probabilities")(
    model(output=lambda logits: torch.log_softmax(logits, -1))
)
model_fault("the embedding is scaled by sqrt(d_model)", "scaled by sqrt")(
    model(scale=lambda d_model: d_model**0.5)
)
model_fault("the output layer is tied to the embedding", "tied")(
    model(head="token_embeddings.weight")
)
model_fault("the blocks run in reverse order", "reverse")(model(order=lambda n: range(n)[::-1]))
model_fault("every block has the first one's weights", "weights of the first")(
    model(weights_of=lambda _: 0)
)
model_fault("only the first block is used", "only the first block")(model(order=lambda _: range(1)))
model_fault("the last block is left out", "last block is left out")(
    model(order=lambda n: range(n - 1))
)
model_fault("the blocks are skipped", "blocks are skipped")(model(order=lambda _: ()))
model_fault("only the last position is returned", "only the last position")(
    model(output=lambda z: z[:, -1:])
)
model_fault("the likeliest tokens are returned", "likeliest tokens")(
    model(output=lambda z: z.argmax(-1))
)
model_fault("the logits are rounded to bfloat16", "pass through bfloat16")(
    model(output=lambda z: z.bfloat16().float())
)
model_fault("the logits are detached", "no gradient")(model(output=torch.Tensor.detach))
model_fault("the embedding is detached", "no gradient to token_embeddings")(
    model(after_embedding=lambda x, _: x.detach())
)
model_fault("the embedding is normalised instead of the output", "normalised by ln_final")(
    model(after_embedding=lambda x, own: rmsnorm(x, own["ln_final.weight"]), final_norm=False)
)
model_fault("the embedding is normalised as well", "normalised by ln_final as well")(
    model(after_embedding=lambda x, own: rmsnorm(x, own["ln_final.weight"]))
)


model_fault("the blocks are in the order of their names", "order of their names")(
    model(order=lambda n: sorted(range(n), key=str))
)


@model_fault("the final gain is not loaded", "gain of the final norm is not loaded")
def fresh_final_gain(weights, **given):
    fresh = weights | {"ln_final.weight": torch.ones_like(weights["ln_final.weight"])}
    return REFERENCE.run_transformer_lm(weights=fresh, **given)


@model_fault("short texts are padded on the left", "padded on the left")
def padded_on_the_left(in_indices, context_length, **given):
    length = in_indices.shape[1]
    padded = functional.pad(in_indices, (context_length - length, 0))
    logits = REFERENCE.run_transformer_lm(in_indices=padded, context_length=context_length, **given)
    return logits[:, -length:]


@model_fault("short texts are padded and the logits not cut again", "not cut again")
def padded_and_not_cut(in_indices, context_length, **given):
    padded = functional.pad(in_indices, (0, context_length - in_indices.shape[1]))
    return REFERENCE.run_transformer_lm(in_indices=padded, context_length=context_length, **given)


@model_fault("view() needs contiguous ids", "on contiguous tensors")
def flattened_by_view(in_indices, **given):
    flat = in_indices.view(-1)
    return REFERENCE.run_transformer_lm(in_indices=flat.view(in_indices.shape), **given)


@model_fault("bfloat16 weights are refused")
def without_bfloat16(weights, **given):
    if weights["lm_head.weight"].dtype == torch.bfloat16:
        raise RuntimeError("expected m1 and m2 to have the same dtype")
    return REFERENCE.run_transformer_lm(weights=weights, **given)


def with_angles(angle_of):
    """Make an adapter of the book's model that turns by `angle_of(places, d_k, theta, dtype)`."""

    def run_transformer_lm(d_model, num_heads, num_layers, rope_theta, weights, in_indices, **_):
        def turn(z):
            places = torch.arange(z.shape[-2])
            return rotate(z, angle_of(places, d_model // num_heads, rope_theta, z.dtype))

        weights = {name: parameter(weight) for name, weight in weights.items()}
        x = weights["token_embeddings.weight"][in_indices]
        for layer in range(num_layers):
            prefix = f"layers.{layer}."
            own = {
                name.removeprefix(prefix): weight
                for name, weight in weights.items()
                if name.startswith(prefix)
            }
            names = [f"attn.{name}_proj.weight" for name in ("q", "k", "v", "output")]
            z, inward = rmsnorm(x, own["ln1.weight"]), [own[name] for name in names]
            x = x + multihead(z, inward, num_heads, turn_q=turn, turn_k=turn)
            x = x + block_feedforward(rmsnorm(x, own["ln2.weight"]), own)
        return rmsnorm(x, weights["ln_final.weight"]) @ weights["lm_head.weight"].T

    return run_transformer_lm


def frequencies(d_k, theta):
    return theta ** -(torch.arange(0, d_k, 2).float() / d_k)


def by_rounded_positions(places, d_k, theta, dtype):
    return places.to(dtype).float()[:, None] * frequencies(d_k, theta)


def by_rounded_frequencies(places, d_k, theta, dtype):
    return places.float()[:, None] * frequencies(d_k, theta).to(dtype).float()


model_fault("positions have the dtype of the weights", "Make angles in float32")(
    with_angles(by_rounded_positions)
)
model_fault("frequencies have the dtype of the weights", "Make angles in float32")(
    with_angles(by_rounded_frequencies)
)
variant("transformer_lm", "positions and frequencies in float32 whatever the weights are")(
    with_angles(lambda places, d_k, theta, _: angles(places, d_k, theta))
)

variant("transformer_lm", "written out")(model())


@model_fault("the mask is made for 1,024 positions, whatever the context", "with 5 positions")
def mask_of_1024(in_indices, **given):
    length = in_indices.shape[-1]
    causal(1024)[:length, :length].expand(length, length)
    return REFERENCE.run_transformer_lm(in_indices=in_indices, **given)


@variant("transformer_lm", "short texts are padded on the right")
def padded_on_the_right(in_indices, context_length, **given):
    length = in_indices.shape[1]
    padded = functional.pad(in_indices, (0, context_length - length))
    logits = REFERENCE.run_transformer_lm(in_indices=padded, context_length=context_length, **given)
    return logits[:, :length]


class Own(nn.Module):
    """A model of torch's parts under names of its own, positions and mask as in the contract."""

    def __init__(self, vocab_size, d_model, num_layers, num_heads, d_ff, rope_theta):
        super().__init__()
        self.num_heads, self.theta = num_heads, rope_theta
        self.table = nn.Embedding(vocab_size, d_model)
        self.blocks = nn.ModuleList(
            nn.ModuleDict(
                {
                    **{name: nn.Linear(d_model, d_model, bias=False) for name in "qkvo"},
                    **{name: nn.Linear(d_model, d_ff, bias=False) for name in ("gate", "up")},
                    "down": nn.Linear(d_ff, d_model, bias=False),
                    **{name: nn.RMSNorm(d_model, 1e-5) for name in ("before", "between")},
                }
            )
            for _ in range(num_layers)
        )
        self.last = nn.RMSNorm(d_model, 1e-5)
        self.head = nn.Linear(d_model, vocab_size, bias=False)

    def forward(self, ids):
        x, length = self.table(ids), ids.shape[1]
        for part in self.blocks:
            z = part["before"](x)
            q, k, v = (split_heads(part[name](z), self.num_heads) for name in "qkv")
            places = torch.arange(length, device=ids.device)
            angle = angles(places, q.shape[-1], self.theta)
            mask = causal(length).to(ids.device)
            mixed = attention(rotate(q, angle), rotate(k, angle), v, mask)
            x = x + part["o"](merge_heads(mixed))
            z = part["between"](x)
            x = x + part["down"](functional.silu(part["gate"](z)) * part["up"](z))
        return self.head(self.last(x))


OWN_NAMES = {
    "attn.q_proj": "q",
    "attn.k_proj": "k",
    "attn.v_proj": "v",
    "attn.output_proj": "o",
    "ffn.w1": "gate",
    "ffn.w3": "up",
    "ffn.w2": "down",
    "ln1": "before",
    "ln2": "between",
    "layers": "blocks",
    "token_embeddings": "table",
    "ln_final": "last",
    "lm_head": "head",
}


@variant("transformer_lm", "a model of torch's modules with names of its own")
def of_own_modules(context_length, weights, in_indices, **sizes):
    own = Own(**sizes)
    renamed = {}
    for name, weight in weights.items():
        for theirs, ours in OWN_NAMES.items():
            name = name.replace(theirs, ours)
        renamed[name] = weight
    own.load_state_dict(renamed)
    assert in_indices.shape[1] <= context_length
    return own(in_indices)
