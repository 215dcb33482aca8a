"""`python -m scripts.fit.operators`: fit the model of operators alone, and write its part of docs/accuracy.md."""

from __future__ import annotations

import sys
from pathlib import Path

from scripts.fit.evaluate import run_folds
from scripts.fit.folds import DEVICE, folds
from scripts.fit.lead import with_lead
from scripts.fit.operators.fit import fit_networks, write_networks
from scripts.fit.operators.report import network_lines, replace_section
from scripts.fit.operators.rows import read_stated
from scripts.fit.others import other_arrays, read_others
from scripts.fit.pairs import read_pairs
from scripts.fit.rows import arithmetic, read_rows

ACCURACY = Path(__file__).parents[3] / "docs" / "accuracy.md"
_WORKERS = 2


def main() -> int:
    """What VGG nets on a device that their model never saw are predicted is computed for the blend of both models."""
    rows = read_rows()
    unseen = [fold for fold in folds(rows) if fold.test == DEVICE]
    of_vgg = run_folds(arithmetic(rows), read_pairs(), other_arrays(read_others()), unseen, _WORKERS)
    fit, tested = fit_networks(of_vgg)
    write_networks(fit, tested)
    lines = network_lines(tested, {one.id: one for one in read_stated()})
    text = replace_section(ACCURACY.read_text(encoding="utf-8"), lines)
    ACCURACY.write_text(with_lead(text), encoding="utf-8")
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
