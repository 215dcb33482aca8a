"""The epochs of a run as a TensorBoard event file, which TensorFlow writes where it is what trains."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainplan.workloads.trainer.history import Epoch

EVENT_FILE = "events.out.tfevents.trainplan"
"""TensorBoard reads every file with `tfevents` in its name."""
_VERSION = "brain.Event:2"
"""The first record of an event file names its format (TensorFlow, core/util/event.proto, `file_version`)."""
_TAGS = {
    "loss": "loss/training",
    "validation_loss": "loss/validation",
    "accuracy": "accuracy/training",
    "validation_accuracy": "accuracy/validation",
    "validation_top5": "accuracy/validation_top5",
    "rate": "learning_rate",
    "seconds": "epoch_seconds",
}
"""Tags by field of Epoch. TensorBoard shows tags with the same first part together."""


def event_file(tensorflow: Any, epochs: Sequence[Epoch], ended_at: float) -> bytes | None:
    """The file's content, with a scalar for each figure of each epoch; the step of a scalar is its epoch, as in Keras'
    own callback. None where there is no whole epoch.

    `ended_at`: seconds since 1970. Epochs are stamped backwards from it by their seconds, as if the run had no pauses.
    """
    if not epochs:
        return None
    proto = tensorflow.compat.v1
    stamp = ended_at - sum(epoch.seconds or 0.0 for epoch in epochs)
    records = [proto.Event(wall_time=stamp, file_version=_VERSION)]
    for epoch in epochs:
        stamp += epoch.seconds or 0.0
        figures = {tag: getattr(epoch, field) for field, tag in _TAGS.items()}
        values = [proto.Summary.Value(tag=tag, simple_value=it) for tag, it in figures.items() if it is not None]
        records.append(proto.Event(wall_time=stamp, step=epoch.epoch, summary=proto.Summary(value=values)))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / EVENT_FILE
        with tensorflow.io.TFRecordWriter(str(path)) as writer:
            for record in records:
                writer.write(record.SerializeToString())
        return path.read_bytes()
