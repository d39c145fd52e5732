"""What is rated and in which order, the folder it is kept in, and the verbs."""

import collections
import contextlib
import csv
import io
import itertools
import json
import os
import signal
import sqlite3
import stat
import subprocess
import sys

import pytest
from scipy import stats

from augless import cli, errors, survey
from augless.survey import designing, pages, ratings, store
from augless.survey.folder import RATINGS, RETURNED, SURVEY, TOKENS
from rated import answer_all, lines, made, planned
from support import killed

# What is rated


def test_the_same_seed_draws_the_same_survey_and_another_one_does_not():
    assert planned(repeats=4, degraded=3) == planned(repeats=4, degraded=3)
    assert planned(seed=1).items != planned(seed=2).items
    orders = [one.order for one in planned().annotators]
    assert orders[0] != orders[1]


def test_every_annotator_rates_every_text_once_and_the_reference_is_among_them():
    design = planned(systems=4, items=20)
    assert design.systems[-1] == design.reference == survey.REFERENCE
    for one in design.annotators:
        assert sorted(one.order) == list(range(20 * 5))
    items = {item.line: item.source for item in design.items}
    assert all(source.startswith(f"source {line - 1} ") for line, source in items.items())
    for task in design.tasks:
        written = lines(60, seed=200 if 4 in task.systems else task.systems[0] + 1)
        assert task.text == written[design.items[task.item].line - 1]


@pytest.mark.parametrize("systems", [1, 2, 3, 4, 7, 8])
def test_latin_squares_have_every_system_at_every_place_and_after_every_other(systems):
    squares = designing.squares(systems)
    assert len(squares) == (2 if systems % 2 and systems > 1 else 1)
    for square in squares:
        for line in (*square, *zip(*square, strict=True)):
            assert sorted(line) == list(range(systems))
    rows = [row for square in squares for row in square]
    followed = collections.Counter(p for row in rows for p in itertools.pairwise(row))
    assert len({*followed.values()}) <= 1
    assert len(followed) == systems * (systems - 1)


def places(design, annotator):
    """Count where each system stands among the texts of an item: (system, place) -> times."""
    seen, counts = collections.Counter(), collections.Counter()
    for number in dict.fromkeys(annotator.order):
        task = design.tasks[number]
        for system in task.systems:
            counts[system, seen[task.item]] += 1
        seen[task.item] += bool(task.systems)
    return counts


@pytest.mark.parametrize(("systems", "items"), [(4, 20), (3, 16), (2, 15), (8, 59)])
def test_positions_are_uniform_for_every_annotator(systems, items):
    design = planned(systems=systems, items=items, repeats=5, degraded=5)
    width = len(design.systems)
    for one in design.annotators:
        counts = places(design, one)
        assert len(counts) == width * width
        assert max(counts.values()) - min(counts.values()) <= 1
        assert stats.chisquare(list(counts.values())).pvalue > 0.9
    assert len({tuple(one.order) for one in design.annotators}) == 2


def test_texts_of_an_item_stand_together_so_that_its_source_is_read_once():
    design = planned(items=20)
    for one in design.annotators:
        runs = [item for item, _ in itertools.groupby(design.tasks[n].item for n in one.order)]
        assert len(runs) == 20


def test_repeated_texts_come_a_third_later_and_are_the_systems():
    design = planned(items=24, repeats=6, degraded=4)
    for one in design.annotators:
        again = design.repeated(one)
        assert len(again) == 6
        assert all(after - before >= len(one.order) / 5 for before, after in again.values())
        assert all(design.tasks[number].kind == "system" for number in again)


def test_degraded_texts_are_the_words_of_others_in_disorder():
    design = planned(items=24, degraded=6)
    degraded = [task for task in design.tasks if task.kind == "degraded"]
    humans = [task.text for task in design.tasks if 3 in task.systems]
    assert len(degraded) == 6 and not any(task.text in humans for task in degraded)
    bags = [sorted(text.split()) for text in humans]
    assert all(sorted(task.text.split()) in bags for task in degraded)
    assert all(task.systems == () for task in degraded)


def test_gold_texts_keep_their_right_ratings():
    gold = (survey.Gold("a question", "an answer", {"fluency": 5}),)
    design = planned(gold=gold)
    (task,) = (task for task in design.tasks if task.kind == "gold")
    assert (task.text, task.expected) == ("an answer", {"fluency": 5})
    assert design.items[task.item] == designing.Item(0, "a question")
    assert all(one.order.count(len(design.tasks) - 1) == 1 for one in design.annotators)


def test_what_systems_wrote_alike_is_rated_once_for_all():
    same = lines(20)
    options = survey.Options(items=20, annotators=("anna",))
    design = survey.design({"a": same, "b": same}, lines(20, seed=5), None, options)
    assert len(design.tasks) == 20 and {task.systems for task in design.tasks} == {(0, 1)}
    assert len(design.annotators[0].order) == 20


def test_a_reference_that_looks_different_is_pointed_out():
    plain = {"a": [line.lower() for line in lines(30)]}
    options = survey.Options(items=20, annotators=("anna",))
    references = [line.capitalize() for line in lines(30, seed=1)]
    design = survey.design(plain, lines(30, seed=2), references, options)
    (note,) = survey.giveaways(design)
    assert "capital letters" in note
    assert survey.giveaways(planned()) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"items": 61}, "60 lines to draw from"),
        ({"items": 0}, "at least one item"),
        ({"repeats": 13}, "repeated or degraded"),
        ({"annotators": ()}, "1 to 200 annotators"),
        ({"annotators": ("anna", "anna")}, "given twice"),
        ({"annotators": ("an\nna",)}, "cannot be used"),
        ({"scales": ()}, "one to six"),
        ({"scales": (survey.SCALES["fluency"],) * 2}, "given twice"),
        ({"languages": ("de", "<b>")}, "no language tag"),
        ({"title": ""}, "cannot be used"),
        ({"instructions": "x" * 20_001}, "not read"),
        ({"gold": (survey.Gold("a", "b", {"wit": 1}),)}, "wit"),
    ],
)
def test_what_cannot_be_made_is_refused(options, message):
    with pytest.raises((survey.BadOptions, survey.BadSurvey), match=message):
        planned(**options)


def test_lines_must_belong_together_and_be_of_a_length_that_is_read():
    options = survey.Options(items=2, annotators=("anna",))
    with pytest.raises(survey.BadSurvey, match="a has 3 lines and the source 4"):
        survey.design({"a": ["x"] * 3}, ["y"] * 4, None, options)
    with pytest.raises(survey.BadSurvey, match="a, line 2: 20,001 characters"):
        survey.design({"a": ["x", "y" * 20_001]}, ["y"] * 2, None, options)
    with pytest.raises(survey.BadOptions, match="rename"):
        survey.design({survey.REFERENCE: ["x"] * 2}, ["y"] * 2, ["z"] * 2, options)


def test_scales_are_named_or_asked_in_ones_own_words():
    scales = survey.scales(["fluency, relevance", "wit=Is it funny, too?"])
    assert [scale.name for scale in scales] == ["fluency", "relevance", "wit"]
    assert scales[2].question == "Is it funny, too?"
    with pytest.raises(survey.BadOptions, match="no scale 'fluent'"):
        survey.scales(["fluent"])


# The folder


def test_a_survey_is_read_back_as_it_was_written(tmp_path):
    made_survey = made(tmp_path / "s", repeats=2, degraded=2)
    again = survey.Survey.open(tmp_path / "s")
    assert again == made_survey
    assert stat.S_IMODE((tmp_path / "s" / TOKENS).stat().st_mode) == 0o600
    tokens = made_survey.tokens()
    assert {*tokens} == {"a1", "a2"} and all(len(token) >= 24 for token in tokens.values())
    # The same command finds it and changes nothing.
    assert made(tmp_path / "s", repeats=2, degraded=2) == made_survey
    assert made_survey.tokens() == tokens


@pytest.mark.parametrize("point", ["survey-begun", "survey-written"])
def test_killed_while_it_is_made_a_survey_is_absent_and_can_be_made_again(tmp_path, point):
    killed(lambda: made(tmp_path / "s"), at=point)
    assert not (tmp_path / "s").exists() and [*tmp_path.iterdir()]
    made(tmp_path / "s")
    assert [*tmp_path.iterdir()] == [tmp_path / "s"]


def test_another_survey_or_other_files_are_never_overwritten(tmp_path):
    made(tmp_path / "s")
    before = (tmp_path / "s" / SURVEY).read_bytes()
    with pytest.raises(survey.BadSurvey, match="another survey"):
        made(tmp_path / "s", seed=2)
    assert (tmp_path / "s" / SURVEY).read_bytes() == before
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "notes.txt").write_text("mine")
    with pytest.raises(survey.BadSurvey, match="something else"):
        made(tmp_path / "t")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["s", "t"]


DAMAGES = {
    "no JSON": lambda text: text[:-5],
    "another format": lambda text: text.replace("survey 1", "survey 9"),
    "a key too many": lambda text: text.replace('"title"', '"x": 1, "title"'),
    "a path as an id": lambda text: text.replace('"id": "a1"', '"id": "../a1"'),
    "two with one id": lambda text: text.replace('"id": "a2"', '"id": "a1"'),
    "an item that is not there": lambda text: text.replace('"item": 11', '"item": 99'),
    "a system that is not there": lambda text: text.replace('"systems": [0]', '"systems": [9]'),
    "nobody's text": lambda text: text.replace('"systems": [0]', '"systems": []'),
    "a task that is not there": lambda text: text.replace('"order": [', '"order": [999, '),
    "three times the same": lambda text: text.replace('"order": [', '"order": [0, 0, '),
    "a negative place": lambda text: text.replace('"order": [', '"order": [-1, '),
    "a number that is none": lambda text: text.replace('"population": 60', '"population": NaN'),
    "a text of another kind": lambda text: text.replace('"kind": "system"', '"kind": "x"'),
    "deep": lambda text: "[" * 100_000,
    "empty": lambda text: "",
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_foreign_survey_is_refused_in_a_line(tmp_path, damage):
    made(tmp_path / "s")
    path = tmp_path / "s" / SURVEY
    path.write_text(DAMAGES[damage](path.read_text()))
    with pytest.raises(survey.BadSurvey) as caught:
        survey.Survey.open(tmp_path / "s")
    assert len(str(caught.value).splitlines()) == 1 and str(path) in str(caught.value)


@pytest.mark.parametrize("name", [SURVEY, TOKENS, RATINGS, RETURNED])
def test_links_are_not_followed(tmp_path, name):
    made_survey = made(tmp_path / "s")
    target = tmp_path / "elsewhere"
    path = made_survey.folder / name
    if path.exists():
        path.rename(target)
    elif name == RETURNED:
        target.mkdir()
    else:
        target.write_bytes(b"")
    path.symlink_to(target)
    with pytest.raises(survey.BadSurvey):
        survey.Survey.open(made_survey.folder).tokens()
        made_survey.answers()
        made_survey.store()
    if name == RETURNED:
        page = returned(made_survey, tmp_path / "back.json")
        with pytest.raises(survey.BadSurvey, match="link"):
            made_survey.keep(page)
        assert not any(target.iterdir())


def test_tokens_that_do_not_fit_are_refused(tmp_path):
    made_survey = made(tmp_path / "s")
    path = made_survey.folder / TOKENS
    for tokens in ({"a1": "x" * 24}, {"a1": "x" * 24, "a2": "x" * 24}, {"a1": "x", "a2": "y"}):
        path.write_text(json.dumps({"tokens": tokens}))
        with pytest.raises(survey.BadSurvey):
            made_survey.tokens()


def test_a_survey_is_served_once_at_a_time(tmp_path):
    made_survey = made(tmp_path / "s")
    with (
        made_survey.lock(),
        pytest.raises(errors.Busy, match="another process"),
        made_survey.lock(),
    ):
        pass
    with made_survey.lock():
        pass


# Ratings


def test_a_rating_that_is_sent_again_is_stored_once(tmp_path):
    with store.Store(tmp_path / "r.sqlite") as kept:
        assert kept.put("a1", 0, 1, [4, 5], 2.0) == 1
        assert kept.put("a1", 0, 1, [4, 5], 2.0) == 1
        assert kept.put("a1", 1, 1, [1, 1], 2.0) == 2
        assert kept.put("a1", 0, 2, [3, 3], 2.0) == 2  # changed
        assert [answer.scores for answer in kept.all()] == [(3, 3), (1, 1)]
        assert kept.done("a2") == 0


@pytest.mark.parametrize(
    ("place", "revision", "scores"),
    [
        (0, 1, [4, 5]),
        (0, 1, [1, 1]),
        (0, 2, [1, 1]),
        (0, 4, [1, 1]),
        (1, 2, [1, 1]),
        (2, 1, [1, 1]),
    ],
)
def test_an_answer_that_is_late_or_skips_a_text_changes_nothing(tmp_path, place, revision, scores):
    with store.Store(tmp_path / "r.sqlite") as kept:
        kept.put("a1", 0, 1, [4, 5], 2.0)
        kept.put("a1", 0, 2, [3, 3], 2.0)
        with pytest.raises(store.Refused):
            kept.put("a1", place, revision, scores, 2.0)
        assert [answer.scores for answer in kept.all()] == [(3, 3)]


def test_ratings_are_on_disk_when_they_are_acknowledged(tmp_path):
    path = tmp_path / "r.sqlite"
    script = (
        "import os, signal, sys; from pathlib import Path; from augless.survey import store\n"
        "kept = store.Store(Path(sys.argv[1]))\n"
        "for place in range(25): kept.put('a1', place, 1, [place % 5 + 1], 1.0)\n"
        "print('done', flush=True); os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("done\n", -signal.SIGKILL)
    with store.Store(path) as kept:
        assert [answer.scores[0] for answer in kept.all()] == [k % 5 + 1 for k in range(25)]


def test_ratings_are_read_from_a_folder_that_cannot_be_written(tmp_path, monkeypatch):
    made_survey = made(tmp_path / "s")
    answer_all(made_survey, lambda *_: 3, upto=4)
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert [len(of) for of in made_survey.answers().values()] == [4, 4]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE answers SET scores = '9,9'",
        "UPDATE answers SET scores = '1'",
        "UPDATE answers SET scores = 'a,b'",
        "UPDATE answers SET seconds = 'soon'",
        "UPDATE answers SET annotator = '../../etc/passwd' WHERE annotator = 'a1'",
        "UPDATE answers SET place = 100000 + place",
        "UPDATE answers SET place = -1 - place",
        "ALTER TABLE answers RENAME TO questions",
    ],
)
def test_ratings_from_elsewhere_are_checked(tmp_path, statement):
    made_survey = made(tmp_path / "s")
    answer_all(made_survey, lambda *_: 3, upto=2)
    with contextlib.closing(sqlite3.connect(made_survey.folder / RATINGS)) as ratings_file:
        ratings_file.execute("PRAGMA ignore_check_constraints = ON")
        ratings_file.execute(statement)
        ratings_file.commit()
    with pytest.raises(survey.BadSurvey):
        made_survey.answers()


def test_a_file_that_is_no_database_is_refused(tmp_path):
    made_survey = made(tmp_path / "s")
    (made_survey.folder / RATINGS).write_bytes(b"SQLite format 3\0" + os.urandom(4096))
    with pytest.raises(survey.BadSurvey, match="cannot be read as ratings"):
        made_survey.answers()


# What offline pages give back


def returned(made_survey, path, annotator="a1", scores=(4, 5), count=5, **changes):
    answers = [{"place": k, "scores": list(scores), "seconds": 2.5} for k in range(count)]
    content = {"format": "augless ratings 1", "survey": made_survey.id, "annotator": annotator}
    path.write_text(json.dumps({**content, "answers": answers, **changes}))
    return path


def test_a_returned_file_counts_from_then_on_and_a_newer_one_replaces_it(tmp_path):
    made_survey = made(tmp_path / "s")
    assert made_survey.keep(returned(made_survey, tmp_path / "b.json")).id == "a1"
    assert [answer.scores for answer in made_survey.answers()["a1"]] == [(4, 5)] * 5
    made_survey.keep(returned(made_survey, tmp_path / "b.json", count=8))
    assert len(made_survey.answers()["a1"]) == 8 and made_survey.answers()["a2"] == []


def test_what_was_rated_here_and_there_must_agree(tmp_path):
    made_survey = made(tmp_path / "s")
    answer_all(made_survey, lambda *_: 4, upto=2)
    with pytest.raises(survey.BadSurvey, match="elsewhere too"):
        made_survey.keep(returned(made_survey, tmp_path / "b.json", scores=(4, 5)))
    assert not (made_survey.folder / RETURNED).exists()
    made_survey.keep(returned(made_survey, tmp_path / "b.json", scores=(4, 4)))
    assert len(made_survey.answers()["a1"]) == 5


HOSTILE = [
    {"annotator": "../../../etc/passwd"},
    {"annotator": "a3"},
    {"annotator": "a1\n"},
    {"annotator": None},
    {"survey": "0" * 16},
    {"survey": "not hex"},
    {"format": "augless ratings 2"},
    {"answers": None},
    {"answers": []},
    {"answers": [{"place": -1, "scores": [1, 1], "seconds": 1}]},
    {"answers": [{"place": 10**9, "scores": [1, 1], "seconds": 1}]},
    {"answers": [{"place": 10**400, "scores": [1, 1], "seconds": 1}]},
    {"answers": [{"place": 0.5, "scores": [1, 1], "seconds": 1}]},
    {"answers": [{"place": "0", "scores": [1, 1], "seconds": 1}]},
    {"answers": [{"place": 0, "scores": [1], "seconds": 1}]},
    {"answers": [{"place": 0, "scores": [0, 6], "seconds": 1}]},
    {"answers": [{"place": 0, "scores": [True, 1], "seconds": 1}]},
    {"answers": [{"place": 0, "scores": [1, 1], "seconds": -1}]},
    {"answers": [{"place": 0, "scores": [1, 1], "seconds": float("nan")}]},
    {"answers": [{"place": 0, "scores": [1, 1], "seconds": float("inf")}]},
    {"answers": [{"place": 0, "scores": [1, 1], "seconds": 1, "system": "x"}]},
    {"answers": [{"place": 0, "scores": [1, 1], "seconds": 1}] * 2},
    {"system": "a"},
]


@pytest.mark.parametrize("changes", HOSTILE, ids=lambda changes: str(changes)[:50])
def test_a_returned_file_from_elsewhere_is_refused_in_a_line(tmp_path, changes):
    made_survey = made(tmp_path / "s")
    path = returned(made_survey, tmp_path / "b.json", **changes)
    with pytest.raises(survey.BadSurvey) as caught:
        made_survey.keep(path)
    assert len(str(caught.value).splitlines()) == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == ["b.json", "s"]
    assert sorted(p.name for p in made_survey.folder.iterdir()) == [SURVEY, TOKENS]


@pytest.mark.parametrize(
    "content", [b"", b"\xff\xfe", b"[" * 100_000, b"{}", b'"x"', b"null", b"1e9"]
)
def test_a_returned_file_that_is_no_such_json_is_refused(tmp_path, content):
    made_survey = made(tmp_path / "s")
    (tmp_path / "b.json").write_bytes(content)
    with pytest.raises(survey.BadSurvey):
        made_survey.keep(tmp_path / "b.json")


def test_a_returned_file_must_be_a_plain_file(tmp_path):
    made_survey = made(tmp_path / "s")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(returned(made_survey, tmp_path / "b.json"))
    for name in ("pipe", "link", "nowhere", "."):
        with pytest.raises(survey.BadSurvey):
            made_survey.keep(tmp_path / name)


# Exports

FORMULAS = [
    '=HYPERLINK("http://x.invalid","click")',
    "+1+1",
    "-2+3",
    "@SUM(1)",
    "  =1+1",
    "\t=1+1",
    "\uff1d1+1",
    "\uff0b1",
    "a;=1+1",
    "plain",
]


def test_a_spreadsheet_finds_no_formula_in_the_csv(tmp_path):
    systems = {"=cmd|' /C calc'!A0": FORMULAS}
    options = survey.Options(items=len(FORMULAS), annotators=("@anna",))
    made_survey = survey.Survey.create(
        tmp_path / "s", survey.design(systems, FORMULAS, FORMULAS, options)
    )
    answer_all(made_survey, lambda *_: 3)
    text = ratings.csv(made_survey)
    for delimiter in (",", ";", "\t"):
        for row in csv.reader(io.StringIO(text), delimiter=delimiter):
            assert not any(cell.strip().startswith(tuple("=+-@\uff1d\uff0b")) for cell in row)
    rows = list(csv.DictReader(io.StringIO(text)))
    assert {row["text"].replace("'", "") for row in rows} == {*FORMULAS}
    assert rows[0]["annotator"] == "'@anna" and rows[0]["fluency"] == "3"
    kept = [json.loads(line) for line in ratings.jsonl(made_survey).splitlines()]
    assert {row["text"] for row in kept} == {*FORMULAS}
    assert kept[0]["annotator"] == "@anna"  # JSON needs no such care


def test_lines_of_jsonl_end_nowhere_else(tmp_path):
    options = survey.Options(items=1, annotators=("anna",))
    made_survey = survey.Survey.create(
        tmp_path / "s", survey.design({"a": ["x\u2028y\u0085z"]}, ["q"], None, options)
    )
    answer_all(made_survey, lambda *_: 3)
    assert len(ratings.jsonl(made_survey).splitlines()) == 1
    assert json.loads(ratings.jsonl(made_survey))["text"] == "x\u2028y\u0085z"


def test_the_page_is_small_and_asks_nothing_of_other_places(tmp_path):
    made_survey = made(tmp_path / "s")
    page = pages.served()
    assert len(page) < 100_000
    offline = pages.offline(made_survey.design, made_survey.id, made_survey.design.annotators[0])
    assert len(offline) - len(page) < 10_000
    for one in (page, offline):
        text = one.decode()
        assert "http://" not in text and "https://" not in text
        assert all(name not in text for name in made_survey.design.systems)


def test_no_text_ends_the_script_that_holds_it(tmp_path):
    hostile = ["</script><script>alert(1)</script>", "<!--<script>", "]]>", "&lt;\u2028"]
    options = survey.Options(items=4, annotators=("</script>",), title="</script><!--")
    design = survey.design({"a": hostile}, hostile, None, options)
    text = pages.offline(design, "0" * 16, design.annotators[0]).decode()
    assert text.count("</script>") == 2  # its data and its program
    block = text.split('id="survey">')[1].split("</script>")[0]
    assert sorted(task[1] for task in json.loads(block)["tasks"]) == sorted(hostile)


# The verbs


def run(monkeypatch, folder, *arguments):
    """Run a verb in this process, which is quicker; return its exit code."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", ["augless", "survey", *map(str, arguments)])
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    with pytest.raises(SystemExit) as end:
        cli.main()
    return end.value.code


@pytest.fixture
def files(tmp_path):
    for name, seed in (("a.txt", 1), ("b.txt", 2), ("s.txt", 3), ("r.txt", 4)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines(30, seed=seed)))
    return tmp_path


NEW = ("new", "--systems", "a.txt", "law=b.txt", "--source", "s.txt", "--reference", "r.txt")


def test_new_makes_a_survey_and_says_the_next_step(files, monkeypatch, capsys):
    gold = {"source": "q", "text": "t", "scores": {"fluency": 5}}
    (files / "gold.jsonl").write_text(json.dumps(gold) + "\n")
    options = ("--items", 10, "--annotators", "anna,ben", "--gold", "gold.jsonl", "--repeats", 3)
    assert run(monkeypatch, files, *NEW, *options, "--degraded", 2) == 0
    said = capsys.readouterr().out
    assert "10 items, drawn from 30 lines with seed 1" in said
    assert "systems: a.txt, law, Human" in said
    assert "2 annotators, 36 texts each" in said
    assert said.endswith("next: augless survey serve survey\n")
    assert run(monkeypatch, files, *NEW, *options, "--degraded", 2, "--json") == 0
    assert json.loads(capsys.readouterr().out)["annotators"] == {"anna": 36, "ben": 36}


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["new"], 2, "--systems FILE --source FILE"),
        ([*NEW, "--items", "31"], 2, "30 lines to draw from"),
        ([*NEW, "--scales", "fun"], 2, "no scale 'fun'"),
        ([*NEW, "--labels", "One"], 2, "parted by a comma"),
        ([*NEW, "--items", "0"], 2, "greater than or equal to 1"),
        ([*NEW, "a.txt"], 2, "two systems are called 'a.txt'"),
        ([*NEW, "--gold", "a.txt"], 3, "a.txt, line 1"),
        (["new", "--systems", "nowhere", "--source", "s.txt"], 3, "nowhere"),
        (["serve", "nowhere"], 3, "holds no survey"),
        (["export", "nowhere", "--html"], 3, "holds no survey"),
        (["export", "made"], 2, "--html, --csv or --jsonl"),
        (["tally", "made"], 3, "nothing was rated yet"),
        (["tally", "made", "a.txt"], 3, "a.txt is not what it should be"),
        (["serve", "made", "--host", "0.0.0.0"], 2, "there is no password"),
        (["serve", "made", "--url", "https://a.example"], 2, "there is no password"),
        (["serve", "made", "--url", "a.example"], 2, "--url is the start"),
        (["serve", "made", "--password-file", "short"], 2, "at least 8 characters"),
        (["serve", "made", "--host", "203.0.113.1", "--password-file", "long"], 5, "cannot listen"),
    ],
    ids=lambda value: " ".join(value)[:60] if isinstance(value, list) else "",
)
def test_a_mistake_is_a_few_lines_and_an_exit_code(
    files, monkeypatch, capsys, arguments, code, message
):
    made(files / "made")
    (files / "short").write_text("1234567\n")
    (files / "long").write_text("long enough\n")
    assert run(monkeypatch, files, *arguments) == code
    said = capsys.readouterr().err
    assert message in said and "Traceback" not in said
    assert len(said.splitlines()) <= 4
    assert not (files / "survey").exists()


def test_help_starts_with_examples(tmp_path, monkeypatch, capsys):
    for verb in ((), ("new",), ("serve",), ("export",), ("tally",)):
        assert run(monkeypatch, tmp_path, *verb, "--help") == 0
        assert "Examples:" in capsys.readouterr().out
    script = (
        "import sys, augless.cli, augless.survey; "
        "assert not {'torch', 'starlette', 'uvicorn'} & {*sys.modules}"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_offline_pages_and_returned_files_make_a_whole_survey_without_a_server(
    files, monkeypatch, capsys
):
    def verb(*arguments):
        assert run(monkeypatch, files, *arguments) == 0
        return capsys.readouterr().out

    verb(*NEW, "--items", 10, "--annotators", "anna,ben")
    said = verb("export", "survey", "--html")
    assert [line.split()[-1] for line in said.splitlines()] == ["anna", "ben"]
    made_survey = survey.Survey.open(files / "survey")
    paths = [
        returned(made_survey, files / f"{id_}.json", annotator=id_, count=30)
        for id_ in ("a1", "a2")
    ]
    counted = json.loads(verb("tally", "survey", *paths, "--json"))
    assert counted["texts"] == 60
    assert counted["scales"]["fluency"]["systems"]["law"]["mean"]["value"] == 4
    assert json.loads(verb("tally", "survey", "--json")) == counted
    verb("export", "survey", "--csv", "--jsonl", "--out", "kept")
    assert len((files / "kept" / "ratings.jsonl").read_text().splitlines()) == 60
    names = {path.name for path in (files / "survey" / "tally").iterdir()}
    assert names >= {"index.html", "table.md", "table.tex", "figure.svg", "datasheet.md"}
