"""Memory of networks with branches beside XLA's plans, and the table of docs/accuracy.md."""

from __future__ import annotations

from scripts.fit.memory import PlannedStep, memory_lines, peak_lines, planned_steps
from scripts.fit.report_text import MEMORY, PEAKS
from tests.conftest import ROOT
from tests.rows import each_row

CHAINS = ("vgg", "alexnet", "lenet")
BRANCHED = [step for step in planned_steps() if not step.net.startswith(CHAINS) and step.precision == "fp32"]


def test_ten_networks_were_compiled() -> None:
    assert len({step.net for step in BRANCHED}) >= 10
    assert {step.optimizer for step in BRANCHED} == {"sgd", "adam"}


@each_row("step", BRANCHED, ids=lambda step: step.title)
def test_memory_is_within_a_tenth_of_what_xla_plans(step: PlannedStep) -> None:
    assert abs(step.error) <= 0.10


def test_the_page_has_the_tables_as_it_is() -> None:
    page = (ROOT / "docs" / "accuracy.md").read_text(encoding="utf-8")
    assert "\n".join(["## Memory", "", MEMORY, *memory_lines(), "", PEAKS, *peak_lines(), ""]) in page
