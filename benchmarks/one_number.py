"""One number, one name: the figures of many estimates and runs, compared over every output.

    python -m benchmarks.one_number [--estimates 50] [--runs 20]

An estimate is asked for as a table, JSON, page, Markdown, `--explain` and from Python; a run is launched on the
simulated cloud or as a script on this computer, and then shown by its receipt, `plan history`, `plan status`, `plan
report` and its page. Each difference is a line; the last line counts them. Nothing is rented. 50 estimates and 20 runs
take ten minutes on two idle cores.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from decimal import Decimal
from html import unescape
from pathlib import Path
from typing import Any, NamedTuple

from tests.unit.planner.cli.command import plan
from trainplan.pricing.money import format_usd
from trainplan.workloads.durations import format_duration, format_estimate

JOBS = (
    ("vgg16", "cifar10", 90), ("resnet18", "cifar100", 3), ("mobilenet_v2", "cifar10", 30), ("resnet50", "imagenet", 1),
    ("lenet", "mnist", 5), ("efficientnet_b0", "imagenet", 20), ("mnist-cnn", "fashion_mnist", 10),
)  # fmt: skip
PROVIDERS = ("", "sim", "aws", "gcp,azure", "colab,kaggle", "sim,local,colab", "local", "aws,runpod")
OBJECTIVES = ("cost", "time", "balanced")
SCRIPT = """\
import sys, time
import trainplan_run
for step in range(1, 201):
    time.sleep(0.01)
    trainplan_run.report(step, images=32, total_steps=200, loss=1 / step)
"""


class Asked(NamedTuple):
    """An estimate: the words behind `plan estimate`, and what the Python API takes."""

    words: tuple[str, ...]
    providers: tuple[str, ...]
    objective: str


def estimates(count: int, folder: Path) -> Iterator[Asked]:
    """So many different ones, every job and every choice of providers among the first."""
    product = itertools.product(range(len(OBJECTIVES)), range(len(PROVIDERS)), range(len(JOBS)))
    order = sorted(product, key=lambda at: ((at[0] + at[1] + at[2]) % 3, (at[1] * 5 + at[2] * 3) % 8, at))
    for objective, providers, job in order[:count]:
        net, data, epochs = JOBS[job]
        file = folder / f"{net}-{data}-{epochs}.yaml"
        if not file.exists():
            plan("init", file, "--model", net, "--dataset", data, "--epochs", epochs)
        names = tuple(filter(None, PROVIDERS[providers].split(",")))
        words = (
            str(file),
            *(("--provider", PROVIDERS[providers]) if names else ()),
            "--objective",
            OBJECTIVES[objective],
        )
        yield Asked(words, names, OBJECTIVES[objective])


def differences_of_estimate(asked: Asked, folder: Path) -> list[str]:
    """Where an output of the estimate has another figure than its JSON."""
    import trainplan

    document = plan("estimate", *asked.words, "--json").json
    page_file = folder / "page.html"
    page_file.unlink(missing_ok=True)
    plan("estimate", *asked.words, "--html", page_file)
    outputs = {
        "table": plan("estimate", *asked.words, "--limit", "100000", "--wide").out,
        "markdown": plan("estimate", *asked.words, "--limit", "100000", "--format", "markdown").out,
    }
    first = [row for row in document["candidates"] if "." not in row["row"]]
    found: list[str] = []
    tables = {"table": _rows(outputs["table"]), "markdown": _markdown_rows(outputs["markdown"])}
    tables["page"] = {cells[0]: cells for cells in _page_rows(page_file.read_text(encoding="utf-8"))}
    wanted = {row["row"]: _told(row) for row in document["candidates"]}
    for name, rows in tables.items():
        shown = wanted if name == "page" else {row["row"]: wanted[row["row"]] for row in first}
        found += [f"{name}: rows {sorted(rows.keys() ^ shown.keys())[:5]}"] if rows.keys() != shown.keys() else []
        found += [
            f"{name} row {row}: {text!r} is not in {rows[row]}"
            for row, texts in shown.items() if row in rows
            for text in texts if not any(text in cell for cell in rows[row])
        ]  # fmt: skip
    job = trainplan.Job.read(asked.words[0])
    offers = trainplan.estimate(job, providers=asked.providers, objective=asked.objective)
    by_row = {offer.row: offer for offer in offers if offer.provider != "local"}
    found += (
        [f"API: rows {sorted(by_row.keys() ^ {row['row'] for row in first})[:5]}"] if len(by_row) != len(first) else []
    )
    for row in first:
        offer = by_row[row["row"]]
        pairs = (
            (offer.seconds, row["total_seconds"]), (offer.usd, row["cost_usd"]),
            (offer.seconds_interval[0], row["total_low_seconds"]),
            (offer.seconds_interval[1], row["total_high_seconds"]), (offer.usd_interval[1], row["cost_high_usd"]),
            (offer.images_per_second or 0, row["images_per_second"] or 0),
        )  # fmt: skip
        found += [f"API row {row['row']}: {a} is not {b}" for a, b in pairs if abs(a - b) > 1e-6 * max(1.0, abs(b))]
    for row in first[:1] + first[-1:]:
        found += _explained(plan("estimate", *asked.words, "--explain", row["row"]).out, row)
    return found + _machine(document, offers, outputs["table"], page_file)


def _told(row: Mapping[str, Any]) -> list[str]:
    """What every output has of a row: where it is, time, cost, price of an hour."""
    return [
        f"{row['provider']} {row['region']}", row["instance_type"],
        _times(row)[0],
        format_usd(Decimal(str(row["cost_usd"]))), f"{row['planning_usd_per_hour']:.3f}", str(row["basis"]),
    ]  # fmt: skip


def _times(row: Mapping[str, Any]) -> tuple[str, str, str]:
    return format_estimate(*(row[f"total_{end}seconds"] for end in ("", "low_", "high_")))


def _explained(text: str, row: Mapping[str, Any]) -> list[str]:
    (time, *ends), rate = _times(row), f"{row['images_per_second']:,.1f} images/s"
    wanted = (f"row {row['row']}: {row['provider']} {row['region']}", time, rate, f"{ends[0]} to {ends[1]}")
    return [f"--explain {row['row']}: no {text_!r}" for text_ in wanted if text_ not in text]


def _machine(document: Mapping[str, Any], offers: Any, table: str, page: Path) -> list[str]:
    """This machine in every output. Rates are of a machine at rest, and so the same a minute later."""
    here, offer = document["this_machine"], offers.this_machine
    if here is None or here["total_seconds"] is None:
        return [] if offer is None else ["API: this machine"]
    time = "{} ({} to {})".format(*_times(here))
    found = [] if abs(offer.seconds - here["total_seconds"]) < 1e-6 * offer.seconds else [f"API: {offer.seconds} here"]
    line = next((line for line in table.splitlines() if line.startswith("this machine")), "")
    found += [] if f" {time}, " in line else [f"table: this machine {line!r} without {time}"]
    return found + ([] if time in _text(page.read_text(encoding="utf-8")) else [f"page: this machine without {time}"])


def differences_of_run(words: tuple[str, ...]) -> list[str]:
    """Where an output of a run has another figure than its receipt."""
    told = plan("launch", *words, "--yes").out if "sim" in words else _launched_here(words)
    (run, *_) = plan("history", "--json").json
    run_id, receipt = run["run_id"], run["receipt"]
    report = plan("report", run_id, "--json").json
    file = Path(f"{run_id}.html")
    plan("report", run_id, "--html", file)
    outputs = {
        "launch": told, "report": plan("report", run_id).out,
        "report's page": _text(file.read_text(encoding="utf-8")), "history": plan("history", "--wide").out,
    }  # fmt: skip
    time = format_duration(timedelta(seconds=receipt["actual_seconds"]))
    usd = format_usd(Decimal(str(receipt["actual_usd"])))
    wanted = {"launch": [time, usd], "report": [time, usd], "report's page": [time, usd], "history": [time, usd]}
    if receipt["actual_images_per_second"]:
        rate = f"{receipt['actual_images_per_second']:,.1f}"
        wanted = {name: [*texts, rate] for name, texts in wanted.items()}
    if receipt["sweep"]:
        for name in ("launch", "report", "report's page"):
            wanted[name].append(receipt["sweep"])
    else:
        for name in ("launch", "report"):
            wanted[name].append(f"steps       {receipt['steps']}")
    found = [
        f"{name}: no {text!r}" for name, texts in wanted.items()
        for text in texts if text not in re.sub(r"\n {14}", " ", outputs[name])
    ]  # fmt: skip
    for key, name in (
        ("seconds", "actual_seconds"),
        ("usd", "actual_usd"),
        ("step", "steps"),
        ("total_steps", "total_steps"),
    ):
        if report["actual"][key] != receipt[name]:
            found.append(f"report --json: {key} {report['actual'][key]} is not {receipt[name]}")
    status = plan("status", "--json").json
    found += [f"status: {run_id} is over and shown" for _ in [0] if run_id in json.dumps(status)]
    return found


def _launched_here(words: tuple[str, ...]) -> str:
    """What a launch on this computer prints, in a process of its own: it follows the processes that it starts."""
    command = [str(Path(sys.executable).with_name("plan")), "launch", *words, "--yes"]
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False).stdout


def runs(count: int, folder: Path) -> Iterator[tuple[str, ...]]:
    """So many, most on the simulated cloud, every fifth a script on this computer."""
    (folder / "train.py").write_text(SCRIPT, encoding="utf-8")
    sweep = "sweep:\n  optimizer.learning_rate: [0.1, 0.03, 0.01]\n"
    for number in range(count):
        if number % 5 == 4:
            yield "train.py", "--provider", "local", "--deadline", f"{10 + number}m"
            continue
        net, data, _ = JOBS[number % 3]
        file = folder / f"run-{number}.yaml"
        plan("init", file, "--model", net, "--dataset", data, "--epochs", 1 + number)
        if number % 4 == 3:
            file.write_text(f"{file.read_text(encoding='utf-8')}{sweep}", encoding="utf-8")
        yield str(file), "--provider", "sim"


def _rows(text: str) -> dict[str, list[str]]:
    """The rows of a table as it is printed, by their number."""
    lines = [re.split(r"\s{2,}", line.strip()) for line in text.splitlines()]
    return {cells[0]: cells for cells in lines if len(cells) > 6 and re.fullmatch(r"[\d.]+", cells[0])}


def _markdown_rows(text: str) -> dict[str, list[str]]:
    lines = [[cell.strip().replace("\\", "") for cell in line.strip("| \n").split("|")] for line in text.splitlines()]
    return {cells[0]: cells for cells in lines if len(cells) > 6 and re.fullmatch(r"[\d.]+", cells[0])}


def _page_rows(page: str) -> Iterable[list[str]]:
    body = page.partition('id="rows"')[2].partition("</table>")[0]
    return (
        [unescape(re.sub(r"<[^>]*>", "", cell)) for cell in re.split(r"<td[^>]*>", row)[1:]]
        for row in body.split("<tr")[2:]
    )


def _text(page: str) -> str:
    return unescape(re.sub(r"<[^>]*>", " ", page))


def main(arguments: list[str]) -> int:
    """Compare, and count the differences."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--estimates", type=int, default=50)
    parser.add_argument("--runs", type=int, default=20)
    asked = parser.parse_args(arguments)
    os.environ["PLAN_SIM_SPEED"] = "0"
    count = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["PLAN_HOME"] = str(folder / "home")
        os.chdir(folder)
        for one in estimates(asked.estimates, folder):
            found = differences_of_estimate(one, folder)
            count += len(found)
            print(f"estimate {' '.join(one.words)}: {len(found)} differences", *found[:10], sep="\n  ", flush=True)
        for words in runs(asked.runs, folder):
            found = differences_of_run(words)
            count += len(found)
            print(f"run {' '.join(words)}: {len(found)} differences", *found[:10], sep="\n  ", flush=True)
    print(f"{asked.estimates} estimates and {asked.runs} runs: {count} differences")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
