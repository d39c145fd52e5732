"""The reliability table says no more than the ledger does."""

import ast
import json
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_the_table_has_every_row_and_claims_no_more_than_was_tried():
    ledger = json.loads((ROOT / "soak/ledger.json").read_text("utf-8"))
    table = (ROOT / "docs/reliability.md").read_text("utf-8")
    rows = re.findall(r"^\| `(\w+)` \|.*\| ([\d,]+) \| (\d+) \|$", table, re.MULTILINE)
    tree = ast.parse((ROOT / "soak/soak.py").read_text("utf-8"))
    made = next(
        node.value
        for node in tree.body
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "ROWS"
    )
    assert isinstance(made, ast.Dict)
    assert [name for name, _, _ in rows] == [ast.literal_eval(key) for key in made.keys]
    for name, tried, failed in rows:
        assert 0 < int(tried.replace(",", "")) <= ledger[name]["tried"]
        assert int(failed) == ledger[name]["failed"]
