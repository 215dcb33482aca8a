"""How an extra of this project is installed: it is in no package index, so a name alone would find nothing there, or
something of a stranger's."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote, urlsplit

PROJECT = "trainplan"


def install_hint(extra: str, prefix: str = sys.prefix, record: str | None = None) -> str:
    """The command that adds an extra to the environment in which this runs.

    `record` is what the installer wrote of where the project came from (PEP 610, direct_url.json); None: read it.
    """
    record = _direct_url() if record is None else record
    source = _source(record)
    if source is None:
        requirement, where = f"'.[{extra}]'", ", in a checkout of trainplan"
    elif "://" in source:
        requirement, where = f"'{PROJECT}[{extra}] @ {source}'", ""
    else:
        requirement, where = f"{'-e ' if _is_editable(record) else ''}'{source}[{extra}]'", ""
    return f"{_installer(prefix)} {requirement}{where}"


def _installer(prefix: str) -> str:
    """What installs into this environment: pipx and uv keep one for each tool, and pip of the shell is of another."""
    parts = Path(prefix).parts
    if parts[-3:-1] == ("pipx", "venvs"):
        return f"pipx runpip {parts[-1]} install"
    if parts[-3:-1] == ("uv", "tools"):
        return f"uv pip install --python {prefix}"
    if sys.prefix == sys.base_prefix and prefix == sys.prefix:
        return "pip install"
    return f"{Path(prefix) / ('Scripts' if sys.platform == 'win32' else 'bin') / 'python'} -m pip install"


def _direct_url() -> str:
    from importlib.metadata import PackageNotFoundError, distribution  # only a hint needs it

    try:
        return distribution(PROJECT).read_text("direct_url.json") or ""
    except PackageNotFoundError:
        return ""


def _source(record: str) -> str | None:
    """The folder or file that it was installed from, or its address; None where that is not known or gone."""
    with suppress(ValueError, KeyError, TypeError, AttributeError):
        values = json.loads(record)
        url = str(values["url"])
        if "vcs_info" in values:
            return f"{values['vcs_info']['vcs']}+{url}"
        parts = urlsplit(url)
        if parts.scheme != "file":
            return url if parts.scheme == "https" else None
        path = unquote(parts.path)
        return path if Path(path).exists() else None
    return None


def _is_editable(record: str) -> bool:
    """Whether it runs from its checkout; installed in another way it would no longer. The record names a folder."""
    return bool(json.loads(record).get("dir_info", {}).get("editable"))
