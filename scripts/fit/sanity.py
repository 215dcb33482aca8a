"""`python -m scripts.fit.sanity`: how many of a thousand estimates break an order that holds between all of them.

1. Twice the batch never gives less than 95 % of the images per second, while its step needs less than 85 % of the
   memory that frameworks get.
2. A card that has as much of everything is never slower, whatever its architecture (TPUs apart).
3. Twice the devices of one machine, with the same batch each, never give fewer images per second.
4. A lower precision is never slower.
5. `n` devices are never more than `n` times as fast as one with the same batch.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from scripts.fit.rows import DEVICES
from trainplan.planner.throughput.predict import Predictor
from trainplan.planner.throughput.rates import Precision, known_rates
from trainplan.planner.throughput.setup import link_of
from trainplan.planner.throughput.values import Parallelism, Question, Throughput
from trainplan.pricing.device_text import read_devices
from trainplan.pricing.devices import Architecture, Device, cores_of
from trainplan.workloads.memory import GIB, footprint
from trainplan.workloads.networks.presets import NETWORKS, preset_graph
from trainplan.workloads.vgg import VGG_DENSE, VGG_DROPOUT, VGG_FEATURES, Head, mnist_cnn, vgg

if TYPE_CHECKING:
    from trainplan.workloads.graph import Graph
    from trainplan.workloads.layers import Net

PRECISIONS = ("fp32", "tf32", "amp_fp16")
"""The lowest speed first."""
COUNTS = (1, 2, 4, 8)
INTERCONNECTS = ("NVLink", "NVSwitch", "PCIe")
FRAMEWORKS = ("tensorflow", "jax", "torch")
BATCHES = (8, 2048)
_SIZES = (32, 64, 96, 128, 224)
_GRAPH_SIZES = (224, 288)
"""Sizes that every preset takes."""
_ROUNDING = 1e-9


class Broken(NamedTuple):
    """An order that does not hold: its number, the ratio of the images per second, and what was asked both times."""

    order: int
    ratio: float
    asked: Question
    other: Question


def nets() -> list[Net | Graph]:
    """Every preset, the VGG nets with and without batch norm at several sizes, others at two."""
    head = Head(dense=VGG_DENSE, dropout=VGG_DROPOUT, classes=1_000)
    kinds = [(name, size, norm) for name in VGG_FEATURES for size in _SIZES for norm in (False, True)]
    published = [vgg(name, VGG_FEATURES[name], head, (size, 3), batch_norm=norm) for name, size, norm in kinds]
    graphs = [preset_graph(preset, size, 3, 1_000) for preset in NETWORKS for size in _GRAPH_SIZES]
    return [*published, mnist_cnn(10, (28, 1)), *graphs]


def known_devices(devices: Mapping[str, Device]) -> list[str]:
    """The names of those whose rates and memory are known."""
    return [name for name, device in devices.items() if known_rates(device) and device.memory_gib]


def memory_share(asked: Question, device: Device) -> float:
    """What the step needs over what frameworks get of the device's memory."""
    assert device.memory_gib is not None
    cores = cores_of(asked.device)
    planned = asked.xla or device.architecture is Architecture.TPU
    need = footprint(asked.net, max(1, asked.batch_per_device // cores), asked.precision, "sgd", xla=planned)
    return need.allocated * cores / (device.usable_memory(device.memory_gib).high_gib * GIB)


def broken_orders(predictor: Predictor, devices: Mapping[str, Device], asked: Question) -> Iterator[Broken]:
    """Every order between this estimate and a neighbour that does not hold."""
    rate = _rate(predictor, asked)
    for order, least, other in _neighbours(devices, asked):
        ratio = _rate(predictor, other) / rate
        if ratio < least - _ROUNDING:
            yield Broken(order, ratio, asked, other)


def _neighbours(devices: Mapping[str, Device], asked: Question) -> Iterator[tuple[int, float, Question]]:
    """The number of an order, the least ratio of the images per second, and the question that has no fewer."""
    doubled = replace(asked, batch_per_device=2 * asked.batch_per_device)
    if memory_share(doubled, devices[asked.device]) < 0.85:
        yield 1, 0.95, doubled
    for name in known_devices(devices):
        if name != asked.device and _is_at_least(devices, name, asked):
            yield 2, 1.0, replace(asked, device=name)
    if asked.device_count < COUNTS[-1]:
        yield 3, 1.0, replace(asked, device_count=2 * asked.device_count)
    if asked.device_count > 1:
        yield 5, 1 / asked.device_count, replace(asked, device_count=1)
    for precision in PRECISIONS[PRECISIONS.index(asked.precision) + 1 :]:
        yield 4, 1.0, replace(asked, precision=precision)


def _is_at_least(devices: Mapping[str, Device], name: str, asked: Question) -> bool:
    """Whether a device has as much of everything, and the same link, as the one asked for; TPUs apart."""
    one, other = devices[name], devices[asked.device]
    links = {
        link_of(asked.device_count, 1, asked.interconnect or "", Parallelism.UNSTATED, device)
        for device in (name, asked.device)
    }
    return (
        (one.architecture is Architecture.TPU) is (other.architecture is Architecture.TPU)
        and len(links) == 1
        and all(mine >= its for mine, its in zip(_specifications(one), _specifications(other), strict=True))
    )


def _specifications(device: Device) -> list[float]:
    rates = known_rates(device)
    assert rates is not None
    return [rates.bytes_per_second, rates.memory_gib or 0.0, *(rates.tflops[precision] for precision in Precision)]


def _rate(predictor: Predictor, asked: Question) -> float:
    found = predictor.predict(asked)
    assert isinstance(found, Throughput), found
    return found.images_per_second


def drawn(chance: random.Random, of: Sequence[Net | Graph], devices: Mapping[str, Device]) -> Question:
    """A question drawn at random whose step fits in the device's memory."""
    names = known_devices(devices)
    low, high = BATCHES
    while True:
        asked = Question(
            net=chance.choice(of),
            device=chance.choice(names),
            device_count=chance.choice(COUNTS),
            interconnect=chance.choice(INTERCONNECTS),
            vcpus=None,
            batch_per_device=round(low * (high / low) ** chance.random()),
            precision=chance.choice(PRECISIONS),
            xla=chance.random() < 0.5,
            framework=chance.choice(FRAMEWORKS),
        )
        if memory_share(asked, devices[asked.device]) <= 1:
            return asked


def main() -> int:
    """Ask for random set-ups and print which expected relations a prediction breaks."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--count", type=int, default=1_000)
    options.add_argument("--seed", type=int, default=20261126)
    arguments = options.parse_args()
    devices = read_devices(DEVICES)[0]
    predictor = Predictor.open(devices)
    chance, of = random.Random(arguments.seed), nets()
    estimates: Counter[int] = Counter()
    worst: dict[int, Broken] = {}
    for _ in range(arguments.count):
        broken = sorted(broken_orders(predictor, devices, drawn(chance, of, devices)), key=lambda one: -one.ratio)
        estimates.update({one.order for one in broken})
        worst |= {one.order: one for one in broken if one.order not in worst or one.ratio < worst[one.order].ratio}
    predictor.close()
    for order in (1, 2, 3, 4, 5):
        example = f"; worst: {_text(worst[order])}" if order in worst else ""
        sys.stdout.write(f"order {order}: broken by {estimates[order]} of {arguments.count} estimates{example}\n")
    return 0


def _text(broken: Broken) -> str:
    one, other = broken.asked, broken.other
    sides = [f"{q.device_count} x {q.device}, batch {q.batch_per_device}, {q.precision}" for q in (one, other)]
    return f"{broken.ratio:.2f} ({sides[0]} to {sides[1]}; {one.net.image_size} px, xla {one.xla}, {one.framework})"


if __name__ == "__main__":
    raise SystemExit(main())
