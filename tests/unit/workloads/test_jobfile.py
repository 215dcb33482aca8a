"""Job files as people write them: read, or refused with the line, what is wrong and what to write instead."""

from __future__ import annotations

from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.rows import each_row
from trainplan.workloads.job import TrainingJob
from trainplan.workloads.jobfile import MAX_BYTES, JobFileError, parse_job, read_job
from trainplan.workloads.terms import Preset

if TYPE_CHECKING:
    from collections.abc import Callable

PRESETS = f"the {len(Preset)} names that are known"
GOOD = """\
name: tiny
model: {preset: vgg16}
data: {name: cifar10}
epochs: 2
global_batch_size: 128
"""


def refused(text: str) -> JobFileError:
    with pytest.raises(JobFileError) as caught:
        parse_job(text, "job.yaml")
    return caught.value


def test_a_good_file_is_a_job() -> None:
    job = parse_job(GOOD + "optimizer: {name: adam, learning_rate: 1e-3}\ncheckpoint_every: 1d12h\n", "job.yaml")
    assert (job.name, job.epochs, job.optimizer.learning_rate) == ("tiny", 2, 0.001)
    assert job.checkpoint_every.total_seconds() == 129_600


def test_layers_are_numbers_and_m() -> None:
    text = GOOD.replace("{preset: vgg16}", "\n  layers: [8, 8, M,\n           16, M]")
    assert parse_job(text, "job.yaml").model.layers == (8, 8, "M", 16, "M")


def test_all_mistakes_are_told_at_once_each_with_its_line() -> None:
    text = GOOD.replace("vgg16", "vgg61").replace("epochs: 2", "epochs: 0") + "data_dir: x\nprecison: fp16\n"
    with pytest.raises(JobFileError) as caught:
        parse_job(text, "job.yaml")
    head, *lines = caught.value.message.splitlines()
    assert head == "job.yaml has 4 mistakes:"
    assert [line.partition(":")[0].strip() for line in lines] == ["line 2", "line 4", "line 6", "line 7"]
    assert lines[0].endswith("(did you mean 'vgg16'?)"), "its letters in another order, not vgg11 or vgg19"
    assert lines[3] == "  line 7: there is no key 'precison' (did you mean 'precision'?)"


def test_a_hint_that_all_mistakes_share_is_told_once() -> None:
    with pytest.raises(JobFileError) as caught:
        parse_job("name: t\n", "job.yaml")
    assert "the key 'model' is missing\n" in caught.value.message
    assert caught.value.hint == "plan init writes a complete job file"


def test_the_values_together_are_looked_at_although_one_of_them_is_wrong() -> None:
    error = refused(
        "name: A b\nmodel: {preset: vgg61, freeze: block3}\ndata: {path: ./a, chanels: 3}\nepochs: 03\n"
        "accumulate: 3\ncontainer: x:1\noptimizer: {schedule: {name: plateau}}\nlr: 0.1\n"
    )
    assert [line.strip().partition(" (")[0] for line in error.message.splitlines()] == [
        "job.yaml has 10 mistakes:",
        "the key 'global_batch_size' is missing",
        "the schedule plateau needs validation.every_epochs: how often it looks whether to fall",
        "line 1: name: 'A b' does not serve as a name",
        f"line 2: model.preset: 'vgg61' is not one of {PRESETS}",
        "line 2: model.image_size is needed: the data set does not tell its own",
        "line 2: model.classes is needed: the data set does not tell its own",
        "line 3: there is no key 'chanels' in data",
        "line 4: epochs: needs a whole number, not '03'",
        "line 6: container must name its digest: registry/name@sha256:…",
        "line 8: there is no key 'lr'",
    ]


def test_a_mistake_that_another_one_makes_is_not_told() -> None:
    error = refused(GOOD.replace("128", "many") + "accumulate: 3\nvalidation: {every_epochs: 0}\n")
    assert len(error.message.splitlines()) == 3, "accumulate divides no batch that is not known"


def test_a_job_of_a_folder_names_the_command_that_looks_at_it() -> None:
    error = refused("name: a\nmodel: {preset: vgg16}\ndata: {path: ./my flowers}\nepochs: 3\n")
    assert error.message.splitlines()[0] == "job.yaml has 3 mistakes:"
    assert error.hint == "plan init NEW.yaml --data './my flowers' looks at the folder and writes a complete job file"


def test_capitals_and_dashes_tell_no_two_words_apart() -> None:
    job = parse_job(
        GOOD.replace("vgg16", "VGG-16").replace("cifar10", "CIFAR-10")
        + "precision: FP32\nframework: JAX\noptimizer: {name: SGD}\n"
        "constraints: {providers: [AWS], regions: [EU-WEST-1], markets: [On-Demand]}\n",
        "job.yaml",
    )
    assert (job.model.preset, job.data.name, job.precision, job.framework) == ("vgg16", "cifar10", "fp32", "jax")
    assert (job.constraints.providers, job.constraints.regions) == (("aws",), ("eu-west-1",))
    assert job.constraints.markets == ("on_demand",)


@pytest.mark.parametrize(("text", "usd"), [("0400", 400), ("1_000", 1000), ("0400.50", 400.5), ("+7", 7), ("1e2", 100)])
def test_money_is_decimal(text: str, usd: float) -> None:
    job = parse_job(f"{GOOD}constraints: {{budget_usd: {text}}}\n", "job.yaml")
    assert job.constraints.budget_usd == Decimal(str(usd))


@given(st.integers(1, 1_000_000), st.sampled_from(["{}", "+{}", "0{}", "00{}", "{}_"]))
def test_a_whole_number_is_its_decimal_digits_or_refused(number: int, form: str) -> None:
    text = GOOD.replace("epochs: 2", f"epochs: {form.format(number)}")
    if form.startswith("0"):
        assert refused(text).hint == f"write {number}"
    else:
        assert parse_job(text, "job.yaml").epochs == number


def test_blanks_around_an_address_are_not_of_it() -> None:
    job = parse_job(IMAGES.replace("path: %s", "url: 's3://a/b '"), "job.yaml")
    assert job.data.url == "s3://a/b"


# One line is added to the good file, or put in the place of one; what is said of it, and the hint.
WRONG_LINES = [
    ("epochs: 2", "epoch: 2", "job.yaml:4: there is no key 'epoch'", "did you mean 'epochs'?"),
    ("", "batchsize: 3", "job.yaml:6: there is no key 'batchsize'", "did you mean 'global_batch_size'?"),
    ("", "optimizer: {nmae: sgd}", "job.yaml:6: there is no key 'nmae' in optimizer", "did you mean 'name'?"),
    (
        "",
        "constraints:\n  budget: 3",
        "job.yaml:7: there is no key 'budget' in constraints",
        "did you mean 'budget_usd'?",
    ),
    (
        "",
        "zzz: 1",
        "job.yaml:6: there is no key 'zzz'",
        "known here: name, model, data, epochs, global_batch_size, accumulate, precision, xla, framework, "
        "optimizer, augment, validation, seed, nodes, checkpoint_every, constraints, objective, on_slow, project, "
        "container, secrets, export, track, script, args, requirements, checkpoints, sweep",
    ),
    (
        "",
        "secrets: {TOKEN: hunter2hunter2}",
        "job.yaml:6: secrets: TOKEN is no reference to a secret: write aws-sm:ARN, "
        "gcp-sm:projects/P/secrets/S/versions/V or akv:https://VAULT/secrets/NAME",
        "",
    ),
    ("", "accumulate: 3", "job.yaml:6: accumulate: 3 does not divide a batch of 128", ""),
    (
        "",
        "constraints: {deadline: 0s}",
        "job.yaml:6: constraints: deadline must be longer than 0s; leave it out for none",
        "",
    ),
    ("epochs: 2", "epochs: many", "job.yaml:4: epochs: needs a whole number, not 'many'", ""),
    ("epochs: 2", "epochs: 2.5", "job.yaml:4: epochs: needs a whole number, not 2.5", ""),
    ("epochs: 2", "epochs: '2'", "job.yaml:4: epochs: needs a whole number, not '2'", ""),
    ("epochs: 2", "epochs: yes", "job.yaml:4: epochs: needs a whole number, not True", ""),
    ("epochs: 2", "epochs:", "job.yaml:4: epochs: needs a whole number, not nothing", ""),
    ("epochs: 2", "epochs: 0", "job.yaml:4: epochs: must be at least 1, not 0", ""),
    ("epochs: 2", "", "job.yaml: the key 'epochs' is missing", "plan init writes a complete job file"),
    ("epochs: 2", "name: b", "job.yaml:4: the key 'name' is there twice", "keep one of the two"),
    (
        "",
        "precision: fp16",
        "job.yaml:6: precision: 'fp16' is not one of 'fp32', 'tf32', 'amp_fp16' or 'amp_bf16'",
        "did you mean 'amp_fp16'?",
    ),
    (
        "{preset: vgg16}",
        "{preset: resent50}",
        f"job.yaml:2: model.preset: 'resent50' is not one of {PRESETS}",
        "did you mean 'resnet50'?",
    ),
    (
        "{preset: vgg16}",
        "{preset: squeeze_excite}",
        f"job.yaml:2: model.preset: 'squeeze_excite' is not one of {PRESETS}",
        "",
    ),
    (
        "{preset: vgg16}",
        "{preset: ResNet-50, dense: [10]}",
        "job.yaml:2: model: the preset resnet50 is fixed; dense is for VGG nets",
        "",
    ),
    (
        "{preset: vgg16}",
        "{preset: mobilenet_v2, weights: imagenet}",
        "job.yaml:2: model: the preset mobilenet_v2 has no blocks to begin with; weights is for VGG nets",
        "",
    ),
    (
        "{preset: vgg16}",
        "{preset: inception_v3}",
        "job.yaml:2: the image is 1 px a side when it reaches",
        "",
    ),
    (
        "{preset: vgg16}",
        "{preset: vgg61}",
        f"job.yaml:2: model.preset: 'vgg61' is not one of {PRESETS}",
        "did you mean 'vgg16'?",
    ),
    ("", "precision: mixed_float16", "job.yaml:6: precision: 'mixed_float16' is not", "did you mean 'amp_fp16'?"),
    ("", "precision: float32", "job.yaml:6: precision: 'float32' is not", "did you mean 'fp32'?"),
    ("", "framework: tf", "job.yaml:6: framework: 'tf' is not", "did you mean 'tensorflow'?"),
    ("", "framework: PyTorch", "job.yaml:6: framework: 'PyTorch' is not", "did you mean 'torch'?"),
    ("", "optimizer: {lr: 0.1}", "job.yaml:6: there is no key 'lr' in optimizer", "did you mean 'learning_rate'?"),
    ("", "lr: 0.1", "job.yaml:6: there is no key 'lr'", "did you mean 'optimizer.learning_rate'?"),
    ("", "momentum: 0.9", "job.yaml:6: there is no key 'momentum'", "did you mean 'optimizer.momentum'?"),
    ("", "batch-size: 3", "job.yaml:6: there is no key 'batch-size'", "did you mean 'global_batch_size'?"),
    ("", "budget: 3", "job.yaml:6: there is no key 'budget'", "did you mean 'constraints.budget_usd'?"),
    # What YAML 1.1 reads as octal, binary, hexadecimal or in base 60, and as a date.
    ("epochs: 2", "epochs: 032", "job.yaml:4: epochs: needs a whole number, not '032'", "write 32"),
    ("epochs: 2", "epochs: 08", "job.yaml:4: epochs: needs a whole number, not '08'", "write 8"),
    ("epochs: 2", "epochs: 1:30", "job.yaml:4: epochs: needs a whole number, not '1:30'", "write it in decimal digits"),
    ("epochs: 2", "epochs: 0x10", "job.yaml:4: epochs: needs a whole number, not '0x10'", "write it in decimal digits"),
    ("epochs: 2", "epochs: 0b11", "job.yaml:4: epochs: needs a whole number, not '0b11'", "write it in decimal digits"),
    ("", "constraints: {budget_usd: 1:30}", "job.yaml:6: constraints.budget_usd: needs a number, not '1:30'", ""),
    ("", "optimizer: {learning_rate: 1:30.5}", "job.yaml:6: optimizer.learning_rate: needs a number", ""),
    ("", "seed: 2026-01-01", "job.yaml:6: seed: needs a whole number, not '2026-01-01'", ""),
    (
        "{name: cifar10}",
        "{url: 'https://a/ b'}",
        "job.yaml:3: data.url: is no address that begins with s3://, gs://, az:// or https://, and",
        "",
    ),
    ("", "objective: 7", "job.yaml:6: objective: 7 is not one of 'cost', 'time' or 'balanced'", ""),
    (
        "",
        "constraints: {markets: [spots]}",
        "job.yaml:6: constraints.markets.0: 'spots' is not one of 'on_demand' or 'spot'",
        "did you mean 'spot'?",
    ),
    (
        "name: tiny",
        "name: My Job",
        "job.yaml:1: name: 'My Job' does not serve as a name",
        "a name starts and ends with a letter or digit; "
        "use lower-case letters, digits, dots, dashes and underscores, 63 at most",
    ),
    ("name: tiny", "name: 7", "job.yaml:1: name: needs text, not 7", ""),
    ("", "xla: perhaps", "job.yaml:6: xla: needs true or false, not 'perhaps'", ""),
    ("", "optimizer: {momentum: yes}", "job.yaml:6: optimizer.momentum: needs a number, not true", ""),
    ("", "optimizer: {momentum: fast}", "job.yaml:6: optimizer.momentum: needs a number, not 'fast'", ""),
    (
        "",
        "optimizer: sgd",
        "job.yaml:6: optimizer: needs keys and values, not 'sgd'",
        "",
    ),
    ("", "constraints: {providers: aws}", "job.yaml:6: constraints.providers: needs a list, not 'aws'", ""),
    ("{preset: vgg16}", "{layers: []}", "job.yaml:2: model.layers: needs at least one entry, not []", ""),
    (
        "{preset: vgg16}",
        "{layers: [8, MM]}",
        "job.yaml:2: model.layers.1: needs a whole number, not 'MM'",
        "",
    ),
    (
        "",
        "checkpoint_every: 90",
        "job.yaml:6: checkpoint_every: write a duration with its unit, for example 90s, 10m or 8h",
        "",
    ),
    (
        "",
        "constraints:\n  deadline: 8 hours",
        "job.yaml:7: constraints.deadline: '8 hours' is not a duration; write for example 90s, 10m, 8h or 1d12h",
        "",
    ),
    # Problems of the whole job, at the key they speak of first.
    (
        "{preset: vgg16}",
        "\n  preset: vgg16\n  image_size: 31",
        "job.yaml:4: the image is 1 px a side when it reaches maxpool5, which needs 2; give a larger model.image_size",
        "",
    ),
    ("", "checkpoint_every: 0s", "job.yaml:6: checkpoint_every must be at least 1s", ""),
    ("", "container: mine:1", "job.yaml:6: container must name its digest: registry/name@sha256:…", ""),
    ("{preset: vgg16}", "{}", "job.yaml:2: model: give one of preset, layers, python or onnx", ""),
    ("{name: cifar10}", "{url: 'http://x'}", "job.yaml:3: data.url: is no address that begins with s3://", ""),
]


@each_row(("old", "new", "message", "hint"), WRONG_LINES, ids=[row[1][:30] for row in WRONG_LINES])
def test_a_wrong_line_is_named_with_what_to_write(old: str, new: str, message: str, hint: str) -> None:
    text = GOOD.replace(old, new) if old else f"{GOOD}{new}\n"
    assert text != GOOD
    error = refused(text)
    assert error.message.startswith(message)
    assert not hint or error.hint == hint
    assert len(error.message) < 250


NOT_A_JOB = [
    ("", "job.yaml is empty"),
    ("# nothing yet\n", "job.yaml is empty"),
    ("- a\n- b\n", "job.yaml: a job file holds keys and values"),
    ("just words", "job.yaml: a job file holds keys and values"),
    ("a: [1, 2\n", "job.yaml:2: not valid YAML"),
    ("a: b: c\n", "job.yaml:1: not valid YAML"),
    ("a: 1\n\tb: 2\n", "job.yaml:2: not valid YAML"),
    ("a: 1\n--- \nb: 2\n", "job.yaml:2: not valid YAML"),
    ("a: \x00", "job.yaml: not valid YAML"),
    ("? [1, 2]\n: 3\n", "job.yaml:1: not valid YAML"),
    ("a: &x 1\nb: *x\n", "job.yaml:1: YAML aliases are not allowed here"),
    ("&a [*a]", "job.yaml:1: YAML aliases are not allowed here"),
    ("a: 1\na: 2\n", "job.yaml:2: the key 'a' is there twice"),
    ("!!python/object/apply:os.system ['true']", "job.yaml:1: not valid YAML"),
    ("seed: !!bool x", "job.yaml: a tag (!!) does not fit its value"),
    ("seed: !!int _", "job.yaml:1: a tag (!!) does not fit its value"),
    ("seed: !!timestamp never", "job.yaml: a tag (!!) does not fit its value"),
    ("seed: !!timestamp 2026-99-99", "job.yaml: a tag (!!) does not fit its value"),
    ("seed: !!int 032", "job.yaml:1: a tag (!!) does not fit its value"),
    ("seed: " + "9" * 5000, "job.yaml:1: a number of 5,000 characters"),
    ("[" * 200_000, "job.yaml is nested too deeply"),
    ("- " * 100_000, "job.yaml is nested too deeply"),
    ("{a: " * 60_000, "job.yaml is nested too deeply"),
]


@each_row(("text", "message"), NOT_A_JOB, ids=[row[0][:20] for row in NOT_A_JOB])
def test_what_is_no_job_file_is_refused(text: str, message: str) -> None:
    assert refused(text).message.startswith(message)


def _folder(tmp_path: Path) -> Path:
    return tmp_path


def _missing_with_neighbour(tmp_path: Path) -> Path:
    (tmp_path / "vgg16-cifar10.yaml").write_text(GOOD)
    return tmp_path / "vgg16-cifar.yaml"


def _missing_in_a_missing_folder(tmp_path: Path) -> Path:
    return tmp_path / "nowhere" / "job.yaml"


def _too_large(tmp_path: Path) -> Path:
    (tmp_path / "job.yaml").write_text(GOOD + "#" * MAX_BYTES)
    return tmp_path / "job.yaml"


def _binary(tmp_path: Path) -> Path:
    (tmp_path / "job.yaml").write_bytes(b"\x89PNG\r\n\x1a\n\xff")
    return tmp_path / "job.yaml"


def _below_a_file(tmp_path: Path) -> Path:
    (tmp_path / "job.yaml").write_text(GOOD)
    return tmp_path / "job.yaml" / "job.yaml"


def _name_too_long(tmp_path: Path) -> Path:
    return tmp_path / ("x" * 5000)


@pytest.mark.parametrize(
    ("make", "message", "hint"),
    [
        (_folder, "is a folder, not a job file", "plan init job.yaml --data /"),
        (_missing_with_neighbour, "there is no file", "vgg16-cifar10.yaml?"),
        (_missing_in_a_missing_folder, "there is no file", "plan init writes one"),
        (_too_large, "is larger than 256 KiB", "is this the right file?"),
        (_binary, "is not a text file in UTF-8", "is this the right file?"),
        (_below_a_file, "cannot read", "check its permissions"),
        (_name_too_long, "cannot read", ""),
    ],
)
def test_a_file_that_cannot_be_read_is_named(
    tmp_path: Path, make: Callable[[Path], Path], message: str, hint: str
) -> None:
    path = make(tmp_path)
    with pytest.raises(JobFileError) as caught:
        read_job(path)
    assert str(path) in caught.value.message
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_a_byte_order_mark_and_windows_line_ends_are_fine(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_bytes(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode())
    assert read_job(tmp_path / "job.yaml").name == "tiny"


IMAGES = """\
name: tiny
model: {preset: vgg16, image_size: 64, classes: 3}
data: {path: %s, images: 100}
epochs: 2
global_batch_size: 10
"""


def test_a_folder_of_images_is_taken_from_where_the_file_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "images").mkdir()
    (tmp_path / "jobs" / "job.yaml").write_text(IMAGES % "../images")
    monkeypatch.chdir(tmp_path / "jobs")
    assert read_job(Path("job.yaml")).data.path == str((tmp_path / "images").resolve())


@pytest.mark.parametrize("path", ["images", "x" * 5000])
def test_a_folder_of_images_that_is_not_there_is_named(tmp_path: Path, path: str) -> None:
    (tmp_path / "job.yaml").write_text(IMAGES % path)
    with pytest.raises(JobFileError, match=r"data\.path: there is no folder") as caught:
        read_job(tmp_path / "job.yaml")
    assert caught.value.hint == "paths are relative to the job file"


def test_a_path_may_begin_with_the_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "images").mkdir()
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "job.yaml").write_text(IMAGES % "~/images")
    assert read_job(tmp_path / "jobs" / "job.yaml").data.path == str((tmp_path / "images").resolve())


@pytest.mark.parametrize("path", ["$HOME/images", "${DATA}", "%USERPROFILE%/images"])
def test_a_variable_of_the_shell_is_refused_with_the_reason(tmp_path: Path, path: str) -> None:
    (tmp_path / "job.yaml").write_text(IMAGES % f"'{path}'")
    with pytest.raises(JobFileError) as caught:
        read_job(tmp_path / "job.yaml")
    assert caught.value.hint.startswith("variables of the shell are not read in a job file")


def test_the_home_of_nobody_is_refused(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(IMAGES % "~nobody-has-this-name/images")
    with pytest.raises(JobFileError, match=r"data\.path: ~nobody"):
        read_job(tmp_path / "job.yaml")


def test_a_file_in_the_place_of_the_folder_is_called_one(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(IMAGES % "job.yaml")
    with pytest.raises(JobFileError, match=r"job\.yaml is a file"):
        read_job(tmp_path / "job.yaml")


# --- whatever is in the file -------------------------------------------------------------------------------------

_KEYS = st.sampled_from([*TrainingJob.model_fields, "preset", "path", "layers", "deadline", "<<", "=", "1", "no"])
_SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["vgg16", "cifar10", "M", "8h", "1e999999", ".inf", "2026-02-30", "0x_", "1:60", "~", "a\0b"])
    | st.dates()
    | st.binary(max_size=5)
)
_VALUES = st.recursive(
    _SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_KEYS, inner, max_size=4), max_leaves=12
)
_TEXTS = st.one_of(
    st.text(),
    st.text(alphabet="[]{}:,-?&*!|>'\"%@#\n 0aM_.<=~", max_size=40),
    st.dictionaries(_KEYS, _VALUES, max_size=8).map(lambda data: yaml.safe_dump(data, allow_unicode=True)),
    st.dictionaries(_KEYS, _VALUES, max_size=4).map(lambda data: GOOD + yaml.safe_dump(data, allow_unicode=True)),
    st.tuples(st.sampled_from(GOOD.splitlines()), st.text(max_size=10)).map(lambda pair: GOOD.replace(*pair)),
    st.tuples(
        st.sampled_from(["!!int", "!!float", "!!bool", "!!null", "!!timestamp", "!!binary", "!!set", "!!omap", "!x"]),
        st.text(alphabet="[]{}:,-_0ax1.+ ", max_size=6),
    ).map(lambda pair: f"seed: {pair[0]} {pair[1]}"),
)


@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(_TEXTS)
@example("a: \ud800")
@example("!!float ''")
@example("<<: 3")
def test_any_text_is_a_job_or_is_refused_for_a_person(text: str) -> None:
    try:
        found: TrainingJob | JobFileError = parse_job(text, "job.yaml")
    except JobFileError as error:
        found = error
    if isinstance(found, JobFileError):
        assert found.message.startswith("job.yaml")
        assert all(line.startswith("  ") for line in found.message.splitlines()[1:]), "one line for each mistake"


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=200))
def test_any_bytes_are_a_job_or_are_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "job.yaml").write_bytes(data)
    with pytest.raises(JobFileError):
        read_job(tmp_path / "job.yaml")


# --- hostile numbers and nesting -----------------------------------------------------------------------------------

LONG_NUMBERS = ("9" * 5_000, "-" + "9" * 400, "1" * 300 + ".5")
NUMBER_PLACES = ("epochs: {}", "xla: {}", "constraints: {{deadline: {}}}", "? {}\n: 1", "secrets: {{A: {}}}")
ODD_PLACES = ("seed", "xla", "checkpoint_every", "precision", "container", "secrets", "accumulate")
ODD_VALUES = (
    ".inf", "-.inf", ".nan", "1e999", "1e-400", "190:20:30", "-0", "9" * 60, "2026-99-99", "!!int x", "!!float \"\"",
    "!!binary x", "!!timestamp x", "!!omap [1]", "!!python/object:os.system x", "&a 1", "*a", "{<<: [1]}", "[[[]]]",
    "9" * 50 + "d", "99999999999999999999h", "\"\\ud800\"",
)  # fmt: skip


@each_row("place", NUMBER_PLACES)
@each_row("number", LONG_NUMBERS, ids=lambda text: text[:3])
def test_a_number_that_is_too_long_is_refused_before_it_is_read(number: str, place: str) -> None:
    with pytest.raises(JobFileError, match=r"x\.yaml:\d+: a number of [0-9,]+ characters"):
        parse_job(f"name: tiny\n{place.format(number)}\n", "x.yaml")


@pytest.mark.parametrize("place", ODD_PLACES)
def test_odd_values_are_a_job_or_a_sentence(place: str) -> None:
    for value in ODD_VALUES:
        with suppress(JobFileError):
            assert parse_job(f"{GOOD}{place}: {value}\n", "x.yaml").digest()


def test_a_message_does_not_repeat_a_long_value() -> None:
    for place in ("precision", "on_slow", "checkpoint_every", "x" * 10_000):
        assert len(refused(f"{GOOD}{place}: {'x' * 100_000}\n").message) < 1_100
