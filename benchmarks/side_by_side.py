"""The trainer beside a plain Keras script of the same recipe: accuracy with seeds 0 to 4, and images a second.

    python -m benchmarks.side_by_side accuracy [FOLDER]
    python -m benchmarks.side_by_side speed [FOLDER]

`accuracy` trains on the digits of scikit-learn and on a folder of images that it makes. `speed` trains VGG11 at 64 px
in alternating runs, on an idle computer; where PyTorch is installed, a plain script of PyTorch (channels last) too.
Every run is a process of its own. Needs the train extra.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import mean, median, stdev
from typing import Any

import numpy as np

from trainplan.workloads.job import TrainingJob
from trainplan.workloads.layers import Conv, Dense, Flatten, Net
from trainplan.workloads.trainer.data import digits, synthetic

SEEDS = range(5)
REPEATS = 5
OPTIMIZER = {"name": "adam", "learning_rate": 0.001}
FOLDER_NET = {"layers": [16, "M", 32, "M"], "batch_norm": True, "image_size": 32, "classes": 4, "dense": [64]}


def digits_job(seed: int, folder: Path) -> TrainingJob:
    """A small VGG-style net on the 1,437 training digits."""
    del folder
    return _job(seed, {"layers": [16, "M", 32, "M"], "batch_norm": True, "dense": [64]}, {"name": "digits"}, 20, 64)


def folder_job(seed: int, folder: Path) -> TrainingJob:
    """Images of four classes in a folder, with a validation folder beside them."""
    return _job(seed, FOLDER_NET, {"path": str(folder / "images")}, 30, 32)


def speed_job(seed: int, folder: Path) -> TrainingJob:
    """VGG11 at 64 px, 640 made-up images in memory."""
    del folder
    model = {"preset": "vgg11", "image_size": 64, "classes": 10, "dense": [256]}
    return _job(seed, model, {"name": "synthetic", "images": 640}, 2, 32)


JOBS = {"digits": digits_job, "folder": folder_job, "speed": speed_job}


def _job(seed: int, model: dict[str, Any], data: dict[str, Any], epochs: int, batch: int) -> TrainingJob:
    values = {"name": "beside", "model": model, "data": data, "epochs": epochs, "global_batch_size": batch}
    return TrainingJob.model_validate({**values, "seed": seed, "optimizer": OPTIMIZER})


def write_images(folder: Path) -> None:
    """Four classes of coloured stripes under noise, in four directions: 400 images to train on, 200 held out."""
    from PIL import Image

    random = np.random.default_rng(0)
    rows, columns = np.mgrid[0:32, 0:32]
    waves = (rows, columns, rows + columns, rows - columns)
    for part, count in (("train", 100), ("validation", 50)):
        for label, wave in enumerate(waves):
            place = folder / "images" / part / f"class{label}"
            place.mkdir(parents=True, exist_ok=True)
            for number in range(count):
                stripes = np.sin(wave * random.uniform(0.5, 0.9) + random.uniform(0, 6))[..., None]
                pixels = 128 + 25 * stripes * random.uniform(0.5, 1, 3) + random.normal(0, 25, (32, 32, 3))
                Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(place / f"{number:03}.png")


def by_trainer(kind: str, seed: int, folder: Path) -> dict[str, float]:
    """A run of the trainer."""
    run = folder / f"trainer-{kind}-{seed}"
    while run.exists():
        run = run.with_name(run.name + "-again")
    run.mkdir(parents=True)
    (run / "job.json").write_text(JOBS[kind](seed, folder).to_json(), encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "trainplan.workloads.trainer",
        "--job",
        str(run / "job.json"),
        "--run-dir",
        str(run),
    ]
    subprocess.run([*command, "--attempt", "1"], check=True, capture_output=True)
    metrics = json.loads((run / "output" / "metrics.json").read_text(encoding="utf-8"))
    return {"accuracy": metrics["hold_out_accuracy"], "images_per_second": metrics["images_per_second"]}


def by_keras(kind: str, seed: int, folder: Path) -> dict[str, float]:
    """The plain script of Keras, in a process of its own."""
    return _by_script("plain", kind, seed, folder)


def by_torch(kind: str, seed: int, folder: Path) -> dict[str, float]:
    """The plain script of PyTorch, in a process of its own."""
    return _by_script("torch", kind, seed, folder)


def _by_script(script: str, kind: str, seed: int, folder: Path) -> dict[str, float]:
    words = [sys.executable, "-m", "benchmarks.side_by_side", script, str(folder), kind, str(seed)]
    output = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    return dict(json.loads(output.splitlines()[-1]))


def plain(kind: str, seed: int, folder: Path) -> dict[str, float]:
    """What somebody writes who knows Keras: its layers, its initial weights, tf.data, compile and fit."""
    import keras
    import tensorflow as tf

    job = JOBS[kind](seed, folder)
    keras.utils.set_random_seed(seed)
    train, hold_out = _plain_data(tf, keras, kind, job, folder)
    model = _plain_model(keras, job.net())
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    times: list[float] = []

    class Clock(keras.callbacks.Callback):  # type: ignore[misc]
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            del batch, logs
            times.append(time.perf_counter())

    model.fit(train, epochs=job.epochs, verbose=0, callbacks=[Clock()])
    _, accuracy = model.evaluate(hold_out, verbose=0)
    rate = (len(times) - 1) * job.global_batch_size / (times[-1] - times[0])
    return {"accuracy": float(accuracy), "images_per_second": rate}


def _plain_data(tf: Any, keras: Any, kind: str, job: TrainingJob, folder: Path) -> tuple[Any, Any]:
    batch, size = job.global_batch_size, job.image_size
    if kind == "folder":
        read = keras.utils.image_dataset_from_directory
        train = read(folder / "images" / "train", image_size=(size, size), batch_size=None, shuffle=False)
        hold_out = read(folder / "images" / "validation", image_size=(size, size), batch_size=batch)
        images = train.cache().shuffle(400, seed=job.seed, reshuffle_each_iteration=True)
        return images.batch(batch, drop_remainder=True).prefetch(tf.data.AUTOTUNE), hold_out
    split: Any = digits() if kind == "digits" else synthetic(job)
    parts = []
    for part in (split.train, split.hold_out):
        parts.append(tf.data.Dataset.from_tensor_slices((part.pixels, part.labels)))
    shuffled = parts[0].shuffle(split.train.count, seed=job.seed, reshuffle_each_iteration=True)
    return shuffled.batch(batch, drop_remainder=True).prefetch(tf.data.AUTOTUNE), parts[1].batch(batch)


def _plain_model(keras: Any, net: Net) -> Any:
    layers = keras.layers
    model = keras.Sequential([keras.Input((net.image_size, net.image_size, net.channels))])
    model.add(layers.Rescaling(1 / 127.5, offset=-1))
    for layer in net.layers:
        if isinstance(layer, Conv):
            model.add(
                layers.Conv2D(layer.filters, 3, padding="same", use_bias=layer.bias, kernel_initializer="he_normal")
            )
            if layer.batch_norm:
                model.add(layers.BatchNormalization())
            model.add(layers.ReLU())
        elif isinstance(layer, Dense):
            last = layer.softmax
            start = "glorot_uniform" if last else "he_normal"
            model.add(layers.Dense(layer.units, activation=None if last else "relu", kernel_initializer=start))
            if layer.dropout:
                model.add(layers.Dropout(layer.dropout))
        else:
            model.add(layers.Flatten() if isinstance(layer, Flatten) else layers.MaxPooling2D())
    return model


def plain_torch(kind: str, seed: int, folder: Path) -> dict[str, float]:
    """The same recipe in PyTorch, images and net in the channels-last layout; speed only, without a test."""
    import torch

    job = JOBS[kind](seed, folder)
    torch.manual_seed(seed)
    split: Any = synthetic(job)
    pixels = torch.from_numpy(split.train.pixels).permute(0, 3, 1, 2)
    labels = torch.from_numpy(split.train.labels).long()
    model: Any = _torch_model(torch.nn, job.net()).to(memory_format=torch.channels_last)
    optimizer, loss = torch.optim.Adam(model.parameters(), lr=0.001), torch.nn.CrossEntropyLoss()
    times: list[float] = []
    for _ in range(job.epochs):
        for rows in torch.randperm(len(labels)).split(job.global_batch_size):
            images = pixels[rows].float().div(127.5).sub(1).contiguous(memory_format=torch.channels_last)
            optimizer.zero_grad()
            value = loss(model(images), labels[rows])
            value.backward()
            optimizer.step()
            value.item()
            times.append(time.perf_counter())
    return {"images_per_second": (len(times) - 1) * job.global_batch_size / (times[-1] - times[0])}


def _torch_model(nn: Any, net: Net) -> Any:
    parts: list[Any] = []
    channels, side = net.channels, net.image_size
    width = 0
    for layer in net.layers:
        if isinstance(layer, Conv):
            parts.append(nn.Conv2d(channels, layer.filters, 3, padding=1, bias=layer.bias))
            parts += [nn.BatchNorm2d(layer.filters)] if layer.batch_norm else []
            parts.append(nn.ReLU())
            channels = layer.filters
        elif isinstance(layer, Dense):
            parts.append(nn.Linear(width, layer.units))
            parts += [] if layer.softmax else [nn.ReLU()]
            parts += [nn.Dropout(layer.dropout)] if layer.dropout else []
            width = layer.units
        elif isinstance(layer, Flatten):
            parts.append(nn.Flatten())
            width = channels * side**2
        else:
            parts.append(nn.MaxPool2d(2))
            side //= 2
    return nn.Sequential(*parts)


def compare_accuracy(folder: Path) -> None:
    """Print both accuracies for each seed, and whether the trainer's mean lies within the script's spread."""
    write_images(folder)
    for kind in ("digits", "folder"):
        pairs = [(by_trainer(kind, seed, folder), by_keras(kind, seed, folder)) for seed in SEEDS]
        ours, theirs = ([row["accuracy"] for row in rows] for rows in zip(*pairs, strict=True))
        # 95 % of Student's t with 8 degrees of freedom, for the difference of two means of five.
        half = 2.306 * ((stdev(ours) ** 2 + stdev(theirs) ** 2) / len(ours)) ** 0.5
        for name, rows in (("trainer", ours), ("Keras script", theirs)):
            print(f"{kind}: {name:12} mean {mean(rows):.4f}, standard deviation {stdev(rows):.4f}")
        print(f"  difference {mean(ours) - mean(theirs):+.4f}, 95 % interval +-{half:.4f}", flush=True)


def compare_speed(folder: Path) -> None:
    """Print images a second of both, in alternating runs, and the ratio of the medians."""
    runs = {"trainer": by_trainer, "Keras script": by_keras}
    if importlib.util.find_spec("torch") is not None:
        runs["PyTorch script"] = by_torch
    rates: dict[str, list[float]] = {name: [] for name in runs}
    for repeat in range(REPEATS):
        for name, run in runs.items():
            rates[name].append(run("speed", repeat, folder)["images_per_second"])
            print(f"{name:14} {rates[name][-1]:.1f} images/s", flush=True)
    for name in list(runs)[1:]:
        ratio = median(rates["trainer"]) / median(rates[name])
        print(f"trainer to {name}: {ratio:.3f} (medians)")


def main(arguments: list[str]) -> None:
    """`accuracy`, `speed`, or `plain` for one run of the script."""
    with tempfile.TemporaryDirectory() as default:
        folder = Path(arguments[1]) if len(arguments) > 1 else Path(default)
        match arguments[0]:
            case "plain":
                print(json.dumps(plain(arguments[2], int(arguments[3]), folder)))
            case "torch":
                print(json.dumps(plain_torch(arguments[2], int(arguments[3]), folder)))
            case "speed":
                compare_speed(folder)
            case _:
                compare_accuracy(folder)


if __name__ == "__main__":
    main(sys.argv[1:])
