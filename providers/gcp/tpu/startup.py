"""The start-up text as a shell script: the TPU API promises `startup-script` alone, nothing of cloud-init."""

from __future__ import annotations

import base64
from typing import Any

import yaml

_HEAD = """\
#!/bin/sh
# trainplan: this machine trains one run and then ends itself, at the latest at its deadline.
# The machine's start-up text (a cloud-init document), part by part, at every boot: doing it again changes nothing.
"""
_WRAPPED = 76


def as_shell(document: str) -> str:
    """A script that does what cloud-init would do with the document: `bootcmd`, `write_files`, `runcmd`.

    Raises ValueError for a document with anything else in it.
    """
    parts: dict[str, Any] = yaml.safe_load(document)
    known = {"bootcmd", "write_files", "runcmd"}
    if set(parts) - known:
        raise ValueError(f"no shell for {', '.join(sorted(set(parts) - known))}")
    written = "".join(_file(entry) for entry in parts.get("write_files", ()))
    return _HEAD + _commands(parts.get("bootcmd", ())) + written + _commands(parts.get("runcmd", ()))


def _commands(texts: list[str]) -> str:
    """Each in a shell of its own, as cloud-init does it: one that ends early ends nothing else."""
    return "".join(f"(\n{text.rstrip()}\n)\n" for text in texts)


def _file(entry: dict[str, str]) -> str:
    """Whole or not at all: a machine that loses power meanwhile has the old file or the new one."""
    if set(entry) - {"path", "content", "encoding"}:
        raise ValueError(f"no shell for a file with {', '.join(sorted(entry))}")
    packed = entry.get("encoding") == "gz+b64"
    text = "".join(entry["content"].split()) if packed else base64.b64encode(entry["content"].encode()).decode()
    lines = "\n".join(text[start : start + _WRAPPED] for start in range(0, len(text), _WRAPPED))
    unpacked = " | gunzip" if packed else ""
    path = entry["path"]
    return (
        f"mkdir -p \"$(dirname '{path}')\"\n"
        f"base64 -d <<'END'{unpacked} >'{path}.new'\n{lines}\nEND\n"
        f"mv '{path}.new' '{path}'\n"
    )
