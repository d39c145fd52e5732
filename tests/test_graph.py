"""The graph of jobs: what may begin, what a job is called, and what all of it took."""

import dataclasses
import math

import pytest

from augless import data, runs, trials
from augless.trials import graph
from augless.trials.facts import Cost, Spent
from augless.trials.graph import Job
from augless.trials.layout import Layout
from augless.trials.state import Corpus, State
from support import record, scores

SMALL = ("corpus.train=48", "corpus.valid=8", "corpus.test=10", "text.vocabulary.size=150")


def job(kind, *overrides, needs=(), **given):
    whole = (*SMALL, *overrides)
    return Job(kind, "toy", "toy-de-en", whole, needs=tuple(needs), **{"method": "m"} | given)


def translated(need=""):
    """Return a run that learns from pairs which another model made, and what it needs, in order."""
    prepare = Job("prepare", "toy", "toy-de-en", SMALL)
    reverse = job("train", "seed=9", needs=[prepare], method="reverse", seed=9, need=need)
    made = job("augment", "seed=9", needs=[reverse], seed=9)
    train = job("train", "seed=1", needs=[prepare, made], seed=1)
    score = dataclasses.replace(train, kind="score", needs=(train,))
    return [prepare, reverse, made, train, score]


class Study:
    """Does jobs at once, in this process, without training anything."""

    def __init__(self, folder):
        plan = trials.Plan(
            name="p",
            title="t",
            recipes={"toy": trials.Base(recipe="toy-de-en")},
            methods={"plain": trials.Method()},
            metric="perplexity",
        )
        self.state = State(plan, Layout(folder), retry=True)

    def do(self, job):
        state = self.state
        if job.kind == "prepare":
            state.prepare(job, workers=1, progress=lambda *_: None)
        elif job.kind == "augment":
            state.learn(job, trials.Augmented(pairs=7, seconds=4.0))
        elif job.kind == "train":
            recipe, name = state.resolved(job).recipe, state.resolved(job).name
            prepared = data.prepare(recipe.corpus, recipe.text, state.layout.prepared, name=name)
            runs.Run.create(
                state.folder(job), recipe={}, corpus="", codecs=prepared.codecs, versions={}
            ).finish({"seconds": 10.0, "samples": 100})
            state.learn(job, None)
        else:
            made = record(id=state.identifier(job), seed=job.seed, scores=scores(2.0))
            made.save(state.layout.record(made.id))
            state.learn(job, None)


def test_a_job_begins_when_all_that_it_needs_is_done_whatever_kind_that_is(tmp_path):
    order, study = translated(), Study(tmp_path)
    done = []
    while ready := study.state.ready(order[-1:]):
        assert len(ready) == 1, "each needs the one before"
        study.do(ready[0])
        done.append(ready[0])
    assert done == order
    again = State(study.state.plan, study.state.layout, retry=True)
    again.prepare(order[0], workers=1, progress=lambda *_: None)
    assert all(map(again.done, order)), "known by what was left"


def test_what_a_need_fails_of_stops_all_that_needs_it_but_not_what_tuning_tried(tmp_path):
    prepare, reverse, made, train, score = translated()
    study = Study(tmp_path)
    study.do(prepare)
    why = trials.Failure(7, "not finite")
    study.state.learn(reverse, why)
    assert [study.state.failure(one) for one in (made, train, score)] == [why] * 3
    assert study.state.ready([score]) == []
    tried = dataclasses.replace(reverse, purpose="tune")
    final = dataclasses.replace(train, needs=(prepare, tried))
    assert study.state.ready([final]) == [final]
    # A run of tuning needs what a final run would: made pairs are made once, for both.
    tune = dataclasses.replace(train, purpose="tune")
    assert study.state.failure(tune) == why


def test_runs_that_learn_from_other_work_are_other_runs(tmp_path):
    prepare, reverse, made, train, score = translated()
    state = Study(tmp_path).state
    assert state.identifier(score) is None
    state.learn(prepare, Corpus(fingerprint="c"))
    plain = dataclasses.replace(train, needs=(prepare,))
    other = job("augment", "seed=8", needs=[reverse], seed=8)
    others = dataclasses.replace(train, needs=(prepare, other))
    names = [state.identifier(one) for one in (plain, train, others)]
    assert len({*names}) == 3 and None not in names
    assert state.identifier(score) == state.identifier(train)
    keys = {state.key(one) for one in (prepare, reverse, made, train, score)}
    assert len(keys) == 5
    # Tuning and the vocabulary of a run change nothing of what it learns from.
    tuned = dataclasses.replace(
        train, needs=(*train.needs, dataclasses.replace(score, purpose="tune"))
    )
    assert state.identifier(tuned) == state.identifier(train)


def test_a_job_and_its_needs_are_listed_once_what_is_needed_first():
    order = translated()
    assert graph.whole([order[-1], order[-1], order[1]]) == order


TOOK = {
    "prepare": Spent(seconds=1.0),
    "augment": Spent(seconds=20.0),
    "train": Spent(seconds=300.0, samples=40),
    "score": Spent(),
}


def named(one):
    return f"{one.kind} {one.method} {one.overrides}"


def test_a_methods_cost_counts_all_that_it_needs_and_each_of_it_once():
    prepare = Job("prepare", "toy", "toy-de-en", ())
    reverse = Job("train", "toy", "toy-de-en", ("seed=9",), "reverse", needs=(prepare,))
    made = Job("augment", "toy", "toy-de-en", (), "bt", needs=(reverse,))

    def run(name, purpose, *before):
        train = Job("train", "toy", "toy-de-en", (name,), "bt", 0, purpose, needs=(*before,))
        return dataclasses.replace(train, kind="score", needs=(train,))

    tried = [run(f"rate={rate}", "tune", prepare, made) for rate in (1, 2, 3)]
    finals = [run(f"seed={seed}", "final", prepare, made, *tried) for seed in (1, 2)]
    found = graph.cost(finals, named, lambda one: TOOK[one.kind])
    assert found == Cost(
        own=Spent(seconds=600.0, samples=80),
        prepare=Spent(seconds=1.0),
        augment=Spent(seconds=20.0),
        tune=Spent(seconds=900.0, samples=120),
        train=Spent(seconds=300.0, samples=40),
    )
    assert found.before == Spent(seconds=1221.0, samples=160)
    assert found.total == Spent(seconds=1821.0, samples=240)
    assert graph.cost([], named, lambda one: TOOK[one.kind]) == Cost()
    # What is not known yet costs nothing yet.
    assert graph.cost(finals, lambda one: None, lambda one: TOOK[one.kind]).total == Spent()


def test_what_a_run_says_that_it_needed_counts_where_nothing_else_is_known_of_it():
    _, reverse, made, train, score = translated("reverse model")
    other = dataclasses.replace(train, overrides=(*train.overrides, "augment.w=0.1"))
    scores = [score, dataclasses.replace(other, kind="score", needs=(other,))]
    said = {
        "rewriting": Spent(seconds=5.0, samples=48),
        "small model": Spent(seconds=2.0, samples=30),
        "reverse model": Spent(seconds=70.0, samples=90),
    }

    def cost(unknown, names=named):
        def spent(one):
            return Spent() if one in unknown else TOOK[one.kind]

        return graph.cost(scores, names, spent, lambda one: said if one.seed == 1 else {})

    whole = cost(())
    assert whole.augment == TOOK["augment"] and whole.train == TOOK["train"], "it was done here"
    assert cost([made]).augment == Spent(seconds=7.0, samples=30), "once, and nothing was trained"
    assert cost([made]).train == TOOK["train"] and cost([made]).own == whole.own
    assert cost([reverse]).train == said["reverse model"] and cost([reverse]).own == whole.own
    # So it is where the reverse model cannot even be named, as its corpus is not here.
    nameless = cost([made, reverse], lambda one: None if one == reverse else named(one))
    assert nameless.train == said["reverse model"]


def test_what_jobs_took_is_known_from_what_they_left(tmp_path):
    order, study = translated(), Study(tmp_path)
    for one in order:
        study.do(one)
    state = study.state
    (corpus,) = state.corpora.values()
    assert corpus.seconds > 0
    found = graph.cost(order[-1:], state.key, state.spent)
    assert found == Cost(
        own=Spent(seconds=1.5, samples=30),  # as the record has it, which outlives the run
        prepare=Spent(seconds=corpus.seconds),
        augment=Spent(seconds=4.0),
        train=Spent(seconds=10.0, samples=100),
    )
    assert math.isclose(found.total.seconds, 15.5 + corpus.seconds)
    state.keep(order[-1:])
    again = State(state.plan, state.layout, retry=True)
    again.learn(order[0], dataclasses.replace(corpus, seconds=0.0))
    assert again.spent(order[0]).seconds == corpus.seconds, "it was found prepared"


@pytest.mark.parametrize("content", ["{}", "[]", '{"pairs": -1}', "{"])
def test_made_pairs_that_nothing_usable_is_known_of_are_made_again(tmp_path, content):
    order, study = translated(), Study(tmp_path)
    for one in order[:3]:
        study.do(one)
    made = order[2]
    assert study.state.done(made)
    study.state.layout.made(study.state.identifier(made)).write_text(content)
    assert not study.state.done(made) and study.state.ready(order[-1:]) == [made]
