"""Print how well rare and frequent words come out: `python results/rare.py tokens`.

F1 of the words of translations, by how often a word is in the training targets, and the difference
from the baseline, seed by seed. It needs the corpus, and the translations, which runs leave in
`results/NAME/hypotheses/`, not committed.
"""

import re
import sys
from collections import Counter
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from augless import corpora, trials

BANDS = {"never": 0, "once or twice": 2, "3 to 10": 10, "11 to 100": 100, "more often": 10**9}


def main(name: str) -> None:
    """Compare every method of a plan with its baseline."""
    root = Path(__file__).parent / name
    trial = trials.collect(trials.Plan.load(str(root / "plan.toml")), root=root)
    for label, recipe in trial.plan.recipes.items():
        files = recipe.overrides["corpus"]
        corpus = corpora.CORPORA["files"](
            path=Path(files["path"]), languages=(*files["languages"],), sample=files["sample"]
        )
        seen = Counter(w for pair in corpus.pairs("train") for w in words(pair.target))
        found: dict[str, dict[int, NDArray[np.float64]]] = {}
        for entry in trial.entries:
            if entry.corpus == label and entry.record and entry.record.hypotheses:
                lines = entry.record.hypotheses["test"]
                scores = by_rarity(lines, trial.references[label], seen)
                found.setdefault(entry.method, {})[entry.seed] = scores
        print(f"{label}\n{'':24}" + "".join(f"{band:>24}" for band in BANDS))
        base = found[trial.plan.baseline]
        for method, of in found.items():
            cells = [f"{x:24.2f}" for x in np.mean([*of.values()], axis=0)]
            if of is not base:
                apart = np.array([of[s] - base[s] for s in of if s in base])
                cells = [f"{x:>24}" for x in map(difference, apart.T)]
            print(f"{method:24}" + "".join(cells))


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


def difference(apart: NDArray[np.float64]) -> str:
    """Write a mean difference with its 95 % interval."""
    half = stats.t.ppf(0.975, len(apart) - 1) * apart.std(ddof=1) / np.sqrt(len(apart))
    return f"{apart.mean():+.2f} ({apart.mean() - half:+.2f} to {apart.mean() + half:+.2f})"


if __name__ == "__main__":
    main(*sys.argv[1:])
