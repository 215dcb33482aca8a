"""`plan doctor`: whether a provider lets us in, and what is the cheapest that it would launch now."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from trainplan.planner.api import build
from trainplan.planner.api.job_files import read_job_file
from trainplan.planner.cli import completion, job_options, options
from trainplan.planner.cli.screen import show
from trainplan.planner.errors import NothingLeftError, from_provider
from trainplan.planner.planning.build_plan import PlanQuery, make_plan, with_listed_offers
from trainplan.planner.planning.check import Examination, Judged, examine
from trainplan.planner.report.page import Cell, Page, Tone, joined
from trainplan.planner.runs.runner import refused
from trainplan.planner.settings import Settings
from trainplan.pricing.grants import Grant, grants_beside
from trainplan.pricing.offers import Offer, OfferQuery
from trainplan.providers.base import Check, PreflightState, Provider
from trainplan.providers.cloud.sign_ins import how_to_sign_in
from trainplan.providers.errors import ProviderError
from trainplan.providers.registry import CLUSTER, FACTORIES, is_here, is_simulated, names
from trainplan.workloads.job import TrainingJob

DEFAULT_JOB = ("vgg16", "cifar10")
_LOOKED_AT = 400
"""Placements of a ranking that are gone through for those that differ in what they ask of an account."""


def command(
    provider: Annotated[
        str | None,
        typer.Argument(
            metavar="PROVIDER",
            help=f"{', '.join(FACTORIES)} (default: all but sim)",
            autocompletion=completion.providers,
        ),
    ] = None,
    job_file: Annotated[
        Path | None, typer.Argument(metavar="JOB.yaml", help="Rank offers for this job (default: vgg16 on cifar10)")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Look at the account, then at its cheapest offers, until one is let in. Creates nothing."""
    provider, job_file = _told_apart(provider, job_file)
    job = read_job_file(job_file) if job_file else None
    settings = options.settings()
    examinations = [
        _examined(name, job, settings, asked_for=provider is not None) for name in _provider_names(provider)
    ]
    if as_json:
        sys.stdout.write(json.dumps({"providers": [_json(one) for one in examinations]}) + "\n")
    else:
        show(joined([_page(one) for one in examinations]))
    if all(one.state is PreflightState.REFUSED for one in examinations):
        raise typer.Exit(int(refused(examinations[0].provider).exit_code))


def _told_apart(provider: str | None, job_file: Path | None) -> tuple[str | None, Path | None]:
    """A lone word that is no provider and names something here is the job: a file, or what is said to be none."""
    if provider is not None and job_file is None and provider not in names() and os.path.exists(provider):  # noqa: PTH110  # a word too long for a name is none
        return None, Path(provider)
    return provider, job_file


def _provider_names(only: str | None) -> tuple[str, ...]:
    # The simulated cloud has no account that could lack anything: it is looked at where it is named.
    return tuple(name for name in build.provider_names(only) if only or not is_simulated(name))


def _examined(name: str, job: TrainingJob | None, settings: Settings, *, asked_for: bool) -> Examination:
    if not asked_for and not build.is_used(name, settings):
        return _not_signed_in(name)
    try:
        one = build.provider(name, settings)
        # The nodes of a cluster are what they are: a job that nobody named need not fit them.
        if is_here(name) or (name == CLUSTER and job is None):
            return examine(one, list(one.offers(OfferQuery())), job)
        asked = job or job_options.job_from_options(dict(zip(("model", "dataset"), DEFAULT_JOB, strict=True)))
        return examine(one, _cheapest(one, asked, settings), asked)
    except ProviderError as error:
        if asked_for:
            raise from_provider(error) from error
        sentence = f"{name}: {error.message}"
        return Examination(provider=name, account=(), offers=(), state=PreflightState.REFUSED, sentence=sentence)


def _not_signed_in(name: str) -> Examination:
    sentence = f"{name}: no sign-in on this computer, skipped ({how_to_sign_in(name)})"
    return Examination(provider=name, account=(), offers=(), state=PreflightState.REFUSED, sentence=sentence)


def _cheapest(one: Provider, job: TrainingJob, settings: Settings) -> list[Offer]:
    """What the provider has for the job, the best first."""
    query = PlanQuery(providers=(one.name,), every_placement=True, limit=_LOOKED_AT, by_trainer=True)
    query = with_listed_offers(query, lambda _: one, settings, lambda _: None)
    try:
        plan = make_plan(job, query, settings, build.clock().now())
    except NothingLeftError:
        return []
    return [ranked.offer for ranked in plan.candidates]


def _page(one: Examination) -> Page:
    checks = by_cause(one.account)
    failures = [check for check in checks if check.state is not PreflightState.OK]
    # One reason for everything: neither what it stands in the way of nor the last sentence has to say it again.
    only = failures[0] if len(failures) == 1 and failures[0].name.count(", ") >= _MOST_NAMES else None
    lines: list[str | Cell] = []
    for check in checks:
        lines += _check_lines(check, check.detail if check is only else f"{check.name}: {check.detail}")
    for judged in one.offers:
        lines += _offer_lines(judged, whole=not one.account)
    is_told = only is not None and only.detail in one.sentence
    last = f"{one.provider}: nothing can be launched, for the reason above" if is_told else one.sentence
    free = [f"{'':<8}  at no cost meanwhile: {grant.text}" for grant in _grants_for(one)]
    return [*lines, *free, last]


def _grants_for(one: Examination) -> tuple[Grant, ...]:
    """What helps where a quota alone stands in the way."""
    lacks_quota = any(judged.wants_quota_only for judged in one.offers)
    return grants_beside(one.provider) if lacks_quota and one.state is PreflightState.REFUSED else ()


_MOST_NAMES = 3
"""Names of checks that fail for one reason; more of them say no more than the reason."""


def by_cause(checks: Sequence[Check]) -> list[Check]:
    """The checks, those that fail for the same reason as one: it is told once, with the names of all of them.

    What could not be looked at because of a refusal has the text of that refusal in its own.
    """
    refusals = sorted({check.detail for check in checks if check.state is PreflightState.REFUSED}, key=len)
    causes: dict[tuple[str, str], list[Check]] = {}
    for check in checks:
        # What is in order is in order for reasons of its own.
        is_ok = check.state is PreflightState.OK
        cause = check.detail if is_ok else next((text for text in refusals if text in check.detail), check.detail)
        causes.setdefault((cause, check.name if is_ok else check.fix), []).append(check)
    return [
        replace(
            next((check for check in group if check.state is PreflightState.REFUSED), group[0]),
            name=", ".join(check.name for check in group),
            detail=cause,
        )
        for (cause, _), group in causes.items()
    ]


def _offer_lines(judged: Judged, *, whole: bool) -> list[str | Cell]:
    """The check that decides; all of them for a provider without lines of its own."""
    if whole:
        return [line for check in judged.preflight.checks for line in _check_lines(check, _line_name(judged, check))]
    reason = judged.reason
    if reason is None:
        return [f"{judged.state:<8}  {judged.text}"]
    return _check_lines(reason, _line_name(judged, reason))


def _line_name(judged: Judged, check: Check) -> str:
    return f"{judged.text}: {check.name}: {check.detail}"


def _check_lines(check: Check, text: str) -> list[str | Cell]:
    line = f"{check.state:<8}  {text}"
    tone = _TONES.get(check.state)
    first = Cell(line, tone) if tone else line
    return [first, f"{'':<8}  fix: {check.fix}"] if check.fix else [first]


_TONES = {PreflightState.REFUSED: Tone.BAD, PreflightState.UNKNOWN: Tone.WARNING}


def _json(one: Examination) -> dict[str, object]:
    return {
        "provider": one.provider,
        "state": one.state,
        "sentence": one.sentence,
        "free": [{**grant._asdict(), "as_of": grant.as_of.isoformat()} for grant in _grants_for(one)],
        "account": [_check_json(check) for check in one.account],
        "offers": [
            {
                "instance_type": judged.offer.instance_type,
                "region": judged.offer.region,
                "market": judged.offer.market,
                "device": judged.offer.device,
                "device_count": judged.offer.device_count,
                "usd_per_hour": float(judged.offer.usd_per_hour),
                "state": judged.state,
                "checks": [_check_json(check) for check in judged.preflight.checks],
            }
            for judged in one.offers
        ],
    }


def _check_json(check: Check) -> dict[str, str]:
    return {"name": check.name, "state": check.state, "detail": check.detail, "fix": check.fix}
