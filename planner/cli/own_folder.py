"""What a job says of a folder of the person's own images: read from the folder, for a command without a job file."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from trainplan.planner.cli.folder_defaults import SMALL_IMAGE_PX, SMALL_NETWORK, defaults_for, largest_batch_for
from trainplan.planner.errors import BadInputError

if TYPE_CHECKING:
    from trainplan.workloads.data_folder.report import Report
    from trainplan.workloads.graph import Graph
    from trainplan.workloads.key_changes import Change

_MOST_DECODED = 500
"""Images that are decoded for their size and channels, spread over the folder; plan data check decodes all."""
USUAL_IMAGE_SIZE_PX = 224
"""What the nets were published with (Simonyan and Zisserman 2015); images that are larger are resized to it."""
_LEAST_STEPS = 10
"""Steps of an epoch: a batch is smaller than usual where there are few images."""
_USUAL_DEVICE = "T4"
"""The device with the least memory that every cloud rents today (pricing/data/devices.toml)."""


class FolderJob(NamedTuple):
    """What a job says of a folder, the report that it was read from, and why its defaults are what they are."""

    values: dict[str, Any]
    report: Report
    why: str = ""

    def changes(self, typed: str) -> tuple[Change, ...]:
        """The values as changes of a job, typed as one option."""
        from trainplan.workloads.key_changes import Change

        rows = [
            (part, key, value)
            for part, keys in self.values.items()
            for key, value in (keys.items() if isinstance(keys, dict) else [("", keys)])
        ]
        return tuple(
            Change((part, key) if key else (part,), value, typed if number == 0 else "")
            for number, (part, key, value) in enumerate(rows)
        )


def job_of_folder(
    folder: Path,
    preset: str | None,
    *,
    image_size: int | None = None,
    batch: int | None = None,
    with_defaults: bool = False,
) -> FolderJob:
    """What a job that trains this net on the folder says of it: path, channels, classes, the size of its images and a
    batch. `preset` is "" for a network of a file, and None for the small one that is taken where none is named. To
    stderr a line of what the folder holds. `with_defaults`: the keys that let the network learn from so many images
    too.

    Raises BadInputError for a folder that cannot be trained on.
    """
    report = _checked(folder)
    data: dict[str, Any] = {"path": str(folder.resolve()), "channels": report.channels or 3}
    if report.first_label == 1:
        data["first_label"] = 1
    network = SMALL_NETWORK if preset is None else {"preset": preset} if preset else None
    size = image_size or _size(report, network)
    net = _net(network, size, len(report.classes), data["channels"])
    batch = batch or _batch(net, report.train_images)
    named = SMALL_NETWORK if preset is None else {}
    values: dict[str, Any] = {
        "data": data,
        "model": named | {"image_size": size, "classes": len(report.classes)},
        "global_batch_size": batch,
    }
    if not with_defaults:
        return FolderJob(values=values, report=report)
    defaults = defaults_for(preset or "", net, report.train_images, batch, data["channels"])
    sys.stderr.write(f"job: {defaults.why}\n")
    parts = {**values, **defaults.values, "model": {**values["model"], **defaults.values["model"]}}
    return FolderJob(values=parts, report=report, why=defaults.why)


def name_of(preset: str, folder: Path) -> str:
    """`vgg16-flowers`, as a job may be called."""
    words = re.sub(r"[^a-z0-9]+", "-", folder.resolve().name.lower()).strip("-")
    return f"{preset}-{words}"[:63].strip("-")


def _checked(folder: Path) -> Report:
    from trainplan.planner.report.data_report import launch_lines, problems_text
    from trainplan.workloads.data_folder.check import check_folder
    from trainplan.workloads.data_folder.values import DataFolderError

    hint = "docs/data.md has the layouts that are read"
    try:
        report = check_folder(folder, _MOST_DECODED)
    except DataFolderError as error:
        raise BadInputError(str(error), hint) from None
    except OSError as error:
        raise BadInputError(f"cannot read {error.filename or folder}: {error.strerror}") from None
    sys.stderr.writelines(f"{line}\n" for line in launch_lines(report))
    if report.problems:
        raise BadInputError(
            problems_text(folder, report), f"plan data check {shlex.quote(str(folder))} lists every problem"
        )
    return report


def _size(report: Report, network: dict[str, Any] | None) -> int:
    """The shorter side of the middle image, at most the usual size, and no smaller than the net takes."""
    if report.sizes is None:
        raise BadInputError(
            "the size of the images is not known: Pillow, which decodes them, is not installed here",
            "--image-size N, or pip install pillow",
        )
    if network == SMALL_NETWORK:
        least, most = SMALL_IMAGE_PX
        return max(least, min(most, *report.sizes.middle))
    size = min(USUAL_IMAGE_SIZE_PX, *report.sizes.middle)
    while network and _net(network, size, 2, 3) is None and size < USUAL_IMAGE_SIZE_PX:
        size += 1
    return size


def _net(network: dict[str, Any] | None, size: int, classes: int, channels: int) -> Graph | None:
    """The net for such images; None where they are too small for it, or it is that of a file, which is not read yet."""
    from trainplan.workloads.job import DataSpec, ModelSpec, TrainingJob

    try:
        model = ModelSpec.model_validate({**(network or {}), "image_size": size, "classes": classes})
        data = DataSpec.model_validate({"path": ".", "channels": channels})
        job = TrainingJob(name="job", model=model, data=data, epochs=1, global_batch_size=1)
        return job.graph()
    except ValueError:
        return None


def _batch(net: Graph | None, images: int) -> int:
    """The usual batch for so many images, or the largest power of two below it that a small GPU and this computer train
    at once and that leaves an epoch of ten steps."""
    from trainplan.pricing.catalog import find_device
    from trainplan.providers.hardware import memory_bytes
    from trainplan.workloads.memory import FRAMEWORK_BYTES, GIB, largest_batch

    most = min(largest_batch_for(images), images // _LEAST_STEPS)
    if net is not None:  # that of a file is not read yet, and its memory not known
        device = find_device(_USUAL_DEVICE)
        usable_gib = [device.usable_memory(device.memory_gib or 0).low_gib]
        if here := memory_bytes():
            usable_gib.append((here - FRAMEWORK_BYTES) / GIB)
        most = min(most, largest_batch(net, min(usable_gib), "fp32", "adam"))
    return 1 << (max(1, most).bit_length() - 1)
