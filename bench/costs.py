"""What methods cost until there is a result, in processor seconds and samples, beside plain ones.

    python bench/costs.py --data FOLDER [--languages de,en] [--pairs 3000] [--epochs N]

FOLDER holds train.de, valid.de, test.de and so on, plain or compressed; without it, the generated
corpus is taken. Every method trains the model that `augless` suggests for so many pairs, on one
thread, for the same number of epochs. They take turns, an epoch each, so that a busy moment hits
all; counted is processor time. First what a method needs is done: the reverse model, made pairs, a
small BERT trained on the corpus. Nothing is tuned and no test set is decoded.
"""

import argparse
import itertools
import statistics
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

METHODS = {
    "plain": [],
    "a law": ['terms.0.weighting={name = "exponential", normalise = "running-mean"}'],
    "masked-LM": ["augment=masked-lm"],
    "back-translation": ["augment=back-translation"],
    "R-Drop": ['terms=[{}, {loss = "r-drop"}]'],
}


@dataclass
class Side:
    """A method at work, and what its run said at the end of each epoch."""

    resolved: Any
    epochs: list[Any] = field(default_factory=list)
    finished: bool = False

    def epoch(self, place: Any) -> None:
        """Train one epoch more."""
        from augless.recipes import following

        before = len(self.epochs)

        def heard(record: Any) -> None:
            if record.kind == "epoch":
                self.epochs.append(record)

        once = replace(place, stop=lambda: len(self.epochs) > before, on_record=heard)
        _, self.finished = following.train(self.resolved, once)

    @property
    def seconds(self) -> float:
        """Seconds of an epoch with its validation, the median."""
        spent = [0.0, *(record.seconds for record in self.epochs)]
        return statistics.median(b - a for a, b in itertools.pairwise(spent))

    @property
    def samples(self) -> float:
        """Samples of an epoch."""
        return self.epochs[-1].samples / len(self.epochs)

    @property
    def needed(self) -> dict[str, Any]:
        """What was done before, by what it was."""
        return self.epochs[-1].needed

    @property
    def total(self) -> tuple[float, float]:
        """Seconds and samples of all of it; rewriting trains nothing."""
        last = self.epochs[-1]
        seconds = last.seconds + sum(one.seconds for one in self.needed.values())
        trained = (one.samples for what, one in self.needed.items() if what != "rewriting")
        return seconds, last.samples + sum(trained)


def prepared(options: argparse.Namespace, place: Any) -> dict[str, Side]:
    """Resolve every method, and do what it needs first."""
    from augless import recipes
    from augless.recipes import following, needing

    recipe, keys = "toy-de-en", [f"corpus.train={options.pairs}"]
    if options.data is not None:
        recipe, keys = "files", [f"corpus.path={options.data}", f"corpus.sample={options.pairs}"]
        keys.append(f"corpus.languages={options.languages}")
    keys += ["training.patience=0", "training.log_every=1000000"]
    keys += [f"training.epochs={options.epochs}"] if options.epochs else []
    sides = {name: Side(recipes.load(recipe, [*keys, *own])) for name, own in METHODS.items()}
    for name, side in sides.items():
        for what, need in needing.needs(side.resolved).items():
            print(f"{name}: training the {what}", flush=True)
            following.train(need, place)
        if side.resolved.recipe.augment is not None:
            print(f"{name}: making pairs", flush=True)
            following.augment(side.resolved, place)
    return sides


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, help="a folder of a corpus; else one is generated")
    parser.add_argument("--languages", default="de,en", help="of the files in it")
    parser.add_argument("--pairs", type=int, default=3000, help="of training")
    parser.add_argument("--epochs", type=int, default=0, help="else as many as are suggested")
    parser.add_argument("--keep", type=Path, help="a folder to work in and to resume from")
    options = parser.parse_args()

    import torch

    from augless.recipes import following

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as temporary:
        root = options.keep or Path(temporary)
        place = following.Place(prepared=root / "data", runs=root / "runs", device="cpu")
        sides = prepared(options, place)
        for number in itertools.count(1):
            turn = [name for name, side in sides.items() if not side.finished]
            if not turn:
                break
            for name in turn:
                sides[name].epoch(place)
            print(f"epoch {number}: {', '.join(turn)}", flush=True)
    plain = sides["plain"]
    print(f"{len(plain.epochs)} epochs of {plain.samples:,.0f} pairs; times plain in brackets")
    print("| method | s an epoch | samples an epoch | s before | s in all | samples in all |")
    print("|---|---|---|---|---|---|")
    for name, side in sides.items():
        seconds, samples = side.total
        ratios = [
            side.seconds / plain.seconds,
            side.samples / plain.samples,
            seconds / plain.total[0],
            samples / plain.total[1],
        ]
        a, b, c, d = (f"({ratio:.2f})" for ratio in ratios)
        before = ", ".join(f"{what} {one.seconds:.0f}" for what, one in side.needed.items())
        print(
            f"| {name} | {side.seconds:.2f} {a} | {side.samples:,.0f} {b} | {before} "
            f"| {seconds:,.0f} {c} | {samples:,.0f} {d} |"
        )


if __name__ == "__main__":
    main()
