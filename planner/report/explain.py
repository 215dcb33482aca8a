"""Where each number of a row comes from, in words."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from math import exp
from typing import TYPE_CHECKING

from trainplan.planner.forecast.advice import early_end_text
from trainplan.planner.forecast.estimate import (
    BOOT_DISK_GB,
    DOWNLOAD_BYTES_PER_SECOND,
    Workload,
    apply_feed,
    device_kind,
    free_seconds,
    trained_images,
    uses_xla,
    validation_images,
)
from trainplan.planner.forecast.memory import bucket_bytes
from trainplan.planner.forecast.obtainability import explain_obtainability
from trainplan.planner.forecast.price_notes import explain_price
from trainplan.planner.forecast.script_work import NOT_MEASURED
from trainplan.planner.forecast.spot import CHECKPOINT_BYTES_PER_SECOND, checkpoint_advice, explain_spot, with_quantiles
from trainplan.planner.forecast.whole_run import whole_run_half_width
from trainplan.planner.report.estimate_page import TIGHT_TEXT, unproven_text
from trainplan.planner.report.operator_lines import operator_lines
from trainplan.planner.report.queue_lines import queue_lines
from trainplan.planner.report.session_lines import explain_sessions
from trainplan.planner.throughput.values import Basis
from trainplan.pricing.devices import CPU_DEVICE, cores_of, device_text, has_fixed_disk, machines_text
from trainplan.pricing.money import format_usd, format_usd_per_hour, from_micro
from trainplan.pricing.offers import LifecycleState, Offer
from trainplan.pricing.planning import AS_LISTED
from trainplan.providers.registry import CLOUDS
from trainplan.workloads.durations import format_duration
from trainplan.workloads.memory import GIB, footprint, kept_bytes

if TYPE_CHECKING:
    from trainplan.planner.forecast.allowances import Allowances
    from trainplan.planner.forecast.plan import Estimate, Plan, RankedOffer
    from trainplan.planner.forecast.queue_wait import QueueWait
    from trainplan.planner.forecast.times import Interval
    from trainplan.pricing.cost import RegionRates
    from trainplan.workloads.job import TrainingJob


def explain(plan: Plan, ranked: RankedOffer) -> str:
    """The row's numbers, one paragraph each: offer, price, throughput, time, memory, cost."""
    offer = ranked.offer
    what = device_text(offer.device, offer.device_count, float(offer.device_fraction), offer.vcpus)
    machines = machines_text(offer.instance_type, ranked.candidate.estimate.machines)
    head = f"row {ranked.number}: {offer.provider} {offer.region} {machines}, {what}, {offer.market}"
    blocks = [
        ("offer", _offer_lines(offer)),
        ("price", _price_lines(offer)),
        ("software", _software_lines(plan, ranked)),
        ("throughput", _throughput_lines(ranked)),
        (
            "operators, by share of a step's computing (by the model of operators)",
            operator_lines(plan.job.graph(), plan.operator_seconds),
        ),
        ("time", _time_lines(plan, ranked)),
        ("interruptions", _spot_lines(plan, ranked)),
        ("obtainability", _obtainability_lines(ranked)),
        ("queue", queue_lines(ranked)),
        ("sessions", explain_sessions(ranked)),
        ("memory", _memory_lines(plan, ranked)),
        ("cost", [*_cost_lines(ranked), *_credit_lines(plan, ranked)]),
    ]
    texts = (f"\n{title}\n" + "\n".join(f"  {line}" for line in lines) for title, lines in blocks if lines)
    return "\n".join([head, *texts])


def _offer_lines(offer: Offer) -> list[str]:
    lines = [f"{offer.vcpus or '?'} vCPU ({offer.cpu_architecture}), {offer.memory_gib or '?'} GiB memory"]
    if offer.zones:
        lines.append(f"zones {', '.join(offer.zones)}")
    life = offer.lifecycle
    if life.state is not LifecycleState.ACTIVE:
        dated = f" {life.date}" if life.date else ", no date known"
        lines.append(f"{life.state}{dated}; instead: {life.successor or 'nothing named'}")
    if offer.note:
        lines.append(f"note of the source: {offer.note}")
    return lines


def _price_lines(offer: Offer) -> list[str]:
    dated = offer.price_as_of or offer.price_as_of_text or "no date"
    lines = [f"{format_usd_per_hour(offer.usd_per_hour)}, {offer.price_grade}, {dated}: {offer.price_source}"]
    if offer.host_usd_per_hour is not None and offer.device_usd_per_hour is not None:
        host, device = format_usd_per_hour(offer.host_usd_per_hour), format_usd_per_hour(offer.device_usd_per_hour)
        lines.append(f"on demand, host {host} + accelerator {device}")
    return [*lines, *explain_price(offer)]


def _software_lines(plan: Plan, ranked: RankedOffer) -> list[str]:
    software = ranked.candidate.estimate.software
    if software is None:
        return []
    unproven = [unproven_text(ranked)] if ranked.candidate.estimate.unproven else []
    if software.runtime is None:
        text = f"Keras on {software.framework}, as the job asks: in no known combination for this hardware, not tried"
        return [text, *unproven]
    why = "" if software.framework == plan.job.framework else ", since the job names no framework"
    driver = f", driver branch {software.runtime.driver} at the newest" if software.runtime.driver else ""
    row = software.runtime
    installed = f", installed from {row.software}" if ranked.offer.provider in CLOUDS and not plan.job.container else ""
    text = f"Keras on {software.framework} ({row.framework_version}){installed}{why}{driver}: {row.source}"
    return [text, *unproven]


def _throughput_lines(ranked: RankedOffer) -> list[str]:
    estimate = ranked.candidate.estimate
    speed, feed = estimate.computed, estimate.feed
    if speed.basis is Basis.UNMEASURED:
        return [f"{NOT_MEASURED} measures a script that reports; until then its time is that of its deadline"]
    each = " of each machine, with its share of the batch" if estimate.machines > 1 else ""
    lines = [
        f"{speed.images_per_second:,.1f} images/s over all devices{each}, {speed.basis}; "
        f"80 % interval {speed.low:,.1f} to {speed.high:,.1f}",
        f"from {', '.join(speed.evidence)}",
    ]
    together = estimate.throughput
    lines += [together.note] if together.note else []
    if feed is None:
        lines.append("how many images/s its host can supply is unknown")
    else:
        lines.append(
            f"its host can supply {feed.images_per_second:,.0f} images/s ({feed.low:,.0f} to {feed.high:,.0f}): "
            f"{feed.evidence}"
        )
        left, _ = apply_feed(speed, feed, on_cpu=estimate.rental.device == CPU_DEVICE)
        if left.images_per_second < speed.images_per_second:
            bound = "input-bound" if estimate.input_bound else "slowed by its input"
            lines.append(
                f"{bound}: {left.images_per_second:,.1f} images/s are left; "
                f"80 % interval {left.low:,.1f} to {left.high:,.1f}"
            )
    if estimate.machines > 1:
        lines.append(
            f"{estimate.machines} machines together: {together.images_per_second:,.1f} images/s; "
            f"80 % interval {together.low:,.1f} to {together.high:,.1f}"
        )
    return lines


def _setup_text(around: Allowances, wait: QueueWait | None) -> str:
    start = f"framework and first step {_seconds_text(around.start)}"
    if not around.boot.expected:
        known = "not known and not counted" if wait is None else "shown below"
        return f"{start}; the wait in the queue is {known}"
    if around.own_runs:
        runs = "a pilot" if around.own_runs == 1 else f"the median of {around.own_runs} pilots"
        return f"boot with image {_seconds_text(around.boot)}, {start} ({runs} of your own there, {around.measured_on})"
    return (
        f"boot {_seconds_text(around.boot)}, image {_seconds_text(around.image)}, {start} "
        "(reported by others, or assumed)"
    )


def _seconds_text(interval: Interval) -> str:
    return f"{interval.expected:.0f} s ({interval.low:.0f} to {interval.high:.0f})"


def _time_lines(plan: Plan, ranked: RankedOffer) -> list[str]:
    estimate = ranked.candidate.estimate
    time, steady, around = estimate.plain, estimate.steady, estimate.around
    download = time.setup.total_seconds() - around.before_training.expected
    setup = around.setup(download)
    writing = steady.train - time.train
    if estimate.throughput.basis is Basis.UNMEASURED:
        return [
            f"setup {_exact(time.setup)}: {_setup_text(around, estimate.queue)}",
            f"total {_exact(steady.total)}: its deadline",
        ]
    # The parts are rounded to seconds, and the training takes what is left of the total, so that they add up.
    training = _seconds(steady.total) - sum(_seconds(part) for part in (time.setup, time.after, writing))
    unpacked = "" if plan.job.known_data else " and unpacked"
    whole = estimate.time
    return [
        f"whole run {whole.with_ends}, {_seconds(whole.total):,} s expected",
        f"setup {_exact(time.setup)} ({_text_of(setup.low)} to {_text_of(setup.high)}): "
        f"{_setup_text(around, estimate.queue)}, "
        f"data {download:,.0f} s at {DOWNLOAD_BYTES_PER_SECOND / 1e6:.0f} MB/s (assumed){unpacked}",
        f"training {_exact(timedelta(seconds=training))}: {trained_images(plan.job):,} images over the "
        f"throughput ({format_duration(time.train_low)} to {format_duration(time.train_high)})",
        f"the interval is that of the throughput, joined with a factor of {exp(whole_run_half_width()):.2f} that "
        "published whole runs ask for (docs/accuracy.md), and with those of setup and end",
        *_validation_lines(plan),
        f"end {_exact(time.after)}: evaluation, fetching the model, teardown ({around.end.expected:.0f} s "
        f"allowed, {around.end.low:.0f} to {around.end.high:.0f})",
        *_writing_lines(plan, writing),
        f"total {'without interruptions ' if estimate.spot else ''}{_exact(steady.total)} "
        f"({steady.texts[1]} to {steady.texts[2]})",
    ]


def _text_of(seconds: float) -> str:
    return format_duration(timedelta(seconds=seconds))


def _seconds(duration: timedelta) -> int:
    return round(duration.total_seconds())


def _exact(duration: timedelta) -> str:
    """Return a duration in words and in seconds, so that the lines can be added up."""
    seconds = _seconds(duration)
    return f"{format_duration(duration)} ({seconds:,} s)" if seconds >= 60 else f"{seconds} s"


_A_THIRD = "each a third of a training step"


def _validation_lines(plan: Plan) -> list[str]:
    job = plan.job
    work = Workload(job)
    lines = []
    share = (
        f"each {1 / work.evaluation_speedup:.0%} of a training step"
        if work.graph.trained_parameters < work.graph.parameters
        else _A_THIRD
    )
    if work.validations:
        images = validation_images(job)
        assumed = "" if job.known_data else " (assumed: one for every nine that are trained)"
        lines.append(f"of it {work.validations:,} validations on {images:,} images{assumed}, {share}")
    elif work.validated_images:
        tests = f"of it {work.validated_images:,} images of the hold-out tested between epochs"
        lines.append(f"{tests}, {share}")
    if work.earliest_share < 1:
        lines.append(early_end_text(job) or "")
    return lines


def _writing_lines(plan: Plan, writing: timedelta) -> list[str]:
    if not writing:
        return []
    one = Workload(plan.job).checkpoints.seconds
    return [
        f"checkpoints {_exact(writing)}: one every {format_duration(plan.job.checkpoint_every)}, {one:.1f} s "
        f"each at {CHECKPOINT_BYTES_PER_SECOND / 1e6:.0f} MB/s (assumed)"
    ]


def _spot_lines(plan: Plan, ranked: RankedOffer) -> list[str]:
    estimate, offer = ranked.candidate.estimate, ranked.offer
    if estimate.spot is None:
        return []
    checkpoints = Workload(plan.job).checkpoints
    # The same row shows the same figures each time it is explained.
    seed = f"{offer.provider} {offer.instance_type} {offer.region}"
    # Simulated for the one row that is explained: it takes milliseconds (ADR 8).
    lines = explain_spot(with_quantiles(estimate.spot, estimate.plain, checkpoints, seed), estimate.plain, checkpoints)
    if offer.interruption_bucket is not None:
        dated = f", {offer.price_as_of or offer.price_as_of_text or 'undated'}: {offer.price_source}"
        if "Spot Advisor" not in offer.price_source:  # the price is from elsewhere
            dated = ": AWS Spot Advisor, as last read"
        lines.insert(1, f"bucket {offer.interruption_bucket} of 0-4 in {offer.region}{dated}")
    advice = checkpoint_advice(estimate.plain, estimate.spot.rate, checkpoints)
    return [*lines, advice.text] if advice else lines


def _obtainability_lines(ranked: RankedOffer) -> list[str]:
    estimate = ranked.candidate.estimate
    lines, search = explain_obtainability(estimate.obtainability, estimate.search), estimate.search
    if search is None:
        return lines
    elsewhere = search.elsewhere_micro_usd_per_hour
    where = (
        "there is no other region of it that can be ranked, so that the cost stays"
        if elsewhere is None
        else f"it then takes {format_usd_per_hour(from_micro(elsewhere))}, the median of its other regions"
    )
    return [
        *lines,
        f"{search.requests:.2g} create requests and {_exact(search.waiting)} of waiting are expected (not "
        f"billed); all requests are refused in {search.refused:.0%} of runs: {where}",
        f"total with the waiting {_exact(estimate.time.total)}",
    ]


def _kept_text(job: TrainingJob, images: int, *, planned: bool) -> str:
    """`convolution 2.10, max pool 0.31`: what is too little to be seen is left out."""
    kept = kept_bytes(job.graph(), images, job.precision, framework=job.framework, xla=planned)
    names = {"input": "the images"}
    return ", ".join(
        f"{names.get(kind, kind.replace('_', ' '))} {size / GIB:.2f}"
        for kind, size in kept.items()
        if size >= 0.005 * GIB or size == max(kept.values())
    )


def _memory_lines(plan: Plan, ranked: RankedOffer) -> list[str]:
    job, offer = plan.job, ranked.offer
    if job.script is not None:
        return []
    cores = cores_of(offer.device)
    share = job.micro_batch_size // (offer.device_count * cores)
    # A TPU's step is always planned as a whole by XLA, whatever the framework (ADR 9).
    planned = uses_xla(job) or device_kind(offer.device) == "tpu"
    memory_need = ranked.candidate.estimate.memory
    in_parts = job.accumulate > 1
    need = footprint(
        job.graph(), share, job.precision, job.optimizer.state,
        framework=job.framework, xla=planned, accumulate=in_parts, on_gpu=device_kind(offer.device) == "gpu",
    )  # fmt: skip
    parts = {
        "weights": need.weights, "gradients": need.gradients, "optimizer": need.optimizer,
        "activations": need.activations, "workspace": need.workspace,
    }  # fmt: skip
    if buckets := bucket_bytes(job, offer.device_count):
        parts["buckets of gradients"] = buckets
    itemised = ", ".join(f"{name} {size / GIB:.2f}" for name, size in parts.items())
    lines = [
        f"{sum(parts.values()) / GIB:.1f} GiB of {memory_need.usable_text if memory_need else 'an unknown memory'} "
        f"for {share} images a "
        f"{'core' if cores > 1 else 'device'} "
        f"{f'at once, the batch in {job.accumulate} parts ' if in_parts else ''}(GiB: {itemised})",
        f"kept for the backward pass, by what computes it (GiB): {_kept_text(job, share, planned=planned)}",
    ]
    if memory_need is not None:
        lines.append(
            f"usable of it, after driver and framework: {memory_need.usable_text} ({memory_need.usable.source})"
        )
    if memory_need is not None and memory_need.is_tight:
        lines += [
            f"at least {(need.least + buckets) / GIB:.1f} GiB: with less scratch space cuDNN computes slower",
            TIGHT_TEXT,
        ]
    return lines


def _credit_lines(plan: Plan, ranked: RankedOffer) -> list[str]:
    credit_usd = plan.credit_of(ranked)
    if not credit_usd:
        return []
    line = f"credit {format_usd(credit_usd)}; you pay {format_usd(ranked.cost_usd - credit_usd)}"
    return [f"{line}: the credit covers it up to the high end of its time" if ranked.candidate.is_covered else line]


def _cost_lines(ranked: RankedOffer) -> list[str]:
    estimate, region = ranked.candidate.estimate, ranked.candidate.placement.region
    usage, rates, fixed = estimate.side.usages[0], estimate.side.classes.placement(region), ranked.fixed
    planning = ranked.offer.planning_usd_per_hour or ranked.offer.usd_per_hour
    rate = machines_text(_rate(planning), estimate.machines)
    return [
        _billed_line(estimate),
        f"compute {_dollars(ranked.compute_usd)}: {estimate.billed_seconds[0]:,} s at {rate}",
        *_elsewhere_lines(ranked),
        f"disk {_dollars(fixed.disk)}: {usage.disk_gb} GB at {rates.disk.text} per GB and month"
        f"{_of_which(ranked.offer.device, usage.disk_gb)}",
        f"address {_dollars(fixed.address)}: {format_usd_per_hour(rates.address.usd)}",
        f"transfer {_dollars(fixed.transfer)}: {usage.egress_gb} GB out at {rates.internet.text} per GB",
        f"between regions {_dollars(fixed.between_regions)}: {_crossing(ranked, rates)}",
        f"total {format_usd(ranked.cost_usd)} "
        f"({format_usd(ranked.cost_low_usd)} to {format_usd(ranked.cost_high_usd)}: {_ends_text(ranked)})",
        *_rate_lines(rates),
        f"billing: {estimate.side.classes.rates.billing_source or 'the vendor does not say how time is rounded'}",
    ]


def _rate(usd_per_hour: Decimal) -> str:
    """Return a rate with every digit that is multiplied, at least three after the point."""
    text = f"{usd_per_hour:.6f}"
    return f"${text[:-3]}{text[-3:].rstrip('0')}/h"


def _dollars(usd: Decimal) -> str:
    """Return dollars to a hundredth of a cent, so that the parts add up to the cent of the total."""
    return f"${usd:,.4f}"


def _billed_line(estimate: Estimate) -> str:
    """How the billed seconds come from those of the run."""
    billed, total = estimate.billed_seconds[0], _seconds(estimate.steady.total)
    free = free_seconds(estimate.rental, estimate.around)
    parts = [f"{total:,} s of the run"]
    lasting = _seconds(estimate.spot.billed_durations[0]) if estimate.spot else total
    if lasting != total:
        parts.append(f"{lasting - total:,} s of restarts and repeated work")
    if free:
        parts.append(f"less {free:,} s until the machine is READY, which are not billed")
    if rounding := billed - (lasting - free):
        parts.append(f"{rounding:,} s by rounding")
    return f"billed {billed:,} s: {', '.join(parts)}"


def _elsewhere_lines(ranked: RankedOffer) -> list[str]:
    search = ranked.candidate.estimate.search
    if search is None or search.elsewhere_micro_usd_per_hour is None:
        return []
    rate = _rate(from_micro(search.elsewhere_micro_usd_per_hour))
    return [f"elsewhere {_dollars(ranked.elsewhere_usd)}: {search.refused:.0%} of the difference to {rate}"]


def _crossing(ranked: RankedOffer, rates: RegionRates) -> str:
    """What goes between bucket and machine, and where the bucket is."""
    usage = ranked.candidate.estimate.side.usages[0]
    if not ranked.candidate.estimate.side.classes.bucket:
        return "the bucket's region is unknown; it is assumed to be the machine's"
    if rates.bucket == rates.region:
        return f"bucket and machine are in {rates.region}"
    return (
        f"{usage.fetched_gb} GB from the bucket in {rates.bucket} at {rates.fetched.text} per GB, "
        f"{usage.stored_gb} GB to it at {rates.stored.text}"
    )


def _rate_lines(rates: RegionRates) -> list[str]:
    """The ground of each rate; of those between regions one where both have the same."""
    lines = [
        f"disk rate: {rates.disk.ground}",
        f"address rate: {rates.address.ground}",
        f"transfer rate: {rates.internet.ground}",
        f"rate {'within the region' if rates.bucket == rates.region else 'from the bucket'}: {rates.fetched.ground}",
    ]
    return lines if rates.stored == rates.fetched else [*lines, f"rate to the bucket: {rates.stored.ground}"]


def _of_which(device: str, disk_gb: Decimal) -> str:
    """What of it is made beside the disk that comes with the machine."""
    own = BOOT_DISK_GB[device_kind(device)]
    if not has_fixed_disk(device) or disk_gb <= own:
        return ""
    return f"; {own} GB are the machine's own disk, {disk_gb - own:.0f} GB a data disk"


def _ends_text(ranked: RankedOffer) -> str:
    ends = "the ends of throughput, setup and end"
    ends += ", of what interruptions add to it" if ranked.candidate.estimate.spot else ""
    return ends if ranked.offer.price_spread == AS_LISTED else f"{ends}, and of the price"
