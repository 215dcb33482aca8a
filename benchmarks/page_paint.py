"""How soon a browser paints the page of `plan estimate --html` with 1,500 rows.

`python benchmarks/page_paint.py [--tries N]`. Needs Chromium and the playwright client (`make browser`). The clock is
the browser's, from the request to the first paint with content.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from trainplan.planner.clock import SystemClock
from trainplan.planner.planning.build_plan import PlanQuery, make_plan
from trainplan.planner.report.estimate_html import estimate_html
from trainplan.planner.report.estimate_json import Beside, estimate_document
from trainplan.planner.settings import load_settings
from trainplan.planner.throughput.table import cited
from trainplan.workloads.jobfile import read_job

ROOT = Path(__file__).parents[1]
ROWS = 1_500
PAINTED_MS = """() => new Promise(tell => new PerformanceObserver(list => {
    const first = list.getEntriesByName('first-contentful-paint')[0];
    if (first) tell(first.startTime);
}).observe({type: 'paint', buffered: true}))"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tries", type=int, default=10)
    tries = parser.parse_args().tries
    words = [ROOT / "scripts" / "browser.sh"]
    browser = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()[0]
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        file = Path(folder) / "report.html"
        file.write_text(page(Path(folder) / "home"), encoding="utf-8")
        # As root Chromium has no sandbox; the page is our own.
        chromium = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        painted_ms = []
        for _ in range(tries):
            opened = chromium.new_page()
            opened.goto(file.as_uri())
            painted_ms.append(float(opened.evaluate(PAINTED_MS)))
            opened.close()
        chromium.close()
    print(
        f"{ROWS} rows, painted after {statistics.median(painted_ms):.0f} ms (median), {max(painted_ms):.0f} ms at most"
    )
    return 0


def page(home: Path) -> str:
    settings = load_settings({"PLAN_HOME": str(home)})
    query = PlanQuery(every_placement=True, limit=0, prices=True)
    plan = make_plan(read_job(ROOT / "examples" / "vgg16-imagenet.yaml"), query, settings, SystemClock().now())
    document = json.loads(json.dumps(estimate_document(plan, Beside(cited=cited, levers=()))))
    return estimate_html(document | {"candidates": document["candidates"][:ROWS]})


if __name__ == "__main__":
    raise SystemExit(main())
