"""What all tests share: examples that are the same every time, and no deadline on slow machines."""

import os
import shutil

import pytest
from hypothesis import settings

settings.register_profile("steady", deadline=None, derandomize=True, database=None)
settings.load_profile("steady")

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


@pytest.fixture(scope="module")
def browser():
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    paths = [os.environ.get("AUGLESS_CHROMIUM"), *map(shutil.which, NAMES)]
    path = next(filter(None, paths), None)
    if path is None:
        pytest.skip(f"there is no Chromium on the path: none of {', '.join(NAMES)}")
    with sync_api.sync_playwright() as playwright:
        # A container seldom lets Chromium build its sandbox; the page is our own.
        launched = playwright.chromium.launch(
            executable_path=path, args=["--no-sandbox"], timeout=180_000
        )
        yield launched
        launched.close()
