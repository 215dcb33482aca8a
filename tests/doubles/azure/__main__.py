"""The double in a process of its own: `python -m tests.doubles.azure FOLDER` writes its address to stdout, and serves
until its stdin is closed. FOLDER gets the certificates of its authority, `authority.pem`."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.contract.sim import NamedTrainer
from tests.doubles.azure.authority import make_authority
from tests.doubles.azure.server import AzureServer


def main(folder: Path) -> None:
    _, pem = make_authority(folder)
    server = AzureServer(pem, trainer=NamedTrainer())
    server.start()
    sys.stdout.write(f"{server.url}\n")
    sys.stdout.flush()
    sys.stdin.read()
    server.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
