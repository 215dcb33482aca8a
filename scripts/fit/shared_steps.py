"""`python -m scripts.fit.shared_steps`: published steps of PyTorch on several GPUs of one machine, and of TPU slices,
beside what is estimated of them.

They are asked as a person asks (the shipped model, no source, `framework: torch`, and `jax` on a TPU). The constants of
a step on one device are fitted to no step of several but MLPerf's; those of links and libraries are, so that the gain
of several GPUs over one is computed with plausible ones too, which no row has changed.
"""

from __future__ import annotations

import csv
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median

from scripts.fit.constants import PLAUSIBLE_HOP_SECONDS, PLAUSIBLE_JITTER, PLAUSIBLE_LINKS, PLAUSIBLE_REACH
from scripts.fit.operators.rows import TABLES
from scripts.fit.rows import DEVICES, measurement_of
from trainplan.planner.throughput.model import Model, load_model
from trainplan.planner.throughput.network_steps import measured_network
from trainplan.planner.throughput.operators import load_operators
from trainplan.planner.throughput.physics import LibraryConstants, LinkConstants
from trainplan.planner.throughput.predict import Predictor
from trainplan.planner.throughput.table import SHIPPED_TABLE, open_table
from trainplan.planner.throughput.values import Measurement, Parallelism, Quality, Question, Throughput
from trainplan.pricing.device_text import read_devices


@dataclass(frozen=True, kw_only=True)
class SharedStep:
    """A published rate of several devices, and the answer to its question; `gain` is the estimated rate over that of
    one device, and `plausible_gain` the same by plausible links and libraries, each over the published gain (None:
    the source has no rate of one device)."""

    row: Measurement
    answer: Throughput
    gain: float | None
    plausible_gain: float | None

    @property
    def ratio(self) -> float:
        """Estimated over published."""
        return self.answer.images_per_second / self.row.images_per_second

    @property
    def is_inside(self) -> bool:
        """Whether the published rate is inside the interval."""
        return self.answer.low <= self.row.images_per_second <= self.answer.high


def shared_steps() -> list[SharedStep]:
    """Every training row of quality A or B, of a network that is known, on several GPUs of one machine by torch's
    DistributedDataParallel, or on several chips of a TPU."""
    rows = [row for row in _rows() if row.mode == "train" and row.quality is not Quality.C]
    alone: dict[tuple[object, ...], list[float]] = defaultdict(list)
    for row in rows:
        if row.device_count == 1:
            alone[_program(row)].append(row.images_per_second)
    devices = read_devices(DEVICES)[0]
    shipped = Predictor.open(devices)
    plausible = Predictor(open_table(SHIPPED_TABLE), (_plausible(), load_operators()), devices, ())
    steps = []
    for row in rows:
        is_ddp = row.parallelism is Parallelism.DDP and row.node_count == 1
        net = measured_network(row)
        if not row.batch_per_device or net is None or row.device_count == 1 or not (is_ddp or _is_tpu(row)):
            continue
        asked = Question(
            net=net, device=row.device, device_count=row.device_count,
            interconnect=row.interconnect or devices[row.device].interconnect, vcpus=None,
            batch_per_device=row.batch_per_device, precision=row.precision, xla=False,
            framework="jax" if _is_tpu(row) else "torch",
        )  # fmt: skip
        published = [row.images_per_second / rate for rate in alone[_program(row)]]
        gains = [_gain(one, asked) / fmean(published) if published else None for one in (shipped, plausible)]
        steps.append(SharedStep(row=row, answer=_answer(shipped, asked), gain=gains[0], plausible_gain=gains[1]))
    shipped.close()
    plausible.close()
    return steps


def _rows() -> Iterable[Measurement]:
    for table in TABLES:
        with table.open(newline="", encoding="utf-8") as file:
            for cells in csv.DictReader(file):
                if cells["device"].startswith("TPU") or cells["framework"].startswith("PyTorch"):
                    yield measurement_of(cells)


def _is_tpu(row: Measurement) -> bool:
    return row.device.startswith("TPU")


def _program(row: Measurement) -> tuple[object, ...]:
    what = row.source, row.model, row.device, row.precision, row.batch_per_device
    return *what, row.framework, row.framework_version, row.layout


def _plausible() -> Model:
    """The shipped model with links and libraries as they are taken to be before any row is seen."""
    model = load_model()
    library = LibraryConstants(reach=PLAUSIBLE_REACH, hop_seconds=PLAUSIBLE_HOP_SECONDS, jitter=PLAUSIBLE_JITTER)
    libraries = dict.fromkeys(model.links.libraries, library)
    return replace(model, links=LinkConstants(bytes_per_second=PLAUSIBLE_LINKS, libraries=libraries))


def _answer(predictor: Predictor, asked: Question) -> Throughput:
    answer = predictor.predict(asked)
    if not isinstance(answer, Throughput):
        raise ValueError(f"{asked.device_count} x {asked.device}: {answer.reason}")
    return answer


def _gain(predictor: Predictor, asked: Question) -> float:
    several, one = (_answer(predictor, replace(asked, device_count=count)) for count in (asked.device_count, 1))
    return several.images_per_second / one.images_per_second


def shared_lines(steps: Sequence[SharedStep]) -> list[str]:
    """A table with a row for each source, for docs/accuracy.md."""
    lines = [
        "| source | devices | rows | estimated over published, median | mean error | inside | rows with one GPU "
        "| gain, mean error | by plausible links |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    of_source: dict[tuple[str, bool], list[SharedStep]] = defaultdict(list)
    for step in steps:
        of_source[step.row.source.partition("-")[0], _is_tpu(step.row)].append(step)
    lines += [_line(source, some) for (source, is_tpu), some in of_source.items() if not is_tpu]
    on_gpus = [step for step in steps if not _is_tpu(step.row)]
    lines.append(_line("all of these", on_gpus))
    lines += [_line(source, some) for (source, is_tpu), some in of_source.items() if is_tpu]
    far = [step for step in on_gpus if not 0.5 < step.ratio < 2]
    names = ", ".join(f"{step.row.id} ({step.ratio:.2f})" for step in far)
    return [*lines, "", f"Off by more than 2 on GPUs: {names or 'none'}."]


def _line(name: str, steps: Sequence[SharedStep]) -> str:
    kinds = ", ".join(sorted({step.row.device for step in steps}))
    ratios = [step.ratio for step in steps]
    gains = [step.gain for step in steps if step.gain is not None]
    plausible = [step.plausible_gain for step in steps if step.plausible_gain is not None]
    return (
        f"| {name} | {kinds} | {len(steps)} | {median(ratios):.2f} | {_off(ratios)} "
        f"| {fmean(step.is_inside for step in steps):.0%} | {len(gains)} | {_off(gains)} | {_off(plausible)} |"
    )


def _off(ratios: Sequence[float]) -> str:
    return f"{fmean(abs(ratio - 1) for ratio in ratios):.1%}" if ratios else "-"


def main() -> int:
    """Print the table."""
    sys.stdout.write("\n".join(shared_lines(shared_steps())) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
