"""A page in a real browser (Debian's Chromium); tests/conftest.py opens it."""

import shutil
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
# Without the first two features, no other page draws the address bar's suggestions. The rest are
# off as in Playwright.
OFF = (
    "WebUIOmniboxPopup",
    "WebUIOmniboxAimPopup",
    "AimEnabled",
    "OptimizationHints",
    "PaintHolding",
    "PreconnectToSearch",
)
FLAGS = ["--no-sandbox", "--disable-gpu", f"--disable-features={','.join(OFF)}"]
SCREENS = ((390, "dark"), (1280, "light"))  # a phone, and a laptop
# Contrast takes most of the time. It is checked once per kind: tag, column, class, state and style,
# all the way up.
AXE = r"""() => {
    const kinds = new Map();
    const varied = / (href|for|value|title|aria-label|data-\w+)="[^"]*"/g;
    for (const element of document.body.querySelectorAll("*")) {
        element.removeAttribute("data-again");
        const tag = element.cloneNode().outerHTML.replace(varied, " $1");
        const kind = kinds.get(element.parentElement) + element.cellIndex + tag;
        element.toggleAttribute("data-again", kinds.has(kind));
        kinds.set(element, kind).set(kind);
    }
    axe.configure({ rules: [{ id: "color-contrast", selector: ":not([data-again])" }] });
    return axe.run({ resultTypes: ["violations"] }).then((found) => found.violations);
}"""
FOLLOWED = """(route) => new Promise((done) => {
    if (location.hash === route) done();
    addEventListener("hashchange", done, { once: true });
    location.hash = route;
})"""


class Tab:
    """The only page in a browser: to open another one takes ten times as long as to load it.
    `trouble`: errors in its console, and requests to a network."""

    def __init__(self, browser: Any) -> None:
        self.trouble: list[str] = []
        context = browser.new_context(accept_downloads=True)
        context.set_default_timeout(120_000)  # ms, for a busy machine
        self.page = context.new_page()
        self.page.on("console", self._logged)
        self.page.on("pageerror", lambda error: self.trouble.append(str(error)))
        self.page.on("request", self._requested)

    def _logged(self, message: Any) -> None:
        if message.type == "error":
            self.trouble.append(message.text)

    def _requested(self, request: Any) -> None:
        if not request.url.startswith(("file:", "data:", "blob:", "http://127.0.0.1:")):
            self.trouble.append(f"asked for {request.url}")

    def open(self, path: Path, route: str = "") -> Any:
        self.page.goto(f"file://{path}{route}")
        self.page.wait_for_selector("#nav a[aria-current]")
        return self.page

    def follow(self, route: str) -> Any:
        """Show another view of the open page, with its texts."""
        self.page.evaluate(FOLLOWED, route)
        self.page.wait_for_selector("main >> text=/^(reading|unpacking) …$/", state="detached")
        return self.page

    def violations(self) -> list[Any]:
        """Return the violations of the rules of axe (of contrast and names, for example)."""
        axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
        if self.page.evaluate("typeof axe") == "undefined":
            self.page.evaluate(axe.axe_script)
        found = self.page.evaluate(AXE)
        return [
            (v["id"], v["nodes"][0]["html"][:200], v["nodes"][0]["failureSummary"]) for v in found
        ]

    def fits(self, *routes: str) -> None:
        """Check that views of the open page are no wider than any screen, and accessible."""
        for width, scheme in SCREENS:
            self.page.set_viewport_size({"width": width, "height": 800})
            self.page.emulate_media(color_scheme=scheme)
            for route in routes:
                self.follow(route)
                assert self.page.evaluate("document.documentElement.scrollWidth") <= width, route
                assert not (found := self.violations()), (route, width, found)

    def reset(self) -> None:
        """Forget the last test. Its page stays until the next one is opened, which is faster than
        by way of another."""
        self.page.set_viewport_size({"width": 1280, "height": 720})
        self.page.emulate_media(color_scheme="light")
        self.trouble.clear()
