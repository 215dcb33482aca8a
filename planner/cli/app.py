"""The command tree: imports the one command that was typed, all of them only for help and completion."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from trainplan.planner import __version__
from trainplan.planner.cli.completion import words_typed
from trainplan.planner.cli.typed import remember
from trainplan.planner.errors import BadInputError, DeclinedError, ExitCode
from trainplan.planner.extensions import ExtensionCommand, extension_commands, refuse_unusable
from trainplan.providers.plug_ins import PlugIn

# What each command of the core does, in the order and under the headings of `plan --help`. The module of a command
# is imported when it is typed: the start-up of one command never pays for another.
_CORE = {
    "Begin": {
        "init": "Write a job file",
        "data": "Check a folder of images; upload, list and remove data sets",
        "doctor": "Check what a launch needs at a provider",
        "setup": "Prepare an account",
    },
    "Choose a machine": {
        "estimate": "Predict a job's time and cost on every rentable device",
        "pilot": "Try machines for a few cents first, when that should save more",
        "measure": "Measure a job's throughput on this machine, in a short run",
        "devices": "List the known accelerators",
        "prices": "Show, read, accept and check prices",
        "throughput": "Compare the predictor with measurements",
    },
    "Train": {
        "launch": "Train a job, fetch the model, delete what was created",
        "status": "Show the state of a run, or of all runs that have not ended",
        "attach": "Follow a run that was left running",
        "logs": "Show the output of a run",
        "stop": "End a run; its newest checkpoint is kept",
    },
    "Results": {
        "report": "Show what a run took, cost and reached, as text or a page",
        "predict": "Classify images with a trained model",
        "convert": "Write a model for a phone, a browser or another program",
        "history": "List past runs with estimated and actual time and cost",
    },
    "Money and leftovers": {
        "cleanup": "Find and delete resources that runs have left",
        "burn": "List what costs money in the accounts, whoever created it",
        "bill": "Show the vendor's bill beside the receipts",
    },
}
_CORE_COMMANDS = {name: summary for group in _CORE.values() for name, summary in group.items()}

_errors = import_module(typer.BadParameter.__module__)
"""Click's classes of errors in how a command was typed, of which Typer exports one. Typer may bring its own click."""


@cache
def _extensions() -> dict[str, ExtensionCommand | PlugIn]:
    """Looked for when a name is typed that the core does not have, and for help and completion."""
    return extension_commands(_CORE_COMMANDS)


def groups() -> dict[str, dict[str, str]]:
    """What each command does, by the headings of `plan --help`: those of the core, then what extensions bring."""
    by_heading = {heading: dict(summaries) for heading, summaries in _CORE.items()}
    for name, extension in _extensions().items():
        if isinstance(extension, ExtensionCommand):
            by_heading.setdefault(extension.heading, {})[name] = extension.summary
        elif name not in _CORE_COMMANDS:
            by_heading.setdefault("Cannot be used", {})[name] = extension.problem
    return by_heading


def commands() -> dict[str, str]:
    """What each command does, in the order of `plan --help`."""
    return {name: summary for summaries in groups().values() for name, summary in summaries.items()}


class _Command(TyperCommand):
    """A command whose errors have their context, and a class each: click's of a word too many is none of its own."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.allow_extra_args = True
        try:
            rest = super().parse_args(ctx, args)
        except _errors.UsageError as error:
            error.ctx = error.ctx or ctx
            raise
        if rest and not ctx.resilient_parsing:
            raise _refused(f"{ctx.command_path} has no place for: {' '.join(rest)}", ctx)
        return rest


class _Group(TyperGroup):
    """A command with commands below it; as above."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-") and not ctx.resilient_parsing:
            raise self._unknown(name, ctx)
        return super().resolve_command(ctx, args)

    def _unknown(self, name: str, ctx: Any) -> BadInputError:
        message = f"there is no command {name!r}"
        if ctx.parent is None and (known := commands().get(meant := _OTHER_COMMANDS.get(name.lower(), ""))):
            return BadInputError(message, f"plan {meant}: {known}")
        import difflib  # costs 5 ms, and only a mistake needs it

        return _refused(message, ctx, next(iter(difflib.get_close_matches(name, self.commands, n=1)), ""))


class _InOrder(_Group):
    """Commands in the order of `groups`, under their headings; Typer would list commands with sub-commands last."""

    def list_commands(self, ctx: Any) -> list[str]:
        del ctx
        return [name for name in commands() if name in self.commands] if len(self.commands) > 1 else [*self.commands]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """A section for each group. Summaries are wrapped where the screen is narrow; Typer would cut them."""
        del ctx
        width = max(map(len, commands()))
        for title, summaries in groups().items():
            rows = [(name.ljust(width), summaries[name]) for name in summaries if name in self.commands]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


def command(arguments: list[str]) -> int:
    """Run one command line (an empty one as `--help`, `help X` as `X --help`) and return its exit code.

    Raises PlanError.
    """
    arguments = arguments or ["--help"]
    if arguments[0] == "help":
        arguments = [*arguments[1:], "--help"]
    remember(arguments)
    cli = _parser(*_commands_for(arguments))
    try:
        code = cli.main(args=arguments, prog_name="plan", standalone_mode=False)
    except _errors.UsageError as error:
        raise _bad_usage(error) from None
    except typer.Exit as ending:
        return ending.exit_code
    except (typer.Abort, DeclinedError):
        return int(ExitCode.INTERRUPTED)
    except SystemExit:
        return 0  # how typer answers a reader (head, less) that has gone
    return int(code or 0)


def whole_app() -> typer.Typer:
    """The tree with every command, as help and completion have it."""
    return _app(*_commands_for([]))


def _as_listed() -> None:
    """A command of which a shell wants the name alone."""


def _commands_for(arguments: list[str]) -> tuple[tuple[str, ...], bool]:
    """The commands that a command line may mean, and whether a shell wants their names alone."""
    words = words_typed()
    typed = next((word for word in (arguments if words is None else words) if not word.startswith("-")), "")
    if typed in _CORE_COMMANDS or typed in _extensions():
        return (typed,), False
    return tuple(commands()), words is not None


@cache
def _parser(names: tuple[str, ...], are_listed: bool) -> Any:
    """What reads a command line. Kept, since to build it takes longer than most commands do."""
    return typer.main.get_command(_app(names, are_listed))


def _app(names: tuple[str, ...], are_listed: bool) -> typer.Typer:
    app = typer.Typer(
        name="plan",
        cls=_InOrder,
        help="Estimate what a training run costs, then launch it.\n\nEvery command has --json (docs/output.md).",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        rich_markup_mode=None,
    )
    app.callback()(_root)
    for name in names:
        if are_listed:
            app.command(name, help=commands()[name])(_as_listed)
        else:
            _add(app, name)
    return app


def _refusal(command: PlugIn) -> Callable[[], None]:
    def refuse() -> None:  # Typer reads the signature of a function; it takes no partial
        refuse_unusable(command)

    return refuse


def _add(app: typer.Typer, name: str) -> None:
    extension = None if name in _CORE_COMMANDS else _extensions()[name]
    if isinstance(extension, PlugIn):
        app.command(name, help=extension.problem)(_refusal(extension))
        return
    module = import_module(extension.module if extension else f"trainplan.planner.cli.commands.{name}")
    summary = extension.summary if extension else _CORE_COMMANDS[name]
    if hasattr(module, "group"):
        for below in module.group.registered_commands:
            below.cls = _Command
        app.add_typer(module.group, name=name, help=summary, cls=_Group)
    else:
        app.command(name, cls=_Command, help=summary)(module.command)


def _root(
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit", is_eager=True)] = False,
) -> None:
    if version:
        typer.echo(f"plan {__version__}")
        raise typer.Exit


_AS_WRITTEN = ("plan launch", "plan export", "plan measure")
"""The commands that need a job file: what is trained stands in a file that can be read again."""


def _is_of_a_job(option: str) -> bool:
    from trainplan.planner.cli.job_options import OF_A_JOB

    return option.removeprefix("--").removeprefix("no-").replace("-", "_") in OF_A_JOB


def _bad_usage(error: Any) -> BadInputError:
    context, option = error.ctx, getattr(error, "option_name", None)
    path = context.command_path if context is not None else "plan"
    if path in _AS_WRITTEN and option is not None and _is_of_a_job(option):
        message = f"{path} takes a job as its file has it; {option} is an option of plan estimate"
        return BadInputError(message, "change the job file; plan estimate JOB.yaml shows what a change would do")
    near = _meant_option(error.option_name, context) if isinstance(error, _errors.NoSuchOption) else ""
    parameter = getattr(error, "param", None)
    return _refused(_in_words(error, path), context, near, option if parameter is None else _name_of(parameter))


def _refused(message: str, context: Any, near: str = "", field: str | None = None) -> BadInputError:
    path, command = ("plan", None) if context is None else (context.command_path, context.command)
    is_group = command is None or hasattr(command, "list_commands")
    help_hint = f"{path} --help lists its {'commands' if is_group else 'options'}"
    return BadInputError(message, f"did you mean {near}? {help_hint}" if near else help_hint, field=field)


def _in_words(error: Any, path: str) -> str:
    """What is wrong in how a command was typed, by the class of the error and by what it carries."""
    parameter = getattr(error, "param", None)
    match error:
        case _errors.NoSuchOption():
            return f"there is no option {error.option_name}"
        case _errors.BadOptionUsage():
            known = error.ctx.command.params if error.ctx is not None else ()
            flags = [
                name for one in known if getattr(one, "is_flag", False) for name in (*one.opts, *one.secondary_opts)
            ]
            return f"{error.option_name} {'takes no' if error.option_name in flags else 'needs a'} value"
        case _errors.MissingParameter() if parameter is not None:
            return f"{_name_of(parameter)} is missing"
        case _errors.BadParameter() if parameter is not None:
            return f"{_name_of(parameter)}: {_why_refused(error)}"
    if error.ctx is not None and hasattr(error.ctx.command, "list_commands"):
        return f"{path} needs a command"
    return str(error.message).rstrip(".")


def _name_of(parameter: Any) -> str:
    return str(parameter.opts[0] if parameter.param_type_name == "option" else parameter.metavar or parameter.name)


def _why_refused(error: Any) -> str:
    """Why a value was refused: pydantic, which Typer asks, has the kind of mistake and the limit."""
    details: list[dict[str, Any]] = getattr(error.__cause__, "errors", list)()
    kind, limits = (details[0]["type"], details[0].get("ctx", {})) if details else ("", {})
    match kind:
        case "greater_than_equal":
            return f"must be at least {limits['ge']}"
        case "less_than_equal":
            return f"must be at most {limits['le']}"
        case "int_parsing" | "int_from_float" | "int_type":
            return "must be a whole number"
        case "float_parsing" | "float_type":
            return "must be a number"
        case _:
            return str(limits.get("error", error.message)).rstrip(".")


_OTHER_COMMANDS = {
    **dict.fromkeys(("train", "run", "up", "start", "submit", "apply", "fit"), "launch"),
    **dict.fromkeys(("ls", "list", "ps", "jobs", "runs", "queue", "top"), "status"),
    **dict.fromkeys(("down", "kill", "cancel", "terminate", "abort"), "stop"),
    **dict.fromkeys(("gpus", "gpu", "show-gpus", "accelerators", "instances"), "devices"),
    **dict.fromkeys(("offers", "offer", "plan", "cost", "price", "show"), "estimate"),
    **dict.fromkeys(("login", "auth", "configure", "check"), "doctor"),
    **dict.fromkeys(("new", "create"), "init"),
    **dict.fromkeys(("log", "output", "tail"), "logs"),
    **dict.fromkeys(("clean", "sweep", "destroy", "delete", "rm", "gc"), "cleanup"),
    **dict.fromkeys(("classify", "infer", "inference", "test"), "predict"),
    **dict.fromkeys(("dashboard", "web", "ui"), "serve"),
    **dict.fromkeys(("results", "result", "metrics"), "report"),
}
"""What other tools and newcomers call the commands."""
_OTHER_NAMES = {
    **dict.fromkeys(("gpu", "gpus", "accelerator", "accelerators", "d"), "--device"),
    **dict.fromkeys(("p", "cloud", "clouds"), "--provider"),
    **dict.fromkeys(("batch-size", "batch_size", "b"), "--batch"),
    **dict.fromkeys(("max-price", "max-budget", "cost"), "--budget"),
    **dict.fromkeys(("spot", "preemptible"), "--market spot"),
    **dict.fromkeys(("verbose", "v"), "--notes"),
    **dict.fromkeys(("n", "top"), "--limit"),
}
"""What other tools call the options, without dashes."""


def _meant_option(option: str, context: Any) -> str:
    """The option that comes nearest to one that the command does not have; "" where none does."""
    import difflib  # costs 5 ms, and only a mistake needs it

    parameters = getattr(getattr(context, "command", None), "params", [])
    known = [name for one in parameters for name in getattr(one, "opts", []) if name.startswith("--")]
    other = _OTHER_NAMES.get(option.lstrip("-").lower(), "")
    if other.partition(" ")[0] in known:
        return other
    if _is_of_a_job(option):  # it is meant, and another command has it
        return ""
    # Nearer than names of models have to be: an option that is merely similar does something else.
    return next(iter(difflib.get_close_matches(option, known, n=1, cutoff=0.75)), "")
