"""TrainingJob, as a person writes it in YAML and as the trainer reads it in JSON."""

from __future__ import annotations

import hashlib
import json
import re
from datetime import timedelta
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    SerializerFunctionWrapHandler,
    WithJsonSchema,
    model_serializer,
    model_validator,
)
from pydantic.json_schema import SkipJsonSchema

from trainplan.workloads.addresses import object_address, shown_values
from trainplan.workloads.datasets import DATASETS, DataSet
from trainplan.workloads.durations import duration_of
from trainplan.workloads.layers import ImageTooSmallError, Net, graph_of
from trainplan.workloads.model_spec import OF_A_SCRIPT, ModelSpec
from trainplan.workloads.recipe import (
    _LATER_PARTS,
    _RECIPE,
    WITH_MOMENTUM,
    AugmentSpec,
    OptimizerSpec,
    ScheduleSpec,
    ValidationSpec,
    without_unused,
)
from trainplan.workloads.script import (
    Args,
    Option,
    ReadScript,
    ScriptPath,
    argument_words,
    problems_of,
    unknown_graph,
)
from trainplan.workloads.secret_references import Secrets
from trainplan.workloads.sweep import WRITTEN_BY_PLAN, SweepSpec, sweep_problems, trials_of
from trainplan.workloads.terms import (
    IMAGENET,
    LAYER_LISTS,
    MAX_DATA_BYTES,
    MAX_IMAGE_SIZE_PX,
    MAX_IMAGES,
    MAX_LAYERS,
    MAX_NODES,
    MAX_SECRETS,
    MAX_USD,
    PROJECT_PATTERN,
    DataName,
    ExportFormat,
    Framework,
    Objective,
    OnSlow,
    OptimizerName,
    Precision,
    Preset,
    ScheduleName,
    Tracker,
)
from trainplan.workloads.values import Budget, Value, keys_of, refuse_all
from trainplan.workloads.vgg import VGG_DENSE, VGG_DROPOUT, VGG_FEATURES, Head, mnist_cnn, vgg, with_frozen_blocks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trainplan.workloads.graph import Graph
    from trainplan.workloads.sweep import Trial


def uses_recipe(job: TrainingJob) -> bool:
    """Whether the job uses any key of a recipe, or adamw: what the trainer can do with Keras 3 only."""
    if job.optimizer.name is OptimizerName.ADAMW:
        return True
    if any(getattr(job, part) != unused for part, unused in _LATER_PARTS.items()):
        return True
    return any(getattr(getattr(job, part), key) != keys[key] for part, keys in _RECIPE.items() for key in keys)


def _of_fine_tuning(job: TrainingJob) -> Iterator[str]:
    """How the weights to begin with do not go with the rest of the job."""
    if job.model.weights == IMAGENET and job.channels != 3:
        yield "weights: imagenet are for colour images; these have one channel"
    if job.optimizer.base_rate_share == 1:
        return
    if job.model.weights is None:
        yield "optimizer.base_rate_share needs model.weights: without them all layers are new"
    if job.framework is Framework.TORCH:
        yield "on torch Keras trains all layers at one rate; leave out optimizer.base_rate_share"


__all__ = [
    "MAX_DATA_BYTES",
    "MAX_IMAGES",
    "MAX_IMAGE_SIZE_PX",
    "MAX_LAYERS",
    "MAX_NODES",
    "MAX_SECRETS",
    "MAX_USD",
    "Constraints",
    "DataName",
    "DataSpec",
    "Duration",
    "Framework",
    "ModelSpec",
    "Objective",
    "OnSlow",
    "OptimizerName",
    "OptimizerSpec",
    "Precision",
    "Preset",
    "ScheduleName",
    "ScheduleSpec",
    "TrainingJob",
    "job_from_json",
    "json_schema",
]


def _duration_text(value: timedelta) -> str:
    return f"{value.total_seconds():.6f}".rstrip("0").rstrip(".") + "s"


Duration = Annotated[
    timedelta,
    BeforeValidator(duration_of),
    PlainSerializer(_duration_text),
    WithJsonSchema({"type": "string", "pattern": r"^(\d+(\.\d+)?[dhms])+$", "examples": ["10m", "8h"]}),
]


class DataSpec(Value):
    """The data: a known set by name, a folder of images or TFRecords (`path`), or a bucket or address (`url`)."""

    name: DataName | None = Field(default=None, description="a known data set")
    path: str | None = Field(
        default=None, min_length=1, description="a folder with a sub-folder per class, or with TFRecords"
    )
    url: Annotated[str, BeforeValidator(object_address)] | None = Field(
        default=None,
        json_schema_extra={"pattern": r"^(s3|gs|az|https)://\S+$"},
        description="where the machine fetches it",
    )
    images: Annotated[int, Field(strict=True, ge=1, le=MAX_IMAGES)] | None = Field(
        default=None, description="training images, held-out ones not counted; a folder is counted"
    )
    channels: Literal[1, 3] | None = Field(default=None, description="1 grey, 3 colour")
    first_label: Annotated[int, Field(strict=True, ge=0, le=1_000_000)] = Field(
        default=0, description="the label that TFRecords give to the first class; 1 in the usual ImageNet records"
    )
    size_bytes: Annotated[int, Field(strict=True, ge=1, le=MAX_DATA_BYTES)] | None = Field(
        default=None, description="what is fetched, for the estimate, where nobody has looked yet"
    )
    duplicates: Literal["refuse", "allow"] = Field(
        default="refuse",
        description="equal images that are trained on and held out, or in two classes, where they are more than 1 %",
    )

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if self is not UNKNOWN_DATA:
            refuse_all(self._contradictions())
        return self

    def _contradictions(self) -> Iterator[str]:
        if sum(source is not None for source in (self.name, self.path, self.url)) != 1:
            yield "give one of name, path or url"
            return
        if self.name not in (None, DataName.SYNTHETIC) and self.images is not None:
            yield f"the data set {self.name} knows how many images it has; leave out images"
        if self.first_label and self.name not in (None, DataName.IMAGENET):
            yield f"the labels of the data set {self.name} begin at 0; leave out first_label"
        if self.name is not None and self.size_bytes is not None:
            yield f"the size of the data set {self.name} is known; leave out size_bytes"


UNKNOWN_DATA = DataSpec.model_construct(images=1)
"""The data of a script before it was measured: the whole of it counts as one image."""
LowerCase = Annotated[str, AfterValidator(str.lower)]
"""A name that has no capitals at any vendor."""


def _market(value: object) -> object:
    return value.lower().replace("-", "_") if isinstance(value, str) else value


class Constraints(Value):
    """What an offer must meet; an empty list means any."""

    deadline: Duration | None = Field(default=None, description="the whole run, from launch to the model at home")
    budget_usd: Budget | None = Field(default=None, description="the whole run, all parts")
    providers: tuple[LowerCase, ...] = Field(default=(), description="only these, such as aws; --provider")
    regions: tuple[LowerCase, ...] = Field(default=(), description="only these, such as us-east-1; --region")
    devices: tuple[str, ...] = Field(default=(), description="only these, such as T4; plan devices lists them")
    markets: tuple[Annotated[Literal["on_demand", "spot"], BeforeValidator(_market)], ...] = ("on_demand", "spot")

    @model_validator(mode="after")
    def _some_time(self) -> Self:
        if self.deadline is not None and self.deadline <= timedelta(0):
            raise ValueError("deadline must be longer than 0s; leave it out for none")
        return self


UNTOLD = "the data set does not tell its own"
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,61}[a-z0-9])?")
_DIGEST = re.compile(r"[^\s@]+@sha256:[0-9a-f]{64}")


_OF_THE_NET = ("model", "data", "epochs", "global_batch_size")
"""Keys that a job needs, and that a script says by itself."""
_OF_OUR_TRAINER = (
    "accumulate", "precision", "xla", "optimizer", "augment", "validation", "nodes", "container", "export", "track",
)  # fmt: skip
"""Keys that tell our trainer what to do, which a script does not ask."""
NOT_OF_A_SCRIPT = (*_OF_THE_NET, *_OF_OUR_TRAINER)
_OF_A_SCRIPT = ("args", "requirements", "checkpoints", "read_script")


class TrainingJob(Value):
    """One training run: what is trained, on what data, how, and within which limits.

    One with a `script` of the person's own has no network and no data that anybody knows: `read_script` is what `plan`
    has read of it.
    """

    # Somebody may write a secret where its reference belongs; no error repeats it.
    model_config = ConfigDict(hide_input_in_errors=True)

    name: Annotated[str, Field(pattern=f"^{_NAME.pattern}$", description="lower-case letters, digits, . _ -")]
    model: ModelSpec
    data: DataSpec
    epochs: Annotated[int, Field(strict=True, ge=1, le=1_000_000, description="times that all images are trained on")]
    global_batch_size: Annotated[
        int, Field(strict=True, ge=1, le=1_048_576, description="split evenly over the devices")
    ]
    accumulate: Annotated[
        int, Field(strict=True, ge=1, le=1_048_576, description="parts of each batch, trained one after another")
    ] = 1
    precision: Precision = Field(default=Precision.FP32, description="arithmetic of a step; amp is mixed precision")
    xla: bool = Field(default=False, description="whether XLA compiles the step")
    framework: Framework = Field(default=Framework.TENSORFLOW, description="the backend of Keras")
    optimizer: OptimizerSpec = OptimizerSpec()
    augment: AugmentSpec = AugmentSpec()
    validation: ValidationSpec = ValidationSpec()
    seed: Annotated[int, Field(strict=True, ge=0, lt=2**32, description="of all random numbers of the run")] = 0
    nodes: Annotated[
        int, Field(strict=True, ge=1, le=MAX_NODES, description="machines that train one model together, at most")
    ] = 1
    checkpoint_every: Duration = Field(
        default=timedelta(minutes=10), description="how often the state is saved, from which a run goes on"
    )
    constraints: Constraints = Constraints()
    objective: Objective = Field(default=Objective.COST, description="what offers are ranked by")
    on_slow: OnSlow = Field(default=OnSlow.ASK, description="where a run is slower than the low end of its estimate")
    project: Annotated[
        str,
        Field(pattern=PROJECT_PATTERN, description="what the run is for: a label on all it creates"),
    ] = ""
    container: str | None = Field(default=None, description="the person's own image, by digest")
    secrets: Secrets = Field(default_factory=dict)
    export: tuple[ExportFormat, ...] = Field(
        default=(), description="formats that the model is written in, on the person's computer, once the run has ended"
    )
    track: tuple[Tracker, ...] = Field(
        default=(), description="trackers that the run is written to, from the person's computer, once it has ended"
    )
    script: ScriptPath | None = Field(
        default=None, description="a training script of your own, which takes the place of model, data and epochs"
    )
    args: Args = ()
    requirements: Annotated[str, Field(max_length=4_096)] | None = Field(
        default=None, description="the file with what the script needs installed, one requirement a line"
    )
    checkpoints: bool = Field(
        default=False, description="the script writes checkpoints and goes on from them (trainplan_run)"
    )
    read_script: SkipJsonSchema[ReadScript | None] = None
    sweep: SweepSpec | None = Field(
        default=None, description="keys with the values to try, trained one after another on one machine"
    )

    @model_validator(mode="before")
    @classmethod
    def _of_a_script(cls, values: Any) -> Any:
        """A script says by itself what it trains, on what and how."""
        if not isinstance(values, dict) or values.get("script") is None:
            return values
        extra = [name for name in NOT_OF_A_SCRIPT if name in values]
        refuse_all(f"{name} is for the trainer of plan; a script decides that itself: leave it out" for name in extra)
        return values | {
            "model": OF_A_SCRIPT,
            "data": UNKNOWN_DATA,
            "epochs": 1,
            "global_batch_size": 1,
        }

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.script is not None:
            swept = () if self.sweep is None else self.sweep.values
            of_args = problems_of(self.args, self.read_script, swept)
            refuse_all((*self._contradictions(), *of_args, *sweep_problems(self)))
            return self
        alone = [name for name in _OF_A_SCRIPT if getattr(self, name)]
        of_script = (f"{name} is for a script of your own: name it as script" for name in alone)
        refuse_all((*self._contradictions(), *_of_fine_tuning(self), *self._of_the_net(), *of_script))
        refuse_all(sweep_problems(self))
        return self

    def _contradictions(self) -> Iterator[str]:
        if self.checkpoint_every < timedelta(seconds=1):
            yield "checkpoint_every must be at least 1s"
        if self.global_batch_size % self.accumulate:
            yield f"accumulate: {self.accumulate} does not divide a batch of {self.global_batch_size}"
        if self.optimizer.schedule.name is ScheduleName.PLATEAU and self.validation.every_epochs is None:
            yield "the schedule plateau needs validation.every_epochs: how often it looks whether to fall"
        if self.accumulate > 1 and self.optimizer.ema is not None:
            yield "optimizer.ema averages after each part of a batch; leave out ema or accumulate"
        if self.container is not None and not _DIGEST.fullmatch(self.container):
            yield "container must name its digest: registry/name@sha256:…"
        if self.augment.saturation and self.channels == 1:
            yield "augment.saturation is for colour images; these have one channel"

    def _of_the_net(self) -> Iterator[str]:
        """What is not known of the images, or how the net does not take them."""
        lacking = [name for name in ("image_size", "classes") if self._is_unknown(name)]
        yield from (f"model.{name} is needed: {UNTOLD}" for name in lacking)
        if "image_size" in lacking:
            return
        if self.augment.resize is not None and self.augment.resize < self.image_size:
            yield f"augment.resize must be at least the net's {self.image_size} px a side"
        if "classes" in lacking or self.model.file is not None:
            return
        try:
            self.graph()
        except ImageTooSmallError as error:
            yield f"{error}; give a larger model.image_size{' or fewer M' if self.model.layers is not None else ''}"
        except ValueError as error:  # a block to freeze that the net does not have
            yield str(error)

    def _is_unknown(self, name: str) -> bool:
        return not getattr(self.model, name) and not getattr(self.known_data, name, None)

    @model_serializer(mode="wrap")
    def _used(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        values = without_unused(dump(self))
        for name in ("export", "track"):
            if not values.get(name):
                values.pop(name, None)
        if self.sweep is None:
            values.pop("sweep", None)
        if self.nodes == 1:  # A later key: the trainer of an earlier version can read a job that does without it.
            values.pop("nodes", None)
        if self.data.duplicates == "refuse":
            values.get("data", {}).pop("duplicates", None)
        if self.script is None:
            return {name: value for name, value in values.items() if name not in ("script", *_OF_A_SCRIPT)}
        return {name: value for name, value in values.items() if name not in NOT_OF_A_SCRIPT}

    @property
    def micro_batch_size(self) -> int:
        """Images that all devices train at once; `accumulate` of these make a batch, and one step of the optimizer."""
        return self.global_batch_size // self.accumulate

    @property
    def uses_recipe(self) -> bool:
        """Whether it, or a trial of its sweep, uses what only a trainer with Keras 3 can do, `accumulate` apart."""
        return uses_recipe(self) or any(trial.job.uses_recipe for trial in self.trials)

    @property
    def trials(self) -> tuple[Trial, ...]:
        """The trials of its sweep; none where it has no sweep."""
        return () if self.sweep is None else trials_of(self)

    @property
    def budget_usd(self) -> Decimal | None:
        """The most that the run may cost: the lower of what `constraints` and `sweep` say."""
        limits = (self.constraints.budget_usd, self.sweep.budget_usd if self.sweep else None)
        return min((limit for limit in limits if limit is not None), default=None)

    @property
    def known_data(self) -> DataSet | None:
        """What is known of the data set; None for a folder or an address."""
        return DATASETS[self.data.name] if self.data.name is not None else None

    @property
    def data_bytes(self) -> int | None:
        """What is fetched to where it trains; None where that is not known."""
        return self.known_data.download_bytes if self.known_data else self.data.size_bytes

    @property
    def train_images(self) -> int | None:
        """Images of one epoch; None where only the trainer can count them."""
        if self.data.images is not None:
            return self.data.images
        return self.known_data.train_images if self.known_data else None

    @property
    def image_size(self) -> int:
        """Pixels a side that the net sees."""
        data_set = self.known_data
        base = self.model.image_size or (data_set.image_size if data_set else None)
        if base is None:
            raise ValueError(f"model.image_size is needed: {UNTOLD}")
        return max(1, round(base * self.model.image_size_multiplier))

    @property
    def decoded_size(self) -> int:
        """Pixels a side that files are resized to when they are decoded."""
        return self.augment.resize or self.image_size

    @property
    def classes(self) -> int:
        """The number of classes. Raises ValueError where neither model nor data tell it."""
        data_set = self.known_data
        classes = self.model.classes or (data_set.classes if data_set else None)
        if classes is None:
            raise ValueError(f"model.classes is needed: {UNTOLD}")
        return classes

    @property
    def channels(self) -> int:
        """The channels of an image; 3 where the data do not tell."""
        return self.data.channels or (self.known_data.channels if self.known_data else 3)

    @property
    def is_read(self) -> bool:
        """Whether the network is known: that of a file is after it was read for these images."""
        if self.model.file is None:
            return True
        read = self.model.read
        return read is not None and read.read_for == (self.image_size, self.channels, self.classes)

    @property
    def needs_keras_3(self) -> bool:
        """Whether only a trainer with Keras 3 can train it: a recipe, and every network that is no list of layers."""
        return self.uses_recipe or not self.is_layer_list or any(trial.job.needs_keras_3 for trial in self.trials)

    def graph(self) -> Graph:
        """The network as a graph of operators.

        Raises ImageTooSmallError (a ValueError) where the image vanishes on the way, and ValueError for a block to
        freeze that the net does not have, or a file that was not read for these images (`is_read`).
        """
        if self.script is not None:
            return unknown_graph()
        if self.model.file is not None:
            if self.model.read is None or not self.is_read:
                raise ValueError(f"the network of {self.model.file} was not read for these images yet")
            return self.model.read.graph()
        if self.is_layer_list:
            return graph_of(self.net())
        from trainplan.workloads.networks.presets import preset_graph  # most jobs do without

        return preset_graph(Preset(str(self.model.preset)), self.image_size, self.channels, self.classes)

    @property
    def is_layer_list(self) -> bool:
        """Whether `net` has the network: others are graphs alone."""
        return self.model.layers is not None or self.model.preset in LAYER_LISTS

    def net(self) -> Net:
        """The net as a layer list.

        Raises ImageTooSmallError (a ValueError) where the image vanishes on the way, and ValueError for a block to
        freeze that the net does not have, or a network that is no list of layers (`is_layer_list`).
        """
        if not self.is_layer_list:
            raise ValueError(f"{self.model.preset or self.model.file} is no list of layers")
        image = (self.image_size, self.channels)
        if self.model.preset is Preset.MNIST_CNN:
            return mnist_cnn(self.classes, image)
        head = Head(
            dense=VGG_DENSE if self.model.dense is None else self.model.dense,
            dropout=VGG_DROPOUT if self.model.dropout is None else self.model.dropout,
            classes=self.classes,
        )
        if self.model.preset is not None:
            name = f"{self.model.preset}{'_bn' if self.model.batch_norm else ''}"
            net = vgg(name, VGG_FEATURES[self.model.preset], head, image, batch_norm=self.model.batch_norm)
        else:
            net = vgg("custom", self.model.layers or (), head, image, batch_norm=self.model.batch_norm)
        return (
            net if self.model.freeze is None else with_frozen_blocks(net, int(self.model.freeze.removeprefix("block")))
        )

    def to_json(self) -> str:
        """The job as the trainer reads it; the same job gives the same text.

        A framework that nobody wrote is left out, so that whoever reads it still knows that it may be chosen.
        """
        values = self.model_dump(mode="json")
        if "framework" not in self.model_fields_set:
            del values["framework"]
        if not self.project:
            del values["project"]
        return json.dumps(values, sort_keys=True, indent=1)

    def digest(self) -> str:
        """Sixteen hex digits that are equal for jobs that train the same thing.

        Limits and preferences are left out: a run under a new deadline goes on from the same checkpoint. So are the
        size of the data, references to secrets, and `nodes`: a run that loses a machine goes on with fewer.
        """
        left_out = {"name", "project", "constraints", "objective", "on_slow", "checkpoint_every", "secrets", "nodes"}
        left_out |= {"export", "track"}
        if self.read_script is not None:
            return self._digest_of_script(self.read_script)
        trained = self.model_dump(mode="json", exclude=left_out)
        if read := trained["model"].pop("read", None):  # the file by what is in it, wherever it lies
            trained["model"]["python"] = f"{read['sha256']}:{self.model.builder}"
        if self.optimizer.name not in WITH_MOMENTUM:
            trained["optimizer"]["momentum"] = OptimizerSpec.model_fields["momentum"].default
        del trained["data"]["size_bytes"]
        trained["data"].pop("duplicates", None)
        if self.sweep is not None:
            trained["sweep"].pop("budget_usd")
        if self.accumulate == 1:  # A field that came later: what does without it keeps the digest it had.
            del trained["accumulate"]
        return hashlib.sha256(json.dumps(trained, sort_keys=True).encode()).hexdigest()[:16]

    def _digest_of_script(self, read: ReadScript) -> str:
        """Of what runs: the script by what is in it, wherever it lies."""
        parts = [read.sha256, self.script_words, read.dependencies, self.framework, self.seed]
        parts += [*([file.path, file.source] for file in read.files), *filter(None, [read.inside])]
        if self.sweep is not None:
            parts.append(self.sweep.model_dump(mode="json", exclude={"budget_usd"}))
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def script_words(self) -> tuple[str, ...]:
        """The words behind the script on its command line."""
        options: tuple[Option, ...] = () if self.read_script is None else self.read_script.options
        return argument_words(self.args, options)

    def with_work(self, images: int) -> TrainingJob:
        """The job of a script that trains so many images in all, as a run of it has told."""
        return self.model_copy(update={"data": DataSpec.model_construct(images=images)})

    @property
    def is_measured_script(self) -> bool:
        """Whether it is a script of which a run has told how much it trains."""
        return self.script is not None and self.data is not UNKNOWN_DATA


def shown_job(job: TrainingJob) -> dict[str, Any]:
    """The job as JSON shows it: addresses without what lets one in, and of a file of the person's own what was read of
    it without the file and its graph."""
    left_out: Any = {"model": {"read": {"source", "packed"}}, "read_script": {"source", "locked", "options", "files"}}
    values: dict[str, Any] = shown_values(job.model_dump(mode="json", exclude=left_out))
    return values


def job_from_json(text: str) -> TrainingJob:
    """The inverse of `TrainingJob.to_json`. Raises pydantic.ValidationError on anything else."""
    return TrainingJob.model_validate_json(text)


def json_schema() -> dict[str, Any]:
    """The JSON schema of a job file, which editors complete from."""
    schema = TrainingJob.model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["required"] = [name for name in schema["required"] if name not in _OF_THE_NET]
    schema["anyOf"] = [{"required": list(_OF_THE_NET)}, {"required": ["script"]}]
    return schema


@cache
def job_keys() -> tuple[str, ...]:
    """The keys of a job file, with dots: `optimizer`, `optimizer.name`, `optimizer.schedule.name`."""
    return tuple(
        key for key in keys_of(TrainingJob) if not any(f"{key}.".startswith(f"{own}.") for own in WRITTEN_BY_PLAN)
    )
