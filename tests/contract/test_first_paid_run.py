"""docs/first-paid-run.md: its commands, in their order, on an AWS account on its first day."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract.aws_command import at_a_desk
from tests.contract.aws_scenes import FIRST_DAY
from tests.doubles.aws.remote import Double
from tests.page_commands import blocks
from tests.unit.planner.cli.command import CommandResult, plan
from trainplan.planner.errors import ExitCode

pytestmark = pytest.mark.slow


def done(words: list[str]) -> CommandResult:
    """The answer to what is asked is yes."""
    return plan(*words, *(["--yes"] if words[0] in ("launch", "setup") and "--dry-run" not in words else []))


def test_from_the_doctor_to_what_bills(aws: Double, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at_a_desk(aws, tmp_path, monkeypatch)
    aws.reset(**FIRST_DAY)
    (block,) = blocks("docs/first-paid-run.md")
    assert [words for words in block if words[0] == "burn" or "--alarm" in words] == [block[2], block[-1]]
    # Both want permissions that whoever launches does not have: tests/unit/providers/aws test them.
    doctor, setup, init, dry, launch, status = [done(words) for words in block if words not in (block[2], block[-1])]
    assert doctor.code == ExitCode.REFUSED, "a new account lacks what plan setup makes"
    assert "quotas" in doctor.out
    assert "plan setup aws" in doctor.out
    for result in (setup, init, dry, launch, status):
        assert result.code == ExitCode.OK, (result.out, result.err)
    assert "RunInstances" in dry.out + dry.err
    assert "nothing is left" in launch.err + launch.out
    assert "receipt of " in launch.out
    assert aws.remaining() == []
    assert "no active runs" in status.out + status.err
