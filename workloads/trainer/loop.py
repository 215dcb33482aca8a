"""Trains one attempt of a run, from the job to the model, with the same steps on every framework and device."""

from __future__ import annotations

import math
import platform
from dataclasses import asdict, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from trainplan.workloads.hold_out import AVERAGED_IMAGES, test_every
from trainplan.workloads.job import Framework, TrainingJob
from trainplan.workloads.trainer import tfdata
from trainplan.workloads.trainer.agreement import Agreement, broadcast
from trainplan.workloads.trainer.backend import tensorflow_for_data
from trainplan.workloads.trainer.batch_norm import renew, renewing_schedule
from trainplan.workloads.trainer.copies import count_copies
from trainplan.workloads.trainer.damage import naming_damaged
from trainplan.workloads.trainer.devices import DeviceKind, peak_memory_bytes
from trainplan.workloads.trainer.errors import DeadlineReached, DivergedError, TrainerError, TrainingStopped, diverged
from trainplan.workloads.trainer.event_file import EVENT_FILE, event_file
from trainplan.workloads.trainer.feed import (
    Schedule,
    even_hold_out_batch,
    hold_out_batch,
    hold_out_batches,
    training_batches,
)
from trainplan.workloads.trainer.images import ArrayImages, Images
from trainplan.workloads.trainer.output import model_on_one_device, plain_model, write_output
from trainplan.workloads.trainer.pilot import pilot_figures
from trainplan.workloads.trainer.prepare import (
    Ready,
    Setting,
    checkpoints,
    prepare,
    restore,
    state_arrays,
    stop_between,
)
from trainplan.workloads.trainer.progress import State
from trainplan.workloads.trainer.report import report_files
from trainplan.workloads.trainer.rung_result import RungResult, write_result
from trainplan.workloads.trainer.tester import HoldOutResult, tested
from trainplan.workloads.trainer.usage import usage_lines
from trainplan.workloads.trainer.watch import StepsDone, TrainingWatch, epoch_of, hooked

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def train(job: TrainingJob, setting: Setting) -> None:
    """Train the job to its end, from the newest checkpoint on, and write output/ in the run directory.

    Raises BadInputError (the job or its data), TrainingStopped, DeadlineReached, DivergedError, or TrainerError.
    """
    began = setting.clock.monotonic()
    setting.progress.status(State.STARTING)
    ready = prepare(job, setting)
    _tell_start(ready, setting)
    agreement = Agreement(setting.group, broadcast(ready.toolkit, ready.devices), setting.clock.monotonic)
    saver = _saver(ready, setting)
    watch = TrainingWatch(ready.schedule, setting.limits, setting.progress, setting.clock, saver, agreement)
    try:
        if not setting.limits.writes_now:
            _fit(ready, setting, watch)
    except StepsDone:
        is_pilot = setting.limits.until_steady
        figures = pilot_figures(ready, setting, watch, _training_feed(ready, ready.schedule)) if is_pilot else {}
        _end(ready, setting, watch, began, _Ended(figures=figures))
        return
    except (TrainingStopped, DeadlineReached) as reason:
        state = State.STOPPED if isinstance(reason, TrainingStopped) else State.DEADLINE
        _end(ready, setting, watch, began, _Ended(state))
        raise
    except DivergedError as error:
        _without_figures(ready, setting, watch, began, error)
        return
    watch.training_end()
    try:
        if setting.limits.until_epoch is None:
            _finish(ready, setting, watch, began)
        else:
            _pause(ready, setting, watch, began)
    except DivergedError as error:
        _without_figures(ready, setting, watch, began, error)


def _without_figures(ready: Ready, setting: Setting, watch: TrainingWatch, began: float, error: DivergedError) -> None:
    """What is left of a training that diverged: of a trial of a sweep that it did, which is its result; of another the
    model of its last good checkpoint. Raises DivergedError."""
    if setting.limits.until_epoch is None:
        _keep_last_good(ready, setting, watch, began, error)
    write_result(setting.run_dir, RungResult(failure=str(error)))
    _end(ready, setting, watch, began, _Ended())


def _pause(ready: Ready, setting: Setting, watch: TrainingWatch, began: float) -> None:
    """Test a trial of a sweep where it stands; it goes on from its checkpoint. Raises DivergedError."""
    result = _shown_and_tested(ready, setting, watch)
    write_result(setting.run_dir, RungResult(accuracy=result.accuracy, loss=result.loss))
    _end(ready, setting, watch, began, _Ended(result=result))


def _keep_last_good(
    ready: Ready, setting: Setting, watch: TrainingWatch, began: float, error: DivergedError
) -> NoReturn:
    """Write the output with the weights of the newest checkpoint that gives numbers. Raises DivergedError."""
    model = ready.models.training
    is_alone = setting.group.is_alone and setting.limits.max_steps is None  # several processes must test together
    for loaded in checkpoints(setting).newest_first(ready.position, setting.progress.warn) if is_alone else ():
        if hasattr(model, "jax_state_sync"):
            model.jax_state_sync()  # a training that was broken off has taken the variables away
        ready.averages.hide()
        restore(ready, loaded)
        watch.step = loaded.position.step
        message = f"{error}; the model is that of step {watch.step:,}, the newest checkpoint from before that"
        try:
            _finish(ready, setting, watch, began, failure=message)
        except DivergedError:
            continue
        raise DivergedError(message, has_model=True) from error
    raise DivergedError(f"{error}; there is no checkpoint from before that, so no model is kept") from error


def _saver(ready: Ready, setting: Setting) -> Callable[[int], None]:
    store = checkpoints(setting)
    saved = ready.schedule.first_step

    def save(step: int) -> None:
        nonlocal saved
        if ready.group.rank:  # rank 0 alone writes
            return
        if step == saved:  # a stop right after a checkpoint by time would write the same one again
            return
        began = setting.clock.monotonic()
        epoch = epoch_of(step, ready.schedule.steps_per_epoch)
        position = ready.position.model_copy(update={"step": step, "epoch": epoch})
        ready.averages.hide()  # a signal may have ended a test, during which the model has the averages as weights
        try:
            size = store.save(position, state_arrays(ready), ready.validation.history())
        # A full disk does not end a training that may still finish: an older checkpoint is still complete.
        except OSError as error:
            setting.progress.warn(f"no checkpoint could be written at step {step}, training goes on: {error}")
            return
        saved = step
        seconds = round(setting.clock.monotonic() - began, 3)
        setting.progress.event("checkpoint", step=step, epoch=epoch, seconds=seconds, bytes=size)

    return save


def _fit(ready: Ready, setting: Setting, watch: TrainingWatch) -> None:
    setting.progress.status(State.RUNNING, epoch=watch.step // ready.schedule.steps_per_epoch + 1, step=watch.step)
    with setting.progress.phase("train"), naming_damaged(ready.split.train):
        if ready.validation.lacks(watch.step, ready.schedule.steps_per_epoch):
            _validate_epoch_before(ready, watch)
        until = _until(ready.schedule, setting.limits.until_epoch)
        for schedule in _stretches(until):
            if not ready.validation.is_over:
                _fit_stretch(ready, setting, watch, schedule)
    if ready.validation.is_over:
        _tell_early_end(ready, setting, watch)
    elif watch.step != until.total_steps:
        raise TrainerError(
            f"the data ended at step {watch.step:,} of {until.total_steps:,}; nothing is kept as a finished "
            "model: see that nobody changes the data during the run, and that data.images is right"
        )
    if setting.limits.max_steps is None:
        watch.checkpoint()


def _validate_epoch_before(ready: Ready, watch: TrainingWatch) -> None:
    """Repeat the validation of an epoch whose checkpoint was written after its last step and before its validation."""
    model = ready.models.training
    hooks = hooked(ready.toolkit.keras, model, watch, ready.averages, ready.validation)
    epoch = epoch_of(watch.step, ready.schedule.steps_per_epoch)
    watch.epoch_begin()
    with naming_damaged(ready.split.hold_out):
        metrics = model.evaluate(_hold_out_feed(ready), verbose=0, return_dict=True, callbacks=hooks)
    logs = {f"val_{name}": value for name, value in metrics.items()}
    seconds = watch.epoch_end(epoch - 1, logs, ready.validation.learning_rate)
    ready.validation.epoch_end(epoch, watch.step, logs, seconds)


def _tell_early_end(ready: Ready, setting: Setting, watch: TrainingWatch) -> None:
    patience = ready.job.validation.patience
    epoch = epoch_of(watch.step, ready.schedule.steps_per_epoch)
    message = f"training ended after epoch {epoch}: {patience} validations brought nothing better"
    setting.progress.event("early_end", epoch=epoch, step=watch.step, message=message)


def _until(schedule: Schedule, epoch: int | None) -> Schedule:
    """The schedule up to the end of an epoch; a trial of a sweep that has been trained beyond it stays where it is."""
    if epoch is None:
        return schedule
    reached = -(-schedule.first_step // schedule.steps_per_epoch)
    return replace(schedule, epochs=min(schedule.epochs, max(epoch, reached)))


def _stretches(schedule: Schedule) -> list[Schedule]:
    """The rest of an interrupted epoch, then the whole epochs. They are separate: `fit` has one number of steps per
    epoch."""
    rest_begins = schedule.first_step
    stretches = []
    if schedule.skipped_steps:
        stretches.append(replace(schedule, epochs=schedule.first_epoch + 1))
        rest_begins = (schedule.first_epoch + 1) * schedule.steps_per_epoch
    if rest_begins < schedule.total_steps:
        stretches.append(replace(schedule, first_step=rest_begins))
    return stretches


def _fit_stretch(ready: Ready, setting: Setting, watch: TrainingWatch, schedule: Schedule) -> None:
    model = ready.models.training
    every = _test_every(ready, measuring=setting.limits.max_steps is not None)
    model.fit(
        _training_feed(ready, schedule),
        initial_epoch=schedule.first_epoch,
        epochs=schedule.epochs,
        steps_per_epoch=(schedule.steps_per_epoch - schedule.skipped_steps) * schedule.accumulate,
        validation_data=_hold_out_feed(ready) if every else None,
        validation_freq=every or 1,
        callbacks=hooked(
            ready.toolkit.keras, model, watch, ready.averages, ready.validation, parts=schedule.accumulate
        ),
        shuffle=False,
        verbose=0,
    )


def _test_every(ready: Ready, *, measuring: bool) -> int | None:
    """The number of epochs between tests of the hold-out; None means only one test at the end."""
    if measuring:  # a test would take time of a run that only measures training
        return None
    return ready.validation.spec_every or test_every(ready.split.train.count, ready.split.hold_out.count)


def _training_feed(ready: Ready, schedule: Schedule) -> Any:
    tf = _feeding_tensorflow(ready, ready.split.train)
    if tf is None:
        return training_batches(ready.split.train, schedule, ready.group)
    dataset = tfdata.training_dataset(tf, ready.split.train, schedule)
    alone = ready.devices.count == 1 and ready.toolkit.framework is Framework.TENSORFLOW
    if alone and ready.devices.kind is DeviceKind.GPU:
        # The copy of the next batch to the device overlaps the step before; a strategy does this by itself.
        return dataset.apply(tf.data.experimental.prefetch_to_device("GPU:0", 2))
    return dataset


def _hold_out_feed(ready: Ready) -> Any:
    images, fed = ready.split.hold_out, ready.schedule.fed_batch_size
    if not ready.group.is_alone:
        even = even_hold_out_batch(images.count, fed, ready.devices.count)
        return hold_out_batches(ready.toolkit.keras, images, even, ready.group)
    batch_size = hold_out_batch(images.count, fed, ready.devices.count)
    tf = _feeding_tensorflow(ready, images)
    if tf is None:
        return hold_out_batches(ready.toolkit.keras, images, batch_size)
    return tfdata.ordered_dataset(tf, images, batch_size)


def _feeding_tensorflow(ready: Ready, images: Images) -> Any | None:
    """tf.data feeds TensorFlow always, and files to any framework where TensorFlow is installed."""
    # A pipeline of tf.data makes whole batches; of several processes, each reads its own part.
    if not ready.group.is_alone:
        return None
    if ready.toolkit.framework is not Framework.TENSORFLOW and isinstance(images, ArrayImages):
        return None
    return tensorflow_for_data(ready.toolkit)


def _finish(ready: Ready, setting: Setting, watch: TrainingWatch, began: float, failure: str | None = None) -> None:
    """Test the hold-out, once, and write the output. `failure`: why these are not the weights of the last step.

    Raises DivergedError where the model gives no numbers.
    """
    result = _shown_and_tested(ready, setting, watch)
    _stop_alone(setting)
    with setting.progress.phase("save"):
        figures = _metrics(ready, watch, result) | ({} if failure is None else {"failure": failure})
        if ready.group.rank:  # rank 0 alone writes
            _end(ready, setting, watch, began, _Ended(result=result))
            return
        try:
            write_output(
                setting.run_dir / "output", plain_model(ready), figures, _reports(ready, setting, result, failure)
            )
        except OSError as error:
            raise TrainerError(f"the model could not be written: {error}; make room and start again") from error
    _end(ready, setting, watch, began, _Ended(result=result))


def _shown_and_tested(ready: Ready, setting: Setting, watch: TrainingWatch) -> HoldOutResult:
    """Test the weights that the model is to have: the best, the averages, or the last ones. Raises DivergedError."""
    # A stop or a deadline during the last step is noticed here, before the test of the hold-out.
    _stop_alone(setting)
    if ready.validation.best:
        ready.validation.show_best()
    else:
        ready.averages.show()
    with setting.progress.phase("evaluate"):
        _renew_batch_norm(ready, setting)
        with naming_damaged(ready.split.hold_out):
            tested_now = _tested(ready, setting, _hold_out_feed(ready))
        result = replace(tested_now, training=ready.validation.training_accuracy)
        if result.is_far_below_training and setting.group.is_alone:
            with naming_damaged(ready.split.train):
                again = _tested(ready, setting, _training_feed(ready, _some_training_images(ready)))
            result = replace(result, training_tested=again.accuracy)
    if not math.isfinite(result.loss):
        raise diverged(f"the loss on the test images is {result.loss} after step {watch.step:,}")
    return result


def _renew_batch_norm(ready: Ready, setting: Setting) -> None:
    schedule = renewing_schedule(ready)
    if schedule is None:
        return
    # Every process reads all of these images, so that all have the same averages.
    tf = _feeding_tensorflow(ready, ready.split.train)
    images = ready.split.train
    with naming_damaged(images):
        feed = training_batches(images, schedule) if tf is None else tfdata.training_dataset(tf, images, schedule)
        renew(ready.toolkit, ready.models.serving, model_on_one_device(ready), feed, lambda: _stop_alone(setting))


def _stop_alone(setting: Setting) -> None:
    """Raises TrainingStopped or DeadlineReached where that is due and no other process waits for this one: several
    test and write to the end, which takes seconds."""
    if setting.group.is_alone:
        stop_between(setting)


def _some_training_images(ready: Ready) -> Schedule:
    """To test on training images: whole batches of up to a thousand."""
    batches = max(1, min(AVERAGED_IMAGES, ready.split.train.count) // ready.schedule.batch_size)
    return replace(ready.schedule, steps_per_epoch=batches, epochs=1, first_step=0, grouped=(1, 1))


def _tested(ready: Ready, setting: Setting, feed: Any) -> HoldOutResult:
    with ready.devices.scope():
        return tested(
            ready.toolkit.keras,
            ready.models.testing,
            feed,
            xla=ready.xla,
            between=lambda: _stop_alone(setting),
            together=ready.together,
        )


def _reports(ready: Ready, setting: Setting, result: HoldOutResult, failure: str | None) -> dict[str, bytes]:
    split, validation = ready.split, ready.validation
    of = f"epoch {validation.best_epoch}, the best validation" if validation.best_epoch else "the end of the run"
    sentence = f"Tested on {split.hold_out.count:,} test images, with the weights of {of}."
    if failure is not None:
        sentence = f"**Training failed: {failure}.** Tested on {split.hold_out.count:,} test images."
    sentence += f" {ready.preprocessing.normalisation.text}"
    usage = usage_lines(ready.toolkit, split.train.size, split.train.channels, split.class_names)
    if ready.toolkit.framework is not Framework.TENSORFLOW:
        sentence += f" There is no TensorBoard event file: {ready.toolkit.framework} trained, and TensorFlow writes it."
        return report_files(ready.job.name, validation.epochs, result, split.class_names, sentence, usage)
    curve = event_file(ready.toolkit.module, validation.epochs, setting.clock.wall())
    files = {} if curve is None else {EVENT_FILE: curve}
    return report_files(ready.job.name, validation.epochs, result, split.class_names, sentence, usage) | files


def _metrics(ready: Ready, watch: TrainingWatch, result: HoldOutResult) -> dict[str, object]:
    graph = ready.job.graph()
    return {
        "name": ready.job.name,
        "job_digest": ready.position.job_digest,
        "hold_out_accuracy": result.accuracy,
        "hold_out_loss": result.loss,
        **({} if result.top5 is None else {"hold_out_top5": result.top5}),
        **({} if ready.validation.best_epoch is None else {"best_epoch": ready.validation.best_epoch}),
        "hold_out_images": ready.split.hold_out.count,
        "images": ready.split.train.count,
        "epochs": ready.job.epochs,
        "steps": watch.step,
        "parameters": graph.parameters,
        "moving_statistics": graph.statistics,
        "images_per_second": round(watch.meter.images_per_second, 2),
        "train_seconds": round(watch.meter.train_seconds, 3),
        "input": {
            "dtype": "uint8",
            "range": [0, 255],
            "shape": [ready.split.train.size, ready.split.train.size, ready.split.train.channels],
        },
        "normalisation": asdict(ready.preprocessing.normalisation),
        "class_names": list(ready.split.class_names),
        **_versions(ready),
    }


def _versions(ready: Ready) -> dict[str, object]:
    return {
        "framework": ready.job.framework.value,
        "framework_version": ready.toolkit.framework_version,
        "keras_version": ready.toolkit.keras_version,
        "python_version": platform.python_version(),
        "precision": ready.job.precision.value,
        "xla": ready.xla,
    }


def _tell_start(ready: Ready, setting: Setting) -> None:
    setting.progress.event(
        "start",
        device_kind=ready.devices.kind.value,
        device_name=ready.devices.name,
        device_count=ready.devices.count,
        strategy=ready.devices.strategy_name,
        **_versions(ready),
        images=ready.split.train.count,
        steps_per_epoch=ready.schedule.steps_per_epoch,
        epochs=ready.schedule.epochs,
        total_steps=ready.schedule.total_steps,
        resumed_from_step=ready.schedule.first_step,
    )


def _copies(ready: Ready, result: HoldOutResult | None) -> dict[str, int]:
    """How many test images were trained on; counted where all of them were told right, which asks for it."""
    if result is None or result.accuracy < 1:
        return {}
    copies = count_copies(ready.stored)
    return {"hold_out_trained_on": copies} if copies else {}


def _others(ready: Ready, watch: TrainingWatch) -> dict[str, float]:
    """The share of the processors that other programs had: what a rate on a processor hangs on. Other processes of
    this training are no other programs, and nobody can tell them apart here."""
    share = watch.others_share() if ready.devices.kind is DeviceKind.CPU and ready.group.is_alone else None
    return {} if share is None else {"others_share": round(share, 3)}


class _Ended(NamedTuple):
    """How an attempt ends; `result` is that of the test of the hold-out, `figures` those of a pilot."""

    state: State = State.DONE
    result: HoldOutResult | None = None
    figures: Mapping[str, object] = MappingProxyType({})


def _end(ready: Ready, setting: Setting, watch: TrainingWatch, began: float, ended: _Ended) -> None:
    state, result, figures = ended
    epoch = epoch_of(watch.step, ready.schedule.steps_per_epoch)
    setting.progress.event(
        "end",
        state=state.value,
        step=watch.step,
        epoch=epoch,
        **{"images_per_second": round(watch.meter.images_per_second, 2), **figures},
        hold_out_accuracy=result.accuracy if result else None,
        **({} if result is None else result.figures),
        **(
            {} if result is None or ready.validation.best_epoch is None else {"best_epoch": ready.validation.best_epoch}
        ),
        hold_out_images=ready.split.hold_out.count,
        **_copies(ready, result),
        **_others(ready, watch),
        train_seconds=round(watch.meter.train_seconds, 3),
        total_seconds=round(setting.clock.monotonic() - began, 3),
        peak_memory_bytes=peak_memory_bytes(ready.toolkit, ready.devices),
    )
    setting.progress.status(state, epoch=epoch, step=watch.step)
