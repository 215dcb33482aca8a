"""Exit codes into reasons."""

from __future__ import annotations

from tests.rows import each_row
from trainplan.providers.base import EndKind
from trainplan.providers.cloud.exit_codes import how_it_ended


@each_row(
    ("code", "out_of_memory", "kind"),
    [
        (0, False, EndKind.DONE),
        (65, False, EndKind.BAD_JOB),
        (69, False, EndKind.FAILED),
        (70, False, EndKind.FAILED),
        (70, True, EndKind.OUT_OF_MEMORY),  # what was killed is a process that it had started
        (75, False, EndKind.STOPPED),
        (76, False, EndKind.DEADLINE),
        (86, False, EndKind.OUT_OF_MEMORY),
        (124, False, EndKind.DEADLINE),
        (137, False, EndKind.KILLED),
        (137, True, EndKind.OUT_OF_MEMORY),
        (0, True, EndKind.DONE),  # a helper process was killed, the trainer was not
        (-9, False, EndKind.KILLED),
        (-15, False, EndKind.STOPPED),
        (143, False, EndKind.STOPPED),
        (139, False, EndKind.FAILED),
        (1, False, EndKind.FAILED),
        (None, False, EndKind.LOST),
    ],
)
def test_kind(code: int | None, out_of_memory: bool, kind: EndKind) -> None:
    found, reason = how_it_ended(code, out_of_memory=out_of_memory)
    assert found is kind
    assert reason


def test_an_unknown_code_is_named() -> None:
    assert "42" in how_it_ended(42)[1]
    assert "signal 11" in how_it_ended(139)[1]
