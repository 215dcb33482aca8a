"""The network of `model.python` or `model.onnx`: read once for each content of the file, and kept in the home.

The file is read in a process of its own (`python -m trainplan.workloads.network_reader`), so that an estimate loads no
framework and runs nothing of the file. A Python file runs there only after `agree` has let it.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import ValidationError

from trainplan.planner.errors import BadInputError, ThisMachineError
from trainplan.planner.home.questions import is_asked, note_asked
from trainplan.planner.planning.locked_script import versions
from trainplan.providers.cloud.trainer_wheel import pinned
from trainplan.workloads.extras import install_hint
from trainplan.workloads.graph import GraphError
from trainplan.workloads.network_reader.confinement import Limits, environment
from trainplan.workloads.read_network import MOST_SOURCE_CHARACTERS, PLAIN_RANGE, ReadNetwork, packed
from trainplan.workloads.regular_file import hint_of, open_regular, regular_bytes
from trainplan.workloads.terminal_text import has_control_characters

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import date

    from trainplan.workloads.job import TrainingJob

FOLDER = "networks"
"""Of the home: what was read, and `agreed-SHA256` for each Python file that a person let run."""
_MODULES = {
    "absl-py": "absl", "pillow": "PIL", "protobuf": "google", "pyyaml": "yaml", "scikit-learn": "sklearn",
    "tensorflow-cpu": "tensorflow",
}  # fmt: skip
"""The module of a package that has another name, by the `top_level.txt` or files of its wheel."""
_READER = ("-P", "-m", "trainplan.workloads.network_reader")
_MORE_SECONDS = 200.0
"""For the start of the reader, beside what it bounds itself."""


def ask_reader(question: dict[str, Any], limits: Limits) -> dict[str, Any]:
    """The answer of a reader, in a process of its own and a folder that is removed. Raises ThisMachineError."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        try:
            process = subprocess.run(
                [sys.executable, *_READER],
                input=json.dumps(question),
                capture_output=True,
                text=True,
                check=False,
                cwd=folder,
                env=environment(Path(folder), os.environ),
                start_new_session=True,
                timeout=limits.seconds + _MORE_SECONDS,
            )
        except subprocess.TimeoutExpired:
            return {"error": f"it ran for {limits.seconds:g} s without giving a model"}
        except OSError as error:
            raise ThisMachineError(f"no process could be started to read the network: {error.strerror}") from None
    with suppress(ValueError):
        answer = json.loads(process.stdout)
        if isinstance(answer, dict):
            return answer
    *_, last = ["it said nothing", *process.stderr.strip().splitlines()]
    raise ThisMachineError(f"the reader of networks ended with exit code {process.returncode}: {last}")


class Reading(NamedTuple):
    """What a read needs beside the job: the home, today, a question (it raises where the answer is no), limits, and who
    reads."""

    home: Path
    today: date
    agree: Callable[[Path], None]
    limits: Limits = Limits()
    ask: Callable[[dict[str, Any], Limits], dict[str, Any]] = ask_reader


def with_network(job: TrainingJob, reading: Reading) -> TrainingJob:
    """The job with its network as the file has it now; a job that names no file as it is.

    Raises BadInputError for a file that gives no network, and whatever `reading.agree` raises.
    """
    file = job.model.file
    if file is None:
        return job
    source, sha256 = _content(file, is_python=job.model.python is not None)
    kept = reading.home / FOLDER / f"{_key(job, sha256)}.json"
    read = _kept(kept, source, job)
    if read is None:
        if job.model.python is not None:
            _agreed(file, sha256, reading)
        read = _read(job, file, source, sha256, reading)
        _keep(kept, read)
    return job.model_copy(update={"model": job.model.model_copy(update={"read": read})})


def trained_modules(framework: str) -> list[str]:
    """The modules that a file can import where it trains, beside Python's own: of the packages that are pinned for the
    framework."""
    names = versions(pinned(f"{framework}-cpu"))
    return sorted(_MODULES.get(name, name.replace("-", "_")) for name in names)


def check_trained(job: TrainingJob) -> None:
    """Raises BadInputError for a network that can only be estimated."""
    if job.model.onnx is not None:
        raise BadInputError(
            f"{job.model.onnx} can be estimated and not trained: an ONNX file does not say how its network is trained",
            "write the network with Keras, and its file as model.python (docs/own-network.md)",
        )
    if job.model.task is not None:
        raise BadInputError(
            f"{job.model.python} can be estimated and not trained: it is no classifier (task: {job.model.task})",
            "train it with a script of your own: script: train.py in the place of model, data and epochs "
            "(docs/own-script.md)",
        )


def check_exported(job: TrainingJob) -> None:
    """Raises BadInputError for a job that no file for another engine can be written of."""
    check_trained(job)
    if job.script is not None:
        raise BadInputError(
            f"{job.name} runs a script of your own, which is not exported", "plan launch runs it, also on Slurm"
        )


def _content(file: Path, *, is_python: bool) -> tuple[str, str]:
    """The text of a Python file ("" for ONNX) and the digest of the file. Raises BadInputError."""
    try:
        if not is_python:
            with open_regular(file) as stream:
                return "", hashlib.file_digest(stream, "sha256").hexdigest()
        raw = regular_bytes(file, 4 * MOST_SOURCE_CHARACTERS + 1)
        text = raw.decode("utf-8-sig")
    except OSError as error:
        hint = hint_of(error, "check its name and permissions")
        raise BadInputError(f"cannot read {file}: {error.strerror}", hint) from None
    except UnicodeDecodeError:
        raise BadInputError(f"{file} is not a text file in UTF-8", "is this the right file?") from None
    if len(text) > MOST_SOURCE_CHARACTERS:
        raise BadInputError(
            f"{file} has more than {MOST_SOURCE_CHARACTERS // 1024} KiB", "model.python needs the network alone"
        )
    return text, hashlib.sha256(raw).hexdigest()


def _key(job: TrainingJob, sha256: str) -> str:
    """Of what was read: the same file gives another graph for another function or size of images, and may not import
    the same modules under another framework."""
    parts = [sha256, job.framework, job.model.builder, job.image_size, job.channels, job.classes, job.model.task]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def _agreed(file: Path, sha256: str, reading: Reading) -> None:
    folder, question = reading.home / FOLDER, f"agreed-{sha256}"
    if is_asked(folder, question):
        return
    reading.agree(file)
    note_asked(folder, question, reading.today)


def _kept(path: Path, source: str, job: TrainingJob) -> ReadNetwork | None:
    """What was read before; None where nothing was, or where it is damaged."""
    try:
        values = json.loads(path.read_bytes())
        read = ReadNetwork.model_validate({**values, "source": source})
        read.graph()
    except (OSError, ValueError, TypeError, RecursionError):  # GraphError and ValidationError are ValueErrors
        return None
    return read if read.read_for == (job.image_size, job.channels, job.classes) else None


def _keep(path: Path, read: ReadNetwork) -> None:
    with suppress(OSError):  # then it is read again next time
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(f".{os.getpid()}")
        partial.write_text(read.model_dump_json(exclude={"source"}), encoding="utf-8")
        partial.replace(path)


def _read(job: TrainingJob, file: Path, source: str, sha256: str, reading: Reading) -> ReadNetwork:
    question = {
        "kind": "python" if job.model.python is not None else "onnx",
        "file": file.name if source else str(file),
        "source": source,
        "builder": job.model.builder,
        "size": job.image_size,
        "channels": job.channels,
        "classes": job.classes,
        "task": job.model.task,
        "framework": job.framework,
        "modules": trained_modules(job.framework),
        "limits": reading.limits._asdict(),
    }
    answer = reading.ask(question, reading.limits)
    if "error" in answer:
        raise _unreadable(file, answer)
    try:
        read = ReadNetwork(
            sha256=sha256, source=source, packed=packed(answer["graph"]), image_size=job.image_size,
            channels=job.channels, classes=job.classes, own_layers=tuple(answer["own"]),
            pixel_range=answer.get("pixel_range", PLAIN_RANGE), is_classifier=job.model.task is None,
            notes=tuple(answer.get("notes", ())),
        )  # fmt: skip
        names = [text for one in read.graph().operators for text in (one.name, one.function)]
    except (KeyError, TypeError, AttributeError, ValidationError, GraphError) as error:
        raise BadInputError(f"{file.name}: what was read of it is no network: {_first_line(error)}") from None
    if any(map(has_control_characters, (*names, *read.own_layers, *read.notes))):
        raise BadInputError(f"{file.name}: the name of a layer holds a control character", "name it in plain text")
    return read


def _unreadable(file: Path, answer: dict[str, Any]) -> BadInputError:
    message, hint = str(answer["error"]), str(answer.get("hint", ""))
    if extra := answer.get("extra"):
        hint = install_hint(str(extra))
    return BadInputError(message if message.startswith(file.name) else f"{file.name}: {message}", hint)


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
