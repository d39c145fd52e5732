"""Text: cleaning, tokenisation against sacremoses, vocabularies, and the codec's round trip."""

import functools
import gzip
import json
import os
import pickle
import random
import subprocess
import sys
import unicodedata
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import sacremoses
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import models

from augless import text
from augless.text import tokenisation, vocabularies
from support import ATOMS

LINES = st.lists(st.sampled_from(ATOMS), max_size=16).map("".join) | st.text(max_size=24)
NASTY = [
    "",
    " ",
    "'",
    ",",
    ".",
    ",5 apples",
    "5, 6,7 ,8 9,",
    "a,,5",
    "''tis",
    "'hello' 'world'",
    "1' '2",
    "1'\x00 \x01'2",
    "rock 'n' roll, isn't it?",
    "it's the '90s' best",
    "he said: 'No.'",
    "he said 'No. 5'",
    "Mr. Smith met Dr. No. in the U.S. in No. 5 street.",
    "end. start and end. Start and end. 5 and end.",
    "pp. 5 pp. X Art. 5 Art. X no. 5 no. X p. 5 p. X",
    "Das ist z.B. am 3. Mai bzw. im Jahr 1990 usw. passiert.",
    "L'homme qu'il a vu... n'est pas l'autre.. n'est-ce pas ?",
    "wait... what.. is.this?...",
    "DOTMULTI and DOTDOTMULTI. and xDOTMULTIx",
    "a.b. c.d. 1.2. 3.",
    "...a '.' ',' .'",
    "x.'",
    "'x.'",
    "http://www.example.com/a_b?c=d&e=f#g",
    "a\u2028b\u2029c\x85d\x0be\x0cf\rg\th\xa0i\u3000j",
    "a\x00b \x01 c\x1fd",
    "ünïcödé и кириллица 中文。日本語 한국어 हिन्दी",
    "👩\u200d💻 😀😀 ①②③ ⅷ",
    "\ud800 lone",
    "&amp; &lt;b&gt; | [x] <y> \"z\" 'w'",
    "@-@ @@ ▁ ￭ <unk> </s>",
    "co\xadop x\u0301y e\u0301",
    "'" * 7 + "," * 7 + "." * 7,
    "a' 'b' ' c",
]


@functools.cache
def oracle(language: str) -> sacremoses.MosesTokenizer:
    return sacremoses.MosesTokenizer(language)


def reference(line: str, language: str, escape: bool = False) -> str:
    return " ".join(oracle(language).tokenize(line, escape=escape))


def codec_of(
    lines: list[str],
    tokeniser: text.Tokeniser,
    learner: text.Subwords | text.Words | None = None,
) -> text.Codec:
    learner = learner or text.Subwords(size=2000, min_count=1)
    return text.Codec(tokeniser, learner.learn(tokeniser.count(lines)))


def corpus_files() -> list[Path]:
    return sorted(Path(os.environ.get("AUGLESS_DATA", "nowhere")).rglob("*.gz"))


# Cleaning


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        ("a\u2028b\u2029c\x85d\x0be\x0cf\rg\nh\ti", "a b c d e f g h i"),
        (" \ufeff a\xa0\u202f  b\u200b ", "a b"),
        ("a\x00b\x1fc\x7fd\u200ee", "a b c d e"),
        ("e\u0301", "é"),
        ("co\xadoperate", "cooperate"),
        ("e\xad\u0301", "é"),
        ("\u0645\u06cc\u200c\u062e", "\u0645\u06cc\u200c\u062e"),
        ("👩\u200d💻", "👩\u200d💻"),
        ("a\ud800b", "a\ufffdb"),
        ("\u2000\u2001", ""),
    ],
)
def test_normalise_cleans_what_it_says(raw: str, clean: str) -> None:
    assert text.normalise(raw) == clean


@given(LINES)
def test_normalise_is_idempotent_composed_and_single_spaced(line: str) -> None:
    clean = text.normalise(line)
    assert text.normalise(clean) == clean
    assert unicodedata.is_normalized("NFC", clean)
    assert clean.split() == clean.split(" ") or clean == ""
    clean.encode()


def test_normalise_leaves_no_blank_or_control_but_the_space() -> None:
    for character in map(chr, range(0x110000)):
        clean = text.normalise(f"a{character}b")
        assert not any(c.isspace() or unicodedata.category(c) == "Cc" for c in clean if c != " ")


def test_a_flood_of_combining_marks_neither_hangs_nor_changes_on_a_second_pass() -> None:
    for flood in ("\u0316\u0300" * 100_000, "\u0344" * 200, "ǖ" + "\u0300" * 255):
        clean = text.normalise(flood)
        assert text.normalise(clean) == clean


def test_lower_case_does_not_depend_on_neighbours() -> None:
    for character in map(chr, range(0x110000)):
        assert text.lower(f"A{character}") + "b" == text.lower(f"A{character}B")


# Moses


LANGUAGES = sorted({*sacremoses.corpus.NonbreakingPrefixes().available_langs.values(), "vi", "ja"})


@pytest.mark.parametrize("language", LANGUAGES)
def test_nasty_lines_give_the_tokens_of_sacremoses_in_every_language(language: str) -> None:
    for line in NASTY:
        for escape in (False, True):
            expected = reference(line, language, escape)
            assert text.moses(language).tokenise(line, escape) == expected


@settings(max_examples=2000, deadline=None)
@given(LINES, st.sampled_from(["en", "de", "fr", "it", "vi", "cs", "hi"]), st.booleans())
@example("1' '2", "en", False)
@example("1'\x00 '2", "en", False)
@example("a,,5", "de", False)
def test_any_line_gives_the_tokens_of_sacremoses(line: str, language: str, escape: bool) -> None:
    assert text.moses(language).tokenise(line, escape) == reference(line, language, escape)


@pytest.mark.skipif("AUGLESS_DATA" not in os.environ, reason="AUGLESS_DATA, a folder, is not set")
@pytest.mark.parametrize("path", corpus_files(), ids=lambda path: f"{path.parent.name}-{path.name}")
def test_every_line_of_the_corpora_gives_the_tokens_of_sacremoses(path: Path) -> None:
    suffix = path.name.split(".")[-2]
    language = "en" if suffix in ("query", "response") else suffix
    lines = gzip.decompress(path.read_bytes()).decode().split("\n")
    for line in dict.fromkeys(lines):
        assert text.moses(language).tokenise(line) == reference(line, language)


def test_what_is_remembered_is_bounded_and_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    memos = []

    class Small(tokenisation.Memo[str]):
        ENTRIES = 8

        def __init__(self, function: Callable[[str], str]) -> None:
            super().__init__(function)
            memos.append(self)

    monkeypatch.setattr(tokenisation, "Memo", Small)
    forgetful, filled = text.Moses("en"), 0
    for line in NASTY + NASTY[::-1]:
        for escape in (False, True):
            expected = text.moses("en").tokenise(line, escape=escape)
            assert forgetful.tokenise(line, escape=escape) == expected
        assert max(map(len, memos)) <= 8
        filled += min(map(len, memos)) == 8
    assert filled  # so that something was forgotten
    forgetful.tokenise("x" * 10_000)
    assert max(len(key) for memo in memos for key in memo) < 100


def test_detokenised_text_is_that_of_sacremoses_and_czech_does_not_crash() -> None:
    tokens = ["he", "said", ":", "'", "it", "'s", "5", "%", "off", ",", "&amp;", "more", "!", "'"]
    for language in ("en", "fr", "de", "fi"):
        expected = sacremoses.MosesDetokenizer(language).detokenize(tokens, unescape=False)
        assert text.detokenise(tokens, language) == expected
    assert text.detokenise(["e'", "-", "mail", "."], "cs") == "e' - mail."


# Words


@given(LINES)
def test_joined_words_give_the_line_back(line: str) -> None:
    tokeniser = text.Tokeniser("fr", "joined")
    assert tokeniser.line(" ".join(tokeniser.words(line))) == text.normalise(line)


def test_joins_are_marked_on_the_punctuation_and_never_on_the_word() -> None:
    words = text.Tokeniser("fr", "joined").words('(le "chat" l\'a vu), non?')
    join = text.JOIN
    assert words == [
        "(" + join,
        "le",
        '"' + join,
        "chat",
        join + '"',
        "l'" + join,
        "a",
        "vu",
        join + ")",
        join + ",",
        "non",
        join + "?",
    ]


@given(LINES, st.booleans())
def test_the_tokenised_view_is_that_of_sacremoses(line: str, lowercase: bool) -> None:
    expected = reference(text.normalise(line), "de")
    for kind in ("joined", "moses"):
        tokens = text.Tokeniser("de", kind, lowercase).tokens(line)
        assert tokens == (text.lower(expected) if lowercase else expected)


def test_counts_of_parts_add_up_and_forgetting_keys_loses_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tokeniser = text.Tokeniser("en")
    whole = Counter(word for line in NASTY for word in tokeniser.words(line))
    assert tokeniser.count(NASTY[:9]) + tokeniser.count(NASTY[9:]) == whole
    monkeypatch.setattr(tokenisation.Memo, "ENTRIES", 1)
    assert tokeniser.count(iter(NASTY * 50)) == Counter({w: 50 * n for w, n in whole.items()})


def test_an_unknown_kind_of_tokeniser_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="kind is 'perl'; it must be one of joined, moses"):
        text.Tokeniser("en", "perl")  # type: ignore[arg-type]


# Vocabularies


def test_subwords_are_merged_in_the_order_of_the_textbook_example() -> None:
    # Sennrich et al. 2016, a tie going to the pair known first.
    counts = {"low": 5, "lower": 2, "newest": 6, "widest": 3}
    learnt = text.Subwords(size=20, min_count=2).learn(counts)
    assert learnt.merges == (("e", "s"), ("t", " "), ("es", "t "), ("l", "o"), ("lo", "w"))
    assert [learnt.pieces[i - 4] for i in learnt.encode("lowest")] == ["low", "est "]


def test_subwords_depend_on_nothing_but_the_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(1)
    words = ["".join(rng.choices("abcdef", k=rng.randint(1, 8))) for _ in range(400)]
    items = [(word, rng.randint(1, 3)) for word in dict.fromkeys(words)]
    learnt = text.Subwords(size=200).learn(dict(items))
    for setting in ("true", "false"):
        monkeypatch.setenv("TOKENIZERS_PARALLELISM", setting)
        for _ in range(3):
            rng.shuffle(items)
            assert text.Subwords(size=200).learn(dict(items)) == learnt
            assert os.environ["TOKENIZERS_PARALLELISM"] == setting


def zipf(rng: random.Random, words: int) -> dict[str, int]:
    """Make words of common syllables, the n-th about 1/n as frequent as the first."""
    syllables = ["".join(rng.choices("abcdefgh", k=rng.randint(1, 3))) for _ in range(60)]
    made = ("".join(rng.choices(syllables, k=rng.randint(1, 4))) for _ in range(words))
    return {word: 1 + 20_000 // n for n, word in enumerate(dict.fromkeys(made), 1)}


def test_few_words_are_learnt_from_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = zipf(random.Random(4), 2000)
    whole = text.Subwords(size=300).learn(counts)
    monkeypatch.setattr(vocabularies, "LEARNT_FROM", sum(counts.values()))
    assert text.Subwords(size=300).learn(counts) == whole
    monkeypatch.setattr(vocabularies, "LEARNT_FROM", sum(counts.values()) - 1)
    assert dict(vocabularies.thinned(counts, sum(counts.values()))) != counts


def test_thinned_counts_are_in_proportion_and_do_not_depend_on_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = random.Random(5)
    items = list(zipf(rng, 5000).items())
    total = sum(n for _, n in items)
    monkeypatch.setattr(vocabularies, "LEARNT_FROM", 10_000)
    thinned = dict(vocabularies.thinned(dict(items), total))
    assert sum(thinned.values()) == 10_000
    share = 10_000 / total
    assert all(abs(thinned.get(word, 0) - n * share) < 1 for word, n in items)
    for start in "abcdefgh":  # and so is the sum over any beginning
        both = [sum(n for w, n in c if w.startswith(start)) for c in (thinned.items(), items)]
        assert abs(both[0] - both[1] * share) < 1
    rng.shuffle(items)
    assert dict(vocabularies.thinned(dict(items), total)) == thinned


def test_subwords_of_thinned_counts_spell_as_shortly_with_every_character(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counts = zipf(random.Random(6), 5000) | {"ж": 1, "中文": 1}
    total = sum(counts.values())

    def ids_per_word(vocabulary: text.Vocabulary) -> float:
        return sum(n * len(vocabulary.encode(word)) for word, n in counts.items()) / total

    whole = text.Subwords(size=300).learn(counts)
    monkeypatch.setattr(vocabularies, "LEARNT_FROM", total // 4)
    thinned = text.Subwords(size=300).learn(counts)
    assert len(thinned) == len(whole) == 300
    assert set("ж中文 ") <= set(thinned.pieces)
    assert ids_per_word(thinned) < 1.002 * ids_per_word(whole)


def test_a_vocabulary_has_the_size_asked_for_with_everything_counted() -> None:
    tokeniser = text.Tokeniser("en")
    codec = codec_of(NASTY, tokeniser, text.Subwords(size=300, min_count=1))
    assert len(codec) == len(codec.vocabulary) == 300
    assert len(codec_of(NASTY, tokeniser, text.Words(size=20, min_count=1))) == 20


def test_words_are_ordered_by_count_then_spelling_and_rare_ones_are_unknown() -> None:
    learnt = text.Words(size=7, min_count=2).learn({"d": 1, "c": 3, "a": 2, "b": 2, "e": 9})
    assert learnt.pieces == ("e ", "c ", "a ")
    assert [learnt.encode(word) for word in "ecabd"] == [[4], [5], [6], [3], [3]]


@pytest.mark.parametrize("learner", text.VOCABULARIES.values())
def test_what_cannot_be_learnt_is_refused_in_words(
    learner: type[text.Subwords] | type[text.Words],
) -> None:
    with pytest.raises(ValueError, match=r"nothing to learn from|no words to learn"):
        learner().learn({})
    with pytest.raises(ValueError, match="size is 4; it must be a whole number, from"):
        learner(size=4).learn({"a": 5})


def test_a_very_long_word_is_learnt_from_and_spelt_in_parts() -> None:
    # Learning is quadratic in a word's length: the whole of this one would take half a minute.
    word = "ab" * 100_000
    learnt = text.Subwords(size=100).learn({word: 3})
    assert max(map(len, learnt.pieces)) <= text.LONGEST_WORD
    codec = text.Codec(text.Tokeniser("en", "whitespace"), learnt)
    assert codec.decode(codec.encode(f"{word} ab")) == f"{word} ab"
    short = word[: text.LONGEST_WORD - 1]  # with the space at its end, just one part
    ids = {piece: number for number, piece in enumerate(learnt.pieces, len(text.SPECIALS))}
    reference = models.BPE(vocab=ids, merges=list(learnt.merges))
    assert learnt.encode(short) == [token.id for token in reference.tokenize(f"{short} ")]
    assert text.Words(min_count=1).learn({word: 3, "a": 1}).pieces == ("a ",)


def test_more_characters_than_the_vocabulary_holds_is_refused_with_the_size_to_ask_for() -> None:
    counts = {"abcdef": 2}
    with pytest.raises(ValueError, match="the 7 characters of the text: ask for at least 11"):
        text.Subwords(size=10).learn(counts)
    assert len(text.Subwords(size=11).learn(counts)) == 11


def test_a_vocabulary_that_contradicts_itself_is_refused() -> None:
    for pieces, merges in (
        (("a", "a"), ()),
        (("a", ""), ()),
        (("a", "b"), (("a", "b"),)),
        (("a",), None),
        (("\ud800",), ()),
        (("a b",), ()),
        *(((f"a{character}b",), ()) for character in "\n\r\x1b\x7f\x85\x9b\u2028\u202e\0"),
    ):
        with pytest.raises(ValueError, match=r"vocabulary|pieces|surrogates"):
            text.Vocabulary(pieces, merges)


def test_a_saved_piece_that_could_begin_a_line_of_output_is_refused(tmp_path) -> None:
    codec = text.Codec(text.Tokeniser(language="en"), text.Vocabulary(("ab ", f"c{text.JOIN}"), ()))
    path = codec.save(tmp_path)
    assert text.Codec.load(tmp_path) == codec
    content = json.loads(path.read_text("utf-8"))
    content["vocabulary"]["pieces"][0] = "a\nb "
    del content["format"], content["sha256"]
    signed = {"format": text.codec.FORMAT, "sha256": text.codec.digest_of(content), **content}
    path.write_text(json.dumps(signed), "utf-8")
    with pytest.raises(ValueError, match="control character") as caught:
        text.Codec.load(tmp_path)
    assert "\n" not in str(caught.value)


# The codec


@settings(max_examples=400, deadline=None)
@given(
    st.lists(LINES, min_size=1, max_size=4),
    st.sampled_from(["joined", "whitespace"]),
    st.sampled_from(["en", "de", "fr"]),
    st.booleans(),
    st.sampled_from([text.Subwords(2000, 1), text.Subwords(2000, 2), text.Words(2000, 1)]),
)
def test_known_text_of_any_kind_comes_back_exactly(
    lines: list[str],
    kind: text.Kind,
    language: str,
    lowercase: bool,
    learner: text.Subwords | text.Words,
) -> None:
    codec = codec_of([*lines, "x"] * 2, text.Tokeniser(language, kind, lowercase), learner)
    for line, ids in zip(lines, codec.encode_lines(lines), strict=True):
        clean = text.normalise(line)
        assert codec.decode(ids) == (text.lower(clean) if lowercase else clean)
        assert ids.tolist() == codec.encode(line)
        assert ids.min(initial=4) >= 4


def test_marks_and_special_symbols_in_the_text_are_text() -> None:
    line = "<pad> <pad>a <bos> <eos> <eos>b <unk> <unk>c <unk>d </s> </w> @@ hou@@ se ▁a ￭b x\x1fy"
    line += "  unknown unknown. @-@ &amp;"
    for kind in ("joined", "whitespace"):
        codec = codec_of([line] * 99, text.Tokeniser("en", kind))
        assert codec.decode(codec.encode(line)) == text.normalise(line)
        for symbol in text.SPECIALS:
            assert min(codec.encode(f"{symbol} {symbol}se")) >= len(text.SPECIALS)


def test_the_papers_pipeline_gives_moses_tokens_and_detokenises_common_text() -> None:
    lines = ["Hello, world!", "It's (nearly) 5% of Mr. Smith's \"house\"."]
    codec = codec_of(lines, text.Tokeniser("en", "moses"))
    for line in lines:
        assert codec.tokens(codec.encode(line)) == reference(line, "en")
        assert codec.decode(codec.encode(line)) == line


def test_an_unseen_character_or_word_is_unknown_and_its_neighbours_are_not() -> None:
    codec = codec_of(["abc abd"], text.Tokeniser("en"))
    ids = codec.encode("abжd")
    assert ids.count(codec.unk) == 1
    assert codec.decode(ids) == "ab<unk>d"
    words = codec_of(["abc abd"], text.Tokeniser("en"), text.Words(min_count=1))
    assert words.decode(words.encode("abd xyz abc")) == "abd <unk> abc"


def test_decoding_stops_at_the_end_symbol_and_skips_the_others() -> None:
    codec = codec_of(["a b"], text.Tokeniser("en"))
    a, b = codec.encode("a"), codec.encode("b")
    ids = [codec.bos, codec.pad, *a, *b, codec.eos, *a, codec.pad]
    assert codec.decode(ids) == codec.decode(np.array(ids)) == "a b"
    assert codec.decode([]) == codec.tokens([codec.eos]) == ""


@pytest.mark.parametrize("stray", [-1, 1000])
def test_an_id_outside_the_vocabulary_is_refused(stray: int) -> None:
    codec = codec_of(["a b"], text.Tokeniser("en"))
    with pytest.raises(ValueError, match=f"id {stray} is not among"):
        codec.decode([4, stray])


def test_any_sequence_of_ids_decodes_to_one_clean_line() -> None:
    rng = random.Random(2)
    for kind in ("joined", "moses", "whitespace"):
        codec = codec_of(NASTY, text.Tokeniser("fr", kind))
        for _ in range(200):
            line = codec.decode(rng.choices(range(len(codec)), k=12))
            assert "\n" not in line and text.JOIN not in line
            assert "  " not in line and line == line.strip(" ")


def test_pieces_show_word_ends_and_joins() -> None:
    codec = codec_of(["low lower, low"] * 9, text.Tokeniser("en"))
    assert codec.pieces(codec.encode("low, law")) == ["low▁", "￭,▁", "l", "<unk>", "w", "▁"]
    assert codec.pieces([codec.bos, codec.eos]) == ["<bos>", "<eos>"]


def test_flat_encoding_is_the_lines_end_to_end() -> None:
    codec = codec_of(NASTY, text.Tokeniser("en"))
    lines = ["", *NASTY[:20], ""]
    ids, lengths = codec.encode_flat(iter(lines))
    assert lengths.tolist() == [len(codec.encode(line)) for line in lines]
    assert ids.tolist() == [i for line in lines for i in codec.encode(line)]
    assert codec.encode_lines([]) == []


@pytest.fixture
def codec() -> text.Codec:
    return codec_of(NASTY, text.Tokeniser("de", "joined", True), text.Subwords(300))


def test_a_saved_codec_comes_back_equal(codec: text.Codec, tmp_path: Path) -> None:
    words = codec_of(NASTY, text.Tokeniser("de"), text.Words())
    for number, original in enumerate((codec, words)):
        folder = tmp_path / "new" / str(number)
        original.save(folder)
        assert [path.name for path in folder.iterdir()] == ["codec.json"]
        loaded = text.Codec.load(folder)
        assert loaded == original
        assert loaded.fingerprint == original.fingerprint
        assert loaded.encode(NASTY[16]) == original.encode(NASTY[16])
        again = original.save(folder).read_bytes()
        assert loaded.save(tmp_path).read_bytes() == again


def test_a_fingerprint_changes_with_anything_that_changes_ids(codec: text.Codec) -> None:
    knobs = [("en", "joined", True), ("de", "moses", True), ("de", "joined", False)]
    pieces, merges = codec.vocabulary.pieces, codec.vocabulary.merges
    assert merges is not None
    others = [
        *(text.Codec(text.Tokeniser(*knob), codec.vocabulary) for knob in knobs),
        text.Codec(codec.tokeniser, text.Vocabulary(pieces[::-1], merges)),
        text.Codec(codec.tokeniser, text.Vocabulary(pieces, merges[:-1])),
    ]
    assert len({codec.fingerprint, *(other.fingerprint for other in others)}) == 6


def test_a_codec_reaches_another_process_without_what_it_remembers(codec: text.Codec) -> None:
    fresh = len(pickle.dumps(codec))
    codec.encode_lines(NASTY)
    assert len(pickle.dumps(codec)) == fresh
    assert pickle.loads(pickle.dumps(codec)) == codec


def refusal(folder: Path) -> str:
    with pytest.raises(ValueError) as caught:
        text.Codec.load(folder)
    message = str(caught.value)
    assert type(caught.value) is ValueError
    assert message.startswith(str(folder / "codec.json")) and "\n" not in message
    return message


def test_a_foreign_file_is_refused_in_one_line_that_names_it(
    codec: text.Codec, tmp_path: Path
) -> None:
    path = codec.save(tmp_path)
    whole = json.loads(path.read_text("utf-8"))
    contents: list[object] = [None, [], {}, 3, "x", {**whole, "format": "other"}]
    contents += [{key: value for key, value in whole.items() if key != gone} for gone in whole]
    contents += [{**whole, key: junk} for key in whole for junk in (None, 7, [], {}, "x")]
    for part in ("tokeniser", "vocabulary"):
        contents += [
            {**whole, part: {**whole[part], key: junk}}
            for key in whole[part]
            for junk in (7, {}, "os.system", [7], [["a"]], [["a", 7]], ["\ud800"], ["a", "a"])
        ]
    raw = [json.dumps(content).encode() for content in contents]
    raw += [b"", b"\x80\x04\x95", b"\xff\xfe", b"[" * 100_000, b"NaN", b"1" * 9999]
    raw += [pickle.dumps(codec)]
    for content in raw:
        path.write_bytes(content)
        refusal(tmp_path)


def test_a_damaged_file_is_never_taken_for_what_was_saved(
    codec: text.Codec, tmp_path: Path
) -> None:
    path = codec.save(tmp_path)
    whole = path.read_bytes()
    rng = random.Random(3)
    for _ in range(150):
        damaged = bytearray(whole)
        damaged[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged if rng.random() < 0.8 else whole[: rng.randrange(len(whole) - 2)])
        try:
            # White space between the values is the one thing that may change.
            assert text.Codec.load(tmp_path) == codec
        except ValueError:
            refusal(tmp_path)


def test_a_missing_codec_is_an_error_of_the_disk(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        text.Codec.load(tmp_path)


def test_importing_text_loads_no_heavy_library() -> None:
    heavy = "{'torch', 'sacremoses', 'tokenizers'} & set(sys.modules)"
    code = f"import sys, augless.text; sys.exit(str({heavy}) if {heavy} else 0)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_forked_worker_hears_no_complaint_about_threads() -> None:
    code = (
        "import os; from augless import text\n"
        "text.Subwords(20).learn({'ab': 3})\n"
        "pid = os.fork()\n"
        "if not pid: text.Subwords(20).learn({'ab': 3}); os._exit(0)\n"
        "os.waitpid(pid, 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stderr == ""
