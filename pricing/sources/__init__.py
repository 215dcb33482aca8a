"""Where prices are read anew: a module for each vendor's lists, fetching and parsing apart."""

from __future__ import annotations

from collections.abc import Mapping

READERS: Mapping[str, str] = {
    "aws": "trainplan.pricing.sources.news:read_aws",
    "gcp": "trainplan.pricing.sources.news:read_gcp",
    "azure": "trainplan.pricing.sources.news:read_azure",
    "huggingface": "trainplan.pricing.sources.small_vendors:read_huggingface",
    "ibm": "trainplan.pricing.sources.ibm:read_ibm",
    "lambda": "trainplan.pricing.sources.small_vendors:read_lambda",
    "runpod": "trainplan.pricing.sources.small_vendors:read_runpod",
}
"""The vendors whose price lists can be read, and the function that reads each: text, for it is imported when used."""

NEEDED_TO_READ: Mapping[str, str] = {name: "an API key" if name in ("lambda", "runpod") else "" for name in READERS}
"""What reading a vendor's prices needs ("": everybody may), as docs/prices.md says of each list."""

KEY_VARIABLES = ("PLAN_GCP_API_KEY", "GOOGLE_API_KEY")
"""What may name an API key of Google's in the environment."""

SIZE = "about 12 MB"
"""What reading the lists of all three clouds takes (benchmarks/refresh.py)."""
