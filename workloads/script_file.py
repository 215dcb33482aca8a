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
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple

from trainplan.workloads.job_mistakes import JobFileError
from trainplan.workloads.read_network import MOST_SOURCE_CHARACTERS
from trainplan.workloads.regular_file import hint_of, regular_bytes
from trainplan.workloads.script_folder import texts_of
from trainplan.workloads.script_imports import MOST_FILES, Imported, imports_of, neighbours_of, packages_of
from trainplan.workloads.script_parser import options_of
from trainplan.workloads.secret_rules import secret_lines

if TYPE_CHECKING:
    from trainplan.workloads.script import Option

MOST_REQUIREMENTS_BYTES = 256 * 1024
# The expression of the specification (packaging.python.org, inline script metadata, read 2026-11-26).
_BLOCK = re.compile(r"(?m)^# /// (?P<type>[a-zA-Z0-9-]+)$\s(?P<content>(^#(| .*)$\s)+)^# ///$")
# A name with extras, versions and a marker (packaging.python.org, dependency specifiers): no address, folder or option.
_VERSION = r"(~=|===?|!=|<=|>=|<|>)\s*[^\s,;()@/:\\=<>~]+"
_VERSIONS = rf"{_VERSION}(\s*,\s*{_VERSION})*\s*,?"
_REQUIREMENT = re.compile(
    rf"[A-Za-z0-9][\w.-]*\s*(\[[\w\s,.-]*\])?\s*({_VERSIONS}|\(\s*{_VERSIONS}\s*\))?\s*(;[^@/:\\]*)?", re.ASCII
)
_REQUIRES_PYTHON = re.compile(rf"\s*({_VERSIONS})?\s*", re.ASCII)
MOST_NEIGHBOUR_CHARACTERS = 512 * 1024
_TORCH = (
    "torch lightning pytorch_lightning torchvision torchaudio torchmetrics ultralytics fastai timm accelerate "
    "transformers peft monai segmentation_models_pytorch mmengine detectron2 kornia"
)
"""Packages that are PyTorch, or train with it (each by its own documentation, 2026-11); transformers can do without it
where TensorFlow or JAX is imported beside it."""
_FRAMEWORKS = {
    "tensorflow": {"tensorflow", "tensorflow_datasets", "tf_keras"},
    "torch": set(_TORCH.split()),
    "jax": {"jax", "flax", "optax", "equinox"},
}
_OVER_SEVERAL = {"transformers", "accelerate"}
# The marks that pip reads (pip/_internal/utils/encoding.py of 25.0), the longer ones first.
_MARKS = {b"\xef\xbb\xbf": "utf-8", b"\xff\xfe\0\0": "utf-32", b"\0\0\xfe\xff": "utf-32"}
_MARKS |= {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}


class ScriptFile(NamedTuple):
    """`table` is what `[tool.trainplan]` says: keys of a job. `frameworks` are those of its imports, () for none.

    `dependencies` is None where the script has no such list; the rest is as in ReadScript.
    """

    sha256: str
    source: str
    dependencies: tuple[str, ...] | None
    table: dict[str, Any]
    frameworks: tuple[str, ...]
    options: tuple[Option, ...]
    files: tuple[dict[str, str], ...] = ()
    imports: tuple[str, ...] = ()
    requires_python: str = ""


def read_script_file(path: Path, folder: Path | None = None) -> ScriptFile:
    """The script and its metadata; nothing of it runs. With a `folder`, in which it lies, all of that travels.

    Raises JobFileError.
    """
    raw = _bytes(path)
    source, tree = _parsed(raw, path)
    metadata = _metadata(source, path)
    dependencies = metadata.get("dependencies")
    table = metadata.get("tool", {}).get("trainplan", {}) if isinstance(metadata.get("tool", {}), dict) else {}
    if dependencies is not None and not _is_texts(dependencies):
        raise JobFileError(f"{path}: dependencies has to be a list of texts", 'for example ["pandas>=2"]')
    if not isinstance(table, dict):
        raise JobFileError(f"{path}: [tool.trainplan] has to be a table", "write keys of a job file into it")
    texts = None if dependencies is None else tuple(dependencies)
    requires = metadata.get("requires-python", "")
    if not isinstance(requires, str) or not _REQUIRES_PYTHON.fullmatch(requires) or len(requires) > 100:
        raise JobFileError(f"{path}: requires-python has to be versions of Python", 'for example ">=3.11"')
    trees = _with_neighbours(path, source, tree)
    imports = [one for _, each in trees.values() for one in imports_of(each)]
    own = {name.parts[0].removesuffix(".py") for name in trees}
    return ScriptFile(
        sha256=hashlib.sha256(raw).hexdigest(),
        source=source,
        dependencies=texts,
        table=table,
        frameworks=_frameworks(imports, [each for _, each in trees.values()]),
        options=options_of(each for _, each in trees.values()),
        files=_travelling({str(name): text for name, (text, _) in [*trees.items()][1:]}, path, folder),
        imports=tuple(sorted(packages_of(imports) - own)),
        requires_python=requires.strip(),
    )


def _travelling(imported: dict[str, str], path: Path, folder: Path | None) -> tuple[dict[str, str], ...]:
    """The files beside the script that go with it. Raises JobFileError."""
    others = {} if folder is None else texts_of(folder, MOST_NEIGHBOUR_CHARACTERS)
    for name, text in others.items():
        refuse_secrets(text, path.parent / name)
    texts = imported | {str(name): text for name, text in others.items() if str(name) not in {*imported, path.name}}
    return tuple({"path": name, "source": text} for name, text in texts.items())


def _parsed(raw: bytes, path: Path) -> tuple[str, ast.Module]:
    """Its text and tree. Raises JobFileError."""
    try:
        source = raw.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise JobFileError(f"{path} is not a text file in UTF-8", "is this the right file?") from None
    if len(source) > MOST_SOURCE_CHARACTERS:
        raise JobFileError(f"{path} has more than {MOST_SOURCE_CHARACTERS // 1024} KiB", "is this the right file?")
    refuse_secrets(source, path)
    try:
        return source, ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        why = getattr(error, "msg", error)
        raise JobFileError(f"{path}{line}: not valid Python: {why}", "mend the script") from None


def refuse_secrets(source: str, path: Path) -> None:
    """Raises JobFileError for a program that seems to hold a secret: its text is stored, and sent where it trains."""
    for number, kind in secret_lines(source):
        raise JobFileError(
            f"{path}, line {number}: this seems to be a secret ({kind}), and the text of a script is stored and sent",
            "take it out, revoke it if it was shared, and read it from a variable (secrets: of the job) or a file; "
            "where it is none, end the line with # gitleaks:allow",
        )


def _with_neighbours(path: Path, source: str, tree: ast.Module) -> dict[PurePosixPath, tuple[str, ast.Module]]:
    """The script, first, and the files beside it that it imports, and those that they import. Raises JobFileError."""
    folder = path.absolute().parent
    found = {PurePosixPath(path.name): (source, tree)}
    waiting, characters = [PurePosixPath(path.name)], 0
    while waiting:
        importer = waiting.pop()
        for imported in imports_of(found[importer][1]):
            for name in neighbours_of(imported, importer, folder):
                if name in found:
                    continue
                found[name] = _parsed(_bytes(folder / name), folder / name)
                waiting.append(name)
                characters += len(found[name][0])
                if len(found) > MOST_FILES + 1 or characters > MOST_NEIGHBOUR_CHARACTERS:
                    raise JobFileError(
                        f"{path} imports more of its folder than travels with it: {MOST_FILES} files of together "
                        f"{MOST_NEIGHBOUR_CHARACTERS // 1024} KiB",
                        "release what it shares with others as a package, and name that under requirements",
                    )
    return found


def refuse_requirement(requirement: str, source: str) -> None:
    """Raises JobFileError for what is no released package; pip would build it, and run what a stranger wrote."""
    if not is_requirement(requirement):
        raise JobFileError(
            f"{source}: {requirement[:200]!r} cannot be locked: it is no package with its versions",
            "name a released package, such as pandas>=2 or pandas==2.2.3; addresses, folders and conda's lines are not "
            "taken",
        )


def is_requirement(text: str) -> bool:
    """Whether it is a package by its name, with versions or not."""
    return _REQUIREMENT.fullmatch(text.strip()) is not None


def read_requirements(path: Path) -> tuple[str, ...]:
    """The requirements of a file, without comments. Raises JobFileError, also for options of pip: another index or
    another file would not travel with the job."""
    raw = _bytes(path)
    if len(raw) > MOST_REQUIREMENTS_BYTES:
        raise JobFileError(f"{path} is larger than {MOST_REQUIREMENTS_BYTES // 1024} KiB", "is this the right file?")
    encoding = next((name for mark, name in _MARKS.items() if raw.startswith(mark)), "utf-8")
    try:
        text = raw.decode("utf-8-sig" if encoding == "utf-8" else encoding)
    except UnicodeDecodeError:
        raise JobFileError(f"{path} is not a text file in UTF-8 or UTF-16", "save it as UTF-8") from None
    lines = [re.sub(r"(^|\s)#.*", "", line).strip() for line in text.splitlines()]
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


def _frameworks(imports: list[Imported], trees: list[ast.Module]) -> tuple[str, ...]:
    """Those that the imports mean, or KERAS_BACKEND where a file sets it; () where they mean none."""
    if set_here := _keras_backend(trees):
        return (set_here,)
    names = {one.module.partition(".")[0] for one in imports if not one.level}
    found = [framework for framework, own in _FRAMEWORKS.items() if names & own]
    if len(found) > 1 and not names & (_FRAMEWORKS["torch"] - _OVER_SEVERAL):
        found = [framework for framework in found if framework != "torch"]
    # Without a choice in its text, Keras runs on what the machine comes with; JAX beside it is for data or mathematics.
    return () if "keras" in names and found == ["jax"] else tuple(sorted(found, reverse=True))


def _keras_backend(trees: list[ast.Module]) -> str:
    """What `os.environ["KERAS_BACKEND"] = "torch"` or setdefault says; "" without one."""
    for node in (node for tree in trees for node in ast.walk(tree)):
        parts: list[ast.expr] = []
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
            parts = [node.targets[0].slice, node.value]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "setdefault":
            parts = node.args[:2]
        texts = [part.value for part in parts if isinstance(part, ast.Constant)]
        if texts[:1] == ["KERAS_BACKEND"] and texts[1:] and texts[1] in _FRAMEWORKS:
            return str(texts[1])
    return ""


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) and "\n" not in item for item in value)
