"""What the trainer's tests share: skipping where the train extra is missing, a clock, images."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest

from tests.unit.workloads.trainer.clocks import FakeClock

HAS_TENSORFLOW = importlib.util.find_spec("tensorflow") is not None
# Set by scripts/k80_check.sh alone: elsewhere a Keras that is too old makes these tests fail, not be skipped.
ON_KERAS_2 = os.environ.get("TRAINPLAN_KERAS_2") == "1"
# Without numpy nothing here can even be imported.
collect_ignore_glob = [] if importlib.util.find_spec("numpy") else ["test_*.py"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests marked `train` are skipped without TensorFlow, but fail where CI promised it. Tests marked `keras_3` are
    skipped in the environment for a K80."""
    if ON_KERAS_2:
        for item in items:
            if item.get_closest_marker("keras_3"):
                item.add_marker(pytest.mark.skip(reason="needs Keras 3"))
    if HAS_TENSORFLOW or os.environ.get("CI") == "true":
        return
    for item in items:
        if item.get_closest_marker("train"):
            item.add_marker(pytest.mark.skip(reason="TensorFlow is not installed (the extra train-cpu)"))


@pytest.fixture
def fake_clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def image_folder(tmp_path: Path) -> Path:
    """Three classes of 40 PNGs of 12x10 px; a class is a grey level."""
    from PIL import Image

    for label, name in enumerate(("cat", "dog", "eel")):
        (tmp_path / "images" / name).mkdir(parents=True)
        for number in range(40):
            Image.new("L", (12, 10), 60 * label + number % 7).save(tmp_path / "images" / name / f"{number:03}.png")
    return tmp_path / "images"
