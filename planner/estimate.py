"""From a job, a rental and a throughput to time and cost. Pure."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple

from planner.feeding import Feed, feed_images_per_second, pace
from planner.plan import Estimate, RunTime
from planner.spot import Checkpoints, checkpoint_seconds, spot_rate, spot_time, with_checkpoints
from pricing.cost import RunUsage, SideCost, side_cost
from pricing.devices import CPU_DEVICE
from pricing.offers import Market
from workloads.layers import moving_statistics, parameters
from workloads.memory import footprint
from workloads.terms import Framework

if TYPE_CHECKING:
    from planner.spot import SpotRate, SpotTime
    from planner.throughput.values import Throughput
    from pricing.cost import ProviderRates
    from pricing.money import Billing
    from pricing.offers import Rental
    from workloads.job import TrainingJob
    from workloads.runtimes import Chosen

# From the request to a machine that can start a container, in seconds: middle of the ranges for CPU hosts
# (1 min), GPU hosts with a driver in the image (2-3 min) and TPU hosts (5-10 min) that were reported in 2022-2026
# for EC2, GKE and TPU VMs (ec2-coldboot-research 2026-02-01, selkies-vdi #1, ml-testing-accelerators #870).
BOOT_SECONDS = {"cpu": 60, "gpu": 150, "tpu": 450}
# A cold pull of the trainer image: 3-6 min for about 10 GB with CUDA (comfyui-on-eks #7, #9, 2024-07); the CPU
# image is about a fifth of that.
PULL_SECONDS = {"cpu": 60, "gpu": 270, "tpu": 90}
# Charged from the moment that the machine is there, not from the request: charges for nodes of the Cloud TPU API accrue
# while they are READY (https://cloud.google.com/tpu/pricing, read 2026-11-22).
BILLED_FROM_READY = frozenset({"tpu-v2", "tpu-v3", "tpu-v4", "tpu-v5litepod"})
# Importing the framework, building the net and compiling the first step: an allowance, seen as 10-60 s.
START_SECONDS = 45
# Asking for the end, looking until nothing is left, fetching the model.
END_SECONDS = 60
# A data set that is fetched where it runs: an allowance for one connection to object storage or a web server.
DOWNLOAD_BYTES_PER_SECOND = 100_000_000
# What the rented machine's agent takes to unpack, fitted to 20,000 files of 12 kB (3.1 s) and 5,000 of 110 kB (1.5 s)
# on 2 cores, 2026-11-21.
UNPACK_BYTES_PER_SECOND = 600_000_000
UNPACK_FILE_SECONDS = 0.00013
# Evaluation is the forward pass alone, about a third of a training step (forward, and two backward passes).
EVALUATION_SPEEDUP = 3.0

NEVER_SECONDS = 1000 * 365 * 86_400
# The least disk that launches make for each kind of machine (providers/data/machines.toml, 2026-11-21). Azure's have 64
# and 128, TPUs on Compute Engine 200; what a TPU of the Cloud TPU API brings is taken to cost as much.
BOOT_DISK_GB = {"cpu": 30, "gpu": 100, "tpu": 100}
_GB = 1_000_000_000


class Workload:
    """A job's figures, worked out once for the hundreds of rentals it is held against.

    Raises ValueError where the job does not tell how many images an epoch has.
    """

    def __init__(self, job: TrainingJob) -> None:
        self.job = job
        self.net = job.net()
        self.images = trained_images(job)
        self.least_disk_bytes = least_disk_bytes(job)
        self.usage = {kind: run_usage(job, kind) for kind in BOOT_DISK_GB}
        self.hold_out_images = job.known_data.hold_out_images if job.known_data else 0
        self.download_seconds = fetch_seconds(job)
        writing_seconds = checkpoint_seconds(4 * (parameters(self.net) + moving_statistics(self.net)))
        self.checkpoints = Checkpoints(job.checkpoint_every.total_seconds(), writing_seconds)
        self._bytes: dict[tuple[int, bool], int] = {}
        self._side_costs: dict[tuple[str, str], SideCost] = {}
        self._timed: dict[tuple[object, ...], _Timed] = {}
        self._feeds: dict[tuple[int | None, int, float | None, bool], Feed | None] = {}

    def feed(self, rental: Rental) -> Feed | None:
        """What a rental's host can hand over to its devices; None where its processors are not known."""
        on_cpu = rental.device == CPU_DEVICE
        host = (rental.vcpus, rental.device_count, rental.memory_gib, on_cpu)
        if host not in self._feeds:
            self._feeds[host] = feed_images_per_second(
                self.job, rental.vcpus, rental.device_count, memory_gib=rental.memory_gib, on_cpu=on_cpu
            )
        return self._feeds[host]

    def side_cost(self, kind: str, rates: ProviderRates) -> SideCost:
        """What a run pays beside a machine of a kind (`cpu`, `gpu`, `tpu`) at a provider's rates."""
        if (kind, rates.provider) not in self._side_costs:
            self._side_costs[kind, rates.provider] = side_cost(self.usage[kind], rates)
        return self._side_costs[kind, rates.provider]

    def timed(self, rental: Rental, throughput: Throughput, rates: ProviderRates) -> _Timed:
        """Time and side costs of a rental that trains so fast; worked out once for all that share what they rest on."""
        rate = None
        if rental.market is Market.SPOT:
            rate = spot_rate(rental.provider, rental.device, rental.family, rental.interruption_bucket)
        kind = device_kind(rental.device)
        speed = throughput.images_per_second, throughput.low, throughput.high
        # spot_rate keeps what it has made, so that an id stands for one rate.
        free = timedelta(seconds=BOOT_SECONDS[kind] if rental.family in BILLED_FROM_READY else 0)
        key = (speed, kind, id(rate), rental.billing, rates.provider, free)
        if key not in self._timed:
            plain, beside = cloud_time(self, kind, throughput), self.side_cost(kind, rates)
            self._timed[key] = _timed(plain, rate, self, rental.billing, beside, free)
        return self._timed[key]

    def device_bytes(self, share: int, *, planned: bool = False) -> int:
        """What training `share` images at once keeps on one device; `planned`: by a compiler that lays out the whole
        step, as a TPU's always does."""
        job, xla = self.job, planned or uses_xla(self.job)
        if (share, xla) not in self._bytes:
            need = footprint(self.net, share, job.precision, job.optimizer.name, xla=xla, accumulate=job.accumulate > 1)
            self._bytes[share, xla] = need.total
        return self._bytes[share, xla]


def uses_xla(job: TrainingJob) -> bool:
    """Whether the step is compiled by XLA: asked for, or always on JAX."""
    return job.xla or job.framework is Framework.JAX


def device_kind(device: str) -> str:
    """`cpu`, `gpu` or `tpu`, by the canonical device name."""
    if device == CPU_DEVICE:
        return "cpu"
    return "tpu" if device.upper().startswith("TPU") else "gpu"


def estimate(
    work: Workload, rental: Rental, computed: Throughput, rates: ProviderRates, software: Chosen | None = None
) -> Estimate:
    """Time, and cost but for the price of the place, of the whole job on a rental that computes at that throughput.

    `software` is what it would train with there.
    """
    feed = work.feed(rental)
    throughput, input_bound = _fed(computed, feed, on_cpu=rental.device == CPU_DEVICE)
    timed = work.timed(rental, throughput, rates)
    return Estimate(
        rental=rental,
        computed=computed,
        feed=feed,
        throughput=throughput,
        plain=timed.plain,
        steady=timed.steady,
        time=timed.time,
        spot=timed.spot,
        usage=work.usage[device_kind(rental.device)],
        rates=rates,
        billed_seconds=timed.billed_seconds,
        fixed_micro_usd=timed.fixed_micro_usd,
        input_bound=input_bound,
        software=software,
    )


class _Timed(NamedTuple):
    """What Estimate says under the same names."""

    plain: RunTime
    steady: RunTime
    time: RunTime
    spot: SpotTime | None
    billed_seconds: tuple[int, int, int]
    fixed_micro_usd: tuple[int, int, int]


def _timed(
    plain: RunTime, rate: SpotRate | None, work: Workload, billing: Billing, beside: SideCost, free: timedelta
) -> _Timed:
    """`free` is the time of each run that costs nothing of the machine."""
    steady = with_checkpoints(plain, work.checkpoints)
    spot, time, durations = None, steady, (steady.total, steady.low, steady.high)
    if rate is not None:
        spot = spot_time(plain, rate, work.checkpoints)
        time, durations = spot.run_time(plain), spot.billed_durations
    expected, low, high = (billing.billed_seconds(lasting - free) for lasting in durations)
    fixed, low_fixed, high_fixed = (beside.micro_usd(beside.billing.billed_seconds(lasting)) for lasting in durations)
    return _Timed(plain, steady, time, spot, (expected, low, high), (fixed, low_fixed, high_fixed))


def _fed(computed: Throughput, feed: Feed | None, *, on_cpu: bool) -> tuple[Throughput, bool]:
    """What is left of a throughput and of the ends of its interval, and whether feeding holds it up."""
    expected = pace(computed.images_per_second, feed, on_cpu=on_cpu)
    if not on_cpu and (feed is None or feed.images_per_second >= computed.high):
        return computed, expected.input_bound
    low, high = (pace(end, feed, on_cpu=on_cpu).images_per_second for end in (computed.low, computed.high))
    fed = replace(computed, images_per_second=expected.images_per_second, low=low, high=high)
    return fed, expected.input_bound


def cloud_time(work: Workload, kind: str, throughput: Throughput) -> RunTime:
    """The whole run on a rented machine of a kind (`cpu`, `gpu`, `tpu`), but for the writing of checkpoints."""
    setup = BOOT_SECONDS[kind] + PULL_SECONDS[kind] + START_SECONDS + work.download_seconds
    return run_time(work, throughput, timedelta(seconds=setup), timedelta(seconds=END_SECONDS))


def run_time(work: Workload, throughput: Throughput, setup: timedelta, end: timedelta) -> RunTime:
    """The whole run from setup, the trained images over the throughput, one evaluation, and the end."""
    evaluation = work.hold_out_images / (EVALUATION_SPEEDUP * throughput.images_per_second)
    return RunTime(
        setup=setup,
        train=_lasting(work.images / throughput.images_per_second),
        train_low=_lasting(work.images / throughput.high),
        train_high=_lasting(work.images / throughput.low),
        after=end + timedelta(seconds=evaluation),
    )


def _lasting(seconds: float) -> timedelta:
    # A thousand years stand for what is longer: nobody waits for it, and a timedelta cannot hold it.
    return timedelta(seconds=min(seconds, NEVER_SECONDS))


def fetch_seconds(job: TrainingJob) -> float:
    """The data to a rented machine's disk, as far as its size is known; a person's own is taken as archives of one
    file an image, which are unpacked there."""
    size = job.data_bytes or 0
    fetching = size / DOWNLOAD_BYTES_PER_SECOND
    if job.known_data is not None or not size:
        return fetching
    return fetching + size / UNPACK_BYTES_PER_SECOND + (job.train_images or 0) * UNPACK_FILE_SECONDS


def trained_images(job: TrainingJob) -> int:
    """Images of all epochs: whole batches only, what is left over takes its turn in a later epoch.

    Raises ValueError where the job does not tell how many images an epoch has.
    """
    if job.train_images is None:
        raise ValueError("how many images the data set has is not known; give data.images")
    steps = max(1, job.train_images // job.global_batch_size)
    return steps * job.global_batch_size * job.epochs


def run_usage(job: TrainingJob, kind: str) -> RunUsage:
    """On a machine of a kind (`cpu`, `gpu`, `tpu`): disk for image, data and checkpoints; the model leaves the vendor
    once, as 4-byte weights."""
    # The data as it is fetched and unpacked, and two checkpoints with one optimizer slot each.
    disk = BOOT_DISK_GB[kind] + (2 * (job.data_bytes or 0) + 4 * _model_bytes(job)) / _GB
    return RunUsage(disk_gb=_rounded(disk, "0.1"), addresses=1, egress_gb=_rounded(_model_bytes(job) / _GB, "0.001"))


def least_disk_bytes(job: TrainingJob) -> int:
    """What a run has on its machine's disk at the least: its data, and two checkpoints with one optimizer slot each.
    One archive of everything takes the data's size once more while it is unpacked; its launch knows."""
    return (job.data_bytes or 0) + 4 * _model_bytes(job)


def _model_bytes(job: TrainingJob) -> int:
    net = job.net()
    return 4 * (parameters(net) + moving_statistics(net))


def _rounded(value: float, step: str) -> Decimal:
    return Decimal(value).quantize(Decimal(step))
