"""What a program reads: the stable JSON of `estimate --json` (docs/estimate.md)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

from trainplan.planner import __version__
from trainplan.planner.forecast.plan import row_numbers
from trainplan.planner.report.cannot_see import cannot_see
from trainplan.planner.report.estimate_columns import (
    LAUNCHABLE,
    OF_MACHINE,
    OF_PLACEMENT,
    SPEED,
    Priced,
    speed_json,
)
from trainplan.planner.report.machines import machines_advice, machines_json
from trainplan.planner.report.sweep_lines import sweep_json
from trainplan.workloads.job import shown_job

if TYPE_CHECKING:
    from trainplan.planner.forecast.plan import Candidate, Estimate, MachineEstimate, Plan
    from trainplan.planner.planning.check import Judged
    from trainplan.planner.throughput.table import Cited
    from trainplan.workloads.job_changes import Difference


class Beside(NamedTuple):
    """What stands beside a plan in its JSON.

    With `checked` each candidate tells whether the account could launch it: null where nobody was asked. `limit` is
    how many candidates are written (None: all); `candidate_count` counts all of them. `changed` are the keys in which
    options changed the job file, `command` is what was typed, `cited` tells of measurements by their ids, and `levers`
    says what a change of the job or of the offer would save (None: nobody asked).
    """

    checked: Mapping[str, Judged] | None = None
    limit: int | None = None
    changed: Sequence[Difference] = ()
    command: str = "plan estimate"
    cited: Callable[[Iterable[str]], Sequence[Cited]] = lambda _: ()
    levers: Sequence[Mapping[str, Any]] | None = None


def estimate_json(plan: Plan, beside: Beside = Beside()) -> str:  # noqa: B008  it is frozen
    """The plan as JSON: numbers for money and rates, null for unknown. Needs the plan's prices."""
    return json.dumps(estimate_document(plan, beside))


def estimate_document(plan: Plan, beside: Beside = Beside()) -> dict[str, Any]:  # noqa: B008  it is frozen
    """The same before it is written: what a page of it shows can differ from it in nothing."""
    shown = plan.ranking[: beside.limit]
    evidence = dict.fromkeys(one for candidate in shown for one in candidate.estimate.computed.evidence)
    return {
        "job": shown_job(plan.job),
        "changed": changed_json(beside.changed),
        "made_at": plan.made_at.isoformat(),
        "made_by": {"command": beside.command, "version": __version__},
        "currency": "USD",
        "prices": "list prices before tax and discounts; a row with own_rate is planned at the person's own",
        "own_prices": list(plan.own_notes),
        "tax_percent": float(plan.tax_percent),
        "advice": [*plan.advice, *machines_advice(plan)],
        "cannot_see": cannot_see(plan, is_checked=beside.checked is not None),
        "this_machine": machine_json(plan.this_machine),
        "named_devices": [device_json(device) for device in plan.named_devices],
        "candidate_count": len(plan.ranking),
        "candidates": list(candidate_rows(plan, numbered(shown), beside.checked)),
        "device_groups": dict(plan.device_groups),
        "measurements": [one._asdict() for one in beside.cited(evidence)],
        "several_machines": machines_json(plan),
        "levers": None if beside.levers is None else [dict(lever) for lever in beside.levers],
        **({} if plan.job.sweep is None else {"sweep": sweep_json(plan)}),
        "rejections": [{**key._asdict(), "count": count} for key, count in sorted(plan.rejections.items())],
    }


def changed_json(changed: Sequence[Difference]) -> list[dict[str, Any]]:
    """The keys of a job file in which two jobs differ, with what each says; null: it does not say."""
    return [{"key": row.key, "from": row.before, "to": row.after} for row in changed]


class Numbered(NamedTuple):
    """A candidate with its position in the ranking, and its number for people."""

    rank: int
    row: str
    candidate: Candidate


def numbered(ranking: Sequence[Candidate]) -> Iterator[Numbered]:
    """The candidates from the first one on."""
    return map(Numbered, count(1), row_numbers(ranking), ranking)


def candidate_rows(
    plan: Plan, ranked: Iterable[Numbered], checked: Mapping[str, Judged] | None = None
) -> Iterator[dict[str, Any]]:
    """Candidates of a plan with their numbers, as objects with the keys of docs/estimate.md; `checked` as above.

    What the placements of a machine type share is made once: there are thousands of rows.
    """
    machines: dict[int, dict[str, Any]] = {}
    beside: dict[tuple[int, int], dict[str, float]] = {}
    today = plan.made_at.date()
    for rank, row_number, candidate in ranked:
        estimate, placement, _, _ = candidate
        # By its id: the plan holds every estimate, so that no other object can come by it.
        machine = machines.get(id(estimate)) or machines.setdefault(
            id(estimate), {key: value(estimate) for key, value in OF_MACHINE.items()}
        )
        at = id(estimate), estimate.side.classes[placement.region]
        fixed = beside.get(at) or beside.setdefault(at, _fixed(estimate, placement.region))
        credit_usd = plan.credit_usd.get(estimate.rental.provider, NO_CREDIT)
        usd, stamp = plan.prices[placement.row_id]
        priced = Priced(row_number, rank, candidate, usd, stamp, fixed, today, credit_usd)
        row = {**machine, **{key: value(priced) for key, value in OF_PLACEMENT.items()}}
        reason = estimate.estimate_only_text
        if checked is not None or reason:
            row[LAUNCHABLE] = _launchable(reason, (checked or {}).get(row_number))
        yield row


NO_CREDIT = Decimal(0)


def _launchable(estimate_only: str, judged: Judged | None) -> dict[str, Any] | None:
    if estimate_only:
        return {"state": "refused", "reason": estimate_only}
    return None if judged is None else {"state": judged.state, "reason": judged.why or None}


def _fixed(estimate: Estimate, region: str) -> dict[str, float]:
    """The parts of the cost beside compute."""
    fixed = estimate.fixed(region)
    return {name: float(getattr(fixed, name)) for name in ("disk", "address", "transfer", "between_regions")}


def device_json(device: MachineEstimate) -> dict[str, Any]:
    """The figures of a named device that no candidate has, without a price: it is a card of the person's own."""
    without = ("usd_per_hour", "cost_usd", "load")
    return {key: value for key, value in (machine_json(device) or {}).items() if key not in without}


def machine_json(machine: MachineEstimate | None) -> dict[str, Any] | None:
    """This machine beside the ranking; null where no estimate can be made."""
    if machine is None:
        return None
    time = machine.time
    return {
        "name": machine.name,
        "device": machine.device,
        "device_count": machine.device_count,
        "usd_per_hour": float(machine.usd_per_hour),
        **(speed_json(machine.throughput) if machine.throughput else _NO_SPEED),
        "setup_seconds": time.setup.total_seconds() if time else None,
        "train_seconds": time.train.total_seconds() if time else None,
        "end_seconds": time.after.total_seconds() if time else None,
        "total_seconds": time.total.total_seconds() if time else None,
        "total_low_seconds": time.low.total_seconds() if time else None,
        "total_high_seconds": time.high.total_seconds() if time else None,
        "cost_usd": float(machine.cost_usd) if machine.cost_usd is not None else None,
        "fits": machine.fits,
        "reason": machine.reason or None,
        "load": machine.load or None,
    }


_NO_SPEED = dict.fromkeys(SPEED)
