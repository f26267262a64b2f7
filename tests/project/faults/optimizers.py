"""AdamW: the class that get_adamw_cls returns."""

import math
from dataclasses import dataclass

import torch
from torch.optim import AdamW, Optimizer

from faults.bank import fault, variant


class PlainAdamW(Optimizer):
    """A right AdamW in small steps; a fault overrides one."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, defaults)

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                gradient = self.gradient(p, group)
                if gradient is not None:
                    self.update(p, gradient, self.options(group))
        return loss

    def options(self, group):
        return group

    def gradient(self, p, _):
        return p.grad

    def memory(self, p):
        state = self.state[p]
        if "m" not in state:
            state.setdefault("t", 0)
            state["m"], state["v"] = torch.zeros_like(p), torch.zeros_like(p)
        return state

    def count(self, memory):
        memory["t"] += 1
        return memory["t"]

    def corrections(self, beta1, beta2, t):
        return 1 - beta1**t, 1 - beta2**t

    def decay(self, group, _):
        """The share of the parameter that is taken away at one step."""
        return group["lr"] * group["weight_decay"]

    def divisor(self, v, eps):
        return v.sqrt() + eps

    def update(self, p, gradient, group):
        memory = self.memory(p)
        beta1, beta2 = group["betas"]
        t = self.count(memory)
        memory["m"] = beta1 * memory["m"] + (1 - beta1) * gradient
        memory["v"] = beta2 * memory["v"] + (1 - beta2) * gradient**2
        correct1, correct2 = self.corrections(beta1, beta2, t)
        p.sub_(self.decay(group, t) * p)
        p.sub_(
            group["lr"]
            * memory["m"]
            / correct1
            / self.divisor(memory["v"] / correct2, group["eps"])
        )


@fault("adamw", "the decay is added to the gradient", "L2, not AdamW")
class L2(PlainAdamW):
    def gradient(self, p, group):
        return None if p.grad is None else p.grad + group["weight_decay"] * p

    def decay(self, _, __):
        return 0


@fault("adamw", "the decay is added to .grad itself", "Adam with L2")
class L2InPlace(L2):
    def gradient(self, p, group):
        return None if p.grad is None else p.grad.add_(p, alpha=group["weight_decay"])


@fault("adamw", "step() sets the gradients to zero", "changed p.grad")
class ZeroesGradients(PlainAdamW):
    def update(self, p, gradient, group):
        super().update(p, gradient, group)
        p.grad.zero_()


@fault("adamw", "one counter for all parameters, raised by each", "shared by all")
class SharedCounter(PlainAdamW):
    t = 0

    def count(self, _):
        self.t += 1
        return self.t


@fault("adamw", "one counter for all parameters, raised by each step()", "counts its own steps")
class SharedStepCounter(PlainAdamW):
    t = 0

    def step(self, closure=None):
        self.t += 1
        return super().step(closure)

    def count(self, _):
        return self.t


@fault("adamw", "the counter belongs to the class", "start anew with each optimizer")
class ClassCounter(PlainAdamW):
    t = 0

    def count(self, _):
        ClassCounter.t += 1
        return ClassCounter.t


@fault("adamw", "steps count from 2", "one too many")
class CountsFromTwo(PlainAdamW):
    def count(self, memory):
        return super().count(memory) + 1


@fault("adamw", "steps count from 0")
class CountsFromZero(PlainAdamW):
    def corrections(self, beta1, beta2, t):
        return [max(c, 0.0) or torch.tensor(0.0) for c in super().corrections(beta1, beta2, t - 1)]


@fault("adamw", "bias correction is missing", "bias correction is missing")
class Uncorrected(PlainAdamW):
    def corrections(self, *_):
        return 1, 1


@fault("adamw", "the first moment is not corrected", "first moment's bias")
class FirstUncorrected(PlainAdamW):
    def corrections(self, _, beta2, t):
        return 1, 1 - beta2**t


@fault("adamw", "the second moment is not corrected", "second moment's bias")
class SecondUncorrected(PlainAdamW):
    def corrections(self, beta1, _, t):
        return 1 - beta1**t, 1


@fault("adamw", "the decay is not multiplied by the rate", "not multiplied by the learning rate")
class DecayWithoutRate(PlainAdamW):
    def decay(self, group, _):
        return group["weight_decay"]


@fault("adamw", "there is no weight decay", "no weight decay")
class NoDecay(PlainAdamW):
    def decay(self, _, __):
        return 0


@fault("adamw", "the decay has the wrong sign", "wrong sign")
class Growth(PlainAdamW):
    def decay(self, group, _):
        return -group["lr"] * group["weight_decay"]


@fault("adamw", "the decay uses the bias-corrected rate", "bias-corrected rate")
class CorrectedDecay(PlainAdamW):
    def decay(self, group, t):
        beta1, beta2 = group["betas"]
        return super().decay(group, t) * math.sqrt(1 - beta2**t) / (1 - beta1**t)


@fault("adamw", "eps is inside the root", "eps is added inside")
class EpsInside(PlainAdamW):
    def divisor(self, v, eps):
        return (v + eps).sqrt()


@fault("adamw", "eps is missing", "eps is missing")
class NoEps(PlainAdamW):
    def divisor(self, v, _):
        return v.sqrt()


@fault("adamw", "the root of the second moment is missing", "root of the second")
class NoRoot(PlainAdamW):
    def divisor(self, v, eps):
        return v + eps


@fault("adamw", "the betas are swapped", "betas are swapped")
class SwappedBetas(PlainAdamW):
    def options(self, group):
        return group | {"betas": group["betas"][::-1]}


@fault("adamw", "the betas are always 0.9 and 0.999", "betas are always 0.9 and 0.999")
class FixedBetas(PlainAdamW):
    def options(self, group):
        return group | {"betas": (0.9, 0.999)}


@fault("adamw", "the learning rate is kept from the construction", "fixed at construction")
class FixedRate(PlainAdamW):
    def __init__(self, params, lr=1e-3, **options):
        self.first_lr = lr
        super().__init__(params, lr, **options)

    def options(self, group):
        return group | {"lr": self.first_lr}


@fault("adamw", "all groups use the first one's options", "first group")
class FirstGroup(PlainAdamW):
    def options(self, _):
        return self.param_groups[0]


@fault("adamw", "all groups use the constructor's options", "constructor's defaults")
class Defaults(PlainAdamW):
    def options(self, _):
        return self.defaults


@fault("adamw", "eps is kept from the construction", "an option is fixed at construction")
class FixedEps(PlainAdamW):
    def options(self, group):
        return group | {"eps": self.defaults["eps"]}


@fault("adamw", "only the first group is updated", "only the first group is updated")
class OnlyFirstGroup(PlainAdamW):
    def gradient(self, p, group):
        return p.grad if group is self.param_groups[0] else None


@fault("adamw", "steps without a gradient are counted", "counted too")
class CountsMissing(PlainAdamW):
    def gradient(self, p, _):
        if p.grad is None:
            self.count(self.memory(p))
        return p.grad


@fault("adamw", "a missing gradient is taken for zero", "treated as zero")
class ZeroForMissing(PlainAdamW):
    def gradient(self, p, _):
        return torch.zeros_like(p) if p.grad is None else p.grad


@fault("adamw", "a missing gradient is an error", "if every parameter has a gradient")
class NeedsGradients(PlainAdamW):
    def gradient(self, p, _):
        return p.grad.clone()


@fault("adamw", "the moments are kept outside of self.state", "lacks the moments")
class OutsideState(PlainAdamW):
    def memory(self, p):
        self.outside = getattr(self, "outside", {})
        start = {"t": 0, "m": torch.zeros_like(p), "v": torch.zeros_like(p)}
        return self.outside.setdefault(p, start)


@fault("adamw", "the step count is kept outside of self.state", "lacks the step count")
class CountOutsideState(PlainAdamW):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.counts = {}

    def memory(self, p):
        self.last = p
        return super().memory(p)

    def count(self, _):
        self.counts[self.last] = self.counts.get(self.last, 0) + 1
        return self.counts[self.last]


@fault("adamw", "parameters must come as a list", "any iterable may be given")
class NeedsList(PlainAdamW):
    def __init__(self, params, **options):
        super().__init__(params if isinstance(params[0], dict) else list(params), **options)


@fault("adamw", "p = p - ... changes nothing", "no parameter changes")
class ChangesNothing(PlainAdamW):
    def update(self, p, gradient, group):
        super().update(p.clone(), gradient, group)


@fault("adamw", "only matrices are decayed", "only matrices are decayed")
class DecaysMatrices(PlainAdamW):
    def update(self, p, gradient, group):
        own = group if p.ndim >= 2 else group | {"weight_decay": 0.0}
        super().update(p, gradient, own)


@fault("adamw", "the second moment never falls", "AMSGrad")
class NeverFalls(PlainAdamW):
    def update(self, p, gradient, group):
        self.memory_of = self.memory(p)
        super().update(p, gradient, group)

    def divisor(self, v, eps):
        memory = self.memory_of
        memory["top"] = torch.maximum(memory.get("top", torch.zeros_like(v)), v)
        return memory["top"].sqrt() + eps


@fault("adamw", "the moments are kept in bfloat16", "kept in bfloat16")
class NarrowMoments(PlainAdamW):
    def update(self, p, gradient, group):
        memory = self.memory(p)
        correct1, correct2 = self.corrections(*group["betas"], self.count(memory))
        for name, beta, new in zip("mv", group["betas"], (gradient, gradient**2), strict=True):
            memory[name] = (beta * memory[name] + (1 - beta) * new).bfloat16().to(p.dtype)
        p.mul_(1 - group["lr"] * group["weight_decay"])
        below = self.divisor(memory["v"] / correct2, group["eps"])
        p.sub_(group["lr"] * memory["m"] / correct1 / below)


@fault("adamw", "the moments are made on the CPU", "use torch.zeros_like(p)")
class MomentsOnTheCpu(PlainAdamW):
    def memory(self, p):
        state = self.state[p]
        if not state:
            state |= {"t": 0, "m": torch.zeros(p.shape), "v": torch.zeros(p.shape)}
            state |= {name: state[name].to(p.dtype) for name in "mv"}
        return state


@fault("adamw", "each gradient is cut to length 1", "cut to length 1")
class CutsGradients(PlainAdamW):
    def gradient(self, p, _):
        return None if p.grad is None else p.grad / max(1.0, float(p.grad.norm() + 1e-6))


@fault("adamw", "a group that is added later is not updated", "added later is not updated")
class KeepsItsGroups(PlainAdamW):
    def __init__(self, params, **options):
        super().__init__(params, **options)
        self.known = list(self.param_groups)

    def step(self, closure=None):
        groups, self.param_groups = self.param_groups, self.known
        try:
            return super().step(closure)
        finally:
            self.param_groups = groups

    def load_state_dict(self, state):
        super().load_state_dict(state)
        self.known = self.param_groups


@fault("adamw", "the closure is called without gradients", "closure without gradients")
class ClosureWithoutGradients(PlainAdamW):
    @torch.no_grad()
    def step(self, closure=None):
        loss = None if closure is None else closure()
        super().step()
        return loss


@variant("adamw", "step() takes no closure and works on .data, its state has other names")
class WithoutClosure(PlainAdamW):
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                kept = self.state.setdefault(p, {})
                count = kept.get("count", 0) + 1
                first = beta1 * kept.get("first", 0.0) + (1 - beta1) * p.grad.data
                second = beta2 * kept.get("second", 0.0) + (1 - beta2) * p.grad.data.square()
                rate = group["lr"] * (1 - beta2**count) ** 0.5 / (1 - beta1**count)
                p.data -= rate * first / (second.sqrt() + group["eps"])
                p.data -= group["lr"] * group["weight_decay"] * p.data
                kept.update(count=count, first=first, second=second)


variant("adamw", "written out")(PlainAdamW)
variant("adamw", "torch's own AdamW")(AdamW)


@variant("adamw", "the decay comes after the update, eps is scaled")
class DecayAfterwards(PlainAdamW):
    def update(self, p, gradient, group):
        memory = self.memory(p)
        beta1, beta2 = group["betas"]
        t = self.count(memory)
        memory["m"].mul_(beta1).add_(gradient, alpha=1 - beta1)
        memory["v"].mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        rate = group["lr"] * math.sqrt(1 - beta2**t) / (1 - beta1**t)
        p.addcdiv_(memory["m"], memory["v"].sqrt() + group["eps"], value=-rate)
        p.mul_(1 - group["lr"] * group["weight_decay"])


@variant("adamw", "new tensors for the moments, copied into the parameter")
class OutOfPlace(PlainAdamW):
    def update(self, p, gradient, group):
        memory, (beta1, beta2) = self.memory(p), group["betas"]
        t = self.count(memory)
        memory["m"] = torch.lerp(memory["m"], gradient, 1 - beta1)
        memory["v"] = torch.addcmul(memory["v"] * beta2, gradient, gradient, value=1 - beta2)
        root = torch.sqrt(memory["v"] / (1 - beta2**t)) + group["eps"]
        kept = p * (1 - group["lr"] * group["weight_decay"])
        p.copy_(torch.addcdiv(kept, memory["m"] / (1 - beta1**t), root, value=-group["lr"]))


@variant("adamw", "all parameters of a group at once, by torch._foreach")
class AtOnce(PlainAdamW):
    @torch.no_grad()
    def step(self, closure=None):
        loss = None if closure is None else torch.enable_grad()(closure)()
        for group in self.param_groups:
            present = [p for p in group["params"] if p.grad is not None]
            if present:
                self.update_all(present, [p.grad for p in present], group)
        return loss

    def update_all(self, present, gradients, group):
        memories, (beta1, beta2) = [self.memory(p) for p in present], group["betas"]
        first, second = ([memory[name] for memory in memories] for name in "mv")
        torch._foreach_mul_(first, beta1)
        torch._foreach_add_(first, gradients, alpha=1 - beta1)
        torch._foreach_mul_(second, beta2)
        torch._foreach_addcmul_(second, gradients, gradients, value=1 - beta2)
        torch._foreach_mul_(present, 1 - group["lr"] * group["weight_decay"])
        for p, memory in zip(present, memories, strict=True):
            t = self.count(memory)
            root = (memory["v"] / (1 - beta2**t)).sqrt_().add_(group["eps"])
            p.addcdiv_(memory["m"], root, value=-group["lr"] / (1 - beta1**t))


@variant("adamw", "float64 is refused without a word")
class Float32Alone(PlainAdamW):
    def update(self, p, gradient, group):
        assert p.dtype == torch.float32
        super().update(p, gradient, group)


@dataclass
class Moments:
    first: torch.Tensor
    second: torch.Tensor
    count: int = 0


@variant("adamw", "the state is of a class of its own")
class StateOfItsOwn(PlainAdamW):
    def update(self, p, gradient, group):
        moments = self.state[p].setdefault("own", Moments(p * 0, p * 0))
        beta1, beta2 = group["betas"]
        moments.count += 1
        moments.first = torch.lerp(moments.first, gradient, 1 - beta1)
        moments.second = torch.lerp(moments.second, gradient**2, 1 - beta2)
        rate = group["lr"] * math.sqrt(1 - beta2**moments.count) / (1 - beta1**moments.count)
        p.mul_(1 - group["lr"] * group["weight_decay"])
        p.sub_(rate * moments.first / (moments.second.sqrt() + group["eps"]))


@variant("adamw", "the step is a tensor")
class TensorStep(PlainAdamW):
    def count(self, memory):
        memory["t"] = torch.as_tensor(memory["t"]) + 1
        return memory["t"].item()
