"""What every test can use: golden files, the vendors' doubles, the oracles where there are any.

And what holds for every run: the marker `check`, the order in which modules start, and what is printed at the end.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from tests.faults.seeds import seed_now
from tests.later import go_ahead
from tests.suites import SUITES, Command, suite_of

if TYPE_CHECKING:
    from tests.doubles.aws.remote import Double as AwsDouble
    from tests.doubles.azure.client import Double as AzureDouble
    from tests.doubles.google.process import Google

ROOT = Path(__file__).parent.parent
GOLDEN = ROOT / "tests" / "golden"
SHARED_VARIABLE = "TRAINPLAN_SHARED"

# The same examples on every machine, and no verdict on how fast it is.
settings.register_profile("suite", derandomize=True, deadline=None, database=None)
settings.load_profile("suite")
go_ahead()


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
            f"differs from {file.name}; read the difference, then pytest --update-golden writes what the test got"
        )

    def check_difference(self, path: str, text: str, base_path: str, base: str) -> None:
        """`path` has what is otherwise in `text` than in `base`, which another test compares whole with `base_path`."""
        lines = unified_diff(base.splitlines(), text.splitlines(), base_path, path, lineterm="")
        self.check(path, "\n".join(lines) + "\n")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    return Golden(update=request.config.getoption("--update-golden"))


@pytest.fixture
def oracles() -> Path:
    """The folder of what vendors' libraries and real accounts say, which nobody here wrote; without it the test is
    skipped, and red where CI is set."""
    folder = ROOT / os.environ.get(SHARED_VARIABLE, "../shared") / "oracles"
    if not folder.is_dir():
        said = f"needs {SHARED_VARIABLE} (looked in {folder})"
        if os.environ.get("CI"):
            pytest.fail(said)
        pytest.skip(said)
    return folder


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks what `make check` runs and `make test` does not, and starts the longest suites first."""
    suites = {item.nodeid: suite_of(_module(item.nodeid)) for item in items}
    for item in items:
        in_check = suites[item.nodeid].command is Command.CHECK or item.get_closest_marker("container")
        if in_check and not item.get_closest_marker("sample"):
            item.add_marker(pytest.mark.check)
    items.sort(key=lambda item: SUITES.index(suites[item.nodeid]))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The minutes that each suite took, added up over its tests, beside its budget."""
    seconds: defaultdict[str, float] = defaultdict(float)
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                seconds[suite_of(_module(report.nodeid)).path] += report.duration
    if any(path.startswith("tests/faults") for path in seconds):
        terminalreporter.write_line(str(seed_now()))
    if len(seconds) < 2:
        return
    terminalreporter.section("minutes by suite")
    for suite in SUITES:
        if suite.path in seconds:
            minutes = seconds[suite.path] / 60
            over = "  over its budget" if minutes > suite.minutes else ""
            terminalreporter.write_line(f"{minutes:5.1f} of {suite.minutes:4.1f}  {suite.path}{over}")


def _module(nodeid: str) -> str:
    """Its path, below the repository's root."""
    return nodeid.partition("::")[0]


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, None, None]:
    """The last line of the run, after pytest's own."""
    yield
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None:
        return
    skipped = [report for report in reporter.stats.get("skipped", []) if SHARED_VARIABLE in str(report.longrepr)]
    reporter.write_line(f"skipped for want of shared data: {len(skipped)}")


@pytest.fixture(scope="session")
def aws_process() -> Iterator[AwsDouble]:
    """AWS's double, in a process of its own, for all tests of this one; each begins with a `reset`."""
    from tests.contract.aws import sdk
    from tests.doubles.aws import quick, remote

    quick.read_once()
    with remote.Double() as made:
        yield made
        sdk(made.url).close()


@pytest.fixture(scope="session")
def google() -> Iterator[Google]:
    """Google Cloud's double, likewise."""
    from tests.doubles.google.process import Process

    process = Process()
    yield process
    process.close()


@pytest.fixture(scope="session")
def azure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AzureDouble]:
    """Azure's double, likewise."""
    from tests.doubles.azure.client import Double

    with Double(tmp_path_factory.mktemp("azure")) as made:
        yield made


@pytest.fixture(scope="session")
def tensorflow() -> Any:
    """TensorFlow with the CPU split into two logical devices, so that sharing a batch can be tried.

    That is said once in a process, before anything is computed: whatever computes with TensorFlow here uses this.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    import tensorflow as tf

    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    return tf
