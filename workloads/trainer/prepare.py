"""Everything a run needs before its first step: framework, devices, data, model, and the newest checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from workloads.job import Framework, TrainingJob
from workloads.trainer import tfdata
from workloads.trainer.backend import Toolkit, configure, load, tensorflow_for_data
from workloads.trainer.checkpoint import Array, Checkpoints, Position, assign
from workloads.trainer.damage import naming_damaged
from workloads.trainer.data import open_data
from workloads.trainer.devices import Devices, find_devices
from workloads.trainer.feed import Schedule
from workloads.trainer.folders import left_out_text
from workloads.trainer.images import ArrayImages, Split, available_bytes
from workloads.trainer.model import Models, build, compile_for_training
from workloads.trainer.optimizer import make_optimizer
from workloads.trainer.progress import Clock, Progress
from workloads.trainer.watch import Limits, stop_reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Where an attempt works and what bounds it. `devices` finds what there is to train on."""

    run_dir: Path
    data_dir: Path
    limits: Limits
    progress: Progress
    clock: Clock = field(default_factory=Clock)
    devices: Callable[[Toolkit], Devices] = find_devices


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """Everything that training needs, built and restored."""

    job: TrainingJob
    toolkit: Toolkit
    devices: Devices
    split: Split
    models: Models
    schedule: Schedule
    position: Position
    xla: bool


def prepare(job: TrainingJob, setting: Setting) -> Ready:
    """Raises BadInputError, Stopped or DeadlineReached.

    Tells the phases it goes through: `data` a second time where files are decoded into memory.
    """
    phase = setting.progress.phase
    stop_between(setting)
    with phase("data"):  # Before the framework: what is wrong with the data is told at once.
        split = open_data(job, setting.data_dir)
    if split.left_out:
        setting.progress.warn(left_out_text(split.left_out))
    stop_between(setting)
    with phase("import"):
        toolkit = load(job.framework)
        configure(toolkit, job.precision, job.seed)
        devices = setting.devices(toolkit)
        devices.check_batch(job.global_batch_size, job.accumulate)
    stop_between(setting)
    if not isinstance(split.train, ArrayImages):
        with phase("data"):
            split = _readable(job, toolkit, split, setting)
        stop_between(setting)
    with phase("build"):
        ready = _build(job, toolkit, devices, split)
        return _restored(ready, setting)


def _readable(job: TrainingJob, toolkit: Toolkit, split: Split, setting: Setting) -> Split:
    """The split, decoded into memory where it fits and the run is long enough to gain by it."""
    tf = tensorflow_for_data(toolkit)
    if tf is None:
        return split
    for part in (split.train, split.hold_out):
        tfdata.check_records(tf, part, job.classes)
    steps = setting.limits.max_steps
    if job.epochs == 1 or (steps is not None and steps * job.global_batch_size < split.train.count):
        return split
    with naming_damaged(split.train):
        return replace(split, train=tfdata.cached(tf, split.train, available_bytes()))


def _build(job: TrainingJob, toolkit: Toolkit, devices: Devices, split: Split) -> Ready:
    xla = toolkit.framework is Framework.JAX or (toolkit.framework is Framework.TENSORFLOW and job.xla)
    with devices.scope():
        models = build(toolkit.keras, job.net(), split.train.size, job.seed)
        optimizer = make_optimizer(toolkit.keras, job.optimizer, accumulate=job.accumulate)
        compile_for_training(toolkit.keras, models.training, optimizer, xla=xla)
    schedule = Schedule(
        batch_size=job.global_batch_size,
        steps_per_epoch=split.train.count // job.global_batch_size,
        epochs=job.epochs,
        seed=job.seed,
        accumulate=job.accumulate,
    )
    position = Position(
        step=0,
        epoch=1,
        job_digest=job.digest(),
        images=split.train.count,
        steps_per_epoch=schedule.steps_per_epoch,
    )
    return Ready(
        job=job,
        toolkit=toolkit,
        devices=devices,
        split=split,
        models=models,
        schedule=schedule,
        position=position,
        xla=xla,
    )


def _restored(ready: Ready, setting: Setting) -> Ready:
    if setting.limits.max_steps is not None:
        return ready  # A measuring run neither reads nor writes checkpoints.
    loaded = checkpoints(setting).newest(ready.position, setting.progress.warn)
    if loaded is None:
        return ready
    with ready.devices.scope():
        assign(_variables(ready.models.training), loaded.arrays)
    return replace(ready, schedule=replace(ready.schedule, first_step=loaded.position.step))


def checkpoints(setting: Setting) -> Checkpoints:
    """The run's own, under its run directory."""
    return Checkpoints(setting.run_dir / "checkpoints")


def _variables(model: Any) -> list[Any]:
    """Weights, moving statistics and random states, then the optimizer's."""
    return [*model.variables, *model.optimizer.variables]


def state_arrays(ready: Ready) -> Iterator[Array]:
    """The training state, one array at a time, in the order that `assign` takes."""
    model = ready.models.training
    if hasattr(model, "jax_state_sync"):
        model.jax_state_sync()  # On JAX the model holds its own state only when asked to.
    to_array = getattr(getattr(ready.toolkit.keras, "ops", None), "convert_to_numpy", lambda variable: variable.numpy())
    for variable in _variables(model):
        array: Array = to_array(variable)
        yield array


def stop_between(setting: Setting) -> None:
    """Raises Stopped or DeadlineReached where that is due before or after training."""
    reason = stop_reason(setting.limits, setting.clock)
    if reason is not None:
        raise reason
