"""One line of raw text to one clean line."""

import functools
import re
import unicodedata

# Written out, not asked of `unicodedata`: a newer Unicode must not change a prepared corpus.
BLANK = re.compile(
    "["
    "\x00-\x20\x7f-\xa0"  # controls (among them VT, FF, CR, U+0085), space, no-break space
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # marks of writing direction
    "\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"  # the other spaces and line ends
    "\u200b\u2060-\u2065\u206a-\u206f\ufeff\ufff9-\ufffb"  # zero width, and not of any spelling
    "]+"
)
_SURROGATE = re.compile("[\ud800-\udfff]")
_MARKS = 256


@functools.cache
def _too_many_marks() -> re.Pattern[str]:
    combining = "".join(c for c in map(chr, range(0x110000)) if unicodedata.combining(c))
    return re.compile(f"[{combining}]{{{_MARKS + 1},}}")


def _compose(line: str) -> str:
    # Composition is quadratic in a run of combining marks: 160,000 of them take half a minute.
    # A grapheme joiner (U+034F) here and there ends the run, as in Unicode's stream-safe format.
    # A run of more than `_MARKS` covers at least one of the characters that far apart.
    if len(line) > _MARKS and any(map(unicodedata.combining, line[::_MARKS])):
        line = _too_many_marks().sub(lambda run: re.sub(".{64}", "\\g<0>\u034f", run[0]), line)
    return unicodedata.normalize("NFC", line)


def normalise(line: str) -> str:
    """Clean one line: composed (NFC), single plain spaces, none at the ends.

    Turned into a space: every control character and white space (CR, U+0085, U+2028, no-break
    spaces ...), the zero-width space, word joiner and byte order mark, direction marks, and the
    invisible operators and annotation marks. Dropped: the soft hyphen, which stands *inside* words.
    Kept: the zero-width joiner and non-joiner, which Persian, the scripts of India and emoji
    spell with, variation selectors and emoji tags. A lone surrogate becomes U+FFFD. Idempotent.
    """
    # `isprintable` is false for all of the above, and is one fast scan.
    if not line.isprintable():
        line = BLANK.sub(" ", line.replace("\u00ad", ""))
        line = _SURROGATE.sub("\ufffd", line)
    if not line.isascii():
        composed = _compose(line)
        # Once more, because it may have taken some marks apart and so lengthened a run.
        line = composed if composed == line else _compose(composed)
    if "  " in line:
        line = " ".join(filter(None, line.split(" ")))
    return line.strip(" ")


def lower(line: str) -> str:
    """Lower-case character by character, so that it does not matter where a line is cut."""
    # Choice: Σ becomes σ also where Greek writes a final ς, as in Moses' own script. It is the
    # only character whose lower case depends on its neighbours.
    return line.replace("\u03a3", "\u03c3").lower()
