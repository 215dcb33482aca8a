"""A page in a browser, as tests look at it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

SERIOUS = ("serious", "critical")


class Opener:
    """Opens pages in contexts of their own, and notes what they should not do."""

    def __init__(self, browser: Browser, *, axe: str) -> None:
        self._browser = browser
        self._axe = axe
        self._contexts: list[BrowserContext] = []
        self.complaints: list[str] = []
        """Errors of scripts, refusals of the policy, and requests for anything but the page itself, or its server."""

    def open(self, address: str | Path, **settings: Any) -> Page:
        """A page by its file or address; `settings` are those of a browser's context (viewport, color_scheme)."""
        context = self._browser.new_context(**settings)
        self._contexts.append(context)
        page = context.new_page()
        url = address.as_uri() if isinstance(address, Path) else address
        page.on("console", lambda message: self._note(message.type == "error", message.text))
        page.on("pageerror", lambda error: self._note(True, str(error)))
        own = url.partition("?")[0] if isinstance(address, Path) else f"{'/'.join(url.split('/')[:3])}/"
        page.on("request", lambda request: self._note(not request.url.startswith(own), request.url))
        page.goto(url)
        return page

    def findings(self, page: Page) -> list[str]:
        """What axe finds that is serious, a line each. Its script is evaluated beside the page's policy."""
        page.evaluate(Path(self._axe).read_text(encoding="utf-8"))
        found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        return [
            f"{one['id']}: {node['html'][:200]}"
            for one in found["violations"]
            if one["impact"] in SERIOUS
            for node in one["nodes"]
        ]

    def close(self) -> None:
        for context in self._contexts:
            context.close()

    def _note(self, is_wrong: bool, text: str) -> None:
        if is_wrong:
            self.complaints.append(text)
