"""A browser for the tests of pages: Debian's Chromium, driven by the playwright client, and axe-core."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.browser.pages import Opener
from tests.conftest import ROOT

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="session")
def installed() -> tuple[str, str]:
    """The browser and axe's script. Without them: a failure when CI=true, else a skip."""
    script = ROOT / "scripts" / "browser.sh"
    ran = subprocess.run([script], capture_output=True, text=True, timeout=600, check=False)
    if ran.returncode:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(f"no browser here: {ran.stderr[-300:]}")
    browser, axe = ran.stdout.split()
    return browser, axe


@pytest.fixture(scope="session")
def browser(installed: tuple[str, str]) -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # Tests may run as root, where Chromium has no sandbox; they open pages of their own alone.
        chromium = playwright.chromium.launch(executable_path=installed[0], args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def opener(browser: Browser, installed: tuple[str, str]) -> Iterator[Opener]:
    """Opens pages; at the end, none may have logged an error or asked for anything beyond itself."""
    made = Opener(browser, axe=installed[1])
    yield made
    made.close()
    assert made.complaints == []
