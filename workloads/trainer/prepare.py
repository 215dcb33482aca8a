"""Everything a run needs before its first step: framework, devices, data, model, and the newest checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from trainplan.workloads.data_folder.values import left_out_text
from trainplan.workloads.job import Framework, TrainingJob
from trainplan.workloads.trainer import tfdata
from trainplan.workloads.trainer.averages import Averages
from trainplan.workloads.trainer.backend import Toolkit, configure, load, tensorflow_for_data
from trainplan.workloads.trainer.batch_norm import fit_momentum
from trainplan.workloads.trainer.checkpoint import Array, Checkpoints, Loaded, Position, assign
from trainplan.workloads.trainer.damage import naming_damaged
from trainplan.workloads.trainer.data import open_data
from trainplan.workloads.trainer.devices import Devices, find_devices
from trainplan.workloads.trainer.errors import BadInputError, diverged
from trainplan.workloads.trainer.feed import Schedule
from trainplan.workloads.trainer.folders import check_records
from trainplan.workloads.trainer.images import ArrayImages, Split, available_bytes
from trainplan.workloads.trainer.joining import join
from trainplan.workloads.trainer.model import (
    MOST_LIKELY,
    Models,
    Preprocessing,
    build,
    compile_for_training,
    network_of,
    normalisation_of,
)
from trainplan.workloads.trainer.optimizer import make_optimizer, needs_keras_3
from trainplan.workloads.trainer.process_group import ALONE, ProcessGroup
from trainplan.workloads.trainer.progress import Clock, Progress
from trainplan.workloads.trainer.rates import RunSteps
from trainplan.workloads.trainer.replicas import Replicas
from trainplan.workloads.trainer.torch_processes import TorchProcesses
from trainplan.workloads.trainer.validation import Validation
from trainplan.workloads.trainer.watch import Limits, stop_reason
from trainplan.workloads.trainer.weights import put_weights, read_weights
from trainplan.workloads.trainer.workers import over_workers

MOST_DECODED_FOR_A_TRY = 10_000
"""Images that a try decodes into memory, as the training would: more would take the time of several tries (assumed)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Where an attempt works and what bounds it. `devices` finds what there is to train on; `group` are the processes
    that train together."""

    run_dir: Path
    data_dir: Path
    limits: Limits
    progress: Progress
    clock: Clock = field(default_factory=Clock)
    devices: Callable[[Toolkit], Devices] = find_devices
    group: ProcessGroup = ALONE


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """Everything that training needs, built and restored. `stored` is the split as it lies there, of which `split` may
    be decoded into memory. `together` are several devices of TensorFlow or several
    processes of PyTorch; to Keras those of JAX are one."""

    job: TrainingJob
    toolkit: Toolkit
    devices: Devices
    split: Split
    stored: Split
    models: Models
    averages: Averages
    validation: Validation
    schedule: Schedule
    position: Position
    xla: bool
    preprocessing: Preprocessing
    group: ProcessGroup = ALONE
    together: Replicas | TorchProcesses | None = None


def prepare(job: TrainingJob, setting: Setting) -> Ready:
    """Raises BadInputError, TrainingStopped or DeadlineReached.

    Tells the phases it goes through: `data` a second time where files are decoded into memory.
    """
    phase = setting.progress.phase
    stop_between(setting)
    with phase("data"):  # Before the framework: what is wrong with the data is told at once.
        split = open_data(job, setting.data_dir)
        for part in (split.train, split.hold_out):
            check_records(part)
    for left_out in split.left_out:
        setting.progress.warn(left_out_text(left_out))
    stop_between(setting)
    with phase("import"):
        join(setting.group, job.framework)
        toolkit = load(job.framework)
        configure(toolkit, job.precision, job.seed)
        devices = _devices(job, toolkit, setting)
        devices.check_batch(job.global_batch_size, job.accumulate)
    stop_between(setting)
    stored = split
    if not isinstance(split.train, ArrayImages):
        with phase("data"):
            split = _readable(job, toolkit, split, setting)
        stop_between(setting)
    with phase("build"):
        return replace(_restored(_build(job, toolkit, devices, split, setting), setting), stored=stored)


def _devices(job: TrainingJob, toolkit: Toolkit, setting: Setting) -> Devices:
    """Processes of JAX and PyTorch are joined before; those of TensorFlow are by the strategy that shares a batch."""
    if setting.group.is_alone or toolkit.framework is not Framework.TENSORFLOW:
        return setting.devices(toolkit)
    if job.xla:  # "Collectives are not yet implemented for CPU devices when compiling with XLA" (TensorFlow 2.21)
        raise BadInputError("xla: true is for one process of TensorFlow; leave it out, or write framework: jax")
    needs_keras_3(toolkit.keras, "training with several processes", "write nodes: 1")
    return over_workers(toolkit.module, setting.group)


def _readable(job: TrainingJob, toolkit: Toolkit, split: Split, setting: Setting) -> Split:
    """The split, decoded into memory where it fits and the run is long enough to gain by it."""
    # Of several processes, each decodes its own part alone.
    tf = tensorflow_for_data(toolkit) if setting.group.is_alone else None
    if tf is None:
        return split
    steps = setting.limits.max_steps
    if setting.limits.is_try and split.train.count > MOST_DECODED_FOR_A_TRY:
        return split
    if job.epochs == 1 or (steps is not None and steps * job.global_batch_size < split.train.count):
        return split
    with naming_damaged(split.train):
        return replace(split, train=tfdata.cached(tf, split.train, available_bytes()))


def _build(job: TrainingJob, toolkit: Toolkit, devices: Devices, split: Split, setting: Setting) -> Ready:
    _check_network(job, toolkit, setting)
    xla = toolkit.framework is Framework.JAX or (toolkit.framework is Framework.TENSORFLOW and job.xla)
    steps_per_epoch = split.train.count // job.global_batch_size
    run = RunSteps(steps_per_epoch=steps_per_epoch, epochs=job.epochs)
    replicas = _replicas(job, toolkit, devices, setting.group.processes)
    together = replicas or _torch_processes(toolkit, setting.group)
    fed_parts = job.accumulate if replicas is None else 1
    base = read_weights(toolkit.keras, job, setting.run_dir, setting.data_dir)
    preprocessing = Preprocessing(
        augment=job.augment, normalisation=base.normalisation if base else normalisation_of(job)
    )
    with devices.scope():
        models = build(toolkit.keras, network_of(job), split.train.size, job.seed, together, preprocessing)
        base_layers = put_weights(base, models.serving) if base else frozenset[str]()
        fit_momentum(toolkit.keras, models.serving, steps_per_epoch)
        optimizer = make_optimizer(toolkit.keras, job.optimizer, run, accumulate=fed_parts, base_layers=base_layers)
        compile_for_training(
            toolkit.keras, models.training, optimizer, xla=xla, top5=_tests_top5(job), augment=job.augment
        )
    schedule = Schedule(
        batch_size=job.global_batch_size,
        steps_per_epoch=steps_per_epoch,
        epochs=job.epochs,
        seed=job.seed,
        accumulate=fed_parts,
        grouped=(job.accumulate, devices.count) if replicas else (1, 1),
    )
    position = Position(
        step=0,
        epoch=1,
        job_digest=job.digest(),
        images=split.train.count,
        steps_per_epoch=steps_per_epoch,
    )
    return Ready(
        job=job,
        toolkit=toolkit,
        devices=devices,
        split=split,
        stored=split,
        models=models,
        averages=Averages(toolkit.keras, models.training),
        validation=Validation(toolkit.keras, job, models),
        schedule=schedule,
        position=position,
        xla=xla,
        preprocessing=preprocessing,
        group=setting.group,
        together=together,
    )


def _check_network(job: TrainingJob, toolkit: Toolkit, setting: Setting) -> None:
    """Raises BadInputError for what only Keras 3 trains where it is older; warns of layers that are not Keras'."""
    if job.uses_recipe:
        needs_keras_3(toolkit.keras, "this job's recipe", "docs/recipes.md says which keys it is made of")
    if job.needs_keras_3:
        needs_keras_3(toolkit.keras, "this network", "train a VGG net, or on another device")
    if job.model.read is not None and job.model.read.own_layers:
        names = ", ".join(job.model.read.own_layers)
        setting.progress.warn(f"model.keras will hold layers of your own ({names}): plan predict cannot load those")


def _torch_processes(toolkit: Toolkit, group: ProcessGroup) -> TorchProcesses | None:
    if group.is_alone or toolkit.framework is not Framework.TORCH:
        return None
    return TorchProcesses(torch=toolkit.module, group=group)


def _replicas(job: TrainingJob, toolkit: Toolkit, devices: Devices, processes: int) -> Replicas | None:
    """Return the replicas for several devices of TensorFlow; those of JAX share a batch within one program, and are one
    to Keras.
    """
    if devices.strategy is None:
        return None
    return Replicas(tensorflow=toolkit.module, parts=job.accumulate, processes=processes)


def _tests_top5(job: TrainingJob) -> bool:
    """Whether a validation on the way counts the five likeliest classes too."""
    return job.validation.every_epochs is not None and job.classes > MOST_LIKELY


def _restored(ready: Ready, setting: Setting) -> Ready:
    if setting.limits.max_steps is not None:
        return ready  # A measuring run neither reads nor writes checkpoints.
    loaded = checkpoints(setting).newest(ready.position, setting.progress.warn)
    if loaded is None:
        return ready
    restore(ready, loaded)
    return replace(ready, schedule=replace(ready.schedule, first_step=loaded.position.step))


def restore(ready: Ready, loaded: Loaded) -> None:
    """Put a checkpoint into the model, the optimizer and the history. Raises BadInputError where it does not fit."""
    variables = _variables(ready.models.training)
    with ready.devices.scope():
        assign(variables, loaded.arrays[: len(variables)])
    ready.validation.restore(loaded.history, list(loaded.arrays[len(variables) :]))


def checkpoints(setting: Setting) -> Checkpoints:
    """The run's own, under its run directory."""
    return Checkpoints(setting.run_dir / "checkpoints")


def _variables(model: Any) -> list[Any]:
    """Weights, moving statistics and random states, then the optimizer's."""
    return [*model.variables, *model.optimizer.variables]


def state_arrays(ready: Ready) -> Iterator[Array]:
    """The training state, one array at a time, in the order that `assign` takes, and the weights of the best validation
    where they are kept. Raises DivergedError where one of them is no number: it is never saved."""
    model = ready.models.training
    if hasattr(model, "jax_state_sync"):
        model.jax_state_sync()  # On JAX the model holds its own state only when asked to.
    to_array = getattr(getattr(ready.toolkit.keras, "ops", None), "convert_to_numpy", lambda variable: variable.numpy())
    for variable in _variables(model):
        array: Array = to_array(variable)
        yield _finite(array)
    yield from ready.validation.best


def _finite(array: Array) -> Array:
    if np.issubdtype(array.dtype, np.floating) and not np.isfinite(array).all():
        raise diverged("a weight became no number")
    return array


def stop_between(setting: Setting) -> None:
    """Raises TrainingStopped or DeadlineReached where that is due before or after training."""
    reason = stop_reason(setting.limits, setting.clock)
    if reason is not None:
        raise reason
