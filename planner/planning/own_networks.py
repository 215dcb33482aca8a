"""The network of `model.python` or `model.onnx`: read once for each content of the file, and kept in the home.

The file is read in a process of its own (`python -m trainplan.workloads.network_reader`), so that an estimate loads no
framework and runs nothing of the file. A Python file runs there only after `agree` has let it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import ValidationError

from trainplan.planner.errors import BadInputError, ThisMachineError
from trainplan.planner.home.questions import is_asked, note_asked
from trainplan.planner.planning.script_lacks import versions
from trainplan.providers.cloud.trainer_wheel import pinned
from trainplan.workloads.extras import install_hint
from trainplan.workloads.graph import GraphError, Kind
from trainplan.workloads.graph_file import graph_from_json, graph_json
from trainplan.workloads.network_reader.confinement import Limits, could_do, environment
from trainplan.workloads.read_network import MOST_SOURCE_CHARACTERS, PLAIN_RANGE, ReadNetwork, packed
from trainplan.workloads.regular_file import hint_of, open_regular, regular_bytes
from trainplan.workloads.secret_rules import secret_lines
from trainplan.workloads.terms import own_name

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from datetime import date

    from trainplan.workloads.graph import Graph
    from trainplan.workloads.job import TrainingJob

FOLDER = "networks"
"""Of the home: what was read, and `agreed-SHA256` for each Python file that a person let run."""
_MODULES = {
    "absl-py": "absl", "pillow": "PIL", "protobuf": "google", "pyyaml": "yaml", "scikit-learn": "sklearn",
    "tensorflow-cpu": "tensorflow",
}  # fmt: skip
"""The module of a package that has another name, by the `top_level.txt` or files of its wheel."""
_READER = ("-P", "-m", "trainplan.workloads.network_reader")
_NAME = re.compile(r"[A-Za-z_<][\w.:<>-]{0,59}", re.ASCII)
_MOST_NAMES = 64
_MORE_SECONDS = 200.0
"""For the start of the reader, beside what it bounds itself."""


def ask_reader(question: dict[str, Any], limits: Limits) -> dict[str, Any]:
    """The answer of a reader, in a process of its own and a folder that is removed. Raises ThisMachineError."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True, dir=os.path.realpath(tempfile.gettempdir())) as folder:
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


def parts_here() -> frozenset[str]:
    """The parts of the kernel that confine a reader on this computer, tried by one that reads nothing."""
    return frozenset(ask_reader({"kind": "parts"}, Limits()).get("parts", ()))


class Reading(NamedTuple):
    """What a read needs beside the job: the home, today, a question about a file that these parts of the kernel confine
    (it raises where the answer is no), limits, who reads, and what confines it."""

    home: Path
    today: date
    agree: Callable[[Path, frozenset[str]], None]
    limits: Limits = Limits()
    ask: Callable[[dict[str, Any], Limits], dict[str, Any]] = ask_reader
    parts: Callable[[], frozenset[str]] = parts_here


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
        parts = _agreed(file, sha256, reading) if job.model.python is not None else frozenset()
        read = _read(job, file, source, sha256, reading, parts)
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
    for number, kind in secret_lines(text):
        raise BadInputError(
            f"{file}, line {number}: this seems to be a secret ({kind}), and the file is stored and sent",
            "take it out; where it is none, end the line with # gitleaks:allow",
        )
    return text, hashlib.sha256(raw).hexdigest()


def _key(job: TrainingJob, sha256: str) -> str:
    """Of what was read: the same file gives another graph for another function or size of images, and may not import
    the same modules under another framework."""
    parts = [sha256, job.framework, job.model.builder, job.image_size, job.channels, job.classes, job.model.task]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def _agreed(file: Path, sha256: str, reading: Reading) -> frozenset[str]:
    """The parts of the kernel under which a person has agreed to run it. What is agreed to counts for no computer that
    confines less."""
    parts = reading.parts()
    less = f"-by-{'-'.join(sorted(parts)) or 'nothing'}" if could_do(parts) else ""
    folder, question = reading.home / FOLDER, f"agreed-{sha256}{less}"
    if not is_asked(folder, question):
        reading.agree(file, parts)
        note_asked(folder, question, reading.today)
    return parts


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


def _read(
    job: TrainingJob, file: Path, source: str, sha256: str, reading: Reading, parts: frozenset[str]
) -> ReadNetwork:
    question = {
        "kind": "python" if job.model.python is not None else "onnx",
        "file": file.name if source else str(file.absolute()),
        "sha256": sha256,
        "source": source,
        "builder": job.model.builder,
        "size": job.image_size,
        "channels": job.channels,
        "classes": job.classes,
        "task": job.model.task,
        "framework": job.framework,
        "modules": trained_modules(job.framework),
        "parts": sorted(parts),
        "limits": reading.limits._asdict(),
    }
    answer = reading.ask(question, reading.limits)
    if "error" in answer:
        raise _unreadable(file, answer)
    try:
        _check_names(answer["own"])
        graph = plain_graph(answer["graph"], own_name(job.model.python or str(file)))
        read = ReadNetwork(
            sha256=sha256, source=source, packed=packed(graph_json(graph)),
            image_size=job.image_size, channels=job.channels, classes=job.classes, own_layers=tuple(answer["own"]),
            pixel_range=answer.get("pixel_range", PLAIN_RANGE), is_classifier=job.model.task is None,
            notes=() if source else tuple(answer.get("notes", ())),  # of ONNX, of which nothing runs
        )  # fmt: skip
        read.graph()
    except (KeyError, TypeError, AttributeError, ValidationError, GraphError) as error:
        raise BadInputError(f"{file.name}: what was read of it is no network: {_first_line(error)}") from None
    return read


def plain_graph(text: str, name: str) -> Graph:
    """The graph of a reader's answer under this name. Its operators are numbered: what the file calls them stays here.

    Raises GraphError.
    """
    graph = graph_from_json(text)
    counts: Counter[Kind] = Counter()
    operators = []
    for operator in graph.operators:
        counts[operator.kind] += 1
        operators.append(replace(operator, name=f"{operator.kind}_{counts[operator.kind]:03}"))
    _check_names({operator.function for operator in operators} - {""})
    return replace(graph, name=name, operators=tuple(operators))


def _check_names(names: Collection[str]) -> None:
    """Raises GraphError for names of functions or classes that Python and ONNX do not have, and for too many."""
    if odd := next((one for one in names if not _NAME.fullmatch(one)), None):
        raise GraphError(f"{odd[:60]!r} is no name of a layer: letters, digits and _, at most 60")
    if len(names) > _MOST_NAMES:
        raise GraphError(f"it has layers of {len(names)} kinds that are not Keras' own, and at most {_MOST_NAMES} go")


def _unreadable(file: Path, answer: dict[str, Any]) -> BadInputError:
    message, hint = str(answer["error"]), str(answer.get("hint", ""))
    if extra := answer.get("extra"):
        hint = install_hint(str(extra))
    return BadInputError(message if message.startswith(file.name) else f"{file.name}: {message}", hint)


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
