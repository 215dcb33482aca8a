"""Jobs that are beyond doubt, read without pydantic: importing it takes longer than a whole estimate.

Only what needs no second look is read here. Whatever else is written (odd forms, a folder or an address as data, limits
that are close, mistakes) is TrainingJob's to read or refuse, and a test holds the two together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from decimal import Decimal
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn, cast

from workloads.durations import parse_duration
from workloads.job_figures import JobFigures
from workloads.layers import figures
from workloads.terms import (
    MAX_IMAGE_SIZE_PX,
    MAX_LAYERS,
    MAX_USD,
    DataName,
    Framework,
    Objective,
    OnSlow,
    OptimizerName,
    Precision,
    Preset,
)

if TYPE_CHECKING:
    from workloads.job import TrainingJob

Reader = Callable[[object], Any]


def plain_job(given: object) -> TrainingJob | None:
    """The job that a file's values say, to be read as a TrainingJob is; None where TrainingJob is to look."""
    try:
        fields = _fields(given, _JOB)
        job = cast("TrainingJob", PlainJob(fields, cast("dict[str, Any]", given)))
        return job if _possible(job) else None
    except _NotPlain:
        return None


class Plain:
    """A frozen value with the fields of one of a job's models, and what an estimate asks of it."""

    def __init__(self, fields: Mapping[str, Any], given: Iterable[str]) -> None:
        self.__dict__.update(fields, model_fields_set=frozenset(given))

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{name}: a job is never changed")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Plain) and self._fields() == other._fields()

    def __hash__(self) -> int:
        return hash(tuple(self._fields().items()))

    def model_copy(self, *, update: Mapping[str, Any]) -> Plain:
        """The value with other fields, unchecked."""
        return type(self)({**self._fields(), **update}, self.__dict__["model_fields_set"] | update.keys())

    def model_dump(self, *, mode: str) -> dict[str, Any]:
        """The fields as JSON has them, in the order in which TrainingJob declares them."""
        assert mode == "json"
        return {name: _json(value) for name, value in self._fields().items()}

    def _fields(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "model_fields_set"}


class PlainJob(Plain, JobFigures):
    """A TrainingJob, but for what only a launch asks of one."""


def _json(value: Any) -> Any:
    match value:
        case Plain():
            return value.model_dump(mode="json")
        case StrEnum():
            return value.value
        case tuple():
            return [_json(item) for item in value]
        case timedelta():
            return f"{value.total_seconds():.6f}".rstrip("0").rstrip(".") + "s"
        case Decimal():
            return float(value)
        case MappingProxyType():
            return dict(value)
        case _:
            return value


class _NotPlain(Exception):
    """TrainingJob is to look."""


def _possible(job: TrainingJob) -> bool:
    """Whether what TrainingJob asks of the whole is surely so."""
    if job.checkpoint_every < timedelta(seconds=1) or job.global_batch_size % job.accumulate:
        return False
    if (job.model.preset is None) == (job.model.layers is None):
        return False
    if job.model.preset is Preset.MNIST_CNN and len(job.model.model_fields_set - {"preset", "image_size", "classes"}):
        return False
    try:
        figures(job.net())
    except ValueError:
        return False
    return True


def _fields(given: object, known: Mapping[str, tuple[Reader, Any]]) -> dict[str, Any]:
    """All fields in their order, those not given at their defaults."""
    if not isinstance(given, dict) or given.keys() - known.keys():
        raise _NotPlain
    fields = {name: read(given[name]) if name in given else default for name, (read, default) in known.items()}
    if _NEEDED in fields.values():
        raise _NotPlain
    return fields


_NEEDED = object()


def _whole(least: int, most: int) -> Reader:
    def read(value: object) -> int:
        if type(value) is not int or not least <= value <= most:
            raise _NotPlain
        return value

    return read


def _real(least: float, most: float) -> Reader:
    """Strictly between the two, or the lower one where it is 0."""

    def read(value: object) -> float:
        if type(value) not in (int, float) or not (least < cast("float", value) < most or value == least == 0):
            raise _NotPlain
        return float(cast("float", value))

    return read


def _truth(value: object) -> bool:
    if type(value) is not bool:
        raise _NotPlain
    return value


def _choice(kind: type[StrEnum]) -> Reader:
    known = {member.value: member for member in kind}

    def read(value: object) -> StrEnum:
        if type(value) is not str or value not in known:
            raise _NotPlain
        return known[value]

    return read


def _several(read_one: Reader, least: int, most: int) -> Reader:
    def read(value: object) -> tuple[Any, ...]:
        if type(value) is not list or not least <= len(value) <= most:
            raise _NotPlain
        return tuple(read_one(item) for item in value)

    return read


def _nothing(_: object) -> NoReturn:
    """What only TrainingJob reads."""
    raise _NotPlain


def _step(value: object) -> int | str:
    return "M" if value == "M" else cast("int", _whole(1, 65_536)(value))


def _text(value: object) -> str:
    if type(value) is not str:
        raise _NotPlain
    return value


def _market(value: object) -> str:
    if value not in ("on_demand", "spot"):
        raise _NotPlain
    return _text(value)


def _name(value: object) -> str:
    """A plain name: what else can be one is left to the pattern."""
    name = _text(value)
    inner = name.replace("-", "").replace("_", "").replace(".", "")
    if not (inner.isascii() and inner.isalnum() and inner == inner.lower() and len(name) <= 63):
        raise _NotPlain
    if not (name[0].isalnum() and name[-1].isalnum()):
        raise _NotPlain
    return name


def _duration(value: object) -> timedelta:
    try:
        duration = parse_duration(_text(value))
    except ValueError:
        raise _NotPlain from None
    if not duration:
        raise _NotPlain
    return duration


def _usd(value: object) -> Decimal:
    if type(value) is not int or not 0 < value <= MAX_USD:
        raise _NotPlain
    return Decimal(value)


def _known_data(value: object) -> Plain:
    """A known data set by its name and nothing else."""
    name = _choice(DataName)(value["name"]) if isinstance(value, dict) and value.keys() == {"name"} else None
    if name is None:
        raise _NotPlain
    return Plain({"name": name, **dict.fromkeys(("path", "url", "images", "channels", "size_bytes"))}, ("name",))


def _part(known: Mapping[str, tuple[Reader, Any]]) -> Reader:
    def read(value: object) -> Plain:
        fields = _fields(value, known)
        return Plain(fields, cast("dict[str, Any]", value))

    return read


_MODEL: Mapping[str, tuple[Reader, Any]] = {
    "preset": (_choice(Preset), None),
    "layers": (_several(_step, 1, MAX_LAYERS), None),
    "batch_norm": (_truth, False),
    "image_size": (_whole(1, MAX_IMAGE_SIZE_PX), None),
    "image_size_multiplier": (_real(0.001, 64), 1.0),
    "dense": (_several(_whole(1, 65_536), 0, 16), None),
    "classes": (_whole(2, 1_000_000), None),
    "dropout": (_real(0, 1), None),
}
_OPTIMIZER: Mapping[str, tuple[Reader, Any]] = {
    "name": (_choice(OptimizerName), OptimizerName.SGD),
    "learning_rate": (_real(1e-12, 1e6), 0.01),
    "momentum": (_real(0, 1), 0.9),
    "weight_decay": (_real(0, 1e6), 0.0),
}
_TEXTS = _several(_text, 0, 1000)
_CONSTRAINTS: Mapping[str, tuple[Reader, Any]] = {
    "deadline": (_duration, None),
    "budget_usd": (_usd, None),
    "providers": (_TEXTS, ()),
    "regions": (_TEXTS, ()),
    "devices": (_TEXTS, ()),
    "markets": (_several(_market, 0, 1000), ("on_demand", "spot")),
}
_JOB: Mapping[str, tuple[Reader, Any]] = {
    "name": (_name, _NEEDED),
    "model": (_part(_MODEL), _NEEDED),
    "data": (_known_data, _NEEDED),
    "epochs": (_whole(1, 1_000_000), _NEEDED),
    "global_batch_size": (_whole(1, 1_048_576), _NEEDED),
    "accumulate": (_whole(1, 1_048_576), 1),
    "precision": (_choice(Precision), Precision.FP32),
    "xla": (_truth, False),
    "framework": (_choice(Framework), Framework.TENSORFLOW),
    "optimizer": (_part(_OPTIMIZER), Plain(_fields({}, _OPTIMIZER), ())),
    "seed": (_whole(0, 2**32 - 1), 0),
    "checkpoint_every": (_duration, timedelta(minutes=10)),
    "constraints": (_part(_CONSTRAINTS), Plain(_fields({}, _CONSTRAINTS), ())),
    "objective": (_choice(Objective), Objective.COST),
    "on_slow": (_choice(OnSlow), OnSlow.ASK),
    "container": (_nothing, None),
    "secrets": (_nothing, MappingProxyType({})),
}
