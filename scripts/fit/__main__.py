"""`python -m scripts.fit`: fit the model, hold it against the folds, write model.json and docs/accuracy.md."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace

from scripts.fit.evaluate import fit, run_folds
from scripts.fit.folds import folds
from scripts.fit.influence import influence, influence_lines
from scripts.fit.lead import with_lead
from scripts.fit.operators.fit import fit_networks, write_networks
from scripts.fit.operators.report import network_lines, replace_section
from scripts.fit.operators.rows import read_stated
from scripts.fit.others import other_arrays, read_others
from scripts.fit.pairs import read_pairs
from scripts.fit.report import TARGET, figures, moved_figures, summary, write_report
from scripts.fit.rows import arithmetic, read_rows
from scripts.fit.scaling import read_scaling, scaling_lines, with_width, write_scaling
from scripts.fit.store import rounded, write_model
from scripts.fit.totals import predict_totals, write_totals
from scripts.fit.widths import half_widths, sharing_scales, version_shift


def main() -> int:
    """Fit the model, write it and its report; with --report-only the report alone."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--workers", type=int, default=2, help="processes (default: 2)")
    options.add_argument("--report-only", action="store_true", help="leave model.json as it is")
    arguments = options.parse_args()
    rows = read_rows()
    data = arithmetic(rows)
    pairs, others = read_pairs(), other_arrays(read_others())
    fold_list = folds(rows)
    sys.stderr.write(
        f"{len(rows)} rows, {len(pairs)} pairs and {len(others.others)} series of other nets, {len(fold_list)} folds\n"
    )
    tested = run_folds(data, pairs, others, fold_list, arguments.workers)
    of_networks, network_tested = fit_networks(tested)
    if not arguments.report_only:
        write_networks(of_networks, network_tested)
        model, left_out = fit(data, pairs, others)
        model = replace(
            rounded(model),
            left_out=left_out,
            half_widths=half_widths(tested),
            sharing_scales=sharing_scales(tested),
            version_shift=version_shift(rows),
        )
        write_model(model, {"rows": len(rows), "tests": figures(tested)})
    for line in influence_lines(influence(rows, tested, moved_figures)):
        sys.stderr.write(f"{line}\n")
    totals = predict_totals(rows, pairs, others)
    write_totals(totals)
    write_scaling(with_width(read_scaling()))
    write_report(rows, tested, totals)
    networks = network_lines(network_tested, {one.id: one for one in read_stated()})
    TARGET.write_text(with_lead(replace_section(TARGET.read_text(encoding="utf-8"), networks)), encoding="utf-8")
    for line in (*summary(tested), "", *networks, "", *scaling_lines(read_scaling())):
        sys.stdout.write(f"{line}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
