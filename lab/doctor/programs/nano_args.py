import argparse
import math

import torch
import torch.nn.functional as F
from torch import nn

from cs_basics.study.doctor import Doctor

parser = argparse.ArgumentParser()
parser.add_argument("--max_iters", type=int, default=60)
args = parser.parse_args()
batch_size, block_size, n_embd, grad_accum, max_lr = 8, 32, 48, 2, 6e-3

torch.manual_seed(1337)
text = open("sentences.txt").read()
chars = sorted(set(text))
data = torch.tensor([chars.index(c) for c in text])
train_data, val_data = data[:-4000], data[-4000:]


def get_batch(data):
    ix = torch.randint(len(data) - block_size, (batch_size,))
    x = torch.stack([data[i : i + block_size] for i in ix])
    y = torch.stack([data[i + 1 : i + 1 + block_size] for i in ix])
    return x, y


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(n_embd), nn.LayerNorm(n_embd)
        self.c_attn = nn.Linear(n_embd, 3 * n_embd, bias=False)
        self.c_proj = nn.Linear(n_embd, n_embd, bias=False)
        self.fc, self.proj = nn.Linear(n_embd, 4 * n_embd), nn.Linear(4 * n_embd, n_embd)
        self.drop = nn.Dropout(0.1)

    def attend(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).view(B, T, 3, 4, -1).permute(2, 0, 3, 1, 4)
        att = (q @ k.transpose(-2, -1)) / math.sqrt(k.size(-1))
        mask = torch.tril(torch.ones(T, T))
        att = att.masked_fill(mask == 0, float("-inf"))
        att = F.softmax(att, dim=-1)
        y = (att @ v).transpose(1, 2).reshape(B, T, C)
        return self.c_proj(y)

    def forward(self, x):
        x = x + self.drop(self.attend(self.ln_1(x)))
        x = x + self.drop(self.proj(F.gelu(self.fc(self.ln_2(x)))))
        return x


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(len(chars), n_embd), nn.Embedding(block_size, n_embd)
        self.h = nn.ModuleList([Block(), Block()])
        self.ln_f = nn.LayerNorm(n_embd)
        self.lm_head = nn.Linear(n_embd, len(chars), bias=False)
        for p in self.parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=0.02)
        self.lm_head.weight = self.wte.weight

    def forward(self, idx):
        x = self.wte(idx) + self.wpe(torch.arange(idx.size(1)))
        for block in self.h:
            x = block(x)
        return self.lm_head(self.ln_f(x))


def get_lr(it):
    warm = min((it + 1) / 5, 1.0)
    return max_lr * warm * (0.55 + 0.45 * math.cos(math.pi * it / args.max_iters))


def loss_of(model, batch):
    x, y = batch
    logits = model(x)
    return F.cross_entropy(logits.view(-1, logits.size(-1)), y.view(-1))


@torch.no_grad()
def estimate_loss():
    model.eval()
    loss = loss_of(model, get_batch(val_data)).item()
    model.train()
    return loss


model = GPT()
optimizer = torch.optim.AdamW(model.parameters(), lr=max_lr, betas=(0.9, 0.95), weight_decay=0.1)
batches = iter(lambda: get_batch(train_data), None)
doctor = Doctor(
    *(model, loss_of, optimizer, batches),
    tokens=train_data,
    evaluate=estimate_loss,
    clip=1.0,
    accumulate=grad_accum,
    schedule=lambda update: get_lr(update - 1),
)
loss_of, batches = doctor.loss_of, doctor.batches
for it in range(args.max_iters):
    for group in optimizer.param_groups:
        group["lr"] = get_lr(it)
    if it % 20 == 0:
        print(f"val {estimate_loss():.4f}")
    lossf = 0.0
    for _ in range(grad_accum):
        loss = loss_of(model, next(batches)) / grad_accum
        loss.backward()
        lossf += loss.item()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    print(f"iter {it}: loss {lossf:.4f} norm {norm:.4f}")
doctor.report()
