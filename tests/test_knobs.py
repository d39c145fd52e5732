"""Knobs: every one has limits, and they are the same in Python and in a recipe."""

import dataclasses
import importlib
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from augless import data, knobs, recipes, text, training
from augless.knobs import Above, Among, AtLeast, AtMost, Below, Knobs, Within
from augless.recipes.recipe import Recipe

TABLES = (
    "corpora.CORPORA",
    "text.VOCABULARIES",
    "models.MODELS",
    "losses.LOSSES",
    "polar.WEIGHTINGS",
    "training.OPTIMIZERS",
    "decoding.SEARCHES",
    "metrics.METRICS",
    "augmentation.AUGMENTERS",
)
PARTS = [data.Settings, data.Filters, training.Settings, training.Term, Recipe]


def kinds() -> list[type[Any]]:
    listed = [kind for table in TABLES for kind in Among(table).choices.values()]
    return [*PARTS, text.Tokeniser, *dict.fromkeys(listed)]


@pytest.mark.parametrize("table", TABLES)
def test_every_table_of_choices_says_what_it_lists(table):
    choices = Among(table).choices
    with pytest.raises(knobs.UnknownName, match=next(iter(choices))):
        choices["nothing-like-it"]


def numbers(kind: Any) -> bool:
    """Tell whether there are numbers in a type."""
    return kind in (int, float) or any(map(numbers, get_args(kind)))


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.__name__)
def test_every_number_of_every_component_has_limits_and_every_knob_a_meaning(kind):
    assert issubclass(kind, Knobs)
    for name, knob in knobs.of(kind).items():
        assert knob.meaning != name, name
        if numbers(knob.kind) and not isinstance(knob.kind, type(Literal[1])):
            low = any(isinstance(one, Above | Within) for one in knob.limits)
            high = any(isinstance(one, Below | Within) for one in knob.limits)
            assert low and high, name
        if not knob.needed and knob.field.default is not dataclasses.MISSING:
            knob.check(knob.field.default, name)


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.__name__)
def test_a_choice_names_the_table_that_its_default_stands_in(kind):
    for name, knob in knobs.of(kind).items():
        if knob.among is not None:
            module, table = knob.among.table.split(".")
            assert getattr(importlib.import_module(f"augless.{module}"), table)
            if knob.field.default_factory is not dataclasses.MISSING:
                assert type(knob.field.default_factory()) in knob.among.choices.values(), name


@dataclass(frozen=True, kw_only=True)
class Sample(Knobs):
    count: Annotated[int, "how many", Within(1, 9)] = 1
    share: Annotated[float, "how much", AtLeast(0), Below(1)] = 0.0
    power: Annotated[float | None, "to what", Above(0), AtMost(10)] = None
    bounds: Annotated[tuple[float, float], "from, to", Within(0, math.inf)] = (0.0, math.inf)
    kind: Annotated[Literal["a", "b"], "which"] = "a"
    names: Annotated[tuple[str, ...], "whose"] = ()
    path: Annotated[Path | None, "where"] = None
    on: Annotated[bool, "whether"] = False
    solver: Annotated[str, "how", Among("transport.SOLVERS")] = "exact"
    table: Annotated[dict[str, int], "of what", Within(0, 5)] = dataclasses.field(
        default_factory=dict
    )


WRONG = [
    {"count": 0},
    {"count": 10},
    {"count": 1.5},
    {"count": True},
    {"count": 10**5000},
    {"share": 1.0},
    {"share": -0.1},
    {"share": math.nan},
    {"share": math.inf},
    {"share": 10**400},
    {"share": "0"},
    {"power": 0.0},
    {"power": 11},
    {"bounds": (0.0,)},
    {"bounds": (0.0, math.nan)},
    {"bounds": (-math.inf, 1.0)},
    {"kind": "c"},
    {"kind": 1},
    {"names": "a\0b"},
    {"path": "a\0b"},
    {"on": "maybe"},
    {"on": 1},
    {"solver": "magic"},
    {"table": {"x": 6}},
    {"table": [1]},
]


@pytest.mark.parametrize("values", WRONG, ids=knobs.shown)
def test_a_value_beyond_its_type_or_limits_is_refused_in_python_and_from_a_file(values):
    (name,) = values
    with pytest.raises(knobs.BadKnob, match=f"^{name} is .*; it must be"):
        Sample(**values)
    with pytest.raises(knobs.BadKnob, match=f"^here.{name} is .*; it must be") as caught:
        knobs.build(Sample, values, "here")
    assert len(str(caught.value)) < 300 and "\n" not in str(caught.value)


def test_plain_values_become_what_a_knob_wants():
    values = {"count": 3.0, "share": 0, "bounds": [1, math.inf], "names": "x,y", "path": 2014}
    built = knobs.build(Sample, {**values, "power": None, "table": {"x": 5}})
    assert built == Sample(
        count=3,
        share=0.0,
        bounds=(1.0, math.inf),
        names=("x", "y"),
        path=Path("2014"),
        table={"x": 5},
    )
    assert (type(built.count), type(built.share)) == (int, float)


@given(st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
))  # fmt: skip
def test_whatever_a_file_says_is_built_or_refused(value):
    for name in knobs.of(Sample):
        try:
            built = knobs.build(Sample, {name: value})
        except knobs.BadKnob:
            continue
        assert built == dataclasses.replace(built)


@pytest.mark.parametrize(
    "override",
    [
        "training.memory=nan",
        "terms.0.weighting={name='exponential', radius=1e200}",
        "terms.0.weighting={name='uniform', angle='isotropic', dimension=10000000}",
        "model.hidden=1000000000",
        "search.size=10000000000",
        "text.vocabulary.size=2147483647",
        "search={name='sampling', temperature=1e-38}",
        "corpus.valid=0",
        "seed=" + "[" * 3000,
        "seed=" + "[" * 100 + "]" * 100,
        "seed=" + "9" * 5000,
        "seed=0x" + "f" * 5000,
        "terms.².loss=x",
        "a.².b=1",
        ".".join("a" * 3000) + "=1",
        "seed=1\nfoo=2",
        "seed=1e400",
        "corpus.path=a\0b",
        "training.start=a\0b",
        "\x1b[31m=1",
        "seed=\x1b[31m",
    ],
    ids=lambda override: ascii(override[:40]),
)
def test_an_absurd_override_is_refused_in_three_lines(override):
    with pytest.raises(recipes.BadRecipe) as caught:
        recipes.load("toy-de-en", [override])
    said = str(caught.value)
    assert len(said.split("\n")) <= 3 and len(said) < 600 and "\x1b" not in said


@pytest.mark.parametrize(
    "content",
    [
        "a = " + "[" * 3000,
        "seed = " + "9" * 5000,
        "a = " + "{a = " * 500 + "1" + "}" * 500,
        "[" + ".".join("a" * 400) + "]\nb = 1",
        "\0",
        "a = '\ud800'",
    ],
    ids=lambda content: ascii(content[:20]),
)
def test_an_absurd_recipe_file_is_refused_in_three_lines(tmp_path, content):
    path = tmp_path / "recipe.toml"
    path.write_bytes(content.encode("utf-8", "surrogatepass"))
    with pytest.raises(recipes.BadRecipe) as caught:
        recipes.load(str(path))
    assert len(str(caught.value).split("\n")) <= 3


def test_a_table_of_choices_says_what_it_lists():
    table = knobs.Choices({"exponential": int, "linear": float})
    with pytest.raises(KeyError) as caught:
        table["exponental"]
    said = str(caught.value)
    assert "did you mean 'exponential'?" in said and "it can be: exponential, linear" in said
    assert table.get("other") is None and "other" not in table


def test_a_knob_of_another_choice_says_which_is_chosen_and_whose_it_is():
    with pytest.raises(knobs.BadKnob) as caught:
        knobs.build(training.Term, {"weighting": {"radius": 2.0}}, "terms.0")
    said = str(caught.value)
    assert "'terms.0.weighting.radius': terms.0.weighting is 'plain'" in said
    assert "exponential" in said.split("belongs to")[1]
