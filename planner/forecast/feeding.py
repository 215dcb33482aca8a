"""How many images per second a host can decode and hand to its devices, and whether that holds the training up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainplan.planner.forecast.times import Interval, assumed
from trainplan.workloads.memory import GIB
from trainplan.workloads.terms import DataName

if TYPE_CHECKING:
    from trainplan.workloads.job import TrainingJob

# Seconds of one core for one JPEG through the trainer's pipeline: a part for the call, one for each stored pixel
# (decoding), one for each pixel of the result (resizing, antialiased). benchmarks/feeding.py, tensorflow 2.21.0, one
# core of an AMD EPYC (Zen 4 family), 2026-11-21: nine cases of 256 to 1,000 px a side to 32, 128 and 224 px, which
# these figures meet within 10 %. Since 2026-11-26 Pillow decodes instead: 0.7 to 1.5 times as fast (ADR 33).
JPEG_SECONDS = 0.3e-3
JPEG_SECONDS_PER_STORED_PIXEL = 7.5e-9
JPEG_SECONDS_PER_PIXEL = 29e-9
# One process decodes no faster than this, however many cores it has: Python's lock is held for so long (ADR 33).
LOCK_SECONDS = assumed(0.12e-3)
# The seconds of one core for images held as arrays: 12 microseconds an image, and a copy.
ARRAY_SECONDS = 12e-6
ARRAY_SECONDS_PER_BYTE = 0.1e-9
# A vCPU on x86 is one of a core's two threads. If two do 1.3 times what one does, a vCPU is 0.65 of such a core; the
# one published host that was held up by feeding, 32 vCPU with 8 K80 (AlexNet, 4,056 images/s of ImageNet against
# 4,640 synthetic; TensorFlow benchmark page, 2017-05), gave 127 images/s per vCPU, 0.40 of the core measured here.
# This stands between, and these two are the ends of its interval; processors differ by more.
VCPU_SHARE = Interval(0.5, 0.40, 0.65)
# Pixels of an image as stored where the data does not tell: ImageNet's, about 500 by 375.
STORED_PIXELS = 500 * 375
# To each device over PCIe: an allowance of 6 GB/s, somewhat less than half of what PCIe 3 x16 carries, because what
# is copied is not pinned. Images travel as one byte a channel.
LINK_BYTES_PER_SECOND = assumed(6e9)
# The trainer decodes files once and keeps them where they take no more than this share of the free memory.
CACHE_SHARE = 0.25

_FILES = frozenset({None, DataName.IMAGENET})


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed:
    """The most images a second that a host hands over, to all its devices together, with the ends of its 80 % interval.
    `evidence` says from what."""

    images_per_second: float
    low: float
    high: float
    evidence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Images per second of a whole run, and whether feeding holds it up."""

    images_per_second: float
    input_bound: bool


def feed_images_per_second(
    job: TrainingJob,
    vcpus: float | None,
    device_count: int,
    *,
    memory_gib: float | None = None,
    on_cpu: bool = False,
    processes: int = 1,
) -> Feed | None:
    """What a host can feed, averaged over the job's epochs; None where its vCPUs are not known.

    `memory_gib` is the host's: files that fit are decoded in the first epoch only (None: never). `on_cpu` is for
    training on the host itself, to which nothing is copied. `processes` share the decoding: one of each host of a TPU
    slice, whose `vcpus` and memory are those of all hosts, or of each GPU.
    """
    if vcpus is None or vcpus <= 0:
        return None
    files = job.data.name in _FILES
    image_bytes = _side(job) ** 2 * job.channels
    cached = files and _is_cached(job, image_bytes, memory_gib)

    def rate(vcpu_share: float, link_bytes_per_second: float, lock_seconds: float) -> float:
        cores = vcpus * vcpu_share
        decoding = (
            max(_decode_seconds(job) / cores, lock_seconds / processes) / (job.epochs if cached else 1)
            if files
            else 0.0
        )
        copying = (ARRAY_SECONDS + ARRAY_SECONDS_PER_BYTE * image_bytes) / cores if cached or not files else 0.0
        link = 0.0 if on_cpu else image_bytes / (link_bytes_per_second * device_count)
        return 1 / max(decoding + copying, link)

    lock = LOCK_SECONDS
    expected, low, high = map(rate, VCPU_SHARE, LINK_BYTES_PER_SECOND, (lock.expected, lock.high, lock.low))
    return Feed(
        images_per_second=expected,
        low=low,
        high=high,
        evidence=_evidence(job, vcpus, files=files, cached=cached),
    )


def pace(computed_images_per_second: float, feed: Feed | None, *, on_cpu: bool = False) -> Pace:
    """The slower of feeding and computing; on a CPU they take turns on the same cores and their times add up.

    `input_bound` is said where feeding takes longer than computing. What is not known holds nothing up.
    """
    if feed is None:
        return Pace(images_per_second=computed_images_per_second, input_bound=False)
    rates = computed_images_per_second, feed.images_per_second
    together = 1 / (1 / rates[0] + 1 / rates[1]) if on_cpu else min(rates)
    return Pace(images_per_second=together, input_bound=rates[1] < rates[0])


def _side(job: TrainingJob) -> int:
    """Pixels a side as handed over: files are resized on the host, arrays on the device, synthetic ones are made so."""
    size = job.known_data
    if job.data.name is DataName.SYNTHETIC:
        return job.image_size
    if job.data.name in _FILES or size is None:
        return job.decoded_size
    return size.image_size


def _decode_seconds(job: TrainingJob) -> float:
    """Seconds of one core for one file."""
    return JPEG_SECONDS + JPEG_SECONDS_PER_STORED_PIXEL * STORED_PIXELS + JPEG_SECONDS_PER_PIXEL * job.decoded_size**2


def _is_cached(job: TrainingJob, image_bytes: int, memory_gib: float | None) -> bool:
    if memory_gib is None or job.train_images is None or job.epochs == 1:
        return False
    return job.train_images * image_bytes <= CACHE_SHARE * memory_gib * GIB


def _evidence(job: TrainingJob, vcpus: float, *, files: bool, cached: bool) -> str:
    if not files:
        return f"images held in memory as arrays, copied by {vcpus:g} vCPU; measured on one core, 2026-11-21"
    rate, share = 1 / _decode_seconds(job), VCPU_SHARE
    suffix = ", in the first epoch only: they fit the host's memory" if cached else ""
    return (
        f"JPEG files of about 500x375 px{suffix}; a core decodes {rate:,.0f} images a second to {job.decoded_size} px "
        f"(measured 2026-11-21), a vCPU counts as {share.expected:g} core ({share.low:g} to {share.high:g}), "
        f"the host has {vcpus:g} vCPUs"
    )
