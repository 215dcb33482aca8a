"""Steps of several devices under PyTorch, and of TPU slices, beside what is estimated of them."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from statistics import fmean

import pytest

from scripts.fit.shared_steps import SharedStep, shared_lines, shared_steps

ACCURACY = Path(__file__).parents[3] / "docs" / "accuracy.md"


@pytest.fixture(scope="module")
def steps() -> list[SharedStep]:
    return shared_steps()


@pytest.fixture(scope="module")
def on_gpus(steps: list[SharedStep]) -> list[SharedStep]:
    return [step for step in steps if not step.row.device.startswith("TPU")]


def test_the_page_has_the_table_of_today(steps: list[SharedStep]) -> None:
    assert "\n".join(shared_lines(steps)) in ACCURACY.read_text(encoding="utf-8"), (
        "put the lines of `python -m scripts.fit.shared_steps` into docs/accuracy.md"
    )


def test_torch_on_several_gpus_is_estimated_as_it_was_measured(on_gpus: list[SharedStep]) -> None:
    of_source = defaultdict(list)
    for step in on_gpus:
        of_source[step.row.source].append(step)
    assert len(on_gpus) > 100
    assert fmean(abs(step.ratio - 1) for step in on_gpus) < 0.2
    assert all(0.48 < step.ratio < 1.5 for step in on_gpus)
    assert 0.75 <= fmean(step.is_inside for step in on_gpus) <= 0.9
    # pycls' RegNets have no sibling on a V100.
    assert all(fmean(step.is_inside for step in some) >= 0.65 for some in of_source.values())


def test_the_gain_of_several_gpus_is_that_of_ddp(on_gpus: list[SharedStep]) -> None:
    for gains in ([step.gain for step in on_gpus], [step.plausible_gain for step in on_gpus]):
        known = [gain for gain in gains if gain is not None]
        assert len(known) > 60
        assert fmean(abs(gain - 1) for gain in known) < 0.05
        assert all(0.9 < gain < 1.2 for gain in known)


def test_more_hosts_of_a_slice_gain_what_they_did_in_mlperf(steps: list[SharedStep]) -> None:
    """ResNet-50 with 256 images a chip on 16 and on 64 chips of TPU v3, by one program."""
    small, large = (next(step for step in steps if step.row.id == id_) for id_ in ("mlperf-0004", "mlperf-0002"))
    assert (small.row.device_count, large.row.device_count) == (16, 64)
    assert large.ratio / small.ratio == pytest.approx(1, abs=0.05)


def test_tpus_are_estimated_as_they_were_measured(steps: list[SharedStep]) -> None:
    """A question had the level of Keras on EC2's GPUs, a copy of images that a TPU's infeed hides, and for 32 bits the
    GPUs' arithmetic: 1 of 12 rows was inside, at 0.45 to 0.6 of what was published."""
    on_tpus = [step for step in steps if step.row.device.startswith("TPU")]
    assert len(on_tpus) == 12
    assert sum(step.is_inside for step in on_tpus) >= 9
    assert fmean(abs(step.ratio - 1) for step in on_tpus) < 0.2
    # No row of PyTorch/XLA is in a fit.
    assert all(0.85 < step.ratio < 1.15 for step in on_tpus if step.row.source.startswith("pytorch_xla"))
