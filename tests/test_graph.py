"""The graph of jobs: what may begin, what a job is called, and what all of it took."""

import dataclasses
import shutil

from augless import runs, trials
from augless.recipes import following
from augless.runs import Spent
from augless.trials import graph
from augless.trials.facts import Cost
from augless.trials.graph import Job
from augless.trials.layout import Layout
from augless.trials.state import Corpus, State
from support import record, scores

SMALL = ("corpus.train=48", "corpus.valid=8", "corpus.test=10", "text.vocabulary.size=150")


def job(kind, *overrides, needs=(), **given):
    whole = (*SMALL, *overrides)
    return Job(kind, "toy", "toy-de-en", whole, needs=tuple(needs), **{"method": "m"} | given)


def translated(seed=1):
    """Return a run that learns from pairs which another model made, and what it needs, in order."""
    prepare = Job("prepare", "toy", "toy-de-en", SMALL)
    back = ("augment=back-translation", f"seed={seed}")
    made = job("augment", *back, needs=[prepare], seed=seed)
    turned = dataclasses.replace(prepare, overrides=made.overrides, model="reverse model")
    reverse = dataclasses.replace(made, kind="train", needs=(turned,), model="reverse model")
    made = dataclasses.replace(made, needs=(prepare, reverse))
    train = job("train", *back, needs=[prepare, made], seed=seed)
    score = dataclasses.replace(train, kind="score", needs=(train,))
    return [prepare, turned, reverse, made, train, score]


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
        place = following.Place(prepared=state.layout.prepared)
        if job.kind == "prepare":
            state.learn(job, dataclasses.replace(Corpus.of(job, place), seconds=0.5))
            return
        if job.kind == "augment":
            mark = state.layout.done(state.key(job))
            mark.parent.mkdir(exist_ok=True)
            mark.write_text("{}")
        elif job.kind == "train":
            codecs = following.prepare(job.resolved, place).codecs
            runs.Run.create(
                state.folder(job), recipe={}, corpus="", codecs=codecs, versions={}
            ).finish(dataclasses.asdict(runs.Outcome(seconds=10.0, samples=100)))
        else:
            result = {"seconds": 1.5, "samples": 30, "needed": NEEDED}
            made = record(
                id=state.identifier(job), seed=job.seed, scores=scores(2.0), result=result
            )
            made.save(state.layout.record(made.id))
        state.learn(job, None)


NEEDED = {
    "rewriting": {"seconds": 5.0, "samples": 48},
    "small model": {"seconds": 2.0, "samples": 30},
    "reverse model": {"seconds": 70.0, "samples": 90},
}


def test_a_job_begins_when_all_that_it_needs_is_done_whatever_kind_that_is(tmp_path):
    order, study = translated(), Study(tmp_path)
    done = []
    while ready := study.state.ready(order[-1:]):
        first = next(iter(ready.values()))
        assert all(need in done for need in first.needs)
        study.do(first)
        done.append(first)
    assert done == order
    again = State(study.state.plan, study.state.layout, retry=True)
    for prepare in order[:2]:
        again.learn(prepare, study.state.corpora[prepare.source])
    assert all(map(again.done, order)), "known by what was left"


def test_what_a_need_fails_of_stops_all_that_needs_it_and_nothing_else(tmp_path):
    prepare, turned, reverse, made, train, score = translated()
    study = Study(tmp_path)
    study.do(prepare)
    study.do(turned)
    why = trials.Failure(7, "not finite")
    study.state.learn(reverse, why)
    assert [study.state.failure(one) for one in (made, train, score)] == [why] * 3
    assert study.state.ready([score]) == {}
    plain = job("train", "seed=1", needs=[prepare], seed=1)
    assert [*study.state.ready([plain, score]).values()] == [plain]
    # A run of tuning needs what a final run would: made pairs are made once, for both.
    assert study.state.failure(dataclasses.replace(train, purpose="tune")) == why


def test_runs_that_learn_from_other_work_are_other_runs(tmp_path):
    prepare, turned, reverse, made, train, score = translated()
    state = Study(tmp_path).state
    assert state.identifier(score) is None
    state.learn(prepare, Corpus(fingerprint="c"))
    state.learn(turned, Corpus(fingerprint="d"))
    plain = job("train", "seed=1", needs=[prepare], seed=1)
    names = [state.identifier(one) for one in (plain, train, translated(seed=2)[-1])]
    assert len({*names}) == 3 and None not in names
    assert state.identifier(score) == state.identifier(train)
    keys = {state.key(one) for one in (prepare, turned, reverse, made, train, score)}
    assert len(keys) == 6


def test_a_job_and_its_needs_are_listed_once_what_is_needed_first():
    order = translated()
    assert graph.with_needs([order[-1], order[-1], order[2]]) == order


# Costs

BACK = {"augment": {"name": "back-translation"}}
TUNED = trials.Plan(
    name="p",
    title="t",
    recipes={
        "toy": trials.Base(
            recipe="toy-de-en",
            overrides={
                "corpus": {"name": "toy-de-en", "train": 48, "valid": 8, "test": 10},
                "text.vocabulary.size": 150,
            },
        )
    },
    methods={"plain": trials.Method(), "bt": trials.Method(overrides=BACK)},
    metric="perplexity",
    seeds=(1, 2),
    tune={"bt": {"augment.w": [0.1, 0.5, 1.0]}},
    tuning_seeds=1,
)


def followed(folder):
    """Follow a plan whose runs are invented, all of it."""
    study = Study(folder)
    study.state = State(TUNED, Layout(folder), retry=True)
    while ready := study.state.ready(study.state.jobs()):
        for one in ready.values():
            study.do(one)
    return study.state


def test_a_methods_cost_counts_all_that_it_needs_and_each_of_it_once(tmp_path):
    state = followed(tmp_path)
    # Each seed has a reverse model and pairs of its own: two final ones, and one of tuning.
    assert state.cost("toy", "bt") == Cost(
        {
            "own": Spent(seconds=3.0, samples=60),
            "prepare": Spent(seconds=1.0),  # both directions
            "augment": Spent(
                seconds=21.0, samples=90
            ),  # of rewriting no samples: it trains nothing
            "tune": Spent(seconds=4.5, samples=90),
            "train": Spent(seconds=210.0, samples=270),
        }
    )
    assert state.cost("toy", "plain") == Cost(
        {"own": Spent(seconds=3.0, samples=60), "prepare": Spent(seconds=0.5)}
    )
    assert state.cost("toy", "bt").total == Spent(seconds=239.5, samples=510)


def test_a_tuned_run_needs_what_chose_for_it_and_that_all_runs_that_were_tried(tmp_path):
    begun = State(TUNED, Layout(tmp_path), retry=True)
    (choose,) = begun.wanted("toy", "bt")
    assert choose.kind == "choose" and [one.tried for one in choose.needs] == [
        {"augment.w": w} for w in (0.1, 0.5, 1.0)
    ]
    assert {one.kind for one in choose.needs} == {"score"} and not begun.done(choose)
    state = followed(tmp_path)
    for one in state.wanted("toy", "bt"):
        (train,) = one.needs
        assert choose in train.needs and state.done(choose)
        assert {*choose.needs} < {*graph.with_needs([one])}
    for one in graph.with_needs(state.wanted("toy", "plain")):
        assert one.kind != "choose", "it has nothing to choose"


def test_a_job_chooses_among_what_did_not_fail_and_fails_if_all_did(tmp_path):
    state = State(TUNED, Layout(tmp_path), retry=True)
    (choose,) = state.wanted("toy", "bt")
    for prepare in (one for one in graph.with_needs([choose]) if one.kind == "prepare"):
        state.learn(prepare, Corpus(fingerprint="c"))
    for one in choose.needs:
        assert state.failure(choose) is None and one in state.jobs()
        state.learn(one, trials.Failure(7, "not finite"))
    assert not state.done(choose) and state.wanted("toy", "bt") == [choose]
    assert state.failure(choose) == trials.Failure(7, "nothing could be chosen for bt: not finite")
    assert choose not in state.ready(state.wanted("toy", "bt")).values()


def test_what_is_not_known_yet_costs_nothing_yet(tmp_path):
    state = State(TUNED, Layout(tmp_path), retry=True)
    assert state.cost("toy", "bt").total == Spent()


def test_what_a_run_needed_counts_where_nothing_but_its_record_is(tmp_path):
    state = followed(tmp_path / "here")
    there = Layout(tmp_path / "there", state.layout.root / "records")
    elsewhere = State(TUNED, there, retry=True)
    for prepare in graph.with_needs(elsewhere.jobs()):
        if prepare.kind == "prepare" and not prepare.model:  # the reverse one has no name there
            elsewhere.corpora[prepare.source] = state.corpora[prepare.source]
    cost, known = elsewhere.cost("toy", "bt"), state.cost("toy", "bt")
    assert (cost["own"], cost["tune"]) == (known["own"], known["tune"])
    assert (cost["augment"], cost["train"]) == (known["augment"], known["train"])


def test_a_corpus_took_what_it_took_when_it_was_prepared_first(tmp_path):
    state = followed(tmp_path)
    state.keep()
    again = State(TUNED, state.layout, retry=True)
    (prepare,) = (
        one for one in graph.with_needs(again.wanted("toy", "plain")) if one.kind == "prepare"
    )
    for looked in (0.0, 9.0):
        again.learn(prepare, dataclasses.replace(state.corpora[prepare.source], seconds=looked))
        assert again.corpora[prepare.source].seconds == 0.5, "it was found prepared"


def test_a_run_that_is_trained_but_not_scored_has_its_cost(tmp_path):
    state = followed(tmp_path)
    for one in state.wanted("toy", "plain"):
        shutil.rmtree(state.layout.record(state.identifier(one)))
        state.records.forget(state.identifier(one))
    assert state.cost("toy", "plain")["own"] == Spent(seconds=20.0, samples=200)


def test_a_trial_keeps_the_recipes_that_it_has_read_whatever_others_read(tmp_path):
    file = tmp_path / "r.toml"
    plan = dataclasses.replace(TUNED, recipes={"toy": trials.Base(recipe=str(file))})
    epochs = []
    for count in (3, 5):
        file.write_text(f'corpus = "toy-de-en"\ntraining.epochs = {count}\n')
        state = State(plan, Layout(tmp_path), retry=True)
        epochs.append(lambda state=state: state.jobs()[0].resolved.recipe.training.epochs)
        assert epochs[-1]() == count
    assert epochs[0]() == 3
