"""Answers of a kept model, which a function stands for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trainplan.workloads.trainer.predict import Question, answers


def test_every_path_has_an_answer_in_its_place_and_batches_hold_what_can_be_read(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    paths = [str(tmp_path / f"{number}.png") for number in range(70)]
    for number, path in enumerate(paths):
        image.new("L", (6, 4), number).save(path)
    broken, missing = paths[3], str(tmp_path / "missing.png")
    (tmp_path / "3.png").write_bytes(b"no image")
    seen: list[tuple[int, ...]] = []

    def model(pixels: Any) -> Any:
        """Class 1 as likely as the image is bright."""
        seen.append(pixels.shape)
        share = pixels.mean(axis=(1, 2, 3)) / 255
        return np.stack([1 - share, share, 0 * share], axis=1)

    asked = [*paths, missing]
    question = Question(model="", framework="jax", size=4, channels=1, paths=asked, most=2)
    told = list(answers(question, model))
    assert [answer["path"] for answer in told] == asked
    assert [answer["path"] for answer in told if "error" in answer] == [broken, missing]
    assert told[69]["scores"] == [(0, pytest.approx(1 - 69 / 255)), (1, pytest.approx(69 / 255))]
    assert seen == [(31, 4, 4, 1), (32, 4, 4, 1), (6, 4, 4, 1)]
