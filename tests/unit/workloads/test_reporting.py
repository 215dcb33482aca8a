"""What a script tells (workloads/reporting/trainplan_run.py): its rate, its checkpoints, and nothing that breaks it."""

from __future__ import annotations

import ast
import json
import math
import random
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from trainplan.planner.runs.directory.run_directory import LEAST_HALF_WIDTH, PROTOCOL
from trainplan.providers.agent.schema import progress_line
from trainplan.workloads.reporting import trainplan_run

STEPS = 4000


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def a_run(folder: Path, clock: Clock, **environment: str) -> Any:
    return trainplan_run._Run({"TRAINPLAN_RUN_DIR": str(folder), **environment}, clock)


@pytest.fixture
def run(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Any:
    made = a_run(tmp_path, clock)
    monkeypatch.setattr(trainplan_run, "_run", made)
    return made


def lines(folder: Path) -> list[dict[str, Any]]:
    path = folder / "attempts" / "1" / "progress.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def step_seconds(seed: int) -> list[float]:
    """Step times as machines have them: scattered, drifting together, and now and then one that stalls."""
    numbers = random.Random(seed)
    drift, found = 0.0, [5.0]  # the first one compiles
    usual = numbers.uniform(0.02, 2.0)
    for _ in range(STEPS - 1):
        drift = 0.9 * drift + numbers.gauss(0, 0.02)
        stall = numbers.expovariate(0.5) if numbers.random() < 0.01 else 0.0
        found.append(usual * math.exp(drift + numbers.gauss(0, 0.1)) * (1 + stall))
    return found


def test_the_end_is_predicted_within_a_tenth_after_fifty_reports() -> None:
    near = within = 0
    for seed in range(100):
        rate, now = trainplan_run._Rate(), 0.0
        times = step_seconds(seed)
        for step, seconds in enumerate(times[: trainplan_run.REPORTS_OF_A_RATE], 1):
            now += seconds
            rate.add(now, step, 32)
        assert rate.images_per_second is not None
        assert rate.half_width is not None
        left = sum(times[trainplan_run.REPORTS_OF_A_RATE :])
        predicted = (STEPS - trainplan_run.REPORTS_OF_A_RATE) * 32 / rate.images_per_second
        near += abs(now + predicted - (now + left)) <= 0.1 * (now + left)
        within += abs(left / predicted - 1) <= max(rate.half_width, LEAST_HALF_WIDTH)
    assert near >= 80
    assert within >= 80


def test_there_is_no_interval_before_fifty_reports() -> None:
    rate = trainplan_run._Rate()
    for step in range(1, 50):
        rate.add(step * 0.1, step, 8)
    assert rate.images_per_second == pytest.approx(80)
    assert rate.half_width is None
    rate.add(5.0, 50, 8)
    assert rate.half_width == pytest.approx(0, abs=1e-9)


def test_lines_are_those_of_the_protocol(run: Any, clock: Clock, tmp_path: Path) -> None:
    for step in range(1, 61):
        clock.now += 0.5
        trainplan_run.report(step, images=8, total_steps=60, loss=math.nan, accuracy=0.5, note="x" * 5000)
    raw = (tmp_path / "attempts" / "1" / "progress.jsonl").read_bytes().splitlines()
    assert all(progress_line(line) is not None for line in raw)
    start, *steps = lines(tmp_path)
    assert (start["event"], start["total_steps"], start["images"]) == ("start", 60, 480)
    assert start["protocol"] == trainplan_run.PROTOCOL == PROTOCOL
    assert steps[-1]["step"] == 60
    assert steps[-1]["loss"] is None
    assert steps[-1]["images_per_second"] == pytest.approx(16)


def test_a_million_reports_write_few_lines(run: Any, clock: Clock, tmp_path: Path) -> None:
    for step in range(1, 200_001):
        clock.now += 0.0005
        trainplan_run.report(step, images=1, total_steps=200_000)
    assert len(lines(tmp_path)) < 110


@pytest.mark.parametrize("name", ["self", "name", "fields", "reports", "metrics", "event", "half_width", "total_steps"])
def test_a_figure_may_have_any_name(run: Any, tmp_path: Path, name: str) -> None:
    trainplan_run.report(1, images=8)
    trainplan_run.figures(**{name: 7, "loss": 0.5})
    told = lines(tmp_path)[-1]
    assert (told["event"], told["step"], told["reports"], told["loss"]) == ("step", 1, 1, 0.5)


@pytest.mark.parametrize(
    "given", [(-1, 8, None), (1, 0, None), (1, math.nan, None), ("x", 1, None), (1, 8, -3), (None, None, None)]
)
def test_a_report_that_cannot_be_is_not_told(
    run: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], given: Any
) -> None:
    trainplan_run.report(*given)
    assert lines(tmp_path) == []
    assert "not told" in capsys.readouterr().err


def test_a_disk_that_takes_nothing_does_not_end_the_script(
    run: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "attempts").write_text("in the way")
    trainplan_run.report(1, images=8)
    assert "progress cannot be written" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("backend", "loaded", "told"),
    [
        ("tensorflow", ["jax", "tensorflow"], "tensorflow"),  # as Keras loads both where both are installed
        ("jax", ["jax", "tensorflow"], "jax"),
        ("tensorflow", ["torch"], "torch"),
        ("", ["jax"], "jax"),
        ("tensorflow", [], "Python"),
    ],
)
def test_the_framework_is_that_of_the_job_where_several_are_loaded(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backend: str, loaded: list[str], told: str
) -> None:
    monkeypatch.setenv("KERAS_BACKEND", backend)
    for name in ("torch", "jax", "tensorflow"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    for name in loaded:
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    trainplan_run.report(1, images=8)
    assert lines(tmp_path)[0]["framework"] == told


def test_without_plan_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trainplan_run, "_run", trainplan_run._Run({}))
    monkeypatch.chdir(tmp_path)
    trainplan_run.report(1, images=8)
    assert not trainplan_run.should_stop()
    assert trainplan_run.resume_from() is None
    with trainplan_run.checkpoint_folder() as folder:
        (folder / "weights").write_text("w")
    assert list(tmp_path.iterdir()) == []


def test_it_needs_nothing_that_python_3_10_lacks(tmp_path: Path) -> None:
    code = (
        "import datetime, hashlib; del datetime.UTC, hashlib.file_digest\n"
        "import trainplan_run as told; told.report(1, 8, 1)\n"
        "with told.checkpoint_folder() as folder: (folder / 'state').write_text('s')\n"
        "assert told.resume_from()"
    )
    place = {"PYTHONPATH": str(Path(trainplan_run.__file__).parent), "TRAINPLAN_RUN_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", code], env=place, check=True, timeout=60)
    assert [line["event"] for line in lines(tmp_path)] == ["start", "step", "checkpoint"]
    ast.parse(Path(trainplan_run.__file__).read_text(encoding="utf-8"), feature_version=(3, 10))


def checkpoint(step: int, text: str) -> None:
    with trainplan_run.checkpoint_folder(step) as folder:
        (folder / "weights").write_text(text)


def test_the_newest_two_checkpoints_are_kept_and_the_newest_whole_one_is_used(run: Any, tmp_path: Path) -> None:
    for step in (10, 20, 30):
        checkpoint(step, f"of {step}")
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == ["step-00000020", "step-00000030"]
    newest = trainplan_run.resume_from()
    assert newest is not None
    assert (newest / "weights").read_text() == "of 30"
    (newest / "weights").write_text("forged")
    older = trainplan_run.resume_from()
    assert older is not None
    assert older.name == "step-00000020"
    assert run.resumed_step == 20


def test_a_checkpoint_that_breaks_off_leaves_the_older_ones(run: Any, tmp_path: Path) -> None:
    checkpoint(10, "a")
    with pytest.raises(TypeError), trainplan_run.checkpoint_folder(20) as folder:
        (folder / "weights").write_text(b"half")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="plain files"), trainplan_run.checkpoint_folder(30) as folder:
        (folder / "inner").mkdir()
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["step-00000010"]


def test_a_link_is_no_checkpoint(run: Any, tmp_path: Path) -> None:
    checkpoint(10, "a")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "complete.json").write_text(json.dumps({"step": 99, "files": {"x": "y"}}))
    (tmp_path / "checkpoints" / "step-00000099").symlink_to(outside)
    found = trainplan_run.resume_from()
    assert found is not None
    assert found.name == "step-00000010"


def test_a_pilot_keeps_no_checkpoint(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trainplan_run, "_run", a_run(tmp_path, clock, TRAINPLAN_PILOT="1"))
    checkpoint(10, "a")
    assert not (tmp_path / "checkpoints").exists()
    assert [line["event"] for line in lines(tmp_path)] == ["checkpoint"]


class Part:
    """What has a state, as PyTorch's modules do; its value depends on each number that was drawn."""

    def __init__(self) -> None:
        self.value = 0.0

    def state_dict(self) -> dict[str, float]:
        return {"value": self.value}

    def load_state_dict(self, state: dict[str, float]) -> None:
        self.value = state["value"]


@pytest.fixture
def torch_like(monkeypatch: pytest.MonkeyPatch) -> random.Random:
    """As much of PyTorch as the adapter uses, with random numbers of Python's own."""
    import pickle

    numbers = random.Random(3)
    torch = types.ModuleType("torch")
    torch.cuda = types.SimpleNamespace(is_available=lambda: False)  # type: ignore[attr-defined]
    torch.get_rng_state = numbers.getstate  # type: ignore[attr-defined]
    torch.set_rng_state = numbers.setstate  # type: ignore[attr-defined]
    torch.save = lambda value, path: path.write_bytes(pickle.dumps(value))  # type: ignore[attr-defined]
    torch.load = lambda path, **_: pickle.loads(path.read_bytes())  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setattr(trainplan_run, "_loop", None)
    return numbers


class Loader:
    """Batches in a new order for each epoch, as a DataLoader that shuffles has them."""

    def __init__(self, numbers: random.Random) -> None:
        self._numbers = numbers

    def __len__(self) -> int:
        return 7

    def __iter__(self) -> Any:
        order = list(range(7))
        self._numbers.shuffle(order)
        yield from order


def trained(numbers: random.Random, stop_after: int = 10**9) -> Part:
    part, done = Part(), 0
    for epoch in trainplan_run.torch_epochs(3, part=part):
        for batch in trainplan_run.torch_batches(Loader(numbers)):
            part.value = part.value * 1.01 + batch * numbers.random() + epoch
            done += 1
            trainplan_run._run.is_asked = done >= stop_after
    return part


@pytest.mark.parametrize("stop_after", [1, 6, 7, 8, 13, 20])
def test_a_torch_loop_goes_on_to_the_same_weights(
    torch_like: random.Random, tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch, stop_after: int
) -> None:
    monkeypatch.setattr(trainplan_run, "_run", a_run(tmp_path / "whole", clock))
    whole = trained(torch_like)
    torch_like.seed(3)
    monkeypatch.setattr(trainplan_run, "_run", a_run(tmp_path / "parts", clock))
    with pytest.raises(SystemExit) as ended:
        trained(torch_like, stop_after)
    assert ended.value.code == trainplan_run.EXIT_STOPPED
    torch_like.seed(99)  # another process
    monkeypatch.setattr(trainplan_run, "_run", a_run(tmp_path / "parts", clock))
    again = trained(torch_like)
    assert trainplan_run._run.resumed_step == stop_after
    assert again.value == whole.value


PAUSE = {"TRAINPLAN_PAUSE_AT": "1/3", "TRAINPLAN_FIGURE": "score"}


def scored(numbers: random.Random) -> Part:
    """Three epochs of seven batches, each with a test after it."""
    part = Part()
    for epoch in trainplan_run.torch_epochs(3, part=part):
        for batch in trainplan_run.torch_batches(Loader(numbers)):
            part.value = part.value * 1.01 + batch * numbers.random() + epoch
        trainplan_run.figures(score=part.value + numbers.random())
    return part


def test_a_torch_loop_pauses_between_epochs_and_goes_on_to_the_same_weights(
    torch_like: random.Random, tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trainplan_run, "_run", a_run(tmp_path / "whole", clock))
    whole = scored(torch_like)
    torch_like.seed(3)
    monkeypatch.setattr(trainplan_run, "_run", a_run(tmp_path / "parts", clock, **PAUSE))
    with pytest.raises(SystemExit) as ended:
        scored(torch_like)
    assert ended.value.code == trainplan_run.EXIT_STOPPED
    told = [line for line in lines(tmp_path / "parts") if "score" in line]
    assert [line["step"] for line in told] == [7], "a third of 21 steps"
    torch_like.seed(99)  # another process
    monkeypatch.setattr(trainplan_run, "_run", a_run(tmp_path / "parts", clock))
    assert scored(torch_like).value == whole.value
    assert trainplan_run._run.resumed_step == 7


def test_a_trial_pauses_once_it_has_told_its_figure_beyond_its_share(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trainplan_run, "_run", a_run(tmp_path, clock, **PAUSE))
    for step in range(1, 46):
        trainplan_run.report(step, 8, 90, score=step) if step % 15 == 0 else trainplan_run.report(step, 8, 90)
        if trainplan_run.should_stop():
            break
    assert step == 30
    assert lines(tmp_path)[-1]["score"] == 30, "though a line was written a moment ago"


def test_figures_have_their_line_and_many_of_them_few(run: Any, clock: Clock, tmp_path: Path) -> None:
    trainplan_run.report(1, 8, 100, loss=0.5)
    trainplan_run.figures(val_loss=0.25)
    assert lines(tmp_path)[-1]["val_loss"] == 0.25
    for number in range(100_000):
        clock.now += 0.0005
        trainplan_run.figures(val_loss=number)
    assert len(lines(tmp_path)) < 1_100


def test_what_lies_between_two_reports_of_one_step_is_of_the_next() -> None:
    rate = trainplan_run._Rate()
    for now, step in ((0.0, 1), (1.0, 2), (4.0, 2), (5.0, 3)):
        rate.add(now, step, 8)
    assert rate.images_per_second == pytest.approx(16 / 5)
