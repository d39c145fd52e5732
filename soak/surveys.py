"""The rows `survey` and `blinding`: what the survey's server tells whom."""

import os
import random
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path


def server(seed: int) -> Iterator[bool]:
    """Yield, for each climbing address, foreign host or origin and payload, whether it got in."""
    import test_survey_page as page
    import test_survey_serving as quick

    chance = random.Random(f"survey {seed}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "canary.txt").write_text(quick.CANARY)
        with quick.Served(quick.made(folder / "survey")) as here:
            failed = quick.traversals_failed(here, chance, 500)
            yield from _told("survey", failed, 500)
            for host in quick.HOSTS:
                status, _, _ = here.ask(
                    "/api/state", token=here.token(), host=host.format(port=here.port) or " "
                )
                yield status != 403
            for origin in ("https://evil.example", "null", "file://", "http://127.0.0.1"):
                headers = [("Origin", origin)]
                yield here.ask("/api/state", token=here.token(), headers=headers)[0] != 403
            for path in quick.PATHS:
                yield here.ask(path)[0] != 401
        if seed % 10 == 0:  # a browser takes longer
            payloads = page.payloads()
            did, seen = _browsed(page, folder / "payloads", payloads)
            yield from _told("survey", did, len(payloads))
            yield seen != sorted(payloads)


def blinding(seed: int) -> Iterator[bool]:
    """Yield, for each answer of the server, whether it names a system; then of the positions."""
    from scipy import stats

    import test_survey as designs
    import test_survey_serving as quick

    with (
        tempfile.TemporaryDirectory() as folder,
        quick.Served(quick.blind(Path(folder) / "survey", seed=10 * seed, count=40)) as here,
    ):
        yield from quick.leaks(here)
        design = here.found.design
        for one in design.annotators:
            counts = list(designs.places(design, one).values())
            yield bool(stats.chisquare(counts).pvalue < 0.01)


def _browsed(page: object, folder: Path, payloads: list[str]) -> tuple[list[str], list[str]]:
    from playwright.sync_api import sync_playwright

    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    path = os.environ.get("AUGLESS_CHROMIUM") or next(filter(None, map(shutil.which, names)))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        try:
            return page.xss_failed(browser, folder, payloads)  # type: ignore[attr-defined]
        finally:
            browser.close()


def _told(row: str, failed: list[str], tried: int) -> Iterator[bool]:
    """Yield as many outcomes as were tried, and say which failed."""
    for one in failed:
        print(f"{row}: {one}", file=sys.stderr)
    yield from [True] * len(failed) + [False] * max(0, tried - len(failed))
