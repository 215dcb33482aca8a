"""What a forge reads (.github): the workflow runs what exists, on the versions that the project is for."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from scripts.lock import PYTHONS
from tests.conftest import ROOT
from trainplan.planner.cli.app import commands

WORKFLOW = ROOT / ".github" / "workflows" / "test.yml"
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
FIELDS = {"markdown": {"value"}, "textarea": {"label"}, "input": {"label"}}
"""Kinds of fields of a form, and what each has to have (docs.github.com, "Syntax for GitHub's form schema")."""


@pytest.fixture(scope="module")
def workflow() -> dict[Any, Any]:
    read: dict[Any, Any] = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))
    return read


def test_every_job_has_a_machine_a_limit_and_steps(workflow: dict[Any, Any]) -> None:
    assert set(workflow) == {"name", True, "permissions", "jobs"}, "YAML reads the key `on` as true"
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        assert {"runs-on", "timeout-minutes", "steps"} <= set(job)
        assert all(len({"uses", "run"} & set(step)) == 1 for step in job["steps"])
        named = set(re.findall(r"matrix\.(\w+)", yaml.safe_dump(job)))
        assert named == set(job["strategy"]["matrix"])


def test_it_tests_the_versions_that_are_supported(workflow: dict[Any, Any]) -> None:
    assert tuple(workflow["jobs"]["linux"]["strategy"]["matrix"]["python"]) == PYTHONS
    ends = workflow["jobs"]["installs"]["strategy"]["matrix"]["python"]
    assert ends == [PYTHONS[0], PYTHONS[-1]]


def test_what_it_runs_exists(workflow: dict[Any, Any]) -> None:
    lines = [step["run"] for job in workflow["jobs"].values() for step in job["steps"] if "run" in step]
    targets = re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    made = [line.split()[1] for line in lines if line.startswith("make ")]
    typed = [line.split()[1] for line in lines if line.startswith("plan ")]
    assert made
    assert set(made) <= set(targets)
    assert {word for word in typed if not word.startswith("-")} <= set(commands())


@pytest.mark.parametrize("form", FORMS, ids=lambda path: path.stem)
def test_a_form_has_what_a_forge_needs(form: Any) -> None:
    read = yaml.safe_load(form.read_text(encoding="utf-8"))
    assert set(read) == {"name", "description", "body"}
    assert all(FIELDS[field["type"]] <= set(field["attributes"]) for field in read["body"])
    ids = [field["id"] for field in read["body"] if field["type"] != "markdown"]
    assert len(set(ids)) == len(ids) > 2
