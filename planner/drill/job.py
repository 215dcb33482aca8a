"""What the machines of a drill train: a net so small that any machine does a step, for longer than any drill lasts."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

from workloads.job import TrainingJob

NAME = "trainplan-drill"
"""The name of the job, by which a later drill finds what an earlier one has left."""
# Machine A has 20 minutes in all (limits.py): its checkpoint must not be what the drill waits for.
CHECKPOINT_EVERY = "30s"


def job(deadline: timedelta, budget_usd: Decimal) -> TrainingJob:
    """The job under these limits; its digest is the same under any."""
    return TrainingJob.model_validate(
        {
            "name": NAME,
            "model": {"layers": [32, "M", 64, "M", 64, "M"], "image_size": 64, "dense": [16]},
            "data": {"name": "synthetic"},  # nothing is fetched, and an epoch takes minutes on a small machine
            "epochs": 1_000_000,
            "global_batch_size": 32,
            "precision": "fp32",
            "checkpoint_every": CHECKPOINT_EVERY,
            "on_slow": "continue",
            "constraints": {"deadline": f"{deadline.total_seconds():.0f}s", "budget_usd": str(budget_usd)},
        }
    )
