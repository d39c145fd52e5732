import itertools
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from augless import corpora, data, text


@dataclass(frozen=True, kw_only=True)
class Listed(corpora.Corpus):
    """Pairs given one by one."""

    languages: tuple[str, str] = ("de", "en")
    train: Annotated[tuple[tuple[str, str], ...], "pairs"]
    valid: Annotated[tuple[tuple[str, str], ...], "pairs"] = (("ein Haus .", "a house ."),)
    weights: Annotated[tuple[float, ...], "of the training pairs"] = ()

    def splits(self):
        return ("train", "valid")

    def _pairs(self, split):
        weights = self.weights if split == "train" and self.weights else itertools.repeat(1.0)
        for (source, target), weight in zip(getattr(self, split), weights, strict=False):
            yield corpora.Pair(source, target, weight)


SMALL = data.Settings(vocabulary=text.Subwords(size=300))
TOY = corpora.CORPORA["toy-de-en"](train=600, valid=50, test=50)


def prepared(tmp_path, corpus=TOY, **knobs):
    return data.prepare(corpus, replace(SMALL, **knobs), tmp_path, name="toy")


def contents(store):
    return {
        p.relative_to(store.folder): p.read_bytes() for p in store.folder.rglob("*") if p.is_file()
    }


# Preparing


@pytest.mark.parametrize("lowercase", [False, True])
@pytest.mark.parametrize("joint", [False, True])
def test_every_pair_comes_back_from_the_store(tmp_path, lowercase, joint):
    store = prepared(tmp_path, lowercase=lowercase, joint=joint)
    for split in ("train", "valid", "test"):
        pairs = store.pairs(split)
        for i, pair in enumerate(TOY.pairs(split)):
            for side, line, codec in zip(
                (pairs.source, pairs.target), (pair.source, pair.target), store.codecs, strict=True
            ):
                expected = text.normalise(line)
                assert codec.decode(side[i]) == (text.lower(expected) if lowercase else expected)
        assert len(pairs) == i + 1
    shared = store.codecs[0].vocabulary == store.codecs[1].vocabulary
    assert shared == joint


def test_the_bytes_are_the_same_for_any_number_of_workers(tmp_path, monkeypatch):
    monkeypatch.setattr(data.preparing, "BLOCK", 100)
    alone = data.prepare(TOY, SMALL, tmp_path / "1", name="toy")
    for workers in (2, 3):
        together = data.prepare(TOY, SMALL, tmp_path / str(workers), name="toy", workers=workers)
        assert contents(together) == contents(alone)


def test_a_second_call_does_nothing_and_changed_inputs_are_noticed(tmp_path):
    first = prepared(tmp_path)
    stamps = {p: p.stat().st_mtime_ns for p in first.folder.rglob("*")}
    again = prepared(tmp_path)
    assert {p: p.stat().st_mtime_ns for p in again.folder.rglob("*")} == stamps
    others = [
        prepared(tmp_path, replace(TOY, seed=2)),
        prepared(tmp_path, lowercase=True),
        prepared(tmp_path, vocabulary=text.Words(size=300)),
    ]
    assert len({first.folder, *(other.folder for other in others)}) == 4


def test_a_killed_prepare_leaves_nothing_half_made(tmp_path):
    script = (
        "from augless import corpora, data\n"
        "corpus = corpora.CORPORA['toy-de-en'](train=3000)\n"
        f"data.prepare(corpus, data.Settings(), {str(tmp_path)!r}, name='toy')\n"
    )
    command = [sys.executable, "-c", script]
    for delay in (0.3, 0.8, 1.2, 1.6, 2.0):
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        process.wait()
        for folder in tmp_path.glob("toy-*"):
            data.Prepared.open(folder).verify()
    subprocess.run(command, check=True)
    (folder,) = tmp_path.iterdir()  # and what the killed ones wrote is gone
    data.Prepared.open(folder).verify()


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux for the workers")
def test_a_killed_prepare_leaves_no_worker_behind():
    script = (
        "import time\n"
        "from augless import corpora, data\n"
        "from augless.data import preparing\n"
        "def slow(block): time.sleep(60)\n"
        "pairs = (corpora.Pair('a', 'b') for _ in range(50_000))\n"
        "list(preparing._in_order(slow, pairs, 2))\n"
    )
    process = subprocess.Popen([sys.executable, "-c", script])
    listing = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    while len(children := listing.read_text().split()) < 2:
        time.sleep(0.1)
    process.kill()
    process.wait()
    deadline = time.monotonic() + 10
    while any(data.preparing._alive(child) for child in children):
        assert time.monotonic() < deadline, "a worker outlived its parent"
        time.sleep(0.1)


def test_an_input_that_changes_while_it_is_read_is_noticed(tmp_path):
    for name in ("train.de", "train.en"):
        (tmp_path / name).write_text("ein Haus\n" * 50)
    corpus = corpora.CORPORA["files"](path=tmp_path, languages=("de", "en"))

    def meddle(stage, *_):
        if stage == "learning the vocabulary":
            for name in ("train.de", "train.en"):
                (tmp_path / name).write_text("kein Haus\n" + "ein Haus\n" * 50)

    with pytest.raises(corpora.BadData, match="changed while they were read"):
        data.prepare(corpus, SMALL, tmp_path / "out", name="own", progress=meddle)
    assert not list((tmp_path / "out").iterdir())


@pytest.mark.parametrize("damage", [lambda whole: whole[:-3], lambda whole: whole[:-1] + b"!"])
def test_a_damaged_store_is_prepared_again(tmp_path, damage):
    store = prepared(tmp_path)
    before = contents(store)
    path = store.folder / "train.source.ids"
    path.write_bytes(damage(path.read_bytes()))
    assert contents(prepared(tmp_path)) == before


@pytest.mark.parametrize(
    "knobs",
    [
        {"min_length": -1},
        {"min_length": 9, "max_length": 3},
        {"ratio": 0.5},
        {"ratio": float("nan")},
    ],
)
def test_a_filter_that_makes_no_sense_is_refused(knobs):
    with pytest.raises(ValueError, match=r"min_length|ratio"):
        data.Filters(**knobs)


def test_inputs_are_named_with_their_checksums(tmp_path):
    for name in ("train.de", "train.en"):
        (tmp_path / name).write_text("ein Haus\n" * 50)
    corpus = corpora.CORPORA["files"](path=tmp_path, languages=("de", "en"))
    store = data.prepare(corpus, SMALL, tmp_path / "out", name="own")
    assert [entry["name"] for entry in store.manifest["inputs"]] == ["train.de", "train.en"]
    assert {entry["bytes"] for entry in store.manifest["inputs"]} == {450}


def test_what_fails_while_preparing_leaves_nothing(tmp_path):
    class Broken(Listed):
        def _pairs(self, split):
            yield from super()._pairs(split)
            raise corpora.BadData("the end is missing")

    corpus = Broken(train=(("ein Haus", "a house"),))
    with pytest.raises(corpora.BadData, match="the end is missing"):
        data.prepare(corpus, SMALL, tmp_path, name="toy")
    assert list(tmp_path.iterdir()) == []


FILTERED = Listed(
    train=(
        ("eins zwei drei", "one two three"),
        ("eins " * 20, "one " * 20),
        ("eins", "one two three"),
        ("eins zwei", "one two"),
        ("eins zwei", "one two"),
        ("eins  zwei", "one two "),
        ("vier", "four"),
        ("ein Haus .", "a house ."),
    )
)


def test_filters_drop_a_pair_on_both_sides_and_say_why(tmp_path):
    filters = data.Filters(min_length=2, max_length=10, ratio=2.0, duplicates="drop", shared="drop")
    words = text.Words(size=100, min_count=1)
    store = prepared(tmp_path, FILTERED, filters=filters, vocabulary=words)
    train = store.pairs("train")
    kept = [
        [
            c.decode(side[i])
            for c, side in zip(store.codecs, (train.source, train.target), strict=True)
        ]
        for i in range(len(train))
    ]
    assert kept == [["eins zwei drei", "one two three"], ["eins zwei", "one two"]]
    statistics = store.manifest["statistics"]["train"]
    assert statistics["read"] == 8 and statistics["pairs"] == 2 and statistics["shared"] == 1
    assert statistics["dropped"] == {"too short": 2, "too long": 1, "shared": 1, "duplicate": 2}
    # the vocabulary was learnt from what stayed
    assert sorted(store.codecs[0].vocabulary.pieces) == [
        word + " " for word in ("drei", "eins", "one", "three", "two", "zwei")
    ]
    assert len(store.pairs("valid")) == 1  # nothing but training pairs is ever dropped


def test_the_ratio_is_of_the_longer_side(tmp_path):
    corpus = Listed(train=(("a b c", "a"), ("a", "a b c"), ("a b", "a b c")))
    store = prepared(tmp_path, corpus, filters=data.Filters(ratio=1.5))
    assert store.manifest["statistics"]["train"]["dropped"] == {"ratio": 2}


def test_shared_pairs_are_counted_even_if_they_stay(tmp_path):
    store = prepared(tmp_path, FILTERED)
    assert store.manifest["statistics"]["train"]["shared"] == 1
    assert len(store.pairs("train")) == 8


def test_a_side_of_invisible_characters_is_as_good_as_empty(tmp_path):
    invisible = ("\u200b", "a house")
    corpus = Listed(train=(("ein Haus", "a house"), invisible), valid=(("ein", "a"), invisible))
    store = prepared(tmp_path, corpus)
    for split, reason in (("train", "too short"), ("valid", "empty")):
        statistics = store.manifest["statistics"][split]
        assert (statistics["read"], statistics["pairs"]) == (2, 1)
        assert statistics["dropped"] == {reason: 1}
        assert store.pairs(split).source.lengths.min() > 0


def test_a_corpus_whose_every_pair_is_filtered_away_is_refused(tmp_path):
    with pytest.raises(corpora.BadData, match="no training pair is left of 8"):
        prepared(tmp_path, FILTERED, filters=data.Filters(min_length=50))
    assert list(tmp_path.iterdir()) == []


def test_a_vocabulary_too_small_for_the_characters_is_refused(tmp_path):
    with pytest.raises(corpora.BadData, match="cannot hold the"):
        prepared(tmp_path, vocabulary=text.Subwords(size=20))


def test_statistics_count_lengths_and_unknown_words(tmp_path):
    corpus = Listed(train=(("a a b", "x"), ("a a", "x")))
    words = text.Words(size=100, min_count=2)
    store = prepared(tmp_path, corpus, vocabulary=words, joint=False)
    source = store.manifest["statistics"]["train"]["source"]
    assert source == {"tokens": 5, "unknown": 0.2, "lengths": {"2": 1, "3": 1}}


def test_weights_of_pairs_are_kept(tmp_path):
    corpus = Listed(train=(("a", "b"), ("c", "d")), weights=(1.0, 0.25))
    store = prepared(tmp_path, corpus)
    assert store.pairs("train").weight.tolist() == [1.0, 0.25]
    assert store.pairs("valid").weight.tolist() == [1.0]
    (batch,) = data.batches(store.pairs("train"), [np.array([1, 0])])
    assert batch.weight.tolist() == [0.25, 1.0]


# The store


@pytest.mark.parametrize(
    ("vocabulary", "name"),
    [(4, "uint8"), (256, "uint8"), (257, "uint16"), (65_536, "uint16"), (65_537, "uint32")],
)
def test_ids_are_stored_in_the_smallest_type_that_fits(vocabulary, name):
    assert data.store.smallest_type(vocabulary).name == name


def test_a_damaged_store_is_refused(tmp_path):
    store = prepared(tmp_path)
    for path in sorted(store.folder.glob("*")):
        if path.is_dir():
            continue
        whole = path.read_bytes()
        path.write_bytes(whole[:-3])
        with pytest.raises(data.BadStore, match="prepare again"):
            data.Prepared.open(store.folder)
        path.unlink()
        with pytest.raises(data.BadStore):
            data.Prepared.open(store.folder)
        flipped = bytearray(whole)
        flipped[len(whole) // 2] ^= 1
        if path.suffix != ".json":
            path.write_bytes(flipped)
            with pytest.raises(data.BadStore):
                data.Prepared.open(store.folder).verify()
        path.write_bytes(whole)
    data.Prepared.open(store.folder).verify()


@pytest.mark.parametrize("name", ["../../secret", "/etc/hostname"])
def test_a_manifest_cannot_point_outside_its_folder(tmp_path, name):
    store = prepared(tmp_path)
    manifest = json.loads((store.folder / "manifest.json").read_text())
    manifest["files"][name] = {"bytes": 1, "sha256": ""}
    (store.folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(data.BadStore, match="outside its folder"):
        data.Prepared.open(store.folder)


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{}", '{"format": "augless prepared 0", "files": {}, "splits": {}}', "\x80"],
)
def test_a_foreign_manifest_is_refused(tmp_path, content):
    (tmp_path / "manifest.json").write_text(content)
    with pytest.raises(data.BadStore):
        data.Prepared.open(tmp_path)


def test_a_missing_store_is_refused(tmp_path):
    with pytest.raises(data.BadStore, match="holds no prepared corpus"):
        data.Prepared.open(tmp_path)


# Batches


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
    parts = data.plan(pairs_of(lengths), seed=seed, epoch=epoch, shuffle=shuffle, **size)
    assert sorted(np.concatenate(parts).tolist()) == list(range(len(lengths)))
    longest = np.array([max(pair) + 1 for pair in lengths])
    for rows in parts:
        if "sentences" in size:
            assert 1 <= len(rows) <= size["sentences"]
        else:  # only a sentence longer than the limit breaks it, alone
            assert len(rows) == 1 or len(rows) * longest[rows].max() <= size["tokens"]


def test_batches_are_a_pure_function_of_seed_and_epoch():
    def plan(seed, epoch):
        return [rows.tolist() for rows in data.plan(MANY, seed=seed, epoch=epoch, tokens=400)]

    assert plan(1, 0) == plan(1, 0)
    assert plan(1, 0) != plan(1, 1) and plan(1, 0) != plan(2, 0)


def as_lists(batches):
    return [
        (b.source.tolist(), b.target.tolist(), b.target_mask.tolist(), b.index.tolist())
        for b in batches
    ]


def test_a_position_is_one_integer():
    parts = data.plan(MANY, seed=3, epoch=2, sentences=16)
    whole = as_lists(data.batches(MANY, parts))
    for start in (0, 7, len(parts)):
        assert as_lists(data.batches(MANY, parts, start=start)) == whole[start:]


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_ranks_together_see_the_batches_of_one(ranks):
    parts = data.plan(MANY, seed=3, epoch=2, tokens=500)
    per_rank = [list(data.batches(MANY, parts, rank=r, ranks=ranks)) for r in range(ranks)]
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
    random = data.plan(MANY, seed=0, epoch=0, sentences=16)
    unsorted = [np.arange(500)[i : i + 16] for i in range(0, 500, 16)]
    assert data.padding_share(MANY, random) < 0.6 * data.padding_share(MANY, unsorted)


@pytest.mark.parametrize("size", [{}, {"sentences": 1, "tokens": 1}, {"tokens": 0}])
def test_a_batch_size_that_makes_no_sense_is_refused(size):
    with pytest.raises(ValueError, match="batch"):
        data.plan(MANY, seed=0, epoch=0, **size)


def test_torch_is_not_loaded_to_prepare():
    script = "import sys, augless.data; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True, env=os.environ)
