"""Pages that are written from what the command itself uses: its tree of commands, and the schema of job files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import typer

from scripts.site.navigation import ROOT
from trainplan.planner.cli.app import whole_app

SCHEMA = ROOT / "workloads" / "data" / "job.schema.json"
COLUMNS_OF_HELP = 10_000
"""So wide that click breaks no line."""


def commands() -> str:
    """Every command with its usage, arguments and options, as `--help` has them."""
    root = typer.main.get_command(whole_app())
    context = root.make_context("plan", [], resilient_parsing=True)
    context.max_content_width = context.terminal_width = COLUMNS_OF_HELP
    lines = [
        "# Command reference",
        "",
        "What `plan COMMAND --help` prints, of all commands. It is made from the commands themselves.",
        "",
    ]
    lines += [*_records(root, context), *_commands(root, context)]
    return "\n".join(lines) + "\n"


def _commands(group: Any, context: Any) -> Iterator[str]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command.hidden:
            continue
        own = type(context)(command, info_name=name, parent=context)
        usage = " ".join(command.collect_usage_pieces(own))
        yield from (f"## {own.command_path}", "", _sentence(command.help or ""), "")
        yield from ("```", f"{own.command_path} {usage}", "```", "")
        yield from _records(command, own)
        if hasattr(command, "list_commands"):
            yield from _commands(command, own)


def _records(command: Any, context: Any) -> list[str]:
    """A table of arguments and options; empty where a command has none but `--help`."""
    rows = []
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None and parameter.name != "help":
            rows.append(f"| {_code(record[0])} | {_cell(record[1])} |")
    return ["| option | meaning |", "|---|---|", *rows, ""] if rows else []


def job_file() -> str:
    """Every key of a job file, from the schema with which editors complete one."""
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    lines = [
        "# Job-file reference",
        "",
        "Every key of a job file, from the schema with which an editor completes one. A key without a default has to "
        "be there, unless its meaning says when it may be left out.",
        "",
    ]
    return "\n".join([*lines, *_keys("", schema, schema["$defs"])]) + "\n"


def _keys(path: str, table: dict[str, Any], definitions: dict[str, Any]) -> Iterator[str]:
    """The keys of one table, and then of each table below it."""
    title = f"`{path}`" if path else "The file"
    yield from (f"## {title}", "")
    if path and table.get("description"):
        yield from (_sentence(table["description"]), "")
    yield from ("| key | value | default | meaning |", "|---|---|---|---|")
    below = []
    for key, value in table["properties"].items():
        name = f"{path}.{key}" if path else key
        own = _table_of(value, definitions)
        if own is not None:
            below.append((name, own))
        shown = f"[its own keys](#{_slug(name)})" if own is not None else _values(value, definitions)
        meaning = value.get("description") or (own or {}).get("description", "")
        yield f"| `{key}` | {shown} | {'' if own is not None else _default(value)} | {_cell(meaning)} |"
    yield ""
    for name, own in below:
        yield from _keys(name, own, definitions)


def _default(value: dict[str, Any]) -> str:
    if "default" not in value:
        return ""
    default = value["default"]
    return "none" if default is None else _code(default if isinstance(default, str) else json.dumps(default))


def _slug(name: str) -> str:
    return name.replace(".", "")


def _table_of(value: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any] | None:
    """The table that a key holds, if it holds one with keys of its own."""
    for one in (value, *value.get("anyOf", ())):
        target = definitions.get(str(one.get("$ref", "")).rpartition("/")[2], {})
        if "properties" in target:
            return dict(target)
    return None


def _values(value: dict[str, Any], definitions: dict[str, Any]) -> str:
    """What may stand there, in words."""
    if "$ref" in value:
        return _values(definitions[value["$ref"].rpartition("/")[2]], definitions)
    if "anyOf" in value:
        choices = [_values(one, definitions) for one in value["anyOf"] if one.get("type") != "null"]
        return " or ".join(dict.fromkeys(choices))
    if "enum" in value:
        return ", ".join(_code(str(one)) for one in value["enum"])
    if "const" in value:
        return _code(str(value["const"]))
    if value.get("type") == "array":
        return f"a list of: {_values(value['items'], definitions)}"
    if "examples" in value:
        return "such as " + ", ".join(_code(str(one)) for one in value["examples"])
    return {
        "integer": "a whole number",
        "number": "a number",
        "string": "a text",
        "boolean": "`true`, `false`",
        "object": "names with values",
    }.get(str(value.get("type")), "any value") + _limits(value)


def _limits(value: dict[str, Any]) -> str:
    names = {
        "minimum": "from {}",
        "ge": "from {}",
        "gt": "above {}",
        "maximum": "to {}",
        "le": "to {}",
        "lt": "below {}",
    }
    limits = [text.format(f"{value[name]:,}") for name, text in names.items() if name in value]
    return f", {' '.join(limits)}" if limits else ""


def _code(text: str) -> str:
    return f"`{_cell(text)}`"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _sentence(text: str) -> str:
    return f"{_cell(text).rstrip('.')}." if text.strip() else ""
