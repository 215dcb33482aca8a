"""Where prices are read anew: a module for each vendor's lists, fetching and parsing apart."""

from __future__ import annotations

from collections.abc import Mapping

from trainplan.pricing.grades import Market

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

NEEDED_TO_READ: Mapping[tuple[str, Market], str] = {
    ("aws", Market.ON_DEMAND): "",
    ("aws", Market.SPOT): "an account",
    ("gcp", Market.ON_DEMAND): "an API key or an account",
    ("gcp", Market.SPOT): "an API key or an account",
    ("azure", Market.ON_DEMAND): "",
    ("azure", Market.SPOT): "",
    ("huggingface", Market.ON_DEMAND): "",
    ("huggingface", Market.SPOT): "",
    ("ibm", Market.ON_DEMAND): "",
    ("ibm", Market.SPOT): "",
    ("lambda", Market.ON_DEMAND): "an API key",
    ("lambda", Market.SPOT): "an API key",
    ("runpod", Market.ON_DEMAND): "an API key",
    ("runpod", Market.SPOT): "an API key",
}
"""What reading a vendor's prices of a market needs ("": everybody may), as docs/prices.md says of each list."""

KEY_VARIABLES = ("PLAN_GCP_API_KEY", "GOOGLE_API_KEY")
"""What may name an API key of Google's in the environment."""

SIZES: Mapping[str, str] = {"aws": "without an account hundreds of MB for each region"}
"""How much reading a vendor's lists takes, where that is more than a person expects."""
