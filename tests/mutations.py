"""Documents changed in one to three places, as a clumsy or hostile hand would: for Hypothesis.

A change knows the structure: it takes a place of the document and does to it what its kind of value
suggests (a number beyond all bounds, a key too many, a text that writes to the terminal).
"""

import copy
import json

from hypothesis import strategies as st

DEEP = json.loads("[" * 300 + "]" * 300)
NUMBERS = [0, -1, 1, 10**9, 2**63, 10**400, -(10**30), 0.5, 1e308, -1e308, 1e-320, 1e200, True]
NAMES = [
    "x/../../victim",
    "../victim",
    "/victim",
    "..",
    ".",
    "",
    "a.².b",
    "\x1b[31mred\x1b[0m",
    "\x07\x9b2J",
    "two\nlines",
    "\0",
    "\u2028\u202e",
    "a" * 5_000,
    "=HYPERLINK()",
    "<script>",
    "{{7*7}}",
    "%s%n",
    "\\input{x}",
    "9" * 5_000,
]
OTHERS = [None, [], {}, [[]], {"name": "x"}, DEEP, [None], {"": 0}]
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
)
JUNK = st.sampled_from([*NUMBERS, *NAMES, *OTHERS]) | st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner)
)


def paths(document, here=()):
    """List the places of a document, as keys from its root."""
    places = [here] if here else []
    inside = document.items() if isinstance(document, dict) else ()
    inside = enumerate(document) if isinstance(document, list | tuple) else inside
    for key, value in inside:
        places += paths(value, (*here, key))
    return places


@st.composite
def mutated(draw, document):
    """Draw a document with one to three places changed; what JSON cannot say is not drawn."""
    changed = copy.deepcopy(_plain(document))
    for _ in range(draw(st.integers(1, 3))):
        places = paths(changed)
        if not places:
            return draw(JUNK)
        *holders, last = draw(st.sampled_from(places))
        holder = changed
        for key in holders:
            holder = holder[key]
        _change(draw, holder, last)
    return changed


def _change(draw, holder, key):
    """Change one place of a table or list."""
    value = holder[key]
    kind = draw(st.sampled_from(["fitting", "fitting", "fitting", "junk", "gone", "more", "twice"]))
    if kind == "gone":
        del holder[key]
    elif kind == "more" and isinstance(holder, dict):
        holder[draw(st.sampled_from(NAMES) | st.text(max_size=8))] = copy.deepcopy(draw(JUNK))
    elif kind == "twice" and isinstance(holder, list):
        holder.extend(copy.deepcopy(holder)[: draw(st.integers(0, 5))])
    elif kind == "fitting" and isinstance(value, int | float):
        holder[key] = draw(st.sampled_from(NUMBERS) | st.integers() | st.floats(-1e9, 1e9))
    elif kind == "fitting" and isinstance(value, str):
        holder[key] = draw(st.sampled_from([*NAMES, value.upper(), value[:-1], value + "0"]))
    elif kind == "fitting" and isinstance(value, list):
        holder[key] = value[: draw(st.integers(0, len(value)))]
    else:
        holder[key] = copy.deepcopy(draw(JUNK))  # a later change must not reach the next example


def _plain(document):
    """Return a document as JSON has it."""
    if isinstance(document, dict):
        return {key: _plain(value) for key, value in document.items()}
    return [*map(_plain, document)] if isinstance(document, list | tuple) else document
