"""As much of Lightning as the adapter of workloads/reporting/trainplan_run.py uses, and no more helpful than it.

As in Lightning, a run that goes on in the middle of an epoch asks its loader for the remaining batches, from the
loader's beginning: only a loader with a state can skip what was trained on. No random numbers are kept. The loader is
asked for an iterator more often than it is used.
"""

from __future__ import annotations

import inspect
import pickle
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

VERSION = "2.6.6"
"""Of Lightning; SIGNATURES and PROPERTIES were read from its installed package on 2026-11-26."""
SIGNATURES = {
    "Callback.on_train_start": ("trainer", "pl_module"),
    "Callback.on_train_batch_end": ("trainer", "pl_module", "outputs", "batch", "batch_idx"),
    "Trainer.fit": (
        "model", "train_dataloaders", "val_dataloaders", "datamodule", "ckpt_path", "weights_only",
    ),
    "Trainer.save_checkpoint": ("filepath", "weights_only", "storage_options"),
}  # fmt: skip
PROPERTIES = ("current_epoch", "is_last_batch", "max_epochs", "max_steps", "num_training_batches")


def signatures_of(package: Any) -> dict[str, tuple[str, ...]]:
    """Of a module that has a Callback and a Trainer."""
    found = {}
    for name in SIGNATURES:
        owner, _, method = name.partition(".")
        found[name] = tuple(inspect.signature(getattr(getattr(package, owner), method)).parameters)[1:]
    return found


class Callback:
    def on_train_start(self, trainer: Any, pl_module: Any) -> None: ...

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None: ...


class Trainer:
    """`max_epochs` None: without end, but for `max_steps`. Trains by the module's `training_step` alone."""

    def __init__(
        self,
        max_epochs: int | None = None,
        max_steps: int = -1,
        accumulate_grad_batches: int = 1,
        callbacks: Sequence[Callback] = (),
    ) -> None:
        self._limits = max_epochs, max_steps
        self.accumulate_grad_batches = accumulate_grad_batches
        self._callbacks = callbacks
        self._epoch, self._batch = 0, 0
        self._module: Any = None
        self._loader: Any = None

    @property
    def current_epoch(self) -> int:
        return self._epoch

    @property
    def is_last_batch(self) -> bool:
        return self._batch == self.num_training_batches

    @property
    def max_epochs(self) -> int | None:
        return self._limits[0]

    @property
    def max_steps(self) -> int:
        return self._limits[1]

    @property
    def num_training_batches(self) -> float:
        return len(self._loader) if hasattr(self._loader, "__len__") else float("inf")

    def fit(
        self,
        model: Any,
        train_dataloaders: Any = None,
        val_dataloaders: Any = None,
        datamodule: Any = None,
        ckpt_path: str | Path | None = None,
        weights_only: bool | None = None,
    ) -> None:
        del val_dataloaders, datamodule, weights_only
        self._module, self._loader = model, train_dataloaders
        if ckpt_path is not None:
            self._restore(pickle.loads(Path(ckpt_path).read_bytes()))
        iter(self._loader)
        iterator = iter(self._loader)
        before = signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a handler of its own
        for callback in self._callbacks:
            callback.on_train_start(self, model)
        while self.max_epochs is None or self._epoch < self.max_epochs:
            self._train_epoch(iterator)
            self._epoch, self._batch = self._epoch + 1, 0
            iterator = iter(self._loader)
        signal.signal(signal.SIGTERM, before)

    def save_checkpoint(
        self, filepath: str | Path, weights_only: bool | None = None, storage_options: Any = None
    ) -> None:
        del weights_only, storage_options
        has_state = hasattr(self._loader, "state_dict") and hasattr(self._loader, "load_state_dict")
        values = {
            "module": self._module.state_dict(),
            "progress": (self._epoch, self._batch),
            "loader": self._loader.state_dict() if has_state else None,
        }
        Path(filepath).write_bytes(pickle.dumps(values))

    def _restore(self, values: dict[str, Any]) -> None:
        self._module.load_state_dict(values["module"])
        self._epoch, self._batch = values["progress"]
        if self._batch == self.num_training_batches:
            self._epoch, self._batch = self._epoch + 1, 0
        if values["loader"] is not None:
            self._loader.load_state_dict(values["loader"])

    def _train_epoch(self, iterator: Iterator[Any]) -> None:
        while self._batch < self.num_training_batches:
            number, batch = self._batch, next(iterator)
            outputs = self._module.training_step(batch, number)
            self._batch += 1
            for callback in self._callbacks:
                callback.on_train_batch_end(self, self._module, outputs, batch, number)
