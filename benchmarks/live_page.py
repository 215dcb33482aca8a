"""How soon an interruption is on the page of `plan serve`, and how much memory its server takes.

`python benchmarks/live_page.py [--minutes N] [--runs N] [--speed N]`. In a home of its own, runs of the simulated cloud
are launched and followed while spot machines are taken back all the time; one reader has the page open. A delay is from
the note in the journal of an interruption, which is looked for every 50 ms, to the event at the reader that shows it.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from urllib.parse import urlsplit

from trainplan.planner.api import build
from trainplan.planner.clock import SystemClock
from trainplan.planner.errors import PlanError
from trainplan.planner.runs.journal.journal import Journal
from trainplan.planner.runs.journal.reader import read_only
from trainplan.planner.settings import Settings, load_settings
from trainplan.providers.base import RunId

JOB = """\
name: practice-{number}
model: {{preset: vgg16}}
data: {{name: imagenet}}
epochs: 90
global_batch_size: 256
constraints: {{deadline: 20d}}
"""
SCENARIO = """\
seed = 7
reclaims_per_hour = {reclaims}
"""
PLAN = [sys.executable, "-P", "-c", "from trainplan.planner.cli.main import main; main()"]
SECONDS_OF_A_LOOK = 0.05


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--speed", type=float, default=24.0, help="simulated seconds in one second")
    parser.add_argument("--reclaims", type=float, default=1.0, help="of a spot machine in a simulated hour")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        home.mkdir(mode=0o700)
        os.environ["PLAN_HOME"] = str(home)
        (home / "scenario.toml").write_text(SCENARIO.format(reclaims=options.reclaims))
        (home / "settings.toml").write_text(
            f'sim_speed = "{options.speed:g}"\nsim_scenario = "{home / "scenario.toml"}"\n'
        )
        settings = load_settings(os.environ)
        for number in range(options.runs):
            follower = threading.Thread(target=follow, args=(launched(Path(folder), number), settings), daemon=True)
            follower.start()
        measured = Measured(settings)
        measured.watch(options.minutes)
        print(measured.text(options.runs, options.speed))
        sys.stdout.flush()
        os._exit(0)  # followers of simulated runs would go on for days


def launched(folder: Path, number: int) -> RunId:
    job = folder / f"job-{number}.yaml"
    job.write_text(JOB.format(number=number))
    command = [*PLAN, "launch", str(job), "--provider", "sim", "--yes", "--another", "--detach", "--json"]
    said = subprocess.run(command, capture_output=True, check=True, cwd=folder)
    return RunId(json.loads(said.stdout)["run_id"])


def follow(run_id: RunId, settings: Settings) -> None:
    """As `plan attach` does, in a thread."""
    factory = build.providers(settings)
    with Journal.open(settings.journal) as journal:
        run = journal.run(run_id)
        runner = build.runner(journal, settings, lambda _: None, "sim", make_provider=factory)
        try:
            runner.follow(run, build.further_requests(runner, run, factory, settings))
        except PlanError as error:
            print(f"{run_id}: {error.message}", file=sys.stderr)


class Measured:
    """Interruptions as the journal notes them and as the page shows them, and the memory of the server in between."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._clock = SystemClock()
        self._server = subprocess.Popen([*PLAN, "serve", "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert self._server.stdout is not None
        self._address = urlsplit(json.loads(self._server.stdout.readline())["address"])
        self._noted: dict[str, float] = {}
        self._shown: dict[str, float] = {}
        self._newest: dict[str, str] = {}
        self._memory_mb: list[float] = []
        threading.Thread(target=self._read, daemon=True).start()

    def watch(self, minutes: float) -> None:
        """Look at the journal and at the server's memory for so long."""
        began, looks = self._now(), 0
        newest = 0
        while self._now() - began < 60 * minutes:
            with read_only(self._settings.journal) as journal:
                version = journal.version()
                if version != newest:
                    self._note(journal, version - newest if newest else 0)
                    newest = version
            if looks % 200 == 0:
                self._memory_mb.append(memory_mb(self._server.pid))
            looks += 1
            self._clock.sleep(SECONDS_OF_A_LOOK)
        self._server.kill()

    def text(self, runs: int, speed: float) -> str:
        delays = [self._shown[key] - at for key, at in self._noted.items() if key in self._shown]
        minutes = (max(self._noted.values()) - min(self._noted.values())) / 60
        never = len(self._noted) - len(delays)
        return (
            f"{runs} runs, {minutes:.0f} minutes at {speed:g} simulated seconds a second: {len(delays)} interruptions "
            f"on the page after {statistics.median(delays):.2f} s (median), {max(delays):.2f} s at most; {never} not "
            f"shown; memory of the server {self._memory_mb[0]:.1f} MB at first, {max(self._memory_mb):.1f} MB at most, "
            f"{self._memory_mb[-1]:.1f} MB at last"
        )

    def _note(self, journal: Journal, count: int) -> None:
        for run_id, event in reversed(journal.newest_events(min(count, 1_000))):
            before, self._newest[run_id] = self._newest.get(run_id), event.kind
            if event.kind == "interrupted" != before:  # what is found out later about the same one is noted again
                self._noted.setdefault(f"{event.at.astimezone():%Y-%m-%d %H:%M:%S} {run_id}", self._now())

    def _read(self) -> None:
        """The stream of news, as a browser has it."""
        connection = http.client.HTTPConnection(str(self._address.hostname), self._address.port)
        connection.request("GET", f"{self._address.path}?{self._address.query}")
        reply = connection.getresponse()
        cookie = str(reply.headers["Set-Cookie"]).partition(";")[0]
        connection = http.client.HTTPConnection(str(self._address.hostname), self._address.port)
        connection.request("GET", "/events", headers={"Cookie": cookie})
        stream = connection.getresponse()
        while line := stream.readline():
            if line.startswith(b"data: "):
                at, html = self._now(), json.loads(line[6:])["html"]
                for key in list(self._noted):
                    stamp, run_id = key.rsplit(" ", 1)
                    if key not in self._shown and any(
                        part.startswith(stamp) and f"{run_id} interrupted" in part for part in html.split(">")
                    ):
                        self._shown[key] = at

    def _now(self) -> float:
        return self._clock.now().timestamp()


def memory_mb(pid: int) -> float:
    """The resident memory of a process on Linux."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in text.splitlines() if line.startswith("VmRSS")).split()[1]) / 1024


if __name__ == "__main__":
    raise SystemExit(main())
