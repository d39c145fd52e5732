import dataclasses
import itertools
import math
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from augless import data, decoding, models, text

EOS, UNK = text.EOS, text.UNK
SEARCHES = [
    decoding.Greedy(max_extra=6),
    decoding.Beam(size=4, n_best=3, max_extra=6),
    decoding.Beam(size=5, n_best=2, length_penalty=0.0, max_ratio=0.5, max_extra=3),
    decoding.Sampling(n_best=2, max_extra=6),
    decoding.Sampling(temperature=0.7, top_k=4, top_p=0.9, seed=3, max_extra=6),
]
KNOBS = {
    "lstm": {"embedding": 6, "hidden": 6, "init": 2.0},
    "paper-lstm": {"embedding": 6, "hidden": 6, "init": 2.0},
    "transformer": {"size": 8, "heads": 2, "feed_forward": 12, "layers": 2},
    "paper-transformer": {"size": 8, "heads": 2, "feed_forward": 12, "layers": 2},
}
every_search = pytest.mark.parametrize("search", SEARCHES, ids=lambda one: type(one).__name__)
every_model = pytest.mark.parametrize("name", ["markov", *models.MODELS])


class Markov(models.Model):
    """Logits by the first source id, the position (up to 3) and the last word."""

    def __init__(self, table):
        super().__init__()
        self.table = torch.nn.Parameter(table)  # (source ids, positions, V, V)
        self.rows = []

    def forward(self, batch):
        before = batch.decoder_input
        positions = torch.arange(before.shape[1]).clamp(max=self.table.shape[1] - 1)
        logits = self.table[batch.source[:, :1], positions[None], before]
        size = logits.shape[2]
        identity = torch.eye(size, dtype=logits.dtype)
        return models.Output(logits, identity, None, identity)

    def encode(self, source, source_mask):
        return models.State((source[:, 0],), (torch.zeros_like(source[:, 0]),))

    def step(self, state, words):
        self.rows.append(len(words))
        (first,), (position,) = state.fixed, state.moving
        at = position.clamp(max=self.table.shape[1] - 1)
        return self.table[first, at, words], models.State(state.fixed, (position + 1,))


def markov(seed=0, vocabulary=20, spread=2.0, sources=20):
    draw = torch.Generator().manual_seed(seed)
    shape = sources, 4, vocabulary, vocabulary
    return Markov(spread * torch.randn(shape, generator=draw, dtype=torch.float64))


def constant(logits):
    """Return a model that always gives these log-probabilities."""
    row = torch.tensor(logits, dtype=torch.float64)
    return Markov(row.expand(20, 1, len(row), -1).clone())


def built(name, seed=0, vocabulary=20):
    if name == "markov":
        return markov(seed, vocabulary)
    model = models.MODELS[name](**KNOBS.get(name, {})).build(vocabulary, vocabulary, seed=seed)
    draw = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():  # far from uniform, so that searches differ
        noise = torch.randn(parameter.shape, generator=draw)
        parameter.data += 0.5 * noise
    return model.double()


def sources(lengths, seed=0, vocabulary=20, padding=0):
    draw = torch.Generator().manual_seed(seed)
    width = max(lengths) + padding
    ids = torch.randint(3, vocabulary, (len(lengths), width), generator=draw)
    mask = torch.arange(width) < torch.tensor(lengths)[:, None]
    ids[torch.arange(len(lengths)), torch.tensor(lengths) - 1] = EOS
    return ids, mask


def assert_same(searched, wanted):
    assert [[h.ids for h in s] for s in searched] == [[h.ids for h in s] for s in wanted]
    for a, b in zip(itertools.chain(*searched), itertools.chain(*wanted), strict=True):
        assert a.finished == b.finished
        assert a.log_probability == pytest.approx(b.log_probability, abs=1e-9)
        assert a.score == pytest.approx(b.score, abs=1e-9)


# Every search over every model


def cases(name):
    """Yield models, some of which end soon and some never, with a batch for each."""
    for seed, vocabulary in [(0, 20), (1, 8), (2, 6)]:
        yield built(name, seed, vocabulary), *sources([7, 2, 5, 9, 3, 1, 6], seed, vocabulary)


@every_model
@every_search
def test_padding_and_batch_size_change_no_output(name, search):
    seen = set()
    for model, ids, mask in cases(name):
        together = search.search(model, ids, mask)
        seen |= {h.ids for s in together for h in s}
        for order in ([5, 0, 3], [1], [6, 2, 4]):
            width = int(mask[order].sum(1).max())
            alone = search.search(model, ids[order, :width], mask[order, :width], order)
            assert_same(alone, [together[i] for i in order])
        wide = torch.cat([ids, torch.full((7, 4), 5)], 1)
        padded = search.search(model, wide, torch.cat([mask, torch.zeros(7, 4) > 0], 1))
        assert_same(padded, together)
    assert len(seen) > 4


@every_model
@every_search
def test_log_probabilities_are_those_of_teacher_forcing(name, search):
    ends = set()
    for model, ids, mask in cases(name):
        searched = search.search(model, ids, mask)
        model.eval()
        for row, hypotheses in enumerate(searched):
            for h in hypotheses:
                ends.add(h.finished)
                target = torch.tensor([[*h.ids, *([EOS] if h.finished else [])]])
                batch = data.Batch(
                    target=target,
                    target_mask=torch.ones_like(target, dtype=torch.bool),
                    source=ids[row : row + 1],
                    source_mask=mask[row : row + 1],
                    weight=torch.ones(1),
                    index=np.array([row]),
                )
                scores = model(batch).logits.log_softmax(2).gather(2, target[:, :, None])
                assert h.log_probability == pytest.approx(scores.sum().item(), abs=1e-9)
                power = getattr(search, "length_penalty", 0.0)
                assert h.score == pytest.approx(h.log_probability / target.shape[1] ** power)
    assert True in ends


@every_model
@every_search
def test_outputs_keep_to_their_limits_and_to_words(name, search):
    ids, mask = sources([7, 2, 5, 9, 3])
    searched = search.search(built(name), ids, mask)
    limits = (search.max_ratio * mask.sum(1) + search.max_extra).long().tolist()
    for hypotheses, limit in zip(searched, limits, strict=True):
        assert len(hypotheses) == getattr(search, "n_best", 1)
        for h in hypotheses:
            assert len(h.ids) < limit if h.finished else len(h.ids) == limit
            assert set(h.ids).isdisjoint({text.PAD, text.BOS, EOS})


@every_model
def test_beam_1_is_greedy(name):
    for seed in range(5):
        model, batch = built(name, seed), sources([7, 2, 5, 9, 3, 4, 8], seed)
        beam = decoding.Beam(size=1).search(model, *batch)
        greedy = decoding.Greedy().search(model, *batch)
        for (b,), (g,) in zip(beam, greedy, strict=True):
            assert (b.ids, b.finished) == (g.ids, g.finished)
            assert b.log_probability == pytest.approx(g.log_probability, abs=1e-9)


@every_model
def test_a_search_leaves_the_model_as_it_was(name):
    model, batch = built(name), sources([4, 2])
    part = [*model.modules()][-1]
    model.train()
    part.eval()
    modes = [module.training for module in model.modules()]
    state = {key: value.clone() for key, value in model.state_dict().items()}
    for search in SEARCHES:
        before = torch.random.get_rng_state()
        search.search(model, *batch)
        assert torch.equal(before, torch.random.get_rng_state())
    assert [module.training for module in model.modules()] == modes
    assert all(torch.equal(value, state[key]) for key, value in model.state_dict().items())
    ids, mask = batch
    pairs = data.Batch(ids, mask, ids, mask, torch.ones(2), np.arange(2))
    model(pairs).logits.sum().backward()  # nothing made by the search is in its way


@every_search
def test_a_model_in_half_precision_is_scored_in_single(search):
    model = markov().bfloat16()
    ids, mask = sources([3, 2])
    for h in itertools.chain(*search.search(model, ids, mask)):
        assert math.isfinite(h.log_probability)


@every_search
def test_no_sentences_have_no_outputs(search):
    empty = torch.zeros((0, 3), dtype=torch.long), torch.zeros((0, 3), dtype=torch.bool)
    assert search.search(markov(), *empty) == []


@every_search
def test_bad_sources_and_damaged_models_are_refused_in_one_line(search):
    ids, mask = sources([3, 2])
    mask[1] = False
    with pytest.raises(ValueError, match=r"^a source sentence has no ids$"):
        search.search(markov(), ids, mask)
    with pytest.raises(ValueError, match=r"^source, mask, index must be .* not .*$"):
        search.search(markov(), ids, mask[:1])
    ids, mask = sources([3, 2])
    with pytest.raises(FloatingPointError, match=r"^the model gives probabilities that are not"):
        search.search(constant([0.0, 0, 0, math.nan, 0]), ids[:, :1].clamp(max=3), mask[:, :1])


# Beam


def enumerated(model, source, limit, power):
    """Return all finished outputs of one sentence, scored one by one, the best first."""
    finished = []
    size = model.table.shape[2]

    def go(ids, total):
        last = ids[-1] if ids else text.BOS
        row = model.table[source[0], min(len(ids), 3), last].log_softmax(0)
        end = total + row[EOS].item()
        finished.append((end / (len(ids) + 1) ** power, ids))
        if len(ids) + 1 < limit:
            for word in range(UNK, size):
                go((*ids, word), total + row[word].item())

    go((), 0.0)
    return sorted(finished, key=lambda one: -one[0])


@pytest.mark.parametrize("power", [0.0, 0.6, 1.0, 2.5])
def test_a_wide_beam_finds_the_best_of_all_outputs(power):
    search = decoding.Beam(size=1_500, length_penalty=power, n_best=30, max_ratio=0, max_extra=5)
    for seed in range(6):
        model = markov(seed, vocabulary=7, spread=1.0)  # four words: 341 outputs of up to 4
        ids, mask = sources([2, 4], seed, vocabulary=7)
        for row, hypotheses in enumerate(search.search(model, ids, mask)):
            best = enumerated(model, ids[row], 5, power)
            assert [h.ids for h in hypotheses] == [ids for _, ids in best[:30]]
            wanted = [score for score, _ in best[:30]]
            assert [h.score for h in hypotheses] == pytest.approx(wanted)


def plain_beam(model, source, limit, size, power):
    """Search for one sentence as a book has it: lists, and no early stop."""
    beam, ended = [(0.0, ())], []
    for length in range(1, limit + 1):
        grown = []
        for total, ids in beam:
            row = model.table[source[0], min(len(ids), 3), ids[-1] if ids else text.BOS]
            row = row.log_softmax(0).tolist()
            grown += [(total + row[w], (*ids, w)) for w in range(EOS, len(row))]
        grown = sorted(grown, key=lambda one: -one[0])[: size - len(ended)]
        ended += [(t / length**power, ids[:-1], True) for t, ids in grown if ids[-1] == EOS]
        beam = [one for one in grown if one[1][-1] != EOS]
    ended += [(t / limit**power, ids, False) for t, ids in beam]
    return sorted(ended, key=lambda one: (not one[2], -one[0]))


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    size=st.integers(1, 6),
    n_best=st.integers(1, 6),
    power=st.sampled_from([0.0, 0.5, 1.0, 1.7]),
    ends=st.sampled_from([-4.0, -1.0, 1.0]),
)
def test_a_batched_beam_that_stops_early_is_a_plain_beam(seed, size, n_best, power, ends):
    model = markov(seed)
    model.table.data[:, :, :, EOS] += ends
    ids, mask = sources([3, 1, 5, 2], seed)
    n_best = min(size, n_best)
    search = decoding.Beam(size=size, n_best=n_best, length_penalty=power, max_extra=3)
    for row, hypotheses in enumerate(search.search(model, ids, mask)):
        limit = 2 * int(mask[row].sum()) + 3
        wanted = plain_beam(model, ids[row], limit, size, power)[:n_best]
        assert [(h.ids, h.finished) for h in hypotheses] == [(i, f) for _, i, f in wanted]
        assert [h.score for h in hypotheses] == pytest.approx([s for s, _, _ in wanted])


def test_open_hypotheses_count_only_where_too_few_have_ended():
    never = constant([0.0, 0.0, -math.inf, 0.0, 1.0, 0.5])
    (hypotheses,) = decoding.Beam(size=3, n_best=2, max_ratio=0, max_extra=4).search(
        never, *sources([1], vocabulary=6)
    )
    assert [(h.ids, h.finished) for h in hypotheses] == [
        ((4, 4, 4, 4), False),
        ((4, 4, 4, 5), False),
    ]
    seldom = constant([0.0, 0.0, -2.0, 0.0, 1.0, 0.5])
    (hypotheses,) = decoding.Beam(size=4, n_best=4, max_ratio=0, max_extra=2).search(
        seldom, *sources([1], vocabulary=6)
    )
    assert [h.finished for h in hypotheses] == sorted(
        (h.finished for h in hypotheses), reverse=True
    )
    search = decoding.Beam(size=6, n_best=1, max_ratio=0, max_extra=2)
    ((only,),) = search.search(seldom, *sources([1], vocabulary=6))
    assert only.finished


def test_ties_go_to_the_lower_id():
    tied = constant([9.0, 9.0, -1.0, 0.0, 2.0, 2.0, 2.0, 2.0])
    source = sources([1, 1], vocabulary=8)
    ((h,), _) = decoding.Greedy(max_ratio=0, max_extra=3).search(tied, *source)
    assert h.ids == (4, 4, 4)
    (hypotheses, _) = decoding.Beam(size=3, n_best=3, max_ratio=0, max_extra=2).search(
        tied, *source
    )
    assert [h.ids for h in hypotheses] == [(4, 4), (4, 5), (4, 6)]
    words = decoding.Sampling(top_k=2).draw(torch.zeros(2, 5), torch.tensor([0.0, 0.999]))
    assert words.tolist() == [0, 1]


@pytest.mark.parametrize("search", [decoding.Greedy(), decoding.Beam(), decoding.Sampling()])
def test_what_has_ended_leaves_the_batch(search):
    model = markov()
    model.table.data[3, :, :, EOS] = 9.0  # ends at once
    model.table.data[4:, :, :, EOS] = -9.0  # never does
    ids = torch.tensor([[3, EOS], [4, EOS], [3, EOS], [5, EOS]])
    search.search(model, ids, torch.ones_like(ids, dtype=torch.bool))
    size = getattr(search, "size", 1)
    assert model.rows[0] == 4
    assert set(model.rows[6:]) == {2 * size}


def test_a_long_lone_sentence_costs_one_row_per_step():
    model = markov()
    model.table.data[:, :, :, EOS] = -9.0
    ids, mask = sources([1, 40])
    decoding.Greedy(max_extra=0).search(model, ids, mask)
    assert model.rows == [2] * 2 + [1] * 78


# Sampling


def distribution(search, logits):
    """Return how often each word is drawn, from 20,000 evenly spread points."""
    points = (torch.arange(20_000, dtype=torch.float64) + 0.5) / 20_000
    scores = torch.tensor(logits, dtype=torch.float64).log_softmax(0).expand(20_000, -1)
    return torch.bincount(search.draw(scores, points), minlength=len(logits)) / 20_000


@pytest.mark.parametrize(
    ("knobs", "wanted"),
    [
        ({}, [0.1, 0.4, 0.2, 0.3]),
        ({"temperature": 0.5}, [1 / 30, 16 / 30, 4 / 30, 9 / 30]),
        ({"top_k": 1}, [0, 1, 0, 0]),
        ({"top_k": 2}, [0, 4 / 7, 0, 3 / 7]),
        ({"top_k": 99}, [0.1, 0.4, 0.2, 0.3]),
        ({"top_p": 0.3}, [0, 1, 0, 0]),
        ({"top_p": 0.65}, [0, 4 / 7, 0, 3 / 7]),
        ({"top_p": 0.75}, [0, 4 / 9, 2 / 9, 3 / 9]),
        ({"top_p": 0.95}, [0.1, 0.4, 0.2, 0.3]),
        ({"top_k": 3, "top_p": 0.7}, [0, 4 / 7, 0, 3 / 7]),  # 7/9 of the three
        ({"temperature": 0.5, "top_p": 0.8}, [0, 16 / 25, 0, 9 / 25]),
    ],
)
def test_words_are_drawn_from_the_distribution_asked_for(knobs, wanted):
    drawn = distribution(decoding.Sampling(**knobs), np.log([0.1, 0.4, 0.2, 0.3]))
    torch.testing.assert_close(drawn.double(), torch.tensor(wanted).double(), atol=1e-4, rtol=0)


def test_the_ends_of_the_unit_interval_draw_words_that_have_a_probability():
    scores = torch.tensor([[-math.inf, -math.inf, 0.0, 1.0, -math.inf]]).expand(2, -1)
    for knobs in ({}, {"top_k": 4}, {"top_p": 0.99}):
        words = decoding.Sampling(**knobs).draw(scores, torch.tensor([0.0, 1.0]))
        assert sorted(words.tolist()) == [2, 3]


def test_whole_samples_come_as_often_as_they_are_probable():
    model = markov(spread=1.0, vocabulary=6, sources=6)
    count = 4_000
    ids = torch.tensor([[4, EOS]]).expand(count, -1)
    search = decoding.Sampling(max_ratio=0, max_extra=3)
    sampled = search.search(model, ids, torch.ones_like(ids, dtype=torch.bool))
    seen, chance = {}, {}
    for (h,) in sampled:
        seen[h.ids] = seen.get(h.ids, 0) + 1
        chance[h.ids] = math.exp(h.log_probability)
    # The start and padding symbols have a probability, but are not drawn.
    with torch.no_grad():
        allowed = model.table.clone()
        allowed[..., :EOS] = -math.inf
    for ids in chance:
        total = 0.0
        for position, (last, word) in enumerate(itertools.pairwise([text.BOS, *ids, EOS][:4])):
            total += allowed[4, position, last].log_softmax(0)[word].item()
        chance[ids] = math.exp(total)
    common = [ids for ids in seen if chance[ids] * count >= 5]
    observed = [*(seen[ids] for ids in common), count - sum(seen[ids] for ids in common)]
    expected = [count * chance[ids] for ids in common]
    expected.append(count - sum(expected))
    assert len(common) > 10
    assert stats.chisquare(observed, expected).pvalue > 0.01


def test_draws_depend_on_the_seed_the_place_and_the_sample():
    model, (ids, mask) = markov(), sources([4] * 6)
    ids[:] = ids[0]
    search = decoding.Sampling(n_best=3)
    sampled = search.search(model, ids, mask)
    assert len({h.ids for s in sampled for h in s}) > 6
    assert search.search(model, ids, mask) == sampled
    assert search.search(model, ids, mask, [9, 8, 7, 6, 5, 4]) != sampled
    assert search.search(model, ids[:2], mask[:2], [5, 2]) == [sampled[5], sampled[2]]
    assert decoding.Sampling(n_best=3, seed=2).search(model, ids, mask) != sampled
    fewer = decoding.Sampling(n_best=1).search(model, ids, mask)
    assert all(one[0] in three for one, three in zip(fewer, sampled, strict=True))
    for hypotheses in sampled:
        assert [h.score for h in hypotheses] == sorted((h.score for h in hypotheses), reverse=True)


# Knobs


@pytest.mark.parametrize("name", decoding.SEARCHES)
def test_every_knob_says_what_it_means(name):
    kind = decoding.SEARCHES[name]
    hints = kind.__annotations__ | decoding.Search.__annotations__
    assert all(hint.startswith("Annotated[") for hint in hints.values())
    assert kind() == kind()


@pytest.mark.parametrize(
    ("kind", "knobs"),
    [
        (decoding.Greedy, {"max_ratio": -1}),
        (decoding.Greedy, {"max_ratio": math.nan}),
        (decoding.Greedy, {"max_extra": -1}),
        (decoding.Beam, {"size": 0}),
        (decoding.Beam, {"n_best": 0}),
        (decoding.Beam, {"n_best": 6}),
        (decoding.Beam, {"length_penalty": -0.1}),
        (decoding.Beam, {"length_penalty": 11}),
        (decoding.Beam, {"max_ratio": math.inf}),
        (decoding.Sampling, {"temperature": 0}),
        (decoding.Sampling, {"temperature": math.nan}),
        (decoding.Sampling, {"top_k": -1}),
        (decoding.Sampling, {"top_p": 0.0}),
        (decoding.Sampling, {"top_p": 1.1}),
        (decoding.Sampling, {"seed": -1}),
        (decoding.Sampling, {"n_best": 0}),
        (decoding.Sampling, {"max_extra": -1}),
        (decoding.Batching, {"sentences": 0}),
        (decoding.Batching, {"tokens": 0}),
        (decoding.Batching, {"window": 0}),
        (decoding.Batching, {"max_source": 0}),
    ],
)
def test_knobs_out_of_range_are_refused_in_one_line(kind, knobs):
    ((name, value),) = knobs.items()
    with pytest.raises(ValueError, match=rf"^{name} is {value}; it must be [^\n]+$"):
        kind(**knobs)


# Lines


LINES = [
    "the dog sees a cat .",
    "",
    "a man sleeps .",
    " \t ",
    "ΩΩ",
    "the cat , a man and the dog sleep \u2028 there .",
    "a",
    "the dog sees a cat .",
]


def codec(kind=text.Subwords, size=60):
    tokeniser = text.Tokeniser("en")
    return text.Codec(tokeniser, kind(size, min_count=1).learn(tokeniser.count(LINES[:4])))


@pytest.fixture(params=[text.Subwords, text.Words])
def codecs(request):
    return codec(request.param), codec(request.param)


def writer(codecs, **batching):
    size = len(codecs[0])
    model = markov(vocabulary=size, sources=size, spread=3.0)
    return decoding.Writer(model, codecs, batching=decoding.Batching(**batching))


def test_every_line_has_its_answer_in_its_place(codecs):
    answers = writer(codecs).generate(LINES)
    assert len(answers) == len(LINES)
    assert answers[1] == answers[3] == ""
    assert all(answers[i] for i in (0, 2, 5))
    assert answers[0] == answers[7]
    for line, answer in zip(LINES, answers, strict=True):
        assert writer(codecs).generate([line]) == [answer]
        assert "\n" not in answer


@every_search
def test_batches_and_windows_change_no_output(search):
    both = codec(), codec()
    wanted = list(writer(both).texts(LINES * 3, search))
    for sizes in ({"sentences": 1}, {"tokens": 1}, {"window": 1}, {"window": 5, "tokens": 30}):
        texts = list(writer(both, **sizes).texts(iter(LINES * 3), search))
        assert [[t.text for t in s] for s in texts] == [[t.text for t in s] for s in wanted]
        hypotheses = [[[t.hypothesis for t in s] for s in ts] for ts in (texts, wanted)]
        assert_same(*hypotheses)


def test_texts_are_spelt_by_the_target_codec():
    both = codec(text.Words), codec(text.Subwords)
    size = max(map(len, both))
    model = markov(vocabulary=len(both[1]), sources=size)
    for texts in decoding.generate(model, both, LINES, search=decoding.Beam(n_best=3)):
        for one in texts:
            assert one.text == both[1].decode(one.hypothesis.ids)


def test_an_empty_line_needs_no_model(codecs):
    one = writer(codecs)
    (texts,) = one.texts([""], decoding.Beam(n_best=2))
    assert texts == [decoding.Text("", decoding.Hypothesis((), 0.0, 0.0, True), False)]
    assert one.model.rows == []
    assert one.generate([]) == []


def test_a_very_long_line_is_cut_and_that_is_said(codecs):
    lines = ["a man " * 50_000, "a man"]
    one = writer(codecs, max_source=4)
    cut = next(one.texts(lines))[0]
    assert cut.truncated
    with pytest.warns(UserWarning, match=r"^1 lines were cut at 4 ids$"):
        answers = one.generate(lines)
    assert answers[0] == cut.text
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert writer(codecs).generate(lines[1:]) == answers[1:]


def test_batches_are_bounded_and_hold_every_line_once():
    draw = np.random.default_rng(0)
    ids = [np.zeros(n, np.int32) for n in draw.integers(0, 40, 300)]
    sizes = decoding.Batching(sentences=16, tokens=200)
    parts = list(decoding.batched(ids, sizes))
    assert sorted(itertools.chain(*parts)) == [i for i in range(300) if len(ids[i])]
    for part in parts:
        assert len(part) <= 16
        assert len(part) == 1 or len(part) * (max(len(ids[i]) for i in part) + 1) <= 200


def test_a_stream_is_read_a_window_at_a_time():
    both, read = (codec(), codec()), []

    def stream():
        for number in itertools.count():
            read.append(number)
            yield "a man"

    texts = writer(both, window=3).texts(stream())
    assert read == []
    for _ in range(3):
        next(texts)
    assert len(read) == 3
    next(texts)
    assert len(read) == 6


def test_nobody_else_runs_in_inference_mode_or_sees_the_model_in_another():
    one = writer((codec(), codec()), window=2)
    one.model.train()
    for _ in one.texts(LINES):
        assert not torch.is_inference_mode_enabled()
        assert one.model.training


def test_progress_counts_every_line():
    counts = []
    one = writer((codec(), codec()), window=3, sentences=1)
    list(one.texts(LINES, progress=counts.append))
    assert sum(counts) == len(LINES)
    assert len(counts) >= 6


def test_one_string_is_not_taken_for_lines():
    with pytest.raises(ValueError, match=r"^lines must be several strings, not one$"):
        writer((codec(), codec())).generate("a man")


def test_what_is_loaded_prints_a_line(codecs):
    said = repr(writer(codecs))
    assert len(said) < 200 and "parameters" in said
    assert len(repr(codecs)) < 500


def test_generate_refuses_to_drop_all_but_the_best(codecs):
    with pytest.raises(ValueError, match=r"texts\(\)"):
        writer(codecs).generate(["a"], decoding.Beam(size=3, n_best=3))
    own = dataclasses.replace(writer(codecs), search=decoding.Beam(size=3, n_best=3))
    with pytest.raises(ValueError, match=r"the search gives 3 .*texts\(\) writes all of them"):
        own.generate(["a"])
    assert own.best(["a"]) == [next(own.texts(["a"]))[0].text]
    with pytest.raises(TypeError, match=r"writer.texts\(lines, .*replace\(writer.search, n_best=3"):
        own.generate(["a"], n_best=3)
    with pytest.raises(TypeError, match=r"writer.generate\(lines, .*size=9"):
        own.generate(["a"], size=9)
