"""torchrun --nproc_per_node 2 ddp_gloo.py; plain python runs one process."""

import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from cs_basics.study.doctor import Doctor

rank, world_size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
if world_size > 1:
    dist.init_process_group("gloo")
STEPS, BATCH, SEQ, LR = 50, 8, 32, 4e-3
corpus = torch.tensor(list(open("sums.txt", "rb").read()))
train, held_out = corpus[:-1921], corpus[-1921:]


class Model(nn.Module):
    def __init__(self, dim=48):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(256, dim), nn.Embedding(SEQ, dim)
        layer = nn.TransformerEncoderLayer(dim, 4, 96, 0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, nn.LayerNorm(dim), False)
        self.head = nn.Linear(dim, 256, bias=False)

    def forward(self, ids):
        x = self.tokens(ids) + 0.1 * self.positions.weight[: ids.size(1)]
        mask = nn.Transformer.generate_square_subsequent_mask(ids.size(1))
        return self.head(self.layers(x, mask=mask))


def batches():
    generator = torch.Generator().manual_seed(100 + rank)
    while True:
        starts = torch.randint(len(train) - SEQ, (BATCH, 1), generator=generator)
        windows = train[starts + torch.arange(SEQ + 1)]
        yield windows[:, :-1], windows[:, 1:]


def loss_of(model, batch):
    inputs, targets = batch
    return F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())


def multiplier(update):
    return min((update + 1) / 5, 1 - update / STEPS)


@torch.no_grad()
def validate():
    rows = held_out[:-1].view(60, SEQ), held_out[1:].view(60, SEQ)
    return loss_of(net, rows).item()


torch.manual_seed(5)
net = Model()
model = nn.parallel.DistributedDataParallel(net) if world_size > 1 else net
optimizer = torch.optim.AdamW(model.parameters(), lr=LR, weight_decay=0.05)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, multiplier)
doctor = Doctor(
    *(model, loss_of, optimizer, batches()),
    tokens=train,
    evaluate=validate,
    schedule=lambda update: LR * multiplier(update - 1),
    clip=1.0,
    rank=rank,
    world_size=world_size,
)
loss_of, stream = doctor.loss_of, doctor.batches
for step in range(STEPS):
    optimizer.zero_grad()
    loss = loss_of(model, next(stream))
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    scheduler.step()
    if rank == 0:
        print(f"step {step} loss {loss.item():.4f} norm {norm:.4f}")
print(f"held out {validate():.4f}")
doctor.report()
