"""What a run may do that makes it say less than it seems to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from augless import polar
from augless.training.terms import Term

# Choice: below this share of the gradient norm a term is as good as not there.
WEAK = 0.01
# Choice: where more steps than this are clipped, most of what a weight does to a step is undone.
OFTEN = 0.5


@dataclass(frozen=True)
class Caution:
    """Something to know before believing a run, measured over an epoch."""

    kind: Literal["weak-term", "clipping"]
    share: float
    """of the gradient norm, or of the steps"""
    term: int | None = None
    """which one, counted from 0"""

    def __str__(self) -> str:
        """Say it in one line, with what to do."""
        if self.kind == "weak-term":
            return (
                f"term {self.term} makes {self.share:.2%} of the gradient: it is hardly trained; "
                f"raise terms.{self.term}.scale, or use training.per=token"
            )
        return (
            f"{self.share:.0%} of the steps were clipped, which undoes what the weights of a batch "
            "have in common; raise training.clip, or use training.per=token"
        )


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
