"""What each call of the Python API is made in: the home's files private, and errors in words of Python."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

from trainplan.planner.errors import PlanError, from_provider
from trainplan.planner.home.files import private_files
from trainplan.providers.errors import ProviderError

if TYPE_CHECKING:
    from collections.abc import Iterator

_IN_PYTHON = (
    (r"--yes\b", "yes=True"),
    (r"--(fresh|another)\b", r"\1=True"),
    (r"plan estimate JOB\.yaml --run-file\b", "Job.read(path, run_file=True)"),
    (r"(?<!command )plan stop (\d{6}-\w+)\b(?! --)", r"Run('\1').stop()"),
    (r"plan attach (\d{6}-\w+)\b(?! --)", r"Run('\1').wait()"),
    (r"--run-file\b", "run_file=True"),
    (r"--max-cost\b", "max_cost_usd"),
    (r"--pilot\b", "pilots_usd"),
    (r"--batch auto\b", "batch='auto'"),
    (r"\b(\w+_usd) ([0-9][0-9.]*)", r"\1=\2"),
    (r"--provider ([a-z]+)", r"providers=['\1']"),
    (r"--(provider|region|device|market)\b", r"\1s"),
    (r"--objective (cost|time|balanced)\b", r"objective='\1'"),
    (r"--output\b", "model_folder"),
    (r"--free\b", "providers=['colab', 'kaggle']"),
    (r"--(deadline|objective|batch|assume-available|include-retired)\b", lambda found: found[1].replace("-", "_")),
)
"""What messages call commands and their options, and what Python calls these functions and arguments. A command that
has no counterpart stays as it is."""


@contextmanager
def library_call(budget: str = "budget_usd") -> Iterator[None]:
    """Raises every error as a PlanError that a traceback shows with its hint. Calls are not nested: what the providers
    hold open is closed at the end of each. `budget` is the argument that is the run's budget."""
    from trainplan.planner.api import build

    try:
        with private_files():
            yield
    except ProviderError as error:
        raise _in_words_of_python(from_provider(error), budget) from error
    except PlanError as error:
        raise _in_words_of_python(error, budget) from error.__cause__
    finally:
        build.let_go()


def _in_words_of_python(error: PlanError, budget: str) -> PlanError:
    error.message, error.hint = in_python(error.message, budget), in_python(error.hint, budget)
    error.args = (error.message,)
    if error.hint:
        error.add_note(f"hint: {error.hint}")
    return error


def in_python(text: str, budget: str = "budget_usd") -> str:
    """A message of the command with its options as the arguments that they are in Python."""
    text = re.sub(r"--budget\b", budget, text)
    for option, argument in _IN_PYTHON:
        text = re.sub(option, argument, text)
    return text
