"""What a pilot measures beside its rate: how fast images come in, and what a checkpoint takes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from statistics import fmean
from typing import TYPE_CHECKING, Any

from trainplan.workloads.trainer.checkpoint import Checkpoints
from trainplan.workloads.trainer.output import write_figures
from trainplan.workloads.trainer.prepare import Ready, Setting, state_arrays
from trainplan.workloads.trainer.steady import half_width

if TYPE_CHECKING:
    from trainplan.workloads.trainer.watch import TrainingWatch

DATA_SECONDS = 2.0
"""How long images are fetched without being trained on."""
DATA_WINDOWS = 4
MOST_DATA_SECONDS = 10.0
"""After that the images come so slowly that a longer look tells nothing more."""
_FIRST_BATCHES = 3
"""These may have been made ready ahead."""
BOUND_FACTOR = 1.1
"""Training no slower than the images come in, by more than this, is held up by them."""
MEASUREMENT = "measurement.json"


def pilot_figures(ready: Ready, setting: Setting, watch: TrainingWatch, batches: Iterable[Any]) -> dict[str, object]:
    """The figures of a pilot whose steps are done, as its last line of progress has them; `batches` are fed as those of
    the training were. Also written as the output of the run, which a rented machine vouches for."""
    watch.training_end()
    windows = watch.windows
    rate = windows.images_per_second or watch.meter.images_per_second
    width = half_width(windows.rates)
    figures: dict[str, object] = {
        "images_per_second": round(rate, 2),
        "windows": len(windows.rates),
        "half_width": None if width is None else round(width, 5),
    }
    if not setting.limits.rate_only:
        figures |= {**_data(ready, setting, batches, rate), **_checkpoint(ready, setting, watch)}
    if not ready.group.rank:  # rank 0 alone writes
        text = json.dumps({**figures, "window_images_per_second": [round(one, 2) for one in windows.rates]}, indent=1)
        write_figures(setting.run_dir / "output", MEASUREMENT, text)
    return figures


def is_bound(images_per_second: float, data_images_per_second: float | None) -> bool:
    """Whether training at such a rate is held up by the rate at which images come in."""
    return data_images_per_second is not None and data_images_per_second <= BOUND_FACTOR * images_per_second


def _data(ready: Ready, setting: Setting, batches: Iterable[Any], rate: float) -> dict[str, object]:
    """How many images are read, decoded and handed over within a second, and the half width of that; None where the
    data ended too soon to tell."""
    rates = _data_rates(setting, batches, ready.schedule.fed_batch_size)
    mean, width = fmean(rates) if rates else None, half_width(rates)
    return {
        "data_images_per_second": None if mean is None else round(mean, 2),
        "data_half_width": None if width is None else round(width, 5),
        "input_bound": is_bound(rate, mean),
    }


def _data_rates(setting: Setting, batches: Iterable[Any], size: int) -> list[float]:
    """The rates of equal windows, each of whole batches of `size` images."""
    now = setting.clock.monotonic
    opened_at = now()
    began, count, rates = 0.0, -_FIRST_BATCHES, []
    for _ in batches:
        count += 1
        if count == 0:
            began = now()
        lasting = now() - began
        if count > 0 and lasting >= DATA_SECONDS / DATA_WINDOWS:
            rates.append(count * size / lasting)
            began, count = now(), 0
        if len(rates) == DATA_WINDOWS or now() - opened_at >= MOST_DATA_SECONDS:
            break
    lasting = now() - began
    return rates if rates or count <= 0 or lasting <= 0 else [count * size / lasting]


def _checkpoint(ready: Ready, setting: Setting, watch: TrainingWatch) -> dict[str, object]:
    """Seconds and bytes of one checkpoint, which is not kept; {} where none could be written."""
    if ready.group.rank:
        return {}
    folder = setting.run_dir / ".pilot"
    began = setting.clock.monotonic()
    try:
        ready.averages.hide()
        position = ready.position.model_copy(update={"step": watch.step})
        size = Checkpoints(folder).save(position, state_arrays(ready), ready.validation.history())
    except OSError as error:
        setting.progress.warn(f"no checkpoint could be written: {error}")
        return {}
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return {"checkpoint_seconds": round(setting.clock.monotonic() - began, 3), "checkpoint_bytes": size}
