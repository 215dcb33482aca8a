"""Arguments reach a script as it means them: each is held against argparse or the parser that the script declares."""

from __future__ import annotations

import argparse
import ast
from pathlib import Path
from typing import Any

import pytest

from trainplan.workloads.script import Arguments, argument_problems, argument_words
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


@pytest.mark.parametrize(
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
