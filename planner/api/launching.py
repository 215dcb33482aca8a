"""A launch, from a job to the run that is to be followed: proposed, shown, agreed to, recorded. `plan launch` and
`trainplan.launch` are both this."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from trainplan.planner.api import build
from trainplan.planner.api.ask import confirm
from trainplan.planner.api.data_steps import bring, refuse_among_images, send_brought
from trainplan.planner.api.living_run import Beside, Joined, Known, differing_text
from trainplan.planner.api.view import View
from trainplan.planner.datasets.transfer import DataTransfer
from trainplan.planner.errors import RefusedError, ThisMachineError
from trainplan.planner.report.page import Page
from trainplan.planner.runs.directory.run_keys import RunKeys
from trainplan.planner.runs.events import Message
from trainplan.planner.runs.execution.create import MakeRequest
from trainplan.planner.runs.execution.executor import Person
from trainplan.planner.runs.journal.journal import Journal
from trainplan.planner.runs.journal.reader import read_only
from trainplan.planner.runs.proposal.consent import brought_lines, foreign_parts, readers
from trainplan.planner.runs.proposal.live_prices import Watchful
from trainplan.planner.runs.proposal.make_proposal import (
    Surroundings,
    at_current_prices,
    limit_lines,
    make_proposal_with_data,
)
from trainplan.planner.runs.proposal.proposal import Proposal, further_text, most_usd, within
from trainplan.planner.runs.run import Phase, Run
from trainplan.planner.runs.runner import Runner, refuse_unwritable, request_for
from trainplan.providers.registry import is_simulated
from trainplan.workloads.job import TrainingJob
from trainplan.workloads.terms import IMAGENET
from trainplan.workloads.wording import Option

if TYPE_CHECKING:
    from trainplan.planner.planning.build_plan import PlanQuery
    from trainplan.planner.runs.proposal.agreed import Agreed
    from trainplan.planner.settings import Settings


class Limits(NamedTuple):
    """What the person has agreed to before the launch asks: --max-cost, and whether anything is asked at all.

    `agreed` are the limits of the run that were agreed to with its pilots, and `measures` whether it measures its own
    speed.
    """

    max_cost_usd: Decimal | None
    is_agreed: bool
    agreed: Agreed | None = None
    measures: bool = False

    def of(self, proposal: Proposal) -> Limits:
        """These limits for a proposal. Whoever agreed to the pilots and the run at once is asked again where the pilots
        showed that the run costs more than that answer covers."""
        if self.agreed is None or not (self.is_agreed or self.agreed.covers(proposal)):
            return self._replace(agreed=None)
        return self._replace(is_agreed=True)

    def most_usd(self, proposal: Proposal) -> Decimal | None:
        """What the job may be planned to cost at a placement that the run takes; None: a person agrees to each."""
        if self.agreed is not None and self.max_cost_usd is None:
            return self.agreed.ceiling_usd(proposal)
        return most_usd(proposal, self.max_cost_usd, assume_yes=self.is_agreed)

    def draft(self, draft: Run) -> Run:
        """The draft within these limits."""
        draft = replace(draft, measures_first=self.measures)
        return self.agreed.limited(draft) if self.agreed else draft


@dataclass(frozen=True, slots=True, kw_only=True)
class Offered:
    """What a launch proposes: where, within which limits, what the data takes to get there, and the job's parts that
    others made. `job` is as it is trained: a folder that is sent to our own storage has an address there. `most_usd` is
    what the job may be planned to cost at a placement of the proposal (None: a person agrees to each)."""

    job: TrainingJob
    proposal: Proposal
    transfer: DataTransfer
    limits: Limits
    most_usd: Decimal | None
    foreign: tuple[str, ...]
    known: Known

    @property
    def providers(self) -> list[str]:
        """Those of its placements, each once, in their order."""
        return list(dict.fromkeys(target.offer.provider for target in self.proposal.targets))


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What a person chose beside the limits: `fresh` starts again although a checkpoint waits, `another` launches
    beside a run of the job that lives, `output` is the folder for the model (None: one is made)."""

    fresh: bool = False
    another: bool = False
    output: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """What a launch acts with. `show` shows a page to the person before the question."""

    around: Surroundings
    journal: Journal
    view: View
    person: Person
    show: Callable[[Page], None]

    def runner(self, where: str) -> Runner:
        """Acts on runs at a provider."""
        around = self.around
        return build.runner(self.journal, around.settings, self.view.show, where, self.person, around.provider_of)


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """A run that is recorded, or one of the same job that it was attached to, and what follows it. `images` are the
    job's own, where they were sent to a bucket. `has_ended`: it had, and nobody had asked for it."""

    runner: Runner
    run: Run
    make_request: MakeRequest
    images: Path | None
    has_ended: bool = False


def offered(
    job: TrainingJob, query: PlanQuery, around: Surroundings, limits: Limits, known: Known | None = None
) -> Offered:
    """What would be launched; nothing is asked, sent or recorded. `known` is what the command knew before its pilots.
    Raises PlanError."""
    known = known or Known(_version(around.settings))  # the proposal may take a while
    proposal, transfer = make_proposal_with_data(job, query, around, lambda at: bring(job, at, around.settings))
    limits = limits.of(proposal)
    proposal = within(proposal, most := limits.most_usd(proposal))
    # Of the job as it was written.
    foreign = (*foreign_parts(job), *readers(job, proposal.offers))
    return Offered(
        job=transfer.job, proposal=proposal, transfer=transfer, limits=limits, most_usd=most, foreign=foreign,
        known=known,
    )  # fmt: skip


def _version(settings: Settings) -> int:
    """That of the journal; 0 where there is none yet. One that cannot be read is told when it is opened."""
    try:
        with read_only(settings.journal) as journal:
            return journal.version()
    except ThisMachineError:
        return 0


def instead_of_pilots(offer: Offered, choices: Choices, desk: Desk) -> Begun | Known:
    """What a launch comes to before its pilots are paid: the run of the job that it attaches to, or whose model is at
    home or on its way there. Where it goes on with its pilots, what is known of other runs.

    Raises what `begin` raises before its question: no pilot is paid for a run that may not begin.
    """
    runner = desk.runner(offer.proposal.targets[0].offer.provider)
    beside = _beside(offer, choices, desk, runner)
    try:
        _join(offer, choices, desk, runner, beside)
        _drafted(offer, choices, runner)
    except Joined as joined:
        return _joined_to(joined.run, offer, choices, desk)
    if lines := _trained_lines(offer, choices, runner):
        desk.show(lines)
    return beside.known


def begin(offer: Offered, choices: Choices, desk: Desk) -> Begun:
    """The run, once somebody has agreed to it: its data is sent, and it is in the journal. Nothing is created yet.

    Raises DeclinedError where somebody says no, BadInputError where nobody can be asked, PlanError.
    """
    runner = desk.runner(offer.proposal.targets[0].offer.provider)
    beside = _beside(offer, choices, desk, runner)
    try:
        _join(offer, choices, desk, runner, beside)
        run, make_request = _begun(offer, choices, desk, runner, beside)
    except Joined as joined:
        return _joined_to(joined.run, offer, choices, desk)
    return Begun(runner=runner, run=run, make_request=make_request, images=offer.transfer.folder)


def _beside(offer: Offered, choices: Choices, desk: Desk, runner: Runner) -> Beside:
    limits = offer.limits
    return Beside(
        runner, offer.job, desk.view, offer.known, assume_yes=limits.is_agreed, another=choices.another
    )  # fmt: skip


def _join(offer: Offered, choices: Choices, desk: Desk, runner: Runner, beside: Beside) -> None:
    """Raises Joined, or RefusedError, where the job is not to be trained: a run of it lives, or has trained it."""
    beside.look()
    if choices.fresh:
        return
    _refuse_trained(offer, runner, desk.view)
    if not choices.another:
        _refuse_again(offer, choices, runner, desk.view)


def _joined_to(run: Run, offer: Offered, choices: Choices, desk: Desk) -> Begun:
    around = desk.around
    if run.live and (different := differing_text(run, offer.job, choices.output)):
        desk.view.show(Message(different))
    runner = desk.runner(run.provider)
    return Begun(
        runner=runner,
        run=run,
        make_request=build.further_requests(runner, run, around.provider_of, around.settings),
        images=offer.transfer.folder,
        has_ended=run.phase is Phase.DONE,
    )


def _refuse_trained(offer: Offered, runner: Runner, view: View) -> None:
    """Raises Joined with a run of this very job that was trained to its end, and whose model is not at home yet;
    RefusedError where the model is here, and the record of its run was lost."""
    job, folder = offer.job, Path.cwd()
    simulated = all(is_simulated(name) for name in offer.providers)
    if (model := runner.unrecorded_model(job, folder, simulated=simulated)) is not None:
        raise RefusedError(
            f"the trained model of this very job is in {model}, and this home has no record of its run: nothing was "
            "launched",
            f"{Option.FRESH} trains it anew",
        )
    run = runner.results_of(job)
    if run is not None:
        view.show(
            Message(
                f"run {run.run_id} of this job was trained to its end, and its results are still in the store at "
                f"{run.provider}: they are brought home, and nothing is launched ({Option.FRESH} trains it anew)"
            )
        )
        raise Joined(runner.bring_home(run))


def _refuse_again(offer: Offered, choices: Choices, runner: Runner, view: View) -> None:
    """Refuse to train a job again without a question (`--yes`) where a run of it has succeeded and its model is at
    home. This is for data sets with a name alone: whether the images in a folder, at an address, or read by a script
    are still the same is not known, and such a job is trained again.

    Raises Joined with that run, and RefusedError where the model is wanted in another folder."""
    job = offer.job
    limits = offer.limits
    run = _trained(offer, runner) if limits.is_agreed and limits.agreed is None else None
    weights = job.model.weights
    if run is None or job.script is not None or job.data.name is None or weights not in (None, IMAGENET):
        return
    text, hint = (
        f"{_trained_text(run)}: nothing was launched",
        f"{Option.FRESH} or {Option.ANOTHER} trains it once more",
    )
    if choices.output is not None and choices.output.absolute() != Path(run.model_folder):
        raise RefusedError(text, hint)
    view.show(Message(f"{text} ({hint})"))
    raise Joined(run)


def _trained(offer: Offered, runner: Runner) -> Run | None:
    return runner.trained(offer.job, simulated=all(is_simulated(name) for name in offer.providers))


def _trained_text(run: Run) -> str:
    day = f"{run.dated_at.astimezone():%Y-%m-%d}"
    return f"run {run.run_id} of {day} has trained this very job, and its model is in {run.model_folder}"


def _trained_lines(offer: Offered, choices: Choices, runner: Runner) -> list[str]:
    """What a question to launch the job has of a run that has trained it."""
    if choices.fresh or choices.another or (run := _trained(offer, runner)) is None:
        return []
    return [f"{_trained_text(run)}: this launch trains it once more"]


def _drafted(offer: Offered, choices: Choices, runner: Runner) -> tuple[Run, Run | None]:
    """The run as it would be, and the ended one that it would go on with. Raises PlanError where its model could not be
    put into its folder."""
    job, proposal = offer.job, offer.proposal
    draft = offer.limits.draft(runner.draft(job, proposal.targets, proposal.slow_end, choices.output))
    earlier = None if choices.fresh else runner.resumable(job, offer.providers)
    folder = Path(earlier.model_folder if earlier and choices.output is None else draft.model_folder)
    refuse_among_images(folder, offer.transfer.folder or job.data.path, Option.OUTPUT)
    refuse_unwritable(folder)
    runner.refuse_taken(folder, earlier.run_id if earlier else draft.run_id)
    return draft, earlier


def _begun(offer: Offered, choices: Choices, desk: Desk, runner: Runner, beside: Beside) -> tuple[Run, MakeRequest]:
    around, job, proposal, limits = desk.around, offer.job, offer.proposal, offer.limits
    factory, view, transfer = around.provider_of, desk.view, offer.transfer
    first_at = factory(proposal.targets[0].offer.provider)
    clock = build.clock_of(first_at)
    draft, earlier = _drafted(offer, choices, runner)
    key, client_id = RunKeys(around.settings.home).key, build.client(around.settings).id
    request = request_for(job, clock, client=client_id, data=transfer.files, key=key)
    watchful = Watchful(factory, clock.now, proposal.offers)
    lines = (*brought_lines(job), *transfer.lines, *limit_lines(draft, request, first_at, clock.now()))
    lines += _beginning(runner, job, offer.providers, earlier, fresh=choices.fresh)
    lines += tuple(_trained_lines(offer, choices, runner))
    view.pause_for(lambda: _ask(offer, lines, desk.show))
    if transfer.is_missing:  # the time of the run begins with its data
        view.pause_for(lambda: send_brought(transfer, first_at))
        draft = limits.draft(runner.draft(job, proposal.targets, proposal.slow_end, choices.output))
    if watchful.is_stale() and proposal.plan is not None:
        proposal = _agreed_again(at_current_prices(proposal.plan, around), offer, view)
        draft = limits.draft(replace(draft, targets=proposal.targets))
        watchful = Watchful(factory, clock.now, proposal.offers)
    runner.prepare(request(draft, 1, draft.targets[0]))
    run = beside.begin(
        lambda: runner.again(earlier, draft, choices.output) if earlier else runner.record(draft, job, proposal.record)
    )
    return run, watchful.over(request)


def _beginning(
    runner: Runner, job: TrainingJob, providers: Sequence[str], earlier: Run | None, *, fresh: bool
) -> tuple[str, ...]:
    """What the run begins with: the checkpoint of an earlier one, or nothing although one waits."""
    if earlier is not None:
        return (f"continuing run {earlier.run_id} from its newest checkpoint ({Option.FRESH} starts again)",)
    waiting = "" if fresh else runner.waiting(job, providers)
    return (waiting,) if waiting else ()


def _ask(offer: Offered, limits: Sequence[str], show: Callable[[Page], None]) -> None:
    """Show what would be launched, and return where somebody agrees."""
    proposal, foreign = offer.proposal, offer.foreign
    lines = [
        f"{offer.job.name} on {proposal.text}",
        *filter(None, (further_text(proposal), proposal.left_out)),
        *limits,
    ]
    show([*lines, *foreign])
    if proposal.dearer:
        _ask_price(proposal.dearer)
        return
    if proposal.late:
        show([proposal.late])
    if offer.limits.is_agreed:
        return
    question = "launch with the image, data and secrets above?" if foreign else "launch?"
    question = "launch it all the same?" if proposal.late and not foreign else question
    hint = f"{Option.YES} launches without asking"
    # Enter alone agrees neither to parts that others made nor to a run that will not get to its end.
    confirm(question, default=not (foreign or proposal.late), hint=hint, left_alone="nothing was launched")


def _agreed_again(proposal: Proposal, offer: Offered, view: View) -> Proposal:
    """The proposal at the prices of now, since the answer took its time; what is dearer is asked about again.

    An answer to a dearer first placement covers the further ones too, as far as --yes would.
    """
    if proposal.dearer:
        view.pause_for(lambda: _ask_price(proposal.dearer))
        return within(proposal, offer.limits.most_usd(proposal))
    return within(proposal, offer.most_usd)


def _ask_price(dearer: str) -> None:
    """Ask about a price that is well above the one that was shown: --yes does not cover it, only a person's answer."""
    hint = f"{Option.YES} does not cover that: launch from a terminal, or plan prices refresh and plan estimate first"
    question = f"{dearer}. Launch at this price?"
    nobody = RefusedError(dearer, hint)
    confirm(question, default=False, hint=hint, left_alone="nothing was launched", nobody=nobody)
