"""The model of operators from the measurements, and how right it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scripts.fit.operators.folds import tested as held_out
from scripts.fit.operators.process import fitted
from scripts.fit.operators.report import network_figures
from scripts.fit.operators.rows import read_network_rows
from scripts.fit.operators.store import model_of, write_operators
from scripts.fit.operators.widths import blended, network_half_widths

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scripts.fit.evaluate import Tested
    from scripts.fit.operators.folds import NetworkTested
    from scripts.fit.operators.process import Posterior


def fit_networks(of_vgg: Sequence[Tested]) -> tuple[Posterior, list[NetworkTested]]:
    """The fit, and its held-out predictions; `of_vgg` are those of the model of VGG nets on unseen devices."""
    rows = read_network_rows()
    known = fitted(rows)
    return known, blended(held_out(known), of_vgg, rows)


def write_networks(known: Posterior, tested: Sequence[NetworkTested]) -> None:
    """The shipped model."""
    summary = {"rows": len(known.fit.rows), "tests": network_figures(tested)}
    write_operators(model_of(known, network_half_widths(tested)), summary)
