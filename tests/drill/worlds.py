"""The doubles as a drill meets them, and a drill on one, in the double's time."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.doubles.clock import NOON
from tests.doubles.spoiled_trainers import SPOILED
from tests.faults.harness import Cloud, Lived
from tests.faults.points import Points
from trainplan.extensions.drill.drill import LeftError, drill
from trainplan.extensions.drill.limits import Limits
from trainplan.extensions.drill.result import DrillResult, StepResult
from trainplan.extensions.drill.sheet import Sheet
from trainplan.extensions.drill.tools import Tools
from trainplan.planner.home.client import own_client
from trainplan.planner.runs.execution.nobody import Nobody
from trainplan.planner.runs.journal.journal import Journal
from trainplan.planner.runs.runner import Runner
from trainplan.planner.settings import Settings
from trainplan.providers.registry import PROVEN_CLOUDS, SIMULATED

if TYPE_CHECKING:
    from trainplan.providers.base import Provider

NAMES = (SIMULATED, *PROVEN_CLOUDS)
LIMITS = Limits(max_usd=Decimal(2), poll_seconds=20.0)


def a_cloud(name: str, trainer: str = "", **changes: Any) -> Cloud:
    """A double in a world of its own; `changes` are of its scenario, `trainer` one of `SPOILED`, or "hung"."""
    module: Any = import_module(f"tests.faults.{name}")
    match name:
        case "sim":
            made: Any = module.SimCloud("plain", **changes)
            if trainer:
                made.trains_with(_trainer(trainer))
            return made
        case "aws":
            return module.AwsCloud("plain", **changes, **({"trainer": trainer} if trainer else {}))
        case "gcp":
            from tests.doubles.google.scenario import Scenario
            from tests.drill.gcp import ClosedGcp

            made = ClosedGcp("plain")
            given = {**module.QUICK, "began": NOON, **changes, **({"trainer": trainer} if trainer else {})}
            made.google.reset(Scenario.model_validate(given))
            return made
        case _:
            made = module.AzureCloud("plain")
            made.world = module.World(module.Rules(page_size=1, **changes), _trainer(trainer) if trainer else None)
            made.arm = module.Arm(made.world, module.BASE)
            return made


def _trainer(name: str) -> Any:
    from tests.faults.sim import Hung

    return Hung() if name == "hung" else SPOILED[name]()


@dataclass
class Table:
    """Somebody's computer, at which drills of one double are done. `told` are the steps as they came in."""

    home: Path
    cloud: Cloud
    limits: Limits = LIMITS
    results: list[StepResult] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)

    @property
    def settings(self) -> Settings:
        return Settings(home=self.home)

    @property
    def clients(self) -> frozenset[str]:
        return frozenset({own_client(self.settings).id})

    def provider(self) -> Provider:
        return self.cloud.provider(self.cloud.answer, Points())

    def tools(self, journal: Journal, provider: Provider | None = None) -> Tools:
        made = provider or self.provider()
        clock: Any = made
        return Tools(
            runner=Runner(lambda _: made, journal, self.settings, clock, lambda _: None, Nobody()),
            journal=journal,
            provider=made,
            clock=clock,
            settings=self.settings,
            client=own_client(self.settings),
            limits=self.limits,
            targets=self.cloud.targets("on_demand"),
            sheet=Sheet(made.name, clock, self.results.append),
            say=self.messages.append,
            began=clock.now(),
        )

    def drill(self, provider: Provider | None = None, **changes: Any) -> DrillResult:
        """One drill; also where it could not make sure that nothing is left."""
        with Journal.open(self.settings.journal) as journal:
            tools = replace(self.tools(journal, provider), **changes)
            try:
                return drill(tools)
            except LeftError as error:
                self.messages.append(error.message)
                return error.result
            finally:
                self.cloud.let_go()

    def remaining(self) -> list[str]:
        """What of ours is still there, by the double's own ledger."""
        return [row.id for row in self.rows() if row.remaining]

    def rows(self) -> list[Lived]:
        """Everything of ours that there ever was, by the double's own ledger."""
        found = [row for row in self.cloud.ledger() if row.ours]
        self.cloud.let_go()
        return found
