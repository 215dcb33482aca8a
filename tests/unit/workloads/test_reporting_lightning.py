"""The adapter for Lightning: an interrupted run goes on to the same weights, on the double and on the real one."""

from __future__ import annotations

import importlib.util
import inspect
import random
import signal
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.doubles import lightning as double
from tests.unit.workloads.test_reporting import Clock, Loader, Part, a_run, lines, torch_like
from trainplan.workloads.reporting import trainplan_run

__all__ = ["torch_like"]  # the fixture
is_installed = importlib.util.find_spec("lightning") is not None
EPOCHS, BATCHES = 3, 7
Train = Callable[[Path, int], object]
"""Trains in a run directory; asked to stop after so many batches of this process."""


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trainplan_run, "_lightning_batches", None)


@pytest.fixture
def as_double(monkeypatch: pytest.MonkeyPatch, torch_like: random.Random) -> Train:
    """Trains on the double, with random numbers that differ in each process."""
    monkeypatch.setitem(sys.modules, "lightning", types.ModuleType("lightning"))
    monkeypatch.setitem(sys.modules, "lightning.pytorch", double)

    class Module(Part):
        def training_step(self, batch: int, batch_idx: int) -> None:
            del batch_idx
            self.value = self.value * 1.01 + batch * torch_like.random()

    def train(folder: Path, stop_after: int) -> object:
        torch_like.seed(3 if not folder.exists() else 99)
        monkeypatch.setattr(trainplan_run, "_run", a_run(folder, Clock()))
        module = Module()
        trainer = double.Trainer(max_epochs=EPOCHS, callbacks=[stopper(double, stop_after), reporter()])
        loader = trainplan_run.lightning_batches(Loader(torch_like))
        trainer.fit(module, loader, ckpt_path=trainplan_run.lightning_resume())
        return module.value

    return train


@pytest.fixture
def as_real(monkeypatch: pytest.MonkeyPatch) -> Train:
    """Trains with Lightning itself, whose random numbers are drawn by the order of the data and by dropout."""
    import torch
    from lightning import pytorch as real
    from lightning.fabric.plugins.environments import LightningEnvironment

    class Module(real.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.3), torch.nn.Linear(8, 1))

        def training_step(self, batch: Any, batch_idx: int) -> Any:
            del batch_idx
            return self.net(batch[0]).square().mean()

        def configure_optimizers(self) -> Any:
            return torch.optim.Adam(self.parameters())

    def train(folder: Path, stop_after: int) -> object:
        is_new = not folder.exists()
        monkeypatch.setattr(trainplan_run, "_run", a_run(folder, Clock()))
        torch.manual_seed(3)
        module, inputs = Module(), torch.rand(4 * BATCHES, 4)
        data = torch.utils.data.TensorDataset(inputs)
        torch.manual_seed(3 if is_new else 99)
        loader = trainplan_run.lightning_batches(torch.utils.data.DataLoader(data, batch_size=4, shuffle=True))
        trainer = real.Trainer(
            max_epochs=EPOCHS, accelerator="cpu", devices=1, logger=False, enable_checkpointing=False,
            enable_progress_bar=False, enable_model_summary=False, plugins=[LightningEnvironment()],
            callbacks=[stopper(real, stop_after), reporter()],
        )  # fmt: skip
        trainer.fit(module, loader, ckpt_path=trainplan_run.lightning_resume())
        return [value.tolist() for value in module.state_dict().values()]

    return train


def reporter() -> Any:
    return trainplan_run.lightning_callback(images=4)


def stopper(package: Any, stop_after: int) -> Any:
    """A callback that asks for the end."""

    class Stops(package.Callback):  # type: ignore[misc]
        done = 0

        def on_train_batch_end(self, *_: Any) -> None:
            self.done += 1
            trainplan_run._run.is_asked = self.done >= stop_after

    return Stops()


def test_a_script_that_saves_its_model_behind_fit_is_not_ended_by_the_signal(as_double: Train, tmp_path: Path) -> None:
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    as_double(tmp_path / "whole", 10**9)
    signal.raise_signal(signal.SIGTERM)
    assert trainplan_run.should_stop()


@pytest.mark.parametrize(
    "fixture",
    ["as_double", pytest.param("as_real", marks=pytest.mark.skipif(not is_installed, reason="no Lightning here"))],
)
@pytest.mark.parametrize("stop_after", [1, 6, 7, 8, 14, 20])
def test_it_goes_on_to_the_same_weights(
    request: pytest.FixtureRequest, tmp_path: Path, fixture: str, stop_after: int
) -> None:
    train = request.getfixturevalue(fixture)
    whole = train(tmp_path / "whole", 10**9)
    with pytest.raises(SystemExit) as ended:
        train(tmp_path / "parts", stop_after)
    assert ended.value.code == trainplan_run.EXIT_STOPPED
    again = train(tmp_path / "parts", 10**9)
    assert trainplan_run._run.resumed_step == stop_after
    assert trainplan_run._run.step == EPOCHS * BATCHES
    assert again == whole
    first = lines(tmp_path / "whole")[0]
    assert (first["event"], first["total_steps"], first["images"]) == ("start", EPOCHS * BATCHES, 4 * EPOCHS * BATCHES)


@pytest.mark.parametrize(
    ("options", "sized", "total"),
    [
        ({"max_epochs": 5}, True, 35),
        ({"max_epochs": 5, "max_steps": 10, "accumulate_grad_batches": 2}, True, 20),
        ({"max_epochs": -1, "max_steps": 9}, True, 9),
        ({"max_epochs": 5}, False, None),
        ({"max_epochs": None}, True, None),
    ],
)
def test_the_batches_in_all_are_told_where_they_are_known(
    options: dict[str, Any], sized: bool, total: int | None
) -> None:
    trainer = double.Trainer(**options)
    trainer._loader = range(BATCHES) if sized else iter(())
    assert trainplan_run._lightning_total(trainer) == total


def test_the_double_has_the_signatures_that_were_recorded_and_the_adapter_takes_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert double.signatures_of(double) == double.SIGNATURES
    monkeypatch.setitem(sys.modules, "lightning", types.ModuleType("lightning"))
    monkeypatch.setitem(sys.modules, "lightning.pytorch", double)
    for name in ("on_train_start", "on_train_batch_end"):
        parameters = double.SIGNATURES[f"Callback.{name}"]
        method = inspect.signature(getattr(reporter(), name))
        method.bind(*parameters)
        method.bind(**dict.fromkeys(parameters))


@pytest.mark.skipif(not is_installed, reason="no Lightning here")
def test_what_was_recorded_is_so_in_the_installed_lightning() -> None:
    from lightning import pytorch as real

    assert double.signatures_of(real) == double.SIGNATURES
    assert all(isinstance(getattr(real.Trainer, name), property) for name in double.PROPERTIES)
