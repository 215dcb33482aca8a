"""Training speed and peak memory of well-known networks on this computer's GPU, as rows of the table of measurements.

Needs torch and torchvision beside this project. Batches are made up and stay on the device, so that nothing but the
step is timed: forward, backward and SGD with momentum. Each row is the median of five windows of at least 0.3 seconds,
after a warm-up; its spread is (largest - smallest) / median. A batch that does not fit is told and left out.

`PYTHONPATH=. python benchmarks/networks_on_gpu.py --out rows.csv --seconds 300`; the order of the cases is their
priority, and what does not fit into the seconds is left out and told. `--only vgg16` picks networks by their names.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import platform
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import torch
import torchvision

from trainplan.planner.throughput.columns import COLUMNS
from trainplan.planner.throughput.names import finder
from trainplan.pricing.catalog import Catalog
from trainplan.providers.hardware import canonical_device, driver_version

WINDOWS = 5
LEAST_WINDOW_SECONDS = 0.3
WARM_UP_STEPS = 4
SMALL = (("vgg16", 64, 256), ("vgg16", 32, 512), ("resnet18", 64, 256), ("mobilenet_v2", 64, 256))


class Case(NamedTuple):
    """One network at one batch; `side_px` is the side of the square image."""

    network: str
    side_px: int
    precision: str
    batch: int


def _cases() -> list[Case]:
    vgg = [
        Case(name, 224, precision, batch)
        for name in ("vgg16", "vgg11", "vgg19", "vgg16_bn", "vgg13", "vgg19_bn")
        for precision in ("amp_fp16", "fp32", "tf32", "amp_bf16")
        for batch in ((16, 32, 64, 128, 256, 512) if name == "vgg16" else (32, 256))
    ]
    first = [case for case in vgg if case.network == "vgg16"]
    residual = [
        Case("resnet50", 224, precision, batch)
        for precision in ("amp_fp16", "fp32", "tf32", "amp_bf16")
        for batch in (32, 64, 128, 256)
    ]
    small = [
        Case(name, side, precision, batch)
        for name, side, batch in (
            ("vgg16", 64, 256),
            ("vgg16", 32, 512),
            ("resnet18", 64, 256),
            ("mobilenet_v2", 64, 256),
        )
        for precision in ("amp_fp16", "fp32", "tf32")
    ]
    others = [
        Case(name, 299 if name == "inception_v3" else 224, precision, batch)
        for name in (
            *("resnet18", "mobilenet_v2", "efficientnet_b0", "densenet121", "inception_v3", "resnet101", "alexnet"),
            *("convnext_tiny", "mobilenet_v3_large", "squeezenet1_1", "resnet152", "resnet34", "densenet161"),
            *("efficientnet_b3", "resnext50_32x4d", "wide_resnet50_2", "googlenet", "regnet_y_8gf"),
        )
        for precision in ("amp_fp16", "tf32", "fp32")
        for batch in (64, 256)
    ]
    return first + residual + small + [case for case in vgg if case not in first] + others


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="the CSV file to write")
    parser.add_argument("--seconds", type=float, default=300.0, help="no case begins after these")
    parser.add_argument("--only", default="", help="networks whose name begins with this")
    options = parser.parse_args()
    torch.backends.cudnn.benchmark = False
    end = time.monotonic() + options.seconds
    describe = _describe_device()
    cases = [case for case in _cases() if case.network.startswith(options.only)]
    with options.out.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, tuple(COLUMNS), lineterminator="\n")
        writer.writeheader()
        for number, case in enumerate(cases):
            if time.monotonic() > end:
                print(f"{len(cases) - number} cases were left out for want of time", file=sys.stderr)
                break
            try:
                rates, peak_bytes = measure(case)
            except torch.cuda.OutOfMemoryError:
                print(f"{case}: does not fit", file=sys.stderr)
                continue
            finally:
                torch.cuda.empty_cache()
            writer.writerow(_row(case, rates, peak_bytes, describe))
            file.flush()
            print(f"{case}: {median(rates):,.1f} images/s, peak {peak_bytes / 2**30:.2f} GiB", file=sys.stderr)
    return 0


def measure(case: Case, device: str = "cuda") -> tuple[list[float], int]:
    """The images a second of each window, and the peak bytes that the framework's allocator held."""
    with torch.device(device):
        model = build(case.network)
        images = torch.rand(case.batch, 3, case.side_px, case.side_px)
        labels = torch.randint(0, 1000, (case.batch,))
    is_mixed = case.precision.startswith("amp")
    if is_mixed:
        model, images = model.to(memory_format=torch.channels_last), images.to(memory_format=torch.channels_last)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = case.precision == "tf32"
    step = _training_step(model.train(), case.precision, device)
    torch.cuda.reset_peak_memory_stats()
    for _ in range(WARM_UP_STEPS):
        step(images, labels)
    torch.cuda.synchronize()
    rates = []
    for _ in range(WINDOWS):
        began, steps = time.perf_counter(), 0
        while time.perf_counter() - began < LEAST_WINDOW_SECONDS:
            step(images, labels)
            torch.cuda.synchronize()
            steps += 1
        rates.append(steps * case.batch / (time.perf_counter() - began))
    return rates, torch.cuda.max_memory_allocated()


def build(network: str) -> Any:
    """A network of torchvision with random weights and 1,000 classes; auxiliary heads are left out."""
    more = {"aux_logits": False, "init_weights": False} if network in ("inception_v3", "googlenet") else {}
    return torchvision.models.get_model(network, weights=None, **more)


def _training_step(model: Any, precision: str, device: str) -> Any:
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9)
    scaler = torch.amp.GradScaler(device, enabled=precision == "amp_fp16")
    kind = {"amp_fp16": torch.float16, "amp_bf16": torch.bfloat16}.get(precision)

    def step(images: Any, labels: Any) -> None:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device, dtype=kind) if kind else nullcontext():
            loss = torch.nn.functional.cross_entropy(model(images), labels)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

    return step


def _describe_device() -> dict[str, str]:
    stated = torch.cuda.get_device_name()
    with Catalog.open() as catalog:
        device = canonical_device(stated, finder(catalog.devices))
    versions = f"{torch.__version__}, torchvision {torchvision.__version__}, cuDNN {torch.backends.cudnn.version()}"
    return {
        "device": device,
        "device_as_stated": stated,
        "device_memory_gb": f"{torch.cuda.get_device_properties(0).total_memory / 2**30:.1f}",
        "framework_version": f"{versions}, Python {platform.python_version()}, driver {driver_version()}",
        "measured_on": time.strftime("%Y-%m-%d", time.gmtime()),
    }


def _row(case: Case, rates: list[float], peak_bytes: int, describe: dict[str, str]) -> dict[str, str]:
    with torch.device("meta"):
        parameters = sum(one.numel() for one in build(case.network).parameters())
    row = {
        **dict.fromkeys(COLUMNS, ""),
        "source": "own",
        "source_section": "benchmarks/networks_on_gpu.py",
        "model": case.network,
        "parameters_million": f"{parameters / 1e6:.6g}",
        "image_size_px": str(case.side_px),
        "mode": "train",
        "device_count": "1",
        "node_count": "1",
        "precision": case.precision,
        "xla": "no",
        "batch_per_device": str(case.batch),
        "framework": "PyTorch (torchvision)",
        "data": "synthetic",
        "images_per_second": f"{median(rates):.6g}",
        "spread_fraction": f"{(max(rates) - min(rates)) / median(rates):.4f}",
        "optimizer_step": "yes",
        "layout": "NHWC" if case.precision.startswith("amp") else "NCHW",
        "quality": "A",
        "note": f"peak {peak_bytes / 2**30:.3f} GiB of the allocator; SGD with momentum; cuDNN's heuristics",
        **describe,
    }
    digest = hashlib.sha256(repr(sorted(row.items())).encode()).hexdigest()
    return {**row, "id": f"own-{digest[:10]}"}


if __name__ == "__main__":
    sys.exit(main())
