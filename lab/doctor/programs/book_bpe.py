"""The book's tokenizer and blocks in a tied model; micro-batches from a file of tokens."""

from itertools import islice
from pathlib import Path

import numpy as np
import torch
from torch import nn

from cs_basics.bpe import train_bpe
from cs_basics.functional import cross_entropy
from cs_basics.layers import Embedding
from cs_basics.norms import RMSNorm
from cs_basics.optim import AdamW, clip_grad_norm
from cs_basics.rope import RotaryPositionalEmbedding
from cs_basics.stories.grammar import iterate_stories
from cs_basics.study.doctor import Doctor
from cs_basics.tokenizer import Tokenizer
from cs_basics.transformer import TransformerBlock

torch.manual_seed(1)
text = "\n".join(islice(iterate_stories(1), 60))
Path("text.txt").write_text(text)
tokenizer = Tokenizer(*train_bpe("text.txt", 320, []))
np.array(tokenizer.encode(text), dtype=np.uint16).tofile("tokens.bin")
data = np.memmap("tokens.bin", dtype=np.uint16, mode="r")
context, micro, rate, planned = 32, 2, 0.01, 60


class TiedLM(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.embedding = Embedding(tokenizer.vocab_size, width)
        nn.init.normal_(self.embedding.weight, std=0.1)
        rope = RotaryPositionalEmbedding(10000.0, width // 4, context)
        self.blocks = nn.ModuleList(TransformerBlock(width, 4, 96, rope) for _ in range(2))
        self.norm = RMSNorm(width)

    def forward(self, token_ids):
        x = self.embedding(token_ids) * 10
        for block in self.blocks:
            x = block(x)
        return self.norm(x) @ self.embedding.weight.T


def make():
    model = TiedLM()
    matrices = [p for p in model.parameters() if p.ndim > 1]
    gains = [p for p in model.parameters() if p.ndim == 1]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": gains, "weight_decay": 0.0}]
    return model, AdamW(groups, lr=rate, betas=(0.9, 0.95))


def cut(starts):
    windows = np.stack([data[start : start + context + 1] for start in starts]).astype(np.int64)
    return torch.from_numpy(windows[:, :-1]), torch.from_numpy(windows[:, 1:])


def draw():
    generator = np.random.default_rng(0)
    while True:
        yield cut(generator.integers(0, len(data) - 1000 - context, size=8))


def loss_of(model, batch):
    return cross_entropy(model(batch[0]), batch[1])


def schedule(update):
    return rate * min(1.0, update / 8)


@torch.no_grad()
def evaluate():
    return loss_of(model, cut(range(len(data) - 1000, len(data) - context, context))).item()


model, optimizer = make()
doctor = Doctor(
    *(model, loss_of, optimizer, draw()),
    tokens=torch.from_numpy(data[:-1000].astype(np.int64)),
    evaluate=evaluate,
    schedule=schedule,
    clip=1.0,
    accumulate=micro,
)
for update in range(1, planned + 1):
    for group in optimizer.param_groups:
        group["lr"] = schedule(update)
    model.zero_grad()
    total = 0.0
    for _ in range(micro):
        loss = doctor.loss_of(model, next(doctor.batches)) / micro
        loss.backward()
        total += loss.item()
    norm = clip_grad_norm(model.parameters(), 1.0)
    optimizer.step()
    print(f"update {update} loss {total:.4f} norm {norm.item():.4f}")
print(f"validation {evaluate():.4f}")
doctor.report()
