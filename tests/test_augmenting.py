"""The verbs augment and neighbours, as their users run them."""

import json
import os
import signal
import sys

import pytest

import tiny
from augless import augmentation, cli
from augless.augmentation import making
from chat_server import serving

CORPUS = ("toy-de-en", "corpus.train=40", "corpus.valid=5", "corpus.test=5")
MODEL = (
    "text.vocabulary.size=150",
    "model.embedding=16",
    "model.hidden=16",
    "training.epochs=1",
)


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run a command in this process, in a folder of its own; return its code and what it said."""
    monkeypatch.chdir(tmp_path)
    kept = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["augless", *map(str, arguments)])
        capsys.readouterr()
        try:
            with pytest.raises(SystemExit) as caught:
                cli.main()
        finally:
            for number, handler in kept.items():
                signal.signal(number, handler)
        said = capsys.readouterr()
        return caught.value.code or 0, said.out, said.err

    return call


def test_the_verb_writes_a_folder_and_says_how_to_train_on_it(run, tmp_path):
    code, out, err = run("augment", "word-edits", *CORPUS, "w=0.5", "copies=2", "--out", "edited")
    assert code == 0, err
    assert "pairs: 40 original, 80 made, 0 left out" in out and "words changed: " in out
    assert out.strip().split("\n")[-1] == "edited"
    (line,) = [one for one in out.split("\n") if one.startswith("train on it: augless train ")]
    words = line.removeprefix("train on it: augless ").split(" ")
    code, _, err = run(*words, *MODEL, "--run", "run")
    assert code == 0, err
    assert (tmp_path / "run" / "result.json").exists()


def test_the_verb_speaks_json(run):
    code, out, err = run("augment", "word-edits", *CORPUS, "--out", "edited", "--json")
    assert code == 0, err
    answer = json.loads(out)
    assert answer["folder"] == "edited" and answer["pairs"]["made"] == 40
    assert len(answer["samples"]) == 10


def test_stopped_by_a_signal_it_is_75_and_goes_on(run, tmp_path, monkeypatch):
    monkeypatch.setattr(making, "BLOCK", 10)
    rewrite, calls = making.timed, []

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return rewrite(*arguments)

    monkeypatch.setattr(making, "timed", interrupted)
    command = ("augment", "word-edits", *CORPUS, "--out", "edited")
    code, out, err = run(*command)
    assert code == 75 and out == "" and "run the same command to resume" in err
    assert not (tmp_path / "edited").exists() and len(calls) == 2
    code, _, err = run(*command)
    assert code == 0, err
    assert len(calls) == 4  # two blocks were kept
    monkeypatch.setattr(making, "timed", rewrite)
    assert run(*command[:-1], "whole")[0] == 0
    names = [path.name for path in (tmp_path / "whole").iterdir() if path.name != "manifest.json"]
    for name in names:
        assert (tmp_path / "edited" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_back_translation_is_one_command_and_neighbours_are_measured_under_a_run(run, tmp_path):
    code, out, err = run(
        "augment", "back-translation", *CORPUS, *MODEL, "search.max_ratio=1.0", "--out", "back"
    )
    assert code == 0, err
    assert "training the reverse model first, from en to de" in err
    (reverse,) = (tmp_path / "runs").iterdir()
    assert reverse.name.startswith("toy-de-en-reverse-")
    assert run("train", *CORPUS, *MODEL, "--run", "run")[0] == 0
    assert run("augment", "word-edits", *CORPUS, "--out", "edited")[0] == 0
    code, out, err = run("neighbours", "run", "edited")
    assert code == 0, err
    assert "radius and angle are independent: " in out and out.strip().endswith("neighbours")
    names = {path.name for path in (tmp_path / "neighbours").iterdir()}
    tables = {f"{name}.{end}" for name in ("euclidean", "wasserstein") for end in ("json", "csv")}
    assert names == {*tables, "neighbours.svg"}
    law = ("terms.0.weighting=empirical", "terms.0.weighting.neighbours=neighbours/euclidean.json")
    code, _, err = run("train", *CORPUS, *MODEL, *law, "--run", "law")
    assert code == 0, err


def test_training_with_augmentation_says_what_it_needed(run):
    code, out, err = run("train", *CORPUS, *MODEL, "augment=word-edits", "augment.w=0.5")
    assert code == 0, err
    assert "rewriting: " in out and " s, 40 samples" in out


# Bad input: a few lines, the right code, nothing half-written


def refused(run, folder, code, *arguments):
    """Run a command that must be refused, and return what it said."""
    before = sorted(path for path in folder.rglob("*") if path.is_file())
    ended, out, err = run(*arguments)
    assert ended == code and out == "", err
    lines = [line for line in err.split("\n") if line]
    start = next(i for i, line in enumerate(lines) if line.startswith("augless: "))
    assert len(lines) - start <= 3 and "Traceback" not in err
    left = sorted(path for path in folder.rglob("*") if path.is_file() and path not in before)
    assert not [path for path in left if not path.name.startswith("answers.sqlite")]
    return "\n".join(lines[start:])


def test_a_model_that_is_nowhere(run, tmp_path, monkeypatch):
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    command = ("augment", "masked-lm", *CORPUS, "model=some/bert", "--out", "out")
    said = refused(run, tmp_path, 2, *command)
    assert "'some/bert' is neither a folder nor in the Hugging Face cache" in said
    assert "--download, or give the folder of one" in said


def test_a_model_without_a_mask(run, tmp_path, tmp_path_factory):
    model = tiny.maskless(tmp_path_factory.mktemp("models") / "maskless")
    command = ("augment", "masked-lm", *CORPUS, f"model={model}", "--out", "out")
    assert "no mask token" in refused(run, tmp_path, 2, *command)


def test_a_run_of_another_direction(run, tmp_path):
    assert run("train", *CORPUS, *MODEL, "--run", "forward")[0] == 0
    command = ("augment", "back-translation", *CORPUS, "run=forward", "--out", "out")
    assert "goes from de to en; from en to de is needed" in refused(run, tmp_path, 2, *command)


def test_an_output_that_cannot_be_written(run, tmp_path):
    (tmp_path / "file").write_text("mine")
    for place in ("file", "file/below"):
        said = refused(run, tmp_path, 5, "augment", "word-edits", *CORPUS, "--out", place)
        assert "is a file" in said
    assert (tmp_path / "file").read_text() == "mine"


def test_a_corpus_augmented_already_with_another_seed(run, tmp_path):
    command = ("augment", "word-edits", *CORPUS, "--out", "out")
    assert run(*command)[0] == 0
    said = refused(run, tmp_path, 2, *command, "--seed", 2)
    assert "seed was 1 and is now 2" in said and "name another folder" in said
    files = ("files", "corpus.path=out", "corpus.languages=de,en", "corpus.weight=weight")
    said = refused(run, tmp_path, 2, "augment", "word-edits", *files, "--out", "twice")
    assert "is augmented already (word-edits, seed 1)" in said


def test_an_endpoint_that_refuses(run, tmp_path):
    with serving(lambda number, body: (401, b'{"error": {"message": "who are you"}}')) as server:
        command = ("augment", "paraphrase", *CORPUS, f"url={server.url}", "model=m", "--out", "out")
        said = refused(run, tmp_path, 5, *command)
    assert "refuses: status 401 (who are you)" in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("word-edit", *CORPUS), "did you mean 'word-edits'?"),
        (("word-edits", *CORPUS, "rat=0.1"), "did you mean 'rate'?"),
        (("word-edits", *CORPUS, "rate=2"), "rate is 2"),
        (("word-edits", *CORPUS, "rate"), "is not key=value"),
        (("round-trip", *CORPUS, "back=x"), "there is not given"),
        (("round-trip", *CORPUS, "there.epochs=1", "back=x"), "it must be a run, a model, or {rec"),
    ],
)
def test_a_mistyped_knob(run, tmp_path, arguments, said):
    assert said in refused(run, tmp_path, 2, "augment", *arguments, "--out", "out")


def test_a_round_trip_trains_its_models_first_if_they_are_recipes(run, tmp_path):
    dialogue = ("toy-dialogue", *CORPUS[1:])
    models = [
        *(f"there.{one}" for one in ("recipe=toy-de-en", "corpus.languages=en,de")),
        "back.recipe=toy-de-en",
        *(f"{way}.{one}" for way in ("there", "back") for one in (*CORPUS[1:], *MODEL)),
    ]
    code, out, err = run("augment", "round-trip", *dialogue, *models, "size=2", "--out", "trip")
    assert code == 0, err
    first = err.index("training the model there first, from en to de")
    assert first < err.index("training the model back first, from de to en")
    assert len([*(tmp_path / "runs").glob("toy-de-en-*")]) == 2 and "40 original" in out
    turned = [one.replace("en,de", "de,en") for one in models]
    said = refused(run, tmp_path, 2, "augment", "round-trip", *dialogue, *turned, "--out", "out")
    assert "the model there goes from de to en, and the model back from de to en" in said
    assert len([*(tmp_path / "runs").iterdir()]) == 2, "nothing is trained for nothing"


def test_a_folder_that_holds_no_made_pairs_is_no_neighbours(run, tmp_path):
    assert run("train", *CORPUS, *MODEL, "--run", "run")[0] == 0
    said = refused(run, tmp_path, 2, "neighbours", "run", "run")
    assert "holds no augmented corpus" in said
    assert not (tmp_path / "neighbours").exists()


def test_every_augmenter_is_listed_with_its_knobs(run):
    code, out, _ = run("list", "augmenters")
    assert code == 0
    assert all(name in out for name in augmentation.AUGMENTERS)
    assert "weight of a made pair" in out
