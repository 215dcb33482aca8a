"""Writes the receipt of a run that is done: once, into the journal, from what the run directory and the stores say."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple

from trainplan.planner.datasets.storage_costs import Stays, rates_of, stays
from trainplan.planner.errors import PlanError, StateError, ThisMachineError
from trainplan.planner.planning.own_measurements import OwnMeasurement, rented_name
from trainplan.planner.planning.own_rows import add_row
from trainplan.planner.planning.this_machine import shape_of, trained_job
from trainplan.planner.runs.directory.progress import Story, story_of
from trainplan.planner.runs.directory.proofs import Vouched
from trainplan.planner.runs.events import Event, Message
from trainplan.planner.runs.execution.end import unchecked
from trainplan.planner.runs.journal.reader import recorded_job
from trainplan.planner.runs.money.own_use import credit_paid_usd
from trainplan.planner.runs.receipt.legs import with_passed_over
from trainplan.planner.runs.receipt.receipt import (
    Ending,
    Receipt,
    corrected,
    measurement_of,
    of_tries,
    receipt_from,
    write_receipt,
)
from trainplan.planner.runs.run import Attempt, Outcome, Phase, Run
from trainplan.planner.runs.sweep_table import read_table
from trainplan.pricing.money import format_usd
from trainplan.providers.errors import ProviderError
from trainplan.providers.registry import CLUSTER, is_here
from trainplan.workloads.sweep_text import winner_text

if TYPE_CHECKING:
    from trainplan.planner.clock import Clock
    from trainplan.planner.runs.journal.journal import Journal
    from trainplan.planner.runs.targets import Target
    from trainplan.planner.settings import Settings
    from trainplan.providers.agent.signatures import Vouching
    from trainplan.providers.base import Provider, RunId


class Receipts:
    """Receipts of one command's runs; what a finished run has measured on this machine is kept with them."""

    def __init__(
        self,
        provider: Callable[[str], Provider],
        journal: Journal,
        settings: Settings,
        clock: Clock,
        listen: Callable[[Event], None],
        vouching: Callable[[Run], Vouching | None] = unchecked,
    ) -> None:
        """`vouching` tells what a run's results are checked with (trainplan.planner.runs.directory.run_keys)."""
        self._vouching = vouching
        self._provider_of = provider
        self._journal = journal
        self._settings = settings
        self._clock = clock
        self._listen = listen

    @contextmanager
    def of_failure(self, run_id: RunId) -> Iterator[None]:
        """A run that is ended by an error has a receipt too."""
        try:
            yield
        except PlanError:
            with suppress(PlanError):  # whatever becomes of its receipt, the person is told why the run ended
                run = self._journal.run(run_id)
                if run.phase is Phase.DONE:
                    self.write(run)
            raise

    def write(self, run: Run) -> Receipt:
        """The receipt of the run as it ended; the one that another command has written of it stays as it is."""
        try:
            before = self._journal.receipt(run.run_id)
        except ThisMachineError:  # it is written anew
            before = None
        earlier_seconds = None
        if before is not None and before.get("attempts") == len(run.attempts):
            if before.get("outcome") == run.outcome:
                return receipt_from(before)
            # What the run had left in its store has been brought home since: it took no longer for that.
            earlier_seconds, before = before.get("actual_seconds"), None
        # A run that was launched again has a receipt of its earlier attempts: the new one begins after them.
        new_attempts = run.attempts[(before or {}).get("attempts", 0) :]
        asked_at = new_attempts[0].asked_at if new_attempts and new_attempts[0].asked_at else run.created_at
        # A training that failed may have left results all the same.
        is_home = run.outcome is Outcome.SUCCEEDED or any(attempt.results_at_home for attempt in run.attempts)
        folder = run.model_folder or None if is_home else None
        ended_at = self._clock.now()
        ending = Ending(
            asked_at=asked_at, ended_at=ended_at, model_folder=folder, stays=self._stays(run),
            credit_usd=self._credit_usd(run, ended_at),
        )  # fmt: skip
        story = self._story(run)
        receipt = write_receipt(
            with_passed_over(run, self._stories(run, story)), story, self._journal.estimate(run.run_id), ending, before
        )
        receipt = replace(receipt, sweep=self._sweep(run))
        if earlier_seconds is not None:
            receipt = replace(receipt, actual_seconds=earlier_seconds)
        # What was paid for is kept wherever this command ends: a receipt that is there is not written again.
        try:
            self._learn(run, story, ending)
            self._learn_speeds(run, new_attempts, story)
        except ThisMachineError as error:  # a full disk, say: the person gets the receipt all the same
            self._listen(Message(f"what this run has measured is not kept: {error.message}"))
        finally:
            self._save(run, receipt, ending)
        return receipt

    def correct(self, run: Run) -> None:
        """The receipt of an ended run of which its providers' records tell more by now, and the run itself."""
        record = self._journal.receipt(run.run_id)
        if record is None:
            return
        before, now = receipt_from(record), self._clock.now()
        receipt = corrected(before, run, now)
        self._journal.correct_receipt(run, receipt.to_json(), now)
        if receipt.actual_usd != before.actual_usd:
            usd, usd_before = (format_usd(Decimal(str(one.actual_usd))) for one in (receipt, before))
            most = "at most " if receipt.at_most else ""
            text = f"run {run.run_id} has cost {most}{usd}, not {usd_before}"
            self._listen(Message(f"{text}: the provider's record shows when its machine ended"))

    def _save(self, run: Run, receipt: Receipt, ending: Ending) -> None:
        try:
            self._journal.save_receipt(run.run_id, receipt.to_json(), ending.ended_at)
        except StateError as error:
            self._listen(Message(f"this receipt is not recorded: {error.message}"))

    def _credit_usd(self, run: Run, now: datetime) -> Decimal | None:
        """What credits of the person's pay of the run; None without any, or where nobody can tell."""
        try:
            if not self._settings.own_credits:
                return None
            return credit_paid_usd(self._settings, self._journal.runs(lambda _: None), run, now)
        except PlanError as error:
            self._listen(Message(f"the receipt lacks what credits pay: {error.message}"))
            return None

    def _story(self, run: Run) -> Story:
        """What the newest attempt that said anything has said; a store that does not answer has nothing to tell."""
        story = Story()
        try:
            for attempt in reversed(run.attempts):
                story = self._story_of(run, attempt.number)
                if story.start is not None or run.outcome is Outcome.SUCCEEDED:
                    break
        except (ProviderError, StateError) as error:
            self._listen(Message(f"the receipt lacks what the trainer said: {error.message}"))
        return story

    def _stories(self, run: Run, newest: Story) -> dict[int, Story]:
        """What the machines that came after another one have told, by attempt; `newest` is the run's story."""
        stories: dict[int, Story] = {}
        machines = [attempt for attempt in run.attempts if attempt.had_instance]
        if len(machines) > 1 and run.outcome is Outcome.SUCCEEDED:
            stories[machines.pop().number] = newest  # what its machine has signed
        with suppress(ProviderError):  # it was said that the store does not answer
            for attempt in machines[1:]:
                stories[attempt.number] = story_of(self._provider_of(run.provider).store(run.run_id), attempt.number)
        return stories

    def _story_of(self, run: Run, attempt: int) -> Story:
        """What an attempt has said. Of one that trained to the end, only what its machine vouches for; one that ended
        otherwise had no time to. Raises ProviderError and StateError."""
        store, vouching = self._provider_of(run.provider).store(run.run_id), self._vouching(run)
        if run.outcome is not Outcome.SUCCEEDED or vouching is None or not vouching.is_on:
            return story_of(store, attempt)
        story, why = Vouched(vouching, attempt).story(store)
        if why:
            self._listen(Message(f"the receipt lacks what the trainer said: {why}"))
        return story

    def _sweep(self, run: Run) -> str:
        """The best trial of the run's sweep, in words; "" without a sweep, or where nobody can tell."""
        try:
            job = recorded_job(self._journal, run.run_id)
            if job.sweep is None:
                return ""
            return winner_text(read_table(run, job, self._provider_of(run.provider).store(run.run_id)))
        except (ProviderError, PlanError) as error:
            self._listen(Message(f"the receipt lacks the best trial: {error.message}"))
            return ""

    def _stays(self, run: Run) -> Stays | None:
        """What is left in storage; None where nobody charges for it, or nobody can tell."""
        rates = rates_of(run.provider, self._settings.home)
        if rates is None:
            return None
        try:
            data = recorded_job(self._journal, run.run_id).data
            return stays(self._provider_of(run.provider).store(run.run_id), data, rates)
        except (ProviderError, StateError) as error:
            self._listen(Message(f"the receipt lacks what stays stored: {error.message}"))
            return None

    def _learn(self, run: Run, story: Story, ending: Ending) -> None:
        """Keep what a run on this computer or on the person's own cluster has measured, and what a measuring run has on
        a rented machine.

        Raises ThisMachineError where the job cannot be read, or nothing can be written.
        """
        is_own = is_here(run.provider) or run.provider == CLUSTER
        if run.outcome is not Outcome.SUCCEEDED or not (is_own or run.max_steps is not None):
            return
        job = recorded_job(self._journal, run.run_id)
        if job.sweep is not None:  # its rate is that of several jobs, and of a process for each
            return
        where = _here() if is_here(run.provider) else _rented(run)
        batch = None if job.script is not None else job.global_batch_size
        row = measurement_of(run, story, ending, where.machine, shape_of(job), batch=batch)
        if row is None:
            return
        row = replace(row, job=trained_job(job), device=where.device, device_count=where.device_count)
        for one in of_tries(row, story, job) if run.try_settings else [row]:
            add_row(self._settings.measurements, one)

    def _learn_speeds(self, run: Run, attempts: Sequence[Attempt], story: Story) -> None:
        """Keep how fast rented machines were measured to train by a run that compares them. Raises ThisMachineError."""
        measured = [attempt for attempt in attempts if attempt.speed is not None and attempt.target is not None]
        if is_here(run.provider) or not measured:
            return
        job = recorded_job(self._journal, run.run_id)
        for attempt in measured:
            assert attempt.speed is not None
            assert attempt.target is not None
            machine, device, device_count = _names(attempt.target)
            row = OwnMeasurement(
                machine=machine,
                shape=shape_of(job),
                images_per_second=attempt.speed.images_per_second,
                setup_seconds=None,
                per_epoch_seconds=None,
                after_seconds=None,
                measured_at=attempt.ended_at or self._clock.now(),
                run_id=run.run_id,
                framework=story.framework or str(job.framework),
                job=trained_job(job),
                device=device,
                device_count=device_count,
                half_width=attempt.speed.half_width,
            )
            add_row(self._settings.measurements, row)


class _Where(NamedTuple):
    """On what a run has measured, as OwnMeasurement names it."""

    machine: str
    device: str = ""
    device_count: int = 1


def _here() -> _Where:
    from trainplan.providers.hardware import this_machine

    return _Where(this_machine().fingerprint)


def _rented(run: Run) -> _Where:
    target = run.attempts[-1].target
    assert target is not None  # what has succeeded was launched somewhere
    return _Where(*_names(target))


def _names(target: Target) -> tuple[str, str, int]:
    offer = target.offer
    return rented_name(offer.provider, offer.instance_type, target.machines), offer.device, offer.device_count
