"""The manual page plan(1), as roff for `man`: written from the command tree, so that it says what `--help` says.

`python -m scripts.man_page FILE` writes it. The build hook (hatch_build.py) puts it into every wheel, from where pip,
pipx and uv lay it below share/man/man1 of the environment.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from trainplan.planner import __version__
from trainplan.planner.cli.app import whole_app
from trainplan.planner.errors import ExitCode

COLUMNS_OF_HELP = 10_000
"""So wide that click breaks no line: roff fills lines itself."""
COLUMNS_OF_ROFF = 76
MEANINGS = {
    ExitCode.OK: "success",
    ExitCode.BAD_INPUT: "wrong input: a job file, an option or a value",
    ExitCode.NOTHING_LEFT: "no offer is left after the filters",
    ExitCode.REFUSED: "refused: credentials, permission or quota",
    ExitCode.NO_CAPACITY: "no placement has capacity, or each took the machine back before there was a checkpoint",
    ExitCode.TRAINING_FAILED: "the training failed",
    ExitCode.TEARDOWN_UNVERIFIED: "the teardown is not confirmed: something may still exist and bill; or a store has "
    "not answered whether results are there",
    ExitCode.LIMIT_REACHED: "the deadline or the budget is reached",
    ExitCode.THIS_MACHINE: "a problem of this computer: engine, disk or journal",
    ExitCode.INTERRUPTED: "interrupted",
}
DESCRIPTION = """\
plan predicts how long a VGG-style CNN takes to train and what that costs, on the GPUs and TPUs that AWS, Google Cloud \
and Azure rent, and on this computer. plan launch rents the cheapest machine that fits, trains in a container, fetches \
the model, deletes what it created, and confirms with the provider that nothing is left."""
EXAMPLES = (
    ("plan init job.yaml --model vgg16 --dataset cifar10", "Write a job file."),
    ("plan estimate job.yaml", "Show the offers, the cheapest first."),
    ("plan launch job.yaml --provider local", "Train on this computer."),
    ("plan status", "Show the runs, their progress and cost, and what still bills."),
)
PLACEMENTS = (
    ("PLAN_HOME", "The folder with the journal, data sets and run directories, in place of the user's data folder."),
    ("settings.toml", "In that folder: your settings and your own rates."),
    ("/etc/trainplan/settings.toml", "The settings of everybody on this computer."),
)


def man_page() -> str:
    """The page, in the man macros that groff and mandoc both read."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    root = typer.main.get_command(whole_app())
    context = root.make_context("plan", [], resilient_parsing=True)
    context.max_content_width = context.terminal_width = COLUMNS_OF_HELP
    yield f'.TH PLAN 1 "" "trainplan {__version__}" "User Commands"'
    yield from (".nh", ".ad l")  # names of networks and data sets are not divided
    # whatis and apropos show this line: the first sentence alone.
    yield from (".SH NAME", f"plan \\- {_text(_first_in_lower_case((root.help or '').split('.')[0]))}")
    yield from (".SH SYNOPSIS", ".B plan", r"[\fIOPTIONS\fR] \fICOMMAND\fR [\fIARGUMENTS\fR]")
    yield from (".SH DESCRIPTION", _text(DESCRIPTION))
    yield from (".SH OPTIONS", *_records(root, context))
    yield ".SH COMMANDS"
    yield from _commands(root, context)
    yield ".SH EXAMPLES"
    for line, meaning in EXAMPLES:
        yield from (".TP", rf"\fB{_text(line)}\fR", _text(meaning))
    yield ".SH ENVIRONMENT AND FILES"
    for name, meaning in PLACEMENTS:
        yield from (".TP", rf"\fB{_text(name)}\fR", _text(meaning))
    yield ".SH EXIT STATUS"
    for code in ExitCode:
        yield from (".TP", rf"\fB{int(code)}\fR", _text(MEANINGS[code]))


def _commands(group: Any, context: Any) -> Iterator[str]:
    """Each command below a group, in the order of `--help`, and then its own commands."""
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command.hidden:
            continue
        own = type(context)(command, info_name=name, parent=context)
        usage = " ".join(command.collect_usage_pieces(own))
        yield f'.SS "{_text(own.command_path)}"'
        yield rf"\fB{_text(own.command_path)}\fR {_text(usage)}"
        yield from (".PP", f"{_text((command.help or '').strip()).rstrip('.')}.")
        yield from _records(command, own)
        if hasattr(command, "list_commands"):
            yield from _commands(command, own)


def _records(command: Any, context: Any) -> Iterator[str]:
    """The arguments and options of a command, as its `--help` has them, without `--help` itself."""
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is None or (parameter.name == "help" and command is not context.find_root().command):
            continue
        name, meaning = record
        yield from (".TP", rf"\fB{_text(name)}\fR", _text(meaning) or r"\&")


def _first_in_lower_case(sentence: str) -> str:
    return (sentence[:1].lower() + sentence[1:]).rstrip(".")


def _text(text: str) -> str:
    """As roff that prints the text as it is: hyphens that can be copied, and no line that reads as a macro."""
    escaped = text.replace("\\", r"\e").replace("-", r"\-").replace('"', r"\(dq")
    lines = textwrap.wrap(escaped, COLUMNS_OF_ROFF, break_long_words=False, break_on_hyphens=False)
    return "\n".join(rf"\&{line}" if line.startswith((".", "'")) else line for line in lines)


def main(arguments: list[str]) -> int:
    """Write the manual page into the file that is named."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m scripts.man_page FILE\n")
        return 2
    target = Path(arguments[0])
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(man_page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
