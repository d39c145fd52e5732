"""Augmentation as a step of a recipe: made pairs, what they need, and what they cost."""

import dataclasses
import json

import pytest

import augless
from augless import augmentation, data, errors, recipes, runs
from augless.recipes import following, needing

SMALL = (
    "corpus.train=60",
    "corpus.valid=8",
    "corpus.test=7",
    "text.vocabulary.size=200",
    "model.embedding=16",
    "model.hidden=16",
    "training.epochs=2",
)
EDITS = ("augment.name=word-edits", "augment.w=0.5", "augment.copies=2")
BACK = ("augment=back-translation", "augment.search.max_ratio=1.0")
LAW = ("terms.0.weighting=exponential",)


def load(*overrides, recipe="toy-de-en"):
    return recipes.load(recipe, [*SMALL, *overrides])


def train(resolved, folder, **knobs):
    return following.train(resolved, place_in(folder, **knobs))


def place_in(folder, **knobs):
    places = {"prepared": folder / "data", "runs": folder / "runs"}
    return following.Place(**places, device="cpu", **knobs)


def opened(run, folder):
    """Open the prepared corpus that a run was trained on."""
    every = (folder / "data").glob("*/manifest.json")
    prepared_folders = [data.Prepared.open(path.parent) for path in every]
    (one,) = [prepared for prepared in prepared_folders if prepared.fingerprint == run.corpus]
    return one


def weights(run):
    return {name: tensor.tolist() for name, tensor in run.best().tensors["model"].items()}


def made_files(folder):
    """Return the bytes of all made pairs."""
    paths = (folder / "data" / "augmented").glob("*/train.jsonl")
    return {path.parent.name: path.read_bytes() for path in paths}


@pytest.fixture(scope="module")
def edited(tmp_path_factory):
    folder = tmp_path_factory.mktemp("edited")
    run, finished = train(load(*EDITS), folder)
    assert finished
    return folder, run


@pytest.fixture(scope="module")
def back(tmp_path_factory):
    folder = tmp_path_factory.mktemp("back")
    told = []
    run, finished = train(load(*BACK, *LAW), folder, progress=lambda *stage: told.append(stage))
    assert finished
    return folder, run, told


# Which run it is


@pytest.mark.parametrize(
    ("overrides", "name"), [((), "3b07d8b1889d"), ((*LAW, "seed=3"), "7365bd96a5cf")]
)
def test_a_recipe_that_does_not_augment_is_the_run_it_always_was(overrides, name, tmp_path):
    """The names are those of the version before recipes could augment."""
    path = tmp_path / "toy.toml"
    path.write_text('corpus = "toy-de-en"\nmodel = {name = "lstm", hidden = 128}\n')
    resolved = recipes.load(str(path), overrides)
    assert resolved.recipe.augment is None
    assert not [key for key in following.identity(resolved) if key.startswith("augment")]
    assert following.run_name(resolved, "c") == name


def test_augmentation_and_its_knobs_are_part_of_what_a_run_is():
    changes = [(), EDITS, (*EDITS, "augment.w=0.25"), (*EDITS, "augment.rate=0.3"), BACK]
    assert len({following.run_name(load(*one), "c") for one in changes}) == len(changes)


def test_what_changes_no_text_is_no_part_of_it():
    asked = ("augment=paraphrase", "augment.model=m", "augment.url=http://localhost:1/v1")
    names = {
        following.run_name(load(*asked, *more), "c")
        for more in ((), ("augment.concurrency=9",), ("augment.limit=5",))
    }
    assert len(names) == 1


def test_a_model_is_known_by_its_content_wherever_it_lies(back, tmp_path):
    folder, run, _ = back
    (reverse,) = (folder / "runs").glob("toy-de-en-reverse-*")
    elsewhere = tmp_path / "moved"
    elsewhere.symlink_to(reverse)
    names = [
        following.run_name(load(*BACK, f"augment.run={path}"), "c") for path in (reverse, elsewhere)
    ]
    assert names[0] == names[1] != following.run_name(load(*BACK, f"augment.run={run.folder}"), "c")


def test_a_file_says_the_same_as_the_command_line(tmp_path):
    path = tmp_path / "toy-de-en.toml"
    path.write_text(
        'corpus = "toy-de-en"\naugment = {name = "word-edits", w = 0.5, copies = 2}\n'
        "[training]\nepochs = 2\n"
    )
    written = recipes.load(str(path))
    said = recipes.load(str(path), ["augment=word-edits", *EDITS])
    assert written.recipe == said.recipe
    assert following.run_name(written, "c") == following.run_name(said, "c")


# What it is trained on


def test_originals_come_first_made_pairs_have_their_weight_and_others_splits_stay(edited):
    folder, run = edited
    prepared = opened(run, folder)
    plain = data.prepare(
        load().recipe.corpus, load().recipe.text, folder / "plain", name="toy-de-en"
    )
    assert prepared.splits == plain.splits
    pairs, own = prepared.pairs("train"), plain.pairs("train")
    assert len(pairs.source) == 180 and len(own.source) == 60
    assert pairs.weight.tolist() == [1.0] * 60 + [0.5] * 120
    for i in range(60):
        assert pairs.source[i].tolist() == own.source[i].tolist()
    assert [c.fingerprint for c in prepared.codecs] == [c.fingerprint for c in plain.codecs]
    for split in ("valid", "test"):
        for side in data.SIDES:
            assert prepared.lines(split, side) == plain.lines(split, side)


def test_other_weights_share_the_made_pairs(edited):
    folder, run = edited
    before = made_files(folder)
    told = []
    other, finished = train(
        load(*EDITS, "augment.w=0.25", "training.epochs=1"),
        folder,
        progress=lambda *stage: told.append(stage),
    )
    assert finished and other.folder != run.folder
    assert made_files(folder) == before and len(before) == 1
    assert "rewriting" not in {stage for stage, _, _ in told}


def test_the_same_command_finds_the_run(edited):
    folder, run = edited
    again, finished = train(load(*EDITS), folder)
    assert finished and again.folder == run.folder


def test_a_run_that_augmented_can_generate(edited):
    _, run = edited
    assert len(augless.load(run.folder).generate(["Der Hund schläft."])) == 1


# What it needs


def test_back_translation_needs_a_plain_run_of_the_other_direction():
    resolved = load(*BACK, *LAW, "seed=5")
    ((name, need),) = needing.needs(resolved).items()
    ours, reverse = resolved.recipe, need.recipe
    assert name == "reverse model"
    assert reverse.corpus.languages == ("en", "de") and reverse.augment is None
    assert (reverse.model, reverse.text) == (ours.model, ours.text)
    assert reverse.training == ours.training
    assert [type(term.weighting).__name__ for term in reverse.terms] == ["Plain"]
    needs = [needing.needs(load(*BACK, f"seed={n}"))[name] for n in range(9)]
    seeds = {one.recipe.seed for one in needs}
    assert len({*seeds, *range(9)}) == 18  # none is another's
    assert need.values["seed"] == reverse.seed and need.values["terms.0.weighting.name"] == "plain"
    assert needing.needs(load(*EDITS)) == needing.needs(load()) == {}


def test_back_translation_trains_the_reverse_model_and_says_what_it_cost(back):
    folder, run, told = back
    (reverse,) = (folder / "runs").glob("toy-de-en-reverse-*")
    result = runs.Run.open(reverse).result
    needed = run.result["needed"]
    assert needed["reverse model"] == {key: result[key] for key in ("seconds", "samples")}
    assert needed["reverse model"]["samples"] == 120
    assert needed["rewriting"]["samples"] == 60 and needed["rewriting"]["seconds"] >= 0
    epochs = [entry for entry in run.metrics() if entry.kind == "epoch"]
    spent = {what: runs.Spent(**one) for what, one in needed.items()}
    assert [entry.needed for entry in epochs] == [spent, spent]
    assert ("training the reverse model first, from en to de", 0, None) in told
    (name,) = made_files(folder)
    assert name.startswith("toy-de-en-back-translation-")


def test_plain_training_needed_nothing(tmp_path):
    run, _ = train(load("training.epochs=1"), tmp_path)
    prepared = opened(run, tmp_path)
    assert (
        run.folder.name
        == f"toy-de-en-{following.run_name(load('training.epochs=1'), prepared.fingerprint)}"
    )
    assert run.result["needed"] == {} == run.metrics()[-1].needed


def test_stopped_anywhere_it_goes_on_to_the_same_bits(back, tmp_path, monkeypatch):
    """It is stopped at every third occasion there is, in whatever part that falls."""
    monkeypatch.setattr(augmentation.making, "BLOCK", 10)
    folder, run, _ = back
    resolved = load(*BACK, *LAW)
    ended, finished = set(), False
    for _ in range(100):
        calls = iter(range(3))
        try:
            again, finished = train(resolved, tmp_path, stop=lambda c=calls: next(c, None) is None)
            ended.add(again.folder.name.rpartition("-")[0])
        except errors.Stopped:
            ended.add("pairs")
        if finished:
            break
    assert finished and ended == {"toy-de-en-reverse", "toy-de-en", "pairs"}
    assert weights(again) == weights(run) and again.folder.name == run.folder.name
    assert made_files(tmp_path) == made_files(folder)
    for what in ("rewriting", "reverse model"):
        samples = [one.result["needed"][what]["samples"] for one in (again, run)]
        assert samples[0] == samples[1]


def test_parts_can_be_done_one_by_one(back, tmp_path):
    """As the jobs of a trial do them."""
    folder, run, _ = back
    resolved = load(*BACK, *LAW)
    for need in needing.needs(resolved).values():
        _, finished = train(need, tmp_path)
        assert finished
    made = following.augment(resolved, place_in(tmp_path))
    assert {made.folder.name} == {*made_files(folder)}
    told = []
    again, _ = train(resolved, tmp_path, progress=lambda *stage: told.append(stage))
    assert weights(again) == weights(run)
    assert "rewriting" not in {stage for stage, _, _ in told}


def test_making_pairs_before_the_reverse_model_is_there_is_refused(tmp_path):
    with pytest.raises(runs.BadRun, match="holds no run"):
        following.augment(load(*BACK), place_in(tmp_path))
    assert not (tmp_path / "data" / "augmented").exists() and not (tmp_path / "runs").exists()


def test_a_masked_language_model_is_trained_on_the_corpus_first(tmp_path):
    small = ("augment.small.steps=30", "augment.small.size=32", "augment.small.layers=1")
    run, finished = train(load("augment=masked-lm", *small, "training.epochs=1"), tmp_path)
    assert finished
    assert run.result["needed"]["small model"]["samples"] >= 30
    assert opened(run, tmp_path).manifest.splits["train"] == 120


# What is refused, before any work


@pytest.mark.parametrize(
    ("overrides", "kind", "said"),
    [
        (("augment=back-tanslation",), recipes.BadRecipe, "did you mean 'back-translation'"),
        (("augment.w=0.5",), recipes.BadRecipe, "it can be: masked-lm, back-translation"),
        (("augment=word-edits", "augment.w=-1"), recipes.BadRecipe, "augment.w is -1"),
        (("augment=word-edits", "augment.run=x"), recipes.BadRecipe, "no key 'augment.run'"),
        ((*BACK, "augment.mono=gone"), augless.corpora.BadData, "no such file"),
        ((*BACK, "augment.copies=9"), augmentation.BadAugmentation, "copies is 9"),
        ((*BACK, "augment.run=gone"), runs.BadRun, "holds no run"),
        (
            ("augment=masked-lm", "augment.model=no/where"),
            augmentation.BadAugmentation,
            "neither a folder nor in the Hugging Face cache",
        ),
    ],
)
def test_a_mistake_is_said_before_anything_is_trained(overrides, kind, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(kind, match=said):
        train(load(*overrides), tmp_path)
    assert not any(tmp_path.iterdir())


def test_a_run_of_the_same_direction_is_refused(edited, tmp_path):
    _, run = edited
    with pytest.raises(augmentation.BadAugmentation, match="from en to de is needed"):
        train(load(*BACK, f"augment.run={run.folder}"), tmp_path)
    assert not any(tmp_path.iterdir())


def test_a_damaged_file_of_made_pairs_is_refused(tmp_path):
    made = following.augment(load(*EDITS), place_in(tmp_path))
    path = made.folder / "train.jsonl"
    path.write_bytes(path.read_bytes().replace(b"a", b"e", 1))
    with pytest.raises(augmentation.BadAugmentation, match="is not what was written"):
        train(load(*EDITS), tmp_path)
    assert not (tmp_path / "runs").exists()


def test_a_recipe_knows_its_augmenter_as_the_verb_does():
    recipe = load(*EDITS).recipe
    chosen = augmentation.AUGMENTERS["word-edits"](w=0.5, copies=2)
    assert recipe.augment == chosen
    values = json.loads(json.dumps(load(*EDITS).values))
    assert {f.name for f in dataclasses.fields(chosen)} == {
        key.removeprefix("augment.") for key in values if key.startswith("augment.")
    } - {"name"}
