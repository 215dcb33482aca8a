"""Texts refer to options and commands of `plan` by `trainplan.workloads.wording`, and each front end has the word."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer

import trainplan
from trainplan.planner.api.calls import ARGUMENTS, Python, library_call
from trainplan.planner.cli.app import whole_app
from trainplan.planner.errors import PlanError
from trainplan.providers.errors import CapacityError
from trainplan.workloads.wording import Command, Option, Text, written_in

ROOT = Path(__file__).parents[2]
_PACKAGES = ("extensions", "planner", "pricing", "providers", "workloads")
_OWN_WORDS = re.compile(r"planner/cli/|extensions/\w+/\w*command\.py|workloads/trainer/|providers/agent/")
"""The command line itself, and what runs on the machine, where no front end is."""
_OTHER_PROGRAM = re.compile(r"\b(?:aws|az|gcloud|hf|ibmcloud|trackio|curl|pip|python|srun|squeue|uv|sha256sum) .*")
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
_KEYS = {"description", "help"}
"""Keyword arguments that document a key of a file."""
_AS_IT_IS = {
    "pricing/device_text.py": "the documentation of a key of a file",
    "extensions/export/hugging_face.py": "`add --dry-run` is of the command of Hugging Face above it",
    "workloads/script.py": "`--epochs` is the option of a script of the person's own",
}
_ALL_CALLS = (trainplan.estimate, trainplan.launch, trainplan.pilot, trainplan.Job.read)


@cache
def _commands() -> dict[tuple[str, ...], frozenset[str]]:
    """Each command of `plan`, by its words, with its options."""
    found: dict[tuple[str, ...], frozenset[str]] = {}

    def walk(command: Any, words: tuple[str, ...]) -> None:
        found[words] = frozenset(name for one in command.params for name in (*one.opts, *one.secondary_opts))
        for name, below in getattr(command, "commands", {}).items():
            walk(below, (*words, name))

    walk(typer.main.get_command(whole_app()), ())
    return found


@cache
def _trees() -> tuple[tuple[str, ast.Module], ...]:
    """The modules that may name an option or a command."""
    paths = [path for package in _PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    texts = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in paths}
    return tuple((name, ast.parse(text)) for name, text in texts.items() if "--" in text or "Command(" in text)


def _texts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and text of each constant or f-string that is no docstring; its values are `{}`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        if isinstance(node, ast.keyword) and node.arg in _KEYS:
            continue
        if isinstance(node, ast.JoinedStr):
            parts = (part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
            yield node.lineno, "".join(map(str, parts))
            for value in node.values:
                yield from _texts(value) if isinstance(value, ast.FormattedValue) else ()
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
        yield from _texts(node)


def _literal_options(text: str) -> list[str]:
    """The options of `plan` that a sentence has as letters."""
    own = {name for options in _commands().values() for name in options}
    if " " not in text.strip() or "\n" in text:  # an argument, or a whole file that is written
        return []
    return [name for name in _OPTION.findall(_OTHER_PROGRAM.sub("", text)) if name in own]


def test_no_text_has_an_option_of_plan_as_letters() -> None:
    found = [
        f"{path}:{line}: {name} in {text!r}"
        for path, tree in _trees()
        if not _OWN_WORDS.match(path) and path not in _AS_IT_IS
        for line, text in _texts(tree)
        for name in _literal_options(text)
    ]
    assert not found, "name it by trainplan.workloads.wording.Option:\n" + "\n".join(found)


def test_an_option_as_letters_is_found() -> None:
    tree = ast.parse('def f(usd):\n    """--budget"""\n    raise E("too much", f"raise --budget {usd}, or wait")')
    assert [(line, _literal_options(text)) for line, text in _texts(tree)][-1][1] == ["--budget"]
    assert _literal_options("aws ec2 create-default-vpc --region {}") == []
    assert _literal_options("--region") == []


def _references() -> Iterator[tuple[str, ast.Call]]:
    for path, tree in _trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Command":
                yield f"{path}:{node.lineno}", node


def test_every_command_that_a_text_names_is_one_and_has_its_options() -> None:
    """A command that is to be typed is one that can be typed."""
    count = 0
    for where, call in _references():
        words = [str(node.value) for node in call.args if isinstance(node, ast.Constant)]
        command = max((one for one in _commands() if list(one) == words[: len(one)]), key=len)
        assert command, f"{where}: plan has no command {words[0]}"
        for node in call.args:
            option = node.func if isinstance(node, ast.Call) else node
            if isinstance(option, ast.Attribute) and isinstance(option.value, ast.Name) and option.value.id == "Option":
                count += 1
                assert f"--{Option[option.attr].value}" in _commands()[command], f"{where}: {command} {option.attr}"
    assert count > 15


def test_a_text_that_is_a_constant_is_formed_where_it_is_shown() -> None:
    """An f-string of a module is formed when it is imported, in the words of whoever does that: `Text` is not."""
    early = [
        f"{path}:{node.lineno}"
        for path, tree in _trees()
        for statement in tree.body
        if not isinstance(statement, ast.FunctionDef | ast.ClassDef)
        for node in ast.walk(statement)
        if isinstance(node, ast.FormattedValue)
        and re.match(r"(Option\.|Command\((?!.*\.typed$))", ast.unparse(node.value))
    ]
    assert not early


@pytest.mark.parametrize("option", Option)
def test_an_option_is_one_of_the_command_line_and_its_argument_one_of_a_function(option: Option) -> None:
    assert any(str(option) in options for options in _commands().values())
    if option in ARGUMENTS:
        assert any(ARGUMENTS[option] in inspect.signature(call).parameters for call in _ALL_CALLS)
        with written_in(Python()):
            assert "--" not in f"{option} {option('1')}"


def test_an_argument_without_an_option_is_known_by_no_text() -> None:
    """What a command has too is called by its option in the command line."""
    own = {"offer", "plan", "job", "path", "quiet", "top"}
    assert {name for call in _ALL_CALLS for name in inspect.signature(call).parameters} - own <= {*ARGUMENTS.values()}


@pytest.mark.parametrize(
    ("text", "typed", "in_python"),
    [
        (Text("for example ", Option.BUDGET(20)), "for example --budget 20", "for example budget_usd=20"),
        (Text(Option.MAX_COST("1.96"), " takes them"), "--max-cost 1.96 takes them", "max_cost_usd=1.96 takes them"),
        (Text(Option.OBJECTIVE("cost")), "--objective cost", "objective='cost'"),
        (Text(Option.PROVIDER("local", "sim")), "--provider local or sim", "providers=['local'] or providers=['sim']"),
        (Text(Option.DEADLINE("4h"), ", raise ", Option.DEADLINE), "--deadline 4h, raise --deadline",
         "deadline='4h', raise deadline"),
        (Text("leave out ", Option.BATCH("auto")), "leave out --batch auto", "leave out batch='auto'"),
        (Text("choose another ", Option.OUTPUT), "choose another --output", "choose another model_folder"),
        (Text(Option.YES, " or ", Option.FREE), "--yes or --free", "yes=True or providers=['colab', 'kaggle']"),
        (Text(Command("stop", "261121-0badcafe"), " ends it"), "plan stop 261121-0badcafe ends it",
         "Run('261121-0badcafe').stop() ends it"),
        (Text(Command("attach", "261121-0badcafe")), "plan attach 261121-0badcafe", "Run('261121-0badcafe').wait()"),
        (Text(Command("history"), " lists runs"), "plan history lists runs", "runs() lists runs"),
        (Text(Command("estimate", "JOB.yaml", Option.RUN_FILE)), "plan estimate JOB.yaml --run-file",
         "Job.read(path, run_file=True)"),
        (Text(Command("estimate", Option.ALL)), "plan estimate --all", "estimate(job, every_placement=True)"),
    ],
)  # fmt: skip
def test_each_front_end_has_its_words(text: Text, typed: str, in_python: str) -> None:
    assert str(text) == typed
    with written_in(Python()):
        assert str(text) == in_python
    assert str(text) == typed


def test_a_launch_has_a_budget_of_its_own_and_searches_by_estimate() -> None:
    with written_in(Python(is_launch=True)):
        assert f"raise {Option.BUDGET}" == "raise max_cost_usd"
        assert f"{Option.PROVIDER('local')} trains here" == "estimate(job, providers=['local']) trains here"


@pytest.mark.parametrize(
    "command",
    [
        Command("stop", "261121-0badcafe", Option.CLIENT("any")),
        Command("launch", Option.ALLOW_RETIRED),
        Command("estimate", Option.EXPLAIN),
        Command("history", Option.JSON),
    ],
)
def test_a_command_without_a_counterpart_is_typed_as_it_stands(command: Command) -> None:
    """Half of a command in words of Python is neither."""
    with written_in(Python()):
        assert str(command) == command.typed
    assert command.typed.startswith("plan ")


@pytest.mark.parametrize(
    "hint",
    [
        "aws ec2 create-default-vpc --region eu-west-1 makes it",
        "aws freetier upgrade-account-plan --account-plan-type PAID --region us-east-1 ends the free plan",
        "gcloud compute networks subnets create it --network n --region europe-west4 --range 10.0.0.0/20",
    ],
)
def test_a_command_of_a_vendor_is_left_as_it_is(hint: str) -> None:
    with pytest.raises(PlanError) as caught, library_call():
        raise CapacityError("the region has no default network", hint=f"{hint}, or {Option.DEVICE('T4')}")
    assert caught.value.hint == f"{hint}, or devices=['T4']"
    assert caught.value.__notes__ == [f"hint: {hint}, or devices=['T4']"]
