"""What each call of the Python API is made in: the home's files private, and texts in words of Python."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from trainplan.planner.api.told import output_of_call
from trainplan.planner.errors import PlanError, from_provider
from trainplan.planner.home.files import private_files
from trainplan.providers.errors import ProviderError
from trainplan.workloads.wording import Command, CommandLine, Option, Setting, written_in

if TYPE_CHECKING:
    from collections.abc import Iterator

_LISTS = {Option.DEVICE: "devices", Option.MARKET: "markets", Option.PROVIDER: "providers", Option.REGION: "regions"}
_TEXTS = {
    Option.BATCH: "batch",
    Option.DEADLINE: "deadline",
    Option.OBJECTIVE: "objective",
    Option.OUTPUT: "model_folder",
}
_AMOUNTS = {Option.BUDGET: "budget_usd", Option.MAX_COST: "max_cost_usd", Option.PILOT: "pilots_usd"}
_FLAGS = {
    Option.ALL: "every_placement",
    Option.ANOTHER: "another",
    Option.ASSUME_AVAILABLE: "assume_available",
    Option.FRESH: "fresh",
    Option.INCLUDE_RETIRED: "include_retired",
    Option.RUN_FILE: "run_file",
    Option.YES: "yes",
}
ARGUMENTS = {**_LISTS, **_TEXTS, **_AMOUNTS, **_FLAGS, Option.COUNT: "device_counts", Option.FREE: "providers"}
"""The argument that an option is in Python. Any other belongs to a command that is to be typed."""
_OF_A_SEARCH = (*_LISTS, Option.COUNT, Option.DEADLINE, Option.OBJECTIVE)


class Python:
    """The words of a program that calls `trainplan.estimate`, or where `is_launch` `trainplan.launch` or
    `trainplan.pilot`: their budget is `max_cost_usd`, and what narrows a search is an argument of `estimate`."""

    def __init__(self, *, is_launch: bool = False) -> None:
        self._is_launch = is_launch

    def option(self, option: Option) -> str:
        if option is Option.FREE:
            return "providers=['colab', 'kaggle']"
        if option is Option.BUDGET and self._is_launch:
            return ARGUMENTS[Option.MAX_COST]
        name = ARGUMENTS.get(option)
        if name is None:
            return CommandLine().option(option)
        return f"{name}=True" if option in _FLAGS else name

    def setting(self, setting: Setting) -> str:
        option, name = setting.option, self.option(setting.option)
        if option not in ARGUMENTS:
            return CommandLine().setting(setting)
        value = "{}" if option in (*_AMOUNTS, Option.COUNT) else "{!r}"
        form = f"{name}=[{value}]" if option in (*_LISTS, Option.COUNT) else f"{name}={value}"
        if self._is_launch and option in _OF_A_SEARCH:
            form = f"estimate(job, {form})"
        return " or ".join(map(form.format, setting.values))

    def command(self, command: Command) -> str:
        match command.parts:
            case ("stop", str(run_id)):
                return f"Run({run_id!r}).stop()"
            case ("attach", str(run_id)):
                return f"Run({run_id!r}).wait()"
            case ("history",):
                return "runs()"
            case ("estimate", "JOB.yaml", Option.RUN_FILE):
                return "Job.read(path, run_file=True)"
            case ("estimate", Option() as option) if option in ARGUMENTS:
                return f"estimate(job, {self.option(option)})"
        return command.typed


@contextmanager
def library_call(*, is_launch: bool = False) -> Iterator[None]:
    """Raises every error as a PlanError that a traceback shows with its hint. Calls are not nested: what the providers
    hold open is closed at the end of each. `is_launch` as in `Python`."""
    from trainplan.planner.api import build

    try:
        with private_files(), output_of_call(), written_in(Python(is_launch=is_launch)):
            yield
    except ProviderError as error:
        raise _with_note(from_provider(error)) from error
    except PlanError as error:
        raise _with_note(error) from error.__cause__
    finally:
        build.let_go()


def _with_note(error: PlanError) -> PlanError:
    if error.hint:
        error.add_note(f"hint: {error.hint}")
    return error
