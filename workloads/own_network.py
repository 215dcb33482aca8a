"""A person's own Python file: running it, and calling the function in it that builds a network.

Only the trainer and the confined reader (trainplan.workloads.network_reader) do that.
"""

from __future__ import annotations

import inspect
import linecache
import traceback
import types
from typing import Any

MODULE = "own_network"
"""The name of the module that the file is, whatever it is called."""
PARAMETERS = ("image_size", "channels", "classes")
"""What the function is given, by name."""


class OwnFileError(Exception):
    """The file or its function failed; says where in it."""


def call_builder(source: str, file: str, builder: str, image_size: int, channels: int, classes: int) -> Any:
    """What the function `builder` of the file returns for images of `image_size` px a side. `file` names it in errors.

    Raises OwnFileError, but lets MemoryError and what ends a process through.
    """
    values = dict(zip(PARAMETERS, (image_size, channels, classes), strict=True))
    try:
        function = _module(source, file).get(builder)
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


def _module(source: str, file: str) -> dict[str, Any]:
    module = types.ModuleType(MODULE)
    module.__file__ = file
    # So that a traceback shows its lines, wherever it was read from.
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    exec(compile(source, file, "exec"), module.__dict__)
    return module.__dict__


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
