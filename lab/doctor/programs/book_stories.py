"""The book's model and loop on the characters of the embedded stories."""

from itertools import islice

import numpy as np
import torch

from cs_basics.data import get_batch
from cs_basics.functional import cross_entropy
from cs_basics.optim import AdamW, clip_grad_norm, cosine_schedule
from cs_basics.stories.grammar import iterate_stories
from cs_basics.study.doctor import Doctor
from cs_basics.transformer import TransformerLM

UPDATES, BATCH, CONTEXT = 60, 16, 48
torch.manual_seed(0)
text = "\n".join(islice(iterate_stories(0), 40))
chars = sorted(set(text))
ids = {char: number for number, char in enumerate(chars)}
data = np.array([ids[char] for char in text], dtype=np.uint16)
cut = len(data) * 9 // 10
train_data, val_data = data[:cut], data[cut:]


def make():
    model = TransformerLM(len(chars), CONTEXT, d_model=48, num_layers=2, num_heads=4, d_ff=96)
    optimizer = AdamW(model.parameters(), lr=0.01, betas=(0.9, 0.99), weight_decay=0.1)
    return model, optimizer


def lr_at(update):
    return cosine_schedule(update, 0.01, 0.001, warmup_steps=6, cycle_steps=UPDATES)


def batches_of(data):
    while True:
        yield get_batch(data, BATCH, CONTEXT, "cpu")


def loss_of(model, batch):
    inputs, targets = batch
    return cross_entropy(model(inputs), targets)


def evaluate():
    model.eval()
    with torch.no_grad():
        windows = torch.from_numpy(val_data[: 8 * (CONTEXT + 1)].astype(np.int64)).view(8, -1)
        loss = loss_of(model, (windows[:, :-1], windows[:, 1:])).item()
    model.train()
    return loss


model, optimizer = make()
batches, updates = batches_of(train_data), 0
doctor = Doctor(
    *(model, loss_of, optimizer, batches),
    tokens=torch.from_numpy(train_data.astype(np.int64)),
    evaluate=evaluate,
    schedule=lr_at,
    clip=1.0,
)
loss_of, batches = doctor.loss_of, doctor.batches
for update in range(1, UPDATES + 1):
    optimizer.zero_grad()
    loss = loss_of(model, next(batches))
    loss.backward()
    norm = clip_grad_norm(model.parameters(), 1.0)
    for group in optimizer.param_groups:
        group["lr"] = lr_at(update)
    optimizer.step()
    updates = update
    print(f"update {update} loss {loss.item():.4f} norm {norm.item():.4f}")
    if update % 20 == 0:
        print(f"validation {evaluate():.4f}")
doctor.report()
