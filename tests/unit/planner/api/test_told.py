"""What a call shows in the cell of a notebook: one output that is updated in place, and nothing on standard error."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from trainplan.planner.api.event_lines import Lines
from trainplan.planner.api.job import Job
from trainplan.planner.api.launch import launch
from trainplan.planner.api.plan import estimate
from trainplan.planner.api.told import MOST_BLOCKS, CellOutput, output_of_call, tell
from trainplan.planner.runs.events import PhaseReached, Progressed
from trainplan.planner.runs.run import Phase

EXAMPLES = Path(__file__).parents[4] / "examples"
NOON = datetime(2026, 11, 28, 12, tzinfo=UTC)


class Front:
    """A front end: what it shows in each of its outputs, as `display` of IPython and the handle that it returns."""

    def __init__(self) -> None:
        self.outputs = 0
        self.texts: list[str] = []
        self.html = ""

    def display(self, shown: CellOutput, *, display_id: bool) -> Front:
        assert display_id
        self.outputs += 1
        self.update(shown)
        return self

    def update(self, shown: object) -> None:
        assert isinstance(shown, CellOutput)
        self.texts.append(repr(shown))
        self.html = shown._repr_html_()


def _step(step: int) -> Progressed:
    return Progressed(epoch=1, epochs=1, step=step, total_steps=8, loss=None, accuracy=None, images_per_second=None,
                      eta=None, usd_so_far=Decimal(0), validation_accuracy=None)  # fmt: skip


def test_a_launch_is_one_output_and_no_red_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PLAN_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    front = Front()
    plan = estimate(Job.read(EXAMPLES / "digits-vgg.yaml"), providers=["sim"])
    with output_of_call(front.display):
        run = launch(plan[0], max_cost_usd=3, yes=True)
        run.wait()
    assert capsys.readouterr().err == ""
    assert front.outputs == 1
    last = front.texts[-1].splitlines()
    assert "nothing is left" in last
    assert "training" in "\n".join(last)
    assert any(", step " in text.splitlines()[-1] for text in front.texts), "no progress was shown"
    assert not [line for line in last if ", step " in line], "the progress stays below what came after it"
    assert "<script" not in front.html


def test_progress_is_one_line_that_is_replaced() -> None:
    front, lines = Front(), Lines(lambda: NOON)
    with output_of_call(front.display):
        lines.show(PhaseReached(Phase.RUNNING))
        for step in range(1, 5):
            lines.show(_step(step))
    assert front.texts[-1].splitlines() == ["training", "epoch 1/1, step 4/8, $0.00 so far"]
    assert '<progress value="0.5" max="1">' in front.html
    assert len(front.texts) < 5, "each step was sent on its own"


def test_a_quiet_call_shows_no_events() -> None:
    front = Front()
    with output_of_call(front.display):
        Lines(lambda: NOON, quiet=True).show(_step(1))
    assert front.outputs == 0


def test_what_is_told_is_escaped_and_bounded(capsys: pytest.CaptureFixture[str]) -> None:
    front = Front()
    with output_of_call(front.display):
        for number in range(MOST_BLOCKS + 3):
            tell(f"<b>{number}</b>")
    assert "<b>" not in front.html
    assert f"&lt;b&gt;{MOST_BLOCKS + 2}&lt;/b&gt;" in front.html
    assert front.texts[-1].splitlines()[0] == "(3 earlier lines are not shown)"
    tell("elsewhere a line")
    assert capsys.readouterr().err == "elsewhere a line\n"
