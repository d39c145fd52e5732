import dataclasses
from pathlib import Path

import pytest
import torch

from augless import corpora, polar, recipes, text
from augless.recipes import following, preparing, reading
from augless.recipes.recipe import Recipe


@pytest.mark.parametrize("name", recipes.shipped())
def test_every_shipped_recipe_is_strictly_valid_and_short(name):
    resolved = recipes.load(name, [] if "toy" in name else ["corpus.path=somewhere"])
    assert resolved.name == name
    path = Path(recipes.__file__).parent / f"{name}.toml"
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 20


def test_every_corpus_has_a_recipe():
    resolved = (recipes.load(n, [] if "toy" in n else ["corpus.path=x"]) for n in recipes.shipped())
    assert {type(one.recipe.corpus) for one in resolved} == set(corpora.CORPORA.values())


def test_preparing_knows_all_keys_of_a_recipe_by_name():
    keys = [field.name for field in dataclasses.fields(Recipe)]
    own = [field.name for field in dataclasses.fields(recipes.Preparation)]
    assert sorted(keys) == sorted([*own, *preparing.OTHERS])


def test_the_command_line_beats_the_recipe_which_beats_the_defaults(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('corpus = {name = "toy-de-en", seed = 7}\n[text]\nlowercase = true\n')
    resolved = recipes.load(str(path), ["text.vocabulary.size=500", "corpus.seed=8"])
    recipe = resolved.recipe
    assert (recipe.corpus.seed, recipe.text.lowercase) == (8, True)
    assert recipe.text.vocabulary == text.Subwords(size=500)
    assert resolved.origins["corpus.name"] == ("toy-de-en", "recipe")
    assert resolved.origins["corpus.seed"] == (8, "command line")
    assert resolved.origins["text.lowercase"] == (True, "recipe")
    assert resolved.origins["text.joint"] == (True, "default")
    assert len(repr(resolved)) < 200


def test_a_choice_is_a_name_or_a_table():
    by_name = recipes.load("toy-de-en", ["text.vocabulary=words"]).recipe
    assert by_name.text.vocabulary == text.Words()
    with_knobs = recipes.load("toy-de-en", ['text.vocabulary={name="words", size=9}']).recipe
    assert with_knobs.text.vocabulary == text.Words(size=9)


def test_a_folder_may_be_called_by_a_number():
    assert recipes.load("files", ["corpus.path=2014"]).recipe.corpus.path == Path("2014")


def test_lists_may_be_written_with_commas():
    recipe = recipes.load("files", ["corpus.train=a.de,a.en", "corpus.languages=de,en"]).recipe
    assert recipe.corpus.train == (Path("a.de"), Path("a.en"))
    assert recipe.corpus.languages == ("de", "en")


def test_two_recipes_that_say_the_same_are_the_same_run(tmp_path):
    path = tmp_path / "mine.toml"
    shipped = (Path(recipes.__file__).parent / "toy-de-en.toml").read_text("utf-8")
    same = 'text = {vocabulary = {size = 2000, name = "subwords"}, lowercase = false}\n'
    path.write_text(
        same + shipped.replace('[text.vocabulary]\nname = "subwords"\nsize = 2000\n', "")
    )
    one, same = recipes.load("toy-de-en"), recipes.load(str(path))
    assert one.values == same.values
    assert following.run_name(one, "c") == following.run_name(same, "c")
    assert recipes.load("toy-de-en", ["corpus.seed=2"]).values != one.values


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["text.lowercas=true"], r"no key 'text.lowercas'; did you mean 'lowercase'\?"),
        (["texts.lowercase=true"], r"no key 'texts'; did you mean 'text'\?"),
        (["corpus.sed=1"], r"no key 'corpus.sed'; did you mean 'seed'\?"),
        (["text.vocabulary=subword"], r"text.vocabulary is 'subword'; did you mean 'subwords'\?"),
        (["text.vocabulary.size=many"], "text.vocabulary.size is 'many'"),
        (["text.tokeniser=perl"], "text.tokeniser is 'perl'"),
        (["text.lowercase=maybe"], "text.lowercase is 'maybe'"),
        (["text=3"], "text must be a table"),
        (['corpus=["a"]'], "corpus is \\['a'\\]"),
        (["text.vocabulary.min_count=-1"], "min_count is -1"),
        (["text.vocabulary.size=5000000000"], "size is 5000000000"),
        (["text.filters.ratio=nan"], "ratio is nan"),
        (["corpus=iwslt"], "corpus is 'iwslt'"),
        (["lowercase"], "is not key=value"),
        (["=3"], "is not key=value"),
    ],
)
def test_a_mistake_in_a_recipe_is_named_with_the_next_step(overrides, message):
    with pytest.raises(recipes.BadRecipe, match=message):
        recipes.load("toy-de-en", overrides)


def test_an_unknown_recipe_is_refused_with_what_there_is():
    with pytest.raises(recipes.BadRecipe, match=r"did you mean 'toy-de-en'\?\n.*toy-dialogue"):
        recipes.load("toy-de-em")


@pytest.mark.parametrize(
    "name",
    ["iwslt14-de-en", "iwslt14-fr-en", "iwslt14-it-en", "multi30k-de-en", "multi30k-fr-en"],
)
def test_a_name_with_languages_is_told_the_one_without(name):
    meant = rf"did you mean '{name.partition('-')[0]}'\?"
    with pytest.raises(recipes.BadRecipe, match=meant):
        recipes.load(name)
    with pytest.raises(recipes.BadRecipe, match=meant):
        recipes.load("toy-de-en", [f"corpus={name}"])


def test_a_file_that_is_not_toml_is_refused(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text("corpus = ")
    with pytest.raises(recipes.BadRecipe, match="is not TOML"):
        recipes.load(str(path))
    with pytest.raises(recipes.BadRecipe, match="there is no recipe file"):
        recipes.load(str(tmp_path / "other.toml"))


def test_a_recipe_without_its_corpus_is_refused(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text("[text]\nlowercase = true\n")
    with pytest.raises(recipes.BadRecipe, match="corpus is not given"):
        recipes.load(str(path))


def test_measured_neighbours_are_named_by_their_file(tmp_path):
    path = tmp_path / "neighbours.json"
    polar.Neighbours(torch.tensor([0.5, 1.0, 2.0]), torch.tensor([0.5, 1.5, 2.5])).save(path)
    written = f'terms.0.weighting={{name="empirical", neighbours="{path}"}}'
    weighting = recipes.load("toy-de-en", [written]).recipe.terms[0].weighting
    assert weighting(torch.tensor([1.0]), 1.0) > 1


def origins(tmp_path, *overrides):
    path = tmp_path / "mine.toml"
    path.write_text(
        'corpus = "toy-de-en"\n'
        'training = {optimizer = {name = "adam", rate = 0.004}}\n'
        '[[terms]]\n[[terms]]\nweighting = {name = "exponential", radius = 1.0}\n'
    )
    return recipes.load(str(path), overrides).origins


def test_what_an_override_replaces_was_said_by_nobody(tmp_path):
    said = origins(tmp_path, "training.optimizer=sgd")
    assert said["training.optimizer.name"] == ("sgd", "command line")
    assert said["training.optimizer.rate"] == (1.0, "default")
    said = origins(tmp_path, "terms.1.weighting=linear")
    assert said["terms.1.weighting.radius"] == (None, "default")
    said = origins(tmp_path, "terms.1.weighting.radius=2", "terms.1.weighting=uniform")
    assert said["terms.1.weighting.name"] == ("uniform", "command line")
    assert said["terms.1.weighting.radius"] == (1.0, "default")
    said = origins(tmp_path, 'terms.1.weighting={name="uniform", radius=3.0}')
    assert said["terms.1.weighting.radius"] == (3.0, "command line")
    assert said["terms.1.weighting.strength"] == (1.0, "default")
    said = origins(tmp_path, "terms.1.weighting.strength=0.5")
    assert said["terms.1.weighting.radius"] == (1.0, "recipe")
    assert said["terms.1.weighting.strength"] == (0.5, "command line")


def test_a_term_can_be_added_to_the_default_one():
    recipe = recipes.load("toy-de-en", ["terms.1.loss=wasserstein", "terms.1.scale=0.1"]).recipe
    assert [type(one.loss).__name__ for one in recipe.terms] == ["CrossEntropy", "Wasserstein"]


def test_only_what_differs_from_the_defaults_names_a_run():
    said = reading.changed(
        recipes.load("toy-de-en", ["seed=1", "terms.0.weighting.name=plain"]).recipe
    )
    assert {"corpus.name", "terms.0.weighting.name", "training.optimizer.rate"} <= said
    assert not {"seed", "training.memory", "terms.0.scale"} & said
    assert "seed" in reading.changed(recipes.load("toy-de-en", ["seed=2"]).recipe)
