"""A script as a person writes it: its text, and what stands in its block of metadata (PEP 723).

# /// script
# dependencies = ["pandas>=2"]
# [tool.trainplan]
# constraints = {deadline = "2h"}
# ///
"""

from __future__ import annotations

import ast
import hashlib
import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from trainplan.workloads.job_mistakes import JobFileError
from trainplan.workloads.read_network import MOST_SOURCE_CHARACTERS
from trainplan.workloads.regular_file import hint_of, regular_bytes
from trainplan.workloads.script_parser import options_of

if TYPE_CHECKING:
    from trainplan.workloads.script import Option

MOST_REQUIREMENTS_BYTES = 256 * 1024
# The expression of the specification (packaging.python.org, inline script metadata, read 2026-11-26).
_BLOCK = re.compile(r"(?m)^# /// (?P<type>[a-zA-Z0-9-]+)$\s(?P<content>(^#(| .*)$\s)+)^# ///$")
_FRAMEWORKS = {"torch": "torch", "lightning": "torch", "pytorch_lightning": "torch", "jax": "jax", "flax": "jax"}


class ScriptFile(NamedTuple):
    """`table` is what `[tool.trainplan]` says: keys of a job. `framework` is that of its imports, "" for the default.

    `dependencies` is None where the script has no such list; `options` are those that its parser declares.
    """

    sha256: str
    source: str
    dependencies: tuple[str, ...] | None
    table: dict[str, Any]
    framework: str
    options: tuple[Option, ...]


def read_script_file(path: Path) -> ScriptFile:
    """The script and its metadata; nothing of it runs. Raises JobFileError."""
    raw = _bytes(path)
    try:
        source = raw.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise JobFileError(f"{path} is not a text file in UTF-8", "is this the right file?") from None
    if len(source) > MOST_SOURCE_CHARACTERS:
        raise JobFileError(f"{path} has more than {MOST_SOURCE_CHARACTERS // 1024} KiB", "is this the right file?")
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        why = getattr(error, "msg", error)
        raise JobFileError(f"{path}{line}: not valid Python: {why}", "mend the script") from None
    metadata = _metadata(source, path)
    dependencies = metadata.get("dependencies")
    table = metadata.get("tool", {}).get("trainplan", {}) if isinstance(metadata.get("tool", {}), dict) else {}
    if dependencies is not None and not _is_texts(dependencies):
        raise JobFileError(f"{path}: dependencies has to be a list of texts", 'for example ["pandas>=2"]')
    if not isinstance(table, dict):
        raise JobFileError(f"{path}: [tool.trainplan] has to be a table", "write keys of a job file into it")
    texts = None if dependencies is None else tuple(dependencies)
    return ScriptFile(hashlib.sha256(raw).hexdigest(), source, texts, table, _framework(tree), options_of([tree]))


def read_requirements(path: Path) -> tuple[str, ...]:
    """The requirements of a file, without comments. Raises JobFileError, also for options of pip: another index or
    another file would not travel with the job."""
    raw = _bytes(path)
    if len(raw) > MOST_REQUIREMENTS_BYTES:
        raise JobFileError(f"{path} is larger than {MOST_REQUIREMENTS_BYTES // 1024} KiB", "is this the right file?")
    lines = [re.sub(r"(^|\s)#.*", "", line).strip() for line in raw.decode("utf-8", "replace").splitlines()]
    for line in lines:
        if line.startswith("-") or line.endswith("\\"):
            raise JobFileError(
                f"{path}: {line.split()[0]} is an option of pip, which cannot be locked",
                "write packages with their versions; plan locks them with hashes at launch",
            )
    return tuple(line for line in lines if line)


def _bytes(path: Path) -> bytes:
    try:
        if path.is_dir():
            raise JobFileError(f"{path} is a folder, not a file", "name the file in it")
        return regular_bytes(path, 4 * MOST_SOURCE_CHARACTERS + 1)
    except FileNotFoundError:
        raise JobFileError(f"there is no file {path}", "paths are relative to the job file") from None
    except OSError as error:
        hint = hint_of(error, "check its name and permissions")
        raise JobFileError(f"cannot read {path}: {error.strerror}", hint) from None
    except ValueError:  # a null in it
        raise JobFileError(f"{str(path)!r} is no name of a file", "is this the right file?") from None


def _metadata(source: str, path: Path) -> dict[str, Any]:
    blocks = [match for match in _BLOCK.finditer(source) if match["type"] == "script"]
    if len(blocks) > 1:
        raise JobFileError(f"{path} has {len(blocks)} blocks of metadata (# /// script)", "keep one of them")
    if not blocks:
        return {}
    lines = blocks[0]["content"].splitlines()
    text = "\n".join(line[2:] if line.startswith("# ") else line[1:] for line in lines)
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise JobFileError(f"{path}: its block of metadata is not valid TOML: {error}", "see PEP 723") from None


def _framework(tree: ast.Module) -> str:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    if names & {"keras", "tensorflow"}:
        return ""
    return next((framework for name, framework in _FRAMEWORKS.items() if name in names), "")


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) and "\n" not in item for item in value)
