"""The verb score: what it claims of outputs, and what it does not."""

import json
import random

import pytest

from augless import metrics
from augless.cli import scoring

LINE = "the old man sees a small dog near every house while two cats sleep under our table"
WORDS = LINE.split()


@pytest.fixture
def files(tmp_path, monkeypatch):
    """References, and a system that is better than another with each of three seeds."""
    monkeypatch.chdir(tmp_path)
    draw = random.Random(0)
    references = [" ".join(draw.choices(WORDS, k=12)) for _ in range(60)]

    def write(name, lines):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), "utf-8")

    def noisy(noise, seed):
        words = random.Random(seed)
        return [
            " ".join(
                words.choice("pqrstuvw") if words.random() < noise else word
                for word in line.split()
            )
            for line in references
        ]

    write("ref", references)
    for seed in (1, 2, 3):
        write(f"a{seed}", noisy(0.4, seed))
        write(f"b{seed}", noisy(0.2, seed + 10))
    write("constant", ["the old man"] * 60)
    write("empty", [""] * 60)
    write("junk1", noisy(0.97, 5))
    write("junk2", noisy(0.97, 6))
    return tmp_path


def scored(capsys, *hypotheses, metric=("bleu",), **given):
    scoring.score([*hypotheses], references=["ref"], metric=[*metric], as_json=True, **given)
    out, err = capsys.readouterr()
    return json.loads(out), err


def test_seeds_are_compared_by_the_two_way_model(files, capsys):
    values, said = scored(capsys, "a=a1,a2,a3", "b=b1,b2,b3")
    one = values["bleu"]["systems"]["b"]["comparison"]
    assert one["test"] == "two-way" and one["claimed"] and one["low"] > 0
    assert one["p"] == one["corrected_p"] < 0.05
    assert one["estimate"] == pytest.approx((one["low"] + one["high"]) / 2)
    assert said == "" and values["bleu"]["notes"] == []
    scoring.score(["a=a1,a2,a3", "b=b1,b2,b3"], references=["ref"], metric=["bleu"])
    head, first, second, *_ = capsys.readouterr().out.splitlines()
    assert "95 % interval" in head and "minimum detectable effect" in head
    assert "differs" in second and "differs" not in first


def test_one_seed_says_nothing_about_a_method(files, capsys):
    values, said = scored(capsys, "a1", "b1")
    one = values["bleu"]["systems"]["b1"]["comparison"]
    assert one["test"] == "sentences" and one["p"] < 0.05 and not one["claimed"]
    assert "augless: one seed says nothing about a method: p is of these outputs" in said
    assert "NAME=SEED1,SEED2,SEED3" in said
    assert scored(capsys, "a1")[1] == "", "nothing is compared"


@pytest.mark.parametrize(
    ("name", "seen"),
    [("constant", "60 outputs have only 1 different line,"), ("empty", "60 of 60 outputs are")],
)
def test_nothing_is_claimed_of_degenerate_outputs_whatever_the_metric(files, capsys, name, seen):
    systems = f"a={name},{name}", "b=b1,b2"
    values, said = scored(capsys, *systems, metric=("bleu", "chrf"))
    for metric in ("bleu", "chrf"):
        assert not values[metric]["systems"]["b"]["comparison"]["claimed"]
    assert said.count(f"augless: nothing is claimed: a ({name}): {seen}") == 1
    assert metrics.ADVICE in said
    assert seen in scored(capsys, name)[1], "of a system alone, too"


@pytest.mark.parametrize("source", [None, "ref"])
def test_nothing_is_claimed_of_constant_outputs_without_references_either(files, capsys, source):
    systems = ["a=constant,constant", "b=b1,b2"]
    scoring.score(systems, metric=["distinct-1"], source=source, as_json=True)
    out, said = capsys.readouterr()
    assert json.loads(out)["distinct-1"]["notes"] and "nothing is claimed: a (constant)" in said


def test_nothing_is_claimed_where_bleu_is_near_0(files, capsys):
    values, said = scored(capsys, "a=junk1,junk1", "b=junk2,junk2", metric=("bleu", "chrf"))
    means = [one["mean"] for one in values["bleu"]["systems"].values()]
    assert max(means) < 2
    assert f"a bleu of {max(means):.2f} at best is too near 0" in said and "-m chrf" in said
    assert not values["bleu"]["systems"]["b"]["comparison"]["claimed"]
    assert values["chrf"]["notes"] == []
    assert "-m chrf" not in scored(capsys, "a=constant,constant", "b=junk2,junk2")[1]


def test_nothing_is_claimed_of_outputs_that_are_in_a_wrong_order(files, capsys):
    for name in ("b1", "b2"):
        lines = (files / name).read_text("utf-8").splitlines(keepends=True)
        (files / f"mixed-{name}").write_text("".join(lines[20:] + lines[:20]), "utf-8")
    systems = "a=a1,a2", "b=mixed-b1,mixed-b2"
    values, said = scored(capsys, *systems, metric=("bleu", "chrf", "distinct-1"))
    for metric in ("bleu", "chrf"):
        assert not values[metric]["systems"]["b"]["comparison"]["claimed"]
    assert "b (mixed-b1): 60 outputs fit the references of other lines as well as" in said
    assert "check that they are in the order of the references" in said
    assert values["distinct-1"]["notes"] == [], "which compares with no references"


def test_nothing_is_claimed_of_fewer_than_ten_lines(files, capsys):
    for name in ("ref", "a1", "a2", "b1", "b2"):
        lines = (files / name).read_text("utf-8").splitlines(keepends=True)
        (files / name).write_text("".join(lines[:9]), "utf-8")
    values, said = scored(capsys, "a=a1,a2", "b=b1,b2", metric=("chrf",))
    assert not values["chrf"]["systems"]["b"]["comparison"]["claimed"]
    assert "nothing is claimed: 9 lines are too few to tell systems apart" in said


@pytest.mark.parametrize(("metric", "digits"), [("bleu", 2), ("chrf", 2), ("distinct-1", 4)])
def test_bleu_and_chrf_have_two_decimals_however_low(files, capsys, metric, digits):
    scoring.score(["empty"], references=["ref"], metric=[metric])
    shown = capsys.readouterr().out.splitlines()[1].split()[1]
    assert shown == f"{0:.{digits}f}"


def test_several_systems_are_corrected_by_holm(files, capsys):
    values, _ = scored(capsys, "a=a1,a2,a3", "b=b1,b2,b3", "c=a2,a3,a1")
    others = [values["bleu"]["systems"][name]["comparison"] for name in "bc"]
    expected = metrics.holm([one["p"] for one in others])
    assert [one["corrected_p"] for one in others] == pytest.approx(expected)


def test_sources_tell_whether_few_answers_are_right(files, capsys):
    (files / "same").write_text("hello\n" * 60, "utf-8")
    _, said = scored(capsys, "constant", source="same")
    assert said == "", "one source may have one answer"
