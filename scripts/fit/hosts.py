"""What is said of hosts without accelerator, held against what they were measured at."""

from __future__ import annotations

import csv
import re
from statistics import mean, median

from trainplan.planner.throughput.compile import DATA
from trainplan.planner.throughput.host import on_host
from trainplan.planner.throughput.nets import net_of
from trainplan.planner.throughput.values import CPU

_VCPUS = re.compile(r"(\d+) vCPUs")


def host_lines() -> list[str]:
    """A table of the shipped rows that state their vCPUs; the model knows none of them."""
    lines = ["| row | what | measured | predicted | interval | error |", "|---|---|---|---|---|---|"]
    errors, covered = [], []
    with (DATA / "measurements.csv").open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            vcpus = _VCPUS.search(row["device_as_stated"])
            net = net_of(row["model"], int(row["image_size_px"]), float(row["parameters_million"] or 0) or None)
            if row["device"] != CPU or vcpus is None or net is None or row["quality"] == "C":
                continue
            predicted = on_host(net, int(row["batch_per_device"]), int(vcpus[1]), rented=False)
            measured = float(row["images_per_second"])
            errors.append(predicted.images_per_second / measured - 1)
            covered.append(predicted.low <= measured <= predicted.high)
            what = f"{row['model']} {row['image_size_px']} px, batch {row['batch_per_device']}"
            lines.append(
                f"| {row['id']} | {what} | {measured:.1f} | {predicted.images_per_second:.1f} "
                f"| {predicted.low:.1f} - {predicted.high:.1f} | {errors[-1]:+.1%} |"
            )
    if not errors:
        return ["No row of such a host with its vCPUs is shipped."]
    off = [abs(error) for error in errors]
    summary = f"{len(off)} rows: MAPE {mean(off):.1%}, median {median(off):.1%}, {sum(covered)} inside the interval."
    return [*lines, "", summary]
