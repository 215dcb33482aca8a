"""Digits 5 to 9 from a net that was trained on digits 0 to 4, against the same net from nothing, seeds 0 to 4; and how
much faster a step is with frozen blocks, beside what the estimate says.

    python -m benchmarks.fine_tuning [FOLDER]

Images are written to FOLDER (default: a temporary one), and each run trains in a process of its own, as a launch in a
process does. Needs the train extra.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import mean, median, stdev
from typing import Any

import numpy as np

from trainplan.planner.throughput.host import host_step_seconds
from trainplan.workloads.job import TrainingJob
from trainplan.workloads.trainer.data import digits

SEEDS = range(5)
IMAGES_OF_A_CLASS = 20
BEFORE, AFTER = range(5), range(5, 10)
NET = {"layers": [16, 16, "M", 32, 32, "M"], "batch_norm": True, "image_size": 16, "dense": [64], "dropout": 0.3}
# As large as a step of this computer's processor allows for a measurement of some seconds.
TIMED_NET = {"preset": "vgg11", "image_size": 64, "dense": [256]}
TIMED_STEPS = 12


def write_images(folder: Path) -> None:
    """Training images (all of digits 0 to 4, IMAGES_OF_A_CLASS of each other digit) and held-out ones, by class."""
    from PIL import Image

    split: Any = digits()
    for classes, name in ((BEFORE, "before"), (AFTER, "after")):
        for part, images, most in (
            ("train", split.train, 10_000 if classes is BEFORE else IMAGES_OF_A_CLASS),
            ("validation", split.hold_out, 10_000),
        ):
            for label in classes:
                place = folder / name / part / str(label)
                place.mkdir(parents=True, exist_ok=True)
                for number, row in enumerate(np.flatnonzero(images.labels == label)[:most]):
                    Image.fromarray(images.pixels[row, :, :, 0]).save(place / f"{number:03}.png")


def job(images: Path, epochs: int, seed: int, model: dict[str, Any], **optimizer: Any) -> TrainingJob:
    """A job on one of the two folders; batches of 20."""
    return TrainingJob.model_validate(
        {
            "name": "digits",
            "model": {**NET, "classes": 5, **model},
            "data": {"path": str(images), "channels": 1},
            "epochs": epochs,
            "global_batch_size": 20,
            "seed": seed,
            "optimizer": {"name": "adam", "learning_rate": 0.002, **optimizer},
            "validation": {"every_epochs": epochs},
        }
    )


def trained(run: Path, spec: TrainingJob, *more: str) -> dict[str, Any]:
    """The metrics of a run, or of a measuring run the last event of its progress."""
    run.mkdir(parents=True)
    (run / "job.json").write_text(spec.to_json(), encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "trainplan.workloads.trainer",
        "--job",
        str(run / "job.json"),
        "--run-dir",
        str(run),
    ]
    subprocess.run([*command, "--attempt", "1", *more], check=True)
    if not more:
        return dict(json.loads((run / "output" / "metrics.json").read_text(encoding="utf-8")))
    lines = (run / "attempts" / "1" / "progress.jsonl").read_text(encoding="utf-8").splitlines()
    return dict(json.loads(lines[-1]))


def compare(folder: Path) -> None:
    """Print the accuracy of each way at equal epochs."""
    kinds: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
        "from nothing": ({}, {}),
        "fine-tuned": ({"weights": ""}, {}),
        "fine-tuned, base at a tenth": ({"weights": ""}, {"base_rate_share": 0.1}),
        "block1 frozen": ({"weights": "", "freeze": "block1"}, {}),
        "block2 frozen": ({"weights": "", "freeze": "block2"}, {}),
    }
    accuracies: dict[str, list[float]] = {name: [] for name in kinds}
    for seed in SEEDS:
        before = folder / f"before-{seed}"
        trained(before, job(folder / "images" / "before", 20, seed, {}))
        for name, (model, optimizer) in kinds.items():
            values = {**model, "weights": str(before / "output" / "model.keras")} if model else {}
            spec = job(folder / "images" / "after", 20, seed, values, **optimizer)
            result = trained(folder / f"{name.replace(' ', '-')}-{seed}", spec)
            accuracies[name].append(float(result["hold_out_accuracy"]))
    for name, rows in accuracies.items():
        each = " ".join(f"{value:.4f}" for value in rows)
        print(f"{name:28} mean {mean(rows):.4f}, standard deviation {stdev(rows):.4f}: {each}", flush=True)


def time_frozen(folder: Path) -> None:
    """Print images a second of whole and of frozen steps, in turn, and what the estimate says of their ratio."""
    cores = os.cpu_count() or 1
    start = folder / "timed-start"
    values = {"name": "synthetic", "images": 640, "channels": 3}

    def timed(model: dict[str, Any], epochs: int = 1) -> TrainingJob:
        spec = {"name": "timed", "model": {**TIMED_NET, "classes": 5, **model}, "data": values, "epochs": epochs}
        return TrainingJob.model_validate({**spec, "global_batch_size": 32})

    trained(start, timed({}))
    weights = {"weights": str(start / "output" / "model.keras")}
    kinds: dict[str, dict[str, Any]] = {
        "all layers": weights,
        **{f"{block} frozen": {**weights, "freeze": block} for block in ("block2", "block4", "block5")},
    }
    rates: dict[str, list[float]] = {name: [] for name in kinds}
    for repeat in range(3):
        for name, model in kinds.items():
            run = folder / f"timed-{name.replace(' ', '-')}-{repeat}"
            end = trained(run, timed(model, 2), "--max-steps", str(TIMED_STEPS))
            rates[name].append(float(end["images_per_second"]))
    whole = median(rates["all layers"])
    seconds = {name: host_step_seconds(timed(model).net(), 32, cores) for name, model in kinds.items()}
    for name, rows in rates.items():
        ratio, expected = median(rows) / whole, seconds["all layers"] / seconds[name]
        print(
            f"{name:14} {median(rows):7.1f} images/s, {ratio:.2f} times all layers; "
            f"estimated {expected:.2f} times ({expected / ratio - 1:+.0%})",
            flush=True,
        )


def main(folder: Path) -> None:
    """Both comparisons."""
    write_images(folder / "images")
    compare(folder)
    time_frozen(folder)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as default:
        main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(default))
