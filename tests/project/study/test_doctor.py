"""The doctor: each cause is planted in a small loop and named first; odd loops are healthy."""

# ruff: noqa: ARG001, ARG005, E731, N812
import contextlib
import copy
import json
import math
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from processes import ROOT
from torch import nn

from cs_basics.run.run import train_run
from cs_basics.study.doctor import Doctor
from cs_basics.study.doctor.curve import divergence, of_curve, overfitting, unlearnt
from cs_basics.study.doctor.log import read_log
from cs_basics.study.doctor.of_run import Examination, of_run
from cs_basics.study.doctor.subject import undisturbed
from cs_basics.study.doctor.trial import last_loss

VOCAB, WIDTH, TIME, ROWS = 24, 32, 16, 6


class Block(nn.TransformerEncoderLayer):
    def __init__(self, loop):
        super().__init__(WIDTH, 1, 64, batch_first=True, norm_first=True)
        self.loop = loop

    def forward(self, x):
        mask = self.loop.mask(torch.ones(x.shape[1], x.shape[1]))
        return super().forward(x, src_mask=mask == 0)


class Model(nn.Module):
    def __init__(self, loop):
        super().__init__()
        self.loop = loop
        self.embed, self.places = nn.Embedding(VOCAB, WIDTH), nn.Embedding(TIME, WIDTH)
        self.blocks = loop.blocks([Block(loop), Block(loop)])
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCAB, bias=False)

    def forward(self, ids, targets=None):
        x = self.embed(ids) + self.places(torch.arange(ids.shape[1]))
        x = x + self.loop.carried(self, x)
        for block in self.blocks:
            x = block(x)
        logits = self.loop.last(self.loop.size * self.head(self.norm(x)))
        if not self.loop.has_own_loss:
            return logits
        if targets is None:
            return logits[:, -1:], None
        return logits, F.cross_entropy(logits.mT, targets)


class Loop:
    """A training program; a test replaces a part of it."""

    updates, size, rate, clip, parts = 24, 1.0, 5e-3, 1.0, 1
    schedule = lambda self, update: self.rate * min(1.0, update / 4)
    rate_of = lambda self, update: self.schedule(update)
    mask = staticmethod(torch.tril)
    last = staticmethod(lambda logits: logits)
    carried = staticmethod(lambda model, x: 0)
    blocks = nn.ModuleList
    zero = lambda self: self.optimizer.zero_grad()
    limit = lambda self: nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
    step = lambda self: self.optimizer.step()
    after = lambda self, update: None
    shift, read = 1, staticmethod(lambda tokens: tokens)
    start = lambda self: torch.randint(len(self.tokens) - TIME - 1, (ROWS, 1))
    evaluate = lambda self: self.loss_on(self.held)
    has_own_loss = False
    optimizer_of = lambda self, model: torch.optim.AdamW(model.parameters(), lr=self.rate)

    def loss_of(self, model, batch):
        return F.cross_entropy(model(batch[0]).flatten(0, 1), batch[1].flatten())

    def batches(self):
        while True:
            places = self.start() + torch.arange(TIME)
            yield self.tokens[places], self.tokens[places + self.shift]

    def loss_on(self, rows, is_training=False):
        self.model.train(is_training)
        with torch.no_grad():
            loss = self.loss_of(self.model, (rows[:, :-1], rows[:, 1:])).item()
        self.model.train()
        return loss

    def run(self):
        torch.manual_seed(7)
        text = torch.randint(VOCAB, (1500,)).tolist()
        for i in range(3, len(text), 2):  # Half of the tokens follow from the one before.
            text[i] = (5 * text[i - 1] + 1) % VOCAB
        self.tokens = self.read(torch.tensor(text[:1300]))
        self.held = torch.tensor(text[1300 : 1300 + 6 * (TIME + 1)]).view(6, -1)
        self.model = Model(self)
        self.optimizer = self.optimizer_of(self.model)
        doctor = Doctor(
            *(self.model, self.loss_of, self.optimizer, self.batches()),
            **{"tokens": self.tokens, "evaluate": self.evaluate, "clip": self.clip},
            **{"schedule": self.schedule, "accumulate": self.parts},
        )
        batches = iter(doctor.batches)
        for update in range(1, self.updates + 1):
            for group in self.optimizer.param_groups:
                group["lr"] = self.rate_of(update)
            self.zero()
            for _ in range(self.parts):
                (doctor.loss_of(self.model, next(batches)) / self.divisor()).backward()
            self.limit()
            self.step()
            self.after(update)
        return doctor

    divisor = lambda self: self.parts


def found(**changes):
    loop = type("Changed", (Loop,), changes)()
    doctor = loop.run()
    findings = doctor.report()
    assert not doctor.loop.could_not
    return [finding.cause for finding in findings]


def summed(self, model, batch):
    return F.cross_entropy(model(batch[0]).flatten(0, 1), batch[1].flatten(), reduction="sum")


def overflowing(self, model, batch):
    logits = model(batch[0])
    return (logits.exp().sum(-1).log() - logits.gather(-1, batch[1][..., None])[..., 0]).mean()


def softened(self, model, batch):
    return F.cross_entropy(model(batch[0]).softmax(-1).flatten(0, 1), batch[1].flatten())


OWN_LOSS = {
    "has_own_loss": True,
    "loss_of": lambda self, model, batch: model(*batch)[1],
}


def without_a_token(self, model, batch):
    return F.cross_entropy(model(batch[0]).flatten(0, 1), batch[1].flatten(), ignore_index=3)


def of_zeros(blocks):
    for p in nn.ModuleList(blocks).parameters():
        p.data *= p.dim() == 1
    return nn.ModuleList(blocks)


def with_the_head_twice(self, model):
    with pytest.warns(UserWarning, match="duplicate"):
        return torch.optim.AdamW([*model.parameters(), model.head.weight])


class Detached(nn.Sequential):
    def forward(self, x):
        return super().forward(x.detach())


class InBfloat16(nn.Sequential):
    def forward(self, x):
        return super().forward(x.bfloat16()).float()


def in_bfloat16(blocks):
    return nn.ModuleList([InBfloat16(*blocks).bfloat16()])


def kept_from_the_last_call(model, x):
    last, model.kept = getattr(model, "kept", 0), x[:1, :1].detach()
    return last


FAULTS = {
    "logits-bounded": {"last": torch.tanh},
    "rows-mixed": {"last": staticmethod(lambda logits: logits - logits.mean(0, keepdim=True))},
    "start-weights": {"blocks": staticmethod(of_zeros)},
    "schedule, of zeros": {"schedule": lambda self, update: 0.0},
    "loss-not-mean, a token is never a target": {
        "loss_of": without_a_token,
        "read": staticmethod(lambda tokens: tokens.where(tokens > 3, 3)),
    },
    "dropout": {
        "updates": 60,
        "share": 0.0,
        "after": lambda self, update: setattr(self, "share", 0.95 * (update > 56)),
        "carried": staticmethod(lambda m, x: F.dropout(x, m.loop.share, m.training) - x),
    },
    "future-leak": {"mask": staticmethod(torch.ones_like)},
    "context-unused": {"mask": staticmethod(lambda ones: torch.eye(len(ones)))},
    "targets-shifted": {"shift": 0},
    "targets-shifted, in a model with a loss of its own": {"shift": 2, **OWN_LOSS},
    "start-loss": {"size": 12.0},
    "no-gradient": {"blocks": staticmethod(lambda blocks: nn.ModuleList([Detached(*blocks)]))},
    "decay, of gains alone": {
        "optimizer_of": lambda self, m: torch.optim.AdamW(
            {"params": p, "weight_decay": 8.0 * (p.dim() == 1)} for p in m.parameters()
        ),
    },
    "loss-not-mean": {"loss_of": summed},
    "loss-precision": {"loss_of": overflowing},
    "loss-precision, a softmax of a softmax": {"loss_of": softened},
    "not-in-optimizer": {"blocks": staticmethod(list)},
    "shared-weights": {"blocks": staticmethod(lambda blocks: nn.ModuleList(blocks[:1] * 2))},
    "no-step": {"step": lambda _: None},
    "in-optimizer-twice": {"optimizer_of": with_the_head_twice},
    "optimizer-setup": {
        "optimizer_of": lambda self, m: torch.optim.AdamW(m.parameters(), maximize=True)
    },
    "decay": {
        "optimizer_of": lambda self, m: torch.optim.AdamW(m.parameters(), weight_decay=100.0)
    },
    "not-zeroed": {"zero": lambda _: None},
    "accumulation": {"parts": 4, "divisor": lambda _: 1, "clip": 100.0},
    "clipping": {"limit": lambda _: None, "clip": 0.1},
    "clipping, before the gradients are scaled back": {
        "divisor": lambda _: 1e-3,
        "step": lambda self: [
            [p.grad.mul_(1e-3) for p in self.model.parameters()],
            self.optimizer.step(),
        ],
    },
    "schedule": {"rate_of": lambda self, update: self.schedule(1)},
    "schedule, most of it at its lowest rate": {
        "updates": 40,
        "schedule": lambda self, update: 5e-3 if update < 12 else 5e-4,
    },
    "precision": {"rate": 1e-4, "blocks": staticmethod(in_bfloat16)},
    "not-finite": {"size": math.nan},
    "rate-too-high": {"rate": 30.0},
    "rate-too-low": {"rate": 1e-7},
    "step-too-small, by the clip": {
        "optimizer_of": lambda self, m: torch.optim.SGD(m.parameters()),
        "rate": 0.3,
        "clip": 1e-4,
        "schedule": lambda self, update: self.rate,
    },
    "step-too-small, by the schedule": {
        "schedule": lambda self, update: 1e-3 if update == 1 else 1e-9
    },
    "train-eval-mode": {"after": lambda self, update: update == 8 and self.model.eval()},
    "train-eval-mode, in an evaluation": {
        "evaluate": lambda self: self.loss_on(self.held, is_training=True)
    },
    "evaluation": {"evaluate": lambda self: self.loss_on(self.tokens[:102].view(6, -1))},
    "evaluation, of ids of another tokenizer": {
        "read": staticmethod(lambda tokens: tokens % 12),
        "evaluate": lambda self: self.loss_on(self.held % 12 + 12),
    },
    "batches-repeat": {"start": lambda _: torch.arange(ROWS)[:, None]},
    "batches-wrong": {"start": lambda self: torch.randint(1000, (1, 1)).expand(ROWS, 1)},
    "token-dtype": {"read": staticmethod(lambda t: torch.stack([t, 0 * t], 1).flatten())},
}


@pytest.mark.parametrize("cause", FAULTS)
def test_a_planted_fault_is_named_first(cause):
    assert found(**FAULTS[cause])[:1] == [cause.partition(",")[0]]


def with_an_infinite_weight(blocks):
    blocks[0].linear1.weight.data[0] = math.inf
    return nn.ModuleList(blocks)


class Ascent(torch.optim.SGD):
    def step(self):
        for p in self.param_groups[0]["params"]:
            p.data += 0.1 * p.grad


@pytest.mark.parametrize(
    ("cause", "changes", "written"),
    [
        ("optimizer-setup", {"optimizer_of": lambda _, m: Ascent(m.parameters())}, Ascent.step),
        ("not-finite", {"blocks": staticmethod(with_an_infinite_weight)}, Block.forward),
    ],
)
def test_a_place_is_in_the_users_code(cause, changes, written):
    (finding,) = type("Changed", (Loop,), changes)().run().report()
    assert finding.cause == cause
    assert finding.place == f"{__file__}:{written.__code__.co_firstlineno}"


def with_a_mask(_, blocks):
    made = nn.ModuleList(blocks)
    made.register_buffer("mask", torch.ones(TIME, TIME, dtype=torch.bool).tril())
    return made


HEALTHY = {
    "a Boolean mask among the buffers": {"blocks": with_a_mask},
    "as it is": {},
    "gradients are accumulated": {"parts": 2},
    "without a warm-up, SGD with momentum": {
        "optimizer_of": lambda self, m: torch.optim.SGD(m.parameters(), momentum=0.9),
        "schedule": lambda self, update: 0.05,
    },
    "a model with a loss of its own": OWN_LOSS,
    "one token only": {"read": staticmethod(torch.zeros_like), "evaluate": lambda _: 0.0},
    "a window of nine": {"mask": staticmethod(lambda ones: ones.tril().triu(-8))},
}


@pytest.mark.parametrize("oddity", HEALTHY)
def test_a_healthy_loop_has_no_findings(oddity):
    assert found(**HEALTHY[oddity]) == []


def test_what_cannot_be_probed_is_said_and_left_as_it_was(capsys):
    doctor = type("Changed", (Loop,), {"carried": staticmethod(kept_from_the_last_call)})().run()
    kept = doctor.loop.model.kept
    assert doctor.report() == []
    assert (
        "the model keeps a state: the same ids, again, give other logits" in capsys.readouterr().out
    )
    assert doctor.loop.model.kept is kept


def test_nothing_is_left_in_a_program_after_the_report_or_an_error():
    class Broken(Loop):
        def loss_of(self, model, batch):
            if self.updates == 0:
                raise ArithmeticError
            return super().loss_of(model, batch)

    reported, broken = Loop(), Broken()
    reported.run().report()
    broken.updates = 0
    doctor = broken.run()
    with pytest.raises(ArithmeticError):
        doctor.loss_of(broken.model, next(doctor.batches))
    for loop in (reported, broken):
        assert not loop.optimizer._optimizer_step_pre_hooks
        assert not loop.optimizer._optimizer_step_post_hooks
        assert not any(m._forward_hooks or m._forward_pre_hooks for m in loop.model.modules())


def test_a_probe_leaves_no_trace():
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    before = copy.deepcopy(model.state_dict())
    optimizer = torch.optim.AdamW(model.parameters())
    state = torch.get_rng_state()
    with undisturbed(model, optimizer):
        model.eval()(torch.randn(5, 3)).sum().backward()
        optimizer.step()
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert model.training
    assert not optimizer.state
    assert model[0].weight.grad is None
    assert torch.equal(state, torch.get_rng_state())


def test_a_watched_loop_ends_with_the_weights_of_one_that_is_not(monkeypatch):
    watched, plain = Loop(), Loop()
    watched.run()
    monkeypatch.setitem(
        Loop.run.__globals__,
        "Doctor",
        lambda *given, **_: SimpleNamespace(loss_of=given[1], batches=given[3]),
    )
    plain.run()
    for one, other in zip(watched.model.parameters(), plain.model.parameters(), strict=True):
        assert torch.equal(one, other)


def test_a_run_that_was_examined_is_the_one_that_was_not(tiny_config, tmp_path):
    seen, plain = (
        train_run(tiny_config.replace(run_dir=tmp_path / str(examine)), examine=examine).loss
        for examine in (Examination(), None)
    )
    assert seen == plain


def test_report_is_written_as_json(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("DOCTOR_JSON", str(tmp_path / "found.json"))
    assert found(size=12.0) == ["start-loss"]
    (finding,) = json.loads((tmp_path / "found.json").read_text())
    assert finding["cause"] == "start-loss"
    assert finding["place"].startswith(__file__)
    assert "not near ln(24) = 3.18" in capsys.readouterr().out


def test_curves_that_part_are_overfitting():
    train = [(step, 3 - step / 50) for step in range(100)]
    valid = [(20, 2.8), (40, 2.5), (60, 2.7), (90, 3.0)]
    assert [f.cause for f in overfitting(train, valid)] == ["overfitting"]
    assert not list(overfitting(train, [(20, 2.8), (60, 2.4), (90, 2.42)]))


def test_a_loss_that_no_text_leaves_is_named():
    assert [f.cause for f in of_curve([], [(10, 4.0), (20, 0.1)], 3.0)] == ["future-leak"]
    assert not [*of_curve([], [(20, 0.2)], 3.0), *of_curve([], [(20, 0.0)], 0.0)]


def test_a_loss_that_climbs_back_is_a_rate_too_high():
    fallen = [(step, 4 - step / 10) for step in range(25)]
    assert not list(divergence(fallen))
    for risen in ([*fallen, *[(25 + i, 4.0) for i in range(9)]], [(1, 6.3), (10, 446.9)]):
        assert [f.cause for f in divergence(risen)] == ["rate-too-high"]


def test_a_run_that_learnt_nothing_is_not_called_healthy():
    fallen, single = [(step, 6.3 - step / 20) for step in range(40)], 5.2
    assert not list(unlearnt(fallen, single))
    for losses in (
        [8.143],
        [6.316, 6.33, 6.31] * 9,
        [6.3, 9.7, 5.3, *[4.77] * 20],
        [6.3, 3.0, 3.1, 2.9, *[4.0] * 20],
        [6.3, *[7.0] * 5, *[4.0] * 20],
    ):
        (reason,) = unlearnt(list(enumerate(losses)), single)
        assert reason.startswith("whether it")


@pytest.mark.parametrize(
    "log",
    [
        "Step,run 7 - train/loss,val_loss\n1,9.5,\n2,6,6\n",
        '{"_step": 1, "loss": 9.5}\n{"_step": 2, "loss": 6, "eval/loss": 6.0, "lr": 0.1}\n',
    ],
)
def test_logs_of_other_programs_are_read(log, tmp_path):
    (tmp_path / "log").write_text(log)
    rows = [{"step": 1, "train/loss": 9.5}, {"step": 2, "train/loss": 6.0, "val/loss": 6.0}]
    assert read_log(tmp_path / "log") == rows
    for broken, said in (("a,b\n1,2\n", "names no step"), ('{"step": 1\n', "after 0 rows")):
        (tmp_path / "log").write_text(broken)
        with pytest.raises(ValueError, match=said):
            read_log(tmp_path / "log")


def test_the_last_weights_of_a_run_tell_of_its_rate(tiny_config, tmp_path, capsys):
    folder = tmp_path / "run"
    train_run(tiny_config.replace(run_dir=folder, lr=1e-7, eval_every=1, max_steps=12))
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
    assert [finding.cause for finding in of_run(folder)] == ["rate-too-low"]
    assert "from the last weights, 16 updates on one batch" in capsys.readouterr().out
    assert before == {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


@pytest.mark.slow
def test_a_submission_takes_the_place_of_the_book(tmp_path):
    attention = tmp_path / "cs_basics/attention.py"
    attention.parent.mkdir()
    source = (ROOT / "cs_basics/attention.py").read_text()

    def of(text):
        attention.write_text(text)
        command = [sys.executable, ROOT / "scripts/doctor.py", "debug", "--submission", tmp_path]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    ill, unfinished = (
        of(source.replace(".tril()", "")),
        of("raise NotImplementedError('attention')"),
    )
    assert ill.returncode == 1, ill.stderr
    assert ill.stdout.startswith("1. future-leak")
    assert f"{attention}:" in ill.stdout
    assert unfinished.returncode == 2
    assert unfinished.stderr.count("\n") == 1


@pytest.mark.parametrize(("evaluated", "causes"), [(3.0, ["dropout"]), (80.0, [])])
def test_dropout_is_blamed_only_where_the_model_is_better_than_a_guess(evaluated, causes):
    update = SimpleNamespace(number=1, loss=5.0, seen=None)
    program = SimpleNamespace(
        updates=8 * [update],
        findings=[],
        inputs=torch.arange(8),
        batch=None,
        bare=nn.Identity(),
        loss_of=lambda model, _: torch.tensor(evaluated + 2 * model.training),
        quiet=contextlib.nullcontext,
        vocab=300,
    )
    assert [found.cause for found in last_loss(program)] == causes
