import gzip
import json
import lzma
import os
import pickle
import random
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from augless import corpora, data, storage, text
from augless.cli import preparing as preparing_verb
from support import ATOMS, Listed

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


def test_what_is_handed_to_a_worker_shares_what_it_memoises():
    one = pickle.loads(pickle.dumps(text.Tokeniser(language="de")))
    codec = text.Codec(one, text.Words(min_count=1).learn({"Haus": 1}))
    assert pickle.loads(pickle.dumps(codec)).tokeniser is one
    assert pickle.loads(pickle.dumps(text.Tokeniser(language="en"))) != one


def test_the_bytes_are_the_same_for_any_number_of_workers(tmp_path, monkeypatch):
    monkeypatch.setattr(data.workers, "BLOCK", 100)
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


def test_files_whose_names_are_no_text_are_prepared(tmp_path):
    names = [os.fsdecode(name) for name in (b"train\xff.de", b"train\xff.en")]
    for name in names:
        (tmp_path / name).write_text("ein Haus\n" * 5)
    train = tuple(tmp_path / name for name in names)
    corpus = corpora.CORPORA["files"](train=train, languages=("de", "en"))
    settings = data.Settings(vocabulary=text.Subwords(size=60))
    made = data.prepare(corpus, settings, tmp_path / "data", name="mine")
    assert [one.name for one in made.manifest.inputs] == ["train\ufffd.de", "train\ufffd.en"]
    assert data.prepare(corpus, settings, tmp_path / "data", name="mine").folder == made.folder


def test_a_killed_prepare_leaves_nothing_half_made(tmp_path):
    script = (
        "import os, signal, sys\n"
        "from augless import corpora, data\n"
        "corpus = corpora.CORPORA['toy-de-en'](train=300, valid=20, test=20)\n"
        "def progress(stage, *_):\n"
        "    if stage == sys.argv[1]: os.kill(os.getpid(), signal.SIGKILL)\n"
        f"data.prepare(corpus, data.Settings(), {str(tmp_path)!r}, name='toy', progress=progress)\n"
    )
    command = [sys.executable, "-c", script]
    for stage in ("counting words", "learning the vocabulary", "writing train", "writing test"):
        assert subprocess.run([*command, stage]).returncode == -signal.SIGKILL
        assert not list(tmp_path.glob("toy-*")), "what is not whole has no name"
    for point in ("begun", "written"):
        crash = {**os.environ, "AUGLESS_CRASH": f"prepare-{point}"}
        assert subprocess.run([*command, "none"], env=crash).returncode == -signal.SIGKILL
        assert not list(tmp_path.glob("toy-*"))
    assert list(tmp_path.iterdir()), "and the last had written something"
    subprocess.run([*command, "none"], check=True)
    (folder,) = tmp_path.iterdir()  # and what the killed ones wrote is gone
    data.Prepared.open(folder).verify()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_learning_the_vocabulary_can_be_interrupted(tmp_path, number):
    for side in ("de", "en"):  # a word that takes many minutes as a whole
        (tmp_path / f"train.{side}").write_text("0123456789abcdef" * 100_000 + "\n")
    script = (
        "from augless import cli\n"
        "from augless.text import vocabularies\n"
        "vocabularies.LONGEST_WORD = 10**9\n"
        "cli.main()\n"
    )
    verb = ("prepare", "files", "corpus.path=.", "corpus.languages=de,en")
    process = subprocess.Popen(
        [sys.executable, "-c", script, *verb], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    while "learning the vocabulary" not in process.stderr.readline():
        assert process.poll() is None
    process.send_signal(number)
    process.communicate(timeout=120)
    assert process.returncode == 128 + number
    assert not list((tmp_path / "data").iterdir())


def test_words_that_are_cut_are_counted_in_the_statistics(tmp_path):
    for side in ("de", "en"):
        (tmp_path / f"train.{side}").write_text("ein Haus\n" * 5 + "x" * 3000 + " Haus\n")
    corpus = corpora.CORPORA["files"](path=tmp_path, languages=("de", "en"))
    settings = data.Settings(vocabulary=text.Subwords(size=60))
    prepared = data.prepare(corpus, settings, tmp_path / "data", name="mine")
    assert prepared.manifest.statistics["train"].cut_words == 2
    assert "2 words of more than 255 characters were cut" in preparing_verb.summary(prepared)


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux for the workers")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_an_ended_prepare_leaves_no_worker_behind(number):
    script = (
        "import time\n"
        "from augless import corpora, data\n"
        "from augless.data import workers\n"
        "def slow(block): time.sleep(600)\n"
        "pairs = (corpora.Pair('a', 'b') for _ in range(50_000))\n"
        "with workers.worker_processes(2) as worker_processes:\n"
        "    list(workers.in_order(slow, pairs, worker_processes))\n"
    )
    process = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.DEVNULL)
    listing = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    while len(children := listing.read_text().split()) < 2:
        assert process.poll() is None
        time.sleep(0.1)
    process.send_signal(number)
    process.wait(timeout=120)  # workers would sleep for ten minutes
    deadline = time.monotonic() + 60
    while any(storage.alive(int(child)) for child in children):
        assert time.monotonic() < deadline, "a worker outlived its parent"
        time.sleep(0.1)


def test_a_signal_that_comes_while_workers_are_started_is_not_lost():
    script = (
        "import os, signal\n"
        "from augless.data import workers\n"
        "hit = lambda: os.kill(os.getpid(), signal.SIGINT)\n"
        "os.register_at_fork(after_in_parent=hit)\n"
        "with workers.worker_processes(2):\n"
        "    print('still here')\n"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == -signal.SIGINT and "KeyboardInterrupt" in done.stderr
    assert "ignored" not in done.stderr and done.stdout == ""


@pytest.mark.parametrize("age", [0, 1.2])
def test_an_input_that_changes_while_it_is_read_is_noticed(tmp_path, age):
    for name in ("train.de", "train.en"):
        (tmp_path / name).write_text("ein Haus\n" * 50)
    time.sleep(age)
    corpus = corpora.CORPORA["files"](path=tmp_path, languages=("de", "en"))

    def meddle(stage, *_):
        if stage == "learning the vocabulary":
            for name in ("train.de", "train.en"):
                (tmp_path / name).write_text("ein Baum\n" * 50)  # of the same size

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
    assert [entry.name for entry in store.manifest.inputs] == ["train.de", "train.en"]
    assert {entry.bytes for entry in store.manifest.inputs} == {450}


def test_what_fails_while_preparing_leaves_nothing(tmp_path):
    class Broken(Listed):
        def stream(self, split, tally):
            yield from super().stream(split, tally)
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
    assert repr(train).startswith(f"Pairs({len(train)} pairs, ") and len(repr(train)) < 200
    assert f"de to en, {len(train)} training pairs" in repr(store) and len(repr(store)) < 200
    kept = [
        [
            c.decode(side[i])
            for c, side in zip(store.codecs, (train.source, train.target), strict=True)
        ]
        for i in range(len(train))
    ]
    assert kept == [["eins zwei drei", "one two three"], ["eins zwei", "one two"]]
    statistics = store.manifest.statistics["train"]
    assert statistics.read == 8 and statistics.pairs == 2 and statistics.shared == 1
    assert statistics.dropped == {"too short": 2, "too long": 1, "shared": 1, "duplicate": 2}
    # the vocabulary was learnt from what stayed
    assert sorted(store.codecs[0].vocabulary.pieces) == [
        word + " " for word in ("drei", "eins", "one", "three", "two", "zwei")
    ]
    assert len(store.pairs("valid")) == 1  # nothing but training pairs is ever dropped


def test_the_ratio_is_of_the_longer_side(tmp_path):
    corpus = Listed(train=(("a b c", "a"), ("a", "a b c"), ("a b", "a b c")))
    store = prepared(tmp_path, corpus, filters=data.Filters(ratio=1.5))
    assert store.manifest.statistics["train"].dropped == {"ratio": 2}


def test_shared_pairs_are_counted_even_if_they_stay(tmp_path):
    store = prepared(tmp_path, FILTERED)
    assert store.manifest.statistics["train"].shared == 1
    assert len(store.pairs("train")) == 8


def test_a_side_of_invisible_characters_is_as_good_as_empty(tmp_path):
    invisible = ("\u200b", "a house")
    corpus = Listed(train=(("ein Haus", "a house"), invisible), valid=(("ein", "a"), invisible))
    store = prepared(tmp_path, corpus)
    for split, reason in (("train", "too short"), ("valid", "empty")):
        statistics = store.manifest.statistics[split]
        assert (statistics.read, statistics.pairs) == (2, 1)
        assert statistics.dropped == {reason: 1}
        assert store.pairs(split).source.lengths.min() > 0


def test_pairs_that_the_reader_drops_as_empty_are_counted_for_every_split(tmp_path):
    for split, blanks in (("train", 3), ("valid", 2), ("test", 0)):
        (tmp_path / f"{split}.de").write_text("ein Haus\n" * 5 + " \n" * blanks)
        (tmp_path / f"{split}.en").write_text("a house\n" * 5 + "a\n" * blanks)
    corpus = corpora.CORPORA["files"](path=tmp_path, languages=("de", "en"), empty="drop")
    store = data.prepare(corpus, SMALL, tmp_path / "out", name="own")
    for split, dropped in (("train", {"empty": 3}), ("valid", {"empty": 2}), ("test", {})):
        statistics = store.manifest.statistics[split]
        assert statistics.dropped == dropped
        assert (statistics.pairs, statistics.read) == (5, 5 + sum(dropped.values()))


@pytest.mark.parametrize("workers", [1, 2])
def test_progress_is_of_a_known_total_and_gets_there(tmp_path, monkeypatch, workers):
    monkeypatch.setattr(data.workers, "BLOCK", 100)
    seen = {}
    data.prepare(
        TOY,
        SMALL,
        tmp_path,
        name="toy",
        workers=workers,
        progress=lambda stage, *numbers: seen.setdefault(stage, []).append(numbers),
    )
    for stage in ("counting words", "writing train"):
        done, totals = zip(*seen[stage], strict=True)
        assert len(done) == 5 and sorted(done) == list(done)
        assert set(totals) == {600} == {done[-1]}


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
    source = store.manifest.statistics["train"].source
    assert source == data.store.Side(tokens=5, unknown=0.2, lengths={"2": 1, "3": 1})


def test_weights_of_pairs_are_kept(tmp_path):
    corpus = Listed(train=(("a", "b"), ("c", "d")), weights=(1.0, 0.25))
    store = prepared(tmp_path, corpus)
    assert store.pairs("train").weight.tolist() == [1.0, 0.25]
    assert store.pairs("valid").weight.tolist() == [1.0]
    (batch,) = data.batches(store.pairs("train"), [np.array([1, 0])])
    assert batch.weight.tolist() == [0.25, 1.0]


@pytest.mark.parametrize("weights", [[1.0], [1.0, float("nan")], [1.0, -1.0], [1.0] * 3])
def test_weights_that_are_not_one_for_each_pair_are_refused(tmp_path, weights):
    store = prepared(tmp_path, Listed(train=(("a", "b"), ("c", "d")), weights=(1.0, 0.25)))
    (store.folder / "train.weight").write_bytes(np.array(weights, "<f4").tobytes())
    with pytest.raises(data.BadStore, match="no weight for each pair"):
        store.pairs("train")


def test_a_made_pair_is_trained_on_but_teaches_no_vocabulary(tmp_path):
    lines = [
        {"de": "ein Haus", "en": "a house", "weight": 1},
        {"de": "ein Quark", "en": "a house", "weight": 0.5, "of": 0},
    ]
    for split in ("train", "valid"):
        (tmp_path / f"{split}.jsonl").write_text("\n".join(map(json.dumps, lines)))
    words = data.Settings(vocabulary=text.Words(min_count=1))
    pieces = {}
    for made in ("of", ""):
        corpus = corpora.Files(
            path=tmp_path, languages=("de", "en"), weight="weight", made=made
        )  # fmt: skip
        store = data.prepare(corpus, words, tmp_path / "prepared", name="made")
        pieces[made] = store.codecs[0].vocabulary.pieces
        assert store.pairs("train").weight.tolist() == [1.0, 0.5]
    assert "Quark " in pieces[""]
    assert sorted(pieces["of"]) == ["Haus ", "a ", "ein ", "house "]


# Any corpus, end to end

PACK = {
    "": lambda raw: raw,
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".zst": lambda raw: zstandard.ZstdCompressor().compress(raw),
}
FAULTS = ("none", "none", "none", "more lines", "not UTF-8", "NUL")
SPEAKABLE = [atom for atom in ATOMS if atom not in ("\0", "\ud800")]


@dataclass(frozen=True)
class Fuzzed:
    """Pairs that careless readers trip over, how they are written, and how they are prepared."""

    pairs: dict[str, list[tuple[str, str]]]
    form: str
    pack: str
    end: str
    last: bool
    mark: bool
    fault: str
    empty: str
    block: int
    settings: data.Settings


def fuzzed(rng):
    """Make a corpus at random."""

    def line():
        kind = rng.random()
        if kind < 0.04:
            return rng.choice(["", " ", "\u2028", "\u200b", "\xad", "\x0b\x85"])
        if kind < 0.2:
            points = (rng.randrange(1, rng.choice([0x300, 0x110000])) for _ in range(5))
            return "".join(chr(p) for p in points if not 0xD800 <= p < 0xE000)
        if kind < 0.21:
            return f"{rng.choice(['x ', ''])}{rng.choice('aß7') * rng.choice([255, 256, 3_000])}"
        return "".join(rng.choice(SPEAKABLE) for _ in range(rng.randint(1, 12)))

    def pairs(most):
        made = [(line(), line()) for _ in range(rng.randint(1, most))]
        return made + [rng.choice(made) for _ in range(rng.randint(0, 2))]

    train = pairs(12)
    valid = [*pairs(3), *rng.sample(train, rng.randint(0, 1))]
    subwords = text.Subwords(size=rng.choice([800, 3000]), min_count=rng.randint(1, 2))
    return Fuzzed(
        pairs={"train": train, "valid": valid},
        form=rng.choice(["two", "tsv", "jsonl"]),
        pack=rng.choice(list(PACK)),
        end=rng.choice(["\n", "\r\n"]),
        last=rng.random() < 0.7,
        mark=rng.random() < 0.2,
        fault=rng.choice(FAULTS),
        empty=rng.choice(["drop", "drop", "drop", "error"]),
        block=rng.randint(1, 30),
        settings=data.Settings(
            tokeniser=rng.choice(["joined", "moses", "whitespace"]),
            lowercase=rng.random() < 0.3,
            vocabulary=rng.choice([subwords, text.Words(size=3000, min_count=1)]),
            joint=rng.random() < 0.5,
            filters=data.Filters(
                max_length=rng.choice([5, 175]),
                ratio=rng.choice([None, 2.0]),
                duplicates=rng.choice(["keep", "drop"]),
                shared=rng.choice(["keep", "drop"]),
            ),
        ),
    )


def written(case, folder):
    """Write a fuzzed corpus; return its files, and what is to be read of them."""
    files, truth = {}, {}
    for split, pairs in case.pairs.items():
        if case.form == "jsonl":
            lines = [[json.dumps({"de": one, "en": other}) for one, other in pairs]]
        else:
            banned = str.maketrans("\n\t", "  ") if case.form == "tsv" else {10: " "}
            pairs = [(one.translate(banned), other.translate(banned)) for one, other in pairs]
            lines = [list(side) for side in zip(*pairs, strict=True)]
            lines = [list(map("\t".join, pairs))] if case.form == "tsv" else lines
        # A mark at the start of a file is none of its text.
        if not case.mark and case.form != "jsonl":
            (one, other), *rest = pairs
            cut = other.removeprefix("\ufeff") if case.form == "two" else other
            pairs = [(one.removeprefix("\ufeff"), cut), *rest]
        truth[split] = pairs
        if case.fault == "more lines" and split == "valid" and case.form == "two":
            lines[len(lines[0]) % 2].append("one more")
        names = (".de", ".en") if case.form == "two" else (f".{case.form}",)
        for name, side in zip(names, lines, strict=True):
            # A last line that is empty needs its end, or it is none.
            last = case.end if case.last or not side[-1] else ""
            raw = ("\ufeff" * case.mark + case.end.join(side) + last).encode()
            if split == "valid" and case.fault in ("not UTF-8", "NUL"):
                raw += b"\xff\n" if case.fault == "not UTF-8" else b"\0\n"
            path = folder / f"{split}{name}{case.pack}"
            path.write_bytes(PACK[case.pack](raw))
            files[split] = (*files.get(split, ()), path)
    return files, truth


def expected(case, truth):
    """Return the normalised pairs of each split that stay, or None where the corpus is refused."""
    if case.fault != "none" and not (case.fault == "more lines" and case.form != "two"):
        return None
    filters, stay = case.settings.filters, {}
    cut = [
        text.Tokeniser(language, case.settings.tokeniser, case.settings.lowercase).words
        for language in ("de", "en")
    ]
    for split in ("valid", "train"):
        some = [pair for pair in truth[split] if pair[0].strip() and pair[1].strip()]
        if not some or (case.empty == "error" and len(some) < len(truth[split])):
            return None
        clean = [tuple(map(text.normalise, pair)) for pair in some]
        if split == "train" and filters.duplicates == "drop":
            clean = list(dict.fromkeys(clean))
        clean = [pair for pair in clean if all(pair)]
        if split == "train":
            sizes = [[len(words(side)) for words, side in zip(cut, p, strict=True)] for p in clean]
            clean = [
                pair
                for pair, size in zip(clean, sizes, strict=True)
                if max(size) <= filters.max_length
                and (filters.ratio is None or max(size) <= filters.ratio * min(size))
                and (filters.shared == "keep" or pair not in stay["valid"])
            ]
        stay[split] = clean
    # Whole words that are very long are not learnt: there may be no others.
    short = [
        any(len(word) < text.LONGEST_WORD for pair in stay["train"] for word in words(pair[i]))
        for i, words in enumerate(cut)
    ]
    learnt = any(short) if case.settings.joint else all(short)
    nothing = isinstance(case.settings.vocabulary, text.Words) and not learnt
    return stay if stay["train"] and not nothing else None


def prepare_fuzzed(case, folder):
    """Prepare a fuzzed corpus and compare every pair; an AssertionError is a silent fault."""
    files, truth = written(case, folder)
    stay = expected(case, truth)
    corpus = corpora.CORPORA["files"](**files, languages=("de", "en"), empty=case.empty)
    out = folder / "out"
    with (
        mock.patch.object(data.workers, "BLOCK", case.block),
        mock.patch.object(corpora.reading, "BLOCK", case.block),
        mock.patch("os.fsync"),  # most of the time, and nothing of what is tested
    ):
        try:
            store = data.prepare(corpus, case.settings, out, name="fuzzed")
        except corpora.BadData as error:
            assert stay is None, f"refused without need: {error}"
            assert 1 <= len(str(error).splitlines()) <= 3
            assert not out.exists() or not list(out.iterdir())
            return
    assert stay is not None, "a corpus with a fault was taken"
    store.verify()
    for split, pairs in stay.items():
        numbers, stored = store.manifest.statistics[split], store.pairs(split)
        assert len(stored.source) == len(stored.target) == len(pairs) == numbers.pairs
        assert numbers.read == len(truth[split]) == len(pairs) + sum(numbers.dropped.values())
        for number, (side, codec) in enumerate(
            zip((stored.source, stored.target), store.codecs, strict=True)
        ):
            for i, pair in enumerate(pairs):
                ids, line = side[i], pair[number]
                assert ids.min() > text.EOS  # no text is a special symbol
                wanted = text.lower(line) if case.settings.lowercase else line
                words = isinstance(case.settings.vocabulary, text.Words)
                long = words and max(map(len, line.split())) >= text.LONGEST_WORD
                if (split == "valid" or long) and text.UNK in ids:
                    continue
                assert ids.min() > text.UNK
                if case.settings.tokeniser == "moses":
                    assert codec.tokens(ids) == codec.tokeniser.tokens(line)
                else:
                    assert codec.decode(ids) == wanted


@settings(max_examples=150, deadline=None, derandomize=True)
@given(rng=st.randoms(use_true_random=False))
def test_any_corpus_is_prepared_pair_by_pair_or_refused(rng):
    with tempfile.TemporaryDirectory() as folder:
        prepare_fuzzed(fuzzed(rng), Path(folder))


def test_most_fuzzed_corpora_are_good_and_some_are_not():
    outcomes = []
    for seed in range(200):
        with tempfile.TemporaryDirectory() as folder:
            case = fuzzed(random.Random(seed))
            outcomes.append(expected(case, written(case, Path(folder))[1]) is not None)
    assert 60 < sum(outcomes) < 180


# The store


@pytest.mark.parametrize(
    ("vocabulary", "name"),
    [(4, "uint8"), (256, "uint8"), (257, "uint16"), (65_536, "uint16"), (65_537, "uint32")],
)
def test_ids_are_stored_in_the_smallest_type_that_fits(vocabulary, name):
    assert data.store.smallest_type(vocabulary) == name


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
    del manifest["sha256"]
    (store.folder / "manifest.json").write_bytes(storage.document(manifest))
    with pytest.raises(data.BadStore, match="not ours"):
        data.Prepared.open(store.folder)


def test_no_flipped_bit_of_a_manifest_goes_unnoticed(tmp_path):
    path = prepared(tmp_path).folder / "manifest.json"
    whole = path.read_bytes()
    chance = random.Random(1)
    for _ in range(300):
        damaged = bytearray(whole)
        damaged[chance.randrange(len(whole))] ^= 1 << chance.randrange(8)
        path.write_bytes(damaged)
        with pytest.raises(data.BadStore, match="prepare again"):
            data.Prepared.open(path.parent)


ABSENT = object()


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (("splits",), ABSENT),
        (("more",), 1),
        (("splits", "train"), "many"),
        (("splits", "../x"), 3),
        (("files", "train.source.ids"), ABSENT),
        (("files", "train.source.ids"), {"bytes": -1, "sha256": ""}),
        (("types", "source"), "object"),
        (("types", "source"), ABSENT),
        (("statistics", "train", "source", "unknown"), 1e308),
        (("statistics", "train"), []),
        (("statistics", "train", "cut_words"), ABSENT),
        (("statistics", "train", "shared"), ABSENT),
        (("inputs",), {}),
        (("languages",), ["de"]),
        (("vocabulary",), [10**30, 5]),
    ],
)
def test_a_manifest_that_is_signed_but_malformed_is_refused(tmp_path, keys, value):
    path = prepared(tmp_path).folder / "manifest.json"
    manifest = storage.parse(path.read_bytes(), data.store.FORMAT)
    table = manifest
    for key in keys[:-1]:
        table = table[key]
    if value is ABSENT:
        del table[keys[-1]]
    else:
        table[keys[-1]] = value
    path.write_bytes(storage.document(manifest))
    with pytest.raises(data.BadStore, match="prepare again") as caught:
        data.Prepared.open(path.parent)
    assert "\n" not in str(caught.value)


TINY = data.Settings(vocabulary=text.Subwords(size=300))


def tiny(root, **progress):
    corpus = corpora.CORPORA["toy-de-en"](train=60, valid=5, test=5)
    return data.prepare(corpus, TINY, root, name="toy", **progress)


def test_a_folder_of_an_older_version_is_prepared_again_in_one_line(tmp_path):
    first = tiny(tmp_path)
    path = first.folder / "manifest.json"
    old = json.loads(path.read_text()) | {"format": "augless prepared 1"}
    del old["sha256"]
    path.write_text(json.dumps(old))
    said = []
    again = tiny(tmp_path, progress=lambda stage, *_: said.append(stage))
    assert again.manifest == first.manifest
    assert sum("prepare again: doing so" in stage for stage in said) == 1


def test_only_our_files_of_a_damaged_folder_are_deleted(tmp_path):
    made = tiny(tmp_path)
    (made.folder / "train.source.ids").write_bytes(b"")
    (made.folder / "thesis.tex").write_text("mine")
    with pytest.raises(FileExistsError, match=r"'thesis.tex' in it is not ours\nmove"):
        tiny(tmp_path)
    assert (made.folder / "thesis.tex").read_text() == "mine"
    assert (made.folder / "manifest.json").exists()
    (made.folder / "thesis.tex").unlink()
    assert tiny(tmp_path).manifest == made.manifest


def test_what_a_killed_prepare_left_is_removed_by_one_that_finds_its_work_done(tmp_path):
    made = tiny(tmp_path)
    ended = subprocess.Popen(["true"])
    ended.wait()
    left = tmp_path / f".{made.folder.name}.aside{ended.pid}"
    (left / "source").mkdir(parents=True)
    (left / "source" / "codec.json").write_text("{")
    tiny(tmp_path)
    assert [*tmp_path.iterdir()] == [made.folder]


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


def test_torch_is_not_loaded_to_prepare():
    script = "import sys, augless.data; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True, env=os.environ)


def test_the_vocabulary_of_a_run_or_corpus_is_taken_as_it_is(tmp_path):
    first = corpora.CORPORA["toy-de-en"](train=60, valid=5, test=5)
    second = corpora.CORPORA["toy-de-en"](train=50, valid=5, test=5, seed=2)
    settings = data.Settings(vocabulary=text.Subwords(size=200), joint=False, lowercase=True)
    old = data.prepare(first, settings, tmp_path, name="first")
    new = data.prepare(second, data.Settings(codec=old.folder), tmp_path, name="second")
    assert new.codecs == old.codecs and new.codecs[0] != new.codecs[1]
    moved = old.folder.rename(tmp_path / "moved")
    again = data.prepare(second, data.Settings(codec=moved), tmp_path, name="second")
    assert again.folder == new.folder  # known by content, wherever it lies
    with pytest.raises(corpora.BadData, match=r"prepared corpus \(No such file or directory\)$"):
        data.prepare(second, data.Settings(codec=tmp_path / "nowhere"), tmp_path, name="second")
