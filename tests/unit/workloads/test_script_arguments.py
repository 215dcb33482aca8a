"""Arguments reach a script as it means them: each is held against argparse or the parser that the script declares."""

from __future__ import annotations

import argparse
import ast
from pathlib import Path
from typing import Any

import pytest

from tests.rows import each_row
from trainplan.workloads.script import Arguments, ReadScript, argument_problems, argument_words, refused_arguments
from trainplan.workloads.script_command_line import has_all_options
from trainplan.workloads.script_parser import options_of

SCRIPT = """\
import argparse, ast

def str2bool(word):
    if word.lower() in ("yes", "true", "1"):
        return True
    if word.lower() in ("no", "false", "0"):
        return False
    raise argparse.ArgumentTypeError(word)

p = argparse.ArgumentParser()
p.add_argument("folder", nargs="?")
p.add_argument("--augment", action=argparse.BooleanOptionalAction, default=True)
p.add_argument("--pretrained", type=str2bool, default=True)
p.add_argument("--exact", type=lambda word: word == "True", default=True)
p.add_argument("--plain", type=ast.literal_eval, default=None)
p.add_argument("--amp", action="store_true")
p.add_argument("--no-shuffle", dest="shuffle", action="store_false")
p.add_argument("--pin", dest="pin", action="store_true")
p.add_argument("--no-pin", dest="pin", action="store_false")
p.set_defaults(pin=True)
p.add_argument("--sticky", action="store_true", default=True)
p.add_argument("--trap", type=bool, default=True)
p.add_argument("--number", type=int, default=1)
p.add_argument("--text", default="yes")
p.add_argument("--weights")
p.add_argument("--learning-rate", type=float, default=0.1)
p.add_argument("-b", "--batch-size", type=int, default=8)
p.add_argument("-j", type=int, default=0)
p.add_argument("--sizes", type=int, nargs="+", default=[1])
p.add_argument("--tag", action="append")
p.add_argument("--mode", choices=["True", "False"], default="True")
"""
OPTIONS = options_of([ast.parse(SCRIPT)])


def parsed(words: tuple[str, ...]) -> argparse.Namespace:
    names: dict[str, Any] = {}
    exec(compile(SCRIPT, "train.py", "exec"), names)
    parser: argparse.ArgumentParser = names["p"]
    return parser.parse_args(words)


@each_row(
    ("key", "value", "dest", "expected"),
    [
        *((key, value, key, value) for key in ("augment", "pretrained", "exact", "plain") for value in (True, False)),
        *((key, value, key, value) for key in ("amp", "shuffle", "pin") for value in (True, False)),
        ("no-shuffle", True, "shuffle", False),
        ("no-shuffle", False, "shuffle", True),
        ("no-pin", True, "pin", False),
        ("sticky", True, "sticky", True),
        ("mode", False, "mode", "False"),
        ("weights", None, "weights", None),
        ("plain", None, "plain", None),
        ("learning_rate", 1e-05, "learning_rate", 1e-05),
        ("batch_size", 4, "batch_size", 4),
        ("b", 4, "batch_size", 4),
        ("j", 2, "j", 2),
        ("sizes", (32, 64), "sizes", [32, 64]),
        ("tag", ("a", "b"), "tag", ["a", "b"]),
        ("folder", "images", "folder", "images"),
    ],
)
def test_an_argument_arrives_as_it_was_written(key: str, value: Any, dest: str, expected: object) -> None:
    args = {key: value}
    assert not [*argument_problems(args, OPTIONS)]
    assert getattr(parsed(argument_words(args, OPTIONS)), dest) == expected


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("sticky", False, "no option of the script makes --sticky false"),
        ("trap", False, "for type=bool every text is true"),
        ("trap", True, "for type=bool every text is true"),
        ("number", True, "takes a text or a number"),
        ("text", False, "takes a text or a number"),
        ("text", None, "another default than null"),
        ("text", ("a", "b"), "takes no list"),
        ("amp", 3, "takes no value; write true or false"),
        ("nowhere", False, "write its text in quotes (nowhere: 'False')"),
        ("nowhere", None, "how the script takes null"),
    ],
)
def test_what_a_script_cannot_be_told_is_refused(key: str, value: Any, message: str) -> None:
    problems = [*argument_problems({key: value}, OPTIONS)]
    assert len(problems) == 1
    assert problems[0].startswith(f"args.{key}: ")
    assert message in problems[0]


def test_click_and_absl_are_read_too() -> None:
    tree = ast.parse(
        "@click.option('--augment/--plain', default=True)\n@click.option('--fast', is_flag=True)\n"
        "@click.option('--pretrained', type=bool)\n@click.option('--size', multiple=True)\ndef main(): ...\n"
        "flags.DEFINE_boolean('ema', True, 'help')\n"
    )
    args: Arguments = {"augment": False, "ema": False, "fast": False, "pretrained": False, "size": (1, 2)}
    words = ("--plain", "--noema", "--pretrained", "false", "--size", "1", "--size", "2")
    assert not [*argument_problems(args, options_of([tree]))]
    assert argument_words(args, options_of([tree])) == words


def test_hostile_declarations_give_no_option(tmp_path: Path) -> None:
    lines = [f"p.add_argument('--{'x' * 200}')", "p.add_argument(*names)", "p.add_argument()", "p.add_argument(3)"]
    lines += [f"p.add_argument('--a{number}')" for number in range(2_000)]
    assert len(options_of([ast.parse("\n".join(lines))])) == 512


HEAD = "import argparse\np = argparse.ArgumentParser()\np.add_argument('--epochs', type=int)\n"
END = "a = p.parse_args()\n"
CLICK = "import click\n@click.command()\n@click.option('--epochs')\n"


def a_read(source: str) -> ReadScript:
    trees = [ast.parse(source)]
    return ReadScript(sha256="0" * 64, source=source, options=options_of(trees), has_all_options=has_all_options(trees))


@pytest.mark.parametrize(
    ("source", "args", "problems"),
    [
        (HEAD + END, {"epochz": 3}, ["args.epochz: the script has no such argument; did you mean --epochs?"]),
        (HEAD + END, {"x": 3}, ["args.x: the script has no such argument; it has --epochs"]),
        (HEAD + END, ("--epochz", "3"), ["args: --epochz: the script has no such argument; did you mean --epochs?"]),
        (HEAD + END, {"epochs": 3}, []),
        (HEAD + END, ("--epo=3", "--help", "--", "--epochz"), []),
        (CLICK + "def main(epochs): ...", {"epochz": 3},
         ["args.epochz: the script has no such argument; did you mean --epochs?"]),
        (HEAD + "p.add_argument('--data', required=True)\n" + END, {},
         ["args: the script needs --data; write args: {data: …}"]),
        (HEAD + "p.add_argument('folder')\n" + END, {"epochs": 3},
         ["args: the script needs folder; write args: {folder: …}"]),
        (HEAD + "p.add_argument('folder', nargs='?')\n" + END, {}, []),
    ],
)  # fmt: skip
def test_an_argument_that_a_script_has_not_is_refused(source: str, args: Arguments, problems: list[str]) -> None:
    assert [*refused_arguments(args, a_read(source))] == problems


def test_a_sweep_gives_what_a_script_needs() -> None:
    read = a_read(HEAD + "p.add_argument('--lr', required=True)\n" + END)
    assert not [*refused_arguments({}, read, ["lr"])]
    assert [*refused_arguments({"lr": 1}, read, ["epochz"])]


@each_row(
    "source",
    [
        HEAD + "a, rest = p.parse_known_args()\n",
        HEAD + "p.add_argument('rest', nargs=argparse.REMAINDER)\n" + END,
        HEAD + "for name in names: p.add_argument(name)\n" + END,
        HEAD + "p.add_argument('--x', **words)\n" + END,
        HEAD + "from deepspeed import add_config_arguments\np = add_config_arguments(p)\n" + END,
        HEAD + "import library\nlibrary.extend(p)\n" + END,
        HEAD + "sys.argv.remove('--x')\n" + END,
        HEAD + "sys.argv = sys.argv[:1]\n" + END,
        HEAD + "a = p.parse_args([])\n",
        HEAD + "s = p.add_subparsers()\n" + END,
        "import argparse\np = HfArgumentParser(Own)\n" + END,
        HEAD.replace("ArgumentParser()", "ArgumentParser(parents=[other])") + END,
        HEAD.replace("import argparse", "import configargparse as argparse") + END,
        "import argparse\nclass Own(argparse.ArgumentParser): ...\n" + HEAD + END,
        "from absl import flags\nflags.DEFINE_integer('epochs', 3, '')\n",
        "import fire\nfire.Fire(main)\n",
        CLICK + "@click.argument('more')\ndef main(epochs): ...",
        CLICK.replace("command()", "command(context_settings=own)") + "def main(epochs): ...",
        CLICK + "@own_options\ndef main(epochs): ...",
        "print(1)\n",
    ],
)
def test_where_options_may_come_from_elsewhere_none_is_refused(source: str) -> None:
    read = a_read(source)
    assert not read.has_all_options
    assert not [*refused_arguments({"epochz": 3}, read)]


def test_a_function_of_the_script_may_declare_options() -> None:
    read = a_read("import argparse\ndef add_own_args(p):\n p.add_argument('--lr')\n" + HEAD + "add_own_args(p)\n" + END)
    assert read.has_all_options
    assert [*refused_arguments({"lr": 1}, read)] == []


@pytest.mark.parametrize(
    ("declared", "value", "message"),
    [
        ("type=int", 0.5, "takes a whole number"),
        ("type=float", "fast", "takes a number"),
        ("choices=['sgd', 'adam']", "adamw", "takes one of sgd, adam"),
    ],
)
def test_a_value_that_a_parser_refuses_is_refused_here(declared: str, value: Any, message: str) -> None:
    options = options_of([ast.parse(f"p.add_argument('--name', {declared})")])
    (problem,) = argument_problems({"name": value}, options)
    assert message in problem
    assert not [*argument_problems({"name": "sgd" if "choices" in declared else 3}, options)]


@pytest.mark.parametrize(
    ("declared", "value", "message"),
    [
        ("p.add_argument('--name', nargs=2, type=float)", (0.9,), "takes 2 values, not 1"),
        ("p.add_argument('--name', nargs=2, type=float)", 0.9, "takes 2 values, not 1"),
        ("p.add_argument('--name', nargs='+', type=int)", (1, "a"), "takes a whole number"),
        ("click.option('--name', nargs=2)", (1, 2, 3), "takes 2 values, not 3"),
        ("click.option('--name', type=click.Choice(['sgd', 'adam']))", "lion", "takes one of sgd, adam"),
        ("flags.DEFINE_enum('name', 'sgd', ['sgd', 'adam'], '')", "lion", "takes one of sgd, adam"),
        ("flags.DEFINE_integer('name', 3, '')", 0.5, "takes a whole number"),
    ],
)
def test_each_value_of_a_list_and_their_number_are_held_against_the_parser(
    declared: str, value: Any, message: str
) -> None:
    (problem,) = argument_problems({"name": value}, options_of([ast.parse(declared)]))
    assert message in problem
