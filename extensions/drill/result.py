"""What a drill has shown, as it is written to a file and read from one: fit to be given away."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from datetime import date
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from trainplan.extensions.drill.redaction import is_clean, redacted
from trainplan.extensions.drill.steps import PROVES, Step
from trainplan.planner.errors import BadInputError, StateError
from trainplan.providers.registry import PROVEN_CLOUDS, is_simulated
from trainplan.workloads.regular_file import regular_bytes
from trainplan.workloads.wording import Option

MOST_BYTES = 200_000
_WORD = r"^[A-Za-z0-9\[][A-Za-z0-9._+ ()\[\]-]{0,60}$"
Word = Annotated[str, Field(pattern=_WORD)]


class Verdict(StrEnum):
    """What became of a step of a drill."""

    PROVEN = "proven"
    FAILED = "failed"
    NOT_TRIED = "not tried"


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=False)


class StepResult(_Value):
    """`detail` is what was seen; of a failed step, the vendor's words. `seconds` from its begin to its end."""

    step: Step
    verdict: Verdict
    detail: Annotated[str, Field(max_length=500)] = ""
    seconds: Annotated[float, Field(ge=0, le=7200)] | None = None
    proves: tuple[Annotated[str, Field(max_length=300)], ...] = ()


class DrillResult(_Value):
    """One drill. Nothing in it names an account: whatever looks like an id makes it no result."""

    format: Literal[1] = 1
    provider: str
    day: date
    version: Word
    regions: tuple[Word, ...]
    machine_type: Word
    device: Word
    usd_per_hour: Annotated[Decimal, Field(ge=0)]
    usd_estimate: Annotated[Decimal, Field(ge=0)]
    seconds: Annotated[float, Field(ge=0, le=20_000)]
    steps: tuple[StepResult, ...]

    @field_validator("provider")
    @classmethod
    def _rents(cls, provider: str) -> str:
        if not (provider in PROVEN_CLOUDS or is_simulated(provider)):
            raise ValueError(f"no drill runs at {provider!r}")
        return provider

    @field_validator("steps")
    @classmethod
    def _every_step_once(cls, steps: tuple[StepResult, ...]) -> tuple[StepResult, ...]:
        if [result.step for result in steps] != list(PROVES):
            raise ValueError("a drill has each step once, in their order")
        return steps

    @model_validator(mode="after")
    def _names_nobody(self) -> DrillResult:
        for text in _texts(self):
            if not is_clean(text):
                raise ValueError(f"{redacted(text)!r} stands where the file has something like an id or an address")
        return self

    @property
    def proven(self) -> tuple[StepResult, ...]:
        """The steps that were seen to work."""
        return tuple(result for result in self.steps if result.verdict is Verdict.PROVEN)

    @property
    def failed(self) -> tuple[StepResult, ...]:
        """The steps that did not work."""
        return tuple(result for result in self.steps if result.verdict is Verdict.FAILED)

    @property
    def file_name(self) -> str:
        """The name under which the result is kept."""
        return f"drill-{self.provider}-{self.day:%Y-%m-%d}.json"

    def text(self) -> str:
        """Return the text of the result's file."""
        return json.dumps(self.model_dump(mode="json"), indent=1) + "\n"


def read_result(path: Path) -> DrillResult:
    """The result in a file. Raises BadInputError for what is none, or names an account; StateError for no file."""
    try:
        data = regular_bytes(path, MOST_BYTES + 1)
    except OSError as error:
        raise StateError(
            f"{path} cannot be read: {error.strerror}", "name the file that plan drill has written"
        ) from None
    if len(data) > MOST_BYTES:
        raise BadInputError(
            f"{path} is too long for the result of a drill", "name the file that plan drill has written"
        )
    try:
        return DrillResult.model_validate_json(data)
    except (ValidationError, RecursionError) as error:
        raise BadInputError(
            f"{path} is no result of a drill: {_first(error)}", "plan drill writes such files"
        ) from None


def write_result(result: DrillResult, folder: Path) -> Path:
    """The file in this folder, under a name that is not taken. Raises StateError."""
    stem = result.file_name.removesuffix(".json")
    for number in range(1, 1000):
        path = folder / (f"{stem}.json" if number == 1 else f"{stem}-{number}.json")
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(result.text())
        except FileExistsError:
            continue
        except OSError as error:
            with suppress(OSError):
                path.unlink(missing_ok=True)  # half a result is none
            raise StateError(
                f"{path} cannot be written: {error.strerror}", f"{Option.OUTPUT} names another folder"
            ) from None
        return path
    raise StateError(f"{folder} has a thousand results of this day", f"{Option.OUTPUT} names another folder")


def check_folder(folder: Path) -> None:
    """Raises StateError where a result could not be written into it: to be known before machines are paid for."""
    path = folder / f".plan-drill-{os.getpid()}"
    try:
        path.write_text("a result comes here\n", encoding="utf-8")
    except OSError as error:
        raise StateError(
            f"{folder} cannot be written: {error.strerror}", f"{Option.OUTPUT} names another folder"
        ) from None
    finally:
        with suppress(OSError):
            path.unlink(missing_ok=True)


def without_secrets(value: Any, secrets: Iterable[str] = ()) -> Any:
    """JSON values with every text redacted, wherever it stands."""
    names = tuple(secrets)
    match value:
        case str():
            return redacted(value, names)
        case dict():
            return {key: without_secrets(item, names) for key, item in value.items()}
        case list() | tuple():
            return [without_secrets(item, names) for item in value]
        case _:
            return value


def _texts(result: DrillResult) -> list[str]:
    lines = [result.version, result.machine_type, result.device, *result.regions]
    for step in result.steps:
        lines += [step.detail, *step.proves]
    return lines


def _first(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return "it is nested too deeply"
    typed_dict = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(part) for part in typed_dict["loc"])
    return redacted(f"{where}: {typed_dict['msg']}" if where else str(typed_dict["msg"]))
