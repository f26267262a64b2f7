"""Which of PyTorch's operators do the work of a problem, and which problem may not use them.

blocked.py makes these operators raise, rules/ finds their names in a source. Here are only tables:
the trusted side reads them, too, and does not import torch.
"""

# For each group and each public name, the operators in PyTorch's dispatcher that it leads to (those
# of "aten" by their bare names). An operator without a public name has the one that leads to it.
_BY_PUBLIC_NAME: dict[str, dict[str, tuple[str, ...]]] = {
    "linear": {
        "torch.nn.functional.linear": (
            "linear",
            "mkldnn_linear",
            "_mkldnn_linear",
            "mkldnn::_linear_pointwise",
        ),
        "torch.nn.functional.bilinear": ("bilinear", "_trilinear"),
        "torch.nn.functional.conv1d": ("conv1d", "convolution", "_convolution"),
        "torch.nn.functional.conv2d": ("conv2d",),
    },
    "embedding": {
        "torch.nn.functional.embedding": ("embedding",),
        "torch.nn.functional.embedding_bag": ("embedding_bag", "_embedding_bag"),
    },
    "norm": {
        "torch.nn.functional.rms_norm": ("rms_norm", "_fused_rms_norm"),
        "torch._weight_norm": ("_weight_norm", "_weight_norm_interface"),
        "torch.renorm": ("renorm",),
        "torch.nn.functional.layer_norm": ("layer_norm", "native_layer_norm"),
        "torch.nn.functional.group_norm": ("group_norm", "native_group_norm"),
        "torch.nn.functional.instance_norm": ("instance_norm",),
        "torch.nn.functional.batch_norm": (
            "batch_norm",
            "native_batch_norm",
            "_native_batch_norm_legit",
            "_native_batch_norm_legit_functional",
            "_native_batch_norm_legit_no_training",
            "_batch_norm_impl_index",
            "_batch_norm_with_update",
            "_batch_norm_no_update",
        ),
    },
    "silu": {
        "torch.nn.functional.silu": ("silu", "silu_"),
        "torch.nn.functional.glu": ("glu",),
    },
    "softmax": {
        "torch.softmax": ("softmax", "_softmax", "_safe_softmax", "_masked_softmax"),
        "torch.special.softmax": ("special_softmax",),
        "torch.log_softmax": ("log_softmax", "_log_softmax"),
        "torch.special.log_softmax": ("special_log_softmax",),
        "torch.logsumexp": ("logsumexp",),
        "torch.special.logsumexp": ("special_logsumexp",),
        "torch.logcumsumexp": ("logcumsumexp", "_logcumsumexp"),
        "torch.sparse.softmax": ("_sparse_softmax",),
        "torch.sparse.log_softmax": ("_sparse_log_softmax",),
    },
    "attention": {
        "torch.nn.functional.scaled_dot_product_attention": (
            "scaled_dot_product_attention",
            "_scaled_dot_product_attention_math",
            "_scaled_dot_product_flash_attention_for_cpu",
        ),
        "torch.nn.MultiheadAttention": ("_native_multi_head_attention",),
        "torch.nn.TransformerEncoderLayer": ("_transformer_encoder_layer_fwd",),
    },
    "cross_entropy": {
        "torch.nn.functional.cross_entropy": ("cross_entropy_loss",),
        "torch.nn.functional.nll_loss": (
            "nll_loss",
            "nll_loss_nd",
            "nll_loss_forward",
            "nll_loss2d",
            "nll_loss2d_forward",
        ),
    },
    "optimizer": {
        "torch.optim.Adam": ("_fused_adam", "_fused_adam_"),
        "torch.optim.AdamW": ("_fused_adamw", "_fused_adamw_"),
    },
    "clipping": {},
    "schedule": {},
    "tokenizers": {},
}
KERNELS = {
    group: {kernel: name for name, kernels in named.items() for kernel in kernels}
    for group, named in _BY_PUBLIC_NAME.items()
}
"""For each group, the operators in PyTorch's dispatcher, each with the public name to report."""

# For each group, what PyTorch (and SciPy) writes in Python: functions, and classes that may not be
# made.
FUNCTIONS: dict[str, tuple[str, ...]] = {
    "linear": ("torch.nn.Linear", "torch.nn.Bilinear", "torch.nn.LazyLinear"),
    "embedding": ("torch.nn.Embedding", "torch.nn.EmbeddingBag"),
    "norm": (
        "torch.nn.RMSNorm",
        "torch.nn.LayerNorm",
        "torch.nn.GroupNorm",
        "torch.nn.functional.normalize",
    ),
    "silu": ("torch.nn.SiLU", "torch.nn.GLU"),
    "softmax": (
        "torch.nn.Softmax",
        "torch.nn.LogSoftmax",
        "torch.nn.Softmin",
        "torch.nn.functional.softmin",
        "torch.nn.functional.gumbel_softmax",
        "torch.distributions.transforms.SoftmaxTransform",
        *("scipy.special.softmax", "scipy.special.log_softmax", "scipy.special.logsumexp"),
    ),
    "attention": (
        "torch.nn.MultiheadAttention",
        "torch.nn.Transformer",
        "torch.nn.TransformerEncoder",
        "torch.nn.TransformerEncoderLayer",
        "torch.nn.TransformerDecoder",
        "torch.nn.TransformerDecoderLayer",
        "torch.nn.functional.multi_head_attention_forward",
        "torch.nn.attention.flex_attention.flex_attention",
    ),
    "cross_entropy": ("torch.nn.CrossEntropyLoss", "torch.nn.NLLLoss"),
    "optimizer": tuple(
        f"torch.optim.{name}"
        for name in (
            *("ASGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "LBFGS"),
            *("Muon", "NAdam", "RAdam", "RMSprop", "Rprop", "SGD", "SparseAdam"),
            *("adam.adam", "adam._single_tensor_adam", "adam._multi_tensor_adam"),
            *("adam._fused_adam", "adamw.adamw", "nadam.nadam", "radam.radam"),
        )
    ),
    "clipping": tuple(
        f"torch.nn.utils.clip_grad.{name}"
        for name in (
            *("clip_grad_norm_", "clip_grad_norm", "clip_grads_with_norm_", "get_total_norm"),
            *("_clip_grads_with_norm_", "_get_total_norm"),
        )
    ),
    "schedule": tuple(
        f"torch.optim.lr_scheduler.{name}"
        for name in (
            *("LRScheduler", "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "LambdaLR"),
            *("LinearLR", "OneCycleLR", "SequentialLR"),
        )
    ),
    "tokenizers": (),
}

# Packages that do the work of a problem without any kernel of PyTorch, each with its group. If a
# package also does the work of other problems, using it there is reported to a person.
PACKAGES: dict[str, str] = {
    **dict.fromkeys(
        (
            *("tokenizers", "tiktoken", "sentencepiece", "transformers", "minbpe", "bpeasy"),
            *("youtokentome", "subword_nmt", "rs_bpe", "blingfire", "torchtext"),
        ),
        "tokenizers",
    ),
    **dict.fromkeys(("flash_attn", "xformers"), "attention"),
}

# The problem that each group does the work of.
OWN: dict[str, str] = {
    "linear": "linear",
    "embedding": "embedding",
    "norm": "rmsnorm",
    "silu": "silu",
    "softmax": "softmax",
    "attention": "scaled_dot_product_attention",
    "cross_entropy": "cross_entropy",
    "optimizer": "adamw",
    "clipping": "gradient_clipping",
    "schedule": "learning_rate_schedule",
    "tokenizers": "tokenizer",
}

# The groups that may not be used in each problem, in the rubric's order: a problem is solved
# without the operators that do its own work or that of the problems which it is built from.
FORBIDDEN: dict[str, tuple[str, ...]] = {
    "train_bpe": ("tokenizers",),
    "tokenizer": ("tokenizers",),
    "linear": ("linear",),
    "embedding": ("embedding",),
    "rmsnorm": ("norm",),
    "silu": ("silu",),
    "positionwise_feedforward": ("linear", "silu"),
    "rope": (),
    "softmax": ("softmax", "attention"),
    "scaled_dot_product_attention": ("softmax", "attention"),
    "multihead_self_attention": ("linear", "softmax", "attention"),
    "multihead_self_attention_with_rope": ("linear", "softmax", "attention"),
    "transformer_block": ("linear", "norm", "silu", "softmax", "attention"),
    "transformer_lm": ("linear", "embedding", "norm", "silu", "softmax", "attention"),
    "cross_entropy": ("softmax", "attention", "cross_entropy"),
    "adamw": ("optimizer",),
    "learning_rate_schedule": ("schedule",),
    "gradient_clipping": ("clipping",),
    "data_loading": (),
    "checkpointing": (),
}
