"""What an estimate cannot see: what no figure of it counts, so that nobody takes it for more than it is."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from trainplan.planner.throughput.values import Basis
from trainplan.pricing.grades import is_ahead, is_old
from trainplan.pricing.offers import Market
from trainplan.workloads.wording import Option, Text

if TYPE_CHECKING:
    from trainplan.planner.forecast.plan import Plan


def cannot_see(plan: Plan, *, is_checked: bool = False) -> list[str]:
    """A line each, those with a count of this plan's offers first. Needs the plan's prices.

    `is_checked`: the account was asked what it may launch.
    """
    return [
        *_speeds(plan),
        *_prices(plan),
        *_spot(plan),
        *_data(plan),
        *([] if is_checked else [str(_ACCOUNT)]),
        *_ALWAYS,
    ]


_ACCOUNT = Text(
    "the account: whether its quotas allow a machine is not asked (",
    Option.CHECK,
    ", plan doctor), and a listed price does not say that a machine can be obtained",
)
_ALWAYS = (
    "the bill: prices are before tax, negotiated discounts and minimum charges that nobody lists; requests to object "
    "storage are not counted",
    "the model: the job has the number of epochs; whether they reach the accuracy that you need is not estimated",
    "another program: speeds are those of this project's own trainer; a training script of your own may be slower",
    "the cloud itself: nothing was held against a bill of a real account yet "
    "(docs/maintainers/fidelity.md lists what is assumed)",
)


def _speeds(plan: Plan) -> list[str]:
    """How many offers rest on a device that nobody measured."""
    bases = Counter(candidate.estimate.throughput.basis for candidate in plan.ranking)
    told = {
        Basis.ANCHORED: "was never measured on their device with this network: other networks were, and carry it",
        Basis.MODELLED: "was never measured on their device: it is computed from the data sheet and what the model "
        "learnt of others",
    }
    return [
        f"the speed of {bases[basis]:,} of {len(plan.ranking):,} offers {text} (basis: {basis})"
        for basis, text in told.items()
        if bases[basis]
    ]


def _prices(plan: Plan) -> list[str]:
    """How many offers have a price of more than a month ago."""
    today = plan.made_at.date()
    stamps = [plan.prices[candidate.placement.row_id].stamp for candidate in plan.ranking]
    old = sum(is_old(stamp.price_as_of, today) for stamp in stamps)
    if not old:
        return []
    ahead = [stamp.price_as_of for stamp in stamps if stamp.price_as_of and is_ahead(stamp.price_as_of, today)]
    if ahead:
        return [
            f"how old the prices of {len(ahead):,} of {len(stamps):,} offers are: this computer's clock has {today}, "
            f"and they were read by {max(ahead)}; set the clock"
        ]
    return [
        f"today's price of {old:,} of {len(stamps):,} offers: theirs was read more than a month ago (plan prices "
        "refresh reads the current ones)"
    ]


def _spot(plan: Plan) -> list[str]:
    on_spot = sum(candidate.estimate.rental.market is Market.SPOT for candidate in plan.ranking)
    if not on_spot:
        return []
    return [
        f"the spot market of tomorrow: interruptions and prices of {on_spot:,} spot offers are those of past records, "
        "and an interval of 80 % leaves two runs of ten outside"
    ]


def _data(plan: Plan) -> list[str]:
    """What is not known of data that is no known set."""
    from trainplan.planner.datasets.transfer import data_line

    job = plan.job
    if job.script is not None:
        return ["the script: what it does and fetches is not read; only a run of it shows its speed"]
    return [] if job.known_data or job.data.size_bytes is not None else [f"the data: {data_line(job)}"]
