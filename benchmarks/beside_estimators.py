"""This project's held-out predictions beside what other estimators compute, on the same measurements:
`python -m benchmarks.beside_estimators`. Fits the model of operators (two minutes); docs/accuracy.md has the table.
"""

from __future__ import annotations

import sys

from scripts.fit.operators.beside import beside_lines
from scripts.fit.operators.folds import tested
from scripts.fit.operators.process import fitted
from scripts.fit.operators.rows import read_network_rows


def main() -> int:
    """Print the table."""
    for line in beside_lines(tested(fitted(read_network_rows()))):
        sys.stdout.write(f"{line}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
