"""What options a script has, read from the calls that declare them (argparse, click, absl flags); nothing of it runs.

A declaration that is made in a loop, or by another library, is not seen: its option is not known then, and an argument
that needs the knowledge is refused (script.py).
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Any, Literal

from trainplan.workloads.script import MOST_OPTIONS, Option
from trainplan.workloads.script_command_line import name_of

_NO_PAIR = {"BooleanOptionalAction"}
_FLAGS = {"store_true", "store_const", "count", "append_const"}
_MANY = {"*", "+", "...", "A..."}
_ABSL_TRUTH = {"DEFINE_bool", "DEFINE_boolean"}
_MOST_NAME = 100
_LOWER, _UPPER, _DIGITS = ("true", "false"), ("True", "False"), ("1", "0")


def options_of(trees: Iterable[ast.Module]) -> tuple[Option, ...]:
    """The options that the calls in these modules declare, at most MOST_OPTIONS, in their order."""
    calls: list[ast.Call] = []
    functions: dict[str, ast.FunctionDef] = {}
    defaults: dict[str, str] = {}
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                functions[node.name] = node
            elif isinstance(node, ast.Call):
                calls.append(node)
                if name_of(node.func) == "set_defaults":
                    defaults |= {word.arg: _default(word.value) for word in node.keywords if word.arg}
    calls.sort(key=lambda call: call.lineno)
    found = (option for call in calls for option in _options(call, functions, defaults))
    return tuple(option for option, _ in zip(found, range(MOST_OPTIONS), strict=False))


def _options(call: ast.Call, functions: dict[str, ast.FunctionDef], defaults: dict[str, str]) -> Iterator[Option]:
    kind = name_of(call.func)
    texts = [word.value for word in call.args if isinstance(word, ast.Constant) and isinstance(word.value, str)]
    words = {word.arg: word.value for word in call.keywords if word.arg}
    if not texts or any(len(text) > _MOST_NAME for text in texts) or len(texts) > 10:
        return
    if kind == "add_argument" and len(texts) == len(call.args):
        yield _of_argparse(texts, words, functions, defaults)
    elif kind == "option" and texts[0].startswith("-"):
        yield _of_click(texts, words, functions)
    elif kind.startswith("DEFINE_"):
        names = (f"--{texts[0]}",)
        if kind in _ABSL_TRUTH:
            yield Option(names=names, dest=texts[0], takes="pair", off=f"--no{texts[0]}")
        else:
            several = kind.startswith("DEFINE_multi")
            number = "int" if kind == "DEFINE_integer" else "float" if kind == "DEFINE_float" else ""
            choices = _choices(call.args[2]) if kind == "DEFINE_enum" and len(call.args) > 2 else ()
            yield Option(names=names, dest=texts[0], many="words" if several else "", number=number, choices=choices)


def _of_argparse(
    texts: list[str], words: dict[str, ast.expr], functions: dict[str, ast.FunctionDef], defaults: dict[str, str]
) -> Option:
    longest = next((text for text in texts if text.startswith("--")), texts[0])
    dest = _text(words.get("dest")) or longest.lstrip("-").replace("-", "_")
    action = _text(words.get("action")) or name_of(words.get("action"))
    default = defaults.get(dest) or (_default(words["default"]) if "default" in words else "")
    known: dict[str, Any] = {"names": tuple(texts), "dest": dest, "default": default}
    if action in _NO_PAIR:
        off = f"--no-{longest.removeprefix('--')}"
        return Option(**known | {"names": (longest, *texts)}, takes="pair", off=off)
    if action in _FLAGS:
        return Option(**known | {"default": default or "false"}, takes="flag")
    if action == "store_false":
        return Option(**known | {"default": default or "true"}, takes="off")
    if action not in ("", "store", "append", "extend"):
        return Option(**known | {"default": "other"}, takes="unknown")
    nargs = words.get("nargs")
    count = nargs.value if isinstance(nargs, ast.Constant) else None
    is_many = count in _MANY or (isinstance(count, int) and count > 0) or (nargs is not None and count is None)
    many = "words" if is_many else "repeated" if action == "append" else ""
    is_place = not texts[0].startswith("-")
    return Option(
        **known | {"default": default or "none"},
        takes="place" if is_place else "value",
        many=many,
        count=_count(nargs),
        truth=_truth(words.get("type"), words.get("choices"), functions),
        number=_number(words.get("type")),
        choices=_choices(words.get("choices")),
        is_needed=count not in ("?", "*") if is_place else _default(words.get("required")) == "true",
    )


def _of_click(texts: list[str], words: dict[str, ast.expr], functions: dict[str, ast.FunctionDef]) -> Option:
    names = [text for text in texts if text.startswith("-")]
    bare = next((text for text in texts if not text.startswith("-")), "")
    on = [name.partition("/")[0].strip() for name in names]
    off = [name.partition("/")[2].strip() for name in names]
    longest = max(on, key=len)
    default = _default(words["default"]) if "default" in words else ""
    known: dict[str, Any] = {"names": tuple(on), "dest": bare or longest.lstrip("-").replace("-", "_")}
    if any(off):
        return Option(**known, takes="pair", off=max(off, key=len), default=default or "false")
    if _default(words.get("is_flag")) == "true":
        is_off = _default(words.get("flag_value")) == "false"
        return Option(**known, takes="off" if is_off else "flag", default=default or ("true" if is_off else "false"))
    several = _default(words.get("multiple")) == "true"
    many = "repeated" if several else "words" if "nargs" in words else ""
    kind = words.get("type")
    is_truth = name_of(kind) in ("bool", "BOOL") or (kind is None and default in ("true", "false"))
    truth = _LOWER if is_truth else _truth(kind, None, functions)
    is_needed = _default(words.get("required")) == "true" and not words.keys() & {"prompt", "envvar"}
    choices = (
        _choices(kind.args[0]) if isinstance(kind, ast.Call) and name_of(kind.func) == "Choice" and kind.args else ()
    )
    return Option(
        **known,
        many=many,
        count=0 if several else _count(words.get("nargs")),
        truth=truth,
        default=default or "none",
        number=_number(kind),
        choices=choices,
        is_needed=is_needed,
    )


def _count(nargs: ast.expr | None) -> int:
    """Of the values that an option takes, where it is a fixed number; 0 else."""
    value = nargs.value if isinstance(nargs, ast.Constant) else None
    return value if isinstance(value, int) and 0 < value <= _MOST_NAME else 0


def _number(kind: ast.expr | None) -> Literal["", "int", "float"]:
    name = kind.id if isinstance(kind, ast.Name) else ""
    return "int" if name == "int" else "float" if name == "float" else ""


def _choices(choices: ast.expr | None) -> tuple[str, ...]:
    """Their texts where they are written out."""
    items = choices.elts if isinstance(choices, ast.List | ast.Tuple | ast.Set) else []
    texts = tuple(str(item.value)[:_MOST_NAME] for item in items if isinstance(item, ast.Constant))
    return texts if len(texts) == len(items) <= _MOST_NAME else ()


def _truth(
    kind: ast.expr | None, choices: ast.expr | None, functions: dict[str, ast.FunctionDef]
) -> tuple[str, str] | tuple[()]:
    """The words for true and false of an option that takes a value; () where none has to mean them: every text is true
    for `bool`, and one without a type stays a text."""
    if isinstance(choices, ast.List | ast.Tuple | ast.Set):
        texts = {item.value for item in choices.elts if isinstance(item, ast.Constant)}
        return next((pair for pair in (_LOWER, _UPPER) if set(pair) <= texts), ())
    name = name_of(kind)
    if isinstance(kind, ast.Lambda):
        return _truth_in(kind.body)
    if name in functions:
        return _truth_in(functions[name])
    if name in ("eval", "literal_eval"):
        return _UPPER
    return _LOWER if name == "loads" or (name != "bool" and "bool" in name.lower()) else ()


def _truth_in(body: ast.AST) -> tuple[str, str] | tuple[()]:
    """The same of a function, by the texts that it compares with, or what it asks in its turn."""
    nodes = list(ast.walk(body))
    texts = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    names = {name_of(node.func) for node in nodes if isinstance(node, ast.Call)}
    for pair in (_LOWER, _UPPER):
        if texts & set(pair):
            return pair
    if names & {"strtobool", "loads"}:
        return _LOWER
    if names & {"eval", "literal_eval"}:
        return _UPPER
    return _DIGITS if "1" in texts or {"bool", "int"} <= names else ()


def _text(node: ast.AST | None) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _default(node: ast.AST | None) -> str:
    """`none`, `true` or `false` as the script's `if` takes it, `other` for what is not written out."""
    if not isinstance(node, ast.Constant):
        return "other"
    return "none" if node.value is None else "true" if node.value else "false"
