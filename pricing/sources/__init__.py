"""Where prices are read anew: a module for each vendor's lists, fetching and parsing apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

READERS: Mapping[str, str] = {
    "aws": "pricing.sources.news:read_aws",
    "gcp": "pricing.sources.news:read_gcp",
    "azure": "pricing.sources.news:read_azure",
}
"""The vendors whose price lists can be read, and the function that reads each: text, for it is imported when used."""
