"""Whether all options of a script are known, so that its parser refuses any other argument; nothing of it runs.

It is so where argparse or click alone reads the command line, and each declaration is written out. In doubt it is not:
an argument is refused for its name only where the script would refuse it too.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from trainplan.workloads.script_imports import imports_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_OPEN = {"parse_known_args", "parse_known_intermixed_args", "add_subparsers", "DEFINE_flag"}
_OWN_WORDS = {"parents", "prefix_chars", "fromfile_prefix_chars"}
_DECLARES = re.compile(r"add_\w*(arg|option|flag)\w*", re.IGNORECASE)
_DECLARED_HERE = {"add_argument", "add_argument_group"}
_OF_A_PARSER = re.compile(r"(?!(Raw)?ConfigParser)[A-Z]\w*Parser")
_REST = {"...", "A...", "REMAINDER", "PARSER"}
_OF_CLICK = {"command", "option", "version_option", "help_option", "pass_context"}
_OTHER_PARSERS = re.compile(r"absl|fire|tyro|typer|hydra|docopt|simple_parsing|\w+argparse|gin|tap")


def has_all_options(trees: Iterable[ast.Module]) -> bool:
    """Whether options_of the same modules has every option that the command line may hold."""
    trees = [*trees]
    modules = {one.module.partition(".")[0] for tree in trees for one in imports_of(tree)}
    if any(_OTHER_PARSERS.fullmatch(name) for name in modules) or modules.issuperset(("argparse", "click")):
        return False
    nodes = [node for tree in trees for node in ast.walk(tree)]
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    own = {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
    names = {name_of(call.func) for call in calls}
    if names & _OPEN or any(_DECLARES.fullmatch(name) for name in names - own - _DECLARED_HERE):
        return False
    if any(_changes_words(node) for node in nodes):
        return False
    if "argparse" in modules:
        return "parse_args" in names and _is_plain_argparse(nodes, calls, own)
    return "click" in modules and _is_plain_click(nodes)


def needs_command(trees: Iterable[ast.Module]) -> bool:
    """Whether the first word of the command line has to be a command: argparse's subparsers that are required, a group
    of click that does nothing without one."""
    for node in (node for tree in trees for node in ast.walk(tree)):
        words = {word.arg: word.value for word in node.keywords} if isinstance(node, ast.Call) else {}
        if isinstance(node, ast.Call) and name_of(node.func) == "add_subparsers":
            if isinstance(words.get("required"), ast.Constant) and ast.unparse(words["required"]) == "True":
                return True
        elif isinstance(node, ast.FunctionDef):
            for one in node.decorator_list:
                names = {word.arg for word in one.keywords} if isinstance(one, ast.Call) else set()
                if ast.unparse(_called(one)) == "click.group" and "invoke_without_command" not in names:
                    return True
    return False


def _is_plain_argparse(nodes: list[ast.AST], calls: list[ast.Call], own: set[str]) -> bool:
    if any(isinstance(node, ast.ClassDef) and {*map(name_of, node.bases)} & {"ArgumentParser"} for node in nodes):
        return False
    if {name for call in calls if _OF_A_PARSER.fullmatch(name := name_of(call.func))} != {"ArgumentParser"}:
        return False
    parsers = {*_named(nodes, {"ArgumentParser", "add_argument_group", "add_mutually_exclusive_group"})}
    for call in calls:
        words = {word.arg for word in call.keywords}
        name = name_of(call.func)
        if name == "ArgumentParser" and (words & _OWN_WORDS or None in words):
            return False
        if name == "add_argument" and not _is_written_out(call):
            return False
        if name == "parse_args" and not all(_is_command_line(one) for one in call.args):
            return False
        given = [*call.args, *(word.value for word in call.keywords)]
        if name not in own and any(isinstance(one, ast.Name) and one.id in parsers for one in given):
            return False  # another library adds options of its own
    return True


def _is_written_out(call: ast.Call) -> bool:
    texts = all(isinstance(one, ast.Constant) and isinstance(one.value, str) for one in call.args)
    words = {word.arg: word.value for word in call.keywords}
    nargs = words.get("nargs")
    rest = nargs.value if isinstance(nargs, ast.Constant) else name_of(nargs)
    return texts and bool(call.args) and None not in words and rest not in _REST


def _is_command_line(node: ast.expr) -> bool:
    """`parse_args(argv)`, `parse_args(sys.argv[1:])`; a list is not."""
    return isinstance(node, ast.Name) or ast.unparse(node) in ("sys.argv[1:]", "argv[1:]", "None")


def _is_plain_click(nodes: list[ast.AST]) -> bool:
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef)]
    commands = [
        one.decorator_list for one in functions if "command" in {name_of(_called(each)) for each in one.decorator_list}
    ]
    if len(commands) != 1:
        return False
    for one in commands[0]:
        if name_of(_called(one)) not in _OF_CLICK:
            return False
        if isinstance(one, ast.Call) and (
            {word.arg for word in one.keywords} & {"context_settings", "cls", None}
            or not all(isinstance(text, ast.Constant) for text in one.args)
        ):
            return False
    return True


def _called(node: ast.expr) -> ast.expr:
    return node.func if isinstance(node, ast.Call) else node


def _named(nodes: Iterable[ast.AST], makers: set[str]) -> Iterator[str]:
    """The variables that hold what these functions return."""
    for node in nodes:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and name_of(node.value.func) in makers:
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))


def _changes_words(node: ast.AST) -> bool:
    """Whether `sys.argv`, or a part of it, is written or changed."""
    if isinstance(node, ast.Attribute) and node.attr == "argv":
        return not isinstance(node.ctx, ast.Load)
    if isinstance(node, ast.Subscript):
        return name_of(node.value) == "argv" and not isinstance(node.ctx, ast.Load)
    return isinstance(node, ast.Attribute) and name_of(node.value) == "argv"


def name_of(node: ast.AST | None) -> str:
    """`store` of `argparse.store` and of `store`; "" for what is neither."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
