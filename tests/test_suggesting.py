"""What the size of a corpus decides: only what a recipe leaves open, and always with its reason."""

import pytest

from augless import corpora
from augless.recipes import suggesting

GIVEN = {
    "model": "lstm",
    "text": {"vocabulary": {"name": "subwords", "size": 500}},
    "training": {"batch": 8, "epochs": 3, "optimizer": "sgd", "patience": 1},
}


class Pairs(corpora.Corpus):
    """As many pairs as asked for, and how many were read."""

    def __init__(self, count, words=10):
        object.__setattr__(self, "count", count)
        object.__setattr__(self, "words", words)
        object.__setattr__(self, "read", [])

    def pairs(self, split):
        for n in range(self.count):
            self.read.append(n)
            yield corpora.Pair(" ".join(["a"] * self.words), "b", 1.0)


def suggested(count, values=None):
    found = suggesting.suggestions(values or {}, Pairs(count))
    return {one.key: one.value for one in found}


def test_a_recipe_that_leaves_nothing_open_does_not_have_its_corpus_read():
    corpus = Pairs(10)
    assert suggesting.suggestions(GIVEN, corpus) == [] and corpus.read == []


@pytest.mark.parametrize("key", ["batch", "epochs", "optimizer", "patience"])
def test_what_is_given_is_not_suggested_and_what_is_not_is(key):
    rest = {k: v for k, v in GIVEN["training"].items() if k != key}
    assert [*suggested(100, GIVEN | {"training": rest})] == [f"training.{key}"]


def test_a_model_that_is_given_keeps_its_own_defaults():
    assert not any(key.startswith("model") for key in suggested(100, {"model": "paper-lstm"}))
    assert {"model.dropout", "model.tie"} <= suggested(100).keys()


def test_a_vocabulary_of_words_has_no_size():
    values = {"text": {"vocabulary": {"name": "words"}}}
    assert "text.vocabulary.size" not in suggested(100, values)
    assert "text.vocabulary.size" in suggested(100, {"text": {"vocabulary": "subwords"}})


def test_more_pairs_mean_more_subwords_larger_batches_fewer_epochs_and_less_dropout():
    few, many = suggested(1_000), suggested(60_000)
    for key in ("text.vocabulary.size", "training.batch"):
        assert few[key] < many[key], key
    for key in ("training.epochs", "model.dropout"):
        assert few[key] > many[key], key
    assert few["training.optimizer"]["schedule"] == "linear"


def test_the_warm_up_follows_the_epochs_and_the_batch_that_are_given():
    short = suggested(1_000, {"training": {"epochs": 2, "batch": 100}})
    assert short["training.optimizer"]["warmup"] == 1
    long = suggested(1_000, {"training": {"epochs": 20, "batch": 10}})
    assert long["training.optimizer"]["warmup"] == 100


def test_reasons_name_the_number_of_pairs():
    (one, *_) = suggesting.suggestions({}, Pairs(1_234))
    assert one.reason == "for 1,234 training pairs"


def test_counting_ends_where_it_changes_nothing(monkeypatch):
    monkeypatch.setattr(suggesting, "ENOUGH", 50)
    corpus = Pairs(1_000)
    (one, *_) = suggesting.suggestions({}, corpus)
    assert len(corpus.read) == 50 and one.reason == "for 50 training pairs or more"


def test_a_corpus_that_cannot_be_read_is_left_to_whoever_prepares_it():
    class Broken(Pairs):
        def pairs(self, split):
            raise corpora.BadData("line 3 is not UTF-8")

    assert suggesting.suggestions({}, Broken(1)) == []
    assert suggesting.suggestions({}, Pairs(0)) == []


def test_two_vocabularies_cannot_share_all_tables():
    assert suggested(100, {"text": {"joint": False}})["model.tie"] == "output"
