"""The page that tells one estimate (planner/forecast/__init__.py) has the figures that the product computes."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

import trainplan.planner.forecast
from tests.conftest import ROOT
from trainplan.planner.planning.build_plan import PlanQuery, make_plan
from trainplan.planner.report.explain import explain
from trainplan.planner.settings import load_settings
from trainplan.workloads.jobfile import read_job

PAGE = " ".join((trainplan.planner.forecast.__doc__ or "").split())
FIGURES = {
    "4,492,800 images": "4,492,800 images over the throughput",
    "0.4 GiB of the 15.8 GiB": "0.4 GiB of 15.8 GiB for 128 images a device",
    "8,877 images/s": "8,876.8 images/s over all devices, modelled",
    "from 5,171 to 15,239": "80 % interval 5,170.8 to 15,238.9",
    "24 vCPU can supply 975,039 images/s (780,031 to 1,267,551)": "975,039 images/s (780,031 to 1,267,551): images",
    "450 s to boot, 90 s for the image": "boot 450 s (300 to 600), image 90 s (60 to 135), framework",
    "9m 47s": "setup 9m 47s",
    "8m 43s": "training 8m 43s",
    "19m 30s": "total without interruptions 19m 30s",
    "15m to 28m": "(15m to 28m), 1,187 s expected",
    "one interruption in 15 h": "one interruption in 15h of availability, measured",
    "0.022 expected interruptions": "0.022 interruptions expected",
    "19m 43s are billed": "expected: 19m 47s, of which billed 19m 43s",
    "0.312 USD/h of the 0.298": "$0.298/h, stale, 2026-07-01",
    "733 s at 0.312214 USD/h cost 0.0636 USD": "compute $0.0636: 733 s at $0.312214/h",
    "disk (0.0045)": "disk $0.0045",
    "address (0.0016)": "address $0.0016",
    "transfer (0.0072)": "transfer $0.0072",
    "regions (0.00)": "between regions $0.00",
    "0.0536 and 0.15 USD": "total $0.0769 ($0.0536 to $0.15",
}
"""Words of the page, and the line of `plan estimate --explain` that they rest on."""


@pytest.fixture(scope="module")
def explanation(tmp_path_factory: pytest.TempPathFactory) -> str:
    home: Path = tmp_path_factory.mktemp("home")
    settings = load_settings({"PLAN_HOME": str(home)}, home / "no-settings.toml")
    job = read_job(ROOT / "examples" / "vgg16-cifar10.yaml")
    plan = make_plan(job, PlanQuery(limit=1), settings, datetime(2026, 11, 23, tzinfo=UTC))
    return " ".join(explain(plan, plan.candidates[0]).split())


@pytest.mark.parametrize("words", FIGURES)
def test_a_figure_of_the_page_is_the_products(words: str, explanation: str) -> None:
    assert words in PAGE
    assert FIGURES[words] in explanation
