"""Images that are there twice, byte for byte: trained on and held out too, or in two classes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainplan.workloads.data_folder.decode import ImageError
from trainplan.workloads.data_folder.values import DataFolderError

if TYPE_CHECKING:
    from trainplan.workloads.data_folder.samples import Sample

MOST_COMPARED = 50_000
"""Images that are compared where not all are read anyway: seconds of work."""
MOST_SHARE = 0.01
"""Above this share of those held out, or of all, a run is refused unless the job allows it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Duplicates:
    """`in_both`: test images that are also trained on; `in_two_classes`: images that stand in several classes.

    Of each an example: where the image is, and where it is again; None where there is none.
    """

    in_both: int
    in_two_classes: int
    both_example: tuple[str, str] | None = None
    classes_example: tuple[str, str] | None = None


class Contents:
    """The hashes of images: taken while somebody reads them for another reason, of the others where they are needed."""

    def __init__(self, samples: Sequence[Sample]) -> None:
        self._samples = samples
        self._digests: list[bytes | None] = [None] * len(samples)

    def watched(self) -> list[Sample]:
        """The samples; the hash of each is kept when it is read."""
        return [sample._replace(read=self._reader(index)) for index, sample in enumerate(self._samples)]

    def duplicates(self, most: int | None) -> Duplicates | None:
        """What is there twice; None where there are more images than `most`, of which not all were read.

        An image is read for it only where another of the same size stands in another class or split. What cannot be
        read is no duplicate.
        """
        unread = [index for index, digest in enumerate(self._digests) if digest is None]
        if unread and most is not None and len(self._samples) > most:
            return None
        alike = self._alike()
        for index in unread:
            if self._samples[index].size_bytes in alike:
                try:
                    self._reader(index)()
                except (OSError, DataFolderError, ImageError):  # one that has become too large
                    continue
        return count_duplicates(self._samples, self._digests)

    def _alike(self) -> set[int]:
        """Sizes in bytes that images of different classes or splits have."""
        first: dict[int, tuple[int, bool]] = {}
        alike: set[int] = set()
        for sample in self._samples:
            kind = (sample.label, sample.held_out)
            if first.setdefault(sample.size_bytes, kind) != kind:
                alike.add(sample.size_bytes)
        return alike

    def _reader(self, index: int) -> Callable[[], bytes]:
        read, digests = self._samples[index].read, self._digests

        def reader() -> bytes:
            data = read()
            digests[index] = digest_of(data)
            return data

        return reader


def digest_of(data: bytes) -> bytes:
    """A hash of an image's bytes, 16 bytes long."""
    return hashlib.blake2b(data, digest_size=16, usedforsecurity=False).digest()


def count_duplicates(samples: Sequence[Sample], digests: Iterable[bytes | None]) -> Duplicates:
    """The duplicates among samples whose hashes these are."""
    first: dict[bytes, int] = {}
    groups: dict[bytes, list[int]] = {}
    for index, digest in enumerate(digests):
        if digest is not None and (before := first.setdefault(digest, index)) != index:
            groups.setdefault(digest, [before]).append(index)
    in_both = in_two = 0
    both_example = classes_example = None
    for members in groups.values():
        same = [samples[index] for index in members]
        held = [sample for sample in same if sample.held_out]
        trained = next((sample for sample in same if not sample.held_out), None)
        if held and trained is not None:
            in_both += len(held)
            both_example = both_example or (held[0].where, trained.where)
        other = next((sample for sample in same if sample.label != same[0].label), None)
        if other is not None:
            in_two += 1
            classes_example = classes_example or (same[0].where, other.where)
    return Duplicates(
        in_both=in_both, in_two_classes=in_two, both_example=both_example, classes_example=classes_example
    )
