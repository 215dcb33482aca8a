"""One name for each device, whatever a source calls it."""

from __future__ import annotations

import re

_STATED = {
    "a100": "A100-40GB",
    "titan x (maxwell)": "Titan X (Maxwell)",
    "titan x (pascal)": "Titan X (Pascal)",
}
_FAMILIES: tuple[tuple[str, str], ...] = (
    (r"tpu ?v(\d\w?)\b", r"TPU v\1"),
    (r"(?:2x |intel |amd )?.*\b(?:xeon|epyc|core i\d)\b.*|cpu\b.*", "cpu"),
    (r"gh200\b", "GH200"),
    (r"b200\b", "B200"),
    (r"h200\b", "H200"),
    (r"h100 pcie\b", "H100 PCIe"),
    (r"h100\b", "H100"),
    (r"(k80|k520|m60|k40|p100|t4|l4|l40s|a10g|a10|a30|a40)\b", r"\1"),
)
_LARGE_MEMORY_GB = {"V100": (24.0, "V100-32GB"), "A100-40GB": (60.0, "A100-80GB")}


def device_name(stated: str, memory_gb: float | None) -> str:
    """The canonical name of a device as a source states it; `memory_gb` tells the variants of one chip apart.

    A name that is not known is returned as it is.
    """
    name = re.sub(r"^((nvidia|geforce|tesla)\s+)+", "", stated.strip(), flags=re.IGNORECASE)
    lowered = name.lower()
    if lowered in _STATED:
        return _variant(_STATED[lowered], memory_gb, lowered)
    for chip, canonical in (("v100", "V100"), ("a100", "A100-40GB")):
        if re.match(rf"{chip}\b", lowered):
            return _variant(canonical, memory_gb, lowered)
    for pattern, canonical in _FAMILIES:
        found = re.match(pattern, lowered)
        if found:
            return _cased(found.expand(canonical))
    return name


def _variant(canonical: str, memory_gb: float | None, lowered: str) -> str:
    limit_gb, larger = _LARGE_MEMORY_GB.get(canonical, (0.0, canonical))
    stated = re.search(r"(\d+) ?gb\b", lowered)
    size_gb = memory_gb if memory_gb is not None else float(stated[1]) if stated else None
    return larger if size_gb is not None and size_gb > limit_gb else canonical


def _cased(name: str) -> str:
    if name == "cpu" or name.startswith("TPU"):
        return name
    return name if name == "H100 PCIe" else name.upper()
