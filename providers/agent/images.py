"""The image onto the machine: the first of several registries that gives it, by digest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable

from trainplan.providers.agent.container import Container, EngineError
from trainplan.providers.agent.registries import host_of, login_for

if TYPE_CHECKING:
    from trainplan.providers.agent.processes import ProcessResult, Running
    from trainplan.providers.agent.requests import Access
    from trainplan.providers.agent.store import Steps

ROUNDS = 4
FIRST_PAUSE_SECONDS = 15.0
PULL_SECONDS = 1800.0


class ImageError(Exception):
    """No registry delivered the image; the text has the last error of each."""


def pull(
    images: tuple[str, ...],
    container: Container,
    access: Access,
    watched: Callable[[Running, float], Steps[ProcessResult]],
) -> Steps[str]:
    """The reference that was pulled. Every registry in order, several times over. Raises ImageError."""
    words: dict[str, str] = {}
    pause = FIRST_PAUSE_SECONDS
    for round_number in range(ROUNDS):
        if round_number:
            yield pause
            pause *= 2
        for image in images:
            try:
                if pair := login_for(access, image):
                    container.login(host_of(image), *pair)
            except (EngineError, OSError, ValueError, KeyError) as error:
                words[image] = str(error)
                continue
            process = yield from watched(container.pull(image), PULL_SECONDS)
            if process.code == 0:
                return image
            words[image] = process.last_line
    raise ImageError("; ".join(f"{image}: {word}" for image, word in words.items()))
