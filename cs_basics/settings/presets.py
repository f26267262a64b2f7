"""Complete configurations of runs, by name."""

from pathlib import Path

from cs_basics.settings.run import TrainConfig

_TINYSTORIES = TrainConfig.of(
    train_text=Path("data/TinyStoriesV2-GPT4-train.txt"),
    valid_text=Path("data/TinyStoriesV2-GPT4-valid.txt"),
    max_steps=5_000,
    warmup_steps=200,
)

# Small: in the few minutes that it has, more updates teach it more than more weights would.
_STORIES = TrainConfig.of(
    vocab_size=4_096,
    d_model=192,
    d_ff=512,
    num_layers=3,
    num_heads=6,
    max_minutes=4.4,
    batch_size=8,
    lr=4e-3,
    beta2=0.99,
    embedding_lr_ratio=10.0,
    order="epochs",
    schedule="linear",
)

# In ten minutes 3.6 MB are read five to twelve times: overfitting is the limit, not the updates.
_OWN_TEXT = _STORIES.replace(
    train_text=Path("train.txt"),
    valid_text=Path("valid.txt"),
    d_model=256,
    d_ff=688,
    num_layers=4,
    num_heads=8,
    max_minutes=10.0,
    lr=6e-3,
    beta2=0.95,
    weight_decay=0.4,
    optimizer="muon",
    dropout=0.1,
    tie_embeddings=True,
)

PRESETS: dict[str, tuple[str, TrainConfig]] = {
    "debug": (
        "A tiny model on little text: does everything work? Under a minute, nonsense comes out.",
        TrainConfig.of(
            corpus_megabytes=0.5,
            vocab_size=512,
            context_length=64,
            d_model=64,
            d_ff=176,
            num_layers=2,
            num_heads=4,
            max_steps=200,
            batch_size=16,
            lr=3e-3,
            warmup_steps=10,
            eval_every=50,
            num_samples=1,
            fast="off",
        ),
    ),
    "stories": (
        "Readable stories from the embedded corpus after a few minutes on a laptop.",
        _STORIES,
    ),
    "own-text": (
        "A few megabytes of your own text, read several times in ten minutes.",
        _OWN_TEXT,
    ),
    "own-text-lowest": (
        "The same with a lower loss, by two parts that neither Llama nor GGUF has: no export.",
        _OWN_TEXT.replace(head_bias=True, value_residual=True),
    ),
    "tinystories-cpu": (
        "TinyStories, 40.96 million tokens; a working day on a laptop CPU.",
        _TINYSTORIES,
    ),
    "tinystories": (
        "TinyStories, 327.68 million tokens, the same model; for a GPU.",
        _TINYSTORIES.replace(max_steps=10_000, batch_size=128),
    ),
}


def preset_named(name: str) -> TrainConfig:
    """Return the configuration of a preset.

    Raises:
        ValueError: There is none of that name.
    """
    if name not in PRESETS:
        raise ValueError(f"there is no preset {name}: use one of {', '.join(PRESETS)}")
    return PRESETS[name][1]
