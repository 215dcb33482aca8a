"""What `plan launch` does with live prices: what it shows, when it asks again, and where it does not go."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path

import pytest

from tests.desk import TINY, signed_out
from tests.doubles import fake_cloud
from tests.doubles.clock import FakeClock
from tests.doubles.fake_cloud import FakeCloud
from tests.doubles.fake_machine import done_at_once, ended_at_once
from tests.unit.planner.cli.command import CommandResult, plan
from trainplan.planner.clock import SystemClock
from trainplan.planner.runs.targets import agreed
from trainplan.pricing.offers import Offer
from trainplan.providers import registry
from trainplan.providers.base import Check, EndKind, PreflightState, ProviderSettings

JOB = f"{TINY}constraints: {{devices: [T4], regions: [us-east-1], markets: [on_demand]}}\n"


@pytest.fixture(autouse=True)
def aws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCloud]:
    """One cloud, which somebody is signed in to, and whose machines are done before anybody looks."""
    signed_out(monkeypatch)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PLAN_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("AWS_PROFILE", "work")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.yaml").write_text(JOB)
    for name in ("gcp", "azure", "sim"):
        monkeypatch.delitem(registry.FACTORIES, name, raising=False)
    monkeypatch.setitem(registry.FACTORIES, "aws", fake_cloud.FACTORY)
    made = FakeCloud(FakeClock(SystemClock().now()), [done_at_once], tidy=True)
    fake_cloud.CLOUDS.append(made)
    yield made
    fake_cloud.CLOUDS.remove(made)


def times(factor: str) -> Callable[[Offer], dict[str, str]]:
    """Everything costs so many times what the catalog says."""
    return lambda offer: {"": str(agreed(offer) * Decimal(factor))}


class Terminal(io.StringIO):
    """Somebody who types one line for each question; `before` happens while they think."""

    def __init__(self, answers: str, before: Callable[[], None] = lambda: None) -> None:
        super().__init__(answers)
        self._before = before
        self._read, self._write = os.pipe()

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        """Where the next line can be read by now; the end of input after the last one."""
        self._before()
        line = self.readline()
        if line:
            os.write(self._write, line.encode())
        elif self._write >= 0:
            os.close(self._write)
            self._write = -1
        return self._read

    def __del__(self) -> None:
        for number in (self._read, self._write):
            if number >= 0:
                os.close(number)


def launch(*more: object) -> CommandResult:
    return plan("launch", "job.yaml", "--yes", *more)


def test_the_live_price_is_what_is_shown_and_paid(aws: FakeCloud) -> None:
    aws.live = times("0.5")
    said = launch("--json")
    assert (said.code, said.error) == (0, "")
    paid = aws.received[0].offer
    assert f" at ${paid.usd_per_hour:.3f}/h (observed {paid.price_as_of}): " in said.err
    assert (paid.instance_type, paid.price_grade) == ("g4dn.xlarge", "observed")
    assert aws.count("refine") == 1  # the first create comes at once


@pytest.mark.parametrize(("factor", "code"), [("1.09", 0), ("1.2", 4)])
def test_yes_does_not_cover_a_price_that_is_a_tenth_above(aws: FakeCloud, factor: str, code: int) -> None:
    aws.live = times(factor)
    said = launch()
    assert said.code == code
    if code:
        assert said.error.startswith("g4dn.xlarge (on demand) in us-east-1 costs $")
        assert said.error.endswith(" that was shown")
        assert "20% above" in said.error
        assert "--yes does not cover that" in said.hint
        assert (aws.received, plan("history", "--json").json) == ([], [])


@pytest.mark.parametrize(("answer", "code", "launched"), [("y\n", 0, 1), ("n\n", 130, 0), ("\n", 130, 0)])
def test_a_person_may_agree_to_it(
    aws: FakeCloud, monkeypatch: pytest.MonkeyPatch, answer: str, code: int, launched: int
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal(answer))
    aws.live = times("1.2")
    said = launch()
    assert "20% above" in said.err
    assert (said.code, len(aws.received)) == (code, launched)


def test_an_answer_that_took_its_time_is_asked_again(aws: FakeCloud, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prices have risen while the person was thinking: the second question says by how much."""

    def thinking() -> None:
        aws.clock.advance(600)
        aws.live = times("1.5")

    monkeypatch.setattr("sys.stdin", Terminal("y\nn\n", thinking))
    said = plan("launch", "job.yaml")
    assert "50% above" in said.err
    assert (said.code, aws.received, plan("history", "--json").json) == (130, [], [])
    aws.live = lambda _: None
    monkeypatch.setattr("sys.stdin", Terminal("y\ny\n", thinking))
    assert (plan("launch", "job.yaml").code, len(aws.received)) == (0, 1)


def test_a_later_attempt_passes_over_a_placement_that_has_become_dear(aws: FakeCloud) -> None:
    """The machine is taken back, and everything costs twice as much by then: the run waits, and ends."""
    aws.live = times("1")

    def taken(machine: object) -> Iterator[object]:
        aws.live = times("2")
        aws.clock.advance(600)
        yield from ended_at_once(EndKind.RECLAIMED)(machine)  # type: ignore[arg-type]

    aws.scripts = [taken]  # type: ignore[list-item]
    said = launch("--json", "--deadline", "2h")
    assert (said.code, len(aws.received)) == (5, 1)
    assert ", 100% above the $" in said.err
    assert said.json["outcome"] == "no_capacity"


def test_a_dry_run_is_at_live_prices_and_asks_nothing(aws: FakeCloud) -> None:
    aws.live = times("2")
    said = plan("launch", "job.yaml", "--dry-run")
    assert (said.code, aws.received) == (0, [])
    assert said.err.startswith("would be sent to aws g4dn.")
    assert aws.count("refine") >= 1


def test_a_cloud_that_does_not_let_us_in_is_left_out(
    aws: FakeCloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Google would be cheaper, and its keys are of nobody; it ends its T4 on a day that comes."""
    nobody = Check(name="identity", state=PreflightState.REFUSED, detail="the keys are of nobody", fix="sign in")
    gcp = FakeCloud(FakeClock(), name="gcp", judge=lambda _: (nobody,))

    def make(settings: ProviderSettings) -> FakeCloud:
        return gcp

    monkeypatch.setattr(fake_cloud, "make_gcp", make, raising=False)
    monkeypatch.setitem(registry.FACTORIES, "gcp", f"{fake_cloud.__name__}:make_gcp")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/nowhere")
    (tmp_path / "job.yaml").write_text(JOB.replace("regions: [us-east-1]", "regions: [us-east-1, us-central1]"))
    said = launch("--json", "--allow-retired")
    assert (said.code, said.error) == (0, "")
    assert "gcp: left out: identity: the keys are of nobody (sign in)\n" in said.err
    assert (len(aws.received), gcp.received) == (1, [])
    aws.judge = lambda _: (nobody,)
    again = launch("--fresh", "--allow-retired")
    nobody_text = "identity: the keys are of nobody (sign in)"
    assert again.code == 4
    assert sorted(again.error.split("; ")) == [f"aws: {nobody_text}", f"gcp: {nobody_text}"]


def test_a_cloud_that_does_not_let_us_in_is_told_before_anything_is_asked(aws: FakeCloud) -> None:
    nobody = Check(name="identity", state=PreflightState.REFUSED, detail="the keys are of nobody", fix="sign in")
    aws.judge = lambda _: (nobody,)
    said = plan("launch", "job.yaml", "--provider", "aws")
    assert (said.code, said.error) == (4, "aws: identity: the keys are of nobody (sign in)")
    assert said.hint == "plan doctor shows what is missing"
    assert aws.count("refine") == 0


def test_a_cloud_that_nobody_is_signed_in_to_is_left_out(aws: FakeCloud, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.FACTORIES, "gcp", "nowhere:never")
    said = launch("--json")
    assert (said.code, said.error) == (0, "")
    assert "not signed in, left out: gcp\n" in said.err


def test_a_first_placement_that_cannot_take_us_is_passed_over(aws: FakeCloud) -> None:
    """The cheapest machine has no image, and its region is fine."""

    def judge(offer: Offer) -> tuple[Check, ...]:
        state = PreflightState.REFUSED if offer.instance_type == "g4dn.xlarge" else PreflightState.OK
        return (Check(name="image", state=state, detail="there is none", fix="bring one"),)

    aws.judge = judge
    said = launch("--json")
    assert said.code == 4  # what is left costs well above what was shown
    assert "g4dn.xlarge (on demand) in us-east-1 at $0.526/h: image: there is none (bring one): passed over" in said.err
    assert said.error.startswith("the cheapest costs $")
    aws.judge = lambda _: (Check(name="network", state=PreflightState.REFUSED, detail="there is none"),)
    again = launch("--json")
    assert (again.code, again.error) == (4, "network: there is none")


def test_a_launch_that_could_pass_the_months_budget_makes_nothing(
    aws: FakeCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    aws.live = times("1")
    monkeypatch.setenv("PLAN_BUDGET_USD_PER_MONTH", "0.01")
    said = launch()
    assert (said.code, aws.received, plan("history", "--json").json) == (4, [], [])
    assert "this launch may cost up to $" in said.error
    monkeypatch.setenv("PLAN_BUDGET_USD_PER_MONTH", "100")
    assert (launch().code, len(aws.received)) == (0, 1)
