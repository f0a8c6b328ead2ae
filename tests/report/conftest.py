"""A real browser for pages, and a page in it."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.helpers.browser import CHROMIUM, Tab


@pytest.fixture(scope="module")  # no longer: while it is open, this thread has an event loop at work
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("needs Chromium: apt-get install chromium")
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=flags)
        yield chromium
        chromium.close()


@pytest.fixture
def tab(browser: Any) -> Iterator[Tab]:
    made = Tab(browser)
    yield made
    made.close()
    assert made.trouble == [], made.trouble
