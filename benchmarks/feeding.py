"""How many images one host core decodes and one host copies: JPEG files through the trainer's own tf.data pipeline.

Needs the train extra. Makes its JPEG files in a temporary folder (noise under a smooth picture, compressed to about
the 110 kB that ImageNet's files have); prints one line a case:
`PYTHONPATH=. taskset -c 0 python benchmarks/feeding.py [--seconds S]`.
"""

from __future__ import annotations

import argparse
import os
import platform
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from trainplan.workloads.trainer import tfdata
from trainplan.workloads.trainer.feed import Schedule
from trainplan.workloads.trainer.images import FileImages, Images, in_memory

FILES = 48
# Pixels as stored, width by height: ImageNet's mean is near 500 by 375.
STORED = ((500, 375), (256, 256), (1000, 750))
SIZES = (32, 128, 224)
BATCH = 16


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0)
    seconds = parser.parse_args().seconds
    import tensorflow as tf

    cores = len(os.sched_getaffinity(0))
    print(f"tensorflow {tf.__version__}, {platform.processor() or platform.machine()}, {cores} cores")
    with tempfile.TemporaryDirectory() as folder:
        for stored in STORED:
            paths = jpegs(Path(folder), stored)
            mean_kb = sum(Path(path).stat().st_size for path in paths) / len(paths) / 1000
            for size in SIZES:
                images = FileImages(paths=paths, labels=np.zeros(len(paths), np.int32), size=size, channels=3)
                wall, cpu = rates(tf, images, seconds)
                name = f"jpeg {stored[0]}x{stored[1]} ({mean_kb:.0f} kB) to {size} px"
                print(f"{name:36} {wall:9.0f} images/s {cpu:9.0f} per core-second")
    for size in SIZES:
        pixels = np.zeros((512, size, size, 3), np.uint8)
        wall, cpu = rates(tf, in_memory(pixels, np.zeros(512)), seconds)
        rate = wall * size * size * 3 / 1e9
        print(f"{f'arrays of {size} px':36} {wall:9.0f} images/s {cpu:9.0f} per core-second {rate:6.2f} GB/s")
    return 0


def rates(tf: Any, images: Images, seconds: float) -> tuple[float, float]:
    """Images per second, and per second of processor time: what a core of its own would give."""
    schedule = Schedule(batch_size=BATCH, steps_per_epoch=images.count // BATCH, epochs=10**6, seed=0)
    batches = iter(tfdata.training_dataset(tf, images, schedule))
    for _ in range(3):
        next(batches)
    began, busy, image_count = time.perf_counter(), time.process_time(), 0
    while time.perf_counter() - began < seconds:
        next(batches)
        image_count += BATCH
    return image_count / (time.perf_counter() - began), image_count / (time.process_time() - busy)


def jpegs(folder: Path, stored: tuple[int, int]) -> tuple[str, ...]:
    width, height = stored
    random = np.random.default_rng(0)
    paths = []
    for number in range(FILES):
        coarse = Image.fromarray(random.integers(0, 256, (12, 16, 3), dtype=np.uint8))
        smooth = np.asarray(coarse.resize(stored, Image.Resampling.BICUBIC), np.int16)
        grain = random.integers(-40, 41, (height, width, 3), dtype=np.int16)
        path = folder / f"{width}-{number}.jpg"
        Image.fromarray(np.clip(smooth + grain, 0, 255).astype(np.uint8)).save(path, quality=90)
        paths.append(str(path))
    return tuple(paths)


if __name__ == "__main__":
    raise SystemExit(main())
