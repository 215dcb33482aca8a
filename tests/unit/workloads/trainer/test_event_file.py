"""The event file that TensorBoard reads, read back record by record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trainplan.workloads.trainer.event_file import EVENT_FILE, event_file
from trainplan.workloads.trainer.history import Epoch

pytestmark = [pytest.mark.train, pytest.mark.filterwarnings("default")]
EPOCHS = [
    Epoch(epoch=1, step=5, loss=2.0, accuracy=0.25, rate=0.5, seconds=8.0),
    Epoch(
        epoch=2, step=10, loss=1.0, accuracy=0.5, validation_loss=1.25, validation_accuracy=0.75, rate=0.25, seconds=2
    ),
]


def test_every_figure_is_a_scalar_at_its_epoch(tensorflow: Any, tmp_path: Path) -> None:
    path = tmp_path / EVENT_FILE
    content = event_file(tensorflow, EPOCHS, 1_000.0)
    assert content is not None
    path.write_bytes(content)
    records = list(tensorflow.compat.v1.train.summary_iterator(str(path)))
    assert [(record.wall_time, record.step) for record in records] == [(990.0, 0), (998.0, 1), (1_000.0, 2)]
    assert records[0].file_version == "brain.Event:2"
    scalars = [{value.tag: value.simple_value for value in record.summary.value} for record in records[1:]]
    assert scalars == [
        {"loss/training": 2.0, "accuracy/training": 0.25, "learning_rate": 0.5, "epoch_seconds": 8.0},
        {
            "loss/training": 1.0,
            "loss/validation": 1.25,
            "accuracy/training": 0.5,
            "accuracy/validation": 0.75,
            "learning_rate": 0.25,
            "epoch_seconds": 2.0,
        },
    ]


def test_without_a_whole_epoch_there_is_no_file(tensorflow: Any) -> None:
    assert event_file(tensorflow, [], 1_000.0) is None
