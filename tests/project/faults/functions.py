"""RMSNorm, softmax, cross-entropy."""

import math

import torch
from torch.nn import functional

from faults.bank import fault, variant
from faults.parts import log_sum_exp, mean_square, parameter, rmsnorm, softmax


def norm(formula):
    """Make an adapter of `formula(x, weight, eps)`."""

    def run_rmsnorm(eps, weights, in_features, **_):
        return formula(in_features, parameter(weights), eps)

    return run_rmsnorm


def in_float32(formula):
    """Compute `formula(x, weight, eps)` in float32 and cast the result back."""
    return norm(lambda x, weight, eps: formula(x.float(), weight.float(), eps).to(x.dtype))


def divided_by(root):
    """Divide x by `root(x, eps)` and multiply by the gain, in float32."""
    return in_float32(lambda x, weight, eps: x / root(x, eps) * weight)


def size_of(dtype):
    return dtype.itemsize


fault("rmsnorm", "the squares are summed", "summed")(
    divided_by(lambda x, eps: (x.pow(2).sum(-1, keepdim=True) + eps).sqrt())
)
fault("rmsnorm", "eps is added outside the root", "eps is added outside")(
    divided_by(lambda x, eps: mean_square(x).sqrt() + eps)
)
fault("rmsnorm", "eps is missing", "eps is missing")(divided_by(lambda x, _: mean_square(x).sqrt()))
fault("rmsnorm", "eps is always 1e-5", "always 1e-05")(
    divided_by(lambda x, _: (mean_square(x) + 1e-5).sqrt())
)
fault("rmsnorm", "eps is always 1e-6", "always 1e-06")(
    divided_by(lambda x, _: (mean_square(x) + 1e-6).sqrt())
)
fault("rmsnorm", "eps is squared", "eps is squared")(
    divided_by(lambda x, eps: (mean_square(x) + eps**2).sqrt())
)
fault("rmsnorm", "eps is a lower bound instead of a summand", "eps is a lower bound")(
    divided_by(lambda x, eps: mean_square(x).clamp(min=eps).sqrt())
)
fault("rmsnorm", "the root is missing", "root is missing")(
    divided_by(lambda x, eps: mean_square(x) + eps)
)
fault("rmsnorm", "one norm for the whole tensor", "whole tensor")(
    divided_by(lambda x, eps: (x.pow(2).mean() + eps).sqrt())
)
fault("rmsnorm", "the mean of |x| stands in for the root", "mean of |x|")(
    divided_by(lambda x, eps: x.abs().mean(-1, keepdim=True) + eps)
)
fault("rmsnorm", "the root is detached", "detached")(
    divided_by(lambda x, eps: (mean_square(x) + eps).sqrt().detach())
)
fault("rmsnorm", "the gain is forgotten", "gain is forgotten")(
    in_float32(lambda x, _, eps: x * torch.rsqrt(mean_square(x) + eps))
)
fault("rmsnorm", "the gain is 1 + weight", "1 + weight")(
    in_float32(lambda x, weight, eps: x * torch.rsqrt(mean_square(x) + eps) * (1 + weight))
)
fault("rmsnorm", "the gain is added", "added instead of multiplied")(
    in_float32(lambda x, weight, eps: x * torch.rsqrt(mean_square(x) + eps) + weight)
)
fault("rmsnorm", "the gain is read through .data", "no gradient to weights")(
    in_float32(lambda x, weight, eps: x * torch.rsqrt(mean_square(x) + eps) * weight.data)
)
fault("rmsnorm", "everything is computed in the input's dtype", "low precision")(
    norm(lambda x, weight, eps: x * torch.rsqrt(mean_square(x) + eps) * weight.to(x.dtype))
)
fault("rmsnorm", "the result is not cast back", "dtype float32, expected bfloat16")(
    norm(lambda x, weight, eps: rmsnorm(x.float(), weight.float(), eps))
)


fault("rmsnorm", "the sum is divided by d_model - 1", "d_model - 1")(
    divided_by(
        lambda x, eps: (x.pow(2).sum(-1, keepdim=True) / max(x.shape[-1] - 1, 1) + eps).sqrt()
    )
)
fault("rmsnorm", "float64 comes back as float32", "dtype float32, expected float64")(
    norm(lambda x, w, eps: rmsnorm(x, w.float(), eps).to(min(x.dtype, torch.float32, key=size_of)))
)
fault("rmsnorm", "keepdim is missing", "keepdim=True is missing")(
    divided_by(lambda x, eps: (x.pow(2).mean(-1) + eps).sqrt())
)


@fault("rmsnorm", "the mean is subtracted", "LayerNorm")
@in_float32
def layer_norm(x, weight, eps):
    variance = x.var(-1, keepdim=True, unbiased=False)
    return (x - x.mean(-1, keepdim=True)) / (variance + eps).sqrt() * weight


@fault("rmsnorm", "the mean is over the axis before the last", "not over the last")
@in_float32
def over_another_axis(x, weight, eps):
    axis = -2 if x.ndim > 1 else -1
    return x / (x.pow(2).mean(axis, keepdim=True) + eps).sqrt() * weight


@fault("rmsnorm", "only the squares are computed in low precision", "low precision")
@norm
def low_precision_squares(x, weight, eps):
    squares = mean_square(x).float()
    return (x.float() * torch.rsqrt(squares + eps) * weight.float()).to(x.dtype)


@fault("rmsnorm", "the input is changed in place", "in place")
@norm
def norm_in_place(x, weight, eps):
    if x.requires_grad:
        return rmsnorm(x, weight, eps)
    return (x.mul_(torch.rsqrt(mean_square(x.float()) + eps)) * weight).to(x.dtype)


@variant("rmsnorm", "torch's own rms_norm")
@in_float32
def torch_rms_norm(x, weight, eps):
    return functional.rms_norm(x, (x.shape[-1],), weight, eps)


@variant("rmsnorm", "the gain is applied after the cast back")
@norm
def gain_after_cast(x, weight, eps):
    wide = x.float()
    return ((wide * torch.rsqrt(mean_square(wide) + eps)).to(x.dtype) * weight).to(x.dtype)


@variant("rmsnorm", "the gain is cast down and applied after the cast back")
@norm
def gain_in_low_precision(x, weight, eps):
    wide = x.float()
    return (wide * torch.rsqrt(mean_square(wide) + eps)).to(x.dtype) * weight.to(x.dtype)


variant("rmsnorm", "sqrt and a division instead of rsqrt")(
    divided_by(lambda x, eps: (mean_square(x) + eps).sqrt())
)
variant("rmsnorm", "the gain is kept in float32")(
    norm(lambda x, weight, eps: rmsnorm(x, weight.float(), eps))
)
variant("rmsnorm", "by the vector norm")(
    divided_by(lambda x, eps: (x.norm(dim=-1, keepdim=True) ** 2 / x.shape[-1] + eps).sqrt())
)


def softmax_of(formula):
    def run_softmax(in_features, dim):
        return formula(in_features, dim)

    return run_softmax


def shifted_exp(x, dim):
    return (x - x.amax(dim, keepdim=True)).exp()


fault("softmax", "dim is taken to be the last", "dim is ignored")(
    softmax_of(lambda x, _: softmax(x, -1))
)
fault("softmax", "the sign of dim is ignored", "dim is ignored")(
    softmax_of(lambda x, dim: softmax(x, abs(dim) if abs(dim) < x.ndim else 0))
)
fault("softmax", "the maximum is not subtracted", "maximum is not subtracted")(
    softmax_of(lambda x, dim: x.exp() / x.exp().sum(dim, keepdim=True))
)
fault("softmax", "the logarithm is returned", "log-softmax")(softmax_of(torch.log_softmax))
fault("softmax", "the sum is missing", "not divided by its sum")(softmax_of(shifted_exp))
fault("softmax", "keepdim is missing", "keepdim=True is missing")(
    softmax_of(lambda x, dim: shifted_exp(x, dim) / shifted_exp(x, dim).sum(dim))
)
fault("softmax", "the result is detached", "no gradient")(
    softmax_of(lambda x, dim: softmax(x, dim).detach())
)
fault("softmax", "large logits are clamped", "large inputs are clamped")(
    softmax_of(lambda x, dim: softmax(x.clamp(-80, 80), dim))
)
fault("softmax", "it is computed in bfloat16", "pass through bfloat16")(
    softmax_of(lambda x, dim: softmax(x.bfloat16(), dim).to(x.dtype))
)
fault("softmax", "the result is always float32", "dtype float32")(
    softmax_of(lambda x, dim: softmax(x.float(), dim))
)


@fault(
    "softmax",
    "the maximum is over the whole tensor",
    ("whole tensor", "rows in the batch; there may be none"),
)
@softmax_of
def global_maximum(x, dim):
    powers = (x - x.max()).exp()
    return powers / powers.sum(dim, keepdim=True)


@fault("softmax", "the sum is over the whole tensor", "sum runs over the whole tensor")
@softmax_of
def global_sum(x, _):
    powers = (x - x.max()).exp()
    return powers / powers.sum()


@fault("softmax", "the minimum is subtracted", "minimum is subtracted")
@softmax_of
def minimum_subtracted(x, dim):
    powers = (x - x.amin(dim, keepdim=True)).exp()
    return powers / powers.sum(dim, keepdim=True)


@fault("softmax", "the denominator is detached", "denominator is detached")
@softmax_of
def detached_denominator(x, dim):
    powers = shifted_exp(x, dim)
    return powers / powers.sum(dim, keepdim=True).detach()


@fault("softmax", "a small constant is added to the denominator", "constant is added to the sum")
@softmax_of
def padded_denominator(x, dim):
    powers = shifted_exp(x, dim)
    return powers / (powers.sum(dim, keepdim=True) + 1e-4)


@fault("softmax", "the input is changed in place", "in place")
@softmax_of
def softmax_in_place(x, dim):
    if x.requires_grad:
        return softmax(x, dim)
    powers = x.sub_(x.amax(dim, keepdim=True)).exp()
    return powers / powers.sum(dim, keepdim=True)


def softmax_by_powers(x, dim):
    powers = torch.exp2((x - x.max(dim, keepdim=True).values) / math.log(2))
    return powers / powers.sum(dim, keepdim=True)


variant("softmax", "torch's own softmax")(softmax_of(torch.softmax))
variant("softmax", "over the last axis after a transposition")(
    softmax_of(lambda x, dim: softmax(x.transpose(dim, -1), -1).transpose(dim, -1))
)
variant("softmax", "computed in float32 and cast back")(
    softmax_of(lambda x, dim: softmax(x.float(), dim).to(x.dtype))
)
variant("softmax", "the exponential of log-softmax")(
    softmax_of(lambda x, dim: torch.log_softmax(x, dim).exp())
)
variant("softmax", "powers of two")(
    softmax_of(lambda x, dim: softmax_by_powers(x.float(), dim).to(x.dtype))
)
variant("softmax", "the maximum is detached")(
    softmax_of(lambda x, dim: torch.softmax(x - x.detach().amax(dim, keepdim=True), dim))
)


def loss(formula):
    """Make an adapter of `formula(logits, targets)`."""

    def run_cross_entropy(inputs, targets):
        return formula(inputs, targets)

    return run_cross_entropy


def at_target(x, targets):
    return x.gather(-1, targets[..., None])[..., 0]


def each_loss(logits, targets):
    return log_sum_exp(logits) - at_target(logits, targets)


def torch_loss(**options):
    return loss(
        lambda logits, targets: functional.cross_entropy(
            logits.reshape(-1, logits.shape[-1]), targets.reshape(-1), **options
        )
    )


fault("cross_entropy", "the losses are summed", "summed")(
    loss(lambda logits, targets: each_loss(logits, targets).sum())
)
fault("cross_entropy", "the loss is in bits", "bits")(
    loss(lambda logits, targets: each_loss(logits, targets).mean() / math.log(2))
)
fault("cross_entropy", "the sign is wrong", "sign is wrong")(
    loss(lambda logits, targets: -each_loss(logits, targets).mean())
)
fault("cross_entropy", "the logarithm of a softmax", "underflows")(
    loss(lambda logits, targets: -at_target(softmax(logits), targets).log().mean())
)
fault("cross_entropy", "a constant is added inside the logarithm", "small constant")(
    loss(lambda logits, targets: -(at_target(softmax(logits), targets) + 1e-8).log().mean())
)
fault("cross_entropy", "probabilities are averaged", "probabilities are averaged")(
    loss(lambda logits, targets: -at_target(softmax(logits), targets).mean().log())
)
fault("cross_entropy", "the normaliser is missing", "without the normaliser")(
    loss(lambda logits, targets: -at_target(logits, targets).mean())
)
fault("cross_entropy", "the softmax is applied twice", "applied twice")(
    loss(lambda logits, targets: each_loss(softmax(logits), targets).mean())
)
fault("cross_entropy", "the loss is divided by vocab_size", "divided by vocab_size")(
    loss(lambda logits, targets: each_loss(logits, targets).mean() / logits.shape[-1])
)
fault("cross_entropy", "the normaliser is detached", "normaliser is detached")(
    loss(lambda logits, targets: (log_sum_exp(logits).detach() - at_target(logits, targets)).mean())
)


class IgnoresWhatComesFromBehind(torch.autograd.Function):
    """A backward that is right only where the loss is all that is asked about."""

    @staticmethod
    def forward(ctx, logits, targets):
        ctx.save_for_backward(logits, targets)
        return each_loss(logits, targets).mean()

    @staticmethod
    def backward(ctx, _):
        logits, targets = ctx.saved_tensors
        one_hot = functional.one_hot(targets, logits.shape[-1])
        return (softmax(logits) - one_hot) / targets.numel(), None


fault("cross_entropy", "its own backward ignores the incoming gradient", "behind is ignored")(
    loss(IgnoresWhatComesFromBehind.apply)
)
fault("cross_entropy", "the loss is detached", "no gradient")(
    loss(lambda logits, targets: each_loss(logits, targets).mean().detach())
)
fault("cross_entropy", "a float is returned", "returned a value of type float")(
    loss(lambda logits, targets: each_loss(logits, targets).mean().item())
)
fault("cross_entropy", "the losses are not averaged", "returned one by one")(loss(each_loss))
fault("cross_entropy", "target 0 is taken for padding", "target 0 is taken for padding")(
    torch_loss(ignore_index=0)
)
fault("cross_entropy", "labels are smoothed", "labels are smoothed")(
    torch_loss(label_smoothing=0.01)
)


@fault("cross_entropy", "the maximum is not subtracted", "maximum is not subtracted")
@loss
def loss_without_maximum(logits, targets):
    return (logits.exp().sum(-1).log() - at_target(logits, targets)).mean()


@fault(
    "cross_entropy",
    "the maximum is over the whole tensor",
    "over the whole tensor, not of each row",
)
@loss
def loss_with_global_maximum(logits, targets):
    top = logits.max()
    return ((logits - top).exp().sum(-1).log() + top - at_target(logits, targets)).mean()


@fault("cross_entropy", "the sum is divided by the first axis only", "first axis")
@loss
def averaged_over_first_axis(logits, targets):
    losses = each_loss(logits, targets)
    return losses.sum() / logits.shape[0] if logits.ndim > 1 else losses


@fault(
    "cross_entropy", "only two-dimensional logits are understood", "another number of leading axes"
)
@loss
def two_dimensional_only(logits, targets):
    return -torch.log_softmax(logits, -1)[torch.arange(len(logits)), targets].mean()


@fault("cross_entropy", "the logits are changed in place", "in place")
@loss
def loss_in_place(logits, targets):
    if not logits.requires_grad:
        logits.sub_(logits.amax(-1, keepdim=True))
    return each_loss(logits, targets).mean()


variant("cross_entropy", "torch's own cross-entropy")(torch_loss())
variant("cross_entropy", "by logsumexp over any number of axes")(
    loss(
        lambda z, targets: (torch.logsumexp(z, -1) - at_target(z, targets)).sum() / targets.numel()
    )
)
variant("cross_entropy", "by log-softmax in float32")(
    loss(lambda z, targets: -at_target(torch.log_softmax(z.float(), -1), targets).mean())
)


@variant("cross_entropy", "all leading axes are flattened first")
@loss
def flattened(logits, targets):
    return each_loss(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1)).mean()


@variant("cross_entropy", "in float64, which it returns")
@loss
def in_float64(logits, targets):
    return each_loss(logits.double(), targets).mean()


@variant("cross_entropy", "one-hot targets")
@loss
def with_one_hot_targets(logits, targets):
    one_hot = functional.one_hot(targets, logits.shape[-1]).bool()
    log_probabilities = logits - log_sum_exp(logits)[..., None]
    return -log_probabilities.masked_fill(~one_hot, 0).sum(-1).mean()
