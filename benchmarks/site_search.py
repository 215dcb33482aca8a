"""Does the site's own search answer a newcomer? Run by `python -m benchmarks.site_search` after `make site`.

Types each of twenty questions into the search of .build/site, as a person would, in Debian's Chromium (`make browser`),
and prints at which place the first page stands that answers it. The questions were written down before the pages were
put in order. Exits with 1 where one is not among the first three.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

SITE = Path(__file__).parent.parent / ".build" / "site"
FIRST = 3
QUESTIONS = {
    "how much will it cost to train my model": ("first-table", "estimate"),
    "can I train for free": ("free-places", "first-free-run"),
    "what happens if I forget to turn off the machine": ("what-can-go-wrong",),
    "can it spend more than I allow": ("what-can-go-wrong",),
    "why is my gpu quota zero": ("what-can-go-wrong",),
    "what is a spot instance and what happens when it is interrupted": ("what-can-go-wrong",),
    "how do I train on my own images": ("data",),
    "how do I use my own model": ("own-network",),
    "can I run my own training script": ("own-script",),
    "is a credit card charged after the run has stopped": ("what-can-go-wrong",),
    "how do I stop a running job": ("what-can-go-wrong", "first-paid-run"),
    "my laptop goes to sleep or loses wifi during training": ("what-can-go-wrong",),
    "how accurate is the estimate": ("accuracy",),
    "how do I use the trained model": ("exports",),
    "how do I sign in to aws": ("clouds/aws", "first-paid-run"),
    "out of memory batch too big": ("training",),
    "how do I train on google colab": ("export-to-places", "free-places"),
    "export to onnx or tflite": ("exports",),
    "try different learning rates": ("sweeps",),
    "does it send my data or usage anywhere": ("installation",),
}
"""A question, and the pages that answer it."""


def main() -> int:
    """Ask them all. Returns 1 where one is not answered among the first three, 2 without a site or a browser."""
    chromium = shutil.which("chromium")
    if chromium is None or not (SITE / "search.html").is_file():
        sys.stderr.write("make site builds the site, make browser installs Chromium\n")
        return 2
    from playwright.sync_api import sync_playwright

    worst = 0
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page()
        for question, answers in QUESTIONS.items():
            hits = found(page, question)
            place = next((place for place, hit in enumerate(hits, 1) if hit in answers), len(hits) + FIRST)
            worst = max(worst, place)
            shown = place if place <= len(hits) else "-"
            sys.stdout.write(f"{shown}  {question}: {', '.join(hits[:FIRST])}\n")
        browser.close()
    return 1 if worst > FIRST else 0


def found(page: Any, question: str) -> list[str]:
    """The pages that the search lists, best first, without `.html`."""
    page.goto(f"{(SITE / 'search.html').as_uri()}?q={quote(question)}")
    # The number of results is told once, before they are shown one after another.
    page.wait_for_function("document.querySelector('.search-summary')?.innerText")
    links = "[...document.querySelectorAll('ul.search > li > a')].map(a => a.getAttribute('href'))"
    return [link.partition(".html")[0] for link in page.evaluate(links)]


if __name__ == "__main__":
    sys.exit(main())
