"""The file that a person wants an answer written to: what it may be called, and how a page is written.

Such a file takes the place of an earlier one of its kind. A name without the suffix of the kind is refused before
anything is computed, since it may be that of a file of another kind: the job file, say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trainplan.planner.errors import BadInputError, ThisMachineError
from trainplan.planner.home.files import persons_files

if TYPE_CHECKING:
    from pathlib import Path


class FileKind(NamedTuple):
    """What an option writes: in words, with the suffixes that its name may have."""

    option: str
    what: str
    suffixes: tuple[str, ...]

    def refuse_other(self, target: Path | None) -> None:
        """Raises BadInputError for a name that is not one of this kind."""
        if target is None or target.suffix.lower() in self.suffixes:
            return
        first = self.suffixes[0]
        name = target.name or str(target)
        raise BadInputError(
            f"{self.option} writes {self.what}, and {name} does not end in {first}",
            f"{self.option} {target.with_suffix(first) if target.name else f'report{first}'}",
        )


PAGE = FileKind("--html", "a page", (".html", ".htm"))
PLOT = FileKind("--plot", "a PNG file", (".png",))
SHEET = FileKind("--sheet", "a picture", (".png", ".jpg", ".jpeg"))


def write_page(page: str, target: Path) -> None:
    """Raises ThisMachineError where it cannot be written."""
    try:
        with persons_files():
            target.write_text(page, encoding="utf-8")
    except OSError as error:
        raise ThisMachineError(f"cannot write {target}: {error.strerror}") from None


def write_new(text: str, target: Path) -> None:
    """Write a file that is not there yet, with line ends as they are; nothing of it is left where the disk takes only a
    part.

    Raises OSError; FileExistsError where it is there.
    """
    # The person's own umask: the file lies outside the home, which alone is private.
    with persons_files(), target.open("x", encoding="utf-8", newline="") as file:
        try:
            file.write(text)
            file.flush()
        except OSError:
            target.unlink()
            raise


def write_over(text: str, target: Path) -> None:
    """Write a file in the place of what is there, whole or not at all. Raises OSError."""
    with persons_files():
        new = target.with_name(f".{target.name}.new")
        try:
            new.write_text(text, encoding="utf-8", newline="")
            new.replace(target)
        except OSError:
            new.unlink(missing_ok=True)
            raise
