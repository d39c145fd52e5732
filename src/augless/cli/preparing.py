"""The verb prepare."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from augless.cli import options, terminal

if TYPE_CHECKING:
    from augless import data


def prepare(
    recipe: options.Recipe,
    overrides: options.Overrides = None,
    *,
    out: Annotated[Path, "Where prepared corpora are kept."] = options.DATA,
    workers: options.Workers = 1,
    download: Annotated[bool, "Fetch the files of a public corpus first."] = False,
    verbose: options.Verbose = False,
    as_json: options.Json = False,
) -> None:
    """Turn raw parallel text into checked, binarised data.

    Examples:

      augless prepare toy-de-en

      augless prepare multi30k corpus.path=downloads/multi30k --download --workers 2

      augless prepare files corpus.path=mine corpus.languages=de,en text.lowercase=true
    """
    from augless import corpora, data, recipes

    resolved = recipes.preparation(recipe, overrides or [])
    corpus = resolved.recipe.corpus
    if download and not isinstance(corpus, corpora.Published):
        raise recipes.BadRecipe("--download is for public corpora; this one has nothing to fetch")
    if idle := recipes.without_effect(resolved):
        terminal.say(idle)
    with terminal.Progress() as progress:
        if isinstance(corpus, corpora.Published) and download:
            corpus.download(progress)
        prepared = data.prepare(
            corpus,
            resolved.recipe.text,
            out,
            name=resolved.name,
            workers=workers,
            progress=progress,
        )
    if not as_json:
        terminal.print_recipe(resolved.origins, verbose=verbose)
    values = {"folder": str(prepared.folder), **dataclasses.asdict(prepared.manifest)}
    terminal.result(as_json, values, lambda: summary(prepared))
    if not as_json:
        place = () if out == options.DATA else ("--data", out)
        terminal.print_next("augless", "train", recipe, *(overrides or []), *place)


def summary(prepared: data.Prepared) -> str:
    """Say in a few lines what a prepared corpus holds."""
    from augless import data, text

    manifest = prepared.manifest
    rows = [["split", "pairs", "source ids", "target ids", "unknown"]]
    for split, numbers in manifest.statistics.items():
        sides = numbers.source, numbers.target
        counts = (numbers.pairs, *(side.tokens for side in sides))
        unknown = " / ".join(f"{side.unknown:.3%}" for side in sides)
        rows.append([split, *(f"{count:,}" for count in counts), unknown])
    lines = [terminal.table(rows)]
    for split, numbers in manifest.statistics.items():
        reasons = ", ".join(f"{n:,} {reason}" for reason, n in numbers.dropped.items())
        if split == "train" or reasons:
            lines.append(f"{split}: {numbers.read:,} pairs read; dropped: {reasons or 'none'}")
    train = manifest.statistics["train"]
    lines.append(f"training pairs that are in another split too: {train.shared:,}")
    if cut := train.cut_words:
        longest = text.LONGEST_WORD - 1
        lines.append(f"{cut:,} words of more than {longest} characters were cut into parts")
    lines.append(f"vocabulary: {' / '.join(f'{n:,}' for n in manifest.vocabulary)}")
    rules = zip(manifest.languages, (c.tokeniser.language for c in prepared.codecs), strict=True)
    lines += [f"{side}: cut by the rules for {rule!r}" for side, rule in rules if side != rule]
    pairs = prepared.pairs("train")
    share = data.padding_share(pairs, data.batch_rows(pairs, seed=1, epoch=0, tokens=4096))
    lines.append(f"padding in batches of 4,096 tokens: {share:.1%}")
    lines.append(str(prepared.folder))
    return "\n".join(lines)
