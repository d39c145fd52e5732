"""What a run may do that makes it say less than it seems to."""

from __future__ import annotations

from collections.abc import Sequence

from augless import polar
from augless.runs import Caution
from augless.training.terms import Term

# Choice: below this share of the gradient norm a term is as good as not there.
WEAK = 0.01
# Choice: where more steps than this are clipped, most of what a weight does to a step is undone.
OFTEN = 0.5


def cautions(
    terms: Sequence[Term], shares: Sequence[float | None], clipped: float
) -> list[Caution]:
    """Judge an epoch by each term's share of the gradient norm and the share of clipped steps."""
    weak = [
        Caution("weak-term", share, i)
        for i, (term, share) in enumerate(zip(terms, shares, strict=True))
        if share is not None and share < WEAK and term.scale > 0
    ]
    weighs = any(not isinstance(term.weighting, polar.Plain) for term in terms)
    return weak + ([Caution("clipping", clipped)] if weighs and clipped > OFTEN else [])
