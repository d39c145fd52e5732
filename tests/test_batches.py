"""Batches: every pair once an epoch, mixed, padded little, a pure function of seed and epoch."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from augless import data, text
from augless.ranks import Ranks


def pairs_of(lengths):
    """Make pairs of the given (source, target) lengths; ids tell pair and position apart."""
    sides = []
    for side in range(2):
        sizes = [length[side] for length in lengths]
        offsets = np.cumsum([0, *sizes])
        sides.append(data.Ragged(np.arange(4, 4 + offsets[-1]), offsets))
    return data.Pairs(*sides, np.ones(len(lengths), np.float32))


LENGTHS = [(int(a), int(b)) for a, b in np.random.default_rng(0).integers(1, 40, (500, 2))]
MANY = pairs_of(LENGTHS)


@given(
    lengths=st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), min_size=1, max_size=80),
    size=st.one_of(
        st.fixed_dictionaries({"sentences": st.integers(1, 20)}),
        st.fixed_dictionaries({"tokens": st.integers(1, 300)}),
    ),
    seed=st.integers(0, 10),
    epoch=st.integers(0, 5),
    shuffle=st.booleans(),
)
@settings(deadline=None)
def test_an_epoch_has_every_pair_once(lengths, size, seed, epoch, shuffle):
    parts = data.batch_rows(pairs_of(lengths), seed=seed, epoch=epoch, shuffle=shuffle, **size)
    assert sorted(np.concatenate(parts).tolist()) == list(range(len(lengths)))
    longest = np.array([max(pair) + 1 for pair in lengths])
    for rows in parts:
        if "sentences" in size:
            assert 1 <= len(rows) <= size["sentences"]
        else:  # only a sentence longer than the limit breaks it, alone
            assert len(rows) == 1 or len(rows) * longest[rows].max() <= size["tokens"]


def test_batches_are_a_pure_function_of_seed_and_epoch():
    def rows_of(seed, epoch):
        return [rows.tolist() for rows in data.batch_rows(MANY, seed=seed, epoch=epoch, tokens=400)]

    assert rows_of(1, 0) == rows_of(1, 0)
    assert rows_of(1, 0) != rows_of(1, 1) and rows_of(1, 0) != rows_of(2, 0)


def as_lists(batches):
    return [
        (b.source.tolist(), b.target.tolist(), b.target_mask.tolist(), b.index.tolist())
        for b in batches
    ]


def test_a_position_is_one_integer():
    parts = data.batch_rows(MANY, seed=3, epoch=2, sentences=16)
    whole = as_lists(data.batches(MANY, parts))
    for start in (0, 7, len(parts)):
        assert as_lists(data.batches(MANY, parts, start=start)) == whole[start:]


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_ranks_together_see_the_batches_of_one(ranks):
    parts = data.batch_rows(MANY, seed=3, epoch=2, tokens=500)
    per_rank = [list(data.batches(MANY, parts, ranks=Ranks(r, ranks))) for r in range(ranks)]
    for rows, *shares in zip(parts, *per_rank, strict=True):
        assert sorted(np.concatenate([s.index for s in shares]).tolist()) == sorted(rows.tolist())
        for share in shares:
            assert share.source.shape[0] == len(share.index)


def test_a_batch_holds_its_pairs_their_ends_and_padding():
    pairs = pairs_of([(2, 1), (1, 3)])
    (batch,) = data.batches(pairs, [np.array([0, 1])])
    end, pad, start = text.EOS, text.PAD, text.BOS
    assert batch.source.tolist() == [[4, 5, end], [6, end, pad]]
    assert batch.source_mask.tolist() == [[True, True, True], [True, True, False]]
    assert batch.target.tolist() == [[4, end, pad, pad], [5, 6, 7, end]]
    assert batch.decoder_input.tolist() == [[start, 4, end, pad], [start, 5, 6, 7]]
    assert batch.index.tolist() == [0, 1]


def test_buckets_save_padding():
    random = data.batch_rows(MANY, seed=0, epoch=0, sentences=16)
    unsorted = [np.arange(500)[i : i + 16] for i in range(0, 500, 16)]
    assert data.padding_share(MANY, random) < 0.6 * data.padding_share(MANY, unsorted)


def batch_lengths(parts):
    """Return the mean length of each batch, and the spread of lengths inside batches."""
    longest = np.array([max(pair) for pair in LENGTHS])
    return (
        np.array([longest[rows].mean() for rows in parts]),
        np.mean([longest[rows].std() for rows in parts]),
    )


def test_batches_come_in_no_order_of_length():
    means, _ = batch_lengths(data.batch_rows(MANY, seed=0, epoch=0, sentences=10))
    assert abs(np.corrcoef(means, np.arange(len(means)))[0, 1]) < 0.4
    assert means.std() > 3  # while they do differ in length


def test_pairs_are_mixed_anew_each_epoch_and_not_only_their_batches():
    one, other = (
        {frozenset(rows.tolist()) for rows in data.batch_rows(MANY, seed=0, epoch=e, sentences=10)}
        for e in (0, 1)
    )
    assert len(one & other) < 5
    rows = np.concatenate(data.batch_rows(MANY, seed=0, epoch=0, sentences=10, bucket=1))
    assert abs(np.corrcoef(rows, np.arange(500))[0, 1]) < 0.2


def test_a_bucket_is_as_many_batches_as_it_says():
    spreads = [
        batch_lengths(data.batch_rows(MANY, seed=0, epoch=0, sentences=10, bucket=bucket))[1]
        for bucket in (1, 2, 8, 50)
    ]
    assert spreads == sorted(spreads, reverse=True) and spreads[0] > 8 and spreads[-1] < 0.7
    # Sorted whole, the corpus would give the same batches whatever the seed, but for ties.
    longest = np.array([max(pair) for pair in LENGTHS])
    for bucket, apart in ((50, False), (4, True)):
        listed = [
            sorted(
                longest[rows].sum()
                for rows in data.batch_rows(MANY, seed=s, epoch=0, sentences=10, bucket=bucket)
            )
            for s in (0, 1)
        ]
        assert (listed[0] != listed[1]) == apart
    # By default 64 batches are sorted together: 500 pairs are fewer, 3,000 are several buckets.
    default = data.batch_rows(MANY, seed=0, epoch=0, sentences=5)
    assert [r.tolist() for r in default] == [
        r.tolist() for r in data.batch_rows(MANY, seed=0, epoch=0, sentences=5, bucket=64)
    ]
    wide = batch_lengths(data.batch_rows(MANY, seed=0, epoch=0, sentences=5, bucket=100))[1]
    assert batch_lengths(default)[1] > wide


@pytest.mark.parametrize("bucket", [0, -1])
def test_an_empty_bucket_is_refused(bucket):
    with pytest.raises(ValueError, match=f"a bucket of {bucket} batches is empty"):
        data.batch_rows(MANY, seed=0, epoch=0, sentences=4, bucket=bucket)


@pytest.mark.parametrize("size", [{}, {"sentences": 1, "tokens": 1}, {"tokens": 0}])
def test_a_batch_size_that_makes_no_sense_is_refused(size):
    with pytest.raises(ValueError, match="batch"):
        data.batch_rows(MANY, seed=0, epoch=0, **size)


def test_batches_in_order_are_cut_where_they_are_full():
    """By hand: tokens count the longer side with its end symbol, and its padding."""
    pairs = pairs_of([(1, 2), (2, 1), (4, 1), (1, 1), (9, 9), (1, 3)])  # 3, 3, 5, 2, 10, 4 tokens
    knobs = {"seed": 0, "epoch": 0, "shuffle": False}

    def rows_of(**size):
        return [rows.tolist() for rows in data.batch_rows(pairs, **size, **knobs)]

    assert rows_of(sentences=4) == [[0, 1, 2, 3], [4, 5]]
    assert rows_of(tokens=6) == [[0, 1], [2], [3], [4], [5]]
    assert rows_of(tokens=9) == [[0, 1], [2], [3], [4], [5]]
    assert rows_of(tokens=15) == [[0, 1, 2], [3], [4], [5]]
    assert rows_of(tokens=20) == [[0, 1, 2, 3], [4, 5]]
    assert rows_of(tokens=1) == [[0], [1], [2], [3], [4], [5]]


def test_no_pairs_make_no_batches():
    none = pairs_of([])
    assert data.batch_rows(none, seed=0, epoch=0, sentences=4) == []
    assert data.batch_rows(none, seed=0, epoch=0, tokens=40) == []
    assert data.padding_share(none, []) == 0.0
    batch = data.collate(pairs_of([(2, 1)]), np.array([], np.int64))
    assert batch.source.shape == batch.target.shape == (0, 1)


def test_buckets_of_tokens_hold_as_many_pairs_as_batches_would():
    """Sorted in buckets of a few batches, batches of tokens differ from seed to seed."""
    longest = np.array([max(pair) for pair in LENGTHS])
    spreads = []
    for bucket in (1, 8, 1000):
        parts = data.batch_rows(MANY, seed=0, epoch=0, tokens=300, bucket=bucket)
        spreads.append(np.mean([longest[rows].std() for rows in parts if len(rows) > 1]))
    assert spreads[0] > 2 * spreads[1] > 2 * spreads[2]


def test_the_share_of_padding_by_hand():
    pairs = pairs_of([(1, 2), (3, 2), (2, 5)])  # with ends: 2, 4, 3 and 3, 3, 6
    parts = [np.array([0, 1]), np.array([2])]
    assert data.padding_share(pairs, parts) == pytest.approx(1 - (9 + 12) / (8 + 3 + 6 + 6))
    assert data.padding_share(pairs, [np.array([0])]) == 0.0


def test_a_batch_carries_its_weights_and_ids_as_integers():
    pairs = pairs_of([(2, 1), (1, 3)])
    pairs.weight[:] = [0.5, 2.0]
    batch = data.collate(pairs, np.array([1, 0]))
    assert batch.weight.tolist() == [2.0, 0.5]
    assert batch.source.dtype == batch.target.dtype == torch.int64
    assert batch.source_mask.dtype == batch.target_mask.dtype == torch.bool


def test_pairs_are_shuffled_in_buckets_of_64_batches_unless_told():
    listed = [
        data.batch_rows(MANY, seed=1, epoch=2, sentences=4, **knobs)
        for knobs in ({}, {"shuffle": True, "bucket": 64}, {"bucket": 63})
    ]
    lists = [[rows.tolist() for rows in rows_of] for rows_of in listed]
    assert lists[0] == lists[1] != lists[2]
    batches = [batch.index.tolist() for batch in data.batches(MANY, listed[0])]
    assert batches == lists[0]
