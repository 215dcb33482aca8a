"""The adapter for the Trainer of transformers, by the calls that a Trainer makes of a callback."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.workloads.test_reporting import Clock, a_run, lines
from trainplan.workloads.reporting import trainplan_run

STEPS = 6


class Trainer:
    """Makes a callback's calls in the order of Trainer (transformers 5): a checkpoint is written before `on_save`."""

    def __init__(self, folder: Path, *, saves_every: int = 0) -> None:
        self.args = SimpleNamespace(output_dir=str(folder))
        self.saves_every = saves_every
        self.callback = trainplan_run.transformers_callback(images=4)

    def train(self, resume_from_checkpoint: str | None = None, *, stop_after: int = STEPS) -> None:
        first = 0 if resume_from_checkpoint is None else int(Path(resume_from_checkpoint, "step").read_text())
        state = SimpleNamespace(global_step=first, max_steps=STEPS, epoch=0.0)
        control = SimpleNamespace(should_save=False)
        self.callback.on_train_begin(self.args, state, control)
        for step in range(first + 1, STEPS + 1):
            state.global_step = step
            control.should_save = bool(self.saves_every) and step % self.saves_every == 0
            assert trainplan_run._run is not None
            trainplan_run._run.is_asked = step - first >= stop_after < STEPS
            self.callback.on_step_end(self.args, state, control)
            self.callback.on_log(self.args, state, control, logs={"loss": 1 / step, "epoch": 0.5})
            if control.should_save:
                written = Path(self.args.output_dir, f"checkpoint-{step}")
                written.mkdir(parents=True)
                (written / "step").write_text(str(step))
                self.callback.on_save(self.args, state, control)


@pytest.fixture
def begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A process of the run begins."""
    module = types.ModuleType("transformers")
    module.__dict__["TrainerCallback"] = object
    monkeypatch.setitem(sys.modules, "transformers", module)
    return lambda: monkeypatch.setattr(trainplan_run, "_run", a_run(tmp_path / "run", Clock()))


def test_it_goes_on_from_where_it_was_stopped(begin: Any, tmp_path: Path) -> None:
    begin()
    assert trainplan_run.transformers_resume() is None
    with pytest.raises(SystemExit) as ended:
        Trainer(tmp_path / "out").train(stop_after=2)
    assert ended.value.code == trainplan_run.EXIT_STOPPED
    assert not [*(tmp_path / "out").iterdir()], "the checkpoint is the run's, and no output"
    begin()
    Trainer(tmp_path / "out").train(trainplan_run.transformers_resume())
    assert trainplan_run._run is not None
    assert (trainplan_run._run.resumed_step, trainplan_run._run.step) == (2, STEPS)
    assert [line["step"] for line in lines(tmp_path / "run") if line["event"] == "checkpoint"] == [2]
    assert lines(tmp_path / "run")[-1]["loss"] == 1 / STEPS


def test_checkpoints_that_the_script_asks_for_are_those_of_the_run_and_stay(begin: Any, tmp_path: Path) -> None:
    begin()
    Trainer(tmp_path / "out", saves_every=3).train()
    assert [line["step"] for line in lines(tmp_path / "run") if line["event"] == "checkpoint"] == [3, 6]
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"checkpoint-3", "checkpoint-6"}
