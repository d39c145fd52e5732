"""Writes reference.md, the keys of recipes and plans that `augless list` knows: `make figures`."""

import importlib
import io
from pathlib import Path

from augless.cli import describing

HEAD = """# All keys of recipes and plans

Written by `make figures` from the code; `augless list` shows the same. A key is set on the command
line (`augless train toy-de-en training.epochs=5`) or in a recipe's TOML; a plan's likewise
(`augless trial demo seeds=1,2`). Where a choice is named, its own keys follow:
`model=transformer model.layers=3`.
"""

# How the keys of each kind begin, and what they are; in the order of a recipe.
PREFIXES = {
    "recipe": ("", "The recipe"),
    "corpora": ("corpus", "The corpus"),
    "text": ("text", "Text to ids"),
    "vocabularies": ("text.vocabulary", "Vocabularies"),
    "filters": ("text.filters", "Which training pairs are left out"),
    "augmenters": ("augment", "Augmented data"),
    "models": ("model", "Models"),
    "terms": ("terms.0", "The objective: a list of terms"),
    "losses": ("terms.0.loss", "Losses"),
    "weightings": ("terms.0.weighting", "Weightings"),
    "training": ("training", "Training"),
    "optimizers": ("training.optimizer", "Optimisers"),
    "searches": ("search", "Search, and `validation` during training"),
    "plan": ("", "Plans"),
    "method": ("methods.NAME", "Methods of a plan"),
}


def text() -> str:
    """Return the whole reference."""
    out = io.StringIO()
    out.write(HEAD)
    for kind, (prefix, title) in PREFIXES.items():
        module, name = describing.KINDS[kind]
        table = getattr(importlib.import_module(f"augless.{module}"), name)
        out.write(f"\n## {title}\n")
        choices = table if isinstance(table, dict) else {"": table}
        for choice, entry in choices.items():
            described = describing.described(entry)
            if choice:
                out.write(f"\n### `{prefix}={choice}`\n\n{described['meaning']}\n")
            if described["knobs"]:
                out.write("\n| key | default | meaning |\n|---|---|---|\n")
            for knob, said in described["knobs"].items():
                meaning = said["meaning"].replace("|", "\\|")
                default = said["default"] or '""'
                key = f"{prefix}.{knob}".removeprefix(".")
                out.write(f"| `{key}` | `{default}` | {meaning} |\n")
    return out.getvalue()


if __name__ == "__main__":
    Path(__file__).with_name("reference.md").write_text(text(), "utf-8")
