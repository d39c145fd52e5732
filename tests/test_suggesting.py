"""What the size of a corpus decides: only what a recipe leaves open, and always with its reason."""

import pytest

from augless import corpora, data, recipes, text
from augless.recipes import suggesting

GIVEN = {
    "search": "greedy",
    "terms": [{"loss": {"smoothing": 0.0}}],
    "model": {"name": "lstm", "dropout": 0.1, "tie": "none", "shortcut": False},
    "text": {"vocabulary": {"name": "subwords", "size": 500}},
    "training": {
        "batch": 8,
        "epochs": 3,
        "optimizer": "sgd",
        "patience": 1,
        "per": "sentence",
        "clip": 5.0,
    },
}


@pytest.fixture
def files(tmp_path):
    def write(count, words=10):
        for side, line in (("de", " ".join(["a"] * words)), ("en", "b")):
            (tmp_path / f"train.{side}").write_text(f"{line}\n" * count)
        return {"name": "files", "path": str(tmp_path), "languages": ["de", "en"]}

    return write


@pytest.fixture
def suggested(files):
    def suggest(count, values=None):
        suggestions = suggesting.suggestions({**(values or {}), "corpus": files(count)})
        return {one.key: one.value for one in suggestions}

    return suggest


def of(suggestions, key):
    return next(one for one in suggestions if one.key == key)


def test_a_recipe_that_leaves_nothing_open_does_not_have_its_corpus_read(monkeypatch, suggested):
    monkeypatch.setattr(corpora.Files, "pairs", lambda *_: pytest.fail("it was read"))
    assert suggested(10, GIVEN) == {}


def test_a_known_corpus_says_itself_what_it_needs():
    assert suggesting.suggestions({"corpus": "toy-de-en"}) == []


def test_auto_is_as_good_as_nothing(suggested):
    values = {**GIVEN, "model": {**GIVEN["model"], "dropout": "auto"}}
    assert [*suggested(100, values)] == ["model.dropout"]
    values = {**GIVEN, "training": {**GIVEN["training"], "epochs": "auto"}}
    assert [*suggested(100, values)] == ["training.epochs"]


def test_the_same_files_are_counted_once_and_other_ones_again(monkeypatch, files):
    corpus = files(10)
    calls = []
    counted = corpora.Files.pairs
    monkeypatch.setattr(
        corpora.Files, "pairs", lambda self, split: calls.append(1) or counted(self, split)
    )
    first, second = (suggesting.suggestions({"corpus": corpus}) for _ in range(2))
    assert first == second and len(calls) == 1
    more = of(suggesting.suggestions({"corpus": files(12)}), "training.batch")
    assert more.reason == "for 12 training pairs" and len(calls) == 2


def test_a_sample_of_files_is_counted_by_itself(files):
    corpus = files(30)
    whole, part = ({**corpus, "sample": sample} for sample in (0, 10))
    for given, count in ((whole, 30), (part, 10), (whole, 30)):
        one = of(suggesting.suggestions({"corpus": given}), "training.batch")
        assert one.reason == f"for {count} training pairs"


@pytest.mark.parametrize("key", ["batch", "epochs", "optimizer", "patience", "per", "clip"])
def test_what_is_given_is_not_suggested_and_what_is_not_is(key, suggested):
    rest = {k: v for k, v in GIVEN["training"].items() if k != key}
    keys = suggested(100, GIVEN | {"training": rest})
    assert keys and all(f"{name}.".startswith(f"training.{key}.") for name in keys)


def test_the_papers_models_keep_their_own_values(suggested):
    assert not any(key.startswith("model") for key in suggested(100, {"model": "paper-lstm"}))


def test_what_is_said_of_a_model_leaves_the_rest_open(suggested):
    for model in (None, "lstm", {"name": "lstm", "attention": "dot"}, {"hidden": 256}):
        values = suggested(100, {"model": model} if model else {})
        assert values["model.dropout"] == 0.5 and values["model.tie"] == "all", model
        assert values["model.shortcut"] is True, model
    assert "model.dropout" not in suggested(100, {"model": {"name": "lstm", "dropout": 0.1}})


def test_what_is_suggested_fits_the_model(files):
    corpus = files(300)
    base = [f"corpus.path={corpus['path']}", "corpus.languages=de,en"]
    for model in (
        ["model=transformer"],
        ["model.embedding=64"],
        ["model.hidden=64", "model.embedding=64"],
        ["text.joint=false"],
    ):
        recipe = recipes.load("files", [*base, *model]).recipe
        recipe.model.build(50, 50, seed=1, shared=recipe.text.joint)


def test_a_rate_alone_is_one_of_what_is_suggested(suggested):
    values = suggested(100, {"training": {"optimizer": {"rate": 0.1}}})
    assert values["training.optimizer.name"] == "adam" and "training.optimizer.warmup" in values
    assert "training.optimizer.rate" not in values
    assert not any(
        key.startswith("training.optimizer")
        for key in suggested(100, {"training": {"optimizer": {"name": "sgd"}}})
    )


def test_every_cross_entropy_is_smoothed_unless_it_says_otherwise(suggested):
    key = "terms.{}.loss.smoothing".format
    assert suggested(5_000)[key(0)] == suggested(5_000, {"terms": [{}]})[key(0)] == 0.2
    terms = [{"weighting": "exponential"}, {"loss": "r-drop"}, {"loss": {"name": "cross-entropy"}}]
    values = suggested(100, {"terms": terms})
    assert [place for place in range(3) if key(place) in values] == [0, 2]
    for loss in ({"smoothing": 0.0}, {"name": "cross-entropy", "smoothing": 0.3}):
        assert key(0) not in suggested(100, {"terms": [{"loss": loss}]})
    assert key(0) not in suggested(100, {"terms": "none"}), "what is wrong is said elsewhere"


def test_a_vocabulary_of_words_has_no_size(suggested):
    values = {"text": {"vocabulary": {"name": "words"}}}
    assert "text.vocabulary.size" not in suggested(100, values)
    assert "text.vocabulary.size" in suggested(100, {"text": {"vocabulary": "subwords"}})


def test_more_pairs_mean_more_subwords_larger_batches_fewer_epochs_and_less_dropout(suggested):
    few, many = suggested(1_000), suggested(60_000)
    for key in ("text.vocabulary.size", "training.batch"):
        assert few[key] < many[key], key
    for key in ("training.epochs", "model.dropout", "terms.0.loss.smoothing"):
        assert few[key] > many[key], key
    assert few["training.optimizer.schedule"] == "linear"


def test_the_warm_up_follows_the_epochs_and_the_batch_that_are_given(suggested):
    short = suggested(1_000, {"training": {"epochs": 2, "batch": 100}})
    assert short["training.optimizer.warmup"] == 1
    long = suggested(1_000, {"training": {"epochs": 20, "batch": 10}})
    assert long["training.optimizer.warmup"] == 100


def test_reasons_name_what_a_value_follows_from(files):
    def reasons(**values):
        suggestions = suggesting.suggestions({**values, "corpus": files(1_234)})
        return {one.key: one.reason for one in suggestions}

    known = reasons(model={"name": "lstm", "embedding": 64, "hidden": 128})
    by_size = {key for key, why in known.items() if why == "for 1,234 training pairs"}
    sized = ("model.dropout", "terms.0.loss.smoothing", "training.batch", "training.epochs")
    assert by_size == {*sized}
    assert known["text.vocabulary.size"] == "for 13,574 words"
    assert known["model.tie"] == known["model.shortcut"] == "embedding differs from hidden"
    assert known["training.optimizer.rate"] == "for hidden = 128"
    assert known["training.patience"] == "for 20 epochs"
    assert known["training.optimizer.warmup"] == "for 3,100 steps"
    assert reasons(model="transformer")["training.optimizer.rate"] == "for transformer"


def test_a_vocabulary_that_is_taken_from_a_run_has_its_own_size(suggested):
    assert "text.vocabulary.size" not in suggested(100, {"text": {"codec": "runs/a"}})
    assert "text.vocabulary.size" in suggested(100, {"text": {"codec": ""}})


def test_a_vocabulary_that_is_taken_decides_what_can_be_tied(suggested, tmp_path):
    for joint, tie in ((True, "all"), (False, "output")):
        toy = corpora.CORPORA["toy-de-en"](train=30, valid=5, test=5)
        settings = data.Settings(vocabulary=text.Words(min_count=1), joint=joint)
        codec = data.prepare(toy, settings, tmp_path, name="toy").folder
        assert suggested(100, {"text": {"codec": str(codec)}})["model.tie"] == tie
        gone = {"codec": str(tmp_path / "gone"), "joint": joint}
        assert suggested(100, {"text": gone})["model.tie"] == tie


def test_counting_ends_where_it_changes_nothing(monkeypatch, files):
    monkeypatch.setattr(suggesting, "COUNTED_PAIRS", 50)
    known = suggesting.suggestions({"corpus": files(1_000)})
    assert of(known, "text.vocabulary.size").reason == "for 550 words or more"
    one = of(known, "training.batch")
    assert one.reason == "for 50 training pairs or more"


def test_a_corpus_that_cannot_be_read_is_left_to_whoever_prepares_it(files, suggested, tmp_path):
    corpus = files(3)
    assert suggested(0) == {}
    (tmp_path / "train.de").write_bytes(b"\xff\n" * 3)
    assert suggesting.suggestions({"corpus": corpus}) == []
    assert suggesting.suggestions({"corpus": {**corpus, "path": "nowhere"}}) == []
    assert suggesting.suggestions({"corpus": {**corpus, "languges": 1}}) == []


def test_a_recipe_says_what_was_suggested_and_why(files):
    corpus = files(300)
    overrides = [f"corpus.path={corpus['path']}", "corpus.languages=de,en", "training.epochs=2"]
    origins = recipes.load("files", overrides).origins
    assert origins["training.epochs"] == (2, "command line")
    value, by = origins["training.batch"]
    assert (value, str(by)) == (8, "for 300 training pairs")
    assert origins["training.optimizer.schedule"][0] == "linear"
    assert str(origins["text.vocabulary.size"][1]) == "for 3,300 words"
    prepared = recipes.preparation("files", overrides).origins
    assert prepared["text.vocabulary.size"] == origins["text.vocabulary.size"]
    assert not any(key.startswith("training") for key in prepared)


def test_two_vocabularies_cannot_share_all_tables(suggested):
    assert suggested(100, {"text": {"joint": False}})["model.tie"] == "output"


def test_what_is_suggested_depends_on_whether_lengths_go_together(tmp_path):
    def said(sources, targets, **values):
        for side, lengths in (("de", sources), ("en", targets)):
            lines = "".join("a" * length + "\n" for length in lengths)
            (tmp_path / f"train.{side}").write_text(lines)
        corpus = {"name": "files", "path": str(tmp_path), "languages": ["de", "en"]}
        suggestions = suggesting.suggestions({"corpus": corpus, **values})
        return {one.key: (one.value, one.reason) for one in suggestions}

    def penalty(*sides, **values):
        return said(*sides, **values).get("search.length_penalty")

    translation, dialogue = ([1, 2, 3, 9], [2, 4, 5, 20]), ([20, 40, 20, 40], [20, 20, 40, 40])
    many = tuple(lengths * 2_500 for lengths in translation)
    assert penalty(*translation)[0] == 1.0 and penalty(*many)[0] == 0.6
    assert penalty(*many)[1].endswith("pairs; lengths of both sides go together, correlation 1.00")
    value, reason = penalty(*dialogue)
    assert value == 2.0 and "lengths of both sides do not go together" in reason
    a_line_too_long = [*many[0], 20], [*many[1], 5_000]
    assert penalty(*a_line_too_long)[0] == 0.6, "one line does not decide"
    pasted = [*dialogue[0] * 500, 5_000], [*dialogue[1] * 500, 5_000]
    assert penalty(*pasted)[0] == 2.0, "one line does not decide"
    for nothing_to_tell in (([1, 2], [3, 3]), ([4], [4])):
        assert penalty(*nothing_to_tell)[0] == 1.0
    assert penalty(*dialogue, search={"size": 3})[0] == 2.0
    assert penalty(*dialogue, search={"name": "beam", "length_penalty": 0.2}) is None
    assert penalty(*dialogue, search="sampling") is None
    asked, told = (said(*(side * 2_000 for side in one)) for one in (dialogue, translation))
    size, smoothing = "text.vocabulary.size", "terms.0.loss.smoothing"
    assert abs(2 * asked[size][0] - told[size][0]) <= 100, "half as many, in hundreds"
    assert "do not go together" in asked[size][1]
    assert (asked[smoothing][0], told[smoothing][0]) == (0.1, 0.2)
    assert "do not go together" in asked[smoothing][1]


def test_a_suggested_vocabulary_holds_all_characters(tmp_path):
    signs = [chr(0x4E00 + k) for k in range(900)]
    for side, turn in (("zh", 0), ("ja", 450)):
        lines = [" ".join(signs[(k + turn) % 900 :][:3]) for k in range(900)]
        (tmp_path / f"train.{side}").write_text("\n".join(lines) + "\n")
        for split in ("valid", "test"):
            (tmp_path / f"{split}.{side}").write_text("\n".join(lines[:5]) + "\n")
    overrides = [f"corpus.path={tmp_path}", 'corpus.languages=["zh","ja"]']
    resolved = recipes.load("files", overrides)
    value, reason = resolved.origins["text.vocabulary.size"]
    assert value == 1800 and str(reason) == "for 901 different characters"
    recipe = resolved.recipe
    prepared = data.prepare(recipe.corpus, recipe.text, tmp_path / "prepared", name="signs")
    assert len(prepared.codecs[1].vocabulary) > 901
