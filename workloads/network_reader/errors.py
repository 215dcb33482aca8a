"""Why a file gives no graph."""

from __future__ import annotations


class UnreadableError(Exception):
    """The message says what is wrong with the file, `hint` what to do; `extra` is one of this project that has to be
    installed."""

    def __init__(self, message: str, hint: str = "", *, extra: str = "") -> None:
        super().__init__(message)
        self.hint = hint
        self.extra = extra
