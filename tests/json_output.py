"""What a command prints with --json, held to the schemas that are shipped (planner/report/schemas)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import typer
from jsonschema import Draft202012Validator, FormatChecker
from jsonschema.exceptions import best_match
from referencing import Registry, Resource

from tests.conftest import ROOT
from trainplan.planner.cli.app import whole_app

FOLDER = ROOT / "planner" / "report" / "schemas"
SUFFIX = ".schema.json"
ROWS = 40
"""Of an estimate's thousands of candidates, which are alike, as many are held to the schema."""


@cache
def schemas() -> dict[str, dict[str, Any]]:
    """Every shipped schema, by the name of its file without the suffix."""
    paths = sorted(FOLDER.glob(f"*{SUFFIX}"))
    return {path.name.removesuffix(SUFFIX): json.loads(path.read_text(encoding="utf-8")) for path in paths}


@cache
def validator(name: str) -> Draft202012Validator:
    registry: Registry[Any] = Registry().with_resources(
        (schema["$id"], Resource.from_contents(schema)) for schema in schemas().values()
    )
    return Draft202012Validator(schemas()[name], registry=registry, format_checker=FormatChecker())


@cache
def commands() -> dict[tuple[str, ...], Any]:
    """Every command of the tree, by its words."""
    return dict(_walked(typer.main.get_command(whole_app())))


def walked(app: typer.Typer) -> dict[tuple[str, ...], Any]:
    """The same of another app."""
    return dict(_walked(typer.main.get_command(app)))


def _walked(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    if not hasattr(command, "commands"):
        yield path, command
        return
    for name, child in command.commands.items():
        yield from _walked(child, (*path, name))


def schema_name(path: Sequence[str]) -> str:
    """`prices-show` for the command `plan prices show`."""
    return "-".join(path)


def complaint(arguments: Sequence[str], text: str) -> str:
    """How far the stdout of `plan ARGUMENTS --json` is from its schema; "" where it is what the schema says."""
    path = next((path for path in commands() if tuple(arguments[: len(path)]) == path), None)
    if path is None or not text or {"-h", "--help"} & set(arguments):
        return ""
    try:
        documents = [json.loads(line) for line in text.splitlines()] if path == ("logs",) else [json.loads(text)]
    except ValueError as error:
        return f"plan {' '.join(arguments)} printed no JSON: {error}: {text[:200]}"
    for document in documents:
        name = "error" if isinstance(document, dict) and "error" in document else schema_name(path)
        if name == "estimate" and "--compare" in arguments:
            name = "comparison"
        elif name == "estimate":
            document = {**document, "candidates": document["candidates"][:ROWS]}
        worst = best_match(validator(name).iter_errors(document))
        if worst is not None:
            where = "/".join(map(str, worst.absolute_path))
            return f"plan {' '.join(arguments)}: {name}{SUFFIX} at /{where}: {worst.message[:400]}"
    return ""
