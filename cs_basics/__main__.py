"""The ending of the book, from a text to a story: python -m cs_basics TEXT [VALID].

300 kB take two minutes on two cores. The model is measured on VALID and saved as ./story.pt.
"""

import sys
from pathlib import Path

import numpy as np
import torch

from cs_basics.bpe import train_bpe
from cs_basics.checkpoint import save_checkpoint
from cs_basics.data import get_batch
from cs_basics.functional import cross_entropy
from cs_basics.generate import Sampling, generate
from cs_basics.optim import AdamW, cosine_schedule
from cs_basics.tokenizer import Tokenizer
from cs_basics.training import Update, train
from cs_basics.transformer import TransformerLM

END, UPDATES, BATCH_SIZE, MAX_LR = "<|endoftext|>", 400, 16, 4e-3
VOCAB_SIZE, CONTEXT_LENGTH, D_MODEL, NUM_LAYERS, NUM_HEADS, D_FF = 1000, 128, 128, 3, 4, 344


def main(paths: list[str]) -> None:
    """Train a tokenizer and a model on a text, measure the model and let it write a story."""
    vocab, merges = train_bpe(paths[0], VOCAB_SIZE, [END])
    tokenizer = Tokenizer(vocab, merges, [END])
    texts = [Path(path).read_bytes().decode("utf-8", "surrogateescape") for path in paths]
    ids, *valid_ids = (np.array(tokenizer.encode(END + text)) for text in texts)
    model = TransformerLM(len(vocab), CONTEXT_LENGTH, D_MODEL, NUM_LAYERS, NUM_HEADS, D_FF)
    optimizer = AdamW(model.parameters(), MAX_LR)
    batches = (get_batch(ids, BATCH_SIZE, CONTEXT_LENGTH, "cpu") for _ in range(UPDATES))

    def lr_at(step: int) -> float:
        return cosine_schedule(step, MAX_LR, 0.0, UPDATES // 20, UPDATES + 1)

    def report(update: Update) -> None:
        if update.step % (UPDATES // 20) == 0:
            print(f"update {update.step}: loss {update.loss:.3f}, rate {update.lr:.2g}")

    train(model, optimizer, batches, lr_at, on_update=report)
    save_checkpoint(model, optimizer, UPDATES, "story.pt")
    for valid in map(torch.from_numpy, valid_ids):
        pairs = zip(valid[:-1].split(CONTEXT_LENGTH), valid[1:].split(CONTEXT_LENGTH), strict=True)
        with torch.no_grad():
            nats = sum(len(y) * cross_entropy(model(x[None]), y[None]).item() for x, y in pairs)
        print(f"{nats / np.log(2) / Path(paths[1]).stat().st_size:.3f} bits per byte")
    prompt, stop = tokenizer.encode(END + "\n"), tokenizer.encode(END)
    print(tokenizer.decode(generate(model, prompt, 200, Sampling(temperature=0.8), stop)))


if __name__ == "__main__":
    sizes = [Path(name).stat().st_size if Path(name).is_file() else 0 for name in sys.argv[1:]]
    if len(sizes) not in (1, 2) or min(sizes) < 10_000:
        asked = "python -m cs_basics TEXT [VALID], texts of at least 10,000 bytes each"
        print(f"{asked}, not {sys.argv[1:]}", file=sys.stderr)
        sys.exit(2)
    main(sys.argv[1:])
