"""Azurite, Microsoft's double of Azure Blob Storage, as a process of its own."""

from __future__ import annotations

import functools
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.doubles.waiting import until

ACCOUNT = "devstoreaccount1"
# The key of the emulator's only account, the same in every copy of it.
ACCOUNT_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
_LISTENS = re.compile(r"listens on (https?://127\.0\.0\.1:\d+)")


@contextmanager
def azurite(folder: Path, *options: str) -> Iterator[str]:
    """The address of one that keeps nothing; `folder` is its own. Without it: a failure when CI=true, else a skip.

    It takes a free port itself and says which: one that was looked up for it may be another's by then.
    """
    command = [_program(), "--blobHost", "127.0.0.1", "--blobPort", "0", "--inMemoryPersistence", "--silent"]
    said = folder / "said.log"
    with said.open("wb") as log:
        server = subprocess.Popen(
            [*command, "--skipApiVersionCheck", "--disableTelemetry", *options],
            cwd=folder,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        until(lambda: server.poll() is not None or _address(said) is not None, "Azurite answers")
        address = _address(said)
        if address is None:
            pytest.fail(f"Azurite ended with {server.returncode}: {said.read_text(encoding='utf-8')[-300:]}")
        yield address
    finally:
        server.terminate()
        server.wait(timeout=300)


def _address(output_file: Path) -> str | None:
    found = _LISTENS.search(output_file.read_text(encoding="utf-8"))
    return found and found[1]


@functools.cache
def _program() -> str:
    """Installed where it is not yet."""
    ran = subprocess.run([ROOT / "scripts" / "azurite.sh"], capture_output=True, text=True, timeout=600, check=False)
    if ran.returncode:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(f"no Azurite here: {ran.stderr[-300:]}")
    return ran.stdout.strip()
