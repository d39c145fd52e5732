"""Training: any list of terms, exact to the bit through any interruption."""

import dataclasses
import json
import math
import sys
import types

import numpy as np
import pytest
import torch

from augless import data, losses, models, polar, runs, schemas, storage, text, training
from augless.ranks import ALONE
from small_runs import (
    OBJECTIVES,
    OPTIMIZERS,
    PAIRS,
    SMALL,
    digits,
    everything,
    fit,
    new_run,
    ragged,
    term,
    trainer,
)

CASES = [
    *((model, "law", "sgd") for model in SMALL),
    *(("lstm", objective, "adam") for objective in OBJECTIVES),
    *(("transformer", objective, "momentum") for objective in ("normalised", "wasserstein")),
    *(("lstm", "wasserstein", optimizer) for optimizer in OPTIMIZERS),
]
SETTINGS = {
    "pieces": {"accumulate": 3},
    "tokens": {"batch_by": "tokens", "batch": 45, "per": "token"},
    "patience": {"patience": 1},
    "weights": {"pairs": digits(40, weight=np.linspace(0, 2, 40))},
    "words": {"word_dropout": 0.3},
    "unsorted": {"bucket": 1},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_a_run_stopped_at_every_step_ends_the_same_whatever_the_settings(tmp_path, name):
    knobs = {"terms": OBJECTIVES["normalised"], **SETTINGS[name]}
    whole, pieces = new_run(tmp_path / "whole"), new_run(tmp_path / "pieces")
    fit(whole, trainer(**knobs))
    while not fit(pieces, trainer(**knobs), stop=lambda: True):
        pass
    assert everything(pieces) == everything(whole)


@pytest.mark.parametrize(("model", "objective", "optimizer"), CASES)
def test_a_run_stopped_at_every_step_ends_with_the_same_bits(tmp_path, model, objective, optimizer):
    knobs = {"model": model, "terms": OBJECTIVES[objective], "optimizer": OPTIMIZERS[optimizer]}
    whole = new_run(tmp_path / "whole")
    assert fit(whole, trainer(**knobs))
    pieces = new_run(tmp_path / "pieces")
    sessions = 1
    while not fit(pieces, trainer(**knobs), stop=lambda: True):
        sessions += 1
    assert sessions == 12  # ten steps and two validations
    assert everything(pieces) == everything(whole)


def test_a_session_without_checkpoint_is_begun_anew(tmp_path):
    whole, killed = new_run(tmp_path / "whole"), new_run(tmp_path / "killed")
    fit(whole, trainer())

    class Killed(BaseException):
        pass

    def die():
        raise Killed

    with pytest.raises(Killed):
        fit(killed, trainer(), stop=die)
    fit(killed, trainer())
    assert everything(killed) == everything(whole)


def test_a_finished_run_is_left_alone(tmp_path):
    run = new_run(tmp_path / "run")
    fit(run, trainer())
    before = everything(run)
    assert fit(run, trainer(), validate=None)
    assert everything(run) == before
    assert run.result["steps"] == 10 and run.result["best"]["epoch"] in (1, 2)


def test_the_callers_random_numbers_are_left_alone(tmp_path):
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    fit(new_run(tmp_path / "run"), trainer())
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize("objective", ["plain", "law", "normalised", "wasserstein", "linear"])
@pytest.mark.parametrize("per", ["sentence", "token"])
def test_the_number_of_pieces_of_a_batch_changes_nothing(tmp_path, objective, per):
    weights = np.random.default_rng(1).uniform(0.2, 1, 40)
    trained = []
    for pieces in (1, 3, 8):
        build = models.MODELS["lstm"](**SMALL["lstm"], dropout=0.0)
        one = trainer(
            build=build,
            terms=OBJECTIVES[objective],
            pairs=digits(40, weight=weights),
            precision="float64",
            accumulate=pieces,
            per=per,
        )
        fit(new_run(tmp_path / str(pieces)), one)
        trained.append(torch.cat([p.detach().flatten() for p in one.parameters.values()]))
    assert torch.allclose(trained[0], trained[1], rtol=0, atol=1e-10)
    assert torch.allclose(trained[0], trained[2], rtol=0, atol=1e-10)


@pytest.mark.parametrize("per", ["sentence", "token"])
def test_a_step_follows_the_weighted_mean_of_pairs_and_terms(per):
    """Against autograd on losses taken one pair at a time."""
    weight = np.random.default_rng(2).uniform(0.2, 1, 6)
    pairs = digits(6, weight=weight)
    build = models.MODELS["lstm"](**SMALL["lstm"], dropout=0.0)
    law = polar.WEIGHTINGS["exponential"](unit="absolute", radius=3.0)
    terms = [
        training.Term(weighting=law),
        training.Term(loss=losses.LOSSES["wasserstein"](), scale=0.3),
    ]
    one = trainer(build=build, pairs=pairs, terms=terms, precision="float64", per=per, clip=0)
    before = {k: v.detach().clone() for k, v in one.parameters.items()}
    total, divisors = [torch.zeros((), dtype=torch.float64)] * 2, [0.0, 0.0]
    for i in range(6):
        batch = data.collate(pairs, np.array([i]))
        cross_entropy, distance = losses.evaluate([t.loss for t in terms], one.model(batch), batch)
        scale = float(pairs.weight[i])
        total[0] = total[0] + scale * law.objective(cross_entropy).sum()
        total[1] = total[1] + scale * 0.3 * distance.sum()
        # A sum over tokens is a mean per token; a distance of sentences stays one per sentence.
        divisors[0] += scale * (1 if per == "sentence" else len(pairs.target[i]) + 1)
        divisors[1] += scale
    mean = total[0] / divisors[0] + total[1] / divisors[1]
    gradients = torch.autograd.grad(mean, list(one.parameters.values()))
    one.step(np.arange(6))
    for (name, parameter), gradient in zip(one.parameters.items(), gradients, strict=True):
        assert torch.allclose(parameter, before[name] - gradient, rtol=0, atol=1e-10), name


@pytest.mark.parametrize("per", ["sentence", "token"])
@pytest.mark.parametrize("batch_by", ["sentences", "tokens"])
def test_batches_of_short_sentences_teach_no_more_than_their_share(per, batch_by):
    """The mean gradient of an epoch is that of the corpus' mean loss, however batches are cut."""
    pairs = digits(24)
    build = models.MODELS["lstm"](**SMALL["lstm"], dropout=0.0)
    one = trainer(build=build, pairs=pairs, precision="float64", per=per, batch_by=batch_by, clip=0)
    start = {k: v.detach().clone() for k, v in one.parameters.items()}
    whole = data.collate(pairs, np.arange(24))
    total = losses.CrossEntropy()(one.model(whole), whole).sum()
    mean = total / (24 if per == "sentence" else whole.target_mask.sum())
    expected = torch.autograd.grad(mean, list(one.parameters.values()))
    order = np.argsort(pairs.target.lengths, kind="stable")
    assert pairs.target.lengths.min() < pairs.target.lengths.max()
    batches = np.split(order, 4) if batch_by == "sentences" else np.split(order, [9, 15, 20])
    tokens = [(pairs.target.lengths[rows] + 1).sum() for rows in batches]
    shares = [6 / 24] * 4 if batch_by == "sentences" else np.array(tokens) / sum(tokens)
    summed = [torch.zeros_like(value) for value in start.values()]
    for rows, share in zip(batches, shares, strict=True):
        for name, parameter in one.parameters.items():
            parameter.data.copy_(start[name])
        one.step(rows)
        for i, (name, parameter) in enumerate(one.parameters.items()):
            summed[i] += share * (start[name] - parameter.detach())
    for gradient, of_batches in zip(expected, summed, strict=True):
        assert torch.allclose(of_batches, gradient, rtol=0, atol=1e-10)


def test_a_pair_of_weight_zero_changes_nothing():
    kept = [0, 1, 2, 3]
    weights = []
    for rows, weight in ((kept, [1] * 6), (range(6), [1, 1, 1, 1, 0, 0])):
        build = models.MODELS["lstm"](**SMALL["lstm"], dropout=0.0)
        one = trainer(build=build, pairs=digits(6, weight=weight), precision="float64")
        one.step(np.array(rows))
        weights.append(torch.cat([p.detach().flatten() for p in one.parameters.values()]))
    assert torch.allclose(weights[0], weights[1], rtol=0, atol=1e-12)


def test_a_pair_of_weight_zero_leaves_the_running_means_alone():
    means = []
    for rows, weight in ((4, [1] * 6), (6, [1, 1, 1, 1, 0, 0])):
        build = models.MODELS["lstm"](**SMALL["lstm"], dropout=0.0)
        one = trainer(
            build=build, pairs=digits(6, weight=weight), terms=OBJECTIVES["matched"], clip=0
        )
        for _ in range(3):
            one.step(np.arange(rows))
        means.append(one.criterion.objectives[0].state_dict())
    assert means[0] == pytest.approx(means[1], rel=1e-6)


def test_a_pairs_weight_is_relative_to_the_corpus_and_not_to_its_batch():
    """A batch of weak pairs takes a small step; that of mean weight takes the step of plain."""
    steps = []
    for weight in ([1] * 8, [0.5] * 4 + [1.5] * 4):
        build = models.MODELS["lstm"](**SMALL["lstm"], dropout=0.0)
        one = trainer(build=build, pairs=digits(8, weight=weight), precision="float64", clip=0)
        before = torch.cat([p.detach().flatten() for p in one.parameters.values()])
        one.step(np.arange(4))
        after = torch.cat([p.detach().flatten() for p in one.parameters.values()])
        steps.append(after - before)
    assert torch.allclose(steps[1], 0.5 * steps[0], rtol=0, atol=1e-12)


def test_a_gradient_longer_than_the_clip_is_shortened_to_it_and_counted():
    steps, norms = [], []
    for clip in (0.0, 0.25, 1e9):
        one = trainer(clip=clip, optimizer=training.Sgd(rate=1.0))
        before = torch.cat([p.detach().flatten() for p in one.parameters.values()])
        one.step(np.arange(8))
        after = torch.cat([p.detach().flatten() for p in one.parameters.values()])
        steps.append(after - before)
        norms.append(one.recent.norm)
        assert one.recent.clipped == (clip == 0.25)
    assert norms[0] == norms[1] > 0.25
    assert steps[1].norm().item() == pytest.approx(0.25, rel=1e-4)
    assert torch.allclose(steps[1], steps[0] * 0.25 / norms[0], atol=1e-6)
    assert torch.equal(steps[2], steps[0])


def test_each_terms_share_of_the_gradient_is_that_of_its_own_gradient():
    terms = [term(), term("wasserstein", "exponential", 0.3, unit="absolute"), term("euclidean")]
    knobs = {"precision": "float64", "accumulate": 2, "per": "token", "clip": 0}
    build = models.MODELS["lstm"](**SMALL["lstm"], dropout=0.0)
    one = trainer(build=build, terms=terms, **knobs)
    one.step(np.arange(8))
    norms = []
    for alone in terms:
        other = trainer(build=build, terms=[alone], **knobs)
        other.step(np.arange(8))
        norms.append(other.recent.norm)
    expected = [norm / sum(norms) for norm in norms]
    assert one.recent.mean_shares(3) == pytest.approx(expected, rel=1e-9)


def test_measuring_the_shares_changes_no_bit(tmp_path):
    weights = []
    for every in (1, 1000):
        one = trainer(terms=OBJECTIVES["wasserstein"], log_every=every, accumulate=2)
        fit(new_run(tmp_path / str(every)), one)
        weights.append(torch.cat([p.detach().flatten() for p in one.parameters.values()]))
    assert torch.equal(*weights)


def test_a_term_that_hardly_counts_and_frequent_clipping_are_warned_of(tmp_path):
    terms = [
        term(weighting="exponential"),
        term("wasserstein", scale=1e-6),
        term("r-drop", scale=0),
    ]
    run = new_run(tmp_path / "run")
    fit(run, trainer(terms=terms, clip=0.01))
    for record in run.metrics():
        assert record.clipped == 1.0
        assert sum(one.gradient_share for one in record.terms) == pytest.approx(1)
        if record.kind == "epoch":
            weak, clipping = record.cautions
            assert weak.kind == "weak-term" and weak.term == 1 and weak.share < 0.01
            assert clipping == runs.Caution("clipping", 1.0)
    assert [w.split()[0] for w in run.warnings] == ["term", "100%"]  # said once, not each epoch


def test_cautions_begin_below_a_hundredth_and_above_half():
    law, plain = term(weighting="exponential"), term()
    off = term(scale=0.0)

    def kinds(terms, shares, clipped):
        return [
            (c.kind, c.share, c.term) for c in training.cautions.cautions(terms, shares, clipped)
        ]

    assert kinds([plain, law], [0.99, 0.01], 0.5) == []
    assert kinds([plain, law], [0.995, 0.005], 0.0) == [("weak-term", 0.005, 1)]
    assert kinds([plain, off, law], [0.001, 0.0, None], 0.51) == [
        ("weak-term", 0.001, 0),
        ("clipping", 0.51, None),
    ]
    assert kinds([plain, plain], [0.5, 0.5], 1.0) == []


def test_where_all_is_well_nothing_is_warned_of(tmp_path):
    run = new_run(tmp_path / "run")
    fit(run, trainer(terms=[term(), term("wasserstein", scale=5.0)], clip=0.01))  # nothing weighed
    fit(other := new_run(tmp_path / "other"), trainer(terms=OBJECTIVES["law"], clip=0))
    assert run.warnings == other.warnings == []
    assert all(not record.cautions for record in run.metrics() + other.metrics())


def test_losses_that_compare_passes_see_their_own_dropout_and_others_their_mean():
    build = models.MODELS["lstm"](**SMALL["lstm"], dropout=0.5)
    terms = [term(), term("r-drop")]
    one, seen = trainer(build=build, terms=terms, optimizer=training.Sgd(rate=0.0)), []
    batch = data.collate(PAIRS, np.arange(8))
    call = one.model.forward
    one.model.forward = lambda batch: (seen.append(call(batch)), seen[-1])[1]
    one.step(np.arange(8))
    assert len(seen) == 2 and not torch.equal(seen[0].hidden, seen[1].hidden)
    cross_entropy, apart = losses.evaluate([t.loss for t in terms], seen, batch)
    recent = [tally.summary().loss for tally in one.criterion.recent]
    assert recent == pytest.approx([cross_entropy.mean().item(), apart.mean().item()], rel=1e-4)
    assert apart.min() > 0


def test_without_dropout_passes_agree():
    build = models.MODELS["lstm"](**SMALL["lstm"], dropout=0.0)
    one = trainer(build=build, terms=[term(), term("r-drop")])
    one.step(np.arange(8))
    assert one.criterion.recent[1].loss == 0


@pytest.mark.parametrize("per", ["sentence", "token"])
def test_a_weight_may_follow_from_the_loss_per_token(per):
    law = polar.Exponential(unit="absolute", radius=2.0)
    build = models.MODELS["lstm"](**SMALL["lstm"], dropout=0.0)
    term = training.Term(weighting=law, weighed_by="loss-per-token")
    one = trainer(build=build, terms=[term], precision="float64", per=per, clip=0)
    before = {k: v.detach().clone() for k, v in one.parameters.items()}
    batch = data.collate(PAIRS, np.arange(6))
    tokens = batch.target_mask.sum(1)
    total = losses.CrossEntropy()(one.model(batch), batch)
    length = (PAIRS.target.lengths + 1).mean()
    mean = (law(total / tokens) * total).sum() / (6 if per == "sentence" else 6 * length)
    gradients = torch.autograd.grad(mean, list(one.parameters.values()))
    one.step(np.arange(6))
    for (name, parameter), gradient in zip(one.parameters.items(), gradients, strict=True):
        assert torch.allclose(parameter, before[name] - gradient, rtol=0, atol=1e-10), name
    assert one.criterion.objectives[0].mean_loss == pytest.approx((total / tokens).mean().item())


@pytest.mark.parametrize("per", ["sentence", "token"])
def test_a_law_may_weigh_tokens(per):
    law = polar.Exponential(unit="absolute", radius=2.0)
    build = models.MODELS["lstm"](**SMALL["lstm"], dropout=0.0)
    loss = losses.CrossEntropy(per="token")
    term = training.Term(loss=loss, weighting=law)
    one = trainer(build=build, terms=[term], precision="float64", per=per, clip=0)
    before = {k: v.detach().clone() for k, v in one.parameters.items()}
    batch = data.collate(PAIRS, np.arange(6))
    values = loss(one.model(batch), batch)
    length = (PAIRS.target.lengths + 1).mean()
    mean = (law(values) * values).sum() / (6 if per == "sentence" else 6 * length)
    gradients = torch.autograd.grad(mean, list(one.parameters.values()))
    one.step(np.arange(6))
    for (name, parameter), gradient in zip(one.parameters.items(), gradients, strict=True):
        assert torch.allclose(parameter, before[name] - gradient, rtol=0, atol=1e-10), name
    objective, recent = one.criterion.objectives[0], one.criterion.recent[0]
    assert objective.mean_loss == pytest.approx(values.mean().item())
    assert recent.samples == len(values) and recent.loss == pytest.approx(values.sum().item())
    assert one.record("interval", one.criterion.recent, one.recent).by_token == (0,)


def test_a_token_counts_as_much_as_its_pair():
    law, loss = polar.Exponential(normalise="running-mean"), losses.CrossEntropy(per="token")
    criterion = training.terms.Criterion([training.Term(loss=loss, weighting=law)], memory=100.0)
    build = models.MODELS["lstm"](**SMALL["lstm"], dropout=0.0)
    one = trainer(build=build, terms=[training.Term(loss=loss)])
    weight = torch.tensor([1.0, 0.0, 0.5, 2.0])
    batch = dataclasses.replace(data.collate(PAIRS, np.arange(4)), weight=weight)
    values = loss(one.model(batch), batch)
    counts = weight[batch.target_mask.nonzero()[:, 0]]
    (total,) = criterion([one.model(batch)], batch)
    assert torch.allclose(total, (counts * values).sum()), "weights are one before the first step"
    criterion.step()
    mean = (counts * values).sum() / counts.sum()
    assert criterion.objectives[0].mean_loss == pytest.approx(mean.item(), rel=1e-5)


def test_tokens_are_weighed_by_their_own_loss():
    with pytest.raises(ValueError, match="leave weighed_by out"):
        training.Term(loss=losses.CrossEntropy(per="token"), weighed_by="loss-per-token")


@pytest.mark.parametrize("change", ["seed", "step", "draw"])
def test_dropout_is_keyed_by_seed_and_step_and_draw(change):
    build = models.MODELS["lstm"](**SMALL["lstm"], dropout=0.5)
    batch = data.collate(PAIRS, np.arange(8))

    def hidden(seed=3, step=0, draw=0):
        one = trainer(build=build)
        one.seed, one.at.step = seed, step
        return one.output(batch, draw).hidden

    assert torch.equal(hidden(), hidden())
    assert not torch.equal(hidden(), hidden(**{change: 1}))


def test_words_are_dropped_in_training_only_and_never_from_what_is_predicted():
    one, seen = trainer(word_dropout=0.4), []
    call = one.model.forward
    one.model.forward = lambda batch: (seen.append(batch), call(batch))[1]
    rows = np.arange(40)
    one.step(rows)
    whole, (dropped,) = data.collate(PAIRS, rows), seen
    assert torch.equal(dropped.target, whole.target)
    for read, true in ((dropped.source, whole.source), (dropped.shown, whole.target)):
        changed = read != true
        assert set(read[changed].tolist()) == {text.UNK}
        assert not changed[(true == text.EOS) | (true == text.PAD)].any()
        words = ((true != text.EOS) & (true != text.PAD)).sum()
        assert 0.25 < changed.sum() / words < 0.55
    expected = dropped.shown.roll(1, 1)
    expected[:, 0] = text.BOS
    assert torch.equal(dropped.decoder_input, expected)
    seen.clear()
    training.nats(one.model, PAIRS)
    assert all(batch.shown is None and not (batch.source == text.UNK).any() for batch in seen)


def test_the_papers_schedule_halves_the_rate_each_epoch_after_the_eighth():
    rates = [training.Sgd().rate_at(1, epoch, 99) for epoch in range(1, 13)]
    assert rates == [1.0] * 8 + [0.5, 0.25, 0.125, 0.0625]
    assert training.Sgd(halve_after=0).rate_at(1, 99, 99) == 1.0


def test_adams_rate_rises_to_the_warm_up_and_falls_as_the_inverse_root():
    adam = training.Adam(rate=0.1, warmup=100)
    assert adam.rate_at(50, 1, 999) == pytest.approx(0.05)
    assert adam.rate_at(100, 1, 999) == pytest.approx(0.1)
    assert adam.rate_at(400, 7, 999) == pytest.approx(0.05)
    assert training.Adam(rate=0.1, warmup=0).rate_at(400, 7, 999) == 0.1


def test_a_linear_schedule_rises_and_falls_to_nothing_at_the_last_step():
    adam = training.Adam(rate=0.1, warmup=4, schedule="linear")
    rates = [adam.rate_at(step, 1, 10) for step in range(1, 12)]
    assert rates[:4] == pytest.approx([0.025, 0.05, 0.075, 0.1])
    assert rates[4:10] == pytest.approx([0.1 * left / 7 for left in (6, 5, 4, 3, 2, 1)])
    assert rates[10] == rates[9] > 0
    whole = training.Adam(rate=0.1, warmup=0, schedule="linear")
    assert whole.rate_at(1, 1, 10) == pytest.approx(0.1 * 10 / 11)
    assert training.Adam(rate=0.1, warmup=99, schedule="linear").rate_at(3, 1, 3) < 0.1


def test_the_rate_of_the_schedule_is_the_one_used(tmp_path):
    optimizer = training.Sgd(rate=0.5, halve_after=1)
    one = trainer(optimizer=optimizer, epochs=3)
    seen = {}
    fit(
        new_run(tmp_path / "run"),
        one,
        stop=lambda: seen.update({one.at.epoch: one.optimizer.param_groups[0]["lr"]}),
    )
    assert seen == {1: 0.5, 2: 0.25, 3: 0.125}


def test_a_warm_up_begins_with_its_first_step():
    one = trainer(optimizer=training.Adam(rate=0.1, warmup=10))
    seen = []
    for _ in range(3):
        one.step(np.arange(8))
        seen.append(one.optimizer.param_groups[0]["lr"])
    assert seen == pytest.approx([0.01, 0.02, 0.03])
    assert one.record("interval", one.criterion.recent, one.recent).rate == seen[-1]


def test_the_defaults_are_the_papers_and_vaswanis():
    sgd, adam = training.Sgd(), training.Adam()
    assert (sgd.rate, sgd.momentum, sgd.halve_after) == (1.0, 0.0, 8)
    assert (adam.rate, adam.warmup, adam.beta1, adam.beta2) == (1e-3, 1000, 0.9, 0.98)
    assert adam.epsilon == 1e-9 and training.AdamW().decay == 0.01
    group = adam.build([torch.nn.Parameter(torch.zeros(1))]).param_groups[0]
    assert group["betas"] == (0.9, 0.98) and group["eps"] == 1e-9
    other = training.AdamW(rate=0.5, beta1=0.7, beta2=0.8, epsilon=0.1, decay=0.2)
    group = other.build([torch.nn.Parameter(torch.zeros(1))]).param_groups[0]
    assert [group[k] for k in ("lr", "betas", "eps", "weight_decay")] == [0.5, (0.7, 0.8), 0.1, 0.2]
    group = training.Sgd(rate=0.5, momentum=0.3).build([torch.nn.Parameter(torch.zeros(1))])
    assert group.param_groups[0]["lr"] == 0.5 and group.param_groups[0]["momentum"] == 0.3
    settings = training.Settings()
    assert (settings.epochs, settings.batch, settings.clip, settings.memory) == (12, 64, 5.0, 100)


def test_of_equally_good_models_the_first_is_kept(tmp_path):
    run = new_run(tmp_path / "run")
    fit(run, trainer(epochs=3), validate=lambda model: {"loss": 1.0})
    assert run.result["best"]["epoch"] == 1


def test_the_memory_of_running_means_is_a_setting():
    means = []
    for memory in (1.0, 4.0):
        build = models.MODELS["lstm"](**SMALL["lstm"], dropout=0.0)
        one = trainer(build=build, memory=memory, optimizer=training.Sgd(rate=0.0))
        one.step(np.arange(4))
        first = one.criterion.objectives[0].mean_loss
        one.step(np.arange(4, 8))
        total = one.criterion.recent[0].loss / 4
        second = total - first
        assert one.criterion.objectives[0].mean_loss == pytest.approx(
            first + (second - first) / memory
        )
        means.append(one.criterion.objectives[0].mean_loss)
    assert means[0] != means[1]


def test_logged_weights_are_those_that_were_used_and_lengths_are_of_the_target():
    rows = [np.full(n, 5) for n in (1, 8, 3, 2)]
    pairs = data.Pairs(
        ragged(rows), ragged([np.full(n, 6) for n in (2, 3, 7, 9)]), np.ones(4, "f4")
    )
    law = polar.Uniform(radius=0.5, normalise="running-mean")
    build = models.MODELS["lstm"](**SMALL["lstm"], dropout=0.0)
    one = trainer(
        build=build,
        pairs=pairs,
        terms=[training.Term(weighting=law)],
        optimizer=training.Sgd(rate=0.0),
    )
    for _ in range(3):  # the mean loss, the mean weight, and then the normalised weights
        one.criterion.recent = [training.terms.Tally()]
        one.step(np.arange(4))
    batch = data.collate(pairs, np.arange(4))
    values = losses.CrossEntropy()(one.model(batch), batch).detach()
    objective = one.criterion.objectives[0]
    weights = (law(values, values.mean()) / objective.mean_weight).numpy()
    logged = one.criterion.recent[0].summary()
    assert logged.weight == pytest.approx(1, abs=1e-6)
    assert logged.weight_sd == pytest.approx(weights.std(), rel=1e-4)
    assert logged.weight_spread == pytest.approx(weights.std() / weights.mean(), rel=1e-4)
    expected = np.corrcoef(weights, [3, 4, 8, 10])[0, 1]
    assert logged.weight_length_correlation == pytest.approx(expected, abs=1e-4)


def test_the_spread_of_weights_is_told_apart_within_and_between_batches():
    generator = np.random.default_rng(0)
    batches = [generator.uniform(1, 2, 5), generator.uniform(3, 4, 7), generator.uniform(1, 9, 4)]
    total = training.terms.Tally()
    for weight in batches:
        one = training.terms.Tally()
        for part in np.array_split(weight, 2):  # pieces of a batch
            ones = torch.ones(len(part))
            one.add(ones, torch.tensor(part), ones, ones, ones)
        total = total + one.batch(ALONE)
        assert one.samples == len(weight)
    everything = np.concatenate(batches)
    within = sum(((w - w.mean()) ** 2).sum() for w in batches)
    share = total.summary().weight_within_batches
    assert share == pytest.approx(within / ((everything - everything.mean()) ** 2).sum())
    assert training.terms.Tally().summary().weight_within_batches is None


def test_the_best_model_is_the_one_with_the_best_score_and_waiting_ends_the_run(tmp_path):
    scores = iter([3.0, 1.0, 2.0, 1.5, 9.0])
    kept = []

    def validate(model):
        kept.append({k: v.detach().clone() for k, v in model.named_parameters()})
        return {"loss": next(scores)}

    run = new_run(tmp_path / "run")
    assert fit(run, trainer(epochs=5, patience=2), validate=validate)
    assert run.result["best"]["epoch"] == 2 and run.result["epochs"] == 4
    best = run.best().tensors["model"]
    assert all(torch.equal(best[name], kept[1][name]) for name in best)


def test_a_score_of_which_more_is_better_is_maximised(tmp_path):
    scores = iter([3.0, 1.0])
    run = new_run(tmp_path / "run")
    one, scored = trainer(metric="bleu"), lambda model: {"bleu": next(scores)}
    fit(run, one, validate=scored, higher_is_better=True)
    assert run.result["best"]["epoch"] == 1


def test_of_equal_scores_the_lower_loss_is_kept_and_counts_as_progress(tmp_path):
    losses = iter([5.1, 4.7, 4.2, 4.3])
    run = new_run(tmp_path / "run")
    one = trainer(metric="bleu", epochs=9, patience=1)
    fit(run, one, validate=lambda m: {"loss": next(losses), "bleu": 0.0}, higher_is_better=True)
    assert run.result["best"]["epoch"] == 3 and run.result["epochs"] == 4


@pytest.mark.parametrize(
    ("scores", "best"),
    [([1.5, 0.3, 0.4], 3), ([1.5, 2.1, 0.4], 2), ([2.0, 1.9, 0.4], 3), ([3.0, 2.5, 0.4], 1)],
)
def test_below_the_noise_of_a_score_the_loss_decides(tmp_path, scores, best):
    given = iter(zip(scores, [5.1, 4.7, 4.2], strict=True))
    run = new_run(tmp_path / "run")
    one = trainer(metric="bleu", epochs=3)

    def validate(model):
        return dict(zip(("bleu", "loss"), next(given), strict=True))

    fit(run, one, validate=validate, higher_is_better=True, noise=2.0)
    assert run.result["best"]["epoch"] == best


def test_the_same_score_and_loss_again_is_no_progress(tmp_path):
    run = new_run(tmp_path / "run")
    one = trainer(epochs=9, patience=2)
    fit(run, one, validate=lambda model: {"loss": 2.0})
    assert run.result["best"]["epoch"] == 1 and run.result["epochs"] == 3


def test_a_metric_that_validation_does_not_give_is_named(tmp_path):
    with pytest.raises(ValueError, match="'chrf'; validation gives loss"):
        fit(new_run(tmp_path / "run"), trainer(metric="chrf"))


def test_minutes_are_a_limit_and_the_run_goes_on_later(tmp_path):
    run = new_run(tmp_path / "run")
    assert not fit(run, trainer(), max_minutes=0)
    assert run.last().step == 1
    assert fit(run, trainer())


def test_records_hold_what_is_promised(tmp_path):
    run = new_run(tmp_path / "run")
    seen = []
    terms = [term(weighting="exponential"), term("wasserstein", scale=0.1)]
    fit(run, trainer(terms=terms), on_record=seen.append)
    kinds = [record.kind for record in run.metrics()]
    assert kinds == ["interval", "interval", "epoch", "interval", "interval", "interval", "epoch"]
    interval, epoch = run.metrics()[0], run.metrics()[-1]
    for record in (interval, epoch):
        assert record.rate and record.tokens_per_second and record.samples and record.tokens
        assert record.gradient_norm > 0
    assert set(epoch.scores) == {"loss"} and seen == run.metrics()
    assert epoch.samples == 80 and sum(epoch.terms[0].histogram) == 40
    for one in (*interval.terms, *epoch.terms):
        assert one.weight_min <= one.weight <= one.weight_max
        assert 0 < one.effective_samples <= 1 + 1e-9
        assert -1 <= one.weight_length_correlation <= 1
    law, plain = epoch.terms
    assert 1 < law.weight < 2 and law.weight_length_correlation > 0.5 and law.raised == 1
    assert plain.weight == plain.weight_min == plain.weight_max == 1
    assert plain.effective_samples == 1 and plain.weight_length_correlation == 0


def test_a_line_of_the_log_has_the_keys_that_it_always_had(tmp_path):
    """Runs of earlier versions go on, and end with the bytes that they would have ended with."""
    run = new_run(tmp_path / "run")
    fit(run, trainer(), needed={"reverse model": runs.Spent(seconds=1.5, samples=3)})
    lines = (run.folder / "metrics.jsonl").read_text().splitlines()
    interval, *_, epoch = map(json.loads, lines)
    keys = ["kind", "step", "epoch", "samples", "tokens", "rate", "gradient_norm", "clipped"]
    keys += ["terms", "tokens_per_second"]
    more = ["scores", "seconds", "validation", "needed", "cautions"]
    assert [*interval] == keys and [*epoch] == [*keys, *more]
    assert epoch["needed"] == {"reverse model": {"seconds": 1.5, "samples": 3}}
    assert epoch["cautions"] == [] and epoch["terms"][0]["weight_within_batches"] is None
    term = ["loss", "weight", "weight_sd", "weight_spread", "weight_within_batches", "weight_min"]
    term += ["weight_max", "raised", "effective_samples", "weight_length_correlation", "histogram"]
    term += ["mean_loss", "mean_weight", "gradient_share"]
    assert [*interval["terms"][0]] == [*epoch["terms"][0]] == term


def test_records_say_what_a_run_took(tmp_path, monkeypatch):
    """Steps of two seconds, validations of five, on two threads; a clock that stands still else."""
    clock = [100.0]
    still = types.SimpleNamespace(monotonic=lambda: clock[0], process_time=lambda: clock[0])
    monkeypatch.setattr(training.fitting, "time", still)
    monkeypatch.setattr(training.fitting.torch, "get_num_threads", lambda: 2)
    run, one, seen, progress = new_run(tmp_path / "run"), trainer(), [], []
    take, tokens, norms = one.step, [], []

    def step(rows):
        take(rows)
        clock[0] += 2
        tokens.append(sum(len(PAIRS.target[i]) + 1 for i in rows))
        norms.append(one.epoch.norm - sum(norms[5 * (one.at.epoch - 1) :]))

    def validate(model):
        clock[0] += 5
        return {"loss": 3.0 - one.at.epoch}

    one.step = step
    needed = {"back-translation": {"seconds": 3.0, "samples": 5}}
    fit(
        run,
        one,
        validate=validate,
        needed={what: runs.Spent(**spent) for what, spent in needed.items()},
        on_record=seen.append,
        progress=lambda *said: progress.append(said),
    )
    assert progress == [("training", done, 10) for done in range(1, 11)]
    records = run.metrics()
    assert [r.step for r in records] == [2, 4, 5, 6, 8, 10, 10]
    assert [r.epoch for r in records] == [1, 1, 1, 2, 2, 2, 2]
    assert [r.tokens for r in records] == [sum(tokens[: r.step]) for r in records]
    assert [r.samples for r in records] == [8 * r.step for r in records]
    spans = [(0, 2), (2, 4), (0, 5), (5, 6), (6, 8), (8, 10), (5, 10)]
    for record, (start, end) in zip(records, spans, strict=True):
        speed = sum(tokens[start:end]) / (2 * (end - start))
        assert record.tokens_per_second == pytest.approx(speed)
        first = 4 if end == 6 else start  # what is logged goes on over the end of an epoch
        assert record.gradient_norm == pytest.approx(np.mean(norms[first:end]), rel=1e-6)
    for record, seconds in zip((records[2], records[6]), (15, 30), strict=True):
        assert (record.validation, record.seconds) == (5, seconds / 2)
        assert record.needed == {what: runs.Spent(**spent) for what, spent in needed.items()}
    assert records[0].needed == {} and seen == records
    best = {"step": 10, "epoch": 2, "scores": {"loss": 1.0}}
    assert run.result == {
        "steps": 10,
        "epochs": 2,
        "samples": 80,
        "tokens": sum(tokens),
        "seconds": 15.0,
        "best": best,
        "needed": needed,
    }
    assert training.fitting.worked(torch.device("meta")) == clock[0] == 130


def test_a_message_lists_at_most_64_rows_of_a_batch():
    for rows, end in ((64, "63"), (65, "63, ...")):
        one = trainer(pairs=digits(70))
        with torch.no_grad():
            next(iter(one.parameters.values())).fill_(math.nan)
        with pytest.raises(training.NotFinite) as error:
            one.step(np.arange(rows))
        listed = ", ".join(map(str, range(63)))
        assert str(error.value).endswith(
            f"rows of the batch in the prepared corpus: {listed}, {end}"
        )


def test_a_batch_moves_to_its_device_whole():
    batch = data.collate(PAIRS, np.array([3, 5]))
    assert batch.to(torch.device("cpu")) is batch
    moved = batch.to(torch.device("meta"))
    for name in ("source", "source_mask", "target", "target_mask", "weight"):
        one, other = getattr(batch, name), getattr(moved, name)
        assert (other.device.type, other.shape, other.dtype) == ("meta", one.shape, one.dtype)
    assert moved.index.tolist() == [3, 5] and moved.shown is None
    shown = dataclasses.replace(batch, shown=batch.target).to(torch.device("meta")).shown
    assert (shown.device.type, shown.shape) == ("meta", batch.target.shape)


@pytest.mark.parametrize(
    ("cuda", "mps", "found"),
    [(True, True, "cuda"), (True, False, "cuda"), (False, True, "mps"), (False, False, "cpu")],
)
def test_the_fastest_device_there_is_is_taken(monkeypatch, cuda, mps, found):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)
    assert training.choose_device("auto").type == found
    for name, there in (("cuda", cuda), ("mps", mps), ("cpu", True)):
        if there:
            assert training.choose_device(name).type == name
        else:
            with pytest.raises(ValueError, match=f"there is no {name} device here"):
                training.choose_device(name)


def test_statistics_of_weights_equal_numpys():
    generator = np.random.default_rng(0)
    loss, weight = generator.uniform(1, 9, 300), generator.uniform(0.5, 2, 300)
    length = generator.integers(1, 30, 300).astype(float)
    tally = training.terms.Tally()
    for rows in np.array_split(np.arange(300), 7):
        tally.add(*(torch.tensor(x[rows]) for x in (loss, weight, length, np.ones(300), loss / 3)))
    state = json.dumps(tally.state_dict())
    statistics = schemas.parsed(training.terms.Tally, state).summary()
    assert statistics.loss == pytest.approx(loss.mean())
    assert statistics.weight == pytest.approx(weight.mean())
    assert statistics.weight_sd == pytest.approx(weight.std())
    assert (statistics.weight_min, statistics.weight_max) == (weight.min(), weight.max())
    assert statistics.raised == pytest.approx((weight > 1).mean())
    assert statistics.effective_samples == pytest.approx(
        weight.sum() ** 2 / 300 / (weight**2).sum()
    )
    expected = np.corrcoef(weight, length)[0, 1]
    assert statistics.weight_length_correlation == pytest.approx(expected)
    edges = [*np.arange(0, 4.01, 0.1) * 3.0, np.inf]
    assert statistics.histogram == tuple(np.histogram(loss, edges)[0].tolist())


def test_pairs_count_in_statistics_as_much_as_their_weight_says():
    """As one of weight 3 would, were it there three times; one of weight 1 is not raised."""
    loss, weight = torch.tensor([1.0, 2.0, 4.0]), torch.tensor([1.0, 1.5, 0.5])
    length, count = torch.tensor([3, 5, 9]), torch.tensor([1.0, 3.0, 2.0])
    one, other = training.terms.Tally(), training.terms.Tally()
    one.add(loss, weight, length, count, loss)
    repeated = [x.repeat_interleave(count.long()) for x in (loss, weight, length)]
    other.add(*repeated, torch.ones(6), repeated[0])
    found, expected = one.summary(), other.summary()
    ours, theirs = (vars(one) | {"histogram": 0} for one in (found, expected))
    assert ours == pytest.approx(theirs)
    assert found.raised == pytest.approx(3 / 6) and sum(found.histogram) == 3
    batch = one.batch(ALONE)
    mean = np.average(weight, weights=count)
    assert batch.within == pytest.approx(float((count * (weight - mean) ** 2).sum()))
    third = training.terms.Tally(samples=1 / 3, least=0.1, most=0.1).batch(ALONE)
    assert (third.samples, third.least, third.most) == (1 / 3, 0.1, 0.1)  # to the last bit
    twice = batch + batch
    assert twice.samples == 12 and twice.within == 2 * batch.within
    assert (twice.least, twice.most, twice.histogram[10]) == (0.5, 1.5, 2)
    assert twice.summary().weight_within_batches == pytest.approx(1)


def test_a_tally_of_nothing_is_zero_and_survives_its_state():
    nothing = training.terms.Tally()
    state = nothing.state_dict()
    assert state["least"] is state["most"] is None
    assert schemas.parsed(training.terms.Tally, storage.encoded(state)) == nothing
    summary = nothing.summary()
    assert (summary.loss, summary.weight, summary.effective_samples) == (0, 0, 0)
    assert summary.weight_within_batches is None and sum(summary.histogram) == 0
    for change in ({"samples": -1.0}, {"histogram": [0] * 40}, {"histogram": [-1] + [0] * 40}):
        with pytest.raises(ValueError, match=next(iter(change))):
            schemas.parsed(training.terms.Tally, storage.encoded(state | change))


def test_a_span_adds_up_and_averages_what_was_measured():
    span = training.saved.Span()
    assert span.mean_shares(1) == [1.0] and span.mean_shares(2) == [None, None]
    span.add(2.0, True, [0.25, 0.75])
    span.add(3.0, False, [])
    span.add(4.0, True, [0.5, 0.5])
    assert (span.norm, span.steps, span.clipped, span.measured) == (9.0, 3, 2, 2)
    assert span.mean_shares(2) == [0.375, 0.625]


def test_a_spread_of_weights_does_not_need_a_spread_of_lengths():
    tally = training.terms.Tally()
    weights = torch.tensor([1.0, 1.5, 1.7, 1.9])
    tally.add(torch.ones(4), weights, torch.full((4,), 5), torch.ones(4), torch.ones(4))
    assert tally.summary().weight_sd == pytest.approx(float(weights.std(correction=0)))


def test_validation_is_never_weighted():
    model = trainer().model
    weighted = digits(10, seed=9, weight=np.linspace(0, 5, 10))
    assert np.array_equal(training.nats(model, weighted)[0], training.nats(model, digits(10, 9))[0])


def test_nats_are_those_of_each_pair_alone_and_leave_the_mode():
    one = trainer()
    one.model.train()
    nats, tokens = training.nats(one.model, PAIRS, tokens=40)
    assert one.model.training
    assert tokens.tolist() == [len(PAIRS.target[i]) + 1 for i in range(40)]
    one.model.eval()
    for i in (0, 7, 39):
        batch = data.collate(PAIRS, np.array([i]))
        assert nats[i] == pytest.approx(
            losses.CrossEntropy()(one.model(batch), batch).item(), rel=1e-5
        )


@pytest.mark.parametrize("poison", [math.nan, math.inf])
@pytest.mark.parametrize("step", [1, 4, 7])
def test_a_loss_that_is_not_finite_is_caught_that_step_and_never_saved(tmp_path, poison, step):
    run = new_run(tmp_path / "run")
    one = trainer(save_every=1)

    take = one.step

    def poisoned(rows):
        if one.at.step == step - 1:
            with torch.no_grad():
                next(iter(one.parameters.values())).fill_(poison)
        take(rows)

    one.step = poisoned
    message = f"not finite at step {step} .*\nrows of the batch in the prepared corpus: "
    with pytest.raises(training.NotFinite, match=message):
        fit(run, one)
    last = run.last()
    assert (last.step if last else 0) == step - 1
    assert last is None or all(bool(t.isfinite().all()) for t in last.tensors["model"].values())


@pytest.mark.parametrize(
    ("step", "every", "said"),
    [
        (1, 1, "nothing of the run was saved; try a lower"),
        (4, 1000, "nothing of the run was saved; try a lower"),
        (4, 2, "the checkpoint of step 2 may have diverged too; try a lower"),
        (7, 2, r"the best model, of step 5 \(loss .*go on from it with training.start=.*/run, "),
    ],
)
def test_a_training_that_diverged_says_what_was_saved_and_the_way_on(tmp_path, step, every, said):
    run = new_run(tmp_path / "run")
    for _ in range(2):  # and again, where it goes on from a checkpoint
        one = trainer(save_every=every)
        take = one.step

        def poisoned(rows, one=one, take=take):
            if one.at.step == step - 1:
                with torch.no_grad():
                    next(iter(one.parameters.values())).fill_(math.nan)
            take(rows)

        one.step = poisoned
        with pytest.raises(training.NotFinite, match=said) as caught:
            fit(run, one)
        assert str(caught.value).count("\n") == 2


def test_costs_of_transport_that_are_not_finite_are_caught_as_well():
    one = trainer(terms=OBJECTIVES["wasserstein-alone"])
    with torch.no_grad():
        next(iter(one.parameters.values())).fill_(math.nan)
    with pytest.raises(training.NotFinite, match="what the model computes is not finite at step 1"):
        one.step(np.arange(4))


def test_a_parameter_that_left_the_numbers_is_never_saved(tmp_path):
    run = new_run(tmp_path / "run")
    diverging = training.Sgd()
    object.__setattr__(diverging, "rate", 1e38)  # far beyond what a recipe may say
    one = trainer(save_every=1, optimizer=diverging, clip=0)
    with pytest.raises(training.NotFinite, match="is not finite"):
        fit(run, one)
    last = run.last()
    assert last is None or all(bool(t.isfinite().all()) for t in last.tensors["model"].values())


def test_a_gradient_that_is_not_finite_is_caught_too():
    one = trainer()
    parameter = next(iter(one.parameters.values()))
    parameter.register_hook(lambda gradient: gradient * math.nan)
    before = {k: v.detach().clone() for k, v in one.parameters.items()}
    with pytest.raises(training.NotFinite, match="the gradient is not finite at step 1"):
        one.step(np.arange(4))
    assert all(torch.equal(v, before[k]) for k, v in one.parameters.items())


def test_weights_that_are_not_the_models_are_refused_by_name():
    one = trainer()
    tensors = one.weights()
    name = next(iter(tensors))
    with pytest.raises(runs.BadRun, match=f"parameter {name!r} "):
        training.set_weights(one.model, {k: v for k, v in tensors.items() if k != name})
    with pytest.raises(runs.BadRun, match=f"parameter {name!r} "):
        training.set_weights(one.model, tensors | {name: torch.zeros(1)})


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"epochs": 0}, "epochs is 0"),
        ({"batch": 0}, "batch is 0"),
        ({"keep": 0}, "keep is 0"),
        ({"memory": 0.5}, "memory is 0.5"),
        ({"clip": -1.0}, "clip is -1.0"),
        ({"word_dropout": 1.0}, "word_dropout is 1.0"),
    ],
)
def test_settings_out_of_range_are_refused(knobs, message):
    with pytest.raises(ValueError, match=message):
        training.Settings(**knobs)


@pytest.mark.parametrize("name", training.OPTIMIZERS)
def test_a_rate_out_of_range_is_refused(name):
    with pytest.raises(ValueError, match="rate is -1"):
        training.OPTIMIZERS[name](rate=-1.0)
    with pytest.raises(ValueError, match="rate is nan"):
        training.OPTIMIZERS[name](rate=math.nan)


def test_batches_by_tokens_are_possible(tmp_path):
    run = new_run(tmp_path / "run")
    assert fit(run, trainer(batch=40, batch_by="tokens", epochs=1))
    assert run.result["samples"] == 40


@pytest.mark.parametrize("model", ["lstm", "transformer"])
def test_it_learns_to_reverse_digits(tmp_path, model):
    """A system test: the objective of the paper, trained and validated by the loop."""
    sizes = {"lstm": {"embedding": 32, "hidden": 64}}.get(
        model, {"size": 64, "heads": 4, "feed_forward": 128, "layers": 2}
    )
    one = trainer(
        build=models.MODELS[model](**sizes, dropout=0.0),
        pairs=digits(600, seed=1),
        terms=[term(weighting="exponential")],
        optimizer=training.Adam(rate=0.01 if model == "lstm" else 0.002, warmup=50),
        batch=32,
        epochs=20,
    )
    run = new_run(tmp_path / "run")
    assert fit(run, one)
    assert run.result["best"]["scores"]["loss"] < 0.7  # ln 10 is 2.3


def test_float32_is_the_default_and_bfloat16_is_probed_first(monkeypatch):
    assert training.Settings().precision == "float32"
    cpu = torch.device("cpu")
    training.check_precision("float32", cpu)
    training.check_precision("float64", cpu)

    class Dead:
        returncode = -4

    monkeypatch.setattr(training.loop.subprocess, "run", lambda *_, **__: Dead)
    with pytest.raises(ValueError, match="bfloat16 does not work on this cpu"):
        training.check_precision("bfloat16", cpu)
    with pytest.raises(ValueError, match="mps has no float64"):
        training.check_precision("float64", torch.device("mps"))
    training.check_precision("float32", torch.device("mps"))


def test_what_probes_bfloat16_is_a_program_of_its_own(monkeypatch):
    """Run it here in float64: it multiplies, and goes back through a layer, on the device named."""
    tried = []

    class Fine:
        returncode = 0

    monkeypatch.setattr(
        training.loop.subprocess, "run", lambda command, **_: (tried.append(command), Fine)[1]
    )
    training.check_precision("bfloat16", torch.device("cpu"))
    ((python, option, program),) = tried
    assert (python, option) == (sys.executable, "-c")
    names = {}
    exec(program.replace("bfloat16", "float64"), names)
    assert names["a"].device.type == "cpu" and (names["a"] @ names["a"]).mean() == 64


def test_a_device_that_is_not_there_is_refused():
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match="there is no cuda device here"):
            training.choose_device("cuda")
    assert training.choose_device("cpu").type == "cpu"
    assert training.choose_device("auto").type in ("cpu", "cuda", "mps")


def test_retention_is_a_knob(tmp_path):
    run = new_run(tmp_path / "run")
    fit(run, trainer(save_every=1, keep=3))
    assert len(list(run.folder.glob("checkpoint-*"))) == 3


def test_a_term_weighed_by_something_else_is_refused():
    with pytest.raises(ValueError, match="weighed_by is 'word'"):
        training.Term(weighed_by="word")


def test_every_term_field_is_documented():
    for kind in (training.Term, training.Settings, *training.OPTIMIZERS.values()):
        for knob in dataclasses.fields(kind):
            assert "Annotated[" in str(knob.type), (kind, knob.name)
