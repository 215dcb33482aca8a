"""From a job, a rental and a throughput to time and cost. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple

from trainplan.planner.forecast.allowances import PULL_SECONDS, Allowances, allowances
from trainplan.planner.forecast.feeding import Feed, feed_images_per_second, pace
from trainplan.planner.forecast.interruption import checkpoint_count
from trainplan.planner.forecast.plan import Estimate, StepBytes
from trainplan.planner.forecast.script_work import capped_on
from trainplan.planner.forecast.side_costs import RegionClasses, SideCosts
from trainplan.planner.forecast.spot import (
    CHECKPOINT_BYTES_PER_SECOND,
    Checkpoints,
    SpotRate,
    SpotTime,
    checkpoint_seconds,
    spot_rate,
    spot_time,
    with_checkpoints,
)
from trainplan.planner.forecast.sweep import SweepWork
from trainplan.planner.forecast.times import Interval, RunTime, joined
from trainplan.planner.forecast.whole_run import whole_run_half_width, widened
from trainplan.planner.throughput.values import Basis
from trainplan.pricing.cost import ProviderRates, RunUsage
from trainplan.pricing.devices import CPU_DEVICE, data_disk_gib, has_fixed_disk
from trainplan.pricing.offers import Market, Rental
from trainplan.workloads.hold_out import averaged_images, test_every
from trainplan.workloads.memory import footprint
from trainplan.workloads.pretrained import published_weights, weights_address
from trainplan.workloads.sweep import planned_images
from trainplan.workloads.terms import DataName, Framework

if TYPE_CHECKING:
    from trainplan.planner.throughput.values import Throughput
    from trainplan.pricing.money import Billing
    from trainplan.workloads.graph import Graph
    from trainplan.workloads.job import TrainingJob
    from trainplan.workloads.runtimes import ChosenSoftware

# Charged from the moment that the machine is there, not from the request: charges for nodes of the Cloud TPU API accrue
# while they are READY (https://cloud.google.com/tpu/pricing, read 2026-11-22).
BILLED_FROM_READY = frozenset({"tpu-v2", "tpu-v3", "tpu-v4", "tpu-v5litepod"})
# A data set that is fetched where it runs: an allowance for one connection to object storage or a web server.
DOWNLOAD_BYTES_PER_SECOND = 100_000_000
# What the rented machine's agent takes to unpack, fitted to 20,000 files of 12 kB (3.1 s) and 5,000 of 110 kB (1.5 s)
# on 2 cores, 2026-11-21.
UNPACK_BYTES_PER_SECOND = 600_000_000
UNPACK_FILE_SECONDS = 0.00013
# Evaluation is the forward pass alone, about a third of a training step (forward, and two backward passes). The same
# four logs have 14 to 17 s for 50,000 images beside steps of 740 to 807 images/s: 4 times as fast.
EVALUATION_SPEEDUP = 3.0

NEVER_SECONDS = 1000 * 365 * 86_400
# The least disk that launches make for each kind of machine (providers/cloud/data/machines.toml, 2026-11-21). Azure's
# have 64 and 128, TPUs on Compute Engine 200; what a TPU of the Cloud TPU API brings is taken to cost as much.
BOOT_DISK_GB = {"cpu": 30, "gpu": 100, "tpu": 100}
_GB = 1_000_000_000
# A run that is expected to be interrupted more often is never the cheapest, whatever it fetches.
_MOST_INTERRUPTIONS = 10_000


Around = Callable[[str, str], Allowances]
"""The allowances of a provider (its name) on a kind of machine (`cpu`, `gpu`, `tpu`)."""


class Workload:
    """A job's figures, worked out once for the hundreds of rentals it is held against. Of a job with a sweep those of
    all its trials: as its rungs train them, or (`is_grid`) each to its end. `around` tells what a run takes around its
    training at a provider, on a kind of machine.

    Raises ValueError where the job does not tell how many images an epoch has.
    """

    def __init__(self, job: TrainingJob, around: Around = allowances, *, is_grid: bool = False) -> None:
        self.job = job
        self.around = around
        self.graph = job.graph()
        # Nothing is known of a sweep over a script that was not measured: it takes until its deadline at the most.
        has_trials = job.sweep is not None and (job.script is None or job.is_measured_script)
        self.sweep = SweepWork(job, is_grid=is_grid) if has_trials else None
        self.kinds = tuple(map(Workload, self.sweep.kinds)) if self.sweep is not None else (self,)
        """The job, or its trials that differ in their speed."""
        self.images = trained_images(job) if self.sweep is None else self.sweep.images
        self.evaluation_speedup = evaluation_speedup(self.graph)
        self.least_disk_bytes = least_disk_bytes(job)
        self._usage: dict[str, RunUsage] = {}
        self.hold_out_images = job.known_data.hold_out_images if job.known_data else 0
        self.averaged_images = 0 if job.script is not None else averaged_images(job.train_images, self.graph.statistics)
        self.validations = job.epochs // job.validation.every_epochs if job.validation.every_epochs else 0
        self.validated_images = self.validations * validation_images(job) or images_tested_between(job)
        self.restarts = 0
        if self.sweep is not None:
            of_trials = self.validated_images * self.sweep.epochs / job.epochs
            self.validated_images = round(of_trials) + self.sweep.tests * validation_images(job)
            self.restarts = self.sweep.restarts
        self.earliest_share = job.validation.earliest_end(job.epochs) / job.epochs
        self.download_seconds = fetch_seconds(job)
        self.model_bytes = max(map(_model_bytes, (job,) if self.sweep is None else self.sweep.kinds))
        self.bucket_bytes = bucket_bytes(job)
        written = (2 + more_weights(job)) * self.model_bytes
        # That of a sweep holds the states of all trials that may still go on: all are sent, one is written.
        self.checkpoint_bytes = written * (self.sweep.most_kept if self.sweep is not None else 1)
        self.checkpoints = Checkpoints(job.checkpoint_every.total_seconds(), checkpoint_seconds(written // 2))
        self._bytes: dict[tuple[int, str], StepBytes] = {}
        self._classes: dict[tuple[str, str], RegionClasses] = {}
        self._timed: dict[tuple[object, ...], _Timed] = {}
        self._feeds: dict[tuple[int | None, int, float | None, bool, int], Feed | None] = {}

    def feed(self, rental: Rental) -> Feed | None:
        """What a rental's host can hand over to its devices; None where its processors are not known."""
        on_cpu = rental.device == CPU_DEVICE
        # A launch has one process on each host. What PyTorch trains on several devices has one for each, if anybody
        # starts it there.
        processes = rental.device_count if self.job.framework is Framework.TORCH else rental.hosts
        host = (rental.vcpus, rental.device_count, rental.memory_gib, on_cpu, processes)
        if host not in self._feeds and self.sweep is not None:
            feeds = [one.feed(rental) for one in self.kinds]
            slowest = [feed for feed in feeds if feed is not None]
            none = len(slowest) < len(feeds)
            self._feeds[host] = None if none else min(slowest, key=lambda feed: feed.images_per_second)
        if host not in self._feeds:
            self._feeds[host] = feed_images_per_second(
                self.job, rental.vcpus, rental.device_count, memory_gib=rental.memory_gib, on_cpu=on_cpu,
                processes=processes,
            )  # fmt: skip
        return self._feeds[host]

    def usage(self, device: str) -> RunUsage:
        """What a run takes beside a machine with this device."""
        alike = _alike(device)
        if alike not in self._usage:
            self._usage[alike] = run_usage(self.job, alike)
        return self._usage[alike]

    def usages(self, device: str, plain: RunTime, interruptions: float = 0.0) -> tuple[RunUsage, RunUsage, RunUsage]:
        """The same with what goes from and to its bucket: expected, low, high.

        Each interruption fetches data and newest checkpoint once more. Checkpoints are sent as often as they are
        written, or as fast as one connection sends them.
        """
        again = min(interruptions, _MOST_INTERRUPTIONS)
        written = self.checkpoint_bytes
        fetched = _gigabytes(self.bucket_bytes * (1 + again) + written * again)
        every = max(self.checkpoints.interval_seconds, written / CHECKPOINT_BYTES_PER_SECOND)
        after = plain.after.total_seconds()

        def usage(train: timedelta) -> RunUsage:
            sent = checkpoint_count(train.total_seconds() + after, every) * written + self.model_bytes
            return self.usage(device)._replace(fetched_gb=fetched, stored_gb=_gigabytes(sent))

        return usage(plain.train), usage(plain.train_low), usage(plain.train_high)

    def timed(self, rental: Rental, throughput: Throughput, rates: ProviderRates, bucket: str) -> _Timed:
        """Time and side costs of a rental that trains so fast; worked out once for all that share what they rest on.

        `bucket` is the region of the run's bucket, "" where it is not known.
        """
        rate = None
        if rental.market is Market.SPOT:
            rate = spot_rate(rental.provider, rental.device, rental.family, rental.interruption_bucket)
        kind = device_kind(rental.device)
        speed = throughput.images_per_second, throughput.low, throughput.high
        # spot_rate keeps what it has made, so that an id stands for one rate.
        around = self.around(rates.provider, kind)
        free = timedelta(seconds=free_seconds(rental, around))
        key = (speed, _alike(rental.device), id(rate), rental.billing, rates.provider, bucket, free, rental.hosts)
        if key not in self._timed:
            where = (rates.provider, bucket)
            classes = self._classes.get(where) or self._classes.setdefault(where, RegionClasses(rates, bucket))
            if throughput.basis is Basis.UNMEASURED:
                plain, rate = capped_on(self.job, around), None
            else:
                plain = rented_time(self, around, throughput)
            is_capped = throughput.basis is Basis.UNMEASURED
            on_rental = _OnRental(self, rental.device, rental.billing, free, is_capped, rental.hosts)
            timed = _timed(on_rental, around, plain, rate, classes)
            if free and not is_capped:  # how long it takes to be there changes nothing of its bill
                billed = rented_time(self, around.with_known_boot(), throughput)
                seconds = _timed(on_rental, around, billed, rate, classes).billed_seconds
                timed = timed._replace(billed_seconds=seconds)
            self._timed[key] = timed
        return self._timed[key]

    def device_bytes(self, share: int, kind: str = "gpu") -> StepBytes:
        """What training `share` images at once asks of the allocator of one device of that kind (`device_kind`)."""
        if self.job.script is not None:  # nothing is known of its net
            return StepBytes(0, 0)
        if (share, kind) not in self._bytes:
            job = self.job
            need = footprint(
                self.graph,
                share,
                job.precision,
                job.optimizer.state,
                framework=job.framework,
                # A TPU's step is always planned as a whole by XLA, whatever the framework (ADR 9).
                xla=kind == "tpu" or uses_xla(job),
                accumulate=job.accumulate > 1,
                on_gpu=kind == "gpu",
            )
            self._bytes[share, kind] = StepBytes(need.allocated, need.least)
        return self._bytes[share, kind]


def uses_xla(job: TrainingJob) -> bool:
    """Whether the step is compiled by XLA: asked for, or always on JAX."""
    return job.xla or job.framework is Framework.JAX


TPU_LEAST_MACS = 100_000_000
"""Below this many multiply-accumulates an image, a TPU's matrix units wait: the small MNIST net has 5 million, VGG11 on
32 px 150 million."""


def device_kind(device: str) -> str:
    """`cpu`, `gpu` or `tpu`, by the canonical device name."""
    if device == CPU_DEVICE:
        return "cpu"
    return "tpu" if device.upper().startswith("TPU") else "gpu"


def free_seconds(rental: Rental, around: Allowances) -> int:
    """How many seconds of a run the machine costs nothing: the vendor bills some types only from READY on. A boot that
    was measured has the image in it, which is fetched after that: what others have reported of it is billed."""
    if rental.family not in BILLED_FROM_READY:
        return 0
    there = around.boot.expected + around.image.expected
    return max(0, round(there - PULL_SECONDS[device_kind(rental.device)].expected))


def estimate(
    work: Workload,
    rental: Rental,
    computed: Throughput,
    rates: ProviderRates,
    software: ChosenSoftware | None = None,
    bucket: str = "",
) -> Estimate:
    """Time, and cost but for the price of the placement, of the whole job on a rental that computes at that throughput.

    `software` is what it would train with there, `bucket` the region of its bucket ("": that of the machine).
    """
    feed = None if computed.as_fed else work.feed(rental)
    throughput, input_bound = apply_feed(computed, feed, on_cpu=rental.device == CPU_DEVICE)
    timed = work.timed(rental, throughput, rates, bucket)
    return Estimate(
        rental=rental,
        computed=computed,
        feed=feed,
        throughput=throughput,
        around=timed.around,
        plain=timed.plain,
        steady=timed.steady,
        time=timed.time,
        spot=timed.spot,
        billed_seconds=timed.billed_seconds,
        side=timed.side,
        input_bound=input_bound,
        software=software,
        kinds=len(work.kinds),
    )


class _Timed(NamedTuple):
    """What Estimate says under the same names."""

    around: Allowances
    plain: RunTime
    steady: RunTime
    time: RunTime
    spot: SpotTime | None
    billed_seconds: tuple[int, int, int]
    side: SideCosts


class _OnRental(NamedTuple):
    """`free` is the time of each run that costs nothing of the machine; `is_capped`: the run takes all of its time,
    whatever it does."""

    work: Workload
    device: str
    billing: Billing
    free: timedelta
    is_capped: bool
    hosts: int


def _timed(
    rental_work: _OnRental, around: Allowances, plain: RunTime, rate: SpotRate | None, classes: RegionClasses
) -> _Timed:
    work = rental_work.work
    steady = plain if rental_work.is_capped else with_checkpoints(plain, work.checkpoints)
    spot, time, durations = None, steady, (steady.total, steady.low, steady.high)
    interruptions = 0.0
    if rate is not None:
        spot = spot_time(plain, rate, work.checkpoints)
        time, durations, interruptions = spot.run_time(plain), spot.billed_durations, spot.expected.interruptions
    # The deadline of a script may come before its machine is there.
    billed = (max(timedelta(0), lasting - rental_work.free) for lasting in durations)
    expected, low, high = map(rental_work.billing.billed_seconds, billed)
    expected_usage, low_usage, high_usage = (
        usage.of_machines(rental_work.hosts) for usage in work.usages(rental_work.device, plain, interruptions)
    )
    # The steady run fetches its data once: without interruptions nothing is fetched again.
    steady_usage = expected_usage._replace(fetched_gb=_gigabytes(work.bucket_bytes * rental_work.hosts))
    side = SideCosts(classes, (expected_usage, low_usage, high_usage), durations, steady_usage)
    return _Timed(around, plain, steady, time, spot, (expected, low, high), side)


def apply_feed(computed: Throughput, feed: Feed | None, *, on_cpu: bool) -> tuple[Throughput, bool]:
    """What is left of a throughput and of the ends of its interval, and whether feeding holds it up."""
    expected = pace(computed.images_per_second, feed, on_cpu=on_cpu)
    # Feeding that keeps up at its slow end with the fast end of the interval holds no part of it up.
    if feed is None or (not on_cpu and feed.low >= computed.high):
        return computed, expected.input_bound
    low = pace(computed.low, replace(feed, images_per_second=feed.low), on_cpu=on_cpu).images_per_second
    high = pace(computed.high, replace(feed, images_per_second=feed.high), on_cpu=on_cpu).images_per_second
    fed = replace(computed, images_per_second=expected.images_per_second, low=low, high=high)
    return fed, expected.input_bound


def evaluation_speedup(graph: Graph) -> float:
    """How many images are evaluated in the time in which one is trained: a step goes forward once and back twice. With
    frozen layers it goes back less, by the FLOPs of each layer."""
    if graph.trained_parameters == graph.parameters:
        return EVALUATION_SPEEDUP
    return 1 + graph.flops_backward / graph.flops_forward


def rented_time(work: Workload, around: Allowances, throughput: Throughput) -> RunTime:
    """The whole run on a machine that is not this computer, but for the writing of checkpoints.

    Its interval is wider than that of the throughput, by what published whole runs ask for (`forecast/whole_run.py`).
    """
    whole = widened(throughput, whole_run_half_width())
    time = run_time(work, whole, around.setup(work.download_seconds), around.end)
    return with_restarts(time, work, around.start)


def with_restarts(time: RunTime, work: Workload, start: Interval) -> RunTime:
    """The same with the processes of a sweep that are started after the first, so many seconds each."""
    if not work.restarts:
        return time
    expected, low, high = (timedelta(seconds=work.restarts * seconds) for seconds in start)
    return time.with_train(time.train + expected, time.train_low + low, time.train_high + high)


def run_time(
    work: Workload, throughput: Throughput, setup: Interval, end: Interval, *, validates: bool = True
) -> RunTime:
    """The whole run from setup, the trained images over the throughput with the validations that the job asks for, or
    the tests between epochs that the trainer makes where it asks for none, the last test with the images that it
    averages before, and the end. The lower end is that of a run that early stopping ends as early as it can. `setup`
    and `end` are in seconds.

    Without `validates` the validations are counted elsewhere.
    """
    tested_images = work.hold_out_images + work.averaged_images
    evaluation = tested_images / (work.evaluation_speedup * throughput.images_per_second)
    images = work.images + (work.validated_images / work.evaluation_speedup if validates else 0)
    aside = joined(setup, end)
    return RunTime(
        setup=timedelta(seconds=setup.expected),
        train=_lasting(images / throughput.images_per_second),
        train_low=_lasting(images * work.earliest_share / throughput.high),
        train_high=_lasting(images / throughput.low),
        after=timedelta(seconds=end.expected + evaluation),
        less=timedelta(seconds=aside.expected - aside.low),
        more=timedelta(seconds=aside.high - aside.expected),
    )


def validation_images(job: TrainingJob) -> int:
    """Images of one validation; of a person's own data a tenth is taken to be held out, as the trainer does where no
    folder is set apart."""
    if job.known_data is not None:
        return job.known_data.hold_out_images
    if job.script is not None:  # what it tests is in its own time
        return 0
    # A ninth of what is left for training is a tenth of all, rounded up.
    return -(-(job.train_images or 0) // 9)


def images_tested_between(job: TrainingJob) -> int:
    """Images of the hold-out that the trainer tests between epochs where the job asks for no validation: so often that
    it costs little (workloads/hold_out.py); 0 where the job does not tell how many images an epoch has."""
    tested = validation_images(job)
    every = test_every(job.train_images, tested) if job.train_images and tested else None
    return 0 if every is None else job.epochs // every * tested


def more_weights(job: TrainingJob) -> int:
    """Copies of the weights in each checkpoint beside the weights and one slot of the optimizer."""
    return int(job.optimizer.ema is not None) + int(job.validation.keeps_best)


def _lasting(seconds: float) -> timedelta:
    # A thousand years stand for what is longer: nobody waits for it, and a timedelta cannot hold it.
    return timedelta(seconds=min(seconds, NEVER_SECONDS))


def fetch_seconds(job: TrainingJob) -> float:
    """The data to a rented machine's disk, as far as its size is known; a person's own is taken as archives of one
    file an image, which are unpacked there."""
    size = job.data_bytes or 0
    published = published_weights(job)
    weights_bytes = published.size_bytes if published else _model_bytes(job) if weights_address(job) else 0
    fetching = (size + weights_bytes) / DOWNLOAD_BYTES_PER_SECOND
    if job.known_data is not None or not size:
        return fetching
    return fetching + size / UNPACK_BYTES_PER_SECOND + (job.train_images or 0) * UNPACK_FILE_SECONDS


def trained_images(job: TrainingJob) -> int:
    """Images of all epochs: whole batches only, what is left over takes its turn in a later epoch.

    Raises ValueError where the job does not tell how many images an epoch has.
    """
    if job.train_images is None:
        raise ValueError("the number of images in the data set is not known: set data.images")
    if job.sweep is not None:
        return sum(map(sum, planned_images(job, job.train_images)))
    steps = max(1, job.train_images // job.global_batch_size)
    return steps * job.global_batch_size * job.epochs


def run_usage(job: TrainingJob, device: str) -> RunUsage:
    """Beside a machine with this device, or of a kind (`cpu`, `gpu`, `tpu`): disk for image, data and checkpoints. The
    model leaves the vendor once, as 4-byte weights."""
    disk = float(BOOT_DISK_GB[device_kind(device)])
    if has_fixed_disk(device):  # a second disk for data that it has no room for; Google's GB of disk are GiB
        disk += data_disk_gib(device, least_disk_bytes(job), job.data_bytes or 0)
    else:  # the data as it is fetched and unpacked, and two checkpoints with one optimizer slot each
        disk += (2 * (job.data_bytes or 0) + (4 + 2 * more_weights(job)) * _model_bytes(job)) / _GB
    return RunUsage(disk_gb=_rounded(disk, "0.1"), addresses=1, egress_gb=_gigabytes(_model_bytes(job)))


def bucket_bytes(job: TrainingJob) -> int:
    """What each machine of a run fetches from object storage, as far as its size is known; sets that are open to
    everybody come from the web, which no vendor charges for."""
    data = job.data
    on_the_web = data.url.startswith("https://") if data.url else data.name not in (None, DataName.IMAGENET)
    return 0 if on_the_web else job.data_bytes or 0


def _alike(device: str) -> str:
    """A name for all devices whose machines take the same besides: their kind, but for those with a fixed disk."""
    return device if has_fixed_disk(device) else device_kind(device)


def least_disk_bytes(job: TrainingJob) -> int:
    """What a run has on its machine's disk at the least: its data, and two checkpoints with one optimizer slot each.
    One archive of everything takes the data's size once more while it is unpacked; its launch knows."""
    return (job.data_bytes or 0) + 4 * _model_bytes(job)


def _model_bytes(job: TrainingJob) -> int:
    graph = job.graph()
    return 4 * (graph.parameters + graph.statistics)


def _gigabytes(size: float) -> Decimal:
    return _rounded(size / _GB, "0.001")


def _rounded(value: float, step: str) -> Decimal:
    return Decimal(value).quantize(Decimal(step))
