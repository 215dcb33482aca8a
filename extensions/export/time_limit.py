"""How long a job takes on a cluster that nobody has asked: what `sbatch --time` is to say."""

from __future__ import annotations

import math
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

from trainplan.planner.clock import SystemClock
from trainplan.planner.errors import BadInputError
from trainplan.planner.planning.build_plan import PlanQuery, make_plan
from trainplan.planner.throughput.values import Basis
from trainplan.pricing.devices import CPU_DEVICE
from trainplan.pricing.grades import Market, PriceGrade
from trainplan.pricing.offer_source import GivenOffers
from trainplan.pricing.offers import Offer
from trainplan.providers.registry import CLUSTER, rates_told_by
from trainplan.workloads.job import Constraints

if TYPE_CHECKING:
    from trainplan.extensions.export.engine_files import Accelerators
    from trainplan.planner.settings import Settings
    from trainplan.workloads.job import TrainingJob

INSTALLATION = timedelta(minutes=15)
"""For the packages of the job, which its first start installs into the folder (assumed: 2 GB over a shared disk; 1 to 3
minutes were seen on a local one)."""
LONGEST = timedelta(hours=24)
"""Many partitions let no job run longer (assumed). One that needs more is requeued at its limit, and goes on."""
_VCPUS_EACH, _MEMORY_GIB_EACH = 4, 16.0
"""Of a node for each of its devices: what is told of no cluster here (assumed)."""


def most_minutes(job: TrainingJob, accelerators: Accelerators | None, settings: Settings) -> int | None:
    """The upper end of the estimate, with the installation, in minutes; None where nothing can be estimated.

    Raises ThisMachineError as an estimate does.
    """
    now = SystemClock().now()
    device, count = (accelerators.device, accelerators.count) if accelerators else (CPU_DEVICE, 1)
    offer = Offer(
        provider=CLUSTER,
        region="any",
        instance_type="node",
        device=device,
        device_count=count,
        device_memory_gib=None,
        vcpus=_VCPUS_EACH * count,
        memory_gib=_MEMORY_GIB_EACH * count,
        market=Market.ON_DEMAND,
        usd_per_hour=Decimal(0),
        planning_usd_per_hour=Decimal(0),
        price_grade=PriceGrade.OBSERVED,
        price_as_of=now.date(),
        price_source="your own cluster",
        on_demand_usd_per_hour=Decimal(0),
    )
    own = job.model_copy(update={"constraints": Constraints()})
    rates = rates_told_by(CLUSTER)
    query = PlanQuery(providers=(CLUSTER,), offer_source=lambda catalog: GivenOffers([offer], [rates], catalog))
    try:
        plan = make_plan(own, query._replace(limit=1), settings, now)
    except BadInputError:  # images that nobody has counted, say: the job can be exported all the same
        return None
    if not plan.ranking or plan.ranking[0].estimate.throughput.basis is Basis.UNMEASURED:
        return None
    most = plan.ranking[0].estimate.time.high + INSTALLATION
    return math.ceil(min(most, LONGEST) / timedelta(minutes=1))
