import dataclasses
import itertools
import math
import pickle
import typing

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from augless import data, losses, models, text

VOCABULARY = 13
LENGTHS = [(5, 4), (1, 6), (3, 1), (7, 3)]  # of sources and of targets, their end symbols included
# Small sizes; what is particular about an entry stays.
SMALL = {
    "embedding": 6,
    "hidden": 8,
    "size": 8,
    "heads": 2,
    "feed_forward": 12,
    "layers": 2,
    "dropout": 0.0,
}


def small(name, **knobs):
    kind = models.MODELS[name]
    known = {field.name for field in dataclasses.fields(kind)}
    return kind(**{key: value for key, value in (SMALL | knobs).items() if key in known})


def variants():
    """Yield the entries of the table, and the combinations of their choices."""
    for name in models.MODELS:
        yield name, {}
    choices = ["general", "dot"], [False, True], [False, True], [1, 2]
    for attention, two, feeding, layers in itertools.product(*choices):
        knobs = {"attention": attention, "bidirectional": two, "input_feeding": feeding}
        yield "lstm", {**knobs, "layers": layers}
    for feeding, layers in itertools.product([False, True], [1, 2]):
        knobs = {"shortcut": True, "embedding": 8, "input_feeding": feeding, "layers": layers}
        yield "lstm", knobs
    for norm, layers in itertools.product(["pre", "post"], [1, 3]):
        yield "transformer", {"norm": norm, "layers": layers}
    for name, tie in itertools.product(models.MODELS, ["none", "output", "all"]):
        yield name, {"tie": tie, "embedding": 8}


VARIANTS = list(variants())
every_variant = pytest.mark.parametrize(
    ("name", "knobs"), [pytest.param(n, k, id=f"{n} {k}") for n, k in VARIANTS]
)
every_entry = pytest.mark.parametrize("name", models.MODELS)


def built(name, seed=1, **knobs):
    return small(name, **knobs).build(VOCABULARY, VOCABULARY, seed=seed, shared=True).double()


def batch_of(pairs, pad=text.PAD, columns=0):
    """Pad lists of ids, which have their end symbols, by so many columns more than necessary."""

    def padded(side):
        width = max(map(len, side)) + columns
        ids = torch.tensor([[*words, *[pad] * (width - len(words))] for words in side])
        return ids, torch.arange(width) < torch.tensor([len(words) for words in side])[:, None]

    (source, source_mask), (target, target_mask) = map(padded, zip(*pairs, strict=True))
    return data.Batch(
        source=source,
        source_mask=source_mask,
        target=target,
        target_mask=target_mask,
        weight=torch.ones(len(pairs)),
        index=np.arange(len(pairs)),
    )


def pairs_of(lengths=LENGTHS, seed=0, lowest=4, highest=VOCABULARY):
    draw = np.random.default_rng(seed)

    def sentence(length):
        return [*draw.integers(lowest, highest, length - 1).tolist(), text.EOS]

    return [(sentence(source), sentence(target)) for source, target in lengths]


def by_steps(model, batch, state=None):
    state = state or model.encode(batch.source, batch.source_mask)
    found = []
    for words in batch.decoder_input.unbind(1):
        logits, state = model.step(state, words)
        found.append(logits)
    return torch.stack(found, 1)


def close(a, b, tolerance=1e-9):
    torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


def close_where_real(a, b, mask):
    width = mask.shape[1]
    close(a[:, :width][mask], b[:, :width][mask])


# The contract


@every_variant
def test_reading_at_once_equals_reading_word_by_word(name, knobs):
    model, batch = built(name, **knobs), batch_of(pairs_of())
    output = model(batch)
    assert output.hidden.shape[:2] == batch.target.shape
    close(output.logits, by_steps(model, batch))


@every_variant
def test_no_position_looks_ahead(name, knobs):
    model, batch = built(name, **knobs), batch_of(pairs_of([(4, 6), (6, 6)]))
    before = model(batch).logits
    for place in range(5):
        target = batch.target.clone()
        target[:, place] = 4 + (target[:, place] - 3) % 9  # another word
        after = model(dataclasses.replace(batch, target=target)).logits
        close(after[:, : place + 1], before[:, : place + 1])
        assert (after[:, place + 1] - before[:, place + 1]).abs().amax(1).gt(1e-9).all()


@every_variant
def test_padding_changes_nothing(name, knobs):
    model, pairs = built(name, **knobs), pairs_of()
    batch, wide = batch_of(pairs), batch_of(pairs, pad=7, columns=3)
    before, after = model(batch).logits, model(wide).logits
    close_where_real(after, before, batch.target_mask)
    close_where_real(by_steps(model, wide), before, batch.target_mask)
    assert after.isfinite().all()


@every_variant
def test_no_sentence_sees_another(name, knobs):
    model, pairs = built(name, **knobs), pairs_of()
    together = model(batch_of(pairs)).logits
    turned = model(batch_of(pairs[::-1])).logits.flip(0)
    close_where_real(turned, together, batch_of(pairs).target_mask)
    for row, pair in enumerate(pairs):
        close(model(batch_of([pair])).logits[0], together[row, : len(pair[1])])


@every_variant
def test_states_of_rows_are_selected_and_reordered(name, knobs):
    model, batch = built(name, **knobs), batch_of(pairs_of([(5, 4), (2, 4), (3, 4)]))
    state = model.encode(batch.source, batch.source_mask)
    rows = torch.tensor([2, 0, 0, 1])
    for words in batch.decoder_input.unbind(1):
        logits, after = model.step(state, words)
        selected, _ = model.step(state.select(rows), words[rows])
        close(selected, logits[rows])
        state = after
    # Three hypotheses of one source, after their last words, in another order.
    same = model.encode(batch.source[:1], batch.source_mask[:1]).select(torch.tensor([0, 0, 0]))
    words, order = torch.tensor([4, 5, 6]), torch.tensor([2, 2, 0])
    _, same = model.step(same, words)
    expected, _ = model.step(same.select(order), words)
    found, _ = model.step(same.reorder(order), words)
    close(found, expected)


@every_variant
def test_gradients_reach_every_parameter(name, knobs):
    model, batch = built(name, **knobs), batch_of(pairs_of())
    output = model(batch)
    assert output.embeddings.shape[0] == output.projection.shape[0] == VOCABULARY
    losses.CrossEntropy()(output, batch).sum().backward()
    for label, parameter in model.named_parameters():
        assert parameter.grad.isfinite().all() and parameter.grad.any(), label


@every_variant
def test_words_in_padding_get_no_gradient(name, knobs):
    model = built(name, **{**knobs, "tie": "none"})
    batch = batch_of(pairs_of(highest=12), pad=12, columns=1)
    losses.CrossEntropy()(model(batch), batch).sum().backward()
    assert not model.words.source.grad[12].any() and not model.words.target.grad[12].any()
    assert model.words.source.grad[text.EOS].any() and model.words.target.grad[text.BOS].any()


@every_entry
def test_gradients_are_those_of_finite_differences(name):
    model, batch = built(name), batch_of(pairs_of([(3, 3), (2, 4)]))

    def loss():
        return losses.CrossEntropy()(model(batch), batch).sum()

    loss().backward()
    draw = torch.Generator().manual_seed(0)
    for label, parameter in model.named_parameters():
        direction = torch.randn(parameter.shape, generator=draw, dtype=torch.float64)
        with torch.no_grad():
            values = []
            for sign in (1, -1):
                parameter.add_(direction, alpha=sign * 1e-5)
                values.append(loss())
                parameter.sub_(direction, alpha=sign * 1e-5)
        expected = (values[0] - values[1]) / 2e-5
        found = (parameter.grad * direction).sum()
        assert math.isclose(found, expected, rel_tol=1e-5, abs_tol=1e-5), label


@every_entry
def test_a_source_without_words_is_read_without_harm(name):
    model, batch = built(name), batch_of(pairs_of([(1, 3), (4, 3)]))
    masks = batch.source_mask, torch.tensor([[False] * 4, [True] * 4])
    for mask in masks:
        model.zero_grad()
        output = model(dataclasses.replace(batch, source_mask=mask))
        losses.CrossEntropy()(output, batch).sum().backward()
        assert output.logits.isfinite().all()
        assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


@every_entry
def test_a_model_reads_sentences_longer_than_any_before(name):
    model, batch = built(name), batch_of(pairs_of([(400, 300)]))
    close(model(batch).logits[:, -5:], by_steps(model, batch)[:, -5:])


@every_entry
def test_float32_agrees_with_float64(name):
    # They run on different kernels.
    model, batch = built(name), batch_of(pairs_of())
    output = model(batch)
    losses.CrossEntropy()(output, batch).sum().backward()
    expected = [parameter.grad for parameter in model.parameters()]
    model.zero_grad()
    model.float()
    found = model(batch)
    losses.CrossEntropy()(found, batch).sum().backward()
    close(found.hidden.double(), output.hidden, 1e-4)
    for parameter, gradient in zip(model.parameters(), expected, strict=True):
        close(parameter.grad.double(), gradient, 1e-3)


@every_variant
def test_autocast_to_half_precision_is_survived(name, knobs):
    model, batch = built(name, **knobs).float(), batch_of(pairs_of())
    expected = model(batch).logits
    with torch.autocast("cpu", torch.bfloat16):
        output = model(batch)
        stepwise = by_steps(model, batch)
    losses.CrossEntropy()(output, batch).sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())
    close(output.logits.float(), expected, 0.1)
    close(stepwise.float(), expected, 0.1)


# Building


@every_variant
def test_the_same_seed_gives_the_same_bits(name, knobs):
    first, same, other = built(name, **knobs), built(name, **knobs), built(name, seed=2, **knobs)
    names = dict(first.named_parameters())
    assert names.keys() == first.state_dict().keys()  # tied parameters once, no buffers
    for key, value in same.named_parameters():
        assert torch.equal(value, names[key])
    for key, value in other.named_parameters():
        constant = len(value.unique()) == 1
        assert constant or not torch.equal(value, names[key])


@every_entry
def test_building_leaves_the_global_generator_alone(name):
    state = torch.get_rng_state()
    built(name)
    assert torch.equal(torch.get_rng_state(), state)


@every_variant
def test_the_state_moves_to_another_model(name, knobs):
    first, other, batch = built(name, **knobs), built(name, seed=2, **knobs), batch_of(pairs_of())
    values = {key: value.clone() for key, value in first.named_parameters()}
    other.load_state_dict(values)
    assert torch.equal(other(batch).logits, first(batch).logits)
    assert torch.equal(pickle.loads(pickle.dumps(first))(batch).logits, first(batch).logits)


@every_entry
def test_first_weights_are_as_documented(name):
    knobs = models.MODELS[name]()
    for label, value in knobs.build(500, 400, seed=3).named_parameters():
        if isinstance(knobs, models.Lstm):
            assert 0.099 < value.abs().max() <= 0.1, label
        elif value.dim() == 1:
            assert value.unique().tolist() == [float("norm.weight" in label)], label
        else:
            words = label in ("words.target", "words.own_source")
            std = math.sqrt(1 / knobs.size if words else 2 / sum(value.shape))
            assert math.isclose(value.detach().std(), std, rel_tol=0.02), label


@pytest.mark.parametrize("name", ["lstm", "transformer"])
def test_tied_tables_are_one_parameter(name):
    counts = {}
    for tie in ("none", "output", "all"):
        words = built(name, tie=tie, embedding=8).words
        counts[tie] = len([p for p in words.parameters() if p.dim() == 2])
        assert (words.projection is words.target) == (tie != "none")
        assert (words.source is words.target) == (tie == "all")
    assert counts == {"none": 3, "output": 2, "all": 1}


@every_entry
def test_dropout_is_drawn_in_training_only_and_from_the_global_generator(name):
    model, batch = built(name, dropout=0.3), batch_of(pairs_of())
    with torch.random.fork_rng():
        torch.manual_seed(1)
        first, second = model(batch).hidden, model(batch).hidden
        torch.manual_seed(1)
        assert torch.equal(model(batch).hidden, first) and not torch.equal(first, second)
    model.eval()
    assert torch.equal(model(batch).hidden, built(name).eval()(batch).hidden)


@pytest.mark.parametrize("feeding", [False, True])
def test_an_lstm_drops_word_vectors_layers_and_what_the_output_layer_reads(feeding, monkeypatch):
    """Five places, those between two layers for every word where the last output is fed back."""
    model = built("lstm", dropout=0.3, layers=2, input_feeding=feeding)
    batch, seen = batch_of(pairs_of()), []
    real = functional.dropout

    def dropout(x, share, training):
        seen.append((tuple(x.shape), share, training))
        return real(x, share, training)

    monkeypatch.setattr(models.lstm.functional, "dropout", dropout)
    model.train()
    model(batch)
    (rows, source), target = batch.source.shape, batch.target.shape[1]
    size = model.words.target.shape[1]
    hidden = model.decoder[0].bias.shape[0] // 4
    between = [(rows, hidden)] * target if feeding else [(rows, target, hidden)]
    expected = [(rows, source, size), (rows, source, hidden), (rows, target, size), *between]
    assert [shape for shape, *_ in seen] == [*expected, (rows, target, hidden)]
    assert all(rest == (0.3, True) for _, *rest in seen for rest in [tuple(rest)])


def test_attention_reads_source_words_themselves_only_by_the_shortcut():
    sentence = batch_of([([5, 6, 7, text.EOS], [5, text.EOS])])
    for shortcut in (False, True):
        model = built("lstm", embedding=8, shortcut=shortcut, attention="dot", layers=1)
        for layer in model.encoder[0].directions:
            torch.nn.init.zeros_(layer.input_weight)  # the encoder's states are blind to words
        keys, *_ = model.encode(sentence.source, sentence.source_mask).fixed
        other = batch_of([([8, 6, 7, text.EOS], [5, text.EOS])])
        moved = model.encode(other.source, other.source_mask).fixed[0] - keys
        assert bool(moved[:, 0].abs().sum() > 0) == shortcut and not moved[:, 1:].any()


BAD = [
    ("lstm", {"layers": 0}, "layers is 0; it must be a whole number, from 1 to 256"),
    ("lstm", {"hidden": 2.5}, "hidden is 2.5; it must be a whole number"),
    ("lstm", {"hidden": 7}, "hidden is 7; a bidirectional encoder needs an even number"),
    ("lstm", {"attention": "mlp"}, "attention is 'mlp'; it must be one of general, dot"),
    ("lstm", {"input_feeding": "yes"}, "input_feeding is 'yes'; it must be true or false"),
    ("lstm", {"dropout": 1.0}, "dropout is 1.0; it must be a number, at least 0, below 1"),
    ("lstm", {"dropout": "high"}, "dropout is 'high'; it must be a number"),
    ("lstm", {"init": 0.0}, "init is 0.0; it must be a number, above 0"),
    ("lstm", {"tie": "output", "hidden": 12}, "tie='output' needs hidden as large as embedding"),
    ("lstm", {"shortcut": True, "hidden": 12}, "shortcut needs hidden as large as embedding"),
    ("paper-lstm", {"tie": "some"}, "tie is 'some'; it must be one of none, output, all"),
    ("transformer", {"heads": 3}, "size is 8; 3 heads cannot share it evenly"),
    ("transformer", {"size": 9, "heads": 3}, "size is 9; it must be even"),
    ("paper-transformer", {"norm": "none"}, "norm is 'none'; it must be one of pre, post"),
]


@pytest.mark.parametrize(("name", "knobs", "message"), BAD)
def test_a_bad_knob_is_refused_in_one_line(name, knobs, message):
    with pytest.raises(ValueError, match=message) as caught:
        small(name, **knobs)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("tie", "sizes", "shared", "message"),
    [
        ("all", (9, 8), False, "tie='all' needs a shared vocabulary"),
        ("all", (9, 9), False, "tie='all' needs a vocabulary shared"),
        ("none", (9, 8), True, "a shared vocabulary cannot have two sizes"),
        ("none", (0, 8), False, "each must have at least one"),
    ],
)
def test_vocabularies_that_do_not_fit_are_refused(tie, sizes, shared, message):
    with pytest.raises(ValueError, match=message):
        small("transformer", tie=tie).build(*sizes, seed=0, shared=shared)


@every_entry
def test_every_knob_has_a_meaning_and_a_default(name):
    kind = models.MODELS[name]
    assert issubclass(kind, models.Architecture)
    hints = typing.get_type_hints(kind, include_extras=True)
    for field in dataclasses.fields(kind):
        assert isinstance(hints[field.name].__metadata__[0], str)
        assert field.default is not dataclasses.MISSING


@every_entry
def test_every_knob_reaches_the_model(name):
    # The word vectors and hidden states of the LSTMs are equally large here, so that they may tie.
    base, batch = small(name, embedding=8), batch_of(pairs_of())
    others = {bool: [False, True], float: [0.25], int: [4]}

    def prints(architecture):
        model = architecture.build(VOCABULARY, VOCABULARY, seed=1, shared=True)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            hidden = model(batch).hidden
        shapes = sorted((key, value.shape) for key, value in model.named_parameters())
        return shapes, hidden.tolist()

    before = prints(base)
    for field, kind in typing.get_type_hints(type(base)).items():
        values = others.get(kind) or typing.get_args(kind)
        for value in values:
            if value != getattr(base, field):
                assert prints(dataclasses.replace(base, **{field: value})) != before, field


# Against torch's own


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("two", [False, True])
def test_the_encoder_computes_what_packed_sequences_compute(two, dtype):
    model = built("lstm", bidirectional=two, layers=1).to(dtype)
    layer, batch = model.encoder[0], batch_of(pairs_of())
    oracle = nn.LSTM(6, 4 if two else 8, bidirectional=two, batch_first=True, dtype=dtype)
    with torch.no_grad():
        for one, suffix in zip(layer.directions, ["", "_reverse"], strict=False):
            getattr(oracle, f"weight_ih_l0{suffix}").copy_(one.input_weight)
            getattr(oracle, f"weight_hh_l0{suffix}").copy_(one.hidden_weight)
            getattr(oracle, f"bias_ih_l0{suffix}").copy_(one.bias)
            getattr(oracle, f"bias_hh_l0{suffix}").zero_()
    x = torch.randn(*batch.source.shape, 6, dtype=dtype, generator=torch.Generator().manual_seed(0))
    mine, theirs = (x.clone().requires_grad_() for _ in range(2))
    outputs, h, c = layer.read(mine, batch.source_mask)
    packed = nn.utils.rnn.pack_padded_sequence(
        theirs, batch.source_mask.sum(1), batch_first=True, enforce_sorted=False
    )
    expected, (last_h, last_c) = oracle(packed)
    expected, _ = nn.utils.rnn.pad_packed_sequence(expected, batch_first=True)
    tolerance = 1e-12 if dtype == torch.float64 else 1e-5
    close(outputs, expected, tolerance)
    close(h, torch.cat(last_h.unbind(), 1), tolerance)
    close(c, torch.cat(last_c.unbind(), 1), tolerance)
    (outputs.square().sum() + h.sum() + c.sin().sum()).backward()
    (expected.square().sum() + last_h.sum() + last_c.sin().sum()).backward()
    close(mine.grad, theirs.grad, tolerance)


# Learning

# Narrow layers learn sooner from larger weights.
LEARNING = {"embedding": 48, "hidden": 48, "size": 48, "feed_forward": 96, "layers": 1, "init": 0.3}


def trained(model, batches, steps, rate=0.01):
    optimiser = torch.optim.Adam(model.parameters(), lr=rate)
    model.train()
    for step in range(steps):
        for group in optimiser.param_groups:
            group["lr"] = rate * min(1, (step + 1) / 20) * (1 - step / steps)
        batch = batches(step)
        loss = losses.CrossEntropy()(model(batch), batch).sum() / batch.target_mask.sum()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    model.eval()
    return float(loss.detach())


@torch.no_grad()
def greedy(model, batch):
    state = model.encode(batch.source, batch.source_mask)
    words, found = torch.full((len(batch.source),), text.BOS), []
    for _ in range(batch.target.shape[1]):
        logits, state = model.step(state, words)
        words = logits.argmax(1)
        found.append(words)
    return torch.stack(found, 1)


@every_entry
def test_a_model_overfits_ten_pairs(name):
    draw = np.random.default_rng(3)
    lengths = draw.integers(4, 8, (10, 2)).tolist()
    batch = batch_of(pairs_of(lengths, seed=3))
    model = small(name, **LEARNING).build(VOCABULARY, VOCABULARY, seed=0)
    assert trained(model, lambda _: batch, 100) < 0.05
    assert torch.equal(greedy(model, batch)[batch.target_mask], batch.target[batch.target_mask])


@pytest.mark.parametrize("task", ["copy", "reverse"])
@every_entry
def test_a_model_learns_to_copy_and_to_reverse(name, task):
    draw = np.random.default_rng(4)

    def fresh(_=None):
        digits = [draw.integers(4, 14, draw.integers(3, 6)).tolist() for _ in range(32)]
        turned = [each if task == "copy" else each[::-1] for each in digits]
        pairs = zip(digits, turned, strict=True)
        return batch_of([([*s, text.EOS], [*t, text.EOS]) for s, t in pairs])

    model = small(name, **LEARNING).build(14, 14, seed=0)
    trained(model, fresh, 200)
    batch = fresh()
    right = greedy(model, batch) == batch.target
    assert right[batch.target_mask].double().mean() >= 0.9
