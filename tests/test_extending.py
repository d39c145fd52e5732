"""What docs/extend.md adds is small, and works where the tables of the package are read."""

import ast
import re
from pathlib import Path

import pytest

from augless import augmentation, corpora, metrics, trials
from augless.trials import graph, state, work
from augless.trials.layout import Layout
from support import code_lines

PAGE = (Path(__file__).parent.parent / "docs" / "extend.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.M | re.S)
TABLES = (augmentation.AUGMENTERS, corpora.FORMATS, metrics.METRICS, graph.NEEDS, work.WORK)


@pytest.fixture
def added(tmp_path, monkeypatch):
    """Return what runs a block of the page, and takes out of the tables again what it added."""
    monkeypatch.chdir(tmp_path)
    before = [dict(table) for table in TABLES]

    def add(word):
        (block,) = (block for block in BLOCKS if word in block)
        exec(compile(block, "extend.md", "exec"), {"__name__": "__main__"})

    yield add
    for table, rows in zip(TABLES, before, strict=True):
        for name in table.keys() - rows.keys():
            del table[name]


@pytest.mark.parametrize("word", ["HalfNormal", "LengthRatio", "Backwards", "Format", "WORK"])
def test_what_the_page_adds_works_in_under_ten_lines(added, word):
    (block,) = (block for block in BLOCKS if word in block)
    own = [
        node
        for node in ast.parse(block).body
        if isinstance(node, ast.ClassDef | ast.FunctionDef)
        or (isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript))
    ]
    assert own and sum(code_lines(ast.unparse(node)) for node in own) < 10
    added(word)


def test_a_recipe_can_choose_by_a_metric_that_was_added(added):
    added("LengthRatio")
    asked = trials.Plan.load("demo", ["metric=length-ratio"])
    assert asked.metric == "length-ratio"
    assert metrics.METRICS["length-ratio"]().signature() == "length-ratio|refs:1"


def test_a_kind_of_job_that_was_added_is_done_once_before_what_needs_it_and_costs(added, tmp_path):
    added("WORK")
    plan = trials.Plan(
        name="p",
        title="t",
        recipes={"toy": trials.Base(recipe="toy-de-en")},
        methods={"plain": trials.Method()},
        overrides={"corpus.train": 48, "text.vocabulary.size": 150},
        seeds=(1,),
    )
    known = state.State(plan, Layout(tmp_path), retry=True)

    def do():
        (job,) = known.ready(known.jobs()).values()
        identifier = known.identifier(job) or ""
        order = work.Order(job=job, key=known.key(job), identifier=identifier, layout=known.layout)
        known.learn(job, order(lambda: False))
        assert known.done(job) and known.failure(job) is None
        return job.kind

    assert [do(), do()] == ["prepare", "note"]
    (next_job,) = known.ready(known.jobs()).values()
    assert next_job.kind == "train"
    again = state.State(plan, known.layout, retry=True)
    again.corpora = known.corpora
    for one in (known, again):
        assert one.cost("toy", "plain")["other"].seconds > 0
