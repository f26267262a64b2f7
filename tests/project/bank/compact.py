# ruff: noqa  # The style of somebody else is the point of this file.
"""The assignment in one file of plain functions: no modules, no einsum, no einops.

Weights are arguments, heads are split by unflatten and swapaxes, the vocabulary is kept as two
dictionaries, and training counts words as tuples of ids. Faults are planted here as well as in
implementations made of classes, so that no explanation is fitted to one way of writing.
"""

import math
import os
from collections import Counter, defaultdict

import numpy as np
import regex
import torch

WORD = regex.compile(r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")


# --- functions and layers ---


def run_linear(d_in, d_out, weights, in_features):
    return torch.matmul(in_features, weights.mT)


def run_embedding(vocab_size, d_model, weights, token_ids):
    if token_ids.numel() and int(token_ids.max()) >= vocab_size:
        raise IndexError(f"id {int(token_ids.max())} of {vocab_size}")
    return weights[token_ids]


def run_silu(in_features):
    opened = torch.sigmoid(in_features)
    return in_features * opened


def run_swiglu(d_model, d_ff, w1_weight, w2_weight, w3_weight, in_features):
    a = run_silu(in_features @ w1_weight.mT)
    content = in_features @ w3_weight.mT
    hidden = a * content
    return hidden @ w2_weight.mT


def at_least_float32(t):
    return t.to(torch.float32) if t.dtype in (torch.float16, torch.bfloat16) else t


def run_rmsnorm(d_model, eps, weights, in_features):
    h = at_least_float32(in_features)
    power = (h * h).mean(dim=-1, keepdim=True)
    scale = torch.rsqrt(power + eps)
    return (h * scale * weights.to(h.dtype)).type_as(in_features)


def run_softmax(in_features, dim):
    h = at_least_float32(in_features)
    peak = h.detach().amax(dim=dim, keepdim=True) if h.numel() else 0
    powers = torch.exp(h - peak)
    total = powers.sum(dim=dim, keepdim=True)
    return (powers / total).type_as(in_features)


def run_cross_entropy(inputs, targets):
    logits = at_least_float32(inputs).flatten(0, -2) if inputs.ndim > 1 else inputs[None]
    chosen = targets.flatten()
    peak = logits.detach().amax(dim=-1, keepdim=True)
    shifted = logits - peak
    log_total = shifted.exp().sum(dim=-1).log()
    picked = shifted[torch.arange(len(chosen)), chosen]
    return (log_total - picked).mean()


# --- attention ---


def run_scaled_dot_product_attention(Q, K, V, mask=None):
    affinity = Q @ K.mT / math.sqrt(K.size(-1))
    if mask is not None:
        affinity = affinity.masked_fill(mask.logical_not(), -math.inf)
        nothing = mask.any(-1, keepdim=True).logical_not()
        affinity = affinity.masked_fill(nothing, 0.0)
    share = run_softmax(affinity, -1)
    return share @ V


def run_rope(d_k, theta, max_seq_len, in_query_or_key, token_positions):
    if d_k % 2:
        raise ValueError(f"d_k={d_k} is odd")
    index = torch.arange(d_k // 2, dtype=torch.float32)
    frequency = theta ** (-2 * index / d_k)
    turn = token_positions.unsqueeze(-1) * frequency
    c, s = turn.cos(), turn.sin()
    x = at_least_float32(in_query_or_key)
    a, b = x[..., ::2], x[..., 1::2]
    out = torch.empty_like(x)
    out[..., ::2] = a * c - b * s
    out[..., 1::2] = a * s + b * c
    return out.type_as(in_query_or_key)


def split(z, count):
    return z.unflatten(-1, (count, z.size(-1) // count)).transpose(-2, -3)


def join(z):
    return z.transpose(-2, -3).flatten(-2)


def lower_triangle(n):
    places = torch.arange(n)
    return places.unsqueeze(1) >= places


def attend(x, count, wq, wk, wv, wo, rotate=None):
    if x.size(-1) % count:
        raise ValueError(f"{count} heads do not divide {x.size(-1)}")
    q, k, v = split(x @ wq.mT, count), split(x @ wk.mT, count), split(x @ wv.mT, count)
    if rotate is not None:
        q, k = rotate(q), rotate(k)
    seen = lower_triangle(x.size(-2))
    mixed = run_scaled_dot_product_attention(q, k, v, seen)
    return join(mixed) @ wo.mT


def run_multihead_self_attention(
    d_model, num_heads, q_proj_weight, k_proj_weight, v_proj_weight, o_proj_weight, in_features
):
    return attend(
        in_features, num_heads, q_proj_weight, k_proj_weight, v_proj_weight, o_proj_weight
    )


def run_multihead_self_attention_with_rope(
    d_model,
    num_heads,
    max_seq_len,
    theta,
    q_proj_weight,
    k_proj_weight,
    v_proj_weight,
    o_proj_weight,
    in_features,
    token_positions=None,
):
    if token_positions is None:
        token_positions = torch.arange(in_features.size(-2))
    places = token_positions.unsqueeze(-2)
    return attend(
        in_features,
        num_heads,
        q_proj_weight,
        k_proj_weight,
        v_proj_weight,
        o_proj_weight,
        lambda z: run_rope(d_model // num_heads, theta, max_seq_len, z, places),
    )


# --- block and model ---


def run_transformer_block(d_model, num_heads, d_ff, max_seq_len, theta, weights, in_features):
    def attention(h):
        own = [weights[f"attn.{name}_proj.weight"] for name in ("q", "k", "v", "output")]
        return run_multihead_self_attention_with_rope(
            d_model, num_heads, max_seq_len, theta, *own, h
        )

    def feed_forward(h):
        w1, w2, w3 = (weights[f"ffn.w{i}.weight"] for i in (1, 2, 3))
        return run_swiglu(d_model, d_ff, w1, w2, w3, h)

    stream = in_features
    read = run_rmsnorm(d_model, 1e-5, weights["ln1.weight"], stream)
    stream = stream + attention(read)
    read = run_rmsnorm(d_model, 1e-5, weights["ln2.weight"], stream)
    stream = stream + feed_forward(read)
    return stream


def run_transformer_lm(
    vocab_size,
    context_length,
    d_model,
    num_layers,
    num_heads,
    d_ff,
    rope_theta,
    weights,
    in_indices,
):
    stream = run_embedding(vocab_size, d_model, weights["token_embeddings.weight"], in_indices)
    for number in range(num_layers):
        start = f"layers.{number}."
        own = {key[len(start) :]: w for key, w in weights.items() if key.startswith(start)}
        stream = run_transformer_block(
            d_model, num_heads, d_ff, context_length, rope_theta, own, stream
        )
    stream = run_rmsnorm(d_model, 1e-5, weights["ln_final.weight"], stream)
    return stream @ weights["lm_head.weight"].mT


# --- training ---


class Adam(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay))

    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        with torch.no_grad():
            for options in self.param_groups:
                for w in options["params"]:
                    if w.grad is not None:
                        self.move(w, w.grad, options)
        return loss

    def move(self, w, g, options):
        kept = self.state[w]
        if not kept:
            kept["n"], kept["first"], kept["second"] = 0, w * 0, w * 0
        kept["n"] += 1
        b1, b2 = options["betas"]
        rate = options["lr"]
        kept["first"] = kept["first"] * b1 + g * (1 - b1)
        kept["second"] = kept["second"] * b2 + g * g * (1 - b2)
        first = kept["first"] / (1 - b1 ** kept["n"])
        second = kept["second"] / (1 - b2 ** kept["n"])
        w -= rate * options["weight_decay"] * w
        w -= rate * first / (second.sqrt() + options["eps"])


def get_adamw_cls():
    return Adam


def run_gradient_clipping(parameters, max_l2_norm):
    found = [w.grad for w in parameters if w.grad is not None]
    if not found:
        return
    length = math.sqrt(sum(float((g.double() ** 2).sum()) for g in found))
    if length > max_l2_norm:
        for g in found:
            g *= max_l2_norm / (length + 1e-6)


def run_get_lr_cosine_schedule(
    it, max_learning_rate, min_learning_rate, warmup_iters, cosine_cycle_iters
):
    if it < warmup_iters:
        return max_learning_rate * (it / warmup_iters)
    if it >= cosine_cycle_iters:
        return min_learning_rate
    done = (it - warmup_iters) / (cosine_cycle_iters - warmup_iters)
    height = (1 + math.cos(done * math.pi)) / 2
    return min_learning_rate + height * (max_learning_rate - min_learning_rate)


def run_get_batch(dataset, batch_size, context_length, device):
    room = len(dataset) - context_length
    starts = np.random.randint(0, room, batch_size)
    rows = np.stack([dataset[s : s + context_length + 1] for s in starts]).astype(np.int64)
    both = torch.from_numpy(rows).to(device)
    return both[:, :-1], both[:, 1:]


def run_save_checkpoint(model, optimizer, iteration, out):
    torch.save({"m": model.state_dict(), "o": optimizer.state_dict(), "i": iteration}, out)


def run_load_checkpoint(src, model, optimizer):
    held = torch.load(src, weights_only=True)
    model.load_state_dict(held["m"])
    optimizer.load_state_dict(held["o"])
    return held["i"]


# --- text ---


def pieces(text, specials):
    """Yield a text's pieces, and whether each is a special token."""
    longest_first = sorted(specials, key=len, reverse=True)
    if not longest_first:
        yield text, False
        return
    wall = regex.compile("|".join(regex.escape(s) for s in longest_first))
    end = 0
    for found in wall.finditer(text):
        yield text[end : found.start()], False
        yield found.group(), True
        end = found.end()
    yield text[end:], False


def run_train_bpe(input_path, vocab_size, special_tokens, **kwargs):
    with open(os.fspath(input_path), "rb") as file:
        text = file.read().decode("utf-8", "surrogateescape")
    words = Counter()
    for piece, is_special in pieces(text, special_tokens):
        if not is_special:
            words.update(WORD.findall(piece))
    tokens = [bytes([i]) for i in range(256)]
    content = [list(word.encode("utf-8", "surrogateescape")) for word in words]
    weight = list(words.values())
    counts, where = Counter(), defaultdict(set)
    for number, ids in enumerate(content):
        for pair in zip(ids, ids[1:]):
            counts[pair] += weight[number]
            where[pair].add(number)
    merges = []
    while len(tokens) + len(special_tokens) < vocab_size:
        if not counts:
            break
        best = max(counts, key=lambda p: (counts[p], tokens[p[0]], tokens[p[1]]))
        new = len(tokens)
        merges.append((tokens[best[0]], tokens[best[1]]))
        tokens.append(tokens[best[0]] + tokens[best[1]])
        for number in where.pop(best):
            ids = content[number]
            for pair in zip(ids, ids[1:]):
                counts[pair] -= weight[number]
                if counts[pair] <= 0:
                    del counts[pair]
            ids = content[number] = replaced(ids, best, new)
            for pair in zip(ids, ids[1:]):
                counts[pair] += weight[number]
                where[pair].add(number)
    vocab = dict(enumerate(tokens))
    for special in special_tokens:
        vocab[len(vocab)] = special.encode()
    return vocab, merges


def replaced(ids, pair, new):
    out, i = [], 0
    while i < len(ids):
        if i + 1 < len(ids) and (ids[i], ids[i + 1]) == pair:
            out.append(new)
            i += 2
        else:
            out.append(ids[i])
            i += 1
    return out


class Codec:
    def __init__(self, vocab, merges, special_tokens=None):
        self.text_of = dict(vocab)
        self.specials = list(special_tokens or [])
        known = set(self.text_of.values())
        for special in self.specials:
            if special.encode() not in known:
                self.text_of[max(self.text_of) + 1] = special.encode()
                known.add(special.encode())
        self.id_of = {piece: number for number, piece in self.text_of.items()}
        self.rank = {}
        for place, (left, right) in enumerate(merges):
            self.rank.setdefault((left, right), place)

    def encode(self, text):
        ids = []
        for piece, is_special in pieces(text, self.specials):
            if is_special:
                ids.append(self.id_of[piece.encode()])
            else:
                for word in WORD.findall(piece):
                    ids.extend(self.word(word))
        return ids

    def word(self, word):
        parts = [bytes([b]) for b in word.encode()]
        while len(parts) > 1:
            ranks = [self.rank.get(pair, math.inf) for pair in zip(parts, parts[1:])]
            least = min(ranks)
            if least == math.inf:
                break
            i = ranks.index(least)
            parts[i : i + 2] = [parts[i] + parts[i + 1]]
        return [self.id_of[part] for part in parts]

    def encode_iterable(self, iterable):
        rest = ""
        for chunk in iterable:
            rest += chunk
            ready = self.certain(rest)
            yield from self.encode(rest[:ready])
            rest = rest[ready:]
        yield from self.encode(rest)

    def certain(self, text):
        """How much of a text will be encoded in the same way whatever follows."""
        margin = max([len(s) for s in self.specials], default=0)
        safe, place = 0, 0
        for piece, is_special in pieces(text, self.specials):
            if is_special:
                place += len(piece)
                if place + margin <= len(text):
                    safe = place
                continue
            start = place
            for found in WORD.finditer(piece):
                # A word that ends well before the text does, white space before it included.
                if start + found.end() + margin + 3 < len(text) and not found.group().isspace():
                    safe = start + found.end()
            place += len(piece)
        return safe

    def decode(self, ids):
        return b"".join(self.text_of[number] for number in ids).decode("utf-8", "replace")


def get_tokenizer(vocab, merges, special_tokens=None):
    return Codec(vocab, merges, special_tokens)
