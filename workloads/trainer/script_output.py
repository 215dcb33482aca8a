"""The output of a script: what it has left in its working folder, and the manifest of it."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from trainplan.workloads.output_files import arranged, first_of, write_archive
from trainplan.workloads.sweep import STATE
from trainplan.workloads.trainer.checkpoint import linked
from trainplan.workloads.trainer.errors import TrainerError
from trainplan.workloads.trainer.output import MANIFEST, METRICS

OF_THE_RUN = (METRICS, MANIFEST, STATE)
"""A file of the script with such a name gets `script-` in front."""
_NOT_OUTPUT = ("data", "__pycache__")
"""Folders of the working folder that stay where they are: data sets, which scripts fetch to ./data."""


@dataclass(slots=True)
class Results:
    """What a script has left: `files` by their paths below its folder, and the file that each is, which for a link is
    what it leads to; `own` are those that are no links. `links` are those that are not followed, with where they lead.
    """

    files: dict[str, Path] = field(default_factory=dict)
    own: set[Path] = field(default_factory=set)
    links: dict[str, str] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)
    """Those of the links that lead to nothing."""
    special: list[str] = field(default_factory=list)
    """Pipes, sockets, devices, and folders (with `/`) in which nothing lies: no file system and store takes all of
    them."""
    left_out: dict[str, int] = field(default_factory=dict)
    """Hidden entries and folders of data, with the number of files in each."""

    def remarks(self, log: Callable[[str], None] | None = None) -> list[str]:
        """Lines for the person on what stays where it is; `log` gets each name of one that has only the first."""
        remarks = []
        if self.left_out:
            texts = [f"{name} ({n:,} file{'' if n == 1 else 's'})" for name, n in sorted(self.left_out.items())]
            remarks.append(first_of("left out, as hidden or as data", texts, log))
        if self.broken:
            texts = [f"{name!r} to {self.links[name]!r}" for name in sorted(self.broken)]
            remarks.append(first_of("links that lead to nothing do not come home", texts, log))
        if self.special:
            why = "empty folders, pipes, sockets and devices do not come home"
            remarks.append(first_of(why, [repr(name) for name in sorted(self.special)], log))
        others = sorted(self.links.keys() - self.broken)
        if others:
            texts = [f"{name!r} leads to {self.links[name]!r}" for name in others]
            why = "links to folders, and to what lies outside the script's folder, do not come home"
            remarks.append(first_of(why, texts, log))
        return remarks


def results_of(work: Path, checkpoints: Path) -> Results:
    """The files below the working folder that are neither hidden nor data. A link to a file is followed within the
    folder and to a checkpoint of the run."""
    results = Results()
    work, checkpoints = work.resolve(), checkpoints.resolve()
    results.left_out = _left_out(work)
    for path in _entries(work):
        name = path.relative_to(work).as_posix()
        if not path.is_symlink() and not path.is_file():
            results.special.append(f"{name}/" if path.is_dir() else name)
            continue
        if not path.is_symlink():
            _allow(path, stat.S_IRUSR)
            results.files[name] = path
            results.own.add(path)
            continue
        try:
            real = path.resolve(strict=True)
            is_file = stat.S_ISREG(real.stat().st_mode)
        except (OSError, RuntimeError):  # it leads nowhere, or in a circle
            real, is_file = path, False
        if is_file and (real.is_relative_to(work) or real.is_relative_to(checkpoints)):
            results.files[name] = real
        else:
            results.links[name] = str(path.readlink())
            if not path.exists():
                results.broken.add(name)
    return results


def _entries(folder: Path) -> Iterator[Path]:
    """What lies below a folder and is neither hidden nor data: files of every kind, links, and empty folders."""
    for place, folders, names in os.walk(folder):
        if Path(place) != folder and not folders and not names:
            yield Path(place)
        skipped = _NOT_OUTPUT if Path(place) == folder else ()
        here = sorted(name for name in folders if not name.startswith(".") and name not in skipped)
        folders[:] = [name for name in here if not (Path(place) / name).is_symlink()]
        for name in folders:
            _allow(Path(place) / name, stat.S_IRWXU)
        for name in sorted([*names, *(name for name in here if name not in folders)]):
            if not name.startswith("."):
                yield Path(place) / name


def _left_out(work: Path) -> dict[str, int]:
    """The hidden entries anywhere below the working folder, and its folder `data`, with the number of their files."""
    counts: dict[str, int] = {}
    for place, folders, names in os.walk(work):
        below = Path(place).relative_to(work)
        for name in [*folders, *names]:
            if not (name.startswith(".") or (below == Path() and name == "data" and name in folders)):
                continue
            path = Path(place) / name
            is_folder = name in folders and not path.is_symlink()
            count = sum(len(files) for _, _, files in os.walk(path)) if is_folder else 1
            if count:
                counts[(below / name).as_posix()] = count
        folders[:] = [
            name for name in folders
            if (below / name).as_posix() not in counts and not name.startswith(".") and name != "__pycache__"
        ]  # fmt: skip
    return counts


def _allow(path: Path, rights: int) -> None:
    """Give the owner these rights to what a script has left without them: it would be left behind without a word."""
    mode = stat.S_IMODE(path.lstat().st_mode)
    if mode & rights != rights:
        with suppress(OSError):  # it is another user's: reading it says why
            path.chmod(mode | rights)


def write_output(
    output: Path,
    results: Results,
    documents: Mapping[str, Mapping[str, object]],
    *,
    keeps: bool = False,
    log: Callable[[str], None] | None = None,
) -> list[str]:
    """Make `output` of the results, of `documents` as JSON and of a manifest, written last; lines for the person on
    what comes home otherwise than it lay there. With `keeps`, the files stay in the working folder too. `log` gets each
    name of a line that has only the first. Raises OSError, and TrainerError."""
    own_folder(output)
    (output / MANIFEST).unlink(missing_ok=True)
    for path in list(output.iterdir()):  # of an earlier attempt
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    arrangement = arranged(results.files, OF_THE_RUN, log=log)
    remarks = [*results.remarks(log), *arrangement.remarks]
    uses = Counter(
        [*arrangement.files.values(), *(path for each in arrangement.archives.values() for path in each.values())]
    )
    for name, source in arrangement.files.items():
        target = output / name
        target.parent.mkdir(parents=True, exist_ok=True)
        uses[source] -= 1
        is_moved = not keeps and not uses[source] and source in results.own
        source.replace(target) if is_moved else linked(source, target)
    for name, members in arrangement.archives.items():
        try:
            write_archive(output / name, members)
        except OSError as error:
            remarks.append(f"{len(members):,} files do not come home: {name} cannot be written: {error.strerror}")
            continue
        for source in () if keeps else results.own.intersection(members.values()):
            source.unlink()
    write_documents(output, documents)
    return remarks


def write_documents(output: Path, documents: Mapping[str, Mapping[str, object]]) -> None:
    """JSON files of the output, and last the manifest of all that is there. Raises OSError, and TrainerError."""
    own_folder(output)
    for name, document in documents.items():
        _put(output / name, json.dumps(document, indent=1, allow_nan=False))
    rows = []
    for path in _entries(output):
        if path.is_file() and path != output / MANIFEST:
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            rows.append(
                {"path": path.relative_to(output).as_posix(), "size_bytes": path.stat().st_size, "sha256": digest}
            )
    _put(output / MANIFEST, json.dumps(rows, indent=1))


def set_aside(path: Path) -> None:
    """Rename what a script has left under a name that the run needs: it comes home too."""
    if path.is_symlink():
        path.unlink()
    elif path.exists():
        path.replace(path.with_name(f"script-{path.name}"))


def own_folder(path: Path) -> None:
    """Make the folder, in the place of a link that a script has put there: it would lead out of the run directory."""
    if path.is_symlink():
        path.unlink()
    path.mkdir(parents=True, exist_ok=True)


def _put(path: Path, text: str) -> None:
    """A new file in the place of whatever is there: a link of the script is not followed."""
    if path.is_dir() and not path.is_symlink():
        raise TrainerError(f"{path.name} is a folder; the run writes a file of that name")
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)
    with new.open("x", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
