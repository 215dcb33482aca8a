"""A person's own Python file: running it, and calling the function in it that builds a network.

Only the trainer and the confined reader (trainplan.workloads.network_reader) do that.
"""

from __future__ import annotations

import builtins
import inspect
import linecache
import sys
import traceback
import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection

MODULE = "own_network"
"""The name of the module that the file is, whatever it is called."""
PARAMETERS = ("image_size", "channels", "classes")
"""What the function is given, by name."""


class OwnFileError(Exception):
    """The file or its function failed; says where in it."""


def call_builder(
    source: str, file: str, builder: str, sizes: tuple[int, int, int], modules: Collection[str] | None = None
) -> Any:
    """What the function `builder` of the file returns for images of these `sizes`: px a side, channels, and classes.

    `file` names it in errors. The file's own imports find Python's modules and these `modules` alone, as on a machine
    that has no others; all that are here where it is None.

    Raises OwnFileError, but lets MemoryError and what ends a process through.
    """
    values = dict(zip(PARAMETERS, sizes, strict=True))
    try:
        function = _module(source, file, modules).get(builder)
        if not callable(function):
            raise OwnFileError(f"{file} has no function {builder}: write model.python: {file}:NAME")
        _check_parameters(function, file, builder)
        return function(**values)
    except (OwnFileError, MemoryError):
        raise
    except SyntaxError as error:
        raise OwnFileError(f"{file}, line {error.lineno}: {error.msg}") from None
    except (Exception, SystemExit) as error:  # whatever the person's code raises
        raise OwnFileError(_where(error, file)) from error


def _module(source: str, file: str, modules: Collection[str] | None) -> dict[str, Any]:
    module = types.ModuleType(MODULE)
    module.__file__ = file
    if modules is not None:
        module.__dict__["__builtins__"] = {**vars(builtins), "__import__": _importing(modules)}
    # So that a traceback shows its lines, wherever it was read from.
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    exec(compile(source, file, "exec"), module.__dict__)
    return module.__dict__


def _importing(modules: Collection[str]) -> Any:
    """`__import__` of a Python that has these modules."""
    there = {*modules, *sys.stdlib_module_names}

    def find(name: str, *arguments: Any, **more: Any) -> Any:
        top = name.partition(".")[0]
        if top and top not in there:
            raise ModuleNotFoundError(f"No module named {top!r} on the machines that train this job", name=top)
        return __import__(name, *arguments, **more)

    return find


def _check_parameters(function: Any, file: str, builder: str) -> None:
    try:
        inspect.signature(function).bind(**dict.fromkeys(PARAMETERS))
    except TypeError as error:
        raise OwnFileError(f"{file}: {builder} has to take ({', '.join(PARAMETERS)}): {error}") from None
    except ValueError:  # what has no signature is called as it is
        return


def _where(error: BaseException, file: str) -> str:
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    location = f"{file}, line {lines[-1]}" if lines else file
    return f"{location}: {type(error).__name__}: {next(iter(str(error).splitlines()), '')[:300]}"
