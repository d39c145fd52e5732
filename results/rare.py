"""Measure how well rare words come out: `python results/rare.py tokens` writes its `rare.md`.

F1 of the words of translations, by how often a word is in the training targets, and the difference
from the baseline, seed by seed. It needs the corpus, and the translations, which runs leave in
`results/NAME/hypotheses/` and which are not committed.
"""

import re
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from augless import corpora, trials

RESULTS = Path(__file__).parent
BANDS = {"never": 0, "1 to 10 times": 10, "11 to 100 times": 100, "more often": 10**9}
SAID = """F1 of the words of translations, times 100, by how often a word is in the training
targets; differences from {}, with 95 % intervals of t tests over seeds, not corrected for their
number:

"""

Seeds = Mapping[int, NDArray[np.float64]]
"""seed -> values, one for each column"""


def main(name: str) -> None:
    """Compare every method of a plan with its baseline."""
    trial = trials.collect(trials.Plan.load(f"{RESULTS / name}/plan.toml"), root=RESULTS / name)
    plan, parts = trial.plan, [SAID.format(trial.plan.baseline)]
    for label, recipe in plan.recipes.items():
        files = recipe.overrides["corpus"]
        corpus = corpora.CORPORA["files"](
            path=Path(files["path"]),
            languages=(*files["languages"],),
            sample=files.get("sample", 0),
        )
        seen = Counter(w for pair in corpus.pairs("train") for w in words(pair.target))
        found: dict[str, dict[int, NDArray[np.float64]]] = {method: {} for method in plan.methods}
        for entry in trial.entries:
            if entry.corpus == label:
                if not (entry.record and entry.record.hypotheses):
                    sys.exit(f"{entry.method}, seed {entry.seed}: its translations are not here.")
                lines = entry.record.hypotheses["test"]
                found[entry.method][entry.seed] = by_rarity(lines, trial.references[label], seen)
        parts += [table(label, [*BANDS], found, plan.baseline, 2), "\n"]
    (RESULTS / name / "rare.md").write_text("".join(parts), encoding="utf-8")


def table(
    label: str, head: list[str], found: Mapping[str, Seeds], baseline: str, digits: int
) -> str:
    """Write the baseline's means, and differences from it with their intervals."""
    lines = [f"| {' | '.join([label, *head])} |", f"| --- |{' ---: |' * len(head)}"]
    base = found[baseline]
    for method, of in found.items():
        cells = [f"{x:.{digits}f}" for x in np.mean([*of.values()], axis=0)]
        if of is not base:
            apart = np.array([of[seed] - base[seed] for seed in base]).T
            cells = [
                f"{x} ({difference(row, digits)})" for x, row in zip(cells, apart, strict=True)
            ]
        lines.append(f"| {' | '.join([method, *cells])} |")
    return "\n".join(lines) + "\n"


def difference(apart: NDArray[np.float64], digits: int) -> str:
    """Write a mean difference with its 95 % interval."""
    mean, half = apart.mean(), stats.t.ppf(0.975, len(apart) - 1) * stats.sem(apart)
    said = f"{mean:+.{digits}f}, {mean - half:+.{digits}f} to {mean + half:+.{digits}f}"
    return said.replace("-", "\N{MINUS SIGN}")


def words(line: str) -> list[str]:
    """Split a line into its words, in small letters."""
    return re.findall(r"\w+", line.lower())


def by_rarity(lines: list[str], references: list[str], seen: Counter[str]) -> NDArray[np.float64]:
    """Return 100 F1 of the words of each band."""
    edges = [*BANDS.values()]
    total = np.zeros((len(BANDS), 2))
    for line, reference in zip(lines, references, strict=True):
        ours, right = Counter(words(line)), Counter(words(reference))
        for counts, column in ((ours & right, 0), (ours, 1), (right, 1)):
            for word, count in counts.items():
                total[np.searchsorted(edges, seen[word]), column] += count
    return np.asarray(200 * total[:, 0] / total[:, 1])


if __name__ == "__main__":
    main(*sys.argv[1:])
