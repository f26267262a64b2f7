"""The config.json of a Llama folder, and which models have one.

A model with QK-norm is of the type qwen3, whose blocks are otherwise Llama's.
"""

import json
from pathlib import Path
from typing import Any

from cs_basics.run.json_file import read_json
from cs_basics.settings.model import ModelConfig
from cs_basics.settings.run import TrainConfig

QWEN3_HEAD_DIM = 128
"""Size of a head if a config.json of type qwen3 does not give it."""

REQUIRED: dict[str, tuple[str | bool, ...]] = {
    "norm": ("rmsnorm", "rmsnorm-llama"),
    "placement": ("pre",),
    "positions": ("rope",),
    "ffn": ("swiglu",),
    "value_residual": (False,),
    "head_bias": (False,),
}
"""The choices that Llama and Qwen3 make. The two norms differ in where they round."""


def unlike_llama(config: ModelConfig) -> dict[str, Any]:
    """Return the choices of a model that are not Llama's."""
    return {n: value for n in REQUIRED if (value := getattr(config, n)) not in REQUIRED[n]}


def check_has_llama_form(config: ModelConfig) -> None:
    """Refuse a model that Llama's architecture cannot express.

    Raises:
        ValueError: One of its choices is not Llama's.
    """
    if misfits := unlike_llama(config):
        given = ", ".join(f"{name}={value}" for name, value in misfits.items())
        flags = (
            f"no-{name}" if value is True else f"{name} {REQUIRED[name][0]}"
            for name, value in misfits.items()
        )
        wanted = " ".join("--" + flag.replace("_", "-") for flag in flags)
        raise ValueError(f"{given} has no form in Llama's architecture: train with {wanted}")
    # transformers checks this for Llama even where heads have a size of their own.
    if config.d_model % config.num_heads and not config.qk_norm:
        raise ValueError(
            f"num_heads={config.num_heads} has no form in a Llama folder of "
            f"d_model={config.d_model}, only a divisor has"
        )


def to_llama_config(config: ModelConfig) -> dict[str, Any]:
    """Return the contents of config.json, except for the special tokens."""
    return {
        "architectures": ["Qwen3ForCausalLM" if config.qk_norm else "LlamaForCausalLM"],
        "model_type": "qwen3" if config.qk_norm else "llama",
        "vocab_size": config.vocab_size,
        "hidden_size": config.d_model,
        "intermediate_size": config.d_ff,
        "num_hidden_layers": config.num_layers,
        "num_attention_heads": config.num_heads,
        "num_key_value_heads": config.num_kv_heads or config.num_heads,
        "head_dim": config.d_head,
        "hidden_act": "silu",
        "max_position_embeddings": config.context_length,
        "rms_norm_eps": config.norm_eps,
        # The first is read by transformers before version 5, the second since then.
        "rope_theta": config.rope_theta,
        "rope_parameters": {"rope_type": "default", "rope_theta": config.rope_theta},
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": config.tie_embeddings,
        "torch_dtype": "float32",
    }


def read_llama_config(path: Path, **settings: Any) -> TrainConfig:  # noqa: ANN401
    """Return the configuration of a run with the model of a config.json.

    Args:
        path: The file.
        settings: As in `import_llama`.

    Raises:
        OSError: The file cannot be read.
        ValueError: It is damaged, or describes a model of another architecture.
    """
    if not path.is_file():
        raise FileNotFoundError(
            f"{path.parent} holds no {path.name}: give the folder of a Llama or Qwen3 model"
        )
    values = read_json(path)
    if not isinstance(values, dict):
        raise ValueError(f"{path} is not a configuration")
    try:
        config = TrainConfig.of(**_llama_settings(values))
    except (ValueError, TypeError, OverflowError) as error:
        raise ValueError(f"{path}: {error}") from None
    return config.replace(**settings)


def _llama_settings(values: dict[str, Any]) -> dict[str, Any]:
    _check_architecture(values)
    d_model, num_heads = _count(values, "hidden_size"), _count(values, "num_attention_heads")
    is_qwen3 = values["model_type"] == "qwen3"
    head_dim = values.get("head_dim", QWEN3_HEAD_DIM if is_qwen3 else None)
    if head_dim is not None:
        head_dim = _count({"head_dim": head_dim}, "head_dim")
    kv_heads = "num_key_value_heads"
    return {
        "vocab_size": _count(values, "vocab_size"),
        "context_length": _count(values, "max_position_embeddings"),
        "d_model": d_model,
        "d_ff": _count(values, "intermediate_size"),
        "num_layers": _count(values, "num_hidden_layers"),
        "num_heads": num_heads,
        "num_kv_heads": None if values.get(kv_heads) is None else _count(values, kv_heads),
        "head_dim": None if d_model == num_heads * (head_dim or 0) else head_dim,
        "qk_norm": is_qwen3,
        "rope_theta": _rope_theta(values),
        "norm": "rmsnorm-llama",
        "norm_eps": _number("rms_norm_eps", values.get("rms_norm_eps", 1e-6)),
        "tie_embeddings": values.get("tie_word_embeddings") is True,
        # A run needs an end; this one is for further training.
        "max_steps": 1_000,
    }


def _check_architecture(values: dict[str, Any]) -> None:
    """Refuse features that ModelConfig cannot express; a missing entry means the default.

    Raises:
        ValueError: The file uses such a feature; the message names it.
    """
    model_type = values.get("model_type")
    if model_type == "qwen2":
        raise ValueError('model_type="qwen2" is not supported: its attention has biases')
    if model_type not in ("llama", "qwen3"):
        raise ValueError(
            f'model_type={_shown(model_type)} is not supported, only "llama" and "qwen3"'
        )
    for name, only in (
        ("hidden_act", "silu"),
        ("attention_bias", False),
        ("mlp_bias", False),
        ("use_sliding_window", False),
        ("quantization_config", None),
    ):
        if (value := values.get(name, only)) != only:
            raise ValueError(f"{name}={_shown(value)} is not supported, only {_shown(only)}")


def _rope_theta(values: dict[str, Any]) -> float:
    rope = values.get("rope_parameters") or values.get("rope_scaling") or {}
    if not isinstance(rope, dict):
        raise ValueError(f"rope_parameters={_shown(rope)} is not a dictionary")
    if (kind := rope.get("rope_type", rope.get("type", "default"))) != "default":
        raise ValueError(f"rope_type={_shown(kind)} is not supported, only default")
    share = rope.get("partial_rotary_factor", values.get("partial_rotary_factor", 1))
    if share not in (None, 1):
        raise ValueError(f"partial_rotary_factor={_shown(share)} is not supported, only 1")
    return _number("rope_theta", rope.get("rope_theta", values.get("rope_theta", 10_000.0)))


def _count(values: dict[str, Any], name: str) -> int:
    if name not in values:
        raise ValueError(f"{name} is missing")
    value = values[name]
    if type(value) is not int or value < 1:
        raise ValueError(f"{name}={_shown(value)} must be an integer of at least 1")
    return value


def _number(name: str, value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ValueError(f"{name}={_shown(value)} must be a number")
    return float(value)


def _shown(value: object) -> str:
    """Write a value so that it fits into one line of a message, whatever it is."""
    return json.dumps(value)[:60]
