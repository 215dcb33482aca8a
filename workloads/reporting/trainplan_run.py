"""What a training script tells `plan`, and asks of it. One file that needs nothing; without `plan` it does nothing.

    import trainplan_run
    trainplan_run.report(step, images=64, total_steps=5000, loss=0.3)    # after each step, or after some
    if trainplan_run.should_stop(): ...                                  # write a checkpoint, and end with exit code 75
    with trainplan_run.checkpoint_folder() as folder: ...                # files written to it are one checkpoint
    folder = trainplan_run.resume_from()                                 # the newest checkpoint, or None

Loops of PyTorch, Keras, Lightning and transformers have adapters, which do all of it: `torch_epochs` with
`torch_batches`, `keras_callback` with `keras_resume`, `lightning_callback` with `lightning_batches` and
`lightning_resume`, `transformers_callback` with `transformers_resume`.

It writes the run-directory protocol, version 1 (docs/container.md). Runs on Python 3.10 and newer.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import json
import math
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

PROTOCOL = 1
EXIT_STOPPED = 75
REPORTS_OF_A_RATE = 50
"""After so many reports the rate has an interval."""
MOST_CHECKPOINTS = 2
_LINE_SECONDS = 1.0
_FIGURE_LINES = 1_000
"""So many calls of `figures` have a line of their own, however fast they come."""
_MOST_BLOCKS = 16
_T90 = {2: 1.886, 3: 1.638, 4: 1.533, 5: 1.476, 6: 1.44, 7: 1.415, 8: 1.397, 9: 1.383, 10: 1.372, 15: 1.341}
"""The 0.9 quantile of Student's t, by degrees of freedom (NIST/SEMATECH e-Handbook, 1.3.6.7.2)."""
_KEPT = ("event", "time", "step", "reports", "images_per_second", "half_width", "total_steps")


class _Rate:
    """The rate since the first report, which compiles, and how far it can be off, from blocks of reports."""

    def __init__(self) -> None:
        self.reports = 0
        self._last: tuple[float, int] | None = None
        self._size = 7
        self._blocks: list[list[float]] = []
        self._in_block = 0

    def add(self, now: float, step: int, images: float) -> None:
        self.reports += 1
        last = self._last
        if last is not None and step == last[1]:
            return  # what lies between two reports of one step belongs to the next one
        self._last = (now, step)
        if last is None or step < last[1]:
            return
        seconds, trained = max(0.0, now - last[0]), (step - last[1]) * images
        if not self._in_block:
            self._blocks.append([0.0, 0.0])
        self._blocks[-1][0] += seconds
        self._blocks[-1][1] += trained
        self._in_block = (self._in_block + 1) % self._size
        if not self._in_block and len(self._blocks) == _MOST_BLOCKS:
            pairs = zip(self._blocks[::2], self._blocks[1::2], strict=True)
            self._blocks = [[one[0] + other[0], one[1] + other[1]] for one, other in pairs]
            self._size *= 2

    @property
    def images_per_second(self) -> float | None:
        seconds, images = (sum(column) for column in zip((0.0, 0.0), *self._blocks, strict=True))
        return images / seconds if seconds > 0 and images > 0 else None

    @property
    def half_width(self) -> float | None:
        """Of the 80 % interval of the rate, as a share of it; None before there are enough reports."""
        blocks = self._blocks[:-1] if self._in_block else self._blocks
        if self.reports < REPORTS_OF_A_RATE or len(blocks) < 3 or any(seconds <= 0 for seconds, _ in blocks):
            return None
        rates = [images / seconds for seconds, images in blocks]
        mean = sum(rates) / len(rates)
        if mean <= 0:
            return None
        deviation = math.sqrt(sum((rate - mean) ** 2 for rate in rates) / (len(rates) - 1))
        freedom = max(known for known in _T90 if known <= len(rates) - 1)
        return _T90[freedom] * deviation / math.sqrt(len(rates)) / mean


class _Run:
    """The run that this process is part of. A process of another rank than 0 tells nothing."""

    def __init__(self, environment: Any, clock: Any = time.monotonic) -> None:
        folder = environment.get("TRAINPLAN_RUN_DIR", "") if environment.get("RANK", "0") == "0" else ""
        self.folder: Path | None = Path(folder) if folder else None
        self.attempt = environment.get("TRAINPLAN_ATTEMPT", "1")
        self.is_pilot = environment.get("TRAINPLAN_PILOT", "") == "1"
        self.checkpoint_seconds = float(environment.get("TRAINPLAN_CHECKPOINT_SECONDS", "600"))
        self.clock = clock
        self.rate = _Rate()
        self.step = 0
        self.resumed_step = 0
        self.is_asked = False
        self.saved_at = clock()
        self._listens = False
        self._started: tuple[bool, int] | None = None
        self._written_at = -math.inf
        self._complained = False
        pause_at, _, parts = environment.get("TRAINPLAN_PAUSE_AT", "").partition("/")
        self._pause: tuple[int, int] | None = (int(pause_at), int(parts or "1")) if pause_at else None
        self._figure = environment.get("TRAINPLAN_FIGURE", "")
        self._total: int | None = None
        self._untold: dict[str, Any] = {}
        self._figure_lines = 0
        self._is_pause_due = False

    def report(self, step: Any, images: Any, total_steps: Any, metrics: dict[str, Any]) -> None:
        try:
            number, count = int(step), float(images)
            total = None if total_steps is None else int(total_steps)
        except (TypeError, ValueError, OverflowError):
            self.complain("step, images and total_steps have to be numbers")
            return
        if not 0 <= number < 10**12 or not 0 < count < 10**12 or (total is not None and not 0 < total < 10**12):
            self.complain("step is not negative, images and total_steps are above 0")
            return
        if number < self.step:
            self._untold.setdefault("began_anew_after", self.step)
        self.step, self._total = number, total or self._total
        self.rate.add(self.clock(), number, count)
        if self.folder is None:
            return
        if self._started is None or (total is not None and not self._started[0]):
            self._started = (total is not None, number)
            whole = {"total_steps": total, "steps_per_epoch": total, "images": round(count * total)} if total else {}
            self.event("start", protocol=PROTOCOL, resumed_from_step=self.resumed_step, **_framework(), **whole)
        is_last = total is not None and number >= total
        self._tell(metrics, at_once=is_last or self.rate.reports == REPORTS_OF_A_RATE)

    def figures(self, metrics: dict[str, Any]) -> None:
        """Of the model as it is after the newest step."""
        if self.folder is not None:
            self._figure_lines += 1
            self._tell(metrics, at_once=self._figure_lines <= _FIGURE_LINES)

    def is_to_pause(self) -> bool:
        """Whether a trial of a sweep is to pause; what it has reported by then is told."""
        if self._is_pause_due and self._untold:
            self._tell({}, at_once=True)
        return self._is_pause_due

    def _tell(self, metrics: dict[str, Any], *, at_once: bool) -> None:
        """Write a line, of all that was reported since the newest one; unless `at_once`, one a second."""
        self._untold.update({name: _plain(value) for name, value in metrics.items() if name not in _KEPT})
        if self._pause is not None and self._total is not None and self._figure in metrics:
            part, parts = self._pause
            self._is_pause_due = self._is_pause_due or self.step * parts >= self._total * part
        now = self.clock()
        if not at_once and now - self._written_at < _LINE_SECONDS:
            return
        self._written_at = now
        rate, width = self.rate.images_per_second, self.rate.half_width
        rates = {"images_per_second": rate, "half_width": width, "reports": self.rate.reports}
        told, self._untold = self._untold, {}
        self.event("step", step=self.step, **told, **{name: value for name, value in rates.items() if value})

    def event(self, name: str, /, **fields: Any) -> None:
        if self.folder is None:
            return
        now = datetime.fromtimestamp(time.time(), timezone.utc).isoformat(timespec="milliseconds")
        line = {"event": name, "time": now, **_without_secrets(fields)}
        path = self.folder / "attempts" / self.attempt / "progress.jsonl"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line, allow_nan=False) + "\n")
        except (OSError, ValueError) as error:
            self.complain(f"progress cannot be written: {error}")

    def is_to_end(self) -> bool:
        """Whether the end was asked for. SIGTERM asks for it from the first call on; before, it ends the script."""
        if not self._listens:
            self.listen()
        return self.is_asked

    def listen(self) -> None:
        """Let SIGTERM ask for the end, whoever else has taken it meanwhile."""
        if self.folder is None:
            return
        if not self._listens:
            # Python ends without its handlers: a script that is done would be killed while it frees its memory.
            atexit.register(signal.signal, signal.SIGTERM, signal.SIG_IGN)
        self._listens = True
        with contextlib.suppress(ValueError):  # in another thread than the first
            signal.signal(signal.SIGTERM, self._ask)

    def _ask(self, *_: Any) -> None:
        self.is_asked = True

    def complain(self, text: str) -> None:
        if not self._complained:
            self._complained = True
            sys.stderr.write(f"trainplan_run: {text}; not told\n")


_run: _Run | None = None


def _here() -> _Run:
    """The run, as the environment tells of it when it is first asked."""
    global _run
    _run = _run or _Run(os.environ)
    return _run


def report(step: int, images: float, total_steps: int | None = None, **metrics: Any) -> None:
    """Tell that `step` steps are done, each of `images` images, of `total_steps` in the whole run.

    `metrics` are figures such as loss, accuracy and learning_rate, or epoch. Costs nothing to call often: most calls
    write nothing. Without `total_steps` no end is predicted.
    """
    _here().report(step, images, total_steps, metrics)


def figures(**metrics: Any) -> None:
    """Tell figures of the model as it is after the step last reported: `figures(accuracy=0.9)`, after a test."""
    _here().figures(metrics)


def should_stop() -> bool:
    """Whether the run has to end now: at its deadline, for whoever stopped it, since the machine is taken back, or as
    a trial of a sweep that pauses here.

    Write a checkpoint, and end with exit code 75 (`EXIT_STOPPED`). A script that never asks is ended by SIGTERM.
    """
    return _here().is_to_end() or _here().is_to_pause()


@contextlib.contextmanager
def checkpoint_folder(step: int | None = None) -> Iterator[Path]:
    """A new folder, of which the files become the checkpoint of `step` (default: the one last reported).

    It counts once the block has ended without an error; the newest two are kept. Raises ValueError for a folder in it.
    """
    run = _here()
    number = run.step if step is None else int(step)
    began = run.clock()
    if run.folder is None or run.is_pilot:
        with tempfile.TemporaryDirectory() as unused:
            yield Path(unused)
            size = sum(_sha256(path)[1] for path in Path(unused).iterdir() if path.is_file())
    else:
        folder = run.folder / "checkpoints" / f".step-{number:08}.new"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        try:
            yield folder
            size = _complete(folder, number)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        target = folder.with_name(f"step-{number:08}")
        shutil.rmtree(target, ignore_errors=True)
        folder.replace(target)
        for _, older in _checkpoints()[MOST_CHECKPOINTS:]:
            shutil.rmtree(older, ignore_errors=True)
    run.saved_at = run.clock()
    run.event("checkpoint", step=number, seconds=round(run.saved_at - began, 3), bytes=size)


def resume_from() -> Path | None:
    """The folder of the newest checkpoint whose files are what was written; None where there is none."""
    for step, folder in _checkpoints():
        if _is_whole(folder):
            _here().resumed_step = _here().step = step
            return folder
        _here().event("warning", message=f"checkpoint {folder.name} is not whole: it was not used")
    return None


def _complete(folder: Path, step: int) -> int:
    paths = sorted(folder.iterdir())
    for path in paths:
        if path.is_symlink() or not path.is_file():
            raise ValueError(f"{path.name}: a checkpoint holds plain files alone")
    sums = {path.name: _sha256(path) for path in paths}
    size = sum(count for _, count in sums.values())
    mark = json.dumps({"step": step, "files": {name: digest for name, (digest, _) in sums.items()}, "size_bytes": size})
    with (folder / "complete.json").open("w", encoding="utf-8") as file:
        file.write(mark)
        file.flush()
        os.fsync(file.fileno())
    return size


def _checkpoints() -> list[tuple[int, Path]]:
    """Step and folder of each complete checkpoint, the newest first."""
    run_folder = _here().folder
    marks = [] if run_folder is None else (run_folder / "checkpoints").glob("step-*/complete.json")
    named = [(mark.parent.name[len("step-") :], mark.parent) for mark in marks if not mark.parent.is_symlink()]
    return sorted(((int(step), folder) for step, folder in named if step.isdecimal()), reverse=True)


def _is_whole(folder: Path) -> bool:
    def is_whole(name: str, digest: str) -> bool:
        path = folder / name
        return Path(name).name == name and not path.is_symlink() and _sha256(path)[0] == digest

    try:
        files = json.loads((folder / "complete.json").read_text(encoding="utf-8"))["files"]
        return bool(files) and all(is_whole(*one) for one in files.items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def _sha256(path: Path) -> tuple[str, int]:
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as file:
        for data in iter(lambda: file.read(1024 * 1024), b""):
            digest.update(data)
            size += len(data)
    return digest.hexdigest(), size


def _plain(value: Any) -> Any:
    """A figure as JSON has it; None for one that is no number."""
    if isinstance(value, str):
        return value[:1000]
    try:
        number = value if isinstance(value, int) else float(value)
        return number if math.isfinite(number) and abs(number) < 1e15 else None
    except (TypeError, ValueError, OverflowError):
        return None


def _without_secrets(fields: dict[str, Any]) -> dict[str, Any]:
    """Figures by whatever names and of whatever texts a script has, fit to be kept: where `plan` runs the script, its
    rules are there."""
    try:
        from trainplan.workloads.secret_rules import without_secret_fields
    except ImportError:
        return fields
    return without_secret_fields(fields)


def _framework() -> dict[str, Any]:
    """What the script trains with and on, as far as that can be seen without importing anything."""
    version = ".".join(map(str, sys.version_info[:3]))
    told: dict[str, Any] = {"python_version": version, "framework": "Python", "framework_version": version}
    for name in (os.environ.get("KERAS_BACKEND", ""), "torch", "jax", "tensorflow"):  # Keras loads others as well
        module = sys.modules.get(name)
        if module is not None:
            told.update(framework=name, framework_version=str(getattr(module, "__version__", "")))
            with contextlib.suppress(Exception):  # a framework that is half there tells nothing
                told["device_kind"] = told["device_name"] = _device_kind(name, module)
            break
    return told


def _device_kind(name: str, module: Any) -> str:
    if name == "jax":
        backend = str(module.default_backend())
        return {"cuda": "gpu", "rocm": "gpu"}.get(backend, backend)
    has_gpu = module.cuda.is_available() if name == "torch" else module.config.list_physical_devices("GPU")
    return "gpu" if has_gpu else "cpu"


# Adapters. Each is given what the script has, and does the rest.


def _save_or_end(step: int, write: Callable[[Path], None], *, ends: bool) -> None:
    """Write a checkpoint if one is due, or if the script `ends`: it does so here."""
    run = _here()
    if ends or (run.folder is not None and run.clock() - run.saved_at >= run.checkpoint_seconds):
        with checkpoint_folder(step) as folder:
            write(folder)
    if ends:
        raise SystemExit(EXIT_STOPPED)


class _Batches:
    """Batches of a loader that goes on in the middle of an epoch, with the random numbers it would have had. Lightning
    stores the state of a loader that has one; it skips no batches and keeps no random numbers by itself."""

    def __init__(self, loader: Any) -> None:
        self.loader = loader
        self.batch = 0  # so many of this epoch were trained on
        self._epoch_state: Any = None
        self._saved: dict[str, Any] = {}

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Iterator[Any]:
        saved, self._saved = self._saved, {}
        if saved:
            _set_random_state(saved["epoch_state"])
        self._epoch_state, iterator = _random_state(), iter(self.loader)
        if saved.get("batch"):
            for _ in range(saved["batch"]):
                next(iterator, None)
            _set_random_state(saved["state"])
        yield from iterator

    def state_dict(self) -> dict[str, Any]:
        now = _random_state()
        return {"batch": self.batch, "epoch_state": self._epoch_state if self.batch else now, "state": now}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._saved = state


class _TorchLoop:
    """A loop over epochs and their batches. `parts` are whatever has a state_dict: model, optimizer, scheduler."""

    def __init__(self, epochs: Iterable[int], parts: dict[str, Any]) -> None:
        self.epochs = list(epochs)
        self.parts = parts
        self.place, self.step = 0, 0
        self.batches = _Batches(())
        folder = resume_from()
        if folder is not None:
            import torch

            saved = torch.load(folder / "state.pt", map_location="cpu", weights_only=True)
            for name, part in parts.items():
                part.load_state_dict(saved["parts"][name])
            self.place, self.batches.batch, self.step = saved["place"], saved["batch"], saved["step"]
            self.batches.load_state_dict(saved)

    def __iter__(self) -> Iterator[int]:
        global _loop
        _loop = self
        _here().is_to_end()
        while self.place < len(self.epochs):
            yield self.epochs[self.place]
            self.place, self.batches.batch = self.place + 1, 0
            if _here().is_to_pause():
                _save_or_end(self.step, self.write, ends=True)

    def train_on(self, loader: Any) -> Iterator[Any]:
        self.batches.loader = loader
        for batch in self.batches:
            yield batch
            self.batches.batch, self.step = self.batches.batch + 1, self.step + 1
            total = len(self.epochs) * len(loader) if hasattr(loader, "__len__") else None
            report(self.step, _images_of(batch), total, epoch=self.place + 1)
            _save_or_end(self.step, self.write, ends=_here().is_to_end())

    def write(self, folder: Path) -> None:
        import torch

        parts = {name: part.state_dict() for name, part in self.parts.items()}
        state = {"parts": parts, "place": self.place, "step": self.step, **self.batches.state_dict()}
        torch.save(state, folder / "state.pt")


_loop: _TorchLoop | None = None


def torch_epochs(epochs: Any, **parts: Any) -> Iterable[int]:
    """In place of `range(epochs)`: goes on where the newest checkpoint is. `parts` are saved: `model=model,
    optimizer=optimizer`, and a scheduler."""
    return _TorchLoop(range(epochs) if isinstance(epochs, int) else epochs, parts)


def torch_batches(loader: Any) -> Iterator[Any]:
    """In place of the loader of training data, within `torch_epochs`: reports each step, writes checkpoints, and ends
    the script where it should stop."""
    if _loop is None:
        raise RuntimeError("torch_batches is for a loop over torch_epochs")
    return _loop.train_on(loader)


def _images_of(batch: Any) -> int:
    parts = batch.values() if isinstance(batch, dict) else batch if isinstance(batch, (tuple, list)) else [batch]
    return next((int(part.shape[0]) for part in parts if getattr(part, "shape", None)), 1)


def _random_state() -> dict[str, Any]:
    import torch

    state: dict[str, Any] = {"python": random.getstate(), "torch": torch.get_rng_state()}
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state_all()
    if "numpy" in sys.modules:
        name, keys, *rest = sys.modules["numpy"].random.get_state()
        state["numpy"] = [str(name), [int(key) for key in keys], *(float(value) for value in rest)]
    return state


def _set_random_state(state: dict[str, Any]) -> None:
    import torch

    version, numbers, gauss = state["python"]
    random.setstate((version, tuple(numbers), gauss))
    torch.set_rng_state(state["torch"])
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(state["cuda"])
    if "numpy" in state and "numpy" in sys.modules:
        name, keys, place, has_gauss, gauss = state["numpy"]
        sys.modules["numpy"].random.set_state((name, keys, int(place), int(has_gauss), gauss))


def keras_resume(model: Any) -> int:
    """Puts the newest checkpoint into a compiled model, and returns the epoch to go on from: `initial_epoch` of fit."""
    folder = resume_from()
    if folder is None:
        return 0
    import numpy

    with numpy.load(folder / "state.npz", allow_pickle=False) as saved:
        arrays = [saved[f"arr_{place}"] for place in range(len(saved.files) - 1)]
        epoch = int(saved["epoch"])
    weights = len(model.get_weights())
    model.set_weights(arrays[:weights])
    model.optimizer.build(model.trainable_variables)
    for variable, array in zip(model.optimizer.variables, arrays[weights:], strict=True):
        variable.assign(array)
    return epoch


def keras_callback(images: float) -> Any:
    """A callback for `fit`, of batches of so many images: reports each step, writes checkpoints behind epochs."""
    import keras
    import numpy

    class Reports(keras.callbacks.Callback):  # type: ignore[misc]
        def on_train_begin(self, *_: Any) -> None:
            _here().is_to_end()
            self.step, self.save_seconds = _here().resumed_step, 0.0

        def on_epoch_begin(self, epoch: int, *_: Any) -> None:
            self.epoch, self.batch = epoch, -1

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            self.step, self.batch = self.step + batch - self.batch, batch
            steps = self.params.get("steps")
            total = steps * self.params["epochs"] if steps else None
            report(self.step, images, total, epoch=self.epoch + 1, **(logs or {}))
            if _here().is_to_end():
                raise SystemExit(EXIT_STOPPED)

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            figures(**(logs or {}))
            pauses = _here().is_to_pause()
            # Often enough to lose little, and never more than a twentieth of the time.
            since = _here().clock() - _here().saved_at
            if pauses or since >= min(_here().checkpoint_seconds, 20 * self.save_seconds):
                began = _here().clock()
                arrays = [*self.model.get_weights(), *(one.numpy() for one in self.model.optimizer.variables)]
                with checkpoint_folder() as folder:
                    numpy.savez(folder / "state.npz", *arrays, epoch=epoch + 1)
                self.save_seconds = _here().clock() - began
            if pauses:
                raise SystemExit(EXIT_STOPPED)

    return Reports()


_lightning_batches: _Batches | None = None


def lightning_batches(loader: Any) -> Any:
    """In place of the loader of training data: goes on behind the batches of this epoch that were trained on."""
    global _lightning_batches
    _lightning_batches = _Batches(loader)
    return _lightning_batches


def lightning_resume() -> str | None:
    """The newest checkpoint of a Trainer: `ckpt_path` of fit."""
    folder = resume_from()
    return None if folder is None else str(folder / "lightning.ckpt")


def lightning_callback(images: float) -> Any:
    """A callback for Trainer, of batches of so many images: reports each batch, writes checkpoints, ends the script."""
    try:
        from lightning.pytorch import Callback
    except ImportError:
        from pytorch_lightning import Callback

    class Reports(Callback):  # type: ignore[misc]
        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            del trainer, pl_module
            _here().listen()  # Lightning's own handler ends a training between two batches, without a checkpoint
            self.step = _here().resumed_step

        def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
            del pl_module
            if not trainer.sanity_checking:
                figures(**{name: float(value) for name, value in trainer.callback_metrics.items()})

        def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
            del pl_module, outputs, batch
            self.step += 1
            if _lightning_batches is not None:
                _lightning_batches.batch = 0 if trainer.is_last_batch else batch_idx + 1
            report(self.step, images, _lightning_total(trainer), epoch=trainer.current_epoch + 1)
            _save_or_end(self.step, lambda to: trainer.save_checkpoint(to / "lightning.ckpt"), ends=should_stop())

    _here().listen()  # the handler that Lightning puts back behind fit: a script that saves its model then goes on
    return Reports()


def _lightning_total(trainer: Any) -> int | None:
    """The batches of the whole training; None where nobody knows."""
    epochs, steps = trainer.max_epochs, trainer.max_steps
    ends = [trainer.num_training_batches * epochs] if epochs is not None and epochs > 0 else []
    total = min([*ends, *([steps * trainer.accumulate_grad_batches] if steps > 0 else [])], default=math.inf)
    return int(total) if math.isfinite(total) else None


def transformers_resume() -> str | None:
    """The newest checkpoint of a Trainer of transformers: `resume_from_checkpoint` of train."""
    folder = resume_from()
    return None if folder is None else str(folder)


def transformers_callback(images: float) -> Any:
    """A callback for the Trainer of transformers, of steps of so many images: reports each step and what is logged,
    writes checkpoints, ends the script."""
    from transformers import TrainerCallback

    class Reports(TrainerCallback):  # type: ignore[misc]
        is_asked = False
        """Whether the next checkpoint is one that the run needs, and the script's own settings do not ask for."""

        def on_train_begin(self, *_: Any, **__: Any) -> None:
            _here().is_to_end()

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            del args
            report(state.global_step, images, state.max_steps, epoch=int(state.epoch or 0) + 1)
            run = _here()
            is_due = run.folder is not None and run.clock() - run.saved_at >= run.checkpoint_seconds
            self.is_asked = (is_due or should_stop()) and not control.should_save
            control.should_save = control.should_save or self.is_asked

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            del args, state, control
            figures(**{name: value for name, value in (logs or {}).items() if name != "epoch"})

        def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            del control
            written = Path(args.output_dir) / f"checkpoint-{state.global_step}"
            with checkpoint_folder(state.global_step) as folder:
                for path in written.iterdir():
                    shutil.copy2(path, folder)
            if self.is_asked:
                shutil.rmtree(written)
            if should_stop():
                raise SystemExit(EXIT_STOPPED)

    return Reports()
