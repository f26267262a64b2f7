"""The benchmark of the loss after equal time: sweeps, turns, rows, and a worker that trains."""

import importlib
import json
import math
from pathlib import Path

import pytest

from cs_basics.run.corpus import prepare_corpus
from cs_basics.run.folder import RunFolder

ROOT = Path(__file__).parents[3]


@pytest.fixture
def loss(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    monkeypatch.syspath_prepend(str(ROOT / "scripts" / "maintain"))
    return importlib.import_module("benchmarks.loss")


@pytest.fixture
def pretend_race(loss, monkeypatch):
    """Attempts end at once: the nearer the rate to the kind's best, the lower the loss."""
    raced = []

    def race(attempts):
        raced.append(attempts)
        best = dict(zip(loss.KINDS, (6e-3, 1.5e-3, 3e-3), strict=True))
        handicap = dict(zip(loss.KINDS, (1.0, 1.06, 1.04), strict=True))
        return [
            loss.Run(
                attempt,
                [{"elapsed_s": 60 * attempt.minutes, "step": 100, "loss": 2.0}],
                handicap[attempt.kind] + abs(math.log(attempt.lr / best[attempt.kind])),
            )
            for attempt in attempts
        ]

    monkeypatch.setattr(loss, "race", race)
    return raced


def test_each_races_with_the_rate_that_won_its_sweep(loss, pretend_race, tiny_config, tmp_path):
    report = loss.measure((2.0, 4.0), tiny_config)
    sweep, short, long = pretend_race
    assert {(a.kind, a.lr) for a in sweep} == {(k, lr) for k in loss.KINDS for lr in loss.RATES}
    assert {a.minutes for a in sweep} == {loss.SWEEP_SHARE * 4}
    assert len({a.tokens for a in sweep}) == 1
    assert {a.tokens for a in sweep}.isdisjoint(a.tokens for a in (*short, *long))
    for attempts, minutes in ((short, 2.0), (long, 4.0)):
        assert [(a.kind, a.lr, a.minutes) for a in attempts] == [
            ("ours", 6e-3, minutes), ("transformers, AdamW", 1.5e-3, minutes),
            ("transformers, Muon", 3e-3, minutes),
        ]  # fmt: skip
    rows = {row.name: row for row in report.rows}
    assert rows["after 2 min: lead"].ours == pytest.approx(0.04)
    assert rows["after 2 min: lead"].met
    assert rows["after 4 min, transformers, AdamW: validation"].peer == 1.06
    assert len(json.loads(json.dumps(report.details))["races"]) == 2
    document = tmp_path / "performance.md"
    document.write_text(
        f"before\n<!-- {loss.MARK}: begin -->\nold\n<!-- {loss.MARK}: end -->\nend\n"
    )
    report.write(document)
    text = document.read_text()
    assert text.startswith("before\n")
    assert text.endswith("end\n")
    assert "old" not in text
    assert "1.0000 (100 updates, rate 0.006)" in text
    assert "| 0.040 | at least 0.035: met |" in text
    report.draw(tmp_path / "loss.png")
    assert (tmp_path / "loss.png").read_bytes().startswith(b"\x89PNG")


def test_the_validation_text_does_not_choose_the_rates(loss, monkeypatch, tiny_config):
    texts = {}

    def prepare(config, folder):
        texts[str(folder.tokens)] = config.data
        return prepare_corpus(config, folder)

    def race(attempts):
        data = texts[attempts[0].tokens]
        told.append(tuple(path.read_text() for path in (data.train_text, data.valid_text)))
        rows = [{"elapsed_s": 1.0, "step": 1, "loss": 2.0}]
        return [loss.Run(attempt, rows, attempt.lr) for attempt in attempts]

    told = []
    monkeypatch.setattr(loss, "prepare_corpus", prepare)
    monkeypatch.setattr(loss, "race", race)
    whole, valid = tiny_config.data.train_text, tiny_config.data.valid_text
    loss.measure((1.0,), tiny_config)
    (part, tenth), final = told
    assert final == (whole.read_text(), valid.read_text())
    assert len(part) + len(tenth) == len(final[0])
    held = final[0].split("<|endoftext|>")[9::10]
    assert all(story in tenth and story not in part for story in held)


@pytest.mark.parametrize("ours", [1.0, 1.02, 1.06])
def test_a_lead_below_the_goal_is_missed(loss, ours):
    row = [{"step": 1}]
    attempts = [loss.Attempt(kind=k, lr=1, minutes=1, tokens="") for k in loss.KINDS]
    scores = zip(attempts, (ours, 1.07, 1.04), strict=True)
    *others, lead = loss.race_rows([loss.Run(attempt, row, bits) for attempt, bits in scores])
    assert [row.met for row in others] == [None] * 4
    assert lead.met == (ours == 1.0), "the better of the peers counts"


@pytest.mark.parametrize("minutes", [(), (5.0, 0.0), (-1.0,)])
def test_a_time_that_is_none_is_refused(loss, tiny_config, minutes):
    with pytest.raises(ValueError, match="minutes="):
        loss.measure(minutes, tiny_config)


def test_one_text_alone_is_refused_in_one_line(script):
    result = script("maintain/bench", "loss", "--train-text", "here.txt")
    assert result.code == 2
    assert "train_text and valid_text go together" in result.err
    assert "Traceback" not in result.err


@pytest.mark.parametrize("kind", ["ours", "transformers, AdamW", "transformers, Muon"])
def test_a_worker_trains_for_its_time_and_no_longer(loss, tiny_config, monkeypatch, kind):
    if kind != "ours":
        pytest.importorskip("transformers")
    monkeypatch.setattr(loss, "TURN_S", 0.4)
    config = tiny_config.replace(lr=1e-2, order="epochs", schedule="linear", dropout=0.1)
    corpus = prepare_corpus(config, RunFolder(config.run.run_dir))
    config = config.replace(vocab_size=corpus.tokenizer.vocab_size)
    (run,) = loss.race([
        loss.Attempt(kind=kind, lr=1e-2, minutes=1 / 60, settings=config.to_json(),
                     tokens=str(RunFolder(config.run.run_dir).tokens)),
    ])  # fmt: skip
    assert len(run.rows) == 3
    assert 1.0 <= run.rows[-1]["elapsed_s"] < 2.0
    assert run.rows[0]["step"] < run.rows[1]["step"] < run.rows[2]["step"]
    assert run.rows[-1]["loss"] < run.rows[0]["loss"] < math.log(config.model.vocab_size) + 0.5
    assert 0 < run.bits_per_byte < 8


@pytest.mark.usefixtures("loss")
def test_the_clock_stands_still_between_turns(tiny_config, monkeypatch):
    worker = importlib.import_module("benchmarks.loss_worker")
    config = tiny_config
    prepare_corpus(config, RunFolder(config.run.run_dir))
    attempt = worker.Attempt(
        kind="ours", lr=1e-2, minutes=0.001, settings=config.to_json(),
        tokens=str(RunFolder(config.run.run_dir).tokens),
    )  # fmt: skip
    racer = worker.Racer(attempt)
    assert (racer.step, racer.elapsed_s) == (0, 0.0)
    now = iter(range(1000))
    monkeypatch.setattr(worker.time, "perf_counter", lambda: 0.01 * next(now))
    first = racer.run(0.03)
    assert first["elapsed_s"] == pytest.approx(0.03)
    assert racer.run(10)["elapsed_s"] == pytest.approx(0.06, abs=0.011)
    assert all(group["lr"] < 0.2 * 1e-2 for group in racer.optimizer.param_groups), (
        "the schedule ends with the time"
    )


def test_a_rate_that_diverges_ends_only_its_own_training(loss, tiny_config):
    worker = importlib.import_module("benchmarks.loss_worker")
    prepare_corpus(tiny_config, RunFolder(tiny_config.run.run_dir))
    racer = worker.Racer(
        worker.Attempt(
            kind="ours", lr=1e-2, minutes=1.0, settings=tiny_config.to_json(),
            tokens=str(RunFolder(tiny_config.run.run_dir).tokens),
        )
    )  # fmt: skip
    for parameter in racer.model.parameters():
        parameter.data.fill_(math.inf)
    turn = racer.run(10)
    assert (turn["elapsed_s"], turn["loss"]) == (60, math.inf)
    assert racer.bits_per_byte() == math.inf
    attempts = [loss.Attempt(kind="ours", lr=lr, minutes=1, tokens="") for lr in (1.0, 2.0)]
    sweep = [loss.Run(a, [], b) for a, b in zip(attempts, (math.inf, 3.0), strict=True)]
    assert loss.best_rates(sweep) == {"ours": 2.0}


@pytest.mark.usefixtures("loss")
def test_the_peers_muon_has_the_matrices_of_the_blocks_and_adamw_the_rest(tiny_config):
    pytest.importorskip("transformers")
    worker = importlib.import_module("benchmarks.loss_worker")
    config = tiny_config.replace(optimizer="muon", muon_lr_ratio=3.0, weight_decay=0.3)
    model, optimizer, *_ = worker.make_peer("transformers, Muon", config)
    matrices, others = optimizer.param_groups
    assert len(matrices["params"]) == 7 * config.model.num_layers
    assert {id(p) for p in model.parameters()} == {
        id(p) for group in optimizer.param_groups for p in group["params"]
    }
    assert (matrices["lr_ratio"], matrices["weight_decay"]) == pytest.approx((3.0, 0.1))
    before = [group["params"][0].detach().clone() for group in optimizer.param_groups]
    model(input_ids=worker.torch.zeros(1, 2, dtype=int)).logits.sum().backward()
    optimizer.step()
    assert all(
        not worker.torch.equal(old, group["params"][0])
        for old, group in zip(before, (matrices, others), strict=True)
    )


@pytest.mark.usefixtures("loss")
@pytest.mark.parametrize("is_tied", [False, True])
def test_the_peer_ties_its_embeddings_where_ours_does(tiny_config, is_tied):
    pytest.importorskip("transformers")
    worker = importlib.import_module("benchmarks.loss_worker")
    peer, *_ = worker.make_peer("transformers, AdamW", tiny_config.replace(tie_embeddings=is_tied))
    assert (peer.lm_head.weight is peer.model.embed_tokens.weight) == is_tied
