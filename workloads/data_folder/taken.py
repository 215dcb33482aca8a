"""What a run does not take of the images that it reads: what is beside the middle, lower bits, transparency, frames."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainplan.workloads.data_folder.decode import Look

_USUAL_RATIO = 1.5
"""Of the sides of a photograph (36 x 24 mm). Of longer images more than a third lies beside the central square."""
_DARK_SHARE = 1 / 8
"""12 bits in 16, as X-rays and depth cameras have them, use a sixteenth of the range."""
_MOST_16_BITS = 65_535


class Taken:
    """Counts the images of which a run takes only a part, each kind with an example."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._examples: dict[str, str] = {}
        self._brightest = 0

    def add(self, where: str, look: Look) -> None:
        """Count one image, which lies at `where`."""
        width, height = look.size
        if max(width, height) > _USUAL_RATIO * min(width, height):
            self._count("long", f"{where}, {width}x{height} px")
        if look.brightest_of_16_bits is not None:
            self._count("bits", where)
            self._brightest = max(self._brightest, look.brightest_of_16_bits)
        if look.is_transparent:
            self._count("transparent", where)
        if look.is_animated:
            self._count("animated", where)

    def notes(self) -> tuple[str, ...]:
        """One sentence for each kind that was seen."""
        dark = ""
        if self._brightest < _DARK_SHARE * _MOST_16_BITS:
            dark = (
                f"; the brightest pixel of all is {self._brightest:,} of {_MOST_16_BITS:,}, so they are nearly black: "
                "scale them to the whole range"
            )
        sentences = {
            "long": (
                "loses",
                "more than a third of its area",
                "lose",
                "more than a third of their area",
                ": only the central square is used",
            ),
            "bits": ("has", "16 bits", "have", "16 bits", f": the upper 8 are used{dark}"),
            "transparent": (
                "has",
                "transparency",
                "have",
                "transparency",
                ": it is removed, what lies under it stays",
            ),
            "animated": ("is", "animated", "are", "animated", ": only the first frame is used"),
        }
        return tuple(self._sentence(kind, *words) for kind, words in sentences.items() if kind in self._counts)

    def _sentence(self, kind: str, verb: str, what: str, verb_of_many: str, what_of_many: str, end: str) -> str:
        count = self._counts[kind]
        text = f"1 image {verb} {what}" if count == 1 else f"{count:,} images {verb_of_many} {what_of_many}"
        return f"{text}{end} (for example {self._examples[kind]})"

    def _count(self, kind: str, example: str) -> None:
        self._counts[kind] = self._counts.get(kind, 0) + 1
        self._examples.setdefault(kind, example)
