"""What a person sets for a store: which bucket, where, and how long runs are kept."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from trainplan.providers.errors import BadRequestError
from trainplan.providers.stores.bucket import KEEP_DAYS

if TYPE_CHECKING:
    from trainplan.providers.base import ProviderSettings

MOST_DAYS = 3650
_BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]")
_ENDPOINT = re.compile(r"https?://[^\s/]+(/\S*)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSettings:
    """`bucket` None is one of our own name, made for the account; `region` and `project` None are the account's.

    `endpoint` is where something answers that speaks like the vendor. `keep_days` after which a run's files are
    deleted by the store itself; 0 is never.
    """

    bucket: str | None = None
    region: str | None = None
    project: str | None = None
    account: str | None = None
    endpoint: str | None = None
    keep_days: int = KEEP_DAYS
    environment: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, settings: ProviderSettings, vendor: str) -> StoreSettings:
        """Out of a provider's options. Raises BadRequestError naming the one that is wrong."""
        options = settings.options
        return cls(
            bucket=text_option(vendor, options, "bucket", _BUCKET, "small letters, digits and hyphens") or None,
            region=options.get("region") or None,
            project=options.get("project") or None,
            account=options.get("account") or None,
            endpoint=text_option(vendor, options, "endpoint", _ENDPOINT, "http:// or https:// and a host") or None,
            keep_days=_days(vendor, options.get("keep_days", str(KEEP_DAYS))),
            environment=settings.environment,
        )


def text_option(vendor: str, options: Mapping[str, str], key: str, pattern: re.Pattern[str], name: str) -> str:
    """The person's setting, "" where there is none. Raises BadRequestError for one that is not `name`, in words."""
    value = options.get(key, "")
    if value and not pattern.fullmatch(value):
        hint = f"correct {key} in the table [{vendor}] of the settings"
        raise BadRequestError(f"{vendor}: {key} = {value!r} is not {name}", hint=hint)
    return value


def _days(vendor: str, text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > MOST_DAYS:
        raise BadRequestError(f"{vendor}: keep_days {text!r} are not days", hint=f"0 (never) to {MOST_DAYS}")
    return int(text)
