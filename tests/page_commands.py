"""The commands of a page of docs/, as they stand there between `<!-- commands: ... -->` and `<!-- /commands -->`."""

from __future__ import annotations

import re
import shlex

from tests.conftest import ROOT

BLOCK = re.compile(r"<!-- commands: [^\n]*-->\n```sh\n(.*?)```\n<!-- /commands -->", re.DOTALL)


def blocks(page: str) -> list[list[list[str]]]:
    """The words of each `plan` command, without `plan`, block by block; `page` is a path from the root."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return [
        [shlex.split(line, comments=True)[1:] for line in block.splitlines() if line.startswith("plan ")]
        for block in BLOCK.findall(text)
    ]
