# %% My first transformer
import torch
import torch.nn as nn
import torch.nn.functional as F

from cs_basics.study.doctor import Doctor

torch.manual_seed(7)

# %% Data
text = open("rhymes.txt").read()
itos = sorted(set(text))
tokens = torch.tensor([itos.index(c) for c in text])
train, valid = tokens[:18000], tokens[18000:]

# %% Settings
vocab, width, seq_len, batch_size, steps, lr = len(itos), 32, 40, 16, 70, 0.2


# %% Model
class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True)
        self.ff = nn.Sequential(nn.Linear(width, 96), nn.ReLU(), nn.Linear(96, width))

    def forward(self, x):
        size = x.size(1)
        mask = torch.triu(torch.ones(size, size, dtype=torch.bool), diagonal=1)
        h = self.norm1(x)
        x = x + self.attention(h, h, h, attn_mask=mask, need_weights=False)[0]
        return x + self.ff(self.norm2(x))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        place = torch.arange(seq_len)[:, None] / 1000 ** (torch.arange(0, width, 2) / width)
        self.register_buffer("places", torch.cat([place.sin(), place.cos()], dim=1))
        self.encoders = nn.Sequential(Encoder(), Encoder())
        self.norm = nn.LayerNorm(width)
        self.out = nn.Linear(width, vocab)

    def forward(self, x):
        h = self.encoders(self.embed(x) + self.places[: x.size(1)])
        return self.out(self.norm(h))


# %% Batches: the text in order, cut into rows
def cut(source):
    rows = (len(source) - 1) // seq_len
    x = source[: rows * seq_len].view(rows, seq_len)
    y = source[1 : rows * seq_len + 1].view(rows, seq_len)
    return x, y


def loader():
    x, y = cut(train)
    while True:
        for rows in torch.randperm(len(x)).split(batch_size):
            yield x[rows], y[rows]


def loss_of(model, batch):
    x, y = batch
    return F.cross_entropy(model(x).transpose(1, 2), y)


def evaluate():
    with torch.no_grad():
        return loss_of(model, cut(valid)).item()


# %% Train
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
doctor = Doctor(
    *(model, loss_of, optimizer, loader()),
    tokens=train,
    evaluate=evaluate,
)
loss_of, batches = doctor.loss_of, doctor.batches
for step in range(1, steps + 1):
    loss = loss_of(model, next(batches))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    norm = nn.utils.get_total_norm([p.grad for p in model.parameters() if p.grad is not None])
    print(step, f"loss {loss.item():.4f} norm {norm:.4f}")
    if step % 25 == 0:
        print("valid", evaluate())
doctor.report()
