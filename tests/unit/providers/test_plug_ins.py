"""Providers of other packages: what an entry point brings, and that one that is broken is a line and no traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.builders import a_run
from tests.conftest import ROOT
from tests.doubles.clock import NOON
from tests.unit.planner.cli.command import plan
from trainplan.planner.errors import ExitCode
from trainplan.planner.runs.journal.journal import Journal
from trainplan.planner.runs.run import Phase
from trainplan.providers import registry
from trainplan.providers.abilities import Doctor, Timekeeper
from trainplan.providers.errors import InstanceNotFoundError, UnrecognizedError
from trainplan.providers.plug_ins import GROUP, PlugIn, guarded

GOOD = """
from dataclasses import replace
from decimal import Decimal

from trainplan.providers.registry import Vendor
from trainplan.providers.sim.catalogue import RATES as SIM_RATES
from trainplan.providers.sim.provider import SimProvider
from trainplan.providers.sim.provider import make as make_sim

VENDOR = Vendor(name="acme", make="acme_plan:make", rates="acme_plan:RATES")
RATES = SIM_RATES._replace(provider="acme")


class Acme(SimProvider):
    name = "acme"

    def offers(self, query):
        return [replace(offer, provider="acme") for offer in super().offers(query)]


def make(settings):
    sim = make_sim(replace(settings, options={}))
    return Acme(sim.scenario, sim.api)
"""
JOB = ("--model", "vgg16", "--dataset", "cifar10")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("PLAN_HOME", str(tmp_path / "home"))
    registry.found_plug_ins.cache_clear()
    yield tmp_path / "home"
    registry.found_plug_ins.cache_clear()
    for name in ("acme_plan", "other_plan"):
        sys.modules.pop(name, None)


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Puts a package with one module and one entry point where Python finds it, as pip would."""

    def installed(module: str = GOOD, entry: str = "acme = acme_plan:VENDOR", package: str = "acme-plan") -> Path:
        folder = tmp_path / "site" / package
        files = folder / f"{package.replace('-', '_')}-1.0.dist-info"
        files.mkdir(parents=True)
        (files / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (files / "entry_points.txt").write_text(f"[{GROUP}]\n{entry}\n")
        (folder / f"{package.replace('-', '_')}.py").write_text(module)
        monkeypatch.syspath_prepend(folder)
        return folder

    return installed


def test_a_plug_in_is_a_provider_as_others_are(install: Callable[..., Path]) -> None:
    install()
    assert registry.names() == (*registry.FACTORIES, "acme")
    assert registry.clouds() == (*registry.CLOUDS, "acme")
    assert not registry.is_estimated_only("acme")
    assert not registry.is_proven("acme")
    rows = plan("estimate", *JOB, "--provider", "acme", "--provider", "aws", "--json").json["candidates"]
    assert {row["provider"] for row in rows} == {"acme", "aws"}
    assert not any(row.get("launchable") for row in rows)


def test_without_being_asked_for_it_takes_part_where_it_is_set_up(install: Callable[..., Path], home: Path) -> None:
    install()
    assert "acme" not in {row["provider"] for row in plan("estimate", *JOB, "--json").json["candidates"]}
    home.mkdir(exist_ok=True)
    (home / "settings.toml").write_text('[acme]\nregion = "here"\n')
    assert "acme" in {row["provider"] for row in plan("estimate", *JOB, "--json").json["candidates"]}


def test_a_launch_there_says_that_it_is_not_proven(install: Callable[..., Path], tmp_path: Path) -> None:
    install()
    assert plan("init", tmp_path / "job.yaml", *JOB).code == 0
    shown = plan("launch", tmp_path / "job.yaml", "--provider", "acme", "--dry-run")
    assert (
        "acme: no test shows what a launch that breaks off leaves there; look into your account after the run"
        in shown.err.splitlines()
    )
    assert shown.code == ExitCode.OK, shown.err


@pytest.mark.parametrize(
    ("module", "entry", "problem"),
    [
        ("import not_there_at_all", "acme = acme_plan:VENDOR", "ModuleNotFoundError: No module named"),
        ("raise SystemExit(3)", "acme = acme_plan:VENDOR", "SystemExit: 3"),
        ("def (", "acme = acme_plan:VENDOR", "SyntaxError"),
        ("raise ValueError('one\\ntwo')", "acme = acme_plan:VENDOR", "ValueError: one two"),
        ("", "acme = acme_plan:VENDOR", "AttributeError"),
        ("VENDOR = 3", "acme = acme_plan:VENDOR", "acme_plan:VENDOR is not a trainplan.providers.registry.Vendor"),
        (GOOD.replace('name="acme"', 'name="other"'), "acme = acme_plan:VENDOR", "both must be the same"),
        (GOOD.replace('rates="', 'secret_kind="x", rates="'), "acme = acme_plan:VENDOR", "a storage or a secret_kind"),
    ],
)
def test_a_broken_plug_in_is_one_line(install: Callable[..., Path], module: str, entry: str, problem: str) -> None:
    install(module, entry)
    (line,) = registry.plug_in_problems()
    assert line.startswith("provider acme: ")
    assert problem in line
    assert line.endswith(": update or uninstall acme-plan, which brings it")
    assert registry.names() == tuple(registry.FACTORIES)
    for words in (("estimate", *JOB, "--provider", "acme"), ("doctor", "acme")):
        shown = plan(*words)
        assert shown.error.startswith("provider acme cannot be used: ")
        assert shown.hint == "update or uninstall acme-plan, which brings it"


def test_one_whose_prices_nobody_knows_says_so(install: Callable[..., Path]) -> None:
    install(GOOD.replace(', rates="acme_plan:RATES"', ""))
    answer = plan("estimate", *JOB, "--provider", "acme")
    assert (answer.code, answer.error) == (ExitCode.BAD_INPUT, "no prices of 'acme' are known")


def test_commands_over_all_providers_name_a_broken_one_and_go_on(install: Callable[..., Path]) -> None:
    install("VENDOR = 3")
    shown = plan("cleanup")
    assert shown.err.splitlines()[0] == (
        "warning: provider acme: acme_plan:VENDOR is not a trainplan.providers.registry.Vendor: "
        "update or uninstall acme-plan, which brings it"
    )


def test_a_run_whose_plug_in_is_gone_hides_no_other(home: Path) -> None:
    """The package was uninstalled, or this is another environment: its machine may bill, and is told."""
    lost = a_run(Phase.RUNNING, attempts=1, run_id="260101-aaaaaaaa", provider="acme")
    other = a_run(run_id="260101-bbbbbbbb", provider="sim")
    with Journal.open(home / "journal.sqlite") as journal:
        for run in (lost, other):
            journal.add_run(run, "{}", {}, NOON)
    for words in (("status",), ("status", lost.run_id)):
        shown = plan(*words)
        assert shown.code == ExitCode.TEARDOWN_UNVERIFIED
        why = "may still exist, but its provider cannot be read: there is no provider 'acme' to launch on"
        assert shown.error == f"run {lost.run_id} {why}"
        assert shown.hint.startswith("no package that is installed brings it; known: ")
        assert lost.run_id in shown.out
    assert other.run_id in plan("status", other.run_id).out


@pytest.mark.parametrize(
    ("before", "after", "error"),
    [
        ("sim = make_sim(", "raise RuntimeError('no')  # (", "acme_plan:make failed: RuntimeError: no"),
        ("def make(", "def unmade(", "acme_plan:make failed: AttributeError: "),
        ("acme_plan:RATES", "acme_plan:NONE", "acme_plan:NONE failed: AttributeError: "),
        ("in super().offers(query)]", "in 1 / 0]", "offers failed: ZeroDivisionError: division by zero"),
    ],
)
def test_what_fails_when_it_is_used_is_one_line_too(
    install: Callable[..., Path], before: str, after: str, error: str
) -> None:
    install(GOOD.replace(before, after))
    answer = plan("estimate", *JOB, "--provider", "acme")
    assert answer.code != 0
    assert answer.error.startswith(f"provider acme: {error}")
    assert answer.hint == "update or uninstall acme-plan, which brings it"


class Odd:
    """What a stranger's provider may be: with values of its own, generators, and what others do besides."""

    kept = 3

    def __init__(self) -> None:
        self.made = 4

    @property
    def name(self) -> str:
        raise OSError("no\nname")

    def logs(self, ref: str) -> Iterator[str]:
        yield ref
        raise KeyError("lines")

    def get(self, ref: str) -> str:
        raise InstanceNotFoundError(f"{ref} is gone")

    def now(self) -> datetime:
        return NOON

    def sleep(self, seconds: float) -> None:
        del seconds


def test_what_a_plug_ins_provider_raises_becomes_an_error_of_ours() -> None:
    made: Any = guarded(Odd(), PlugIn("odd", "odd-plan", "odd_plan:VENDOR"))
    assert (made.kept, made.made, made.now()) == (3, 4, NOON)
    assert (isinstance(made, Timekeeper), isinstance(made, Doctor)) == (True, False)
    with pytest.raises(UnrecognizedError, match=r"^provider odd: name failed: OSError: no name$"):
        _ = made.name
    lines = made.logs("x")
    assert next(lines) == "x"
    with pytest.raises(UnrecognizedError, match=r"^provider odd: logs failed: KeyError: 'lines'$"):
        next(lines)
    with pytest.raises(InstanceNotFoundError, match=r"^x is gone$"):
        made.get("x")


def test_a_vendor_of_trainplan_stays_what_it_is(install: Callable[..., Path]) -> None:
    install(GOOD.replace('name="acme"', 'name="aws"'), "aws = acme_plan:VENDOR")
    row = registry.vendor("aws")
    assert row is not None
    assert row.make == "trainplan.providers.aws.provider:make"
    assert registry.names() == tuple(registry.FACTORIES)
    (line,) = registry.plug_in_problems()
    assert line.startswith("provider aws: trainplan has a provider of this name")


def test_of_two_packages_with_one_name_neither_is_used(install: Callable[..., Path]) -> None:
    install()
    install(package="other-plan", entry="acme = other_plan:VENDOR")
    assert "acme" not in registry.names()
    (line,) = registry.plug_in_problems()
    assert "acme-plan and other-plan both bring a provider of this name" in line


def test_prices_that_trainplan_knows_are_launched_on_by_a_plug_in(install: Callable[..., Path]) -> None:
    """The way from estimated to launching needs no change here: a package brings the provider for known prices."""
    module = GOOD.replace('"acme"', '"lambda"').replace(', rates="acme_plan:RATES"', "")
    assert registry.is_estimated_only("lambda")
    registry.found_plug_ins.cache_clear()
    install(module, "lambda = acme_plan:VENDOR")
    rows = plan("estimate", *JOB, "--provider", "lambda", "--json").json["candidates"]
    assert rows
    assert not any(row.get("launchable") for row in rows)


def test_what_needs_no_plug_in_reads_none(install: Callable[..., Path], tmp_path: Path) -> None:
    """An estimate, and whatever names its provider, do not look through the environment."""
    folder = install("raise SystemExit(3)")
    code = (
        "import sys; from trainplan.planner.cli.main import run; from trainplan.providers import registry\n"
        f"code = run(['estimate', *{JOB!r}, '--limit', '1', '--provider', 'aws']) or run(['estimate', *{JOB!r}])\n"
        "print('found:', registry.found_plug_ins.cache_info().currsize, code)"
    )
    there = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{folder}", "PLAN_HOME": str(tmp_path / "home")}
    ran = subprocess.run(
        [sys.executable, "-c", code], env=there, capture_output=True, text=True, timeout=120, check=False
    )
    assert ran.stdout.splitlines()[-1] == "found: 0 0", ran.stderr
