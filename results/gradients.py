"""Compare gradients of real neighbours with those of their samples: `results/gradients.py FOLDER`.

The method replaces the gradient of a neighbour's loss by that of its sample's, times a number ψ
that rises with the sample's loss. Here both are taken: training pairs of `rivals`, beside
themselves rewritten by its three augmenters, under plain models after a few epochs and at their
best. Models and pairs are made in FOLDER, and found there the second time; the tables go to
`results/fitted/gradients.md`, a part of that plan's page.
"""

import dataclasses
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import stats
from torch import Tensor

from augless import augmentation, data, decoding, losses, polar, recipes, runs, trials
from augless.recipes import following
from augless.recipes.recipe import Recipe
from augless.trials.spelling import written

RESULTS = Path(__file__).parent
SEEDS = 31, 32
EARLY = 3
METHODS = "word edits", "masked-LM", "back-translation"
OTHER_SOURCE, OTHER_PAIR = "same target, another source", "another pair as long"
LAWS = {
    "hard": polar.WEIGHTINGS["exponential"](strength=8.0, radius=4.0),
    "easy": polar.WEIGHTINGS["falling"](strength=8.0, radius=2.0),
}
FITTED = polar.WEIGHTINGS["empirical"](neighbours=RESULTS / "neighbours" / "word-edits.json")
BATCH, BATCHES, DRAWS = 16, 20, 200
SINGLE = ["", "cosine", "multiple", "lowest", "highest", "rank correlation", "with the sentence's"]
WHOLE = ["", "equal", "best"] + [
    f"{name}{of}" for of in ("", ", per token") for name in ("hard", "shuffled", "easy")
]
SAID = f"""### Gradients of real neighbours

{BATCH * BATCHES} of 2,000 training pairs of Multi30k De-En under {len(SEEDS)} plain models, beside
what three augmenters made of their sources: gradients of the loss (the sum over a sentence's
tokens) by all parameters, without dropout. *Cosine*: of the made pair's gradient with the sample's.
*Multiple*: the coefficient of its projection on the sample's gradient, which the method calls dΦ/dL
and has rise with the loss; *lowest* and *highest*: its mean over the fifths of pairs with the
lowest and the highest loss per token; then its rank correlation (Spearman's) with the loss per
token and with the sentence's loss, with 95 % intervals (bootstrap over pairs). *Fitted law*: what
the law of this page, fitted to measured radii and angles of word edits, has in its place.
"""
OF_BATCHES = f"""Batches of {BATCH}: the cosine of the gradient of samples and made pairs together
with that of the samples alone, weighed equally, and what other weights add to it. *Best*: weights
that least squares fits to the made pairs of the batch themselves. *Hard* and *easy*: exact laws of
strength 8 (radii of 4 and 2), by the sentence's loss and by that per token; *shuffled*: the weights
of *hard*, given to other samples of the batch. Intervals of 95 % over {BATCHES} batches.
"""
Rows = NDArray[np.int64]
Floats = NDArray[np.float64]
Found = dict[str, tuple[Floats, Floats]]
"""what was beside samples -> of each pair, and of each batch"""


def main(folder: str) -> None:
    """Make what is needed, measure, and write the tables."""
    plan = trials.Plan.load(str(RESULTS / "rivals.toml"))
    (base,) = plan.recipes.values()
    place = following.Place(prepared=Path(folder) / "data", runs=Path(folder) / "runs")
    made: dict[str, augmentation.Augmented] = {}
    for method in METHODS:
        overrides = written(base.overrides | plan.methods[method].overrides)
        resolved = recipes.load(base.recipe, overrides)
        following.train_needs(resolved, place)
        if (done := following.augment(resolved, place)) is not None:
            made[method] = done
    singles, batches = [SAID, *head(SINGLE)], [OF_BATCHES, *head(WHOLE)]
    for early in (True, False):
        found = []
        for seed in SEEDS:
            resolved = recipes.load(base.recipe, [*written(base.overrides), f"seed={seed}"])
            run = young(resolved, place) if early else following.train(resolved, place)[0]
            found.append(measured(following.writer(run.folder, device="cpu"), made))
        when = f"after {EARLY} epochs" if early else "at the best epoch"
        for name in found[0]:
            each, whole = (np.stack([one[name][part] for one in found]) for part in (0, 1))
            singles.append(line([f"{name}, {when}", *single(each)]))
            if name in METHODS:
                batches.append(line([f"{name}, {when}", *over(whole.mean(0))]))
        psi = np.stack([with_law(one[METHODS[0]][0]) for one in found])
        singles.append(line([f"fitted law, {when}", "", *list(single(psi))[1:]]))
    text = "\n".join([*singles, "", *batches, ""])
    (RESULTS / "fitted" / "gradients.md").write_text(text, encoding="utf-8")


def young(resolved: recipes.reading.Resolved[Recipe], place: following.Place) -> runs.Run:
    """Train for a few of a run's epochs."""
    seen: list[int] = []
    place = dataclasses.replace(
        place,
        runs=place.runs / "young",
        stop=lambda: EARLY in seen,
        on_record=lambda record: seen.append(record.epoch) if record.kind == "epoch" else None,
    )
    home = following.home(resolved, place)
    return runs.Run.open(home) if home.exists() else following.train(resolved, place)[0]


def measured(writer: decoding.Writer, made: dict[str, augmentation.Augmented]) -> Found:
    """Return cosine, multiple and both losses of each pair, (4, N), and cosines of batches."""
    samples, beside = paired(writer, made)
    rows = np.linspace(0, len(samples) - 1, BATCH * BATCHES).astype(np.int64)
    rows = np.random.default_rng(0).permutation(rows)
    loss = losses_of(writer, samples, rows)
    per_token = loss / (samples.target.lengths[rows] + 1)
    each: dict[str, list[Floats]] = {name: [] for name in beside}
    whole: dict[str, list[Floats]] = {name: [] for name in beside}
    for start in range(0, len(rows), BATCH):
        part = slice(start, start + BATCH)
        own = gradients(writer, samples, rows[part])
        for name, pairs in beside.items():
            theirs = gradients(writer, pairs, rows[part])
            inner = (own * theirs).sum(1)
            cosine, multiple = (
                inner / (own.norm(dim=1) * theirs.norm(dim=1)),
                inner / own.norm(dim=1) ** 2,
            )
            values = cosine.numpy(), multiple.numpy(), per_token[part], loss[part]
            each[name].append(np.stack(values).astype(float))
            scales = (loss[part], loss.mean()), (per_token[part], per_token.mean())
            whole[name].append(cosines(own, own.sum(0) + theirs.sum(0), scales))
    return {name: (np.concatenate(each[name], 1), np.array(whole[name])) for name in beside}


def cosines(own: Tensor, wanted: Tensor, scales: tuple[tuple[Floats, float], ...]) -> Floats:
    """Return a batch's row of the second table: a cosine, and what weights add to it."""
    products, along = (own @ own.T).double(), (own @ wanted).double()
    length, draws = wanted.double().norm(), np.random.default_rng(0)

    def cosine(weights: Tensor) -> float:
        return float(weights @ along / (weights @ products @ weights).sqrt() / length)

    equal = cosine(torch.ones(BATCH).double())
    found = [equal, cosine(torch.linalg.solve(products, along)) - equal]
    for values, mean in scales:
        hard, easy = (law(torch.from_numpy(values).double(), float(mean)) for law in LAWS.values())
        mixed = [cosine(hard[torch.from_numpy(draws.permutation(BATCH))]) for _ in range(DRAWS)]
        found += [one - equal for one in (cosine(hard), float(np.mean(mixed)), cosine(easy))]
    return np.array(found)


def paired(
    writer: decoding.Writer, made: dict[str, augmentation.Augmented]
) -> tuple[data.Pairs, dict[str, data.Pairs]]:
    """Read samples that every augmenter changed, and what to lay beside them."""
    sources: dict[str, dict[int, str]] = {}
    originals: list[tuple[str, str]] = []
    for method, corpus in made.items():
        one, other = corpus.manifest.languages
        rows = list(corpus.rows())
        originals = [(row[one], row[other]) for row in rows if "of" not in row]
        changed = (row for row in rows if "of" in row and row[one] != originals[row["of"]][0])
        sources[method] = {row["of"]: row[one] for row in changed}
    kept = sorted(set.intersection(*map(set, sources.values())))
    own, target = ([originals[place][side] for place in kept] for side in (0, 1))
    lengths = np.array([len(line) for line in writer.codecs[1].encode_lines(target)])
    order = np.argsort(lengths, kind="stable")
    neighbour = np.empty_like(order)
    neighbour[order] = np.roll(order, 1)  # another one, about as long
    others = [own[place] for place in neighbour]
    beside: dict[str, tuple[list[str], list[str]]] = {
        method: ([of[place] for place in kept], target) for method, of in sources.items()
    }
    beside[OTHER_SOURCE] = others, target
    beside[OTHER_PAIR] = others, [target[place] for place in neighbour]
    return coded(writer, own, target), {n: coded(writer, *texts) for n, texts in beside.items()}


def coded(writer: decoding.Writer, source: list[str], target: list[str]) -> data.Pairs:
    """Return pairs as a model reads them."""
    sides = zip(writer.codecs, (source, target), strict=True)
    one, other = (data.Ragged.of(codec.encode_lines(lines)) for codec, lines in sides)
    return data.Pairs(one, other, np.ones(len(source), np.float32))


def losses_of(writer: decoding.Writer, pairs: data.Pairs, rows: Rows) -> Floats:
    """Return the losses of some pairs."""
    batch = data.collate(pairs, rows)
    with torch.no_grad():
        found: Floats = losses.CrossEntropy()(writer.model(batch), batch).double().numpy()
    return found


def gradients(writer: decoding.Writer, pairs: data.Pairs, rows: Rows) -> Tensor:
    """Return the gradient of each pair's loss by all parameters, (N, P)."""
    found = []
    for row in rows:
        batch = data.collate(pairs, np.array([row]))
        loss = losses.CrossEntropy()(writer.model(batch), batch).sum()
        parts = torch.autograd.grad(loss, [*writer.model.parameters()])
        found.append(torch.cat([part.flatten() for part in parts]))
    return torch.stack(found)


def with_law(each: Floats) -> Floats:
    """Put what the fitted law says in place of the multiple."""
    each = each.copy()
    each[1] = FITTED.slope(torch.from_numpy(each[2] / each[2].mean())).numpy()
    return each


def single(each: Floats) -> Iterator[str]:
    """Write a row of the first table: of (seeds, 4, N)."""
    fifth = each.shape[2] // 5
    order = np.argsort(each[:, 2], axis=1)
    sorted_by_loss = np.take_along_axis(each[:, 1], order, axis=1)
    parts = each[:, 0], each[:, 1], sorted_by_loss[:, :fifth], sorted_by_loss[:, -fifth:]
    yield from (signed(f"{values.mean() + 0.0:.2f} ").strip() for values in parts)
    draws = np.random.default_rng(0).integers(0, each.shape[2], (1000, each.shape[2]))
    for by in (2, 3):
        again = [correlation(each[:, :, draw], by) for draw in draws]
        low, high = np.quantile(again, [0.025, 0.975])
        yield signed(f"{correlation(each, by):+.2f} ({low:+.2f} to {high:+.2f})")


def correlation(each: Floats, by: int) -> float:
    """Return the rank correlation of the multiple with a loss, its mean over seeds."""
    return float(np.mean([stats.spearmanr(one[1], one[by]).statistic for one in each]))


def over(whole: Floats) -> Iterator[str]:
    """Write a row of the second table, of (batches, columns)."""
    mean, spread = whole.mean(0), np.asarray(stats.sem(whole))
    yield f"{mean[0]:.3f}"
    for m, half in zip(mean[1:], stats.t.ppf(0.975, len(whole) - 1) * spread[1:], strict=True):
        yield signed(f"{m:+.3f} ± {half:.3f}")


def signed(text: str) -> str:
    """Write minus signs as such, and none before 0."""
    for sign in "+-":
        text = text.replace(f"{sign}0.000", "0.000").replace(f"{sign}0.00 ", "0.00 ")
    return text.replace("-", "\N{MINUS SIGN}")


def head(cells: list[str]) -> list[str]:
    """Write the head of a Markdown table."""
    return [line(cells), line(["---", *["---:"] * (len(cells) - 1)])]


def line(cells: list[str]) -> str:
    """Write a row of a Markdown table."""
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main(*sys.argv[1:])
