"""For each problem something that solves it, under another name and in another wording.

None of these lines is the reference's: only by calling it can one tell.
"""

ATTENTION = """
def blend(h, a, b, c, d, parts{more}):
    import torch
    n, width = h.shape[-2], h.shape[-1] // parts
    cut = lambda m: (h @ m.T).unflatten(-1, (parts, width)).transpose(-3, -2)
    left, right, held = cut(a), cut(b), cut(c)
    {turn}
    table = torch.einsum("...id,...jd->...ij", left, right) * width**-0.5
    table = table + torch.full((n, n), float("-inf")).triu(1)
    table = table.exp() / table.exp().sum(-1, keepdim=True)
    return (table @ held).transpose(-3, -2).flatten(-2) @ d.T
"""
TURN = """
def swing(u, where, base):
    import torch
    w = u.shape[-1] // 2
    angle = where[..., None] * base ** (-torch.arange(w) / w)
    z = torch.view_as_complex(u.unflatten(-1, (w, 2)).contiguous())
    return torch.view_as_real(z * torch.polar(torch.ones_like(angle), angle)).flatten(-2)
"""
SCALED = """
def evened(u, gains, tiny=1e-5):
    return gains * u / (u.pow(2).mean(-1, keepdim=True) + tiny).pow(0.5)
"""
GATED = """
def gate(u, one, two, three):
    opened = u @ one.T
    return (opened / (1 + (-opened).exp()) * (u @ three.T)) @ two.T
"""
TURNED = TURN + ATTENTION.format(
    more=", base",
    turn="at = torch.arange(n); left, right = swing(left, at, base), swing(right, at, base)",
)
BLOCK = TURNED + SCALED + GATED + """
def layer(h, w, parts, base):
    four = [w[f"attn.{s}_proj.weight"] for s in ("q", "k", "v", "output")]
    h = h + blend(evened(h, w["ln1.weight"]), *four, parts, base)
    three = [w[f"ffn.w{i}.weight"] for i in (1, 2, 3)]
    return h + gate(evened(h, w["ln2.weight"]), *three)
"""  # fmt: skip
SPLIT = """
import regex
from cs_basics.pretokenize import PRETOKEN

def shards(line):
    pattern = PRETOKEN.pattern
    return [[bytes([b]) for b in shard.encode()] for shard in regex.findall(pattern, line)]

def glue(shard, two):
    i = 0
    while i + 1 < len(shard):
        if (shard[i], shard[i + 1]) == two:
            shard[i : i + 2] = [two[0] + two[1]]
        i += 1
"""

TWINS = {
    "silu": "def bend(u): return u / (1 + (-u).exp())",
    "softmax": "def shares(u, axis): return u.exp() / u.exp().sum(axis, keepdim=True)",
    "cross_entropy": """
def surprise(table, chosen):
    return (table.logsumexp(-1) - table[range(len(chosen)), chosen]).sum() / len(chosen)
""",
    "scaled_dot_product_attention": """
def look(q, k, v, seen):
    table = (q @ k.mT * q.shape[-1] ** -0.5).exp() * seen
    return table @ v / table.sum(-1, keepdim=True)
""",
    "linear": "def project(u, m): return (m @ u.unsqueeze(-1)).squeeze(-1)",
    "embedding": "def rows(numbers, table): return table.index_select(0, numbers.flatten())"
    ".view(*numbers.shape, -1)",
    "rmsnorm": SCALED,
    "positionwise_feedforward": GATED,
    "rope": TURN,
    "multihead_self_attention": ATTENTION.format(more="", turn="pass"),
    "multihead_self_attention_with_rope": TURNED,
    "transformer_block": BLOCK,
    "transformer_lm": BLOCK
    + """
def predict(numbers, w, depth, parts, base):
    h = w["token_embeddings.weight"][numbers]
    for i in range(depth):
        own = {k.removeprefix(f"layers.{i}."): x for k, x in w.items() if f"layers.{i}." in k}
        h = layer(h, own, parts, base)
    return evened(h, w["ln_final.weight"]) @ w["lm_head.weight"].T
""",
    "learning_rate_schedule": """
import math

def pace(t, top, low, first, last):
    if t < first:
        return top * t / first
    turn = min(1.0, (t - first) / (last - first))
    return low + (top - low) * math.cos(turn * math.pi / 2) ** 2
""",
    "adamw": """
def moved(w, g, a, b, k1, k2, rate, tiny, shrink):
    a = a.lerp(g, 1 - k1)
    b = b * k2 + g.square() * (1 - k2)
    return w * shrink - a * rate / (b**0.5 + tiny)
""",
    "gradient_clipping": """
def tame(weights, most):
    total = sum(float((w.grad**2).sum()) for w in weights) ** 0.5
    for w in weights:
        w.grad /= max(1.0, total / most)
""",
    "data_loading": """
import numpy as np
import torch

def pages(book, many, long, where):
    at = np.random.randint(0, len(book) - long, many)
    pick = lambda shift: torch.tensor(np.stack([book[i + shift : i + shift + long] for i in at]))
    return pick(0).to(where), pick(1).to(where)
""",
    "checkpointing": """
import torch

def keep(net, mover, count, place):
    torch.save([net.state_dict(), mover.state_dict(), count], place)
""",
    "tokenizer": SPLIT
    + """
def cut(line, pairs):
    done = []
    for shard in shards(line):
        for two in pairs:
            glue(shard, two)
        done += shard
    return done
""",
    "train_bpe": SPLIT
    + """
from collections import Counter

def learn(line, many):
    parts, found = shards(line), []
    for _ in range(many):
        tally = Counter(two for shard in parts for two in zip(shard, shard[1:]))
        if not tally:
            break
        found.append(max(tally, key=lambda two: (tally[two], two)))
        for shard in parts:
            glue(shard, found[-1])
    return found
""",
}

TOLD_THE_NORM = """
def shrink(weights, length: float, most: float):
    for w in weights:
        w.grad.div_(max(1.0, length / most))
"""
OPTIMIZER = """
import torch

class Mover(torch.optim.Optimizer):
    def __init__(self, params, lr, betas=(0.8, 0.9), eps=1e-8, weight_decay=0.1):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for g in self.param_groups:
            for w in g["params"]:
                s = self.state.setdefault(w, {}) or self.state[w]
                n = s["n"] = s.get("n", 0) + 1
                for power, k in enumerate(g["betas"], start=1):
                    s[k] = s.get(k, 0) * k + (1 - k) * w.grad**power
                a, b = (s[k] / (1 - k**n) for k in g["betas"])
                w -= g["lr"] * (a / (b.sqrt() + g["eps"]) + g["weight_decay"] * w)
"""
"""The optimizer as a class, beside the rule as a function."""
