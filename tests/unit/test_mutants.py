"""`make mutants`: its table of tests, its list of mutants that need none, and how a mutant is tried."""

from __future__ import annotations

import os
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from scripts.mutant_list import Mutant, Reviewed, read_answers
from scripts.mutant_trials import Copy, Record, Result, Verdict
from tests.conftest import ROOT
from tests.doubles.waiting import until

ANSWERS = read_answers()
TESTS = ("tests/test_sums.py",)
SOUND = "def total(most):\n    number = 0\n    while number < most:\n        number += 1\n    return number\n"
SUMS = """
import os, pathlib, subprocess
from planner.sums import total

children = []

def test_total():
    child = subprocess.Popen(["sleep", "600"])
    children.append(child)
    pathlib.Path(__file__).with_name("child").write_text(str(child.pid))
    assert total(3) == 3
"""


def test_every_module_that_is_changed_and_every_test_that_answers_for_one_is_there() -> None:
    named = {*ANSWERS.tests, *(words.split()[0] for tests in ANSWERS.tests.values() for words in tests)}
    assert [name for name in sorted(named) if not (ROOT / name).is_file()] == []


@pytest.mark.parametrize("folder", ["providers/agent"])
def test_every_module_of_the_agent_is_changed(folder: str) -> None:
    modules = {path.relative_to(ROOT).as_posix() for path in (ROOT / folder).glob("*.py")}
    assert modules - set(ANSWERS.tests) == {f"{folder}/__init__.py"}


@pytest.mark.parametrize("reviewed", ANSWERS.reviewed, ids=lambda reviewed: reviewed.was[:40])
def test_a_mutant_that_needs_no_test_is_one_of_the_code_as_it_is(reviewed: Reviewed) -> None:
    modules = [module for module in ANSWERS.tests if fnmatchcase(module, reviewed.module)]
    lines = {line.strip() for module in modules for line in (ROOT / module).read_text(encoding="utf-8").splitlines()}
    assert set(reviewed.was.splitlines()) <= lines
    assert reviewed.was != reviewed.becomes
    assert reviewed.why.endswith(".")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project of one function and one test, which leaves a process behind that keeps its output open."""
    for folder in ("planner", "tests"):
        (tmp_path / folder).mkdir()
    (tmp_path / "planner" / "__init__.py").touch()
    (tmp_path / "planner" / "sums.py").write_text(SOUND)
    (tmp_path / TESTS[0]).write_text(SUMS)
    return tmp_path


def a_mutant(was: str, becomes: str) -> Mutant:
    return Mutant("planner/sums.py", 1, "Operator", was, becomes, SOUND.replace(was, becomes))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("was", "becomes", "verdict", "by"),
    [
        ("number = 0", "number = 4", Verdict.KILLED, "tests/test_sums.py::test_total"),
        ("number += 1", "number += 0", Verdict.TIMED_OUT, TESTS[0]),
        ("number < most", "number != most", Verdict.SURVIVED, ""),
    ],
)
def test_a_mutant_is_killed_by_a_test_that_fails_or_does_not_end(
    project: Path, was: str, becomes: str, verdict: Verdict, by: str
) -> None:
    with Copy(project, spare_processor_seconds=0) as copy:
        result = copy.trial(a_mutant(was, becomes), TESTS)
        child = int((copy.tree / "tests" / "child").read_text())
    assert (result.verdict, result.by) == (verdict, by)
    assert (project / "planner" / "sums.py").read_text() == SOUND
    until(lambda: not _lives(child), "what the test has started is ended with it")


def _lives(process: int) -> bool:
    """Whether it runs; one that has ended and that nobody has asked about yet does not."""
    try:
        os.kill(process, 0)
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (ProcessLookupError, FileNotFoundError):
        return False
    return state != "Z"


@pytest.mark.slow
def test_tests_that_fail_without_a_change_say_nothing_of_a_mutant(project: Path) -> None:
    (project / TESTS[0]).write_text("def test_never():\n    assert False\n")
    with Copy(project) as copy, pytest.raises(SystemExit, match="fails without any change"):
        copy.trial(a_mutant("number = 0", "number = 4"), TESTS)


@pytest.mark.parametrize(("verdict", "still"), [(Verdict.KILLED, True), (Verdict.SURVIVED, False)])
def test_a_result_is_kept_and_a_survivor_is_tried_again_when_its_tests_have_changed(
    project: Path, verdict: Verdict, still: bool
) -> None:
    mutant = a_mutant("number = 0", "number = 4")
    results = project / "results" / "of.jsonl"
    record = Record(results, project)
    assert record.result(mutant, TESTS) is None
    record.add(
        Result(mutant.key, mutant.module, 1, "Operator", mutant.was, mutant.becomes, verdict, "", 1.0,
               record.digest(TESTS))
    )  # fmt: skip
    again = Record(results, project)
    assert again.result(mutant, TESTS) is not None
    assert again.result(replace(mutant, source="another"), TESTS) is None
    (project / TESTS[0]).write_text("def test_more():\n    assert True\n")
    assert (again.result(mutant, TESTS) is not None) is still
