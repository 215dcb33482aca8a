"""In which region a provider's bucket is, as far as settings and the person's own files tell."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from trainplan.providers.registry import VENDORS

DEFAULT_REGIONS = {
    one.name: one.storage.default_region for one in VENDORS if one.storage and one.storage.default_region
}
"""Where a bucket is made that nobody has named a region for; Azure's storage account is named, or made in `region`."""


def bucket_region(provider: str, options: Mapping[str, str], environment: Mapping[str, str]) -> str:
    """The region that a launch with these options and this environment would use; "" where nothing tells it."""
    name = options.get("region") or (aws_region(environment) if provider == "aws" else "")
    return name or DEFAULT_REGIONS.get(provider, "")


def aws_region(environment: Mapping[str, str]) -> str:
    """The region of the AWS configuration, where the SDK looks for it: its variable, then the profile in its file. ""
    where neither has one, or the file cannot be read: the sign-in will say so."""
    if name := environment.get("AWS_DEFAULT_REGION"):
        return name
    home = environment.get("HOME") or environment.get("USERPROFILE")
    path = Path(environment.get("AWS_CONFIG_FILE") or (f"{home}/.aws/config" if home else os.devnull))
    profile = environment.get("AWS_DEFAULT_PROFILE") or environment.get("AWS_PROFILE") or "default"
    try:
        return _region_in(path.read_text(encoding="utf-8-sig"), profile) if path.is_file() else ""
    except (OSError, ValueError):
        return ""


def _region_in(text: str, profile: str) -> str:
    """Raises ValueError for what is no file of sections."""
    import configparser  # every command passes here, few of them with a file

    parser = configparser.RawConfigParser()
    try:
        parser.read_string(text)
    except configparser.Error as error:
        raise ValueError(str(error)) from error
    for section in (f"profile {profile}", profile):
        if parser.has_option(section, "region"):
            return parser.get(section, "region").strip()
    return ""
