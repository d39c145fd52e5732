"""Clean lines to words and back: Moses' rules, memoised by piece."""

import functools
import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

from augless.knobs import Knobs
from augless.text import cleaning

Kind = Literal["joined", "moses", "whitespace"]
Value = TypeVar("Value")
Rule = tuple[re.Pattern[str], str]

JOIN = "\x1f"


class Memo(dict[str, Value]):
    """Remember a function of a key, up to a bound; forget everything when it is reached."""

    ENTRIES = 1 << 18
    LENGTH = 64

    def __init__(self, function: Callable[[str], Value]) -> None:
        super().__init__()
        self.function = function

    def __missing__(self, key: str) -> Value:
        value = self.function(key)
        # Whole lines (a leading space) and very long pieces hardly ever come back.
        if key[0] != " " and len(key) <= self.LENGTH:
            if len(self) >= self.ENTRIES:
                self.clear()
            self[key] = value
        return value


_SPACES = re.compile(r"\s+")
_JUNK = re.compile("[\x00-\x1f]")
_DOTS = re.compile(r"\.{2,}")
_DOTS_SPELT = re.compile("(?:DOT)+MULTI")
_DIGITS = frozenset("0123456789")


class Moses:
    """Moses' tokeniser for one language: token for token what `sacremoses` gives, memoised.

    The rules and tables are those of the installed `sacremoses`. They are applied to one piece
    between spaces at a time, which is exact because no rule looks further than this:

    - a final period, at the first character of the next token (lower case, digit, other, none);
    - the rules for the end of a line, at the last piece only;
    - a comma or apostrophe, at the characters beside it. At the start of a line there is none
      before it; and where an apostrophe ends one piece and begins the next, both want the same
      space, so which rule fires depends on what came before: such lines are cut as a whole.

    Those facts make up a *key*: ``piece`` (in mid-line), ``piece a``, ``piece 0``, ``piece A`` (in
    mid-line with a final period, before a lower-case letter, a digit, anything else), ``piece ``
    (ending the line), `` line`` (a whole line).
    """

    def __init__(self, language: str) -> None:
        import sacremoses  # type: ignore[import-untyped]  # has no types; late: it is slow

        rules = sacremoses.MosesTokenizer(language)
        self.language = language
        self._pad: Rule = rules.PAD_NOT_ISALNUM
        self._commas: list[Rule] = [
            rules.COMMA_SEPARATE_1,
            rules.COMMA_SEPARATE_2,
            rules.COMMA_SEPARATE_3,
        ]
        self._apostrophes: list[Rule] = [rules.NON_SPECIFIC_APOSTROPHE]
        if language == "en":
            self._apostrophes = rules.ENGLISH_SPECIFIC_APOSTROPHE
        elif language in ("fr", "it"):
            self._apostrophes = rules.FR_IT_SPECIFIC_APOSTROPHE
        self._alphanumeric = frozenset(rules.IsAlnum)
        self._unpadded = self._alphanumeric.union(" .'`,-")
        self._letters = frozenset(rules.IsAlpha)
        self._lower = frozenset(rules.IsLower)
        self._numeric = frozenset(rules.NUMERIC_ONLY_PREFIXES)
        self._prefixes = frozenset(rules.NONBREAKING_PREFIXES) - self._numeric
        self._escape: Callable[[str], str] = rules.escape_xml
        self._plain = Memo(lambda key: " ".join(self.tokens(key)))
        self._escaped = Memo(lambda key: self._escape(" ".join(self.tokens(key))))

    def tokenise(self, line: str, escape: bool = False) -> str:
        """Give the tokens of any line, normalised or not, joined by spaces."""
        memo = self._escaped if escape else self._plain
        if not line.isprintable() or "  " in line or line[:1] == " " or line[-1:] == " ":
            line = _SPACES.sub(" ", line)
            clean = _JUNK.sub("", line)
            if clean != line:
                # What the junk leaves behind may be two spaces, which is not the same to the
                # rule for apostrophes as one.
                clean = clean.strip(" ")
                return memo[" " + clean] if clean else ""
            line = line.strip(" ")
        return " ".join(map(memo.__getitem__, self.keys(line)))

    def keys(self, line: str) -> list[str]:
        """Cut a line of single spaces into keys."""
        if not line:
            return []
        if line[0] in ",'" or "' '" in line:
            return [" " + line]
        pieces = line.split(" ")
        if ". " in line:
            for i in range(len(pieces) - 1):
                if pieces[i][-1] == ".":
                    first = pieces[i + 1][0]
                    after = " a" if first in self._lower else " 0" if first in _DIGITS else " A"
                    pieces[i] += after
        pieces[-1] += " "
        return pieces

    def tokens(self, key: str) -> list[str]:
        """Give the tokens of one key."""
        piece, space, after = key.rpartition(" ")
        if key[0] == " ":
            return self._apply(key[1:], "")
        if not space:
            return self._apply(f" {key} ", "A")
        return self._apply(f" {piece} ", after) if after else self._apply(f" {piece}", "")

    def _apply(self, text: str, after: str) -> list[str]:
        """Apply the rules to text that is followed by `after`, or by nothing: a line's end."""
        # A third of the time of the pattern, which would find nothing in most words.
        if not self._unpadded.issuperset(text):
            text = self._pad[0].sub(self._pad[1], text)
        if ".." in text:
            text = _DOTS.sub(r" \g<0> ", text)
        if "," in text:
            for rule, replacement in self._commas:
                text = rule.sub(replacement, text)
        if "'" in text:
            for rule, replacement in self._apostrophes:
                text = rule.sub(replacement, text)
        tokens = text.split(" ")
        if "" in tokens:
            tokens = [token for token in tokens if token]
        if "." in text:
            tokens = self._periods(tokens, after)
            if not after and tokens[-1][-2:] == ".'":
                tokens[-1:] = [*filter(None, [tokens[-1][:-2]]), ".", "'"]
        if "DOTMULTI" in text:
            # Moses hides runs of dots under this name; text that spells it comes out as dots.
            tokens = [_DOTS_SPELT.sub(lambda m: "." * (len(m[0]) // 3 - 1), t) for t in tokens]
        return tokens

    def _periods(self, tokens: list[str], after: str) -> list[str]:
        """Split final periods off, except from abbreviations and in mid-sentence."""
        split = []
        for token, following in itertools.zip_longest(tokens, tokens[1:], fillvalue=after):
            prefix = token[:-1]
            first = following[:1]
            if (
                token[-1] != "."
                or not prefix.strip(".")
                or ("." in prefix and not self._letters.isdisjoint(prefix))
                or prefix in self._prefixes
                or first in self._lower
                or (prefix in self._numeric and first in _DIGITS)
            ):
                split.append(token)
            else:
                split += [prefix, "."]
        return split

    def mark_joins(self, text: str, tokens: Sequence[str]) -> list[str]:
        """Mark the tokens of a text with `JOIN` where no space stood between two of them.

        The mark goes on the punctuation, so that a word is spelt alike beside a space, a bracket
        or a comma. Where the tokens do not spell the text, its pieces take their place.
        """
        marked: list[str] = []
        position = 0
        for token in tokens:
            touching = position > 0
            if text.startswith(" ", position):
                position += 1
                touching = False
            if not text.startswith(token, position):
                return text.split(" ")
            position += len(token)
            if touching and token[0] in self._alphanumeric:
                marked[-1] += JOIN
            elif touching:
                token = JOIN + token
            marked.append(token)
        return marked


@functools.lru_cache(maxsize=16)
def moses(language: str) -> Moses:
    """Give the tokeniser of a language, the same one each time."""
    return Moses(language)


def detokenise(tokens: Sequence[str], language: str) -> str:
    """Join tokens by the rules of Moses' detokeniser: readable, but a guess at the spacing."""
    import sacremoses

    try:
        return str(sacremoses.MosesDetokenizer(language).detokenize(tokens, unescape=False))
    except TypeError:
        # Its rule for Czech "-li" steps a list as if it were an iterator (0.2.0).
        return str(sacremoses.MosesDetokenizer("").detokenize(tokens, unescape=False))


@dataclass(frozen=True)
class Tokeniser(Knobs):
    """Cut lines into words, and join words to lines.

    ``joined``: Moses' tokens, with `JOIN` where two of them touched. A line comes back exactly.
    ``moses``: Moses' bare tokens, the paper's pipeline. A line comes back as Moses' detokeniser
    guesses it, which is exact where the line is spaced the way that detokeniser spaces.
    ``whitespace``: what stands between spaces, for text that is tokenised already, and for scripts
    without spaces. A line comes back exactly.
    """

    language: Annotated[str, "code of the language whose rules apply, such as de"] = "en"
    kind: Annotated[Kind, "joined (exact), moses (the paper's) or whitespace"] = "joined"
    lowercase: Annotated[bool, "lower-case words, after cutting by case as Moses does"] = False

    def keys(self, line: str) -> list[str]:
        """Cut a normalised line into keys, each of which `cut` turns into words by itself."""
        if self.kind != "whitespace":
            return moses(self.language).keys(line)
        return line.split(" ") if line else []

    def cut(self, key: str) -> list[str]:
        """Give the words of one key."""
        if self.kind == "whitespace":
            words = [key]
        else:
            words = moses(self.language).tokens(key)
            if self.kind == "joined":
                text = key[1:] if key[0] == " " else key.partition(" ")[0]
                words = moses(self.language).mark_joins(text, words)
        return [cleaning.lower(word) for word in words] if self.lowercase else words

    def words(self, line: str) -> list[str]:
        """Give the words of any line."""
        return [word for key in self.keys(cleaning.normalise(line)) for word in self.cuts[key]]

    def tokens(self, line: str) -> str:
        """Give the tokenised view of any line, as papers score it: bare tokens and spaces."""
        line = cleaning.normalise(line)
        if self.kind != "whitespace":
            line = moses(self.language).tokenise(line)
        return cleaning.lower(line) if self.lowercase else line

    def line(self, words: str) -> str:
        """Turn words joined by spaces back into a line."""
        if self.kind == "moses":
            return detokenise(words.split(), self.language)
        if self.kind == "joined":
            words = words.replace(" " + JOIN, "").replace(JOIN + " ", "").replace(JOIN, "")
        return words

    @functools.cached_property
    def cuts(self) -> "Memo[list[str]]":
        """Remember the words of each key."""
        return Memo(self.cut)

    def __reduce__(self) -> tuple[Any, tuple[str, Kind, bool]]:
        # What was memoised stays behind when a tokeniser is handed to another process, and what is
        # memoised there serves all that are handed over.
        return _unpacked, (self.language, self.kind, self.lowercase)

    def fold(self, keys: Counter[str]) -> Counter[str]:
        """Turn counts of keys into counts of words."""
        counts: Counter[str] = Counter()
        for key, n in keys.items():
            for word in self.cuts[key]:
                counts[word] += n
        return counts

    def count(self, lines: Iterable[str]) -> Counter[str]:
        """Count the words of lines; memory follows the number of different words.

        Counts of parts of a corpus, made anywhere, add up to the counts of the whole.
        """
        counts: Counter[str] = Counter()
        keys: Counter[str] = Counter()

        def fold() -> None:
            counts.update(self.fold(keys))
            keys.clear()

        source = iter(lines)
        while block := list(itertools.islice(source, 1024)):
            keys_of = (self.keys(cleaning.normalise(line)) for line in block)
            keys.update(itertools.chain.from_iterable(keys_of))
            if len(keys) > Memo.ENTRIES:
                fold()
        fold()
        return counts


@functools.cache
def _unpacked(language: str, kind: Kind, lowercase: bool) -> Tokeniser:
    return Tokeniser(language, kind, lowercase)
