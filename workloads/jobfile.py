"""A job file as a person writes it (YAML), read into a TrainingJob or refused with the line and what to write."""

from __future__ import annotations

import os
import re
import shlex
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import yaml

from trainplan.workloads.job_mistakes import JobFileError, Where, validated_job
from trainplan.workloads.nearest import nearest_names
from trainplan.workloads.pretrained import weights_file
from trainplan.workloads.regular_file import hint_of, regular_bytes
from trainplan.workloads.terminal_text import has_control_characters
from trainplan.workloads.wording import Command, Option

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trainplan.workloads.job import TrainingJob

__all__ = ["MAX_BYTES", "JobFileError", "looks_like_job", "parse_job", "parse_value", "read_job", "with_paths"]

MAX_BYTES = 256 * 1024
MAX_DEPTH = 50
MOST_DIGITS = 100
"""Characters of a number: more than any value of a job can need."""
_NO_CONTROL = "write it without line breaks, tabs and escape sequences"

# The C parser is several times faster; PyYAML falls back to the Python one where it was built without it.
_Parser: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_WHOLE = re.compile(r"[-+]?(?:0|[1-9][0-9_]*)")
_WITH_POINT = re.compile(
    r"[-+]?(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
)
_INT, _FLOAT, _DATE = (f"tag:yaml.org,2002:{kind}" for kind in ("int", "float", "timestamp"))


class _Loader(_Parser):  # type: ignore[misc,valid-type]  # one of two classes of PyYAML
    """Numbers are decimal. PyYAML reads those of YAML 1.1: `032` as 26 (octal), `1:30` as 90 (base 60). Here, as in
    YAML 1.2, they are text, as dates are: whatever takes a number refuses them, with all other mistakes."""

    yaml_implicit_resolvers: ClassVar[dict[str, list[tuple[str, re.Pattern[str]]]]] = {}


for _first, _resolvers in _Parser.yaml_implicit_resolvers.items():
    _Loader.yaml_implicit_resolvers[_first] = [row for row in _resolvers if row[0] not in (_INT, _FLOAT, _DATE)]
_Loader.add_implicit_resolver(_INT, re.compile(rf"^(?:{_WHOLE.pattern})$"), list("-+0123456789"))
_Loader.add_implicit_resolver(_FLOAT, re.compile(rf"^(?:{_WITH_POINT.pattern})$"), list("-+0123456789."))


def read_job(path: Path) -> TrainingJob:
    """The job in the file. Relative paths (`data.path`, `model.weights`) are taken from the file's own folder.

    Raises JobFileError where there is no file, no YAML in it, or no job in the YAML.
    """
    if path.suffix == ".py":
        return _job_of_script(path)
    text = _text(path)
    return with_paths(parse_job(text, str(path), path), path)


def with_paths(job: TrainingJob, path: Path) -> TrainingJob:
    """The job with whole paths, which are written as from the folder of its file `path`. Raises JobFileError where
    nothing is there."""
    if job.script is not None:
        return job
    job = _with_network_found(_with_weights_found(job, path), path)
    if job.data.path is None:
        return job
    written = _written_path(path, "data.path", job.data.path)
    folder = _folder(written)
    if folder is None:
        raise JobFileError(*_not_there(path, "data.path", "folder", written))
    if has_control_characters(str(folder)):
        raise JobFileError(f"{path}: data.path: {str(folder)!r} holds a control character", _NO_CONTROL)
    return job.model_copy(update={"data": job.data.model_copy(update={"path": str(folder)})})


def _with_weights_found(job: TrainingJob, path: Path) -> TrainingJob:
    """The job with the whole path of the file that its weights are read from. Raises JobFileError."""
    weights = weights_file(job)
    if weights is None:
        return job
    file = _written_path(path, "model.weights", str(weights))
    if not file.is_file():
        raise JobFileError(*_not_there(path, "model.weights", "file", file))
    if has_control_characters(str(file.resolve())):
        raise JobFileError(f"{path}: model.weights: {str(file)!r} holds a control character", _NO_CONTROL)
    return job.model_copy(update={"model": job.model.model_copy(update={"weights": str(file.resolve())})})


def _with_network_found(job: TrainingJob, path: Path) -> TrainingJob:
    """The job with the whole path of the file that its network is in. Raises JobFileError."""
    if job.model.file is None:
        return job
    key = "python" if job.model.python is not None else "onnx"
    file = _written_path(path, f"model.{key}", str(job.model.file))
    if not _is_file(file):
        raise JobFileError(*_not_there(path, f"model.{key}", "file", file))
    whole = str(file.resolve())
    if has_control_characters(whole):
        raise JobFileError(f"{path}: model.{key}: {str(file)!r} holds a control character", _NO_CONTROL)
    written = f"{whole}:{job.model.builder}" if key == "python" else whole
    return job.model_copy(update={"model": job.model.model_copy(update={key: written})})


def _written_path(job_file: Path, key: str, text: str) -> Path:
    """A path as the job file writes it: from the file's own folder, `~` for the home of whoever reads it.

    Raises JobFileError for a user's home that is not there.
    """
    if not text.startswith("~") or (job_file.parent / text).exists():
        return job_file.parent / text
    try:
        return Path(text).expanduser()
    except RuntimeError as error:
        raise JobFileError(f"{job_file}: {key}: {text}: {error}", "write the whole path") from None


def _not_there(job_file: Path, key: str, kind: str, path: Path) -> tuple[str, str]:
    """What is said where a path of the job file names nothing."""
    message = f"{job_file}: {key}: there is no {kind} {path}"
    if _VARIABLE.search(str(path)):
        return message, "variables of the shell are not read in a job file: write the whole path, or ~ for your home"
    if kind == "folder" and _is_file(path):
        return f"{job_file}: {key}: {path} is a file", "name the folder that it is in"
    # A pipe, a socket or a device. Methods of Path raise for a name that is too long.
    if kind == "file" and os.path.exists(path) and not os.path.isdir(path):  # noqa: PTH110, PTH112
        return f"{job_file}: {key}: {path} is no regular file", "name a file"
    return message, "paths are relative to the job file"


_VARIABLE = re.compile(r"\$\{?\w+|%\w+%")


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # a name too long, a null in it
        return False


def parse_job(text: str, source: str, path: Path | None = None) -> TrainingJob:
    """The job in the text; `source` names it in errors. With the `path` of its file the script that it names is read.

    Raises JobFileError.
    """
    lines, data = _load(text, source)
    if not isinstance(data, dict):
        raise JobFileError(f"{source}: a job file holds keys and values, this one does not", "plan init writes one")
    if isinstance(data.get("model"), dict) and "read" in data["model"]:
        raise JobFileError(f"{source}: model.read is what plan reads from a file by itself", "leave it out")
    if "read_script" in data:
        raise JobFileError(f"{source}: read_script is what plan reads from a script by itself", "leave it out")
    _refuse_control_characters(data, (), lines, source)
    if path is not None and data.get("script") is not None:
        data = _with_script_read(data, path)
    return validated_job(data, source, lines)


def looks_like_job(text: str) -> bool:
    """Whether a text is meant as a job file, also one with mistakes: YAML with a network or a script, at least half of
    whose keys are those of a job. Others have a `model` or a `script` too, for instance those of CI services."""
    from trainplan.workloads.job import TrainingJob

    try:
        data = parse_value(text, "text")
    except JobFileError:
        return re.search(r"^global_batch_size\s*:", text, re.MULTILINE) is not None
    if not isinstance(data, dict):
        return False
    has_network = isinstance(data.get("model"), dict) and {"preset", "layers", "python", "onnx"} & data["model"].keys()
    if not has_network and not isinstance(data.get("script"), str | dict):
        return False
    return 2 * len(data.keys() & TrainingJob.model_fields.keys()) >= len(data)


def _job_of_script(path: Path) -> TrainingJob:
    """The job of a script by itself, whose table [tool.trainplan] says the rest. Raises JobFileError."""
    if not path.exists():
        raise JobFileError(f"there is no file {path}", _nearest_file(path))
    name = re.sub(r"[^a-z0-9]+", "-", path.stem.lower()).strip("-")[:63].strip("-") or "script"
    data = _with_script_read({"script": path.name}, path)
    return validated_job({"name": name, **data}, str(path))


def _with_script_read(data: dict[str, Any], path: Path) -> dict[str, Any]:
    """A job's values with what its script says of itself; what the job file says counts first. Raises JobFileError."""
    from trainplan.workloads.script_file import read_requirements, read_script_file, refuse_requirement

    file, folder = _script_and_folder(data["script"], path)
    args = data.get("args") or ()
    words = args.values() if isinstance(args, dict) else args if isinstance(args, list) else ()
    read = read_script_file(file, folder, [word for word in words if isinstance(word, str)])
    if file.suffix != ".py":
        raise JobFileError(f"{path}: script: {file} is no Python file", "a script is a file that ends with .py")
    if "script" in read.table or "read_script" in read.table:
        raise JobFileError(f"{file}: [tool.trainplan] names a script", "leave it out: the script is this file")
    _refuse_control_characters([read.table, list(read.dependencies or ())], (), {}, str(file))
    values = {**read.table, **data}
    if "framework" not in values and len(read.frameworks) > 1:
        raise JobFileError(
            f"{path}: {file.name} imports {' and '.join(read.frameworks)}, and a machine comes with one of them",
            f"write framework: {read.frameworks[0]}, and what else it needs under requirements",
        )
    values = {"framework": read.frameworks[0], **values} if read.frameworks else values
    dependencies = read.dependencies
    if values.get("requirements") is not None:
        if dependencies is not None:
            raise JobFileError(
                f"{path}: requirements and the dependencies in {file.name} are two lists of the same", "keep one"
            )
        where = path if data.get("requirements") is not None else file
        dependencies = read_requirements(_written_path(where, "requirements", str(values["requirements"])))
    for dependency in dependencies or ():
        refuse_requirement(dependency, str(file if values.get("requirements") is None else values["requirements"]))
    values["script"] = str(file.resolve())
    values["read_script"] = {
        "sha256": read.sha256,
        "source": read.source,
        "dependencies": dependencies or (),
        "options": read.options,
        "has_all_options": read.has_all_options,
        "needs_command": read.needs_command,
        "files": read.files,
        "inside": read.inside,
        "left_behind": read.left_behind,
        "imports": read.imports,
        "requires_python": read.requires_python,
    }
    return values


def _script_and_folder(value: object, path: Path) -> tuple[Path, Path | None]:
    """The script, and the folder that travels with it, if one is named. Raises JobFileError."""
    if isinstance(value, str):
        return _written_path(path, "script", value), None
    if not isinstance(value, dict) or set(value) != {"file", "folder"} or not all(map(_is_text, value.values())):
        raise JobFileError(
            f"{path}: script: a job has one script",
            "write script: train.py, or script: {file: train.py, folder: src}; args are its arguments",
        )
    folder = _written_path(path, "script.folder", value["folder"])
    if not folder.is_dir():
        raise JobFileError(f"{path}: script.folder: there is no folder {folder}", "it is relative to the job file")
    file = _script_in(path, value["file"], folder)
    if not file.resolve().is_relative_to(folder.resolve()):
        raise JobFileError(
            f"{path}: script.file: {value['file']} does not lie in script.folder, {folder}",
            "name a folder in which the script lies: all texts of it travel",
        )
    return file.resolve(), folder.resolve()


def _script_in(path: Path, written: str, folder: Path) -> Path:
    """A script that is named as from its folder, or as from the job file where it is not there."""
    from_folder = folder / written
    from_job = _written_path(path, "script.file", written)
    return from_job if from_job.is_file() and not from_folder.is_file() else from_folder


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def parse_value(text: str, source: str) -> Any:
    """A value as a job file would have it; `source` names it in errors. Raises JobFileError."""
    _, value = _load(text, source)
    _refuse_control_characters(value, (), {}, source)
    return value


def _folder(path: Path) -> Path | None:
    try:
        folder = path.resolve()
        return folder if folder.is_dir() else None
    except (OSError, ValueError, RuntimeError):  # a name too long, a null in it, a loop of links
        return None


def _text(path: Path) -> str:
    try:
        if path.is_dir():
            raise JobFileError(
                f"{path} is a folder, not a job file",
                "name the YAML file in it; for a folder of images: "
                f"{Command('init', 'job.yaml', Option.DATA(shlex.quote(str(path))))}",
            )
        raw = regular_bytes(path, MAX_BYTES + 1)
    except FileNotFoundError:
        raise JobFileError(f"there is no file {path}", _nearest_file(path)) from None
    except OSError as error:
        raise JobFileError(f"cannot read {path}: {error.strerror}", hint_of(error, "check its permissions")) from None
    except ValueError:  # a null in it, or what is no text
        raise JobFileError(f"{str(path)!r} is no name of a file", "is this the right file?") from None
    if len(raw) > MAX_BYTES:
        raise JobFileError(f"{path} is larger than {MAX_BYTES // 1024} KiB", "is this the right file?")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise JobFileError(f"{path} is not a text file in UTF-8", "is this the right file?") from None


def _nearest_file(path: Path) -> str:
    folder = path.parent
    names: list[str] = []
    with suppress(OSError):
        names = [entry.name for entry in folder.iterdir()]
    near = nearest_names(path.name, [name for name in names if name.endswith((".yaml", ".yml"))])
    return f"did you mean {folder / near[0]}?" if near else "plan init writes one"


def _load(text: str, source: str) -> tuple[dict[Where, int], Any]:
    try:
        _refuse_depth(text, source)
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is None:
            raise JobFileError(f"{source} is empty", "plan init writes a job file")
        lines = dict(_lines(node, (), set(), source))
        return lines, loader.construct_document(node)
    except yaml.YAMLError as error:
        raise _not_yaml(error, source) from None
    except (AttributeError, LookupError, ValueError):  # what PyYAML lets out where a tag (`!!bool`) does not fit
        raise JobFileError(f"{source}: a tag (!!) does not fit its value", "a job file needs no tags") from None


def _refuse_depth(text: str, source: str) -> None:
    """Building what is nested deeply would overflow the C parser's stack, and with it end the command."""
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise JobFileError(f"{source} is nested too deeply to be a job file", "is this the right file?")


def _refuse_control_characters(value: object, where: Where, lines: dict[Where, int], source: str) -> None:
    """No text of a job may hold one: it would reach terminals, command lines and addresses. Values are not repeated,
    since one may be a secret."""
    if isinstance(value, dict):
        for key, item in value.items():
            _refuse_control_characters(key, where, lines, source)
            _refuse_control_characters(item, (*where, str(key)), lines, source)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _refuse_control_characters(item, (*where, index), lines, source)
    elif isinstance(value, str) and has_control_characters(value):
        name = ".".join(map(str, where)) or "a key"
        location = f"{source}:{lines[where]}" if where in lines else source
        raise JobFileError(f"{location}: {name} holds a control character", _NO_CONTROL)


def _not_yaml(error: yaml.YAMLError, source: str) -> JobFileError:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error).splitlines()[0]
    line = f":{mark.line + 1}" if mark is not None else ""
    return JobFileError(
        f"{source}{line}: not valid YAML: {problem}", "check indentation (spaces, no tabs), colons and brackets there"
    )


def _lines(node: yaml.Node, where: Where, values: set[int], source: str) -> Iterator[tuple[Where, int]]:
    """Each key's path and line. Aliases are refused: a job needs none, and they can blow up."""
    if id(node) in values:
        raise JobFileError(f"{source}:{node.start_mark.line + 1}: YAML aliases are not allowed here", "write it out")
    values.add(id(node))
    _refuse_odd_number(node, source)
    yield where, node.start_mark.line + 1
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            yield from _lines(item, (*where, index), values, source)
    if isinstance(node, yaml.MappingNode):
        yield from _mapping_lines(node, where, values, source)


def _refuse_odd_number(node: yaml.Node, source: str) -> None:
    """Python refuses to print a whole number of more than 4,300 digits, and takes long to read one. With a tag
    (`!!int 032`) a number would still be read as octal."""
    if node.tag not in (_INT, _FLOAT) or not isinstance(node.value, str):
        return
    location = f"{source}:{node.start_mark.line + 1}"
    if len(node.value) > MOST_DIGITS:
        raise JobFileError(f"{location}: a number of {len(node.value):,} characters", "is this the right file?")
    if not _WHOLE.fullmatch(node.value) and not _WITH_POINT.fullmatch(node.value):
        raise JobFileError(f"{location}: a tag (!!) does not fit its value", "a job file needs no tags")


def _mapping_lines(node: yaml.MappingNode, where: Where, values: set[int], source: str) -> Iterator[tuple[Where, int]]:
    keys: set[str] = set()
    for key, value in node.value:
        _refuse_odd_number(key, source)
        name, line = str(key.value), key.start_mark.line + 1
        if name in keys:
            raise JobFileError(f"{source}:{line}: the key {name!r} is there twice", "keep one of the two")
        keys.add(name)
        yield from (
            (path, line if path == (*where, name) else at) for path, at in _lines(value, (*where, name), values, source)
        )
