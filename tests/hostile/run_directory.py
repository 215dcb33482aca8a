"""A run directory as a hostile container writes it: nothing in it is what its schema says."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.doubles.fake_machine import FakeStore

ESCAPES = (
    "\x1b]0;retitled\x07",
    "\x1b]52;c;Y2xpcGJvYXJk\x07",
    "\x1b]8;;http://evil.example\x1b\\link\x1b]8;;\x1b\\",
    "\x1b[2K\x1b[1A",
    "\x9b2K",
    "\x9d0;retitled\x9c",
    "\x90q\x9c",
    "\x08\x08\x0b\x0c\x7f\x00",
    "\u202eesrever\u202c",
    "\ud800",
)
"""A title, the clipboard, a link, erased lines, the 8-bit forms of these, and text that runs backwards."""
EVIL = "".join(ESCAPES)

BAD_LINES: tuple[bytes, ...] = (
    b'{"event":"phase"}',
    b'{"event":"phase","name":3,"seconds":"long"}',
    b'{"event":"phase","name":"x","seconds":-1e400}',
    b'{"event":"start","device_count":"x","device_name":"T4"}',
    b'{"event":"start","total_steps":-1}',
    b'{"event":"start","time":"soon"}',
    b'{"event":"start","time":"2026-11-21T12:00:00"}',
    b'{"event":"start","time":"9999-12-31T23:59:59+00:00"}',
    b'{"event":"step"}',
    b'{"event":"step","step":true}',
    b'{"event":"step","step":' + b"9" * 5000 + b"}",
    b'{"event":"step","step":1,"images_per_second":-5}',
    b'{"event":"step","step":1,"loss":[1]}'.replace(b"[1]", b'"low"'),
    b'{"event":"checkpoint","step":"newest"}',
    b'{"event":"warning"}',
    b'{"event":"warning","message":"' + b"x" * 10_000 + b'"}',
    b'{"event":"' + b"e" * 100 + b'"}',
    b'{"event":null}',
    b"[" * 10_000,
    b"x" * 1_000_000,
    b"\xff\xfe\x00",
    b"null",
    b"3",
)
"""Lines that no rule of the schema lets through."""


def evil_lines() -> list[bytes]:
    """Lines that are well-formed, with texts that a terminal would obey."""
    lines = [
        {"event": "start", "device_name": EVIL, "device_count": 1, "framework": EVIL, "strategy": EVIL},
        {"event": "warning", "message": f"{EVIL}\nerror: nothing is left\r\n"},
        {"event": "phase", "name": EVIL, "seconds": 1},
        {"event": "step", "step": 1, "images_per_second": 1e-300, "loss": 1e15},
    ]
    return [json.dumps(line).encode() for line in lines]


def make_hostile(store: FakeStore, attempt: int) -> None:
    """Every file of the run directory that somebody reads, as a hostile container leaves it."""
    folder = f"attempts/{attempt}"
    lines = b"\n".join([*BAD_LINES, *evil_lines(), b'{"event":'])
    store.put(f"{folder}/progress.jsonl", lines)
    store.put(f"{folder}/log/00001.log", EVIL.encode("utf-8", "surrogatepass") + b"\n\xff\xfe\x9b2K\n")
    store.put(f"{folder}/status.json", b'{"state": ["done"], "time": 5, "reason": {}, "message": "\\u001b]0;x\\u0007"}')
    store.put("output/manifest.json", b'[{"path": "../../x", "sha256": ""}, 5]')
    store.put("output/metrics.json", b"[" * 100_000)
    for name in ("step-\u00b2", "step-" + "9" * 5000, "step-", "step-\x1b]0;x\x07"):
        store.put(f"checkpoints/{name}/complete.json", b"{}")
