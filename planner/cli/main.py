"""The entry of `plan`: finds the command, and turns every error into a message, a hint and an exit code."""

from __future__ import annotations

import gc
import io
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

from trainplan.planner import __version__

if TYPE_CHECKING:
    from pathlib import Path


_INTERRUPTED = 130
"""ExitCode.INTERRUPTED, where Ctrl-C comes before that can be imported."""


def main() -> NoReturn:
    """Run the command line and leave with its exit code."""
    try:
        code = _whole()
    except KeyboardInterrupt:  # while modules are imported, before a command begins or after it
        code = _INTERRUPTED
    # Taking a hundred modules down one by one is a tenth of what `plan estimate` takes; everything is closed by now.
    os._exit(code)


def _whole() -> int:
    from trainplan.planner.cli.streams import guarded, open_closed_descriptors

    open_closed_descriptors()
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A file name in another encoding, or a terminal that cannot show a letter, is no reason to end.
        sys.stdout.reconfigure(errors="backslashreplace")
    code = run(sys.argv[1:])
    if sys.argv[1:] != ["--version"]:
        with guarded():
            _warn_of_unverified()
            sys.stderr.flush()
    return code


def run(arguments: list[str]) -> int:
    """Run the command line and return its exit code; every error becomes `error:` and `hint:` on stderr.

    With `--json` an error that comes before any other output is also a JSON object on stdout: `error`, `hint` and
    `exit_code`.

    Control characters in what it writes become visible escapes. An answer that could not be written is an error; a
    reader (head, less) that has gone is none.
    """
    from trainplan.planner.cli.streams import guarded, undelivered

    with guarded():
        code = _run(arguments)
        why = undelivered(sys.stdout)
        if why and code == 0:
            from trainplan.planner.errors import ThisMachineError

            hint = "the command did its work, but its output is lost"
            code = _say(ThisMachineError(f"the output could not be written to stdout: {why}", hint))
        sys.stderr.flush()
        return code


def _run(arguments: list[str]) -> int:
    if arguments == ["--version"]:  # answered before typer is imported
        return _print_version()
    # Pydantic would search every installed distribution for plugins; none of ours has any.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    # Hundreds of thousands of objects are made at start-up and none is garbage: looking for some takes 40 ms.
    gc.set_threshold(1_000_000)
    from trainplan.planner.cli.app import command

    as_json = "--json" in arguments
    from trainplan.planner.errors import ExitCode, PlanError, from_provider
    from trainplan.planner.home.files import private_files
    from trainplan.providers.errors import ProviderError
    from trainplan.providers.interrupts import HungUp

    try:
        with private_files():
            _mend_home()
            return command(arguments)
    except PlanError as error:
        return _say(error, as_json=as_json)
    except ProviderError as error:
        return _say(from_provider(error), as_json=as_json)
    except (KeyboardInterrupt, HungUp):
        return int(ExitCode.INTERRUPTED)
    finally:
        if "trainplan.planner.api.build" in sys.modules:  # else no provider was made
            sys.modules["trainplan.planner.api.build"].let_go()


def _mend_home() -> None:
    """Say whether the home was, or is, open to other users of this computer."""
    if "_PLAN_COMPLETE" in os.environ:  # a shell completes: a line would stand in what is being typed
        return
    from trainplan.planner.errors import BadInputError
    from trainplan.planner.home.files import mended
    from trainplan.planner.settings import home_of

    with suppress(BadInputError):  # a command that needs the home says what is wrong with it
        line = mended(home_of(os.environ))
        if line:
            sys.stderr.write(f"{line}\n")


def _warn_of_unverified() -> None:
    """A line on stderr for each run whose teardown nobody could make sure of, whatever the command was."""
    from trainplan.planner.errors import PlanError
    from trainplan.planner.settings import load_settings

    try:
        journal = load_settings(os.environ).journal
    except PlanError:
        return  # the command itself has said what is wrong with the settings
    for line in _unverified(journal) if journal.exists() else ():
        sys.stderr.write(f"warning: {line}\n")


def _unverified(journal: Path) -> list[str]:
    import sqlite3
    from contextlib import closing

    try:
        # Read by hand: the journal's own modules would slow down the end of every command.
        with closing(sqlite3.connect(f"{journal.absolute().as_uri()}?mode=ro", uri=True)) as db:
            rows = db.execute("SELECT unverified FROM runs WHERE unverified IS NOT NULL AND phase <> 'done'").fetchall()
    except sqlite3.Error:
        return []
    return [f"{row[0]}; plan status looks again" for row in rows]


def _print_version() -> int:
    sys.stdout.write(f"plan {__version__}\n")
    return 0


def _say(error: object, *, as_json: bool = False) -> int:
    from trainplan.planner.cli.streams import is_empty
    from trainplan.planner.errors import PlanError

    assert isinstance(error, PlanError)
    if as_json and is_empty(sys.stdout):
        import json

        # A program that reads one JSON document must not find two.
        record = {"error": error.message, "hint": error.hint, "field": error.field, "exit_code": int(error.exit_code)}
        sys.stdout.write(json.dumps(record) + "\n")
    sys.stdout.flush()
    sys.stderr.write(f"error: {error.message}\n")
    if error.hint:
        sys.stderr.write(f"hint: {error.hint}\n")
    return int(error.exit_code)
