"""What `plan prices refresh` without any account takes: seconds, bytes over the line and memory, over 20 Mbit/s.

The lists are doubles of the real ones' size and shape on loopback (tests/doubles/whole_price_lists.py); a reply begins
after 0.15 s, and all connections share the line.

    python -m benchmarks.refresh [--mbit 20]
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from tests.doubles.price_lists import Handler, World, handler_of, serving, variables
from tests.doubles.whole_price_lists import whole_world
from trainplan.pricing.catalog import REFRESHED
from trainplan.pricing.compile import TEXT_DIR, read_checked_tables
from trainplan.pricing.list_checks import failures_against, listed_prices
from trainplan.pricing.overlay import overlaid
from trainplan.pricing.refresh import read_overlays

PLAN = Path(sys.executable).parent / "plan"
LATENCY_SECONDS = 0.15
_PIECE = 1 << 14


class Line:
    """One line for all connections."""

    def __init__(self, mbit: float) -> None:
        self._bytes_per_second = mbit * 1e6 / 8
        self._lock = threading.Lock()
        self._free_at = 0.0
        self.sent = self.requests = 0

    def pass_on(self, count: int) -> None:
        """Wait until so many bytes have gone over the line."""
        with self._lock:
            self.sent += count
            self._free_at = max(self._free_at, time.monotonic()) + count / self._bytes_per_second
            free_at = self._free_at
        threading.Event().wait(max(0.0, free_at - time.monotonic()))


def slowly(line: Line) -> Callable[[World], type[Handler]]:
    """What answers requests over the line; each list is made once."""
    made: dict[str, bytes | None] = {}

    def handler(world: World) -> type[Handler]:
        class Slow(handler_of(world)):  # type: ignore[misc]  # a class made for this world
            def do_GET(self) -> None:
                line.requests += 1
                threading.Event().wait(LATENCY_SECONDS)
                super().do_GET()

            def content_of(self, path: str, request: dict[str, str]) -> bytes | None:
                if self.path not in made:
                    made[self.path] = super().content_of(path, request)
                return made[self.path]

            def send_content(self, content: bytes) -> None:
                for begin in range(0, len(content), _PIECE):
                    piece = content[begin : begin + _PIECE]
                    line.pass_on(len(piece))
                    self.wfile.write(piece)

        return Slow

    return handler


def environment(address: str, home: Path) -> dict[str, str]:
    """Nobody's account, the lists at `address`."""
    nobody = {
        **{"AWS_EC2_METADATA_DISABLED": "true", "NO_GCE_CHECK": "true", "no_proxy": "127.0.0.1"},
        **{"AWS_CONFIG_FILE": "/none", "AWS_SHARED_CREDENTIALS_FILE": "/none"},
        **{"HOME": str(home), "CLOUDSDK_CONFIG": str(home), "PATH": os.environ["PATH"]},
    }
    lists = variables(address)
    del lists["PLAN_GCP_API_KEY"]
    return nobody | lists | {"PLAN_HOME": str(home)}


def refresh(address: str, home: Path) -> tuple[subprocess.CompletedProcess[str], float]:
    """The command as a person types it, and its seconds."""
    begin = time.monotonic()
    command = [str(PLAN), "prices", "refresh", "--accept"]
    done = subprocess.run(command, env=environment(address, home), capture_output=True, text=True, check=False)
    return done, time.monotonic() - begin


def failed_prices(home: Path) -> list[str]:
    """The prices in use that fail a check of lists, and were none of the shipped ones."""
    if not (home / REFRESHED).is_file():
        return []
    shipped = read_checked_tables(TEXT_DIR)
    used = overlaid(shipped, list(read_overlays(home / REFRESHED).values()))
    known = list(listed_prices(shipped.offers))
    before = {(price.name, price.usd_per_hour) for price in known}
    new = [price for price in listed_prices(used.offers) if (price.name, price.usd_per_hour) not in before]
    return [f"{one.price.name}: {one.reason}" for one in failures_against(new, known)]


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mbit", type=float, default=20.0)
    given = parser.parse_args()
    world, line = whole_world(), Line(given.mbit)
    with serving(world, slowly(line)) as address, tempfile.TemporaryDirectory() as folder:
        with tempfile.TemporaryDirectory() as other:
            refresh(address, Path(other))  # from now on the server need not make its lists first
        before, line.sent, line.requests = resource.getrusage(resource.RUSAGE_CHILDREN), 0, 0
        done, seconds = refresh(address, Path(folder))
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        memory, cpu = usage.ru_maxrss / 1024, usage.ru_utime + usage.ru_stime - before.ru_utime - before.ru_stime
        print(done.stderr + done.stdout if done.returncode else done.stderr)
        line_text = f"{line.sent / 1e6:.1f} MB, {line.requests} requests"
        print(f"exit code {done.returncode}; {seconds:.1f} s, processor {cpu:.1f} s, {line_text}, {memory:.0f} MiB")
        print(f"prices in use that fail a check: {len(failed_prices(Path(folder)))}")


if __name__ == "__main__":
    main()
