"""A page in a real browser (Debian's Chromium); tests/conftest.py opens it."""

import shutil
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Tab:
    """A page in the browser. `trouble`: errors in its console, and requests to a network."""

    def __init__(self, browser: Any, **options: Any) -> None:
        self.trouble: list[str] = []
        self._context = browser.new_context(accept_downloads=True, **options)
        self._context.set_default_timeout(120_000)  # ms, for a busy machine
        self.page = self._context.new_page()
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

    def fits(self, axe: Any, path: Path, route: str, width: int) -> None:
        """Check that a view is no wider than its screen, and accessible by the rules of `axe`."""
        shown = self.open(path, route)
        shown.reload()
        shown.wait_for_timeout(150)
        assert shown.evaluate("document.documentElement.scrollWidth") <= width, route
        violations = axe.run(shown).response["violations"]
        found = [(v["id"], v["nodes"][0]["html"][:200], v["nodes"][0]["failureSummary"]) for v in violations]
        assert not found, (route, found)

    def close(self) -> None:
        self._context.close()
