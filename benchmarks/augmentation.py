"""Digits from 200 training images, with and without augmentation, seeds 0 to 4: accuracy on the 360 test images.

    python -m benchmarks.augmentation [FOLDER]

Images are written to FOLDER (default: a temporary one), and each run trains in a process of its own, as a launch in a
process does. Needs the train extra.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np

from trainplan.workloads.job import TrainingJob
from trainplan.workloads.trainer.data import digits

IMAGES = 200
SEEDS = range(5)
AUGMENTATION = {"resize": 18, "crop": 0.6, "brightness": 0.2, "contrast": 0.2}


def write_images(folder: Path) -> None:
    """The first 20 training images of each digit, and all that are held out, as PNG files by class."""
    from PIL import Image

    split: Any = digits()
    for name, part, most in (("train", split.train, IMAGES // 10), ("validation", split.hold_out, 10_000)):
        for label in range(10):
            (folder / name / str(label)).mkdir(parents=True, exist_ok=True)
            for number, row in enumerate(np.flatnonzero(part.labels == label)[:most]):
                Image.fromarray(part.pixels[row, :, :, 0]).save(folder / name / str(label) / f"{number:03}.png")


def job(folder: Path, seed: int, augment: dict[str, Any]) -> TrainingJob:
    """300 epochs of 5 steps, at a rate that falls along a cosine."""
    return TrainingJob.model_validate(
        {
            "name": "digits-200",
            "model": {"layers": [16, 16, "M", 32, 32, "M"], "batch_norm": True, "image_size": 16, "classes": 10}
            | {"dense": [64], "dropout": 0.3},
            "data": {"path": str(folder), "channels": 1},
            "epochs": 300,
            "global_batch_size": 40,
            "seed": seed,
            "optimizer": {"name": "adam", "learning_rate": 0.002, "schedule": {"name": "cosine", "warmup_epochs": 5}},
            "augment": augment,
            "validation": {"every_epochs": 300},
        }
    )


def trained(folder: Path, seed: int, augment: dict[str, Any]) -> float:
    """The accuracy that the run's metrics.json tells."""
    run = folder / "runs" / f"{seed}-{'with' if augment else 'without'}"
    run.mkdir(parents=True)
    (run / "job.json").write_text(job(folder / "images", seed, augment).to_json(), encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "trainplan.workloads.trainer",
        "--job",
        str(run / "job.json"),
        "--run-dir",
        str(run),
    ]
    subprocess.run([*command, "--attempt", "1"], check=True)
    metrics = json.loads((run / "output" / "metrics.json").read_text(encoding="utf-8"))
    return float(metrics["hold_out_accuracy"])


def main(folder: Path) -> None:
    """Train ten times and print each accuracy, then means and deviations."""
    write_images(folder / "images")
    accuracies: dict[str, list[float]] = {"without": [], "with": []}
    for seed in SEEDS:
        for name, augment in (("without", {}), ("with", AUGMENTATION)):
            accuracies[name].append(trained(folder, seed, augment))
            print(f"seed {seed} {name:8} {accuracies[name][-1]:.4f}", flush=True)
    for name, values in accuracies.items():
        print(f"{name:8} mean {mean(values):.4f}, standard deviation {stdev(values):.4f}, over {len(values)} seeds")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(folder))
