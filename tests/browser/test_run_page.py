"""The page of `plan report RUN --html` in a browser: nothing that is from elsewhere runs, keys and small screens do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.planner.report.test_run_page import a_document, an_epoch
from trainplan.planner.report.run_page import run_page

if TYPE_CHECKING:
    from pathlib import Path

    from tests.browser.pages import Opener

RUNS = (
    "</title></style></script><script>window.ran = 1</script><img src=x onerror='window.ran = 1'>"
    "<svg onload='window.ran = 1'>\" onfocus='window.ran = 1' autofocus x=\"javascript:window.ran=1"
)


def written(folder: Path, **changes: Any) -> Path:
    file = folder / "report.html"
    epochs = [an_epoch(number, loss=3 / number, learning_rate=0.1 / number) for number in range(1, 41)]
    file.write_text(run_page(a_document(**{"epochs": epochs} | changes)), encoding="utf-8")
    return file


def test_a_hostile_name_runs_no_script(opener: Opener, tmp_path: Path) -> None:
    page = opener.open(written(tmp_path, text=RUNS))
    assert page.evaluate("window.ran") is None
    assert page.locator("img, iframe, object, embed").count() == 0
    assert RUNS in page.locator("h1").inner_text()


@pytest.mark.parametrize("color_scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(opener: Opener, tmp_path: Path, color_scheme: str) -> None:
    page = opener.open(written(tmp_path), color_scheme=color_scheme)
    for summary in page.locator("summary").all():
        summary.click()
    assert opener.findings(page) == []


def test_a_narrow_screen_scrolls_in_one_direction(opener: Opener, tmp_path: Path) -> None:
    page = opener.open(written(tmp_path), viewport={"width": 400, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 400


def test_a_curve_is_read_with_the_keyboard_alone(opener: Opener, tmp_path: Path) -> None:
    page = opener.open(written(tmp_path))
    for _ in range(12):
        page.keyboard.press("Tab")
        if page.locator(".spot:focus").count():
            break
    told = page.locator("figure .tip").first
    assert told.inner_text().startswith("epoch 1: training 3")
    page.keyboard.press("End")
    assert told.inner_text() == "epoch 40: test images 0.4" or told.inner_text().startswith("epoch 40: ")


def test_it_reads_without_scripts(opener: Opener, tmp_path: Path) -> None:
    page = opener.open(written(tmp_path), java_script_enabled=False)
    assert "is trained" in page.locator(".answer").inner_text()
    assert page.locator("table").count() >= 4
