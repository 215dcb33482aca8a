"""The person's computer as a process of its own: `launch DESK_JSON`, `detach DESK_JSON` or `attach DESK_JSON RUN`.

Tells one JSON object a line: what it is told, and at its end the receipt. It can be killed at any moment.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.e2e.yard.provider import OfficeProvider, Terms, now
from trainplan.planner.api import build
from trainplan.planner.errors import PlanError
from trainplan.planner.home.client import own_client
from trainplan.planner.runs import runner as planner_runner
from trainplan.planner.runs.directory.run_keys import RunKeys
from trainplan.planner.runs.execution.executor import Detached
from trainplan.planner.runs.execution.nobody import Nobody
from trainplan.planner.runs.runner import request_for
from trainplan.planner.runs.targets import Target
from trainplan.planner.settings import Settings
from trainplan.pricing.grades import PriceGrade
from trainplan.pricing.offers import Market, Offer
from trainplan.providers import registry
from trainplan.workloads.job import job_from_json

if TYPE_CHECKING:
    from trainplan.providers.base import Provider, ProviderSettings

_ZONES = ("a", "b", "c", "d", "e", "f")


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """`job` is JSON; `deadline_seconds` from the launch to the machine's deadline; `device` T4 or cpu."""

    home: str
    output: str
    job: str
    terms: Terms
    device: str = "T4"
    deadline_seconds: float = 900.0
    memory_gib: float = 6.0
    zones: tuple[str, ...] = field(default=_ZONES)

    def write(self, path: Path) -> Path:
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")
        return path


def read(path: Path) -> Desk:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return Desk(**{**found, "terms": Terms(**found["terms"]), "zones": tuple(found["zones"])})


def make(settings: ProviderSettings) -> Provider:
    """What the registry calls."""
    return OfficeProvider(read(Path(os.environ["YARD_DESK"])).terms, settings)


def main(arguments: list[str]) -> int:
    verb, path, *rest = arguments
    os.environ["YARD_DESK"] = path
    desk = read(Path(path))
    registry.FACTORIES[desk.terms.cloud] = f"{make.__module__}:make"
    planner_runner.POLL_SECONDS = 1.0  # an office does not count calls
    settings = Settings(home=Path(desk.home))
    with build.journal(settings) as journal:
        runner = build.runner(journal, settings, _tell, desk.terms.cloud, Nobody())
        try:
            if verb == "attach":
                run = journal.run(rest[0])
                request = runner.request_maker(run, client=own_client(settings).id)
                run, receipt = runner.follow(run, request)
            else:
                job = job_from_json(desk.job)
                draft = runner.draft(job, _targets(desk), timedelta(minutes=30), Path(desk.output))
                run = replace(draft, deadline=now() + timedelta(seconds=desk.deadline_seconds))
                runner.record(run, job, {})
                _say(kind="run", run_id=run.run_id)
                key = RunKeys(settings.home).key
                request = request_for(job, build.clock(), client=own_client(settings).id, key=key)
                run, receipt = runner.follow(run, request, until_launched=verb == "detach")
        except Detached as left:
            _say(kind="detached", run_id=left.run.run_id)
            return 0
        except PlanError as error:
            _say(kind="error", message=error.message)
            return 1
    _say(kind="receipt", receipt=receipt.to_json())
    return 0


def _targets(desk: Desk) -> list[Target]:
    offer = Offer(
        provider=desk.terms.cloud,
        region=desk.terms.options.get("region", "here"),
        instance_type="rented.one",
        device=desk.device,
        device_count=1 if desk.device != "cpu" else 0,
        vcpus=2,
        memory_gib=desk.memory_gib,
        market=Market.ON_DEMAND,
        usd_per_hour=Decimal("0.5"),
        planning_usd_per_hour=Decimal("0.5"),
        price_grade=PriceGrade.LISTED,
        price_as_of=None,
        price_source="the office",
    )
    return [Target(offer=offer, zone=zone) for zone in desk.zones]


def _tell(event: object) -> None:
    fields = {name: str(value) for name, value in asdict(event).items()}  # type: ignore[call-overload]
    _say(**{"text": str(event), **fields, "kind": type(event).__name__})


def _say(**fields: object) -> None:
    sys.stdout.write(json.dumps(fields, default=str) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
