"""Where each number of a row comes from, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.estimate import (
    BOOT_SECONDS,
    DOWNLOAD_BYTES_PER_SECOND,
    END_SECONDS,
    PULL_SECONDS,
    START_SECONDS,
    Workload,
    device_kind,
    trained_images,
    uses_xla,
)
from planner.price_notes import explain_price, is_trusted
from planner.render import device_text, unproven_text
from planner.spot import CHECKPOINT_BYTES_PER_SECOND, checkpoint_advice, explain_spot, with_quantiles
from pricing.devices import cores_of
from pricing.money import format_usd, format_usd_per_hour
from pricing.offers import LifecycleState
from workloads.durations import format_duration
from workloads.memory import GIB, footprint

if TYPE_CHECKING:
    from datetime import timedelta

    from planner.plan import Plan, RankedOffer
    from pricing.offers import Offer


def explain(plan: Plan, ranked: RankedOffer) -> str:
    """The row's numbers, one paragraph each: offer, price, throughput, time, memory, cost."""
    offer = ranked.offer
    what = device_text(offer.device, offer.device_count, float(offer.device_fraction), offer.vcpus)
    head = f"row {ranked.rank}: {offer.provider} {offer.region} {offer.instance_type}, {what}, {offer.market}"
    blocks = [
        ("offer", _offer_lines(offer)),
        ("price", _price_lines(offer)),
        ("software", _software_lines(plan, ranked)),
        ("throughput", _throughput_lines(ranked)),
        ("time", _time_lines(plan, ranked)),
        ("interruptions", _spot_lines(plan, ranked)),
        ("memory", _memory_lines(plan, ranked)),
        ("cost", _cost_lines(ranked)),
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
    planning = offer.planning_usd_per_hour
    if planning is not None and not is_trusted(offer) and not offer.own_rate:
        lines.append(
            f"planned at {format_usd_per_hour(planning)}: a spot price that is stale, derived or estimated counts as "
            f"the on-demand price times the 75th percentile of the spot shares observed within 90 days for this "
            f"provider and family, or as on demand where there are none"
        )
    return [*lines, *explain_price(offer)]


def _software_lines(plan: Plan, ranked: RankedOffer) -> list[str]:
    chosen = ranked.candidate.estimate.software
    if chosen is None:
        return []
    unproven = [unproven_text(ranked)] if ranked.candidate.estimate.unproven else []
    if chosen.runtime is None:
        text = f"Keras on {chosen.framework}, as the job says: in no known combination for this hardware, not tried"
        return [text, *unproven]
    why = "" if chosen.framework == plan.job.framework else ", since the job names no framework"
    driver = f", driver branch {chosen.runtime.driver} at the newest" if chosen.runtime.driver else ""
    text = f"Keras on {chosen.framework} ({chosen.runtime.framework_version}){why}{driver}: {chosen.runtime.source}"
    return [text, *unproven]


def _throughput_lines(ranked: RankedOffer) -> list[str]:
    estimate = ranked.candidate.estimate
    speed, feed = estimate.computed, estimate.feed
    lines = [
        f"{speed.images_per_second:,.1f} images/s over all devices, {speed.basis}; "
        f"four times out of five between {speed.low:,.1f} and {speed.high:,.1f}",
        f"from {', '.join(speed.evidence)}",
    ]
    lines += [speed.note] if speed.note else []
    if feed is None:
        return [*lines, "what its host can feed is not known"]
    lines.append(f"its host can feed {feed.images_per_second:,.0f} images/s: {feed.evidence}")
    if estimate.throughput.images_per_second < speed.images_per_second:
        bound = "input-bound" if estimate.input_bound else "slowed by its input"
        lines.append(f"{bound}: {estimate.throughput.images_per_second:,.1f} images/s are left")
    return lines


def _time_lines(plan: Plan, ranked: RankedOffer) -> list[str]:
    estimate = ranked.candidate.estimate
    kind = device_kind(estimate.rental.device)
    time, steady = estimate.plain, estimate.steady
    download = time.setup.total_seconds() - BOOT_SECONDS[kind] - PULL_SECONDS[kind] - START_SECONDS
    unpacked = "" if plan.job.known_data else " and unpacked"
    return [
        f"setup {format_duration(time.setup)}: boot {BOOT_SECONDS[kind]} s, image {PULL_SECONDS[kind]} s, "
        f"framework and first step {START_SECONDS} s (reported by others, not measured here), "
        f"data {download:,.0f} s at {DOWNLOAD_BYTES_PER_SECOND / 1e6:.0f} MB/s (assumed){unpacked}",
        f"training {format_duration(time.train)}: {trained_images(plan.job):,} images over the throughput "
        f"({format_duration(time.train_low)} to {format_duration(time.train_high)})",
        f"end {format_duration(time.after)}: evaluation, fetching the model, teardown ({END_SECONDS} s allowed)",
        *_writing_lines(plan, steady.train - time.train),
        f"total {'if nothing interrupts ' if estimate.spot else ''}{format_duration(steady.total)} "
        f"({format_duration(steady.low)} to {format_duration(steady.high)})",
    ]


def _writing_lines(plan: Plan, writing: timedelta) -> list[str]:
    if not writing:
        return []
    one = Workload(plan.job).checkpoints.seconds
    return [
        f"checkpoints {format_duration(writing)}: one every {format_duration(plan.job.checkpoint_every)}, {one:.1f} s "
        f"each at {CHECKPOINT_BYTES_PER_SECOND / 1e6:.0f} MB/s (assumed)"
    ]


def _spot_lines(plan: Plan, ranked: RankedOffer) -> list[str]:
    estimate, offer = ranked.candidate.estimate, ranked.offer
    if estimate.spot is None:
        return []
    checkpoints = Workload(plan.job).checkpoints
    seed = f"{offer.provider} {offer.instance_type} {offer.region}"
    lines = explain_spot(with_quantiles(estimate.spot, estimate.plain, checkpoints, seed), estimate.plain, checkpoints)
    if offer.interruption_bucket is not None:
        dated = f", {offer.price_as_of or offer.price_as_of_text or 'undated'}: {offer.price_source}"
        if "Spot Advisor" not in offer.price_source:  # the price is from elsewhere
            dated = ": AWS Spot Advisor, as last read"
        lines.insert(1, f"bucket {offer.interruption_bucket} of 0-4 in {offer.region}{dated}")
    advice = checkpoint_advice(estimate.plain, estimate.spot.rate, checkpoints)
    return [*lines, advice.text] if advice else lines


def _memory_lines(plan: Plan, ranked: RankedOffer) -> list[str]:
    job, offer = plan.job, ranked.offer
    cores = cores_of(offer.device)
    share = job.micro_batch_size // (offer.device_count * cores)
    planned = uses_xla(job) or device_kind(offer.device) == "tpu"
    in_parts = job.accumulate > 1
    need = footprint(job.net(), share, job.precision, job.optimizer.name, xla=planned, accumulate=in_parts)
    has = offer.memory_gib if offer.device == "cpu" else offer.device_memory_gib
    has, each = (has / cores if has is not None else None, "core") if cores > 1 else (has, "device")
    parts = {
        "weights": need.weights, "gradients": need.gradients, "optimizer": need.optimizer,
        "activations": need.activations, "workspace": need.workspace, "framework": need.framework,
    }  # fmt: skip
    itemised = ", ".join(f"{name} {size / GIB:.2f}" for name, size in parts.items())
    return [
        f"{need.total / GIB:.1f} GiB of {has if has is not None else 'unknown'} GiB for {share} images a {each} "
        f"{f'at once, the batch in {job.accumulate} parts ' if in_parts else ''}(GiB: {itemised})"
    ]


def _cost_lines(ranked: RankedOffer) -> list[str]:
    estimate = ranked.candidate.estimate
    usage, rates, fixed = estimate.usage, estimate.rates, estimate.fixed
    seconds = estimate.billed_seconds[0]
    planning = ranked.offer.planning_usd_per_hour or ranked.offer.usd_per_hour
    lines = [
        f"compute {format_usd(ranked.compute_usd)}: {seconds:,} s at {format_usd_per_hour(planning)}",
        f"disk {format_usd(fixed.disk)}: {usage.disk_gb} GB at ${rates.disk_usd_per_gb_month} per GB and month",
        f"address {format_usd(fixed.address)}: {format_usd_per_hour(rates.address_usd_per_hour)}",
        f"transfer {format_usd(fixed.transfer)}: {usage.egress_gb} GB out at ${rates.egress_usd_per_gb} per GB",
        f"total {format_usd(ranked.cost_usd)} "
        f"({format_usd(ranked.cost_low_usd)} to {format_usd(ranked.cost_high_usd)}: {_ends_text(ranked)})",
    ]
    return lines + [f"{rate} rate: {text}" for rate, text in rates.sources]


def _ends_text(ranked: RankedOffer) -> str:
    ends = "the ends of the throughput"
    return f"{ends}, and of what interruptions add to it" if ranked.candidate.estimate.spot else ends
