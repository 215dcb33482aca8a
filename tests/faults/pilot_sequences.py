"""Random sequences in which pilots are run under one cap, on the simulated cloud."""

from __future__ import annotations

from decimal import Decimal

from tests.builders import a_job
from tests.faults.holding import Limits
from tests.faults.pilots import as_comparing, as_pilot
from tests.faults.sequences import SHORT, Sequence
from trainplan.planner.runs.pilot import spent_usd
from trainplan.pricing.grades import Market

RUNS_SHARE = 0.35
"""Of the launches, those that are the run after the pilots."""
LEAVING_SHARE = 0.6
"""Of these, those that find their first machine to be slower than estimated."""


class PilotSequence(Sequence):
    """A sequence whose launches are pilots under one cap, as `plan pilot` runs them: one after another, each within
    what the journal says is left of it; and now and then the run that follows, which measures its machine and may go
    on elsewhere, within what was agreed to for it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.cap_usd = Decimal(self.chance.choice((18, 25, 40, 100))) / 100
        self.agreed_usd: dict[str, Decimal] = {}
        """The most that each run may cost that follows pilots."""

    def play(self) -> None:
        super().play()
        spent = sum(row.usd for row in self.cloud.ledger() if row.ours and row.run not in self.agreed_usd)
        assert spent <= float(self.cap_usd), f"${spent:.4f} were spent of a cap of ${self.cap_usd}"
        for name, most in self.agreed_usd.items():
            spent = sum(row.usd for row in self.cloud.ledger() if row.run == name)
            assert spent <= float(most), f"${spent:.4f} were spent of the ${most:.4f} agreed to for {name}"

    def _launch(self) -> None:
        if self.chance.random() < RUNS_SHARE:
            self._launch_run()
        else:
            self._launch_pilot()

    def _launch_run(self) -> None:
        name = f"261121-{len(self.launched) + 1:08}"
        limits: dict[str, str] = self.chance.choice(({"deadline": "15m"}, {"deadline": "1h", "budget_usd": "0.15"}))
        job = a_job(epochs=4, checkpoint_every="10s", constraints=limits)
        targets = self.cloud.targets(self.chance.choice(tuple(Market)))
        draft = self.computer.draft(name, job, targets)
        run, agreed = as_comparing(draft, leaves=self.chance.random() < LEAVING_SHARE)
        self.agreed_usd[name] = agreed.most_usd
        self.launched[name] = Limits(
            lasting=agreed.lasting, budget_usd=run.budget_usd, targets=run.targets, compares=True
        )
        self.computer.launch(self._command(), run, job)

    def _launch_pilot(self) -> None:
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
        runs = [run for run in self.computer.recorded() if run.run_id not in self.agreed_usd]
        if any(run.live for run in runs):
            return None
        return self.cap_usd - sum(map(spent_usd, runs), Decimal(0))
