"""AWS policies evaluated by iam-simulate (npm), which has AWS's list of actions, resource types and condition keys."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.conftest import ROOT

if TYPE_CHECKING:
    from tests.doubles.needs import Need

_PROGRAM = ROOT / "tests" / "doubles" / "iam_simulator.mjs"


class Verdict(NamedTuple):
    """`error` where AWS knows no such action, or none on such a resource; `ignored` are keys that it would not see."""

    allowed: bool
    error: str
    ignored: tuple[str, ...]


class Action(NamedTuple):
    """`level` is AWS's: List, Read, Write, Tagging, Permissions management."""

    level: str
    types: tuple[str, ...]


class Decision(NamedTuple):
    verdicts: tuple[Verdict, ...]
    actions: Mapping[str, Action]


def simulated(
    account: str, policies: Mapping[str, Mapping[str, Any]], requests: Sequence[tuple[str, Need]]
) -> Decision:
    """What each role (the name of a policy) is allowed of what it asks for, in one run of node."""
    rows = [
        {"role": role, "action": need.action, "resource": need.resource, "context": dict(need.context)}
        for role, need in requests
    ]
    given = {"modules": _modules(), "account": account, "policies": policies, "asked": rows}
    told = json.loads(_run(json.dumps(given)))
    return Decision(
        tuple(Verdict(row["allowed"], row["error"], tuple(row["ignored"])) for row in told["verdicts"]),
        {name: Action(row["level"], tuple(row["types"])) for name, row in told["actions"].items()},
    )


@cache
def _run(document: str) -> str:
    ran = subprocess.run(
        ["node", str(_PROGRAM)], input=document, capture_output=True, text=True, timeout=300, check=False
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    return ran.stdout


@cache
def _modules() -> str:
    """Without it: a failure when CI=true, else a skip."""
    script = ROOT / "scripts" / "iam_simulator.sh"
    ran = subprocess.run([script], capture_output=True, text=True, timeout=600, check=False)
    if ran.returncode:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(f"no iam-simulate here: {ran.stderr[-300:]}")
    return ran.stdout.strip()
