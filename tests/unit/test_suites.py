"""Every test belongs to a suite, and the suites' budgets fit into CI's minutes."""

from __future__ import annotations

from tests.conftest import ROOT
from tests.suites import CI_MINUTES, CORES, SET_UP_MINUTES, SUITES, UNKNOWN, suite_of

MODULES = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("test_*.py"))


def test_every_module_belongs_to_a_suite() -> None:
    assert [path for path in MODULES if suite_of(path).path == UNKNOWN] == [], "add a row to tests/suites.py"


def test_every_suite_has_tests() -> None:
    assert {suite.path for suite in SUITES} - {suite_of(path).path for path in MODULES} == {UNKNOWN}


def test_the_longest_path_counts() -> None:
    assert suite_of("tests/faults/test_cloud_points.py").path == "tests/faults/test_cloud_points.py"
    assert suite_of("tests/faults/test_never_back.py").path == "tests/faults"


def test_make_e2e_takes_every_test_with_its_marker_wherever_it_is() -> None:
    _, _, recipe = (ROOT / "Makefile").read_text(encoding="utf-8").partition("\ne2e: ")
    command = recipe.splitlines()[1]
    assert '-m "e2e and not slow_env"' in command
    assert "tests" not in command


def test_a_folder_is_no_beginning_of_a_name() -> None:
    assert suite_of("tests/unittests/test_other.py").path == UNKNOWN


def test_all_budgets_fit_into_what_ci_may_take() -> None:
    assert sum(suite.minutes for suite in SUITES) <= CORES * (CI_MINUTES - SET_UP_MINUTES)
