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
from trainplan.workloads.script import MOST_LEFT_BEHIND, PATH_OF_A_NEIGHBOUR
from trainplan.workloads.script_command_line import has_all_options, needs_command
from trainplan.workloads.script_folder import texts_of
from trainplan.workloads.script_imports import MOST_FILES, Imported, imports_of, neighbours_of, packages_of
from trainplan.workloads.script_parser import options_of
from trainplan.workloads.secret_rules import secret_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from trainplan.workloads.script import Option

MOST_REQUIREMENTS_BYTES = 256 * 1024
# The expression of the specification (packaging.python.org, inline script metadata, read 2026-11-26).
_BLOCK = re.compile(r"(?m)^# /// (?P<type>[a-zA-Z0-9-]+)$\s(?P<content>(^#(| .*)$\s)+)^# ///$")
# A name with extras, versions and a marker (packaging.python.org, dependency specifiers): no address, folder or option.
# Without +: of such versions (2.1.0+cu118) the Python Package Index takes none.
_VERSION = r"(~=|===?|!=|<=|>=|<|>)\s*[^\s,;()@/:\\=<>~+]+"
_VERSIONS = rf"{_VERSION}(\s*,\s*{_VERSION})*\s*,?"
_REQUIREMENT = re.compile(
    rf"[A-Za-z0-9][\w.-]*\s*(\[[\w\s,.-]*\])?\s*({_VERSIONS}|\(\s*{_VERSIONS}\s*\))?\s*(;[^@/:\\]*)?", re.ASCII
)
_REQUIRES_PYTHON = re.compile(rf"\s*({_VERSIONS})?\s*", re.ASCII)
MOST_NEIGHBOUR_CHARACTERS = 512 * 1024
_MOST_PATH = 200
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
_OF_TORCHRUN = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_MAYBE = (ast.IfExp, ast.BoolOp, ast.Lambda, ast.GeneratorExp, ast.ListComp, ast.DictComp, ast.SetComp)
"""Expressions of which a part may not be worked out."""
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
    has_all_options: bool = False
    needs_command: bool = False
    inside: str = ""
    left_behind: tuple[str, ...] = ()
    files: tuple[dict[str, str], ...] = ()
    imports: tuple[str, ...] = ()
    requires_python: str = ""


def read_script_file(path: Path, folder: Path | None = None, words: Iterable[str] = ()) -> ScriptFile:
    """The script and its metadata; nothing of it runs. With a `folder`, in which it lies, all of that travels. `words`
    are arguments, which may name files.

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
    _refuse_notebook_lines(tree, path)
    _refuse_relative_imports(tree, path)
    _refuse_variables_of_torchrun(tree, path)
    _refuse_other_sources(metadata, texts or (), path)
    top = path.absolute().parent if folder is None else folder
    at = PurePosixPath(path.absolute().relative_to(top.absolute()).as_posix())
    texts_there = _with_neighbours(at, source, tree, top)
    trees = [each for _, each in texts_there.values()]
    imports = [one for each in trees for one in imports_of(each)]
    files = _travelling(texts_there, at, folder)
    return ScriptFile(
        sha256=hashlib.sha256(raw).hexdigest(),
        source=source,
        dependencies=texts,
        table=table,
        frameworks=_frameworks(imports, trees),
        options=options_of(trees),
        has_all_options=has_all_options(trees),
        needs_command=needs_command(trees),
        inside="" if at.parent == PurePosixPath() else str(at.parent),
        left_behind=_left_behind(trees, words, at, top, files),
        files=tuple({"path": str(name), "source": text} for name, text in files.items()),
        imports=tuple(sorted(packages_of(imports) - _own_modules(texts_there, at.parent))),
        requires_python=requires.strip(),
    )


def _refuse_notebook_lines(tree: ast.Module, path: Path) -> None:
    """Raises JobFileError for what nbconvert makes of lines of % and ! in a notebook: no script has get_ipython."""
    lines = [
        node.lineno
        for node in tree.body
        if isinstance(node, ast.Expr) and ast.unparse(node).startswith("get_ipython().")
    ]
    if lines and not any(one.module.partition(".")[0] == "IPython" for one in imports_of(tree)):
        numbers = ", ".join(map(str, lines[:5])) + (", …" if len(lines) > 5 else "")
        raise JobFileError(
            f"{path}, line{'s' if len(lines) > 1 else ''} {numbers}: get_ipython() is there in a notebook alone, and "
            "ends a script",
            "take out what were lines of % and ! in the notebook; packages that they installed belong under "
            "requirements",
        )


def _refuse_other_sources(metadata: dict[str, Any], dependencies: Iterable[str], path: Path) -> None:
    """Raises JobFileError where uv takes a dependency from elsewhere: the released package of its name is another."""
    uv = metadata.get("tool", {}).get("uv", {})
    sources = uv.get("sources", {}) if isinstance(uv, dict) else {}
    names = {re.split(r"[^\w.-]", text.strip(), maxsplit=1)[0].lower().replace("_", "-") for text in dependencies}
    for name in sources if isinstance(sources, dict) else ():
        if name.lower().replace("_", "-") in names:
            raise JobFileError(
                f"{path}: [tool.uv.sources] takes {name} from elsewhere, and released packages alone can be locked",
                "name a released version of it under dependencies, or put its files beside the script",
            )


def _refuse_relative_imports(tree: ast.Module, path: Path) -> None:
    """Raises JobFileError for `from .models import …` at the top of the script: Python gives a script no package."""
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.level:
            dots = "." * node.level
            raise JobFileError(
                f"{path}, line {node.lineno}: a script has no package, so that from {dots}{node.module or ''} ends it",
                "import by the module's name, beside the script (from models import …) or from the folder that travels "
                "(script: {file: pkg/train.py, folder: .} and from pkg.models import …)",
            )


def _refuse_variables_of_torchrun(tree: ast.Module, path: Path) -> None:
    """Raises JobFileError where the script reads at its top, without a default, what torchrun alone sets."""
    texts = [ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Subscript | ast.Call)]
    own = {name for name in _OF_TORCHRUN for text in texts if text.startswith(f"os.environ.setdefault('{name}'")}
    for node in _done_at_once(tree.body):
        for one in (part for part in ast.walk(node) if isinstance(part, ast.Subscript)):
            text = ast.unparse(one)
            name = next((name for name in _OF_TORCHRUN if text == f"os.environ['{name}']"), "")
            if isinstance(one.ctx, ast.Store):
                own.add(name)
            elif name and name not in own:
                raise JobFileError(
                    f"{path}, line {one.lineno}: {name} is set by torchrun alone, and a script runs as one process",
                    f'write os.environ.get("{name}", …) with what it is for one process',
                )


def _done_at_once(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a module that are done whatever happens, those of `if __name__ == "__main__"` among them."""
    simple = (ast.Assign, ast.AnnAssign, ast.Expr)
    for node in body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "__name__ == '__main__'":
            yield from _done_at_once(node.body)
        elif isinstance(node, simple) and not any(isinstance(one, _MAYBE) for one in ast.walk(node)):
            yield node


def _travelling(
    imported: dict[PurePosixPath, tuple[str, ast.Module]], at: PurePosixPath, folder: Path | None
) -> dict[PurePosixPath, str]:
    """The files that go with the script, which lies `at` there. Raises JobFileError."""
    others = {} if folder is None else texts_of(folder, MOST_NEIGHBOUR_CHARACTERS)
    for name, text in others.items():
        refuse_secrets(text, Path(folder or "", name))
    texts = others | {name: text for name, (text, _) in imported.items()}
    return {name: text for name, text in texts.items() if name != at}


def _own_modules(files: Iterable[PurePosixPath], inside: PurePosixPath) -> set[str]:
    """The names under which a script that lies `inside` imports these files."""
    starts = [name.relative_to(inside) for name in files if name.is_relative_to(inside)]
    return {name.parts[0].removesuffix(".py") for name in (*starts, *files)}


def _left_behind(
    trees: Iterable[ast.Module], words: Iterable[str], at: PurePosixPath, top: Path, travelling: Iterable[PurePosixPath]
) -> tuple[str, ...]:
    """The files and folders beside the script that its texts and arguments name, such as configurations and data, but
    for those that travel and that it may look for beside its own file: it starts in another folder."""
    beside = top / at.parent
    nodes = [node for tree in trees for node in ast.walk(tree)]
    texts = {node.value.strip() for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    # hydra's config_path is one from the file.
    is_from_its_file = any(isinstance(node, ast.Name) and node.id == "__file__" for node in nodes) or any(
        isinstance(node, ast.keyword) and node.arg == "config_path" for node in nodes
    )
    there = sorted({*map(_plain_path, (*texts, *words))} - {""})
    there = [text for text in there if (beside / text).exists() and beside / text != top / at]
    goes = {beside / text for text in there if any((top / one).is_relative_to(beside / text) for one in travelling)}
    modules = {text for text in there if text.endswith(".py") or (beside / text / "__init__.py").is_file()}
    found = [text for text in there if beside / text not in goes or not (is_from_its_file or text in modules)]
    return tuple(text for text in found if PurePosixPath(text).parent.as_posix() not in found)[:MOST_LEFT_BEHIND]


def _plain_path(text: str) -> str:
    """A text as a path below the folder; "" where it is none."""
    path = text.removeprefix("./").rstrip("/")
    return path if len(path) <= _MOST_PATH and PATH_OF_A_NEIGHBOUR.fullmatch(path) else ""


def _parsed(raw: bytes, path: Path) -> tuple[str, ast.Module]:
    """Its text and tree. Raises JobFileError."""
    try:
        source = raw.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError:
        hint = "save it as UTF-8, without a line of its own about its encoding (# -*- coding: …)"
        raise JobFileError(f"{path} is not a text file in UTF-8", hint) from None
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


def _with_neighbours(
    at: PurePosixPath, source: str, tree: ast.Module, folder: Path
) -> dict[PurePosixPath, tuple[str, ast.Module]]:
    """The script, first, and the files of its folder that it imports, and those that they import. Raises
    JobFileError."""
    found = {at: (source, tree)}
    waiting, characters = [at], 0
    while waiting:
        importer = waiting.pop()
        for imported in imports_of(found[importer][1]):
            for name in neighbours_of(imported, importer, folder, at.parent):
                if name in found:
                    continue
                found[name] = _parsed(_bytes(folder / name), folder / name)
                waiting.append(name)
                characters += len(found[name][0])
                if len(found) > MOST_FILES + 1 or characters > MOST_NEIGHBOUR_CHARACTERS:
                    raise JobFileError(
                        f"{folder / at} imports more of its folder than travels with it: {MOST_FILES} files of "
                        f"together {MOST_NEIGHBOUR_CHARACTERS // 1024} KiB",
                        "release what it shares with others as a package, and name that under requirements",
                    )
    return found


def refuse_requirement(requirement: str, source: str) -> None:
    """Raises JobFileError for what is no released package; pip would build it, and run what a stranger wrote."""
    if not is_requirement(requirement):
        raise JobFileError(
            f"{source}: {requirement[:200]!r} cannot be locked: it is no package with its versions",
            "name a released package, such as pandas>=2 or pandas==2.2.3; addresses, folders, versions with + and "
            "conda's lines are not taken",
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
    if path.suffix in (".yml", ".yaml", ".toml", ".lock") or path.name == "Pipfile":
        hint = "write the packages into a requirements.txt, one a line, such as pandas>=2"
        raise JobFileError(f"{path} is no list of pip's", hint)
    text = re.sub(r"\\\r?\n", "", text)  # a line that goes on
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
