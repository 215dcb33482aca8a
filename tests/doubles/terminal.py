"""A terminal at which somebody types what a test says, in no real time."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.doubles.clock import FakeClock


@dataclass
class FakeTerminal:
    """`typed` is what comes, one entry for each read: text, "" for the end of the input, None for nothing. After the
    last entry nothing comes. A read that brings nothing lasts as long as it may."""

    clock: FakeClock
    typed: list[str | None] = field(default_factory=list)
    there: bool = True
    written: str = ""
    reads: int = 0

    def is_there(self) -> bool:
        return self.there

    def write(self, text: str) -> None:
        self.written += text

    def read(self, seconds: float) -> str | None:
        self.reads += 1
        text = self.typed.pop(0) if self.typed else None
        if text is None:
            self.clock.advance(seconds)
        return text
