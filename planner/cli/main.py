"""The entry of `plan`: finds the command, and turns every error into a message, a hint and an exit code."""

from __future__ import annotations

import gc
import importlib
import io
import os
import sys
from contextlib import suppress
from types import ModuleType
from typing import Any, NoReturn

from planner import __version__

# What each command is, in the order `plan --help` shows them. The module of a command is imported when it is typed:
# the start-up of one command never pays for another.
COMMANDS = {
    "estimate": "What a job takes and costs on every accelerator one could rent",
    "launch": "Train a job, bring the model home, remove everything, print the receipt",
    "init": "Write a job file",
    "measure": "Measure a job's throughput on this machine, in a short run",
    "status": "How a run stands, or all that are not done",
    "logs": "What a run has said",
    "attach": "Follow a run that was left running",
    "stop": "End a run; its newest checkpoint is kept",
    "sweep": "Find and remove whatever of ours still exists",
    "burn": "What bills in the accounts by the hour or month, ours and others'",
    "history": "Past runs, estimated against actual",
    "devices": "The accelerators that are known",
    "prices": "Prices: what is known, from when, from where",
    "throughput": "Hold the predictor against measurements",
    "data": "Data sets that were uploaded",
    "doctor": "Whether a provider lets us in",
    "setup": "Prepare an account",
}


def main() -> NoReturn:
    """Run the command line and leave with its exit code."""
    from planner.cli.streams import guarded, open_closed_descriptors

    open_closed_descriptors()
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A file name in another encoding, or a terminal that cannot show a letter, is no reason to end.
        sys.stdout.reconfigure(errors="backslashreplace")
    code = run(sys.argv[1:])
    if sys.argv[1:] != ["--version"]:
        from planner.cli.notice import warn_of_unverified

        with guarded():
            warn_of_unverified()
            sys.stderr.flush()
    # Taking a hundred modules down one by one is a tenth of what `plan estimate` takes; everything is closed by now.
    os._exit(code)


def run(arguments: list[str]) -> int:
    """Run the command line and return its exit code; every error becomes `error:` and `hint:` on stderr.

    Control characters in what it writes become visible escapes. An answer that could not be written is an error; a
    reader (head, less) that has gone is none.
    """
    from planner.cli.streams import guarded, undelivered

    with guarded():
        code = _run(arguments)
        why = undelivered(sys.stdout)
        if why and code == 0:
            from planner.errors import ThisMachineError

            hint = "what the command did is done; its answer is lost"
            code = _say(ThisMachineError(f"the answer could not be written to stdout: {why}", hint))
        sys.stderr.flush()
        return code


def _run(arguments: list[str]) -> int:
    if arguments == ["--version"]:  # answered before typer is imported
        return _print_version()
    # Pydantic would search every installed distribution for plugins; none of ours has any.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    # Hundreds of thousands of objects are made at start-up and none is garbage: looking for some takes 40 ms.
    gc.set_threshold(1_000_000)
    _put_off_metadata()
    from planner.errors import ExitCode, PlanError, from_provider
    from planner.home import private_files
    from providers.errors import ProviderError

    try:
        with private_files():
            _mend_home()
            return _answer(arguments)
    except PlanError as error:
        return _say(error)
    except ProviderError as error:
        return _say(from_provider(error))
    except KeyboardInterrupt:
        return int(ExitCode.INTERRUPTED)
    finally:
        if "planner.cli.build" in sys.modules:  # else no provider was made
            sys.modules["planner.cli.build"].let_go()


def _mend_home() -> None:
    """Say whether the home was, or is, open to other users of this computer."""
    from planner.errors import BadInputError
    from planner.home import mended
    from planner.settings import home_of

    with suppress(BadInputError):  # a command that needs the home says what is wrong with it
        line = mended(home_of(os.environ))
        if line:
            sys.stderr.write(f"{line}\n")


def _answer(arguments: list[str]) -> int:
    if arguments[:1] == ["estimate"]:
        from planner.cli.plain import read_plainly

        asked = read_plainly(arguments[1:])
        if asked is not None:
            from planner.cli.answer import answer

            answer(asked)
            return 0
    from planner.cli.app import command

    return int(command(arguments) or 0)


def _put_off_metadata() -> None:
    """Stand in for importlib.metadata until somebody uses it.

    Pydantic imports it for the plugins that are turned off, and with it come email and zipfile: a tenth of the time
    that `plan estimate` takes.
    """
    name = "importlib.metadata"
    if name in sys.modules:
        return
    stand_in = ModuleType(name)

    def real(attribute: str) -> Any:
        if attribute.startswith("__"):  # what the import system looks for
            raise AttributeError(attribute)
        if sys.modules.get(name) is stand_in:
            del sys.modules[name]
        return getattr(importlib.import_module(name), attribute)

    vars(stand_in).update(
        __path__=[f"{folder}{os.sep}metadata" for folder in importlib.__path__],
        __getattr__=real,
        entry_points=lambda **selected: real("entry_points")(**selected),  # the one that pydantic asks for by name
    )
    sys.modules[name] = stand_in
    vars(importlib)["metadata"] = stand_in


def _print_version() -> int:
    sys.stdout.write(f"plan {__version__}\n")
    return 0


def _say(error: object) -> int:
    from planner.errors import PlanError

    assert isinstance(error, PlanError)
    sys.stdout.flush()
    sys.stderr.write(f"error: {error.message}\n")
    if error.hint:
        sys.stderr.write(f"hint: {error.hint}\n")
    return int(error.exit_code)
