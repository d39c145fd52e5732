"""Compare gradients of real neighbours with those of their samples: `results/gradients.py FOLDER`.

The method replaces the gradient of a neighbour by that of its sample, times a number that rises
with the sample's loss. Here both are taken: training pairs of `rivals`, beside themselves rewritten
by its three augmenters, under plain models early in training and at their best. Models and pairs
are made in FOLDER, and found there the second time; the tables go to
`results/fitted/gradients.md`, a part of that plan's page.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import stats
from torch import Tensor

from augless import augmentation, data, decoding, losses, polar, recipes, trials
from augless.recipes import following
from augless.trials.spelling import written

RESULTS = Path(__file__).parent
SEEDS = 31, 32
EPOCHS = {"after 3 epochs": 3, "at its best epoch": 17}
WEAK, STRONG = (
    polar.WEIGHTINGS["exponential"](strength=strength, radius=radius)
    for strength, radius in ((1.0, 1.0), (8.0, 4.0))
)
LAWS = ["weak", "strong", "weak, per token", "strong, per token"]
BATCH, BATCHES = 16, 20
SINGLE = ["", "pairs", "cosine", "multiple", "lowest", "highest", "by token", "by sentence"]
UNRELATED = "another pair of its length"
SAID = f"""### Gradients of real neighbours

{BATCH * BATCHES} of 2,000 training pairs of Multi30k De-En under {len(SEEDS)} plain models, beside
what three augmenters made of them: gradients of the loss (the sum over a sentence's tokens) by all
parameters, without dropout. *Cosine*: of a made pair's gradient with its own sample's. *Multiple*:
how often the sample's gradient is in the made pair's, which is the method's ψ; the method has it
rise with the loss. Its mean over all pairs, over the fifth of them with the lowest loss per token
and over that with the highest; and its correlation (Spearman's) with the loss per token and with
the sentence's loss.
"""
OF_BATCHES = f"""Over batches of {BATCH}: the cosine of the made pairs' summed gradient with that of
their samples, weighed equally, and what weights by an exact law add to it (strength 1 and radius 1,
or 8 and 4; of the sentence's loss or of that per token). *Best*: what the best weights would add,
which least squares finds for each batch from the made pairs themselves. Intervals of 95 % over
{BATCHES * len(SEEDS)} batches.
"""
Rows = NDArray[np.int64]
Floats = NDArray[np.float64]


def main(folder: str) -> None:
    """Make what is needed, measure, and write the tables."""
    plan = trials.Plan.load(str(RESULTS / "rivals.toml"))
    (base,) = plan.recipes.values()
    place = following.Place(prepared=Path(folder) / "data", runs=Path(folder) / "runs")
    made: dict[str, augmentation.Augmented] = {}
    for method in ("word edits", "masked-LM", "back-translation"):
        overrides = written(base.overrides | plan.methods[method].overrides)
        resolved = recipes.load(base.recipe, overrides)
        following.train_needs(resolved, place)
        if (done := following.augment(resolved, place)) is not None:
            made[method] = done
    singles, batches = [head(SINGLE)], [head(["", "equal", *LAWS, "best"])]
    for when, epochs in EPOCHS.items():
        writers = []
        for seed in SEEDS:
            overrides = [*written(base.overrides), f"training.epochs={epochs}", f"seed={seed}"]
            run, _ = following.train(recipes.load(base.recipe, overrides), place)
            writers.append(following.writer(run.folder, device="cpu"))
        for method, corpus in made.items():
            found = [measured(writer, *paired(writer, corpus)) for writer in writers]
            name = f"{method}, {when}"
            singles.append(line([name, *single(np.concatenate([one for one, _ in found], 1))]))
            batches.append(line([name, *over(np.concatenate([two for _, two in found]))]))
        found = [measured(writer, *beside(writer, corpus)) for writer in writers]
        apart = np.concatenate([one for one, _ in found], 1)
        singles.append(line([f"{UNRELATED}, {when}", *single(apart)]))
    text = "\n".join([SAID, *singles, "", OF_BATCHES, *batches, ""])
    (RESULTS / "fitted" / "gradients.md").write_text(text, encoding="utf-8")


def measured(
    writer: decoding.Writer, originals: data.Pairs, others: data.Pairs
) -> tuple[Floats, Floats]:
    """Return cosine, multiple and losses of each pair, (4, N), and cosines of each batch."""
    rows = np.linspace(0, len(originals) - 1, BATCH * BATCHES).astype(np.int64)
    rows = np.random.default_rng(0).permutation(rows)
    all_losses = losses_of(writer, originals, rows)
    mean, mean_per_token = all_losses.mean(), (all_losses / lengths(originals, rows)).mean()
    each, whole = [], []
    for part in np.split(rows, BATCHES):
        own, loss = gradients(writer, originals, part)
        theirs, _ = gradients(writer, others, part)
        inner = (own * theirs).sum(1)
        cosine = inner / (own.norm(dim=1) * theirs.norm(dim=1))
        per_token = loss / lengths(originals, part)
        each.append(torch.stack([cosine, inner / (own**2).sum(1), per_token, loss]).numpy())
        wanted = theirs.sum(0)
        equal = along(torch.ones(BATCH), own, wanted)
        laws = [
            along(law(values, values_mean), own, wanted) - equal
            for values, values_mean in ((loss, mean), (per_token, mean_per_token))
            for law in (WEAK, STRONG)
        ]
        best = torch.linalg.lstsq(own.T.double(), wanted.double()[:, None]).solution[:, 0]
        whole.append([equal, *laws, along(best.float(), own, wanted) - equal])
    return np.concatenate(each, 1).astype(float), np.array(whole)


def paired(writer: decoding.Writer, made: augmentation.Augmented) -> tuple[data.Pairs, data.Pairs]:
    """Read samples, and the made pairs that differ from them."""
    rows, names = list(made.rows()), made.manifest.languages
    both = [
        [str(row[name]) for row in (rows[other["of"]], other) for name in names]
        for other in rows
        if "of" in other
    ]
    columns = zip(*(texts for texts in both if texts[:2] != texts[2:]), strict=True)
    sides = [
        data.Ragged.of(writer.codecs[place % 2].encode_lines(list(lines)))
        for place, lines in enumerate(columns)
    ]
    ones = np.ones(len(sides[0]), np.float32)
    return data.Pairs(sides[0], sides[1], ones), data.Pairs(sides[2], sides[3], ones)


def beside(writer: decoding.Writer, made: augmentation.Augmented) -> tuple[data.Pairs, data.Pairs]:
    """Read samples, and beside each another one whose target is as long."""
    pairs, _ = paired(writer, made)
    order = np.argsort(pairs.target.lengths, kind="stable")
    return taken(pairs, order[:-1]), taken(pairs, order[1:])


def taken(pairs: data.Pairs, rows: Rows) -> data.Pairs:
    """Return some pairs."""
    source, target = (
        data.Ragged.of([side[int(row)] for row in rows]) for side in (pairs.source, pairs.target)
    )
    return data.Pairs(source, target, pairs.weight[rows])


def lengths(pairs: data.Pairs, rows: Rows) -> Tensor:
    """Return how many tokens targets have, the end among them."""
    return torch.from_numpy(pairs.target.lengths[rows] + 1)


def losses_of(writer: decoding.Writer, pairs: data.Pairs, rows: Rows) -> Tensor:
    """Return the losses of some pairs."""
    batch = data.collate(pairs, rows)
    with torch.no_grad():
        return losses.CrossEntropy()(writer.model.eval()(batch), batch)


def gradients(writer: decoding.Writer, pairs: data.Pairs, rows: Rows) -> tuple[Tensor, Tensor]:
    """Return the gradient of each pair's loss by all parameters, (N, P), and the losses."""
    model, found, values = writer.model.eval(), [], []
    parameters = [one for one in model.parameters() if one.requires_grad]
    for row in rows:
        batch = data.collate(pairs, np.array([row]))
        loss = losses.CrossEntropy()(model(batch), batch).sum()
        parts = torch.autograd.grad(loss, parameters)
        found.append(torch.cat([part.flatten() for part in parts]))
        values.append(loss.detach())
    return torch.stack(found), torch.stack(values)


def along(weights: Tensor, own: Tensor, wanted: Tensor) -> float:
    """Return the cosine of a weighted sum with what is wanted."""
    return float(torch.cosine_similarity(weights.float() @ own, wanted, dim=0))


def single(found: Floats) -> Iterator[str]:
    """Write a row of the first table."""
    cosine, multiple, per_token, loss = found
    order = np.argsort(per_token)
    fifth = len(order) // 5
    yield str(found.shape[1])
    for values in (cosine, multiple, multiple[order[:fifth]], multiple[order[-fifth:]]):
        yield f"{values.mean():.2f}"
    for by in (per_token, loss):
        yield f"{stats.spearmanr(multiple, by).statistic:+.2f}".replace("-", "\N{MINUS SIGN}")


def over(found: Floats) -> Iterator[str]:
    """Write a row of the second table."""
    mean, half = found.mean(0), 1.96 * found.std(0, ddof=1) / np.sqrt(len(found))
    yield f"{mean[0]:.3f}"
    for m, h in zip(mean[1:], half[1:], strict=True):
        said = f"{m:+.3f}".replace("-0.000", "0.000").replace("+0.000", "0.000")
        yield f"{said} ± {h:.3f}".replace("-", "\N{MINUS SIGN}")


def head(cells: list[str]) -> str:
    """Write the head of a Markdown table."""
    return line(cells) + "\n" + line(["---", *["---:"] * (len(cells) - 1)])


def line(cells: list[str]) -> str:
    """Write a row of a Markdown table."""
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main(*sys.argv[1:])
