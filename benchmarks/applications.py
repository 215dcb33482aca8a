"""Trains each network of keras.applications for two steps on this computer's processor, as a person's file of one
line: read, confined as `plan estimate` reads it, and trained by the trainer. A CSV table; exit code 1 where one was
refused, or did not end well.

Needs TensorFlow. `PYTHONPATH=. python benchmarks/applications.py > table.csv`; `--only EfficientNet` takes those whose
names begin so. Images are made up, of 32 pixels a side or the least that the network takes, in batches of two: it is
looked at whether a network trains, not how fast. One at a time, the smallest first; one that would need more memory
than is free is left out, and told.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainplan.planner.clock import SystemClock
from trainplan.planner.planning.own_networks import Reading, with_network
from trainplan.providers.hardware import available_memory_bytes
from trainplan.workloads.job_mistakes import validated_job

if TYPE_CHECKING:
    from trainplan.workloads.job import TrainingJob

LEAST_SIZE = {"InceptionV3": 75, "InceptionResNetV2": 75, "Xception": 71}
"""Pixels a side; the others take 32 (their docstrings, Keras 3.15)."""
MILLIONS = {
    "MobileNetV3Small": 2.6, "MobileNetV2": 3.5, "MobileNet": 4.3, "EfficientNetB0": 5.3, "NASNetMobile": 5.3,
    "MobileNetV3Large": 5.5, "EfficientNetV2B0": 7.2, "EfficientNetB1": 7.9, "DenseNet121": 8.1,
    "EfficientNetV2B1": 8.2, "EfficientNetB2": 9.2, "EfficientNetV2B2": 10.2, "EfficientNetB3": 12.3,
    "DenseNet169": 14.3, "EfficientNetV2B3": 14.5, "EfficientNetB4": 19.5, "DenseNet201": 20.2,
    "EfficientNetV2S": 21.6, "Xception": 22.9, "InceptionV3": 23.9, "ResNet50": 25.6, "ResNet50V2": 25.6,
    "ConvNeXtTiny": 28.6, "EfficientNetB5": 30.6, "EfficientNetB6": 43.3, "ResNet101": 44.7, "ResNet101V2": 44.7,
    "ConvNeXtSmall": 50.2, "EfficientNetV2M": 54.4, "InceptionResNetV2": 55.9, "ResNet152": 60.4, "ResNet152V2": 60.4,
    "EfficientNetB7": 66.7, "ConvNeXtBase": 88.6, "NASNetLarge": 88.9, "EfficientNetV2L": 119.0, "VGG16": 138.4,
    "VGG19": 143.7, "ConvNeXtLarge": 197.8, "ConvNeXtXLarge": 350.2,
}  # fmt: skip
"""Of parameters, with 1,000 classes (keras.io/api/applications, 2026-11)."""
COPIES, BASE_BYTES = 4, 2 * 1024**3
"""Weights, gradients, and as much again while the network is built; and TensorFlow itself."""
COLUMNS = ("network", "pixels", "million_parameters", "pixel_range", "seconds", "peak_gib", "outcome")
SECONDS = 1200


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=[""], help="networks whose names begin so")
    options = parser.parse_args()
    writer = csv.DictWriter(sys.stdout, COLUMNS, lineterminator="\n")
    writer.writeheader()
    failed = 0
    for name in sorted(MILLIONS, key=lambda name: MILLIONS[name]):
        if name.startswith(tuple(options.only)):
            row = trained(name)
            failed += row["outcome"].startswith("failed")
            writer.writerow(row)
            sys.stdout.flush()
    return 1 if failed else 0


def trained(name: str) -> dict[str, Any]:
    """The row of one network."""
    size = LEAST_SIZE.get(name, 32)
    row: dict[str, Any] = {"network": name, "pixels": size}
    needed, free = COPIES * MILLIONS[name] * 4e6 + BASE_BYTES, available_memory_bytes()
    if free is not None and free < needed:
        return {**row, "outcome": f"left out: {free / 1024**3:.1f} GiB are free, about {needed / 1024**3:.1f} needed"}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        job = read(name, size, Path(folder))
        if isinstance(job, str):
            return {**row, "outcome": f"failed: {job}"}
        graph = job.model.read.graph() if job.model.read is not None else None
        assert graph is not None
        row |= {
            "million_parameters": round((graph.parameters + graph.statistics) / 1e6, 2),
            "pixel_range": "{:g} to {:g}".format(*job.model.read.pixel_range) if job.model.read is not None else "",
        }
        return row | run(job, Path(folder))


def read(name: str, size: int, folder: Path) -> TrainingJob | str:
    """The job with its network as it was read, or why it is refused."""
    (folder / "one_line.py").write_text(
        "import keras\n\n\ndef build(image_size, channels, classes):\n    return keras.applications."
        f"{name}(weights=None, input_shape=(image_size, image_size, channels), classes=classes)\n",
        encoding="utf-8",
    )
    values = {
        "name": "one-line", "model": {"python": f"{folder / 'one_line.py'}:build", "image_size": size, "classes": 10},
        "data": {"name": "synthetic", "images": 8}, "epochs": 1, "global_batch_size": 2, "precision": "fp32",
        "optimizer": {"name": "sgd", "learning_rate": 1e-5, "momentum": 0.0}, "framework": "tensorflow",
    }  # fmt: skip
    try:
        reading = Reading(folder, SystemClock().now().date(), lambda *_: None)
        return with_network(validated_job(values, "the job"), reading)
    except Exception as error:  # noqa: BLE001  a row of the table
        return str(error)


def run(job: TrainingJob, folder: Path) -> dict[str, Any]:
    """What a training of the job came to, in a process of its own, whose peak of memory is that of this run."""
    (folder / "job.json").write_text(job.to_json(), encoding="utf-8")
    words = ["--job", str(folder / "job.json"), "--run-dir", str(folder / "run"), "--attempt", "1"]
    words += ["--max-steps", "2"]
    began = time.monotonic()
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            ["timeout", str(SECONDS), sys.executable, "-P", "-m", "trainplan.workloads.trainer", *words],
            stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
            env={**os.environ, "CUDA_VISIBLE_DEVICES": "-1"},
        )  # fmt: skip
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    row: dict[str, Any] = {
        "seconds": round(time.monotonic() - began),
        "peak_gib": round(usage.ru_maxrss / 1024**2, 2),
    }
    if process.returncode:
        lines = (folder / "log").read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return {**row, "outcome": f"failed with exit code {process.returncode}: {lines[-1] if lines else 'no output'}"}
    # A loss that is no number would have ended it as failed.
    (end,) = (line for line in told(folder / "run") if line["event"] == "end")
    is_well = (end["state"], end["step"]) == ("done", 2) and end["images_per_second"] > 0
    return {**row, "outcome": "trained" if is_well else f"failed: {end}"}


def told(run_dir: Path) -> list[dict[str, Any]]:
    """The lines of a training's progress."""
    text = (run_dir / "attempts" / "1" / "progress.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


if __name__ == "__main__":
    sys.exit(main())
