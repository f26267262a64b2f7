"""What a check finds, and the table of all causes: what is right instead, and what to try."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

CAUSES = {
    "token-dtype": (
        "ids from 0 to the size of the vocabulary, about as many different ones at odd places as "
        "at even ones",
        "np.memmap(path, dtype=...) with the dtype that the file was written with",
    ),
    "tokenizer": (
        "a row of the embedding for each token",
        "print(tokens.max(), model): was the model made for the tokenizer that made the tokens?",
    ),
    "batches-wrong": (
        "rows of consecutive tokens of the text, all of them different",
        "print(inputs[:, :6]), and decode(inputs[0]): does it read like the text?",
    ),
    "targets-shifted": (
        "each position predicts the next token: targets[:, :-1] == inputs[:, 1:]",
        "print(inputs[0, :9], targets[0, :9]); then the same where the cross-entropy is computed",
    ),
    "loss-precision": (
        "nearly 0 for an answer that is sure and right, and finite for large logits: log_softmax "
        "subtracts the largest one",
        "give the cross-entropy what the last matrix gives; no log(softmax(x)), no eps, no clamp",
    ),
    "logits-bounded": (
        "logits that can grow without a bound, so that the loss can come near to 0",
        "return what the last matrix gives: no softmax, sigmoid, tanh or norm after it",
    ),
    "start-weights": (
        "random numbers: units that start equal stay equal, and zeros in a row pass no gradient on",
        "print({n: p.std().item() for n, p in model.named_parameters()})  # usual: about 0.02",
    ),
    "future-leak": (
        "no change at earlier positions: a model that sees the token it has to predict copies it",
        "ids[:, t:] = 0 must not move model(ids)[:, :t]; look at the causal mask",
    ),
    "rows-mixed": (
        "rows of a batch that know nothing of each other",
        "print the shapes in forward: is axis 0 the batch wherever something is summed over time?",
    ),
    "shared-weights": (
        "weights of its own for each block and norm",
        "nn.ModuleList(Block() for _ in range(n)), not [Block()] * n; a, b = Norm(), Norm()",
    ),
    "in-optimizer-twice": (
        "one step of each parameter an update",
        "give the optimizer model.parameters() alone; count the calls of optimizer.step()",
    ),
    "not-in-optimizer": (
        "every parameter that the loss depends on in the optimizer",
        "make the optimizer of model.parameters() once the model is final; keep blocks in an "
        "nn.ModuleList, not in a list",
    ),
    "no-step": (
        "one step an update, which changes the weights that the loss depends on",
        "check the order zero_grad(), backward(), clip, step(), and that the optimizer was made of "
        "the model that is trained",
    ),
    "no-gradient": (
        "a gradient for each parameter: without one it is never trained",
        "look for .detach(), no_grad() and requires_grad=False on the way from it to the loss",
    ),
    "context-unused": (
        "a position that uses all that came before it",
        "is the past masked? print the shapes and the mask in forward",
    ),
    "loss-not-mean": (
        "the mean over all positions that have a target, each counting the same",
        "divide the sum by the number of targets; leave out padding, and nothing else",
    ),
    "optimizer-setup": (
        "steps against the gradient; usual are momentum=0.9, betas=(0.9, 0.95), eps=1e-8",
        "print(optimizer); one step of plain p -= lr * p.grad must make the loss of a batch less",
    ),
    "not-zeroed": (
        "the gradient of its batch alone",
        "optimizer.zero_grad() once an update, before its first backward()",
    ),
    "accumulation": (
        "the mean over the micro-batches: each loss divided by their number, once",
        "zero_grad() once an update; (loss / num_micro_batches).backward(), no other division",
    ),
    "clipping": (
        "the gradient of the loss, scaled to the norm that is meant if it is larger",
        "clip the norm of list(model.parameters()) after the last backward(), and after unscale_() "
        "where losses are scaled, before step()",
    ),
    "train-eval-mode": (
        "training mode in every update, evaluation mode in evaluations: it switches dropout off",
        "model.train() before each update, model.eval() before an evaluation; dropout asks "
        "self.training",
    ),
    "dropout": (
        "a loss in training mode little above that in evaluation mode",
        "a dropout of 0.1, or 0 if the text is read only a few times",
    ),
    "ranks": (
        "different batches, equal weights: they start equal, and gradients are averaged",
        "print(rank, inputs[0, :6], sum(p.abs().sum() for p in model.parameters())) before and "
        "after update 1",
    ),
    "schedule": (
        "the rate that the schedule gives for the number of the update",
        "print(optimizer.param_groups[0]['lr']) at each update; step the scheduler once an update, "
        "and restore its step on resuming",
    ),
    "decay": (
        "a small share of each step: decay balances learning, and does not undo it",
        "weight_decay=0.1, or 0 to compare; decoupled decay takes lr * weight_decay * p a step",
    ),
    "precision": (
        "weights that change at each step, and stay as the optimizer leaves them",
        "keep the weights in float32 and compute in bfloat16; compare w before and after a step",
    ),
    "start-loss": (
        "the loss of equally likely tokens: a new model knows nothing",
        "print({n: p.std().item() for n, p in model.named_parameters()})  # usual: about 0.02",
    ),
    "rate-too-high": (
        "a loss that goes on falling: steps that are too long throw away what was learnt",
        "a tenth of the learning rate, or more updates of warm-up",
    ),
    "rate-too-low": (
        "a loss that falls well below the entropy of single tokens",
        "ten times the learning rate",
    ),
    "step-too-small": (
        "steps as long as the learning rate means them",
        "print(optimizer.param_groups[0]) and the norm of the gradient before it is clipped",
    ),
    "batches-repeat": (
        "new rows: what is read again and again is learnt by heart",
        "print(inputs[0, :6]) for ten batches; seed the generator once, not for each batch",
    ),
    "evaluation": (
        "the mean loss of text not trained on; weights, gradients and generators unchanged",
        "look in evaluate(): held-out text, a mean per token, no step, no backward, no seed",
    ),
    "not-finite": (
        "finite numbers: no division by 0, log(0), or row that is masked entirely",
        "torch.autograd.set_detect_anomaly(True) before the loop names what makes the first NaN",
    ),
    "overfitting": (
        "both losses fall together; if only the training loss falls, its text is learnt by heart",
        "take the checkpoint of that step; then fewer updates, more text, dropout or decay",
    ),
}  # fmt: skip
"""What is expected, and what to try, by cause. One explains the symptoms of those after it, so it
comes first in a report: targets that are not shifted make the loss fall to 0, whatever the learning
rate."""
ORDER = list(CAUSES)


@dataclass(frozen=True)
class Finding:
    """Something that ought to be otherwise."""

    cause: str
    """One of CAUSES."""
    seen: str
    """What was observed, with its number."""
    place: Any = None
    """File and line of the reader's own, "" where that cannot be told. A check may give the
    function or the module that stands there, or None for the model: see `Subject.run`."""
    experiment: str = ""
    """What to try; that of the cause, if nothing better follows from what was seen."""

    def to_json(self) -> dict[str, str]:
        """Return all that is known of it."""
        expected, usual = CAUSES[self.cause]
        told = {"cause": self.cause, "seen": self.seen, "expected": expected}
        return told | {"experiment": self.experiment or usual, "place": self.place or ""}

    def __str__(self) -> str:
        told = self.to_json()
        where = f"  where: {self.place}\n" if self.place else ""
        expected, experiment = told["expected"], told["experiment"]
        return f"{self.cause}: {self.seen}\n  expected: {expected}\n{where}  try: {experiment}"


Findings = Iterator[Finding]
"""What a check yields."""


def ranked(found: Iterable[Finding]) -> list[Finding]:
    """Return findings, each once, the most probable cause first."""
    return sorted(dict.fromkeys(found), key=lambda finding: ORDER.index(finding.cause))


def as_text(found: list[Finding], could_not: Iterable[str] = ()) -> str:
    """Return the report: a line if all is well, else the first cause in full, and the others."""
    could_not = list(could_not)
    well = "no fault found in what could be checked" if could_not else "healthy (no fault found)"
    lines = [f"1. {finding}" for finding in found[:1]] or [f"doctor: {well}"]
    lines += ["Fix this first; it may explain what else was seen:"][: len(found) - 1]
    lines += [f"- {f.cause}: {f.seen}" + f" ({f.place})" * bool(f.place) for f in found[1:]]
    return "\n".join([*lines, *(f"(could not check {reason})" for reason in could_not)])
