"""What pip's log says of an installation that failed, and what is tried again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from trainplan.workloads.trainer.errors import BadInputError, TrainerError, UnreachableError
from trainplan.workloads.trainer.script_packages import Installing, installed

# As pip 23.0 and 25.1 write them, with an index that refuses connections, and behind a firm's certificate.
REFUSED = """\
2026-11-28T12:00:00,123 WARNING: Retrying (Retry(total=4)) after connection broken by 'NewConnectionError(
'<pip._vendor.urllib3.connection.HTTPConnection>: Failed to establish a new connection: [Errno 111] refused')'
2026-11-28T12:00:09,001 ERROR: Could not find a version that satisfies the requirement six==1.16.0 (from versions: none)
2026-11-28T12:00:09,002 ERROR: No matching distribution found for six==1.16.0
"""
NOT_TRUSTED = """\
WARNING: Retrying after connection broken by 'SSLError(SSLCertVerificationError(1, '[SSL: CERTIFICATE_VERIFY_FAILED]
certificate verify failed: self-signed certificate in certificate chain (_ssl.c:992)'))': /simple/six/
ERROR: No matching distribution found for six==1.16.0
"""
DOWN = "ERROR: HTTP error 503 while getting https://files.example/six.whl\n"
NO_SUCH = "ERROR: Could not find a version that satisfies the requirement six==99 (from versions: 1.15.0, 1.16.0)\n"
TAMPERED = f"{REFUSED}ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.\n"
FULL = "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device\n"


class Pip:
    """Ends each time as told: with this log, or well (None)."""

    def __init__(self, *logs: str | None) -> None:
        self.logs = list(logs)
        self.waits: list[float] = []

    def run(self, command: Sequence[str]) -> int:
        text = self.logs.pop(0)
        if text is not None:
            Path(command[command.index("--log") + 1]).write_text(text, encoding="utf-8")
        return text is not None

    def installed(self, folder: Path) -> Path:
        return installed(
            Installing(folder=folder, locked="six==1.16.0", attempt=1, run=self.run, wait=self.waits.append)
        )


@pytest.mark.parametrize("log", [REFUSED, DOWN])
def test_an_index_that_is_down_for_a_minute_is_asked_again(tmp_path: Path, log: str) -> None:
    pip = Pip(log, log, None)
    folder = pip.installed(tmp_path)
    assert folder.is_dir()
    assert pip.waits == [10, 30]
    assert pip.installed(tmp_path) == folder, "what is installed is not installed again"


def test_an_index_that_stays_down_is_no_bad_job(tmp_path: Path) -> None:
    pip = Pip(*[REFUSED] * 4)
    with pytest.raises(UnreachableError, match="the package index is not reached") as caught:
        pip.installed(tmp_path)
    assert (caught.value.exit_code, pip.waits, pip.logs) == (69, [10, 30, 60], [])


@pytest.mark.parametrize(
    ("log", "error", "code", "text"),
    [
        (NOT_TRUSTED, UnreachableError, 69, "PIP_CERT"),
        (NO_SUCH, BadInputError, 65, "pip could not install"),
        (TAMPERED, BadInputError, 65, "pip could not install"),
        (FULL, TrainerError, 70, "the disk is full"),
    ],
)
def test_what_waiting_does_not_mend_is_told_at_once(
    tmp_path: Path, log: str, error: type[TrainerError], code: int, text: str
) -> None:
    pip = Pip(log)
    with pytest.raises(error, match=text) as caught:
        pip.installed(tmp_path)
    assert (caught.value.exit_code, pip.waits) == (code, [])
