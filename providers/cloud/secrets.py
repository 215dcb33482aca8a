"""A job's secrets: references, each resolved by the one cloud whose identity the machine has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from trainplan.providers.agent.vault import is_reference
from trainplan.providers.errors import BadRequestError
from trainplan.providers.registry import VENDORS
from trainplan.workloads.wording import Option

if TYPE_CHECKING:
    from trainplan.workloads.job import TrainingJob

KINDS = {one.name: one.secret_kind for one in VENDORS if one.secret_kind}
"""How a reference to a provider's own store of secrets begins."""
FORMS_HINT = (
    "write aws-sm:NAME, aws-sm:arn:aws:secretsmanager:REGION:ACCOUNT:secret:NAME, "
    "gcp-sm:projects/P/secrets/S/versions/V or akv:https://VAULT.vault.azure.net/secrets/NAME"
)
"""What references look like, for whoever wrote something else."""


def clouds_of(secrets: Mapping[str, str]) -> set[str]:
    """The providers whose machines could resolve them: more than one is too many for a single machine."""
    kinds = {reference.partition(":")[0] for reference in secrets.values()}
    return {provider for provider, kind in KINDS.items() if kind in kinds}


def references(job: TrainingJob, provider: str) -> Mapping[str, str]:
    """The job's secrets for a machine of this provider. Raises BadRequestError where it could not resolve one."""
    for name, reference in job.secrets.items():
        if provider not in KINDS:
            raise BadRequestError(
                f"the secret {name} is resolved on rented machines alone, not by {provider}",
                hint=f"leave secrets out, or {Option.PROVIDER(*KINDS)}",
            )
        kind = reference.partition(":")[0]
        if kind != KINDS[provider]:
            raise BadRequestError(
                f"a machine of {provider} cannot resolve the secret {name}: {kind}: is another cloud's",
                hint=f"keep it at {provider} too, and write {KINDS[provider]}:…",
            )
    return checked_references(job.secrets)


def checked_references(secrets: Mapping[str, str]) -> Mapping[str, str]:
    """The same secrets. Raises BadRequestError for one that no machine would resolve; the value is not repeated."""
    for name, reference in secrets.items():
        if not is_reference(reference):  # It may be the secret itself.
            raise BadRequestError(f"the secret {name} is no reference that a machine resolves", hint=FORMS_HINT)
    return secrets
