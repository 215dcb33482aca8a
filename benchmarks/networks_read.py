"""Reads published networks as `plan estimate` does and writes the table of docs/networks.md: parameters and
multiply-accumulates beside the published ones, the range of pixels, and whether the trainer takes them. Nothing is
trained.

Needs TensorFlow. `PYTHONPATH=. python -m benchmarks.networks_read > table.md`; `--only vit` takes those whose names
begin so. Exit code 1 where a figure is farther than 3 % from the published one, or a network is refused.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from tests.networks.test_applications import NETWORKS
from tests.networks.test_published import FILE, table
from trainplan.workloads.graph_file import graph_from_json
from trainplan.workloads.network_reader.errors import UnreadableError
from trainplan.workloads.network_reader.keras_graph import read_keras

if TYPE_CHECKING:
    from collections.abc import Iterator

HEAD = (
    "| network | px | M weights | published | G multiply-accumulates | published | off | pixels | trained by |",
    "|---|---|---|---|---|---|---|---|---|",
)
MOST_OFF = 0.03


def main() -> int:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=[""], help="networks whose names begin so")
    options = parser.parse_args()
    print(*HEAD, sep="\n")
    is_well = True
    for question, weights, macs in questions():
        if question["name"].startswith(tuple(options.only)):
            line, is_right = row(question, weights, macs)
            is_well &= is_right
            print(line, flush=True)
    return 0 if is_well else 1


def questions() -> Iterator[tuple[dict[str, Any], float, float | None]]:
    """What the reader is asked, published weights and multiply-accumulates."""
    more = {"channels": 3, "framework": "tensorflow"}
    source = FILE.read_text(encoding="utf-8")
    for name, (size, classes, weights, macs, _) in table().items():
        one = {"name": name, "source": source, "file": FILE.name, "builder": name, "size": size, "classes": classes}
        yield one | more, weights, macs
    for name, size, millions, macs, _ in NETWORKS:
        source = (
            "import keras\n\n\ndef build(image_size, channels, classes):\n    return keras.applications."
            f"{name}(weights=None, input_shape=(image_size, image_size, channels), classes=classes)\n"
        )
        one = {"name": name, "source": source, "file": "one_line.py", "builder": "build", "size": size, "classes": 1000}
        yield one | more, millions * 1e6, macs


def row(question: dict[str, Any], weights: float, macs: float | None) -> tuple[str, bool]:
    """The network's line, and whether it is as published."""
    told = f"{weights / 1e6:.1f} | "
    try:
        answer = read_keras(question, lambda: None, lambda: lambda: "")
    except UnreadableError as error:
        return f"| {question['name']} | {question['size']} | - | {told}- | - | - | - | refused: {error} |", False
    graph = graph_from_json(answer["graph"])
    # Published counts of keras.applications hold the statistics of batch norm, those of papers do not.
    count = graph.parameters + (graph.statistics if question["file"] == "one_line.py" else 0)
    off = None if macs is None else graph.macs / macs - 1
    cells = [
        question["name"],
        str(question["size"]),
        f"{count / 1e6:.1f}",
        f"{weights / 1e6:.1f}",
        f"{graph.macs / 1e9:.2f}",
        "-" if macs is None else f"{macs / 1e9:.2f}",
        "-" if off is None else f"{off:+.1%}",
        "{:g} to {:g}".format(*answer["pixel_range"]),
        "the trainer" if not graph.unknown else f"the trainer; not known: {', '.join(graph.unknown)}",
    ]
    return f"| {' | '.join(cells)} |", off is None or abs(off) <= MOST_OFF


if __name__ == "__main__":
    sys.exit(main())
