"""Random sequences in which pilots are run under one cap, on the simulated cloud."""

from __future__ import annotations

from decimal import Decimal

from planner.runs.pilot import spent_usd
from pricing.grades import Market
from tests.builders import a_job
from tests.faults.holding import Limits
from tests.faults.pilots import as_pilot
from tests.faults.sequences import SHORT, Sequence


class PilotSequence(Sequence):
    """A sequence whose launches are pilots under one cap, as `plan pilot` runs them: one after another, each within
    what the journal says is left of it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.cap_usd = Decimal(self.chance.choice((18, 25, 40, 100))) / 100

    def play(self) -> None:
        super().play()
        spent = sum(row.usd for row in self.cloud.ledger() if row.ours)
        assert spent <= float(self.cap_usd), f"${spent:.4f} were spent of a cap of ${self.cap_usd}"

    def _launch(self) -> None:
        left_usd = self._left_usd()
        name = f"261121-{len(self.launched) + 1:08}"
        market = self.chance.choice(tuple(Market))
        job = a_job(epochs=2, checkpoint_every="10s")
        targets = self.cloud.targets(market)
        first = self.chance.choice(targets).offer
        draft = self.computer.draft(name, job, tuple(target for target in targets if target.offer == first))
        run = None if left_usd is None else as_pilot(draft, left_usd, self.chance.choice((60.0, 300.0, 900.0)))
        if run is None:
            self._pass_time(SHORT)
            return
        lasting = run.deadline - run.created_at
        self.launched[name] = Limits(lasting=lasting, budget_usd=run.budget_usd, targets=run.targets)
        self.computer.launch(self._command(), run, job)

    def _left_usd(self) -> Decimal | None:
        """None while an earlier pilot is not done: nobody knows what that will have cost."""
        runs = self.computer.recorded()
        if any(run.live for run in runs):
            return None
        return self.cap_usd - sum(map(spent_usd, runs), Decimal(0))
