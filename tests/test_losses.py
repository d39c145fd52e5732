import dataclasses
import typing

import numpy as np
import ot
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from augless import data, losses, models, transport

LENGTHS = [6, 1, 4, 3]
# With eleven words a threshold of 0.05 and a drop of 0.08 make some tokens sparse and some dense.
SPARSE = {"threshold": 0.05, "drop": 0.08}
DENSE = {"drop": 0.0}
VARIANTS = {
    "cross-entropy": [{}, {"per": "sentence-mean"}, {"smoothing": 0.1}],
    "euclidean": [DENSE, SPARSE, SPARSE | {"temperature": 0.7, "embeddings": "trained"}],
    "wasserstein": [
        DENSE,
        SPARSE,
        SPARSE | {"temperature": 1.3, "embeddings": "trained"},
        DENSE | {"temperature": 0.7, "embeddings": "trained", "root": False},
        SPARSE | {"solver": "diagonal", "cost": "cosine"},
        DENSE | {"ngram": 2},
    ],
}


@dataclasses.dataclass(frozen=True)
class Twice:
    """A loss that compares passes, as one of a single output: the second pass follows from it."""

    loss: losses.Loss

    def __call__(self, output, batch, **knobs):
        return losses.evaluate([self.loss], passes_of(self.loss, output), batch, **knobs)[0]


def passes_of(loss, output):
    others = range(1, loss.passes)
    return [output] + [dataclasses.replace(output, hidden=output.hidden * 0.5) for _ in others]


NAMED = [(name, knobs) for name in losses.LOSSES for knobs in VARIANTS.get(name, [{}])]
every_loss = pytest.mark.parametrize(
    "loss", [pytest.param(Twice(losses.LOSSES[n](**k)), id=f"{n} {k}") for n, k in NAMED]
)
SINGLE = [losses.LOSSES[n](**k) for n, k in NAMED if losses.LOSSES[n].passes == 1]


@pytest.fixture(autouse=True)
def chunks_of_four_tokens(monkeypatch):
    monkeypatch.setattr(losses.reading, "CHUNK_ENTRIES", 44)
    monkeypatch.setattr(losses.reading, "CHUNK_ROWS", 4)


def example(seed=0, dtype=torch.float64, vocabulary=11, lengths=LENGTHS, bias=True):
    draw = torch.Generator().manual_seed(seed)

    def normal(*shape):
        values = torch.randn(*shape, generator=draw, dtype=torch.float64)
        return values.to(dtype).requires_grad_()

    longest = max(lengths)
    output = models.Output(
        normal(len(lengths), longest, 5),
        normal(vocabulary, 5),
        normal(vocabulary) if bias else None,
        normal(vocabulary, 3),
    )
    target = torch.randint(vocabulary, (len(lengths), longest), generator=draw)
    return output, data.Targets(target, torch.arange(longest) < torch.tensor(lengths)[:, None])


def tensors(output):
    return [x for x in vars(output).values() if x is not None]


def gradients(value, output):
    return torch.autograd.grad(
        value, tensors(output), retain_graph=True, allow_unused=True, materialize_grads=True
    )


def close(a, b, tolerance=1e-9):
    for x, y in zip(a, b, strict=True):
        torch.testing.assert_close(x, y, rtol=tolerance, atol=tolerance)


# Every loss


@every_loss
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_loss_is_one_number_per_sample(loss, dtype):
    values = loss(*example(dtype=dtype))
    assert values.shape == (len(LENGTHS),)
    assert values.dtype == dtype
    assert bool((values > 0).all())


@every_loss
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_gives_float32_losses(loss, dtype):
    output, batch = example(dtype=dtype)
    values = loss(output, batch)
    assert values.dtype == torch.float32
    exact = loss(models.Output(*(x.detach().float() for x in tensors(output))), batch)
    close([values], [exact], 1e-6)
    assert all(g.dtype == dtype and g.isfinite().all() for g in gradients(values.sum(), output))


@every_loss
def test_autocast_does_not_reach_a_loss(loss):
    output, batch = example(dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.float16):
        inside = loss(output, batch)
    assert torch.equal(inside, loss(output, batch))


@every_loss
def test_a_sample_never_changes_the_loss_of_another(loss):
    output, batch = example()
    values = loss(output, batch)
    hidden, target = output.hidden.detach().clone(), batch.target.clone()
    hidden[2] = 3 * hidden[2].flip(0) + 1
    target[2] = target[2].flip(0)
    changed = dataclasses.replace(output, hidden=hidden.requires_grad_())
    others = torch.tensor([0, 1, 3])
    again = loss(changed, dataclasses.replace(batch, target=target))
    close([again[others]], [values[others]])
    assert again[2] != values[2]
    before = gradients(values[others].sum(), output)
    after = gradients(again[others].sum(), changed)
    close(after, before)
    assert not before[0][2].any()


@every_loss
def test_padding_never_changes_a_loss(loss):
    output, batch = example()
    hidden = functional.pad(output.hidden.detach(), (0, 0, 0, 3), value=torch.nan)
    mask = functional.pad(batch.target_mask, (0, 3))
    target = functional.pad(batch.target, (0, 3)).masked_fill(~mask, -100)
    hidden = hidden.masked_fill(~mask[:, :, None], torch.nan).requires_grad_()
    padded = dataclasses.replace(output, hidden=hidden)
    values, again = loss(output, batch), loss(padded, data.Targets(target, mask))
    close([again], [values])
    before, after = gradients(values.sum(), output), gradients(again.sum(), padded)
    close([after[0][:, :-3], *after[1:]], before)
    assert not after[0][~mask].any()


@every_loss
def test_padding_may_stand_anywhere(loss):
    output, batch = example()
    places = torch.tensor([1, 2, 4, 5, 7, 9])
    hidden = torch.full((4, 10, 5), torch.nan, dtype=torch.float64)
    hidden = hidden.index_copy(1, places, output.hidden)
    target = torch.full((4, 10), -100).index_copy(1, places, batch.target)
    mask = torch.zeros(4, 10, dtype=torch.bool).index_copy(1, places, batch.target_mask)
    spread = dataclasses.replace(output, hidden=hidden)
    close([loss(spread, data.Targets(target, mask))], [loss(output, batch)])


@every_loss
def test_gradients_are_finite_at_a_perfect_prediction(loss):
    target = torch.tensor([[3, 1, 4], [1, 5, 0]])
    mask = torch.tensor([[True, True, True], [True, True, False]])
    hidden = (1e4 * functional.one_hot(target, 7).float()).requires_grad_()
    table = torch.randn(7, 3, generator=torch.Generator().manual_seed(0)).requires_grad_()
    output = models.Output(hidden, torch.eye(7).requires_grad_(), None, table)
    values = loss(output, data.Targets(target, mask))
    if not getattr(loss.loss, "smoothing", 0):
        # Distances are differences of squares of about 10, so 0 is known to the root of 1e-6.
        close([values], [torch.zeros(2)], 2e-3)
    assert all(g.isfinite().all() for g in gradients(values.sum(), output))


@every_loss
@pytest.mark.parametrize("scale", [0.0, 1e-20, 1e3, 1e9])
def test_losses_are_finite_and_never_negative_at_any_scale_of_the_logits(loss, scale):
    output, batch = example(dtype=torch.float32)
    scaled = dataclasses.replace(output, hidden=output.hidden * scale)
    values = loss(scaled, batch)
    assert bool(values.isfinite().all())
    assert bool((values >= 0).all())
    assert all(g.isfinite().all() for g in gradients(values.sum(), output))


@every_loss
@pytest.mark.parametrize("bias", [True, False])
def test_gradients_are_those_of_finite_differences(loss, bias):
    output, batch = example(lengths=[3, 1, 4], bias=bias)
    if getattr(loss.loss, "embeddings", None) == "detached":
        output = dataclasses.replace(output, embeddings=output.embeddings.detach())

    def function(hidden, projection, embeddings, *bias):
        return loss(models.Output(hidden, projection, *(bias or [None]), embeddings), batch)

    inputs = [output.hidden, output.projection, output.embeddings]
    assert torch.autograd.gradcheck(function, inputs + [output.bias] * bias)


@every_loss
def test_every_sample_may_have_its_own_weight(loss):
    output, batch = example()
    values = loss(output, batch)
    weights = torch.tensor([0.3, 2.0, 0.0, 1.1], dtype=torch.float64)
    together = gradients(weights @ values, output)
    alone = [gradients(value, output) for value in values]
    close(together, [sum(map(torch.mul, weights, column)) for column in zip(*alone, strict=True)])


@every_loss
def test_a_sentence_without_words_costs_nothing(loss):
    output, batch = example()
    mask = batch.target_mask.clone()
    mask[1] = False
    for empty in (mask, torch.zeros_like(mask)):
        values = loss(output, data.Targets(batch.target, empty))
        assert values[1] == 0
        assert all(g.isfinite().all() for g in gradients(values.sum(), output))


@every_loss
def test_a_batch_without_sentences_has_no_losses(loss):
    output, batch = example()
    none = models.Output(output.hidden[:0], *tensors(output)[1:])
    values = loss(none, data.Targets(batch.target[:0], batch.target_mask[:0]))
    assert values.shape == (0,)
    assert not any(g.any() for g in gradients(values.sum(), none))


@every_loss
@pytest.mark.parametrize("keep", [0.0, 0.001, 1.0])
def test_kept_logits_and_second_backward_passes_change_nothing(loss, keep):
    output, batch = example()
    values = loss(output, batch, keep=keep)
    expected = gradients(loss(output, batch).sum(), output)
    for _ in range(2):
        close(gradients(values.sum(), output), expected)


@pytest.mark.parametrize("loss", SINGLE)
def test_gradients_of_gradients_are_refused(loss):
    with pytest.raises(RuntimeError, match="no second derivatives"):
        loss(*example()).sum().backward(create_graph=True)


@pytest.mark.parametrize("kind", losses.LOSSES.values())
def test_every_knob_says_what_it_means(kind):
    for knob in dataclasses.fields(kind):
        assert knob.default is not dataclasses.MISSING
        assert isinstance(typing.get_args(knob.type)[1], str)


@pytest.mark.parametrize(
    ("name", "knobs", "message"),
    [
        (
            "cross-entropy",
            {"per": "word"},
            "per is 'word'; it must be one of sentence-sum,",
        ),
        ("cross-entropy", {"smoothing": 1.5}, "smoothing is 1.5; it must be a number, from 0 to 1"),
        ("euclidean", {"temperature": 0.0}, "temperature is 0.0; it must be a number, from 1e-06"),
        (
            "euclidean",
            {"embeddings": "frozen"},
            "embeddings is 'frozen'; it must be one of",
        ),
        ("euclidean", {"epsilon": 0.0}, "epsilon is 0.0; it must be a number, above 0"),
        ("wasserstein", {"threshold": -1.0}, "threshold is -1.0; it must be a number, from 0 to 1"),
        ("wasserstein", {"drop": 2.0}, "drop is 2.0; it must be a number, from 0 to 1"),
        (
            "wasserstein",
            {"solver": "magic"},
            "solver is 'magic'; it must be one of exact, ipot",
        ),
        (
            "wasserstein",
            {"cost": "taxi"},
            "cost is 'taxi'; it must be one of squared-euclidean",
        ),
        ("wasserstein", {"ngram": 0}, "ngram is 0; it must be a whole number, from 1 to 10,000"),
    ],
)
def test_a_bad_knob_is_refused_by_name(name, knobs, message):
    with pytest.raises(ValueError, match=message):
        losses.LOSSES[name](**knobs)


def test_shapes_that_do_not_fit_are_refused():
    output, batch = example()
    with pytest.raises(ValueError, match="output and batch must have the same"):
        losses.CrossEntropy()(output, data.Targets(batch.target[1:], batch.target_mask[1:]))
    with pytest.raises(ValueError, match="target and target_mask must both be"):
        data.Targets(batch.target, batch.target_mask[1:])
    with pytest.raises(ValueError, match="target_mask must be boolean"):
        data.Targets(batch.target, batch.target_mask.long())
    with pytest.raises(ValueError, match="hidden and projection must be"):
        dataclasses.replace(output, projection=output.projection[:, 1:])
    with pytest.raises(ValueError, match=r"bias must be \(11,\)"):
        dataclasses.replace(output, bias=output.bias[1:])
    with pytest.raises(ValueError, match=r"embeddings must be \(11, D\)"):
        dataclasses.replace(output, embeddings=output.embeddings[1:])


# Several losses at once


def test_losses_evaluated_together_equal_those_evaluated_alone():
    output, batch = example()
    terms = SINGLE
    together = losses.evaluate(terms, output, batch)
    alone = [term(output, batch) for term in terms]
    close(together, alone)
    scales = range(1, len(terms) + 1)
    close(
        gradients(sum(s * v.sum() for s, v in zip(scales, together, strict=True)), output),
        gradients(sum(s * v.sum() for s, v in zip(scales, alone, strict=True)), output),
    )


def test_losses_evaluated_together_pass_over_the_vocabulary_once(monkeypatch):
    passes, chunks = [], losses.reading.logits_of
    monkeypatch.setattr(losses.reading, "logits_of", lambda *a: passes.append(0) or chunks(*a))
    output, batch = example()
    values = losses.evaluate(SINGLE, output, batch)
    assert len(passes) == 1
    sum(v.sum() for v in values).backward()
    assert len(passes) == 2


def test_losses_of_one_pass_average_over_passes_and_others_over_groups_of_them():
    (first, batch), (second, _), (third, _), (fourth, _) = (example(seed) for seed in range(4))
    shared = [dataclasses.replace(first, hidden=x.hidden) for x in (first, second, third, fourth)]
    likelihood, disagreement = losses.CrossEntropy(), losses.RDrop()
    mean, apart = losses.evaluate([likelihood, disagreement], shared, batch)
    close([mean], [sum(likelihood(one, batch) for one in shared) / 4])
    pairs = disagreement(shared[:2], batch), disagreement(shared[2:], batch)
    close([apart], [sum(pairs) / 2])


def test_r_drop_is_the_symmetric_divergence_of_two_passes():
    first, batch = example()
    second = dataclasses.replace(first, hidden=example(seed=1)[0].hidden)
    p, q = (x.logits.log_softmax(2) for x in (first, second))
    both = [functional.kl_div(a, b, reduction="none", log_target=True) for a, b in ((p, q), (q, p))]
    per_token = sum(both).sum(2) / 2 * batch.target_mask
    close([losses.RDrop()([first, second], batch)], [per_token.sum(1)])
    means = per_token.sum(1) / batch.target_mask.sum(1)
    close([losses.RDrop(per="sentence-mean")([first, second], batch)], [means])
    assert not losses.RDrop()([first, first], batch).any()


def test_a_loss_that_compares_passes_refuses_a_single_one():
    with pytest.raises(ValueError, match="RDrop compares 2 forward passes; there is 1"):
        losses.RDrop()(*example())


def test_only_sums_over_tokens_grow_with_the_sentence():
    grows = {name: kind().grows for name, kind in losses.LOSSES.items()}
    assert {name for name, yes in grows.items() if yes} == {"cross-entropy", "r-drop"}
    assert not losses.CrossEntropy(per="sentence-mean").grows
    assert not losses.RDrop(per="sentence-mean").grows
    assert losses.CrossEntropy(per="token").grows, "a sum over samples is one over tokens"


@pytest.mark.parametrize("name", ["euclidean", "wasserstein"])
@pytest.mark.parametrize("knobs", [SPARSE, DENSE])
def test_detached_embeddings_get_no_gradient(name, knobs):
    output, batch = example()
    detached, trained = (
        losses.LOSSES[name](embeddings=e, **knobs)(output, batch) for e in ("detached", "trained")
    )
    assert torch.equal(detached, trained)
    assert not gradients(detached.sum(), output)[3].any()
    assert gradients(trained.sum(), output)[3].all()


def nodes(node):
    """Yield the nodes of a graph of gradients, from its end."""
    yield node
    for before, _ in node.next_functions:
        if before is not None:
            yield from nodes(before)


@pytest.mark.parametrize("keep", [0.0, 1.0])
def test_the_logits_are_stored_only_if_they_are_to_be_kept(keep):
    lengths, vocabulary = [20, 30, 40], 500
    output, batch = example(lengths=lengths, vocabulary=vocabulary, dtype=torch.float32)
    sizes = []

    def note(tensor):
        sizes.append(tensor.numel())
        return tensor

    terms = [losses.CrossEntropy(smoothing=0.1), losses.Wasserstein(threshold=0.01, drop=1)]
    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        values = losses.evaluate(terms, output, batch, keep=keep)
    parameters = sum(x.numel() for x in tensors(output))
    everything = sum(lengths) * vocabulary
    assert (sum(sizes) > everything) == (keep > 0)
    assert keep > 0 or sum(sizes) < everything / 2 + 2 * parameters
    node = next(n for n in nodes(values[0].grad_fn) if hasattr(n, "picked"))
    picked = [x for chunks in node.picked for chunk in chunks for x in vars(chunk).values()]
    assert sum(x.numel() for x in picked) < everything / 4


# Cross-entropy


@pytest.mark.parametrize("per", ["sentence-sum", "sentence-mean"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("bias", [True, False])
def test_cross_entropy_is_that_of_torch(per, smoothing, bias):
    output, batch = example(bias=bias)
    target = batch.target.masked_fill(~batch.target_mask, -100)
    tokens = functional.cross_entropy(
        output.logits.mT, target, reduction="none", label_smoothing=smoothing
    )
    expected = tokens.sum(1)
    if per == "sentence-mean":
        expected = expected / torch.tensor(LENGTHS)
    knobs = {"per": per, "smoothing": smoothing}
    fused = losses.cross_entropy(
        output.hidden, output.projection, output.bias, batch.target, batch.target_mask, **knobs
    )
    plain = losses.cross_entropy_of_logits(output.logits, batch.target, batch.target_mask, **knobs)
    named = losses.LOSSES["cross-entropy"](**knobs)(output, batch)
    close([fused, plain, named], [expected] * 3)
    weights = torch.arange(1.0, 5, dtype=torch.float64)
    for values in (fused, plain, named):
        close(gradients(weights @ values, output), gradients(weights @ expected, output))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_tokens_can_be_samples(smoothing):
    output, batch = example()
    target = batch.target.masked_fill(~batch.target_mask, -100)
    expected = functional.cross_entropy(
        output.logits.mT, target, reduction="none", label_smoothing=smoothing
    )[batch.target_mask]
    loss = losses.CrossEntropy(per="token", smoothing=smoothing)
    by_hand = losses.cross_entropy_of_logits(
        output.logits, batch.target, batch.target_mask, per="token", smoothing=smoothing
    )
    close([loss(output, batch), by_hand], [expected] * 2)
    both = [output, dataclasses.replace(output, hidden=output.hidden * 0.5)]
    apart, sums = losses.RDrop(per="token")(both, batch), losses.RDrop()(both, batch)
    assert loss.by_token and not losses.CrossEntropy().by_token
    owner = batch.target_mask.nonzero()[:, 0]
    close([torch.zeros_like(sums).index_add(0, owner, apart)], [sums])


# Soft predictions


def soft_vectors(output, batch, **knobs):
    soft = losses.Euclidean(**knobs).soft
    return losses.read(output, batch, [soft]).softs[soft]


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_a_dense_soft_prediction_is_the_expected_word_vector(temperature):
    output, batch = example()
    expected = losses.soft_predictions(output.logits, output.embeddings, temperature)
    vectors = soft_vectors(output, batch, temperature=temperature, drop=0.0)
    close([vectors], [expected[batch.target_mask]])


@settings(deadline=None, max_examples=50)
@given(
    st.integers(0, 10**6),
    st.floats(0.1, 10),
    st.floats(0, 0.5),
    st.floats(0, 1),
    st.sampled_from([0.5, 1.0]),
)
def test_a_sparse_soft_prediction_is_as_near_as_it_drops_little(
    seed, sharpness, threshold, drop, temperature
):
    output, batch = example(seed)
    output = dataclasses.replace(output, hidden=sharpness * output.hidden)
    exact = soft_vectors(output, batch, temperature=temperature, drop=0.0)
    near = soft_vectors(output, batch, temperature=temperature, threshold=threshold, drop=drop)
    table = output.embeddings
    radius = (table - table.mean(0)).norm(dim=1).max()
    assert (near - exact).norm(dim=1).max() <= drop * radius + 1e-9


def test_tokens_are_sparse_where_little_is_dropped_and_dense_otherwise():
    output, batch = example()
    vectors = soft_vectors(output, batch, **SPARSE)
    shares = output.logits[batch.target_mask].softmax(1)
    kept = shares * (shares > SPARSE["threshold"])
    dropped = 1 - kept.sum(1, keepdim=True)
    sparse = kept @ output.embeddings + dropped * output.embeddings.mean(0)
    dense = shares @ output.embeddings
    few = dropped <= SPARSE["drop"]
    assert 0.2 < few.double().mean() < 0.8
    close([vectors], [torch.where(few, sparse, dense)])


def confident(vocabulary=8000, size=64, lengths=(12, 20, 9, 16)):
    """Imitate a model in training: Zipfian shares, a tenth of the mass in the tail."""
    draw = torch.Generator().manual_seed(0)
    table = torch.randn(vocabulary, size, generator=draw)
    hidden = 0.25 * torch.randn(len(lengths), max(lengths), size, generator=draw)
    bias = -1.1 * (torch.arange(vocabulary) + 3.0).log()
    target = torch.randint(200, hidden.shape[:2], generator=draw)
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    hidden += 0.1 * table[target]
    output = models.Output(*(x.requires_grad_() for x in (hidden, table, bias, table.clone())))
    return output, data.Targets(target, mask)


@pytest.mark.parametrize("name", ["euclidean", "wasserstein"])
def test_sparse_and_dense_agree_within_half_a_percent_by_default(name):
    output, batch = confident()
    sparse, dense = losses.LOSSES[name](), losses.LOSSES[name](drop=0)
    a, b = sparse(output, batch), dense(output, batch)
    assert (a / b - 1).abs().max() < 0.005
    # Not by being dense, nor by dropping nothing.
    shares = output.logits[batch.target_mask].softmax(1)
    kept = shares > sparse.threshold
    dropped = 1 - (shares * kept).sum(1)
    assert kept.double().mean() < 0.05
    assert 0.1 < dropped.mean() < dropped.max() < sparse.drop
    ga, gb = gradients(a.sum(), output)[0], gradients(b.sum(), output)[0]
    assert (ga - gb).norm() / gb.norm() < 0.05


@pytest.mark.parametrize("name", ["euclidean", "wasserstein"])
def test_sparse_and_dense_agree_where_frequent_words_lie_apart(name):
    # What is dropped goes to the table's mean, so a table whose frequent words are not about that
    # mean is the hard case.
    output, batch = confident()
    table = output.embeddings.detach().clone()
    common = output.logits[batch.target_mask].softmax(1).mean(0).topk(len(table) // 20).indices
    table[common, 0] += 3 * table.norm(dim=1).mean()
    output = dataclasses.replace(output, embeddings=table.requires_grad_())
    a, b = losses.LOSSES[name]()(output, batch), losses.LOSSES[name](drop=0)(output, batch)
    assert (a / b - 1).abs().max() < 0.03
    ga, gb = gradients(a.sum(), output)[0], gradients(b.sum(), output)[0]
    assert (ga - gb).norm() / gb.norm() < 0.15


def test_a_model_that_knows_nothing_yet_is_treated_densely():
    output, batch = confident()
    output = dataclasses.replace(output, hidden=0 * output.hidden, bias=None)
    close([losses.Wasserstein()(output, batch)], [losses.Wasserstein(drop=0)(output, batch)], 1e-6)


@given(st.integers(0, 10**6), st.integers(1, 5), st.integers(1, 300))
def test_entries_above_a_bound_are_found_in_order(seed, rows, columns):
    values = torch.rand(rows, columns, generator=torch.Generator().manual_seed(seed))
    bound = values[:, :1]
    expected = (values > bound).flatten().nonzero()[:, 0]
    assert torch.equal(losses.reading.places_above(values, bound), expected)


# Distances


def bags(seed=0, dtype=torch.float64):
    draw = torch.Generator().manual_seed(seed)
    u, v = (torch.randn(3, n, 4, generator=draw, dtype=dtype) for n in (6, 8))
    u_mask = torch.arange(6) < torch.tensor([6, 2, 4])[:, None]
    v_mask = torch.arange(8) < torch.tensor([8, 5, 4])[:, None]
    return u, v, u_mask, v_mask


def windows(vectors, ngram):
    """Form the n-grams of a sentence (T, D) one by one."""
    padded = functional.pad(vectors, (0, 0, 0, max(ngram - len(vectors), 0)))
    return torch.stack([padded[i : i + ngram].flatten() for i in range(len(padded) - ngram + 1)])


@pytest.mark.parametrize("ngram", [1, 2, 3, 5, 7, 20])
@pytest.mark.parametrize("cost", ["squared-euclidean", "cosine"])
def test_wasserstein_is_that_of_an_independent_library(ngram, cost):
    u, v, u_mask, v_mask = bags()
    root = losses.wasserstein(u, v, u_mask, v_mask, cost=cost, ngram=ngram, epsilon=1e-12)
    value = losses.wasserstein(u, v, u_mask, v_mask, cost=cost, ngram=ngram, root=False)
    for i in range(len(u)):
        a, b = windows(u[i][u_mask[i]], ngram).numpy(), windows(v[i][v_mask[i]], ngram).numpy()
        metric = "sqeuclidean" if cost == "squared-euclidean" else "cosine"
        costs = np.ascontiguousarray(ot.dist(a, b, metric=metric))
        expected = ot.emd2(np.full(len(a), 1 / len(a)), np.full(len(b), 1 / len(b)), costs)
        assert float(value[i]) == pytest.approx(expected, rel=1e-6)
        assert float(root[i]) == pytest.approx(expected**0.5, rel=1e-4)


def test_bags_may_have_garbage_anywhere_in_their_padding():
    u, v, u_mask, v_mask = bags()
    places = torch.tensor([0, 2, 3, 5, 6, 8, 9, 11])
    spread = torch.full((3, 12, 4), torch.nan, dtype=torch.float64).index_copy(1, places, v)
    spread_mask = torch.zeros(3, 12, dtype=torch.bool).index_copy(1, places, v_mask)
    for ngram in (1, 3):
        expected = losses.wasserstein(u, v, u_mask, v_mask, ngram=ngram)
        close([losses.wasserstein(u, spread, u_mask, spread_mask, ngram=ngram)], [expected])


@pytest.mark.parametrize("solver", transport.SOLVERS)
@pytest.mark.parametrize("ngram", [6, 7, 1000])
def test_euclidean_distance_is_wasserstein_with_ngrams_as_long_as_the_sentence(solver, ngram):
    output, batch = example()
    assert ngram >= max(LENGTHS)
    for knobs in (SPARSE, DENSE):
        wasserstein = losses.Wasserstein(ngram=ngram, solver=solver, **knobs)(output, batch)
        close([wasserstein], [losses.Euclidean(**knobs)(output, batch)])
    u, v, mask, _ = bags()
    v = v[:, : u.shape[1]]
    zero = torch.zeros_like(u)
    expected = losses.euclidean(
        *(torch.where(mask[:, :, None], x, zero).flatten(1) for x in (u, v))
    )
    close([losses.wasserstein(u, v, mask, mask, ngram=ngram, solver=solver)], [expected])


def test_inexact_transport_gives_nearly_the_same_loss_and_gradient():
    output, batch = example()
    exact, ipot = (
        losses.Wasserstein(solver=solver, drop=0)(output, batch) for solver in ("exact", "ipot")
    )
    close([ipot], [exact], 1e-2)
    a, b = gradients(ipot.sum(), output)[0], gradients(exact.sum(), output)[0]
    assert (a - b).norm() < 0.05 * b.norm()


def test_euclidean_is_the_distance_of_representations():
    u, v = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(0))
    close([losses.euclidean(u, v, epsilon=1e-12)], [(u - v).norm(dim=1)], 1e-5)
    assert losses.euclidean(u, u).abs().max() == 0


def test_the_root_is_zero_at_zero_and_smooth_there():
    squared = torch.tensor([0.0, 1.0, 1e4], dtype=torch.float64, requires_grad=True)
    values = losses.smooth_root(squared, 1e-6)
    assert values[0] == 0
    close([values[1:]], [squared[1:].sqrt()], 1e-3)
    # As a function of the distance d, squared = d^2, the slope is at most 1 and the curvature
    # at most 1 / sqrt(epsilon).
    distance = torch.linspace(-1e-2, 1e-2, 2001, dtype=torch.float64)
    slope = torch.diff(losses.smooth_root(distance**2, 1e-6)) / 1e-5
    assert slope.abs().max() <= 1
    assert (torch.diff(slope) / 1e-5).abs().max() <= 1e3 * 1.001


def test_a_zero_vector_has_cosine_cost_one():
    u, v = torch.zeros(1, 1, 3, requires_grad=True), torch.ones(1, 1, 3)
    cost = losses.cost_matrix(u, v, "cosine")
    assert cost.item() == 1
    assert torch.autograd.grad(cost.sum(), u)[0].isfinite().all()


def test_a_name_where_a_loss_belongs_is_refused():
    with pytest.raises(TypeError, match=r"'cross-entropy' is no loss.*LOSSES"):
        losses.evaluate(["cross-entropy"], None, None)
    for alone in ("cross-entropy", losses.LOSSES["cross-entropy"]()):
        with pytest.raises(TypeError, match=r"[cC]ross-?[eE]ntropy.* is no list of losses, such"):
            losses.evaluate(alone, None, None)


def test_functions_have_the_defaults_that_they_are_documented_with():
    """Words, squared distances, exact transport, a root; sums over tokens, nothing smoothed."""
    u, v = torch.randn(2, 3, 4, 5, generator=torch.Generator().manual_seed(0)).double()
    mask = torch.arange(4) < torch.tensor([4, 2, 3])[:, None]
    said = {"solver": "exact", "cost": "squared-euclidean", "ngram": 1, "root": True}
    exact = losses.wasserstein(u, v, mask, mask, **said, epsilon=1e-6)
    assert torch.equal(losses.wasserstein(u, v, mask, mask), exact)
    squared = torch.cdist(u, v).square()
    torch.testing.assert_close(losses.cost_matrix(u, v), squared)
    plan = transport.exact(squared, mask, mask).value
    torch.testing.assert_close(exact, (plan + 1e-6).sqrt() - 1e-3)
    flat = [x.flatten(1) for x in (u, v)]
    root = ((flat[0] - flat[1]).square().sum(1) + 1e-6).sqrt() - 1e-3
    torch.testing.assert_close(losses.euclidean(*flat), root)
    logits, target = u, torch.tensor([[0, 1, 2, 3]] * 3)
    nll = functional.cross_entropy(logits.mT, target, reduction="none")
    torch.testing.assert_close(
        losses.cross_entropy_of_logits(logits, target, mask), (nll * mask).sum(1)
    )
    projection = torch.randn(7, 5, generator=torch.Generator().manual_seed(1)).double()
    nll = functional.cross_entropy((u @ projection.T).mT, target, reduction="none")
    torch.testing.assert_close(
        losses.cross_entropy(u, projection, None, target, mask), (nll * mask).sum(1)
    )
    table = torch.randn(5, 2, generator=torch.Generator().manual_seed(2)).double()
    torch.testing.assert_close(losses.soft_predictions(u, table), u.softmax(-1) @ table)


def test_a_chunk_has_as_many_tokens_as_fill_its_memory_and_never_too_few(monkeypatch):
    monkeypatch.setattr(losses.reading, "CHUNK_ENTRIES", 1000)
    monkeypatch.setattr(losses.reading, "CHUNK_ROWS", 8)
    assert [losses.reading.chunk_rows(v) for v in (10, 100, 125, 126, 5000)] == [100, 10, 8, 8, 8]


def test_tokens_move_to_the_front_of_their_rows_and_back():
    mask = torch.tensor([[False, True, True], [False, False, False], [True, False, False]])
    tokens = losses.reading.Tokens.of(mask)
    assert tokens.index.tolist() == [1, 2, 6] and tokens.sentence.tolist() == [0, 0, 2]
    assert tokens.mask.tolist() == [[True, True], [False, False], [True, False]]
    values = torch.arange(9.0).view(3, 3)
    assert tokens.gather(values).tolist() == [1, 2, 6]
    assert tokens.padded(tokens.gather(values)[:, None])[:, :, 0].tolist() == [
        [1, 2],
        [0, 0],
        [6, 0],
    ]
    assert tokens.per("sentence-sum", tokens.gather(values)).tolist() == [3, 0, 6]
    assert tokens.per("sentence-mean", tokens.gather(values)).tolist() == [1.5, 0, 6]
    assert tokens.per("token", tokens.gather(values)).tolist() == [1, 2, 6]
    narrow = losses.reading.Tokens.of(torch.tensor([[True], [False], [True]]))
    assert narrow.index.tolist() == narrow.sentence.tolist() == [0, 2]
    for shape in ((2, 0), (0, 3), (0, 0)):
        empty = losses.reading.Tokens.of(torch.zeros(shape, dtype=torch.bool))
        assert empty.mask.shape == (shape[0], 1) and not empty.mask.any() and not len(empty.index)
