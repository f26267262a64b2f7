from types import SimpleNamespace

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader

from cs_basics.study.doctor import Doctor

torch.manual_seed(42)
sentences = open("sentences.txt").read().splitlines()
vocab = ["<pad>", "<eos>", *sorted(set(" ".join(sentences).split()))]
examples = [[vocab.index(w) for w in [*line.split(), "<eos>"]] for line in sentences]


def collate(examples):
    longest = max(map(len, examples))
    input_ids = torch.tensor([e + [0] * (longest - len(e)) for e in examples])
    labels = input_ids.masked_fill(input_ids == 0, -100)
    return {"input_ids": input_ids, "labels": labels}


def rotate(x):
    angles = torch.arange(x.size(-2))[:, None] * torch.tensor([1.0, 0.4, 0.2, 0.1, 0.05])
    a, b = x.chunk(2, dim=-1)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)


class DecoderLayer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(2 * dim, dim)
        self.attn_norm, self.mlp_norm = nn.RMSNorm(dim), nn.RMSNorm(dim)

    def forward(self, hidden):
        x = self.qkv(self.attn_norm(hidden)).unflatten(-1, (4, -1)).transpose(1, 2)
        q, k, v = x.chunk(3, dim=-1)
        q, k = rotate(q), rotate(k)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        hidden = hidden + self.out(attended.transpose(1, 2).flatten(2))
        return hidden + self.down(F.glu(self.up(self.mlp_norm(hidden))))


class CausalLM(nn.Module):
    def __init__(self, dim=40):
        super().__init__()
        self.embed_tokens = nn.Embedding(len(vocab), dim)
        self.layers = nn.Sequential(DecoderLayer(dim), DecoderLayer(dim))
        self.norm = nn.RMSNorm(dim)
        self.lm_head = nn.Linear(dim, len(vocab), bias=False)

    def forward(self, input_ids):
        hidden = self.layers(self.embed_tokens(input_ids))
        return SimpleNamespace(logits=self.lm_head(self.norm(hidden)))


class Trainer:
    max_steps, batch_size, learning_rate = 60, 16, 5e-3

    def __init__(self, model, examples):
        self.model = model
        self.train_set, self.eval_set = examples[:-200], examples[-200:]
        self.optimizer = torch.optim.Adam(model.parameters(), lr=self.learning_rate)
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(self.optimizer, self.multiplier)

    def multiplier(self, step):
        return min((step + 1) / 5, (5 / (step + 1)) ** 0.5)

    def batches(self):
        while True:
            yield from DataLoader(self.train_set, self.batch_size, True, collate_fn=collate)

    def compute_loss(self, model, batch):
        logits = model(batch["input_ids"]).logits[:, :-1]
        labels = batch["labels"][:, 1:]
        return F.cross_entropy(logits.transpose(1, 2), labels, ignore_index=-100)

    @torch.no_grad()
    def evaluate(self):
        return self.compute_loss(self.model, collate(self.eval_set)).item()

    def train(self):
        doctor = Doctor(
            *(self.model, self.compute_loss, self.optimizer, self.batches()),
            schedule=lambda update: self.learning_rate * self.multiplier(update - 1),
            evaluate=self.evaluate,
            clip=1.0,
        )
        for step in range(1, self.max_steps + 1):
            self.optimizer.zero_grad()
            loss = doctor.loss_of(self.model, next(doctor.batches))
            loss.backward()
            norm = nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            self.scheduler.step()
            print(f"{step=} loss {loss.item():.4f} norm {norm:.4f}")
            if step % 30 == 0:
                print(f"eval {self.evaluate():.4f}")
        return doctor.report()


Trainer(CausalLM(), examples).train()
