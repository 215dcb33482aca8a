"""The same twelve folders of images, each in another format, trained with one framework: accuracies over seeds.

Run it once for each framework, in an environment that has it, and compare the rows:
`PYTHONPATH=. python benchmarks/frameworks.py tensorflow|jax|torch [--seeds N]`.
The classes overlap, so that no net is right always, and a decoder that sees other pixels gives another accuracy.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from trainplan.workloads.job import TrainingJob
from trainplan.workloads.trainer.loop import train
from trainplan.workloads.trainer.prepare import Setting
from trainplan.workloads.trainer.progress import Clock, Progress
from trainplan.workloads.trainer.watch import Limits

SIDE = 16
_TRAINED, _HELD_OUT = 100, 100
"""Images of each of the two classes."""


class Kind(NamedTuple):
    """A folder: its name, the suffix of its files, the channels of the job, and how an image is saved."""

    name: str
    suffix: str
    channels: int
    save: Callable[[Any, Path], None]


def _as(form: str, mode: str = "RGB", **options: Any) -> Callable[[Any, Path], None]:
    return lambda pixels, path: Image.fromarray(pixels).convert(mode).save(path, form, **options)


def _deep(pixels: Any, path: Path) -> None:
    Image.fromarray(pixels[..., 0].astype(np.uint16) * 256 + 99).save(path, "PNG")


def _turned(pixels: Any, path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(pixels).transpose(Image.Transpose.ROTATE_90).save(path, "JPEG", quality=95, exif=exif)


def _animated(pixels: Any, path: Path) -> None:
    other = Image.fromarray(255 - pixels)
    Image.fromarray(pixels).save(path, "WEBP", save_all=True, append_images=[other], lossless=True)


def _palette(pixels: Any, path: Path) -> None:
    Image.fromarray(pixels).quantize(64).save(path, "BMP")


FOLDERS = (
    Kind("png", ".png", 3, _as("PNG")),
    Kind("grey png", ".png", 1, _as("PNG", "L")),
    Kind("16-bit grey png", ".png", 1, _deep),
    Kind("rgba png", ".png", 3, _as("PNG", "RGBA")),
    Kind("palette bmp", ".bmp", 3, _palette),
    Kind("8-bit bmp, grey job", ".bmp", 1, _as("BMP", "L")),
    Kind("gif, grey job", ".gif", 1, _as("GIF")),
    Kind("jpeg", ".jpg", 3, _as("JPEG", quality=95)),
    Kind("cmyk jpeg, grey job", ".jpg", 1, _as("JPEG", "CMYK", quality=95)),
    Kind("turned jpeg", ".jpg", 3, _turned),
    Kind("animated webp", ".webp", 3, _animated),
    Kind("tiff called jpg", ".jpg", 3, _as("TIFF")),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("framework", choices=("tensorflow", "jax", "torch"))
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    for kind in FOLDERS:
        with tempfile.TemporaryDirectory() as folder:
            write(Path(folder, "data"), kind)
            shares = [accuracy(Path(folder), kind.channels, options.framework, seed) for seed in range(options.seeds)]
        mean, spread = statistics.mean(shares), statistics.stdev(shares)
        print(f"{options.framework:10} {kind.name:20} {mean:7.1%} +- {spread:5.1%}   {shares}", flush=True)
    return 0


def write(folder: Path, kind: Kind) -> None:
    """A training and a hold-out folder; brightness tells the class of most images."""
    random = np.random.default_rng(0)
    for split, count in (("train", _TRAINED), ("val", _HELD_OUT)):
        for label in (0, 1):
            place = folder / split / f"class-{label}"
            place.mkdir(parents=True)
            for number in range(count):
                level = 110 + 36 * label + random.normal(0, 18)
                pixels = np.clip(level + random.normal(0, 30, (SIDE, SIDE, 3)), 0, 255).astype(np.uint8)
                kind.save(pixels, place / f"{number:03}{kind.suffix}")


def accuracy(folder: Path, channels: int, framework: str, seed: int) -> float:
    """On the hold-out, of one run."""
    job = TrainingJob.model_validate(
        {
            "name": "twelve",
            "model": {"layers": [8, "M"], "image_size": SIDE, "dense": [8], "classes": 2},
            "data": {"path": str(folder / "data"), "channels": channels},
            "epochs": 8,
            "global_batch_size": 20,
            "optimizer": {"name": "adam", "learning_rate": 0.003},
            "framework": framework,
            "seed": seed,
        }
    )
    run_dir, clock = folder / f"run-{seed}", Clock()
    progress = Progress(run_dir / "attempts" / "1", clock)
    limits = Limits(checkpoint_every_seconds=600)
    train(job, Setting(run_dir=run_dir, data_dir=run_dir / "data", limits=limits, progress=progress, clock=clock))
    return float(json.loads((run_dir / "output" / "metrics.json").read_text(encoding="utf-8"))["hold_out_accuracy"])


if __name__ == "__main__":
    raise SystemExit(main())
