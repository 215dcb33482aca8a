"""Which single changes of a job, or of the offer that is taken, `plan estimate --levers` tries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from trainplan.pricing.offers import Market
from trainplan.workloads.job_changes import changed_job
from trainplan.workloads.job_mistakes import JobFileError
from trainplan.workloads.key_changes import Change
from trainplan.workloads.terms import Precision, Preset

if TYPE_CHECKING:
    from trainplan.planner.forecast.plan import Candidate
    from trainplan.workloads.job import TrainingJob

_BY_DEPTH = (Preset.VGG11, Preset.VGG13, Preset.VGG16, Preset.VGG19)
_POOLED = 32
"""A VGG halves its image five times: sides are multiples of this."""


class JobLever(NamedTuple):
    """A job with one key changed, and that key as it is and as it would be, in words. `is_same_work`: the same model
    comes out, but for rounding."""

    name: str
    before: str
    after: str
    is_same_work: bool
    job: TrainingJob


class OfferLever(NamedTuple):
    """Another offer for the same job, by its rank, and what is taken otherwise."""

    name: str
    before: str
    after: str
    rank: int
    candidate: Candidate


def job_levers(job: TrainingJob) -> list[JobLever]:
    """The changes of a job that it can take: parts of the batch, precision, XLA; epochs, image size, net."""
    return [] if job.script is not None else [lever for lever in _tried(job)]


def _tried(job: TrainingJob) -> Iterator[JobLever]:
    parts = [job.accumulate // 2] if job.accumulate > 1 else []
    for many in (*parts, 2 * job.accumulate):
        yield from _with(job, ("accumulate",), many, "parts of a batch", str(job.accumulate), is_same_work=True)
    for precision in Precision:
        yield from _with(job, ("precision",), str(precision), "precision", str(job.precision), is_same_work=True)
    yield from _with(job, ("xla",), not job.xla, "XLA", _ON[job.xla], is_same_work=True)
    yield from _with(job, ("epochs",), job.epochs // 2, "epochs", str(job.epochs))
    size = round(job.image_size * 0.75 / _POOLED) * _POOLED
    yield from _with(job, ("model", "image_size"), size, "image size", f"{job.image_size} px")
    if job.model.preset in _BY_DEPTH:
        at = _BY_DEPTH.index(job.model.preset)
        for other in (*_BY_DEPTH[max(0, at - 1) : at], *_BY_DEPTH[at + 1 : at + 2]):
            yield from _with(job, ("model", "preset"), str(other), "net", str(job.model.preset))


_ON = {True: "on", False: "off"}


def _with(
    job: TrainingJob, where: tuple[str, ...], value: object, name: str, before: str, *, is_same_work: bool = False
) -> Iterator[JobLever]:
    """The job with the key changed; nothing where that changes nothing or is no job."""
    after = _ON[value] if isinstance(value, bool) else f"{value} px" if before.endswith(" px") else str(value)
    if after in (before, "0", "0 px"):
        return
    try:
        yield JobLever(name, before, after, is_same_work, changed_job(job, [Change(where, value, "")], job.name))
    except JobFileError:
        return


def offer_levers(ranking: Sequence[Candidate]) -> list[OfferLever]:
    """Other offers than the first: a host that loads images faster, the other market, another region, other numbers of
    the same device. Each is the best-ranked of its kind."""
    if not ranking:
        return []
    first = ranking[0].estimate.rental
    placement, counts = ranking[0].placement.region, _counts(ranking)
    levers = [
        _first("image loading", f"{first.vcpus} vCPU", ranking, _has_larger_host(ranking[0])),
        _first("market", _market(ranking[0]), ranking, lambda one: one.estimate.rental.market is not first.market),
        _first(
            "region", placement, ranking,
            lambda one: _machine(one) == _machine(ranking[0]) and one.placement.region != placement,
        ),
        *(_first("devices", first.devices_text, ranking, _has_devices(ranking[0], count)) for count in counts),
    ]  # fmt: skip
    return [lever for lever in levers if lever is not None]


def _first(
    name: str, before: str, ranking: Sequence[Candidate], is_wanted: Callable[[Candidate], bool]
) -> OfferLever | None:
    words: dict[str, Callable[[Candidate], str]] = {
        "image loading": _host,
        "market": _market,
        "region": lambda one: one.placement.region,
        "devices": lambda one: one.estimate.rental.devices_text,
    }
    for rank, candidate in enumerate(ranking, start=1):
        if is_wanted(candidate):
            return OfferLever(name, before, words[name](candidate), rank, candidate)
    return None


def _host(candidate: Candidate) -> str:
    return f"{candidate.estimate.rental.vcpus} vCPU"


def _market(candidate: Candidate) -> str:
    return "spot" if candidate.estimate.rental.market is Market.SPOT else "on demand"


def _machine(candidate: Candidate) -> tuple[str, str, str]:
    rental = candidate.estimate.rental
    return rental.provider, rental.instance_type, str(rental.market)


def _has_larger_host(before: Candidate) -> Callable[[Candidate], bool]:
    """Whether an offer has the same accelerators of the same provider and market with more vCPUs."""
    first = before.estimate.rental

    def is_larger(candidate: Candidate) -> bool:
        other = candidate.estimate.rental
        same = (other.provider, other.device, other.device_count, other.device_fraction, other.market) == (
            first.provider, first.device, first.device_count, first.device_fraction, first.market,
        )  # fmt: skip
        return same and first.device != "cpu" and (other.vcpus or 0) > (first.vcpus or 0) > 0

    return is_larger


def _has_devices(before: Candidate, count: int) -> Callable[[Candidate], bool]:
    device = before.estimate.rental.device
    return lambda one: one.estimate.rental.device == device and one.estimate.rental.device_count == count


def _counts(ranking: Sequence[Candidate]) -> list[int]:
    """The next smaller and the next larger numbers of the first offer's device that are offered."""
    first = ranking[0].estimate.rental
    if first.device == "cpu":
        return []
    offered = {one.estimate.rental.device_count for one in ranking if one.estimate.rental.device == first.device}
    smaller = sorted(count for count in offered if count < first.device_count)
    larger = sorted(count for count in offered if count > first.device_count)
    return [*smaller[-1:], *larger[: 2 - len(smaller[-1:])]]
