"""What every augmenter promises, and the folder it leaves."""

import contextlib
import json
import os
import socket
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import augless
import tiny
from augless import augmentation, corpora, data, decoding, errors, text
from augless.augmentation import AUGMENTERS, BadAugmentation, Enlarged, Reversed, making
from augless.augmentation.augmenter import Context, Line, changed, chosen, words
from augless.cli.augmenting import summary
from support import Listed, killed, trained

TOY = corpora.CORPORA["toy-de-en"](train=70, valid=9, test=8)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(making, "BLOCK", 20)


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    def refuse(*arguments):
        raise AssertionError(f"a connection was attempted: {arguments}")

    monkeypatch.setattr(socket.socket, "connect", refuse)


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return {
        "masked": tiny.masked(folder / "masked"),
        "translation": tiny.text_to_text(folder / "translation"),
        "chat": tiny.chat(folder / "chat"),
        "there": trained(folder / "there", TOY),
        "reverse": trained(folder / "reverse", Reversed.of(TOY)),
    }


@pytest.fixture
def made(models):
    """Make an augmenter of every kind, as small as it can be."""
    knobs = {
        "masked-lm": {"model": str(models["masked"])},
        "back-translation": {"run": models["reverse"]},
        "round-trip": {
            "there": str(models["there"]),
            "back": str(models["reverse"]),
            "side": "source",
            "size": 2,
        },
        "paraphrase": {"model": str(models["translation"]), "prompt": "say: {text}"},
        "word-edits": {},
    }
    return {name: kind(**knobs[name]) for name, kind in AUGMENTERS.items()}


def augment(augmenter, folder, corpus=TOY, **knobs):
    return augmentation.augment(augmenter, corpus, folder, writer=augless.load, **knobs)


def contents(folder):
    """Return the files of a folder, but for the time that is in its manifest."""
    files = {path.name: path.read_bytes() for path in Path(folder).iterdir()}
    manifest = json.loads(files.pop("manifest.json"))
    return files | {"manifest.json": manifest | {"seconds": 0}}


def rows(folder, split="train"):
    lines = (Path(folder) / f"{split}.jsonl").read_text("utf-8").split("\n")[:-1]
    return [json.loads(line) for line in lines]


# Every augmenter


@pytest.mark.parametrize("name", AUGMENTERS)
def test_the_table_names_a_kind_as_it_names_itself(name, made):
    assert made[name].name == name


@pytest.mark.parametrize("name", AUGMENTERS)
def test_a_folder_holds_the_originals_the_made_pairs_and_the_other_splits(name, made, tmp_path):
    augmented = augment(replace(made[name], w=0.5), tmp_path / "out")
    train = rows(augmented.folder)
    originals = [row for row in train if "of" not in row]
    rewritten = [row for row in train if "of" in row]
    pairs = list(TOY.pairs("train"))
    assert [(row["de"], row["en"], row["weight"]) for row in originals] == [
        (pair.source, pair.target, 1.0) for pair in pairs
    ]
    counts = augmented.manifest.pairs
    assert len(rewritten) == counts.made and counts.made + counts.left_out == 70
    assert counts.made > 0
    for row in rewritten:
        assert row["weight"] == 0.5 and row["copy"] == 1
        assert row["en"] == pairs[row["of"]].target  # only the source is rewritten
    for split in ("valid", "test"):
        assert [(row["de"], row["en"]) for row in rows(augmented.folder, split)] == [
            (pair.source, pair.target) for pair in TOY.pairs(split)
        ]
    assert len(augmented.manifest.samples) == min(10, counts.made)
    assert 0 < augmented.manifest.words.share <= 1
    plain = (augmented.folder / "made.de").read_text("utf-8").split("\n")[:-1]
    assert plain == [row["de"] for row in rewritten]


@pytest.mark.parametrize("name", AUGMENTERS)
def test_stopped_after_any_block_and_resumed_it_leaves_the_same_files(name, made, tmp_path):
    whole = augment(made[name], tmp_path / "whole" / "out")
    for before in (0, 2):
        place = tmp_path / str(before) / "out"
        calls = iter(range(before))
        assert augment(made[name], place, stop=lambda c=calls: next(c, None) is None) is None
        assert not place.exists()
        # A block that is not whole is made again.
        (work,) = place.parent.iterdir()
        torn = work / "block-000000.jsonl"
        torn.write_bytes(torn.read_bytes()[:-9])
        resumed = augment(made[name], place)
        assert contents(resumed.folder) == contents(whole.folder)
        assert [path.name for path in place.parent.iterdir()] == ["out"]


@pytest.mark.parametrize("name", ["masked-lm", "word-edits"])
def test_any_number_of_processes_leaves_the_same_files(name, made, tmp_path):
    one, two = (augment(made[name], tmp_path / str(n), workers=n) for n in (1, 2))
    assert contents(one.folder) == contents(two.folder)


@pytest.mark.parametrize("name", ["masked-lm", "word-edits"])
@pytest.mark.parametrize("side", ["source", "target", "both"])
def test_a_rate_of_0_is_the_identity(name, side, made, tmp_path):
    augmented = augment(replace(made[name], rate=0.0, copies=2, side=side), tmp_path / "out")
    pairs = list(TOY.pairs("train"))
    rewritten = [row for row in rows(augmented.folder) if "of" in row]
    assert len(rewritten) == 140 and augmented.manifest.words.changed == 0
    for row in rewritten:
        assert (row["de"], row["en"]) == (pairs[row["of"]].source, pairs[row["of"]].target)


@pytest.mark.parametrize(
    ("name", "knobs"),
    [
        ("masked-lm", {}),
        ("word-edits", {}),
        ("paraphrase", {}),
        ("round-trip", {"size": 3}),
        ("back-translation", {"search": "sampling"}),
        ("back-translation", {"search": "beam"}),
    ],
)
def test_copies_of_a_pair_differ(name, knobs, made, tmp_path):
    if "search" in knobs:
        knobs = {"search": decoding.SEARCHES[knobs["search"]](max_ratio=1.0, max_extra=5)}
    augmented = augment(replace(made[name], copies=3, **knobs), tmp_path / "out")
    texts = {}
    for row in rows(augmented.folder):
        if "of" in row:
            texts.setdefault(row["of"], []).append(row["de"])
    several = [copies for copies in texts.values() if len(copies) > 1]
    assert several and sum(len(set(copies)) > 1 for copies in several) > len(several) / 2


@pytest.mark.parametrize("name", ["masked-lm", "word-edits", "paraphrase"])
def test_another_seed_draws_otherwise(name, made, tmp_path):
    one, two = (augment(made[name], tmp_path / str(n), seed=n) for n in (1, 2))
    assert contents(one.folder)["made.de"] != contents(two.folder)["made.de"]


def test_what_a_pair_becomes_depends_on_no_other_pair(made, tmp_path):
    pairs = list(TOY.pairs("train"))[:30]
    for name in ("masked-lm", "word-edits", "back-translation"):
        context = Context(
            corpus=TOY, seed=1, work=tmp_path, cache=tmp_path, writer=augless.load, device="cpu"
        )
        all_ = list(made[name].pairs(pairs, context))
        some = list(made[name].pairs(pairs[:11], context))
        assert all_[: len(some)] == some and all(pair.made for pair in all_)


# The folder


@pytest.mark.parametrize("point", ["augment-begun", "augment-written", "augment-renamed"])
def test_killed_while_the_folder_is_put_together_it_is_whole_or_made_again(made, tmp_path, point):
    whole = augment(made["word-edits"], tmp_path / "whole")
    out = tmp_path / "deep" / "out"
    killed(lambda: augment(made["word-edits"], out), at=point)
    assert out.exists() == (point == "augment-renamed")
    assert contents(augment(made["word-edits"], out).folder) == contents(whole.folder)
    if point != "augment-renamed":  # else a folder of work stays hidden beside it
        assert [*out.parent.iterdir()] == [out]


def test_the_same_call_finds_the_folder(made, tmp_path):
    first = augment(made["word-edits"], tmp_path / "out")
    stamp = (first.folder / "train.jsonl").stat().st_mtime_ns
    again = augment(made["word-edits"], tmp_path / "out")
    assert (again.folder / "train.jsonl").stat().st_mtime_ns == stamp
    assert again.manifest == first.manifest


def test_a_folder_that_was_made_otherwise_is_refused(made, tmp_path):
    augment(made["word-edits"], tmp_path / "out")
    for change in ({"seed": 2}, {"corpus": replace(TOY, train=71)}):
        with pytest.raises(BadAugmentation, match=f"{next(iter(change))} was .* and is now"):
            augment(made["word-edits"], tmp_path / "out", **change)
    with pytest.raises(BadAugmentation, match=r"rate was 0\.1 and is now 0\.3"):
        augment(replace(made["word-edits"], rate=0.3), tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_damaged_folder_is_refused(made, tmp_path):
    augmented = augment(made["word-edits"], tmp_path / "out")
    path = augmented.folder / "train.jsonl"
    content = path.read_bytes()
    path.write_bytes(content.replace(b"a", b"e", 1))
    with pytest.raises(BadAugmentation, match="is not what was written"):
        augment(made["word-edits"], tmp_path / "out")
    path.write_bytes(content[:-1])
    with pytest.raises(BadAugmentation, match="not the file that was written"):
        augment(made["word-edits"], tmp_path / "out")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{}",
        b'{"format": "augless augmented 1"}',
        b'{"format": "augless augmented 1", "files": {"../x": {"bytes": 0, "sha256": ""}},'
        b'"fingerprint": "", "made_from": {}, "pairs": {}}',
        b'{"format": 7, "files": 3}',
        b"[" * 100_000,
        b"\xff\xfe",
    ],
)
def test_a_foreign_manifest_is_refused_in_one_line(content, tmp_path, made):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "manifest.json").write_bytes(content)
    for call in (
        lambda: augmentation.Augmented.open(tmp_path / "out"),
        lambda: augment(made["word-edits"], tmp_path / "out"),
    ):
        with pytest.raises(BadAugmentation) as caught:
            call()
        assert "\n" not in str(caught.value)
    assert (tmp_path / "out" / "manifest.json").read_bytes() == content


def test_a_model_that_makes_no_pair_at_all_is_told_of(made, tmp_path, monkeypatch):
    def opened(self, context):
        return contextlib.nullcontext(lambda lines: [[""] for _ in lines])

    some = augment(made["paraphrase"], tmp_path / "some")
    monkeypatch.setattr(type(made["paraphrase"]), "open", opened)
    none = augment(made["paraphrase"], tmp_path / "none")
    assert "no pair could be made" in summary(none, "train") and "train on it" in summary(some, "")
    assert "train on it" not in summary(none, "train")


def test_nothing_is_written_where_something_else_is(made, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    before = sorted(tmp_path.rglob("*"))
    for name, kind in (("full", BadAugmentation), ("link", BadAugmentation)):
        with pytest.raises(kind):
            augment(made["word-edits"], tmp_path / name)
    for name in ("file", "file/below"):
        with pytest.raises(OSError, match="file"):
            augment(made["word-edits"], tmp_path / name)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_planted_link_in_place_of_the_work_folder_is_not_followed(made, tmp_path):
    assert augment(made["word-edits"], tmp_path / "out", stop=lambda: True) is None
    (work,) = tmp_path.iterdir()
    work.rename(tmp_path / "moved")
    work.symlink_to(tmp_path / "moved")
    with pytest.raises(BadAugmentation, match="not a folder of ours"):
        augment(made["word-edits"], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_written_is_refused_before_any_work(made, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)  # whoever runs this may be root
    with pytest.raises(PermissionError, match="cannot be written"):
        augment(made["word-edits"], tmp_path / "out")
    assert not any(tmp_path.iterdir())


def test_an_empty_folder_is_filled(made, tmp_path):
    (tmp_path / "out").mkdir()
    assert augment(made["word-edits"], tmp_path / "out").folder == tmp_path / "out"


def test_two_processes_do_not_make_one_folder_at_once(made, tmp_path):
    def again():
        with pytest.raises(errors.Busy, match="another process"):
            augment(made["word-edits"], tmp_path / "out")
        return True

    assert augment(made["word-edits"], tmp_path / "out", stop=again) is None


def test_an_augmented_corpus_is_not_augmented_again(made, tmp_path):
    augment(made["word-edits"], tmp_path / "out")
    corpus = corpora.Files(path=tmp_path / "out", languages=("de", "en"), weight="weight")
    with pytest.raises(BadAugmentation, match=r"augmented already \(word-edits, seed 1\)"):
        augment(made["word-edits"], tmp_path / "twice", corpus=corpus)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_files_that_change_meanwhile_are_noticed(made, tmp_path):
    for language in ("de", "en"):
        (tmp_path / f"train.{language}").write_text("ein Haus\n" * 30)
    corpus = corpora.Files(path=tmp_path, languages=("de", "en"))

    def meddle(stage, done, total):
        if stage == "rewriting" and done == total:
            (tmp_path / "train.de").write_text("zwei Häuser\n" * 30)

    with pytest.raises(corpora.BadData, match="changed while they were read"):
        augment(made["word-edits"], tmp_path / "out", corpus=corpus, progress=meddle)
    assert not (tmp_path / "out").exists()


def test_progress_counts_pairs_to_the_end(made, tmp_path):
    told = []
    augment(made["word-edits"], tmp_path / "out", progress=lambda *stage: told.append(stage))
    counts = [done for stage, done, total in told if stage == "rewriting" and total == 70]
    assert counts == [0, 20, 40, 60, 70]


# Corpora with made pairs


def test_an_enlarged_corpus_trains_on_both_at_a_weight_and_learns_words_of_the_originals(tmp_path):
    listed = Listed(train=(("ein Haus", "a house"), ("ein Baum", "a tree")), weights=(1.0, 2.0))
    edits = AUGMENTERS["word-edits"](edit="replace", rate=1.0, copies=2)
    made = augment(edits, tmp_path / "out", corpus=listed)
    larger = Enlarged.of(listed, made.folder, w=0.25)
    pairs = list(larger.pairs("train"))
    assert [pair.weight for pair in pairs] == [1.0, 2.0, 0.25, 0.25, 0.5, 0.5]
    assert [pair.made for pair in pairs] == [False] * 2 + [True] * 4
    assert list(larger.pairs("valid")) == list(listed.pairs("valid"))
    assert larger.splits() == listed.splits() and larger.languages == listed.languages
    settings = data.Settings(vocabulary=text.Words(min_count=1))
    plain, both = (data.prepare(c, settings, tmp_path / "data", name="x") for c in (listed, larger))
    assert [c.fingerprint for c in plain.codecs] == [c.fingerprint for c in both.codecs]
    assert both.manifest.splits == {"train": 6, "valid": 1}
    other = Enlarged.of(listed, made.folder, w=0.5)
    assert larger.fingerprint() != other.fingerprint() != listed.fingerprint()


def test_an_enlarged_corpus_refuses_pairs_made_of_another(made, tmp_path):
    augmented = augment(made["word-edits"], tmp_path / "out")
    with pytest.raises(BadAugmentation, match="another corpus"):
        Enlarged.of(replace(TOY, train=71), augmented.folder).check()
    Enlarged.of(TOY, augmented.folder).check()


def test_the_files_corpus_reads_a_folder_with_weights(made, tmp_path):
    augmented = augment(replace(made["word-edits"], w=0.5), tmp_path / "out")
    corpus = corpora.Files(
        path=augmented.folder, languages=("de", "en"), weight="weight", made="of"
    )  # fmt: skip
    corpus.check()
    assert list(corpus.pairs("train")) == list(
        Enlarged.of(TOY, augmented.folder, w=0.5).pairs("train")
    )
    assert list(corpus.pairs("valid")) == list(TOY.pairs("valid"))


def test_a_corpus_turned_round_twice_has_its_pairs_again():
    turned = Reversed.of(TOY)
    assert turned.languages == ("en", "de") and turned.splits() == TOY.splits()
    assert [pair.source for pair in turned.pairs("valid")] == [
        pair.target for pair in TOY.pairs("valid")
    ]
    assert list(Reversed.of(turned).pairs("train")) == list(TOY.pairs("train"))
    assert turned.fingerprint() != TOY.fingerprint()


# Words


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Der Hund, 2 Katzen!", ["Der", "Hund", "2", "Katzen"]),
        ("it's well-known - isn\u2019t it", ["it's", "well-known", "isn\u2019t", "it"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        ("你好 world", ["你", "好", "world"]),
        ("a_b", ["a", "b"]),
        ("... !", []),
        ("", []),
    ],
)
def test_words_are_letters_and_what_belongs_to_them(line, expected):
    assert [line[start:end] for start, end in words(line)] == expected


@given(st.text(st.characters(max_codepoint=127)))
def test_the_fast_way_through_ascii_finds_the_same_words(line):
    fast = words(line)
    assert [span for span in words(f"{line} ä") if span[1] <= len(line)] == fast


@given(st.integers(0, 40), st.floats(0, 1), st.integers(0, 5))
def test_that_share_of_words_is_chosen_but_at_least_one(count, rate, copy):
    line = Line("x", (1, 2, 0))
    picked = chosen(line, copy, rate, range(count), count)
    wanted = 0 if rate == 0 or not count else max(1, round(rate * count))
    assert len(picked) == len({*picked}) == wanted and picked == sorted(picked)
    assert picked == chosen(line, copy, rate, range(count), count)


@pytest.mark.parametrize(
    ("before", "after", "counts"),
    [
        ("a b c", "a b c", (0, 3)),
        ("a b c", "a x c", (1, 3)),
        ("a b c", "b a c", (2, 3)),
        ("a b c", "a c", (1, 3)),
        ("a b", "a b c d", (2, 4)),
        ("", "", (0, 0)),
    ],
)
def test_changed_words_are_counted(before, after, counts):
    assert changed(before, after) == counts


# Word edits


def edited(line, tmp_path, **knobs):
    corpus = Listed(train=((line, "x"), ("eins zwei drei", "y")))
    context = Context(corpus=corpus, seed=1, work=tmp_path, cache=tmp_path)
    edits = AUGMENTERS["word-edits"](**knobs)
    return [pair.source for pair in edits.pairs(corpus.pairs("train"), context)][: edits.copies]


def test_a_deleted_word_takes_one_space_with_it(tmp_path):
    edits = edited('Ja, "das" Haus ist  neu.', tmp_path, edit="delete", rate=0.2, copies=40)
    assert {*edits} == {
        ', "das" Haus ist  neu.',
        'Ja, "" Haus ist  neu.',
        'Ja, "das" ist  neu.',
        'Ja, "das" Haus  neu.',
        'Ja, "das" Haus ist .',
    }


def test_the_last_word_is_never_deleted(tmp_path):
    assert edited("Haus", tmp_path, edit="delete", rate=1.0, copies=3) == ["Haus"] * 3
    for line in edited("ein neues Haus", tmp_path, edit="delete", rate=1.0, copies=5):
        assert len(words(line)) == 1


def test_swapping_keeps_the_words(tmp_path):
    for line in edited("Der Hund, die Katze.", tmp_path, edit="swap", rate=0.5, copies=20):
        assert sorted(line[a:b] for a, b in words(line)) == sorted(["Der", "Hund", "die", "Katze"])
        assert [c for c in line if not c.isalpha()] == [*" ,  ."]


def test_replacing_takes_other_words_of_the_same_side(tmp_path):
    for line in edited("Der Hund", tmp_path, edit="replace", rate=0.5, copies=20):
        first, second = line.split(" ")
        assert (first != "Der") != (second != "Hund")
        assert {first, second} <= {"Der", "Hund", "eins", "zwei", "drei"}
