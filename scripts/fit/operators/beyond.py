"""What the shipped predictor says of own rows, asked as a user asks, and of the devices that are rented most."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median

from scripts.fit.rows import DEVICES, measurement_of
from trainplan.planner.throughput.network_steps import measured_network
from trainplan.planner.throughput.predict import Predictor
from trainplan.planner.throughput.values import Measurement, Question, Throughput
from trainplan.pricing.device_text import read_devices

OWN_ROWS = Path(__file__).parents[3] / "tests" / "data" / "networks_h200.csv"
_RENTED = ("L4", "A10G", "L40S", "H100", "H200", "TPU v3", "TPU v4", "TPU v5e")
_BATCH = 128


@dataclass(frozen=True, kw_only=True)
class Answered:
    """A row, with how far the prediction is off and whether the row is inside its interval."""

    model: str
    precision: str
    error: float
    is_inside: bool


def answered(path: Path = OWN_ROWS) -> list[Answered]:
    """The rows of a file as the predictor answers them, for torch."""
    predictor = Predictor.open(read_devices(DEVICES)[0])
    found = []
    try:
        with path.open(newline="", encoding="utf-8") as file:
            for cells in csv.DictReader(file):
                row = measurement_of(cells)
                net = measured_network(row)
                if net is None or row.batch_per_device is None:
                    continue
                question = Question(
                    net=net,
                    device=row.device,
                    device_count=row.device_count,
                    interconnect=None,
                    vcpus=None,
                    batch_per_device=row.batch_per_device,
                    precision=row.precision,
                    xla=False,
                    framework="torch",
                )
                answer = predictor.predict(question)
                assert isinstance(answer, Throughput)
                rate = row.images_per_second
                error, is_inside = answer.images_per_second / rate - 1, answer.low <= rate <= answer.high
                found.append(Answered(model=row.model, precision=row.precision, error=error, is_inside=is_inside))
    finally:
        predictor.close()
    return found


def beyond_lines() -> list[str]:
    """The tables of these questions, and of VGG16 on the devices that are rented most."""
    rows = answered()
    lines = [
        f"### Questions for PyTorch on an H200, beside {len(rows)} own rows",
        "",
        "The model is fitted to these rows, but as a source's: a question has no source, and takes the layout that "
        "PyTorch has by itself.",
        "",
        "| networks | precision | rows | mean error | median error | bias | inside |",
        "|---|---|---|---|---|---|---|",
    ]
    for title, is_vgg in (("VGG", True), ("others", False)):
        of_kind = [row for row in rows if row.model.startswith("vgg") is is_vgg]
        for precision in ("all", *dict.fromkeys(row.precision for row in of_kind)):
            part = [row for row in of_kind if precision in ("all", row.precision)]
            errors = [abs(row.error) for row in part]
            lines.append(
                f"| {title} | {precision} | {len(part)} | {mean(errors):.1%} | {median(errors):.1%} "
                f"| {mean(row.error for row in part):+.1%} | {mean(row.is_inside for row in part):.0%} |"
            )
    return [*lines, "", *_rented_lines()]


def _rented_lines() -> list[str]:
    lines = [
        f"### VGG16 at 224 px, a batch of {_BATCH}, 16 bits, TensorFlow, one device",
        "",
        "| device | images/s | basis | rows |",
        "|---|---|---|---|",
    ]
    predictor = Predictor.open(read_devices(DEVICES)[0])
    net = measured_network(_vgg16_row())
    assert net is not None
    try:
        for device in _RENTED:
            is_tpu = device.startswith("TPU")
            question = Question(
                net=net,
                device=device,
                device_count=1,
                interconnect=None,
                vcpus=None,
                batch_per_device=_BATCH,
                precision="amp_bf16" if is_tpu else "amp_fp16",
                xla=is_tpu,
                framework="tensorflow",
            )
            now = predictor.predict(question)
            assert isinstance(now, Throughput)
            told = f"{now.images_per_second:,.0f} ({now.low:,.0f} to {now.high:,.0f})"
            rows = ", ".join(now.evidence) if now.basis == "anchored" else "-"
            lines.append(f"| {device} | {told} | {now.basis} | {rows} |")
    finally:
        predictor.close()
    return lines


def _vgg16_row() -> Measurement:
    with OWN_ROWS.open(newline="", encoding="utf-8") as file:
        return next(row for cells in csv.DictReader(file) if (row := measurement_of(cells)).model == "vgg16")
