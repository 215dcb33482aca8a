"""Steps of other nets on one device and on several: what they say of links and libraries, where no VGG was measured.

Nobody needs the net's layers for it: the step of one device was measured, the gradients are as many bytes as the net
has weights, and what the step of several devices takes longer is their travelling.
"""

from __future__ import annotations

import csv
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from scripts.fit.rows import DEVICES, LIBRARIES, LINKS, Floats, measurement_of
from trainplan.planner.throughput.compile import DATA
from trainplan.planner.throughput.nets import net_of
from trainplan.planner.throughput.physics import volume
from trainplan.planner.throughput.rates import known_rates
from trainplan.planner.throughput.setup import Library, Link, setup_of_row
from trainplan.planner.throughput.values import Measurement, Parallelism, Quality
from trainplan.pricing.device_text import read_devices

if TYPE_CHECKING:
    from trainplan.workloads.layers import Net

MILLION_WEIGHTS = {"resnet50": 25.6, "resnet152": 60.2, "inception_v3": 23.9, "inception_v4": 42.7, "alexnet": 61.1}
"""As published: He et al. 2015 and Keras' and torchvision's tables (ResNet, Inception v3, AlexNet), Szegedy et al. 2016
(Inception v4)."""
_COUNTED_ROWS = 8.0
"""However many pairs a source has of one device and link, they count as so many: their net is not a VGG."""


@dataclass(frozen=True, kw_only=True)
class Pair:
    """One net's step on one device and on `count`, by the same program; `volume` is what the physics lets travel."""

    id: str
    source: str
    device: str
    link: Link
    library: Library
    count: int
    alone_seconds: float
    seconds: float
    volume: float


@dataclass(frozen=True, kw_only=True)
class PairArrays:
    """Pairs as arrays, beside `Arithmetic`; `spread` is one standard deviation of each, in logarithms."""

    alone: Floats
    log_seconds: Floats
    volume: Floats
    library: NDArray[np.int64]
    doublings: Floats
    spread: Floats


def read_pairs() -> list[Pair]:
    """Every pair of the table, the mean over runs with real and with made-up images."""
    devices = read_devices(DEVICES)[0]
    steps: dict[tuple[object, ...], dict[tuple[int, Link, Library], list[tuple[str, float]]]] = defaultdict(
        lambda: defaultdict(list)
    )
    volumes: dict[tuple[object, ...], float] = {}
    with (DATA / "measurements.csv").open(newline="", encoding="utf-8") as file:
        for cells in csv.DictReader(file):
            stated = measurement_of(cells)
            rates = known_rates(devices.get(stated.device))
            if rates is None or stated.model not in MILLION_WEIGHTS or not _is_usable(stated):
                continue
            # Link, library and precision follow from the row; the net only stands in for one of the right size.
            setup = setup_of_row(stated, _ANY_NET, rates)
            if setup is None:
                continue
            key = (
                *(stated.source, setup.device, stated.model, stated.precision, stated.xla, stated.batch_per_device),
                *(stated.framework, stated.framework_version, stated.layout),
            )
            seconds = setup.batch * setup.count / stated.images_per_second
            setting = (setup.count, setup.link, setup.library)
            steps[key][setting].append((stated.id, seconds))
            sent = MILLION_WEIGHTS[stated.model] * 1e6 * setup.gradient_bytes
            volumes[*key, setting] = volume(setup, sent, setup.count)
    return [pair for key, by_setting in steps.items() for pair in _pairs(key, by_setting, volumes)]


def _is_usable(stated: Measurement) -> bool:
    """`nn.DataParallel` copies weights at each step, which small nets feel in another way than large ones."""
    scattered = stated.parallelism is Parallelism.DATA_PARALLEL
    return stated.mode == "train" and stated.quality is not Quality.C and stated.node_count == 1 and not scattered


def _known_net(name: str, image_size: int) -> Net:
    net = net_of(name, image_size)
    if net is None:
        raise ValueError(f"there is no net {name}")
    return net


_ANY_NET = _known_net("vgg16", 224)


def _pairs(
    key: tuple[object, ...],
    by_setting: dict[tuple[int, Link, Library], list[tuple[str, float]]],
    volumes: dict[tuple[object, ...], float],
) -> Iterable[Pair]:
    alone = by_setting.get((1, Link.ONE, Library.ONE))
    if alone is None:
        return
    for setting, several in by_setting.items():
        count, link, library = setting
        if count > 1:
            yield Pair(
                id=several[0][0],
                source=str(key[0]).partition("-")[0],
                device=str(key[1]),
                link=link,
                library=library,
                count=count,
                alone_seconds=mean(seconds for _, seconds in alone),
                seconds=mean(seconds for _, seconds in several),
                volume=volumes[*key, setting],
            )


def pair_arrays(pairs: Sequence[Pair], spread: float) -> PairArrays:
    """`spread` is one standard deviation of a pair that counts whole."""
    crowds = Counter((pair.source, pair.device, pair.link) for pair in pairs)
    volumes = np.zeros((len(pairs), len(LINKS)))
    for setting, pair in enumerate(pairs):
        volumes[setting, LINKS.index(pair.link)] = pair.volume
    shares = [min(1.0, _COUNTED_ROWS / crowds[pair.source, pair.device, pair.link]) for pair in pairs]
    return PairArrays(
        alone=np.array([pair.alone_seconds for pair in pairs]),
        log_seconds=np.log([pair.seconds for pair in pairs]),
        volume=volumes,
        library=np.array([LIBRARIES.index(pair.library) for pair in pairs], dtype=np.int64),
        doublings=np.log2([pair.count for pair in pairs]),
        spread=spread / np.sqrt(shares),
    )
