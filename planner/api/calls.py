"""What each call of the Python API is made in: the home's files private, and errors in words of Python."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

from trainplan.planner.api.told import output_of_call
from trainplan.planner.errors import PlanError, from_provider
from trainplan.planner.home.files import private_files
from trainplan.providers.errors import ProviderError

if TYPE_CHECKING:
    from collections.abc import Iterator

_OF_AN_ESTIMATE = "budget_usd"
_SEARCHED = r"\b(providers|objective|deadline)=('[^']*'|\[[^]]*\])"
_CALLS = (
    (r"plan estimate JOB\.yaml --run-file\b", "Job.read(path, run_file=True)"),
    (r"(?<!command )plan stop (\d{6}-\w+)\b(?! --)", r"Run('\1').stop()"),
    (r"plan attach (\d{6}-\w+)\b(?! --)", r"Run('\1').wait()"),
    (r"plan history lists\b", "runs() lists"),
)
"""Commands that have a counterpart in Python."""
_IN_PYTHON = (
    (r"--yes\b", "yes=True"),
    (r"--(fresh|another)\b", r"\1=True"),
    (r"--run-file\b", "run_file=True"),
    (r"--max-cost\b", "max_cost_usd"),
    (r"--pilot\b", "pilots_usd"),
    (r"--batch auto\b", "batch='auto'"),
    (r"\b(\w+_usd) ([0-9][0-9.]*)", r"\1=\2"),
    (r"--provider ([a-z]+(?: or [a-z]+)*)", lambda found: _providers(found[1])),
    (r"--(provider|region|device|market)\b", r"\1s"),
    (r"--objective (cost|time|balanced)\b", r"objective='\1'"),
    (r"--output\b", "model_folder"),
    (r"--deadline (\d\w*)", r"deadline='\1'"),
    (r"--free\b", "providers=['colab', 'kaggle']"),
    (r"--(deadline|objective|batch|assume-available|include-retired)\b", lambda found: found[1].replace("-", "_")),
)
"""What messages call commands and their options, and what Python calls these functions and arguments."""
_COMMAND = re.compile(
    r"\b(?:plan [a-z]+(?: (?:[A-Z]|\d|[\w/-]+\.)[\w./-]*)*|(?:aws|az|gcloud|kubectl)(?: [a-z][\w./-]*){2,6})"
    r"(?: --?[a-z][\w-]*(?:[ =][^\s;,()]+)?)+"
)
"""A command with options, of a vendor's tool or of `plan` itself, that has no counterpart in Python: it is to be typed
as it stands, so that none of its options may change."""


@contextmanager
def library_call(budget: str = _OF_AN_ESTIMATE) -> Iterator[None]:
    """Raises every error as a PlanError that a traceback shows with its hint. Calls are not nested: what the providers
    hold open is closed at the end of each. `budget` is the argument that is the run's budget."""
    from trainplan.planner.api import build

    try:
        with private_files(), output_of_call():
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


def _providers(names: str) -> str:
    return " or ".join(f"providers=['{name}']" for name in names.split(" or "))


def in_python(text: str, budget: str = _OF_AN_ESTIMATE) -> str:
    """A message of the command with its options as the arguments that they are in Python. `budget` as above: what
    narrows a search is an argument of `estimate`, also where `launch` says it."""
    for command, call in _CALLS:
        text = re.sub(command, call, text)
    kept = [found[0] for found in _COMMAND.finditer(text)]
    words = [_arguments(part, budget) for part in _COMMAND.split(text)]
    text = "".join(part for pair in zip(words, [*kept, ""], strict=True) for part in pair)
    return text if budget == _OF_AN_ESTIMATE else re.sub(_SEARCHED, r"estimate(job, \g<0>)", text)


def _arguments(text: str, budget: str) -> str:
    text = re.sub(r"--budget\b", budget, text)
    for option, argument in _IN_PYTHON:
        text = re.sub(option, argument, text)
    return text
