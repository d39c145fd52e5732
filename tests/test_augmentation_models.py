"""Augmenters with models: what these predict and translate, and which are refused."""

import dataclasses
import itertools
import json
import re
import socket
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st

import augless
import tiny
from augless import augmentation, corpora, decoding, runs
from augless.augmentation import (
    AUGMENTERS,
    BadAugmentation,
    Reversed,
    augment,
    draws,
    generating,
    masked,
    pretrained,
    small,
)
from augless.augmentation.augmenter import Context, Line, words
from support import Listed, trained

TOY = corpora.CORPORA["toy-de-en"](train=60, valid=6, test=6)
NASTY = [
    "Der Hund [MASK] liest [UNK] ein [SEP] Buch <mask> und </s> schläft.",
    "  zwei  Leerzeichen\tund ein Tab,\u00a0fest  ",
    "Das ist AUCH ein Haus, e.g. \u201eZitat\u201c - (so) well-known isn't it?",
    "12 345 6,7 ...",
    "\U0001f600 Katze\u200dn 你好 Ωmega na\u0308chste ﬁn",
    "!",
    "Brot",
    "Ein Kind " * 60,
]


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    def refuse(*arguments):
        raise AssertionError(f"a connection was attempted: {arguments}")

    monkeypatch.setattr(socket.socket, "connect", refuse)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def berts(folder):
    return {tokens: tiny.masked(folder / tokens, tokens) for tokens in tiny.TOKENIZERS}


def context(tmp_path, corpus=TOY, **knobs):
    return Context(corpus=corpus, seed=1, work=tmp_path, cache=tmp_path, device="cpu", **knobs)


def rewritten(augmenter, texts, tmp_path, **knobs):
    lines = [Line(text, (1, place, 0)) for place, text in enumerate(texts)]
    ready = augmenter.prepare(context(tmp_path, **knobs), lambda *_: None, lambda: False)
    with ready.open(context(tmp_path, **knobs)) as rewrite:
        return rewrite(lines)


def skeleton(text):
    """Return what stands between the words of a text, and the words."""
    spans = words(text)
    edges = [0, *(edge for span in spans for edge in span), len(text)]
    between = [text[a:b] for a, b in zip(edges[::2], edges[1::2], strict=True)]
    return between, [text[a:b] for a, b in spans]


# Masked language models


@pytest.mark.parametrize("tokens", tiny.TOKENIZERS)
def test_only_words_change_and_no_symbol_of_the_model_appears(tokens, berts, tmp_path):
    lm = AUGMENTERS["masked-lm"](model=str(berts[tokens]), rate=0.3, copies=4)
    for text, copies in zip(NASTY, rewritten(lm, NASTY, tmp_path), strict=True):
        for copy in copies:
            (between, old), (beside, new) = skeleton(text), skeleton(copy)
            assert between == beside and len(old) == len(new)
            for symbol in (*tiny.BERT, *tiny.ROBERTA):
                assert copy.count(symbol) <= text.count(symbol)
            lettered = sum(any(map(str.isalpha, word)) for word in old)
            differ = [(a, b) for a, b in zip(old, new, strict=True) if a != b]
            assert len(differ) <= max(1, round(0.3 * lettered)) * bool(lettered)
            assert all(b.isalpha() and a.casefold() != b.casefold() for a, b in differ)


@pytest.mark.parametrize("tokens", tiny.TOKENIZERS)
def test_at_least_one_word_of_every_sentence_changes(tokens, berts, tmp_path):
    lm = AUGMENTERS["masked-lm"](model=str(berts[tokens]), rate=0.01)
    for text, (copy,) in zip(tiny.LINES[:4], rewritten(lm, tiny.LINES[:4], tmp_path), strict=True):
        assert sum(a != b for a, b in zip(skeleton(text)[1], skeleton(copy)[1], strict=True)) == 1


@pytest.mark.parametrize("top_k", [1, 2, 10, 10_000])
def test_the_size_of_a_batch_changes_no_byte(top_k, berts, tmp_path):
    texts = [pair.source for pair in corpora.CORPORA["toy-de-en"](train=120).pairs("train")]
    texts += tiny.LINES
    lm = AUGMENTERS["masked-lm"](model=str(berts["wordpiece"]), rate=0.4, top_k=top_k)
    one = rewritten(replace(lm, batch=1), texts, tmp_path)
    for batch in (3, 64, 1000):
        assert rewritten(replace(lm, batch=batch), texts, tmp_path) == one


def test_what_is_too_close_to_call_is_predicted_alone(berts, tmp_path, monkeypatch):
    # With noise that depends on the shape of a batch, as of rounding but larger.
    true = small.masked_logits

    def noisy(model, ids, attention, places):
        logits = true(model, ids, attention, places)
        random = np.random.default_rng(ids.numel())
        return logits + torch.from_numpy(random.uniform(-0.02, 0.02, logits.shape)).float()

    monkeypatch.setattr(small, "masked_logits", noisy)
    monkeypatch.setattr(masked, "CLOSE", 0.05)
    texts = [pair.source for pair in corpora.CORPORA["toy-de-en"](train=150).pairs("train")]
    lm = AUGMENTERS["masked-lm"](model=str(berts["wordpiece"]), rate=0.4)
    one = rewritten(replace(lm, batch=1), texts, tmp_path)
    assert rewritten(replace(lm, batch=50), texts, tmp_path) == one
    monkeypatch.setattr(masked, "CLOSE", 0.0)  # the test can fail
    assert rewritten(replace(lm, batch=50), texts, tmp_path) != one


def test_words_are_drawn_as_often_as_the_model_says(berts, tmp_path):
    lm = AUGMENTERS["masked-lm"](model=str(berts["wordpiece"]), top_k=3, copies=1000)
    text = "liest Buch"
    (copies,) = rewritten(lm, [text], tmp_path)
    predictor = masked.Predictor(berts["wordpiece"], "cpu")
    (read,) = predictor.read([text])
    for word in read.words:
        ((ids, inside),) = predictor.masked(read, [word])
        task = masked.Task(0, 0, (1,), ids, inside, text)
        values, columns = predictor.best([task], 3)
        p = np.exp(values[0, :3]) / np.exp(values[0, :3]).sum()
        heads = skeleton(text)[1]
        place = heads.index(text[word.start : word.end])
        drawn = [skeleton(copy)[1][place] for copy in copies]
        changed = [one for one in drawn if one != heads[place]]
        for column, share in zip(columns[0, :3], p, strict=True):
            seen = changed.count(predictor.spellings[column]) / len(changed)
            assert abs(seen - share) < 4.5 * np.sqrt(share * (1 - share) / len(changed))
        assert {*changed} <= {predictor.spellings[column] for column in columns[0, :3]}


def test_the_most_probable_word_is_taken_if_asked(berts, tmp_path):
    lm = AUGMENTERS["masked-lm"](model=str(berts["wordpiece"]), top_k=1, copies=2, rate=1.0)
    for one, two in rewritten(lm, tiny.LINES[:4], tmp_path):
        assert one == two


def test_a_model_of_small_letters_writes_as_the_word_was_written(tmp_path):
    bert = tiny.masked(tmp_path / "uncased", lowercase=True)
    lm = AUGMENTERS["masked-lm"](model=str(bert), rate=1.0, copies=5)
    for copy in rewritten(lm, ["Der alte HUND"], tmp_path)[0]:
        first, second, third = copy.split(" ")
        assert first[0].isupper() and second.islower() and third.isupper()


def test_a_word_without_its_accents_is_no_other_word(tmp_path):
    bert = tiny.masked(tmp_path / "uncased", lowercase=True)
    predictor = masked.Predictor(bert, "cpu")
    told = [word for word in predictor.spellings if set(word) & set("aou")]
    with_accents = [word.translate(str.maketrans("aou", "äöü")) for word in told]
    lm = AUGMENTERS["masked-lm"](model=str(bert), rate=1.0, top_k=10_000, copies=60)
    for plain, text in zip(told[:8], with_accents[:8], strict=True):
        ((*copies,),) = rewritten(lm, [text], tmp_path)
        assert len({*copies}) > 5 and plain not in copies


def test_a_text_longer_than_the_model_reads_is_rewritten_in_parts(berts, tmp_path):
    text = "Der alte Mann liest ein Buch. " * 50
    lm = AUGMENTERS["masked-lm"](model=str(berts["wordpiece"]), rate=0.5)
    ((copy,),) = rewritten(lm, [text], tmp_path)
    (between, old), (beside, new) = skeleton(text), skeleton(copy)
    assert between == beside and sum(a != b for a, b in zip(old, new, strict=True)) == 150


@given(st.lists(st.floats(-5, 5), min_size=2, max_size=12), st.integers(1, 6), st.integers())
def test_a_clear_choice_survives_any_rounding(logits, count, key):
    logits = np.sort(np.array(logits))[::-1]
    count = min(count, len(logits))
    noise = draws.gumbels((key,), np.arange(len(logits)))
    if not masked.surely_best(logits[None], (logits + noise)[None], count)[0]:
        return
    random = np.random.default_rng(abs(key))
    best = int((logits + noise)[:count].argmax())
    for _ in range(5):
        shaken = logits + random.uniform(-0.4, 0.4, len(logits)) * masked.CLOSE
        order = np.argsort(-shaken, kind="stable")[:count]
        assert int(order[(shaken + noise)[order].argmax()]) == best


# The small model of the corpus

TINY = small.Small(pieces=400, size=32, layers=1, steps=30)


def test_a_model_trained_on_the_corpus_learns_and_serves_both_sides(tmp_path):
    train = tuple((f"das {a} ist neu", f"the {b} is new") for a, b in [("Haus", "house")] * 40)
    corpus = Listed(train=(*train, ("das Boot ist alt", "the boat is old")) * 2)
    lm = AUGMENTERS["masked-lm"](side="both", top_k=1, small=replace(TINY, steps=120, rate=5e-3))
    augmented = augment(lm, corpus, tmp_path / "out")
    report = augmented.manifest.small_model
    assert report.last_accuracy > 0.5 and report.steps == 120
    pairs = list(corpus.pairs("train"))
    made = [row for row in augmented.rows() if "of" in row]
    for row in made:
        assert row["de"] != pairs[row["of"]].source and row["en"] != pairs[row["of"]].target
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_the_training_of_the_small_model_resumes_to_the_same_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr(small, "SAVE_EVERY", 5)
    lm = AUGMENTERS["masked-lm"](small=TINY)
    whole = augment(lm, TOY, tmp_path / "whole" / "out")
    steps = []

    def note(stage, done, total):
        if stage.startswith("training"):
            steps.append(done)

    calls = iter(range(12))
    halves = tmp_path / "halves" / "out"
    assert augment(lm, TOY, halves, stop=lambda: next(calls, None) is None, progress=note) is None
    augmented = augment(lm, TOY, halves, progress=note)
    assert steps == list(range(1, 31))  # nothing twice
    assert (augmented.folder / "train.jsonl").read_bytes() == (
        whole.folder / "train.jsonl"
    ).read_bytes()


def test_a_corpus_without_words_cannot_train_a_model(tmp_path):
    corpus = Listed(train=(("1 2", "3"), ("?", "!")))
    with pytest.raises(BadAugmentation, match="no word occurs often enough"):
        augment(AUGMENTERS["masked-lm"](small=TINY), corpus, tmp_path / "out")
    assert not (tmp_path / "out").exists()


# Models that are refused, and where they are looked for


def test_a_name_is_found_in_the_cache_without_the_network(berts, tmp_path, monkeypatch):
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    tiny.cached(berts["wordpiece"], "somebody/bert", tmp_path)
    place = pretrained.find("somebody/bert", download=False)
    assert pretrained.digest(place) == pretrained.digest(berts["wordpiece"])
    with pytest.raises(BadAugmentation, match=r"fetch it with .* --download"):
        pretrained.find("somebody/else", download=False)


@pytest.mark.parametrize("name", ["./nowhere", "/nowhere/at/all", "a/b/c", "", "~/x y"])
def test_a_folder_that_is_not_there_is_refused(name):
    with pytest.raises(BadAugmentation, match="no folder"):
        pretrained.find(name, download=False)


def test_a_model_without_a_mask_is_refused(tmp_path):
    place = tiny.maskless(tmp_path / "bare")
    with pytest.raises(BadAugmentation, match="no mask token"):
        augment(AUGMENTERS["masked-lm"](model=str(place)), TOY, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["bare"]


def test_another_kind_of_model_is_refused_by_its_kind(chat, tmp_path):
    with pytest.raises(BadAugmentation, match=r"than is needed here: a masked language model$"):
        augment(AUGMENTERS["masked-lm"](model=str(chat)), TOY, tmp_path / "out")
    assert not any(tmp_path.iterdir())


def test_a_model_whose_head_was_never_trained_is_refused(berts, tmp_path):
    with pretrained.quiet():
        bert = transformers.BertForMaskedLM.from_pretrained(berts["wordpiece"])
    tokenizer, specials = tiny.wordpiece()
    place = tiny.saved(tmp_path / "headless", bert.bert, tokenizer, **specials)
    with pytest.raises(BadAugmentation, match=r"no weights for cls.*\n.*masked language model"):
        augment(AUGMENTERS["masked-lm"](model=str(place)), TOY, tmp_path / "out")


def test_pickled_weights_are_not_read(berts, tmp_path):
    place = tmp_path / "pickled"
    place.mkdir()
    for path in berts["wordpiece"].iterdir():
        if path.suffix == ".json":
            (place / path.name).write_bytes(path.read_bytes())

    class Exploit:
        def __reduce__(self):
            return (open, (str(tmp_path / "owned"), "w"))

    torch.save({"x": Exploit()}, place / "pytorch_model.bin")
    with pytest.raises(BadAugmentation, match="cannot be used"):
        augment(AUGMENTERS["masked-lm"](model=str(place)), TOY, tmp_path / "out")
    assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"model_type": "nonsense"}', '{"auto_map": {"AutoConfig": "x.y"}}']
)
def test_a_foreign_folder_is_refused_in_a_few_lines(content, tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text(content)
    for augmenter in (
        AUGMENTERS["masked-lm"](model=str(tmp_path / "model")),
        AUGMENTERS["paraphrase"](model=str(tmp_path / "model")),
    ):
        with pytest.raises(BadAugmentation) as caught:
            augment(augmenter, TOY, tmp_path / "out")
        assert str(caught.value).count("\n") < 3


def test_without_transformers_the_extra_is_named(tmp_path):
    code = (
        "import sys; sys.modules['transformers'] = sys.modules['huggingface_hub'] = None\n"
        "from augless import augmentation, corpora\n"
        "augmenter = augmentation.AUGMENTERS['masked-lm']()\n"
        "corpus = corpora.CORPORA['toy-de-en'](train=20)\n"
        "try: augmentation.augment(augmenter, corpus, sys.argv[1])\n"
        "except augmentation.BadAugmentation as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "out")], capture_output=True, text=True
    )
    assert "pip install 'augless[augment]'" in done.stdout, done.stderr


def test_importing_augmentation_loads_neither_torch_nor_transformers():
    code = (
        "import sys; from augless import augmentation\n"
        "print({*sys.modules} & {'torch', 'transformers', 'huggingface_hub'})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "set()", done.stderr


# Translation and paraphrase


@pytest.fixture(scope="module")
def reverse(folder):
    return trained(folder / "reverse", Reversed.of(TOY))


@pytest.fixture(scope="module")
def translation(folder):
    return tiny.text_to_text(folder / "translation")


@pytest.fixture(scope="module")
def chat(folder):
    return tiny.chat(folder / "chat")


def test_back_translation_gives_what_generate_writes(reverse, tmp_path):
    augmented = augment(
        AUGMENTERS["back-translation"](run=reverse), TOY, tmp_path / "out", writer=augless.load
    )
    pairs = list(TOY.pairs("train"))
    written = list(augless.load(reverse).texts([pair.target for pair in pairs]))
    expected = {
        place: texts[0].text
        for place, texts in enumerate(written)
        if texts[0].hypothesis.finished and texts[0].text
    }
    assert {row["of"]: row["de"] for row in augmented.rows() if "of" in row} == expected


def test_monolingual_targets_become_pairs_too(reverse, tmp_path):
    (tmp_path / "mono.en").write_text("The man sees a house.\n\nThe dog sleeps.\n")
    augmenter = AUGMENTERS["back-translation"](run=reverse, mono=tmp_path / "mono.en", w=0.5)
    augmented = augment(augmenter, TOY, tmp_path / "out", writer=augless.load)
    lone = [row for row in augmented.rows() if "of" in row and row["of"] is None]
    counts = augmented.manifest.pairs
    assert counts.made + counts.left_out == 62
    assert {row["en"] for row in lone} <= {"The man sees a house.", "The dog sleeps."} and lone
    assert all(row["weight"] == 0.5 for row in lone)
    with pytest.raises(corpora.BadData, match="no such file"):
        augment(replace(augmenter, mono=tmp_path / "x"), TOY, tmp_path / "b", writer=augless.load)


def test_a_run_of_the_wrong_direction_is_refused(reverse, tmp_path):
    augmenter = AUGMENTERS["back-translation"](run=reverse)
    with pytest.raises(BadAugmentation, match="goes from en to de; from de to en is needed"):
        augment(augmenter, Reversed.of(TOY), tmp_path / "out", writer=augless.load)
    trip = AUGMENTERS["round-trip"](there=str(reverse), back=str(reverse), side="source")
    with pytest.raises(BadAugmentation, match="reads en, and the corpus has de"):
        augment(trip, TOY, tmp_path / "out", writer=augless.load)
    both = AUGMENTERS["round-trip"](there=str(reverse), back=str(reverse))
    dialogue = corpora.CORPORA["toy-dialogue"](train=10, valid=2, test=2)
    with pytest.raises(BadAugmentation, match=r"goes from en to de, and .* from en to de: that is"):
        augment(both, dialogue, tmp_path / "out", writer=augless.load)
    wanted = replace(both, there={"recipe": "toy-de-en"})
    with pytest.raises(BadAugmentation, match="the model there goes from en to fr"):
        wanted.check(dialogue.languages, {"model there": ("en", "fr")})
    with pytest.raises(BadAugmentation, match=r"needs a trained run: the model there$"):
        augment(wanted, dialogue, tmp_path / "out", writer=augless.load)
    with pytest.raises(runs.BadRun, match="holds no run"):
        augment(replace(augmenter, run=tmp_path), TOY, tmp_path / "out", writer=augless.load)
    assert not (tmp_path / "out").exists()


def test_more_copies_than_the_search_finds_are_refused(reverse, tmp_path):
    for augmenter in (
        AUGMENTERS["back-translation"](run=reverse, copies=6),
        AUGMENTERS["back-translation"](run=reverse, copies=2, search=decoding.Greedy()),
    ):
        with pytest.raises(BadAugmentation, match="search=sampling"):
            augment(augmenter, TOY, tmp_path / "out", writer=augless.load)


def test_a_round_trip_takes_hugging_face_models_on_both_sides(translation, tmp_path):
    trip = AUGMENTERS["round-trip"](
        there=str(translation),
        back=str(translation),
        size=2,
        prompts=("to: {text}", "back: {text}"),
    )
    corpus = replace(TOY, train=12)
    augmented = augment(trip, corpus, tmp_path / "out")
    pairs = list(corpus.pairs("train"))
    made = [row for row in augmented.rows() if "of" in row]
    assert made
    for row in made:
        assert row["de"] != pairs[row["of"]].source and row["en"] != pairs[row["of"]].target
        assert "\n" not in row["de"] + row["en"]


def test_what_does_not_arrive_does_not_come_back(monkeypatch, tmp_path):
    back = []

    class Losing:
        def __init__(self, folder, device):
            self.home = folder == "b"

        def answers(self, prompts, keys, manner):
            if self.home:
                back.append((list(prompts), list(keys)))
                return [[f"{prompt} again"] for prompt in prompts]
            return [["" if prompt == "lost" else prompt] for prompt in prompts]

    monkeypatch.setattr(pretrained, "find", lambda name, download: name)
    monkeypatch.setattr(generating, "Generator", Losing)
    context = Context(corpus=TOY, seed=1, work=tmp_path, cache=tmp_path)
    lines = [Line(text, (1, i, 0)) for i, text in enumerate(["one", "lost", "two"])]
    with augmentation.RoundTrip(there="a", back="b").open(context) as rewrite:
        assert rewrite(lines) == [["one again"], [], ["two again"]]
        assert back == [(["one", "two"], [(1, 0, 0), (1, 2, 0)])]
        assert rewrite(lines[1:2]) == [[]] and len(back) == 1


def test_a_tokenised_corpus_makes_the_trip_as_text_and_comes_back_tokenised(monkeypatch, tmp_path):
    seen = []

    class Shouting:
        def __init__(self, folder, device):
            pass

        def answers(self, prompts, keys, manner):
            seen.append(list(prompts))
            return [[prompt.upper()] for prompt in prompts]

    monkeypatch.setattr(pretrained, "find", lambda name, download: name)
    monkeypatch.setattr(generating, "Generator", Shouting)
    context = Context(corpus=TOY, seed=1, work=tmp_path, cache=tmp_path)
    lines = [Line("i 'm here , you know .", (1, 0, 0))]
    for tokenised, read, written in (
        ("en", "i'm here, you know.", "I 'M HERE , YOU KNOW ."),
        ("", "i 'm here , you know .", "I 'M HERE , YOU KNOW ."),
    ):
        seen.clear()
        trip = augmentation.RoundTrip(there="a", back="b", tokenised=tokenised)
        with trip.open(context) as rewrite:
            assert rewrite(lines) == [[written]]
        assert seen[0] == [read]


@pytest.mark.parametrize("kind", ["translation", "chat"])
def test_what_a_model_says_of_a_text_depends_on_no_other(kind, request, tmp_path):
    place = request.getfixturevalue(kind)
    augmenter = AUGMENTERS["paraphrase"](model=str(place), prompt="say: {text}", copies=2)
    lines = tiny.LINES[:4]
    together = rewritten(augmenter, lines, tmp_path)
    assert together == rewritten(augmenter, lines, tmp_path)
    assert all(len(copies) == 2 for copies in together)
    assert rewritten(augmenter, lines[:1], tmp_path) == together[:1]
    assert len({copy for copies in together for copy in copies}) > 4  # and they are drawn


def test_without_a_temperature_a_model_says_the_same(chat, tmp_path):
    augmenter = AUGMENTERS["paraphrase"](model=str(chat), prompt="say: {text}", temperature=0.0)
    one, two = (
        rewritten(augmenter, ["Ein Hund"], tmp_path / str(n), corpus=TOY) for n in (1, 2)
    )  # fmt: skip
    assert one == two
    with pytest.raises(BadAugmentation, match="several copies"):
        replace(augmenter, copies=2)


@pytest.mark.parametrize("prompt", ["no place", "two\nlines {text}"])
def test_a_prompt_is_one_line_with_a_place_for_the_text(prompt):
    with pytest.raises(BadAugmentation, match="one line"):
        AUGMENTERS["paraphrase"](model="x", prompt=prompt)


# Draws


def test_gumbel_noise_is_a_function_of_key_and_id():
    ids = np.arange(1000)
    noise = draws.gumbels((1, 2), ids)
    assert (noise[::-1] == draws.gumbels((1, 2), ids[::-1])).all()
    assert not np.isclose(noise, draws.gumbels((1, 3), ids)).any()
    uniform = np.exp(-np.exp(-np.concatenate([draws.gumbels((k,), ids) for k in range(50)])))
    counts, _ = np.histogram(uniform, 20, (0, 1))
    assert abs(counts - 2500).max() < 4.5 * np.sqrt(2500)
    assert np.isfinite(noise).all()


def test_keys_do_not_collide():
    keys = list(itertools.product(range(20), repeat=3)) + [(a,) for a in range(1000)]
    assert len({draws.number(key) for key in keys}) > len(keys) - 5
    assert all(0 <= draws.number(key) < 2**31 for key in keys)


def test_the_manifest_names_no_place_of_this_machine_in_its_texts(berts, tmp_path):
    augmented = augment(
        AUGMENTERS["masked-lm"](model=str(berts["wordpiece"])), TOY, tmp_path / "out"
    )
    assert augmented.manifest.named == {"model": berts["wordpiece"].name}
    said = json.dumps(dataclasses.asdict(augmented.manifest))
    assert not re.search(re.escape(str(tmp_path)), said)
    assert not re.search(re.escape(str(berts["wordpiece"].parent)), said)
