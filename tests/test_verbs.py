"""The command line from training to scores, as its users run it."""

import json
import math
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path

import pytest

import augless as package
from augless import (
    cli,
    corpora,
    data,
    decoding,
    losses,
    metrics,
    models,
    polar,
    recipes,
    runs,
    training,
)
from augless.recipes import following
from support import augless, on_a_terminal

SMALL = (
    "corpus.train=120",
    "corpus.valid=10",
    "corpus.test=10",
    "text.vocabulary.size=200",
    "model.embedding=16",
    "model.hidden=16",
    "training.epochs=1",
)
HUGE = ("model.embedding=65536", "model.hidden=65536", "model.layers=256")
ONE = {"OMP_NUM_THREADS": "1"}


def run(*arguments, cwd, stdin=None, env=None):
    return augless(*arguments, cwd=cwd, stdin=stdin, env={**ONE, **(env or {})})


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a trained run, called run, and test files."""
    folder = tmp_path_factory.mktemp("place")
    done = run("train", "toy-de-en", *SMALL, "--run", "run", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["run"] == "run" and answer["best"]["scores"]["loss"] > 0
    pairs = list(corpora.CORPORA["toy-de-en"](train=20, valid=10, test=10).pairs("test"))
    (folder / "test.de").write_text("".join(f"{p.source}\n" for p in pairs), "utf-8")
    (folder / "test.en").write_text("".join(f"{p.target}\n" for p in pairs), "utf-8")
    return folder


def test_training_again_finds_it_done_and_says_where_values_came_from(place):
    done = run("train", "toy-de-en", *SMALL, "--run", "run", "--verbose", cwd=place)
    assert done.returncode == 0, done.stderr
    assert re.match(r"best model: epoch 1 of 1, loss [\d.]+ nats per token, perp", done.stdout)
    assert done.stdout.strip().endswith("run")
    assert done.stderr.endswith("next: augless generate run input.de\n")
    assert "corpus.train = 120  (command line)" in done.stderr
    assert "terms.0.loss.name = 'cross-entropy'  (default)" in done.stderr
    assert "model.name = 'lstm'  (recipe)" in done.stderr


def test_generating_keeps_every_line_in_its_place(place):
    sources = (place / "test.de").read_text("utf-8").split("\n")[:-1]
    stdin = "\n".join(["", sources[0], "  ", sources[1] + "\u2028" + "x", "", "ŋŋŋ"]) + "\n"
    done = run("generate", "run", cwd=place, stdin=stdin)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.split("\n")
    assert len(lines) == 7 and lines[0] == lines[2] == lines[4] == "" and lines[1]
    alone = run("generate", "run", cwd=place, stdin=sources[0] + "\n")
    assert alone.stdout == lines[1] + "\n"
    assert package.load(place / "run", "cpu").generate([sources[0]]) == [lines[1]]


def test_generating_to_a_file_then_scoring_it(place):
    done = run("generate", "run", "test.de", "-o", "out.en", cwd=place)
    assert done.returncode == 0 and done.stdout == "" and "generating" in done.stderr
    assert (place / "out.en").read_text("utf-8").count("\n") == 10
    assert not list(place.glob(".out*"))
    done = run("score", "out.en", "-r", "test.en", "-m", "bleu", "-m", "chrf", cwd=place)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("nrefs:1") == 2
    assert re.search(r"^system +bleu", done.stdout, re.M)
    assert re.search(r"^system +chrf", done.stdout, re.M)
    hypotheses = (place / "out.en").read_text("utf-8").split("\n")[:-1]
    references = (place / "test.en").read_text("utf-8").split("\n")[:-1]
    done = run("score", "out.en", "-r", "test.en", "--json", cwd=place)
    values = json.loads(done.stdout)["bleu"]["systems"]["out.en"]
    assert values["mean"] == pytest.approx(metrics.score("bleu", hypotheses, references).value)


def test_scores_and_n_best_on_request(place, run):
    arguments = ("generate", "run", "test.de", "search.n_best=3", "search.size=3")
    done = run(*arguments, "--scores", cwd=place)
    lines = done.stdout.split("\n")[:-1]
    assert all(re.match(r"\d+\t-?\d+\.\d{6}\t", line) for line in lines)
    assert [line.split("\t")[0] for line in lines] == [str(i // 3 + 1) for i in range(30)]
    done = run(*arguments, cwd=place)
    assert len(done.stdout.splitlines()) == 10
    assert "the best of 3 answers to each line was written; --scores writes all" in done.stderr
    done = run(*arguments, "--json", cwd=place)
    assert "--scores" not in done.stderr
    answers = [json.loads(line)["hypotheses"] for line in done.stdout.split("\n")[:-1]]
    assert [len(a) for a in answers] == [3] * 10
    ranks = [[(not one["finished"], -one["score"]) for one in answer] for answer in answers]
    assert all(rank == sorted(rank) for rank in ranks)


def test_sampling_is_a_search_like_any_other(place, run):
    arguments = ("generate", "run", "test.de", "search=sampling", "search.seed=3")
    first, second = run(*arguments, cwd=place), run(*arguments, cwd=place)
    assert first.returncode == 0, first.stderr
    assert first.stdout == second.stdout
    assert run(*arguments[:-1], "search.seed=4", cwd=place).stdout != first.stdout


def test_a_search_of_the_runs_own_kind_has_its_own_values(place, run):
    saved = {"search.size": 2, "search.length_penalty": 0.3}
    opened = runs.Run.open(place / "run")
    opened.recipe = opened.recipe | saved
    given = following.generation_of(opened, ["search=beam", "search.size=4"]).search
    assert (given.size, given.length_penalty) == (4, 0.3)
    for changes, kind in (
        (["search=sampling"], decoding.Sampling),
        (["search=greedy", "search=beam"], decoding.Beam),
    ):
        assert following.generation_of(opened, changes).search == kind()


def test_nothing_is_claimed_of_runs_that_do_not_answer(place, run, monkeypatch):
    rate = "training.optimizer.rate=0.3"
    assert run("train", "toy-de-en", *SMALL, rate, "--run", "slow", cwd=place).returncode == 0
    both = ("--run", "a=run,run", "--run", "b=slow,slow", "--source", "test.de", "-r", "test.en")
    done = run("score", *both, "-m", "bits-per-token", cwd=place)
    assert done.returncode == 0, done.stderr
    for one in ("a (run)", "b (slow)"):
        assert f"nothing is claimed: {one}: " in done.stderr
    assert "not claimed" in done.stdout
    monkeypatch.setattr(metrics, "degenerate", lambda *given: None)
    done = run("score", *both, "-m", "bits-per-token", cwd=place)
    assert "not claimed" not in done.stdout, "it is the outputs that claims depend on"


def test_perplexity_comes_from_a_run(place):
    done = run("score", "--run", "run", "--source", "test.de", "-r", "test.en", "--json", cwd=place)
    assert done.returncode == 0, done.stderr
    values = json.loads(done.stdout)
    perplexity = values["perplexity"]["systems"]["run"]["mean"]
    bits = values["bits-per-token"]["systems"]["run"]["mean"]
    assert perplexity == pytest.approx(2**bits) and perplexity > 1


def test_systems_are_compared_over_seeds(place):
    references = (place / "test.en").read_text("utf-8")
    lines = references.split("\n")[:-1]
    for seed in (1, 2):
        worse = [line if i % 3 else "something else" for i, line in enumerate(lines)]
        (place / f"a{seed}").write_text("\n".join(worse) + "\n", "utf-8")
        (place / f"b{seed}").write_text(references, "utf-8")
    done = run("score", "a=a1,a2", "b=b1,b2", "-r", "test.en", "-m", "bleu", cwd=place)
    assert done.returncode == 0, done.stderr
    assert "- a" in done.stdout and "p (Holm)" in done.stdout and "+" in done.stdout
    done = run("score", "a=a1", "-r", "test.en", "--baseline", "c", cwd=place)
    assert (done.returncode, done.stderr) == (3, "augless: --baseline 'c' is none of a\n")


CHECKS = [
    (("generate", "nowhere"), 4, "nowhere does not exist"),
    (("generate", "run", "nowhere.de"), 3, "nowhere.de"),
    (("generate", "run", "test.de", "training.batch=3"), 2, "can only change search"),
    (("generate", "run", "test.de", "search.sise=3"), 2, "did you mean 'size'"),
    (("generate", "run", "test.de", "search.size=0"), 2, "size"),
    (("generate", "run", "test.de", "-o", "no/such/folder/out"), 5, "there is no folder"),
    (("score", "short.en", "-r", "test.en"), 3, "9"),
    (("score", "long.en", "-r", "test.en"), 3, "11"),
    (("score", "test.en", "-r", "test.en", "-m", "blue"), 2, "did you mean 'bleu'"),
    (("score", "a=test.en", "a=test.en", "-r", "test.en"), 2, "a is given twice"),
    (("train", "toy-de-en", "training.metric=blue"), 2, "did you mean 'bleu'"),
    (("train", "toy-de-en", "seed=true"), 2, "must be a whole number"),
    (("train", "toy-de-en", "training.precision=bfloat16"), 2, "precision"),
    (("train", "toy-de-en", "training.start=nowhere"), 4, "nowhere does not exist"),
    (("prepare", "toy-de-en", "modle=lstm"), 2, "did you mean 'model'"),
    (("generate", "run", "test.de", "-o", "."), 5, "is a directory"),
    (("score", "test.en"), 2, "--references"),
    (("score", "-r", "test.en"), 2, "give hypotheses or --run"),
    (("score", "--run", "a=x", "b=y", "-r", "test.en"), 2, "each has its own: --run a=x --run b=y"),
    (("score", "--run", "run", "-r", "test.en"), 2, "--source"),
    (("train", "toy-de-eng"), 2, "did you mean 'toy-de-en'"),
    (("train", "toy-de-en", "modle=lstm"), 2, "did you mean 'model'"),
    (("train", "toy-de-en", "model=lstn"), 2, "did you mean 'lstm'"),
    (("train", "toy-de-en", "training.batch=many"), 2, "training.batch is 'many'"),
    (("train", "toy-de-en", "training.batch=0"), 2, "batch is 0"),
    (("train", "toy-de-en", "terms.0.weighting.radius=3"), 2, "terms.0.weighting"),
    (("train", "toy-de-en", "terms.2.scale=3"), 2, "'2' is not a place in a list of 1"),
    (("train", "toy-de-en", *SMALL, "seed=2", "--run", "run"), 4, "seed was 1 and is now 2"),
    (("train", "toy-de-en", *SMALL, "corpus.seed=2", "--run", "run"), 4, "corpus was"),
    (("list", "modles"), 2, "there is no kind or choice 'modles'"),
    (("train", "toy-de-en", "--device", "tpu"), 2, "tpu"),
    (("frobnicate",), 2, "No such command"),
    (("train", "toy-de-en", "--threads", "100000000"), 2, "--threads"),
    (("train", "toy-de-en", "--workers", "100000000"), 2, "--workers"),
    (("train", "toy-de-en", "--max-minutes", "nan"), 2, "--max-minutes"),
    (("train", "toy-de-en", *SMALL, "--run", "loop"), 5, "loop"),
    (("generate", "loop"), 4, "loop"),
    (("generate", "run", "test.de", "-o", "loop"), 5, "loop"),
    (("train", "toy-de-en", *SMALL, *HUGE), 2, "GB of memory"),
]


@pytest.fixture
def inside(place, monkeypatch, capsys):
    """Run the command line in this process, where torch is loaded already."""
    monkeypatch.chdir(place)
    monkeypatch.setenv("COLUMNS", "80")
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["augless", *arguments])
        with pytest.raises(SystemExit) as end:
            cli.main()
        return end.value.code, capsys.readouterr().err

    yield call
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.fixture(name="run")
def run_here(monkeypatch, capsys):
    """Do as `run` does, in this process, which has loaded torch already."""
    monkeypatch.setenv("COLUMNS", "80")
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def call(*arguments, cwd):
        monkeypatch.chdir(cwd)
        monkeypatch.setattr(sys, "argv", ["augless", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            cli.main()
        return subprocess.CompletedProcess(arguments, end.value.code or 0, *capsys.readouterr())

    yield call
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(("arguments", "code", "message"), CHECKS)
def test_a_mistake_is_a_few_lines_and_an_exit_code(place, inside, arguments, code, message):
    lines = (place / "test.en").read_text("utf-8").split("\n")[:-1]
    (place / "short.en").write_text("\n".join(lines[:9]) + "\n", "utf-8")
    (place / "long.en").write_text("\n".join([*lines, "more"]) + "\n", "utf-8")
    (place / "loop").unlink(missing_ok=True)
    (place / "loop").symlink_to("loop")
    ended, printed = inside(*arguments)
    assert ended == code, printed
    error = printed[printed.rindex("augless: ") if "augless: " in printed else 0 :]
    assert message in error and error.count("\n") <= (4 if "Usage" in error else 3)


def test_a_run_that_is_not_ours_is_refused_and_nothing_of_it_executed(place, tmp_path):
    import pickle

    class Evil:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "executed",))

    bad = tmp_path / "bad"
    shutil.copytree(place / "run", bad)
    model = next(bad.glob("best-*")) / "model.safetensors"
    model.write_bytes(pickle.dumps(Evil()))
    done = run("generate", "bad", cwd=tmp_path, stdin="x\n")
    assert done.returncode == 4 and done.stderr.count("\n") <= 3
    header = json.loads((bad / "run.json").read_text("utf-8"))
    text = json.dumps(header).replace('"lstm"', '"os.system"')
    (bad / "run.json").write_text(text, "utf-8")
    done = run("generate", "bad", cwd=tmp_path, stdin="x\n")
    assert done.returncode == 4 and "Traceback" not in done.stderr
    (bad / "run.json").write_bytes(pickle.dumps(Evil()))
    done = run("generate", "bad", cwd=tmp_path, stdin="x\n")
    assert done.returncode == 4 and "Traceback" not in done.stderr
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize("verb", ["generate run", "score - -r test.en"])
def test_closed_standard_input_is_said(place, verb):
    command = f"{sys.executable} -m augless {verb} <&-"
    done = subprocess.run(command, shell=True, cwd=place, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (5, "")
    assert done.stderr == "augless: standard input is closed; name a file\n"


def test_a_run_from_another_version_is_refused(place, tmp_path):
    shutil.copytree(place / "run", tmp_path / "old")
    path = tmp_path / "old" / "run.json"
    path.write_text(path.read_text("utf-8").replace(runs.FORMAT, "augless run 99"), "utf-8")
    done = run("generate", "old", cwd=tmp_path, stdin="x\n")
    assert done.returncode == 4 and "augless run 99" in done.stderr


def test_a_busy_run_is_exit_6(place):
    with runs.Run.open(place / "run").lock():
        done = run("train", "toy-de-en", *SMALL, "--run", "run", cwd=place)
    assert done.returncode == 6 and "is in use by process" in done.stderr


def test_a_loss_that_is_not_finite_is_exit_7(tmp_path):
    rate = ("training.optimizer=sgd", "training.optimizer.rate=1e38", "training.clip=0")
    done = run("train", "toy-de-en", *SMALL, *rate, "--run", "run", cwd=tmp_path)
    assert done.returncode == 7, done.stderr
    assert "not finite" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_saves_and_exits_75_and_the_same_command_goes_on(tmp_path, number):
    arguments = ["train", "toy-de-en", *SMALL, "training.epochs=3000", "training.log_every=1"]
    command = [sys.executable, "-m", "augless", *arguments, "--run", "run"]
    child = subprocess.Popen(
        command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, env={**os.environ, **ONE}
    )
    for line in child.stderr:
        if "step 3:" in line:
            child.send_signal(number)
            break
    rest = child.stderr.read()
    child.stderr.close()
    assert child.wait() == 75, rest
    assert "saving after this step" in rest and "run the same command to resume" in rest
    assert runs.Run.open(tmp_path / "run").last().step >= 3
    done = run(*arguments, "--run", "run", "--max-minutes", "0", cwd=tmp_path)
    assert done.returncode == 75 and "stopped (0 minutes)" in done.stderr


def test_a_full_disk_is_exit_5_and_leaves_the_file_there_was(place):
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "augless", "generate", "run", "test.de"],
            cwd=place,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **ONE},
        )
    assert done.returncode == 5, done.stderr
    assert "No space left" in done.stderr and "Traceback" not in done.stderr


def test_a_reader_that_goes_away_is_no_error(place):
    command = f"{sys.executable} -m augless generate run test.de | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=place,
        capture_output=True,
        text=True,
        env={**os.environ, **ONE},
    )
    assert done.returncode in (0, 141), done.stderr
    assert "Traceback" not in done.stderr and "BrokenPipe" not in done.stderr


def test_a_bug_of_ours_is_exit_1_and_says_where():
    script = "from augless import cli; cli.app = lambda: 1 / 0; cli.main()"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 1 and "ZeroDivisionError" in done.stderr


def test_list_shows_every_table_with_every_knob(tmp_path):
    done = run("list", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    tables = (
        corpora.CORPORA,
        models.MODELS,
        losses.LOSSES,
        polar.WEIGHTINGS,
        training.OPTIMIZERS,
        decoding.SEARCHES,
        metrics.METRICS,
    )
    for name in [*recipes.shipped(), *(name for table in tables for name in table)]:
        assert re.search(rf"^  {re.escape(name)}(:|$)", done.stdout, re.M), name
    assert re.search(r"radius += 1\.0 +how far neighbours lie", done.stdout)
    assert "  table2: Table 2: dialogue\n" in done.stdout
    assert "  files: Your own files: corpus.path=FOLDER" in done.stdout
    answer = json.loads(run("list", "weightings", "--json", cwd=tmp_path).stdout)
    knob = answer["weightings"]["exponential"]["knobs"]["strength"]
    meaning = "total weight of the neighbours; a number, from 0 to 1,000,000"
    assert knob == {"default": "1.0", "meaning": meaning}


def test_doctor_says_what_is_here(tmp_path):
    done = run("doctor", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    free = shutil.disk_usage(tmp_path).free > 2e9  # else that is what is wrong
    for word in ("torch", "devices", "threads", "disk", "extra zstd", *["nothing is wrong"] * free):
        assert word in done.stdout
    facts = json.loads(run("doctor", "--json", cwd=tmp_path).stdout)["facts"]
    assert facts["devices"].startswith("cpu")


def test_the_version_is_that_of_the_package(tmp_path):
    assert run("--version", cwd=tmp_path).stdout == f"augless {metadata.version('augless')}\n"


VERBS = ["prepare", "train", "generate", "score", "trial", "report", "list", "doctor"]


@pytest.mark.parametrize("verb", VERBS)
def test_help_starts_with_an_example_and_loads_no_torch(verb):
    script = (
        "import sys; from augless import cli\n"
        f"sys.argv = ['augless', {verb!r}, '--help']\n"
        "try: cli.main()\n"
        "except SystemExit as end: assert not end.code\n"
        "assert 'torch' not in sys.modules and 'numpy' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    usage, example = done.stdout.index("Usage:"), done.stdout.index(f"augless {verb}")
    assert usage < example < done.stdout.index("Options:")


@pytest.mark.parametrize(
    ("shell", "word"),
    [("bash", "complete -o"), ("zsh", "compdef"), ("fish", "complete --command")],
)
def test_there_is_completion_for(shell, word):
    script = "import sys; from augless.cli import main; sys.argv = ['augless']; main()"
    env = {**os.environ, "_AUGLESS_COMPLETE": f"source_{shell}"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=env)
    assert word in done.stdout and "augless" in done.stdout


def test_training_on_a_terminal_has_a_bar_with_the_time_left(tmp_path):
    arguments = ("train", "toy-de-en", *SMALL, "training.epochs=4", "--run", "run")
    shown = on_a_terminal(*arguments, cwd=tmp_path, env={**ONE, "NO_COLOR": "1"})
    assert re.search(r"training .*\d+%.*\d:\d\d:\d\d", shown), shown
    assert "validation: loss" in shown  # the lines of records stand above the bar


def test_a_terminal_gets_an_answer_to_each_line(place):
    parent, child = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "augless", "generate", "run"],
        cwd=place,
        stdin=child,
        stdout=subprocess.PIPE,
        env={**os.environ, **ONE},
    )
    os.write(parent, b"das Haus\n")
    assert process.stdout.readline().endswith(b"\n")  # before the input ends
    os.write(parent, b"\x04")
    assert process.wait(60) == 0
    process.stdout.close()
    os.close(parent)
    os.close(child)


def test_perplexities_over_other_vocabularies_are_not_compared(place, run):
    changed = [one.replace("size=200", "size=150") for one in SMALL]
    assert run("train", "toy-de-en", *changed, "--run", "other", cwd=place).returncode == 0
    arguments = ("--run", "a=run", "--run", "b=other", "--source", "test.de", "-r", "test.en")
    done = run("score", *arguments, cwd=place)
    assert done.returncode == 3 and "does not compare with" in done.stderr, done.stdout


def test_standard_input_can_be_scored_by_several_metrics(place):
    stdin = (place / "test.en").read_text("utf-8")
    done = run("score", "-", "-r", "test.en", cwd=place, stdin=stdin)
    assert done.returncode == 0 and done.stdout.count("100.00") >= 2, done.stderr
    done = run("score", "test.en", "-m", "distinct-1", cwd=place)
    assert done.returncode == 0 and re.search(r"0\.\d{4}", done.stdout), done.stderr


def test_output_goes_into_a_pipe_and_through_a_link(place, tmp_path):
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    assert run("generate", "run", "test.de", "-o", tmp_path / "link", cwd=place).returncode == 0
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text("utf-8").count("\n") == 10
    os.mkfifo(tmp_path / "pipe")
    pipe = tmp_path / "pipe"
    writing = f"{sys.executable} -m augless generate run test.de -o {pipe}"
    command = f"{writing} & cat {pipe}; wait"
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=place,
        capture_output=True,
        text=True,
        env={**os.environ, **ONE},
    )
    assert done.stdout.count("\n") == 10 and (tmp_path / "pipe").is_fifo()


def test_weights_of_pairs_come_from_a_column(tmp_path, run):
    for split, n in (("train", 60), ("valid", 8)):
        rows = [f"ein Haus {i}\ta house {i}\t{i % 3}\n" for i in range(n)]
        (tmp_path / f"{split}.tsv").write_text("".join(rows), "utf-8")
    recipe = ("files", "corpus.path=.", "corpus.languages=de,en", "corpus.weight=3")
    small = ("text.vocabulary.size=60", "model.embedding=16", "model.hidden=16")
    done = run("train", *recipe, *small, "training.epochs=1", "--run", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    folder = next((tmp_path / "data").glob("files-*"))
    weights = data.Prepared.open(folder).pairs("train").weight
    assert weights.tolist() == [i % 3 for i in range(60)]
    (tmp_path / "train.tsv").write_text("ein Haus\ta house\tmuch\n", "utf-8")
    done = run("prepare", *recipe, cwd=tmp_path)
    assert done.returncode == 3 and "train.tsv, line 1: the weight '3' is 'much'" in done.stderr


def test_one_run_starts_from_another(place, run):
    wd = ("terms.0.loss=wasserstein", "training.start=run")
    done = run("train", "toy-de-en", *SMALL, *wd, "--run", "wd", cwd=place)
    assert done.returncode == 0, done.stderr
    # It begins where the other ended: far below the loss of a new model, with or without steps.
    still = ("training.optimizer=sgd", "training.optimizer.rate=0")
    done = run("train", "toy-de-en", *SMALL, *wd, *still, "--run", "still", "--json", cwd=place)
    before = runs.Run.open(place / "run").result["best"]["scores"]["loss"]
    assert json.loads(done.stdout)["best"]["scores"]["loss"] == pytest.approx(before)
    # One that never finished, as where its loss left the numbers, has a best model too.
    shutil.copytree(place / "run", place / "half")
    (place / "half" / "result.json").unlink()
    more = ("training.start=half", *still)
    done = run("train", "toy-de-en", *SMALL, *more, "--run", "more", "--json", cwd=place)
    assert json.loads(done.stdout)["best"]["scores"]["loss"] == pytest.approx(before)
    other = [one.replace("train=120", "train=119") for one in SMALL]
    done = run("train", "toy-de-en", *other, *wd, "--run", "new", cwd=place)
    assert done.returncode == 2 and "text.codec=run" in done.stderr
    assert not (place / "new").exists()
    done = run("train", "toy-de-en", *other, *wd, "text.codec=run", "--run", "new", cwd=place)
    assert done.returncode == 0, done.stderr
    assert "text.vocabulary.size: without effect, as text.codec=run has its own" in done.stderr


def test_a_model_is_chosen_by_any_metric_of_its_loss(tmp_path, run):
    bits = "training.metric=bits-per-token"
    done = run("train", "toy-de-en", *SMALL, bits, "--run", "run", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    scores = json.loads(done.stdout)["best"]["scores"]
    assert list(scores) == ["loss", "perplexity", "bits-per-token"]
    assert scores["bits-per-token"] == pytest.approx(scores["loss"] / math.log(2))


def test_a_split_that_is_watched_is_scored_at_every_validation(tmp_path, run):
    done = run("train", "toy-de-en", *SMALL, "training.watch=test", "--run", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "; test: loss " in done.stderr
    logged = runs.Run.open(tmp_path / "run").metrics()[-1]
    assert [*logged.scores] == [*logged.watched["test"]] == ["loss", "perplexity"]
    assert logged.scores != logged.watched["test"]
    bleu = ("training.metric=bleu", "training.watch=test")
    done = run("train", "toy-de-en", *SMALL, *bleu, "--run", "bleu", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    logged = runs.Run.open(tmp_path / "bleu").metrics()[-1]
    assert [*logged.scores] == [*logged.watched["test"]] == ["loss", "perplexity", "bleu"]
    done = run("train", "toy-de-en", *SMALL, "training.watch=tset", cwd=tmp_path)
    assert done.returncode == 2 and "it can be test" in done.stderr


def test_tensorboard_is_written_only_when_asked_for(tmp_path):
    done = run("train", "toy-de-en", *SMALL, "--run", "run", "--tensorboard", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert list((tmp_path / "run" / "tensorboard").glob("events*"))


def test_minutes_are_respected_roughly(tmp_path):
    began = time.monotonic()
    done = run(
        "train", "toy-de-en", *SMALL, "training.epochs=10000", "--max-minutes", "0.05", cwd=tmp_path
    )
    assert done.returncode == 75 and time.monotonic() - began < 600


PLAN = """
title = "Tiny <b>trial</b>"
recipes = ["toy-de-en"]
seeds = [1]
metric = "bleu"
[overrides]
corpus = {name = "toy-de-en", train = 80, valid = 8, test = 8}
text.vocabulary = {name = "subwords", size = 150}
model = {name = "lstm", embedding = 16, hidden = 16}
training.epochs = 2
[methods.plain]
[methods.exponential]
terms.0.weighting = "exponential"
"""


def test_a_trial_is_listed_run_gone_on_with_and_reported(tmp_path, run):
    (tmp_path / "tiny.toml").write_text(PLAN, "utf-8")
    done = run("trial", "tiny.toml", "--dry-run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "measured: plain on toy-de-en" in done.stdout and "2 runs" in done.stdout
    assert re.search(r"\d\.\d s to start and save", done.stdout), done.stdout
    assert [path.name for path in (tmp_path / "trials" / "tiny").iterdir()] == ["prepared"]
    done = run("report", "tiny.toml", cwd=tmp_path)
    assert done.returncode == 2 and "start augless trial" in done.stderr
    done = run("trial", "tiny.toml", "--max-minutes", "0", cwd=tmp_path)
    assert done.returncode == 75 and "run the same command to resume" in done.stderr, done.stderr
    assert "0 of 2 runs done" in done.stderr and "with 2 of 2 runs to go" in done.stderr
    done = run("trial", "tiny.toml", "--jobs", "2", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "comparing" in done.stderr and "loss" in done.stderr.split("best so far")[-1]
    page = tmp_path / done.stdout.strip().split("\n")[-1]
    assert "Tiny &lt;b&gt;trial" in page.read_text("utf-8")
    assert "exponential" in done.stdout and "plain" in done.stdout
    again = run("trial", "tiny.toml", "--jobs", "2", cwd=tmp_path)
    assert again.stdout == done.stdout
    reported = run("report", "tiny.toml", cwd=tmp_path)
    assert reported.stdout == done.stdout
    answer = json.loads(run("report", "trials/tiny", "--json", cwd=tmp_path).stdout)
    assert answer["sentence"] == done.stdout.split("\n")[1]
    assert answer["corpora"]["toy-de-en"]["plain"]["mean"] >= 0
    assert {one["method"] for one in answer["runs"]} == {"plain", "exponential"}
    shutil.rmtree(page.parent)  # a trial's folder from elsewhere must not lead out of itself
    (tmp_path / "victim").mkdir()
    page.parent.symlink_to(tmp_path / "victim")
    linked = run("report", "trials/tiny", cwd=tmp_path)
    assert linked.returncode == 5 and "is a link" in linked.stderr
    assert not any((tmp_path / "victim").iterdir())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("trial",), "give a plan"),
        (("trial", "dmo"), "did you mean 'demo'"),
        (("trial", "demo", "--train", "a", "b"), "not both"),
        (("trial", "--train", "a", "b"), "--valid"),
    ],
)
def test_a_plan_that_cannot_be_followed_is_refused(inside, arguments, message):
    code, printed = inside(*arguments)
    assert code == 2 and message in printed and printed.count("\n") <= 3


def test_list_finds_a_choice_by_its_name(tmp_path):
    done = run("list", "linear", cwd=tmp_path)
    assert done.returncode == 0 and done.stdout.startswith("weightings:\n  linear:")
    done = run("list", "exponental", cwd=tmp_path)
    assert done.returncode == 2 and "did you mean 'exponential'" in done.stderr
    assert "= cross-entropy " in run("list", "terms", cwd=tmp_path).stdout


def test_only_what_is_set_is_printed_unless_asked_for_all(tmp_path):
    few = run("prepare", "toy-de-en", *SMALL[:3], cwd=tmp_path).stderr
    every = run("prepare", "toy-de-en", *SMALL[:3], "--verbose", cwd=tmp_path).stderr
    assert "(default)" not in few and "defaults, which --verbose shows" in few
    assert "(default)" in every and "--verbose" not in every


def test_early_stopping_says_so(tmp_path):
    stuck = ("training.optimizer.rate=0", "training.epochs=5", "training.patience=2")
    done = run("train", "toy-de-en", *SMALL, *stuck, "--run", "run", cwd=tmp_path)
    assert "best model: epoch 1 of 3" in done.stdout
    assert "early stopping: no better loss on the validation set in 2 epochs" in done.stdout


def test_several_processes_are_refused_until_they_can_share_a_run(tmp_path):
    for verb in (("train", "toy-de-en", *SMALL), ("trial", "demo"), ("generate", "run")):
        done = run(*verb, cwd=tmp_path, env={"WORLD_SIZE": "2"})
        assert done.returncode == 2 and "torchrun" in done.stderr
    assert not [*tmp_path.iterdir()]


def test_a_finished_run_that_is_to_be_extended_points_to_a_warm_start(place):
    done = run("train", "toy-de-en", *SMALL, "training.epochs=9", "--run", "run", cwd=place)
    assert done.returncode == 4 and "training.start=run" in done.stderr


@pytest.mark.parametrize(
    "name", ["a\\u0000b", "../victim", "/victim", "..", "\\u001b[31m", "a" * 300]
)
def test_a_plan_cannot_name_a_folder_elsewhere(inside, place, name):
    content = f'title = "t"\nname = "{name}"\nrecipes = ["toy-de-en"]\nseeds = [1]\n'
    (place / "named.toml").write_text(content + "[methods.plain]\n")
    code, printed = inside("trial", "named.toml", "--dry-run")
    why = "without NUL" if "0000" in name else "it names a folder"
    assert code == 2 and why in printed and printed.count("\n") <= 3


@pytest.mark.parametrize("option", ["--threads", "--jobs"])
def test_a_trial_has_a_limit_of_threads_and_jobs(inside, option):
    code, printed = inside("trial", "demo", option, "100000000", "--dry-run")
    assert code == 2 and "1024" in printed
