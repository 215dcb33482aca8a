"""`plan estimate A.yaml --compare B.yaml` or `--compare key=value`: what the second job is, and both side by side."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from trainplan.planner.api import planning
from trainplan.planner.api.own_network import with_network
from trainplan.planner.cli.document_form import DocumentForm
from trainplan.planner.cli.job_options import OF_A_JOB, AskedJob, job_of
from trainplan.planner.cli.screen import show
from trainplan.planner.errors import BadInputError
from trainplan.planner.planning.build_plan import PlanQuery, nothing_left
from trainplan.planner.report.compare import Pair, Side, compare, comparison_json
from trainplan.planner.settings import Settings
from trainplan.workloads.job import job_keys
from trainplan.workloads.job_changes import changed_job
from trainplan.workloads.jobfile import JobFileError, parse_value
from trainplan.workloads.key_changes import Change
from trainplan.workloads.nearest import nearest_names
from trainplan.workloads.sweep import WRITTEN_BY_PLAN

_KEY = re.compile(r"[A-Za-z_][\w.-]*")
_ELSEWHERE = {
    "secrets": "no estimate depends on secrets",
    "data.path": "write a second job file, from whose folder the path is read",
    **dict.fromkeys(("script", "requirements"), "write a second job file: what it names is read together with it"),
    **dict.fromkeys(WRITTEN_BY_PLAN, "plan reads it out of the file that the job names"),
}
"""Keys that --compare does not change, and why not or what to do instead."""


def second_job(first: AskedJob, texts: Sequence[str], values: Mapping[str, object]) -> AskedJob:
    """The job that `--compare` says: of a file with the options of a job (`values`) on top, or the first one, and with
    the changes `key=value` after that. Raises BadInputError."""
    files = [text for text in texts if not _is_change(text)]
    if len(files) > 1:
        raise BadInputError(f"--compare: {' and '.join(files)} are two files", "compare with one of them at a time")
    base = first if not files else _of_file(files[0], values)
    changes = [_change(text) for text in texts if _is_change(text)]
    if not changes:
        return base
    try:
        job = changed_job(base.job, changes, base.source)
    except JobFileError as error:
        raise BadInputError(error.message, error.hint) from None
    typed = " ".join(change.text.removeprefix("--compare ") for change in changes)
    return AskedJob(with_network(job), f"{base.source} with {typed}")


def refuse_beside(values: Mapping[str, object]) -> None:
    """Raises BadInputError for an option, by name, that a comparison has no place for, where it is given."""
    for name, value in values.items():
        if value:
            raise BadInputError(f"--compare and --{name} cannot be combined", "give one of the two")


def print_comparison(jobs: tuple[AskedJob, AskedJob], query: PlanQuery, settings: Settings, form: DocumentForm) -> None:
    """Plan both jobs at one time and print them side by side. Raises NothingLeftError where nothing fits either."""
    query, now = planning.completed(query._replace(every_placement=True, limit=0, prices=True), settings)
    first, _ = planning.planned(jobs[0].job, query, settings, now)
    if first.this_machine is not None:
        # What else keeps it busy changes from look to look, and is no difference of jobs.
        query = query._replace(free_share=first.this_machine.free_share)
    second, _ = planning.planned(jobs[1].job, query, settings, now)
    comparison = compare(Side(jobs[0].source, first), Side(jobs[1].source, second))
    if form.as_json:
        sys.stdout.write(comparison_json(comparison) + "\n")
    else:
        from trainplan.planner.report.compare_page import comparison_page

        if form.as_markdown:  # it is read elsewhere than on this machine
            comparison = comparison._replace(this_machine=Pair())
        show(comparison_page(comparison), wide=form.wide, as_markdown=form.as_markdown)
    if not any(plan.ranking or planning.is_answered_here(plan, query) for plan in (first, second)):
        raise nothing_left(first, is_shown=not form.as_json)


def _is_change(text: str) -> bool:
    """Whether it is `key=value`, and no file is called so."""
    key, sign, _ = text.partition("=")
    return bool(sign) and _KEY.fullmatch(key.strip()) is not None and not Path(text).exists()


def _of_file(text: str, values: Mapping[str, object]) -> AskedJob:
    if text in job_keys() and not Path(text).exists():
        raise BadInputError(f"--compare {text}: a key needs a value", f"--compare {text}=VALUE, or the name of a file")
    return job_of(Path(text), values)


def _change(text: str) -> Change:
    """`optimizer.name=adam` as a change. Raises BadInputError for a key that no job has, or what is no YAML."""
    typed = f"--compare {text}"
    key, _, value = (part.strip() for part in text.partition("="))
    _check_key(key, typed)
    if not value:
        raise BadInputError(f"{typed}: a value is missing", f"--compare {key}=VALUE; null takes the key out of the job")
    try:
        return Change(_where(key), parse_value(value, f"--compare {key}"), typed)
    except JobFileError as error:
        raise BadInputError(error.message, error.hint) from None


def _where(key: str) -> tuple[str, ...]:
    """Where in a job the key stands. What a sweep tries stands there as it is written: `optimizer.learning_rate`."""
    group, _, swept = key.partition(".")
    return (group, swept) if group == "sweep" and swept else tuple(key.split("."))


def _check_key(key: str, typed: str) -> None:
    """Raises BadInputError with the nearest key for one that no job has, or that is not to be changed here."""
    for name, why in _ELSEWHERE.items():
        if key == name or key.startswith(f"{name}."):
            raise BadInputError(f"{typed}: {name} cannot be compared so", why)
    keys = job_keys()
    known = key.removeprefix("sweep.")  # which tries any key; whether it can, the sweep says
    if key in keys or known in keys or known.startswith("args."):  # whose keys are those of the script
        return
    option = OF_A_JOB.get(key.replace("-", "_"))
    same = [one for one in keys if one.rpartition(".")[2] == key.rpartition(".")[2]]
    near = [".".join(option)] if option else same or nearest_names(known, keys)
    hint = f"did you mean {near[0]}?" if near else "docs/settings.md lists the keys of a job file"
    raise BadInputError(f"{typed}: a job has no key {key!r}", hint)
