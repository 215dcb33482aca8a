"""What every test can use: golden files, the collected facts where there are any, and a count of what went without."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from collections.abc import Generator

ROOT = Path(__file__).parent.parent
GOLDEN = ROOT / "tests" / "golden"
SHARED_VARIABLE = "TRAINPLAN_SHARED"

# The same examples on every machine, and no verdict on how fast it is.
settings.register_profile("suite", derandomize=True, deadline=None, database=None)
settings.load_profile("suite")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write what the tests got over the golden files; then read the diff",
    )


@dataclass(frozen=True, slots=True)
class Golden:
    """Texts that are compared with a file, whole; `--update-golden` writes the file."""

    update: bool

    def check(self, path: Path | str, text: str) -> None:
        """`path` is below tests/golden, or absolute."""
        file = GOLDEN / path
        if self.update:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8", newline="\n")
        assert file.is_file(), f"there is no {file}; pytest --update-golden writes it"
        assert text == file.read_text(encoding="utf-8"), (
            f"differs from {file.name}; pytest --update-golden takes it over"
        )


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    return Golden(update=request.config.getoption("--update-golden"))


@pytest.fixture
def facts() -> Path:
    """The folder of collected figures that the tables were carried over from; without it the test is skipped."""
    folder = ROOT / os.environ.get(SHARED_VARIABLE, "../shared") / "facts"
    if not folder.is_dir():
        pytest.skip(f"needs {SHARED_VARIABLE} (looked in {folder})")
    return folder


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, None, None]:
    """The last line of the run, after pytest's own."""
    yield
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None:
        return
    skipped = [report for report in reporter.stats.get("skipped", []) if SHARED_VARIABLE in str(report.longrepr)]
    reporter.write_line(f"skipped for want of shared data: {len(skipped)}")
