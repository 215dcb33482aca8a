"""Known data sets: complete, plausible, and those a job can name."""

from __future__ import annotations

import pytest

from trainplan.workloads.datasets import DATASETS, DataSet
from trainplan.workloads.job import DataName


def test_a_job_can_name_exactly_the_known_sets() -> None:
    assert list(DATASETS) == list(DataName)


@pytest.mark.parametrize("row", list(DATASETS.values()), ids=list(DATASETS))
def test_every_row_is_plausible(row: DataSet) -> None:
    assert row.train_images > row.hold_out_images > 0
    assert row.channels in (1, 3)
    assert row.classes >= 2
    assert row.source
    stored = row.train_images * row.image_size**2 * row.channels
    # Compressed, but not by more than ten; 0 where nothing is fetched.
    assert row.download_bytes == 0 or stored / 10 < row.download_bytes < 4 * stored


def test_the_digits_are_split_in_five() -> None:
    digits = DATASETS["digits"]
    assert (digits.train_images, digits.hold_out_images) == (1_437, 360)
    assert digits.train_images + digits.hold_out_images == 1_797
