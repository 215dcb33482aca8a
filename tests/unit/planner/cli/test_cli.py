"""The command line: what it answers, and that whatever is typed ends in an answer."""

from __future__ import annotations

import re
import resource
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.builders import small_catalog
from tests.conftest import ROOT
from tests.desk import TINY, own_home
from tests.doubles.fake_provider import FACTORY
from tests.unit.planner.cli.command import plan
from trainplan.planner import __version__
from trainplan.planner.cli.app import commands, groups
from trainplan.pricing.catalog import Catalog
from trainplan.workloads.datasets import DATASETS
from trainplan.workloads.job import Preset
from trainplan.workloads.jobfile import read_job


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_catalog(tmp_path_factory.mktemp("cli"))


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of one's own with a job in it; state below it."""
    own_home(tmp_path, monkeypatch)
    monkeypatch.setenv("COLUMNS", "120")
    (tmp_path / "job.yaml").write_text(TINY)
    return tmp_path


# --- bad input ---------------------------------------------------------------------------------------------------

VGG = ("--model", "vgg16", "--dataset", "cifar10")
BAD_INPUT = [
    ("frobnicate", "there is no command 'frobnicate'", "plan --help"),
    ("train", "there is no command 'train'", "plan launch: Train a job"),
    ("lanch", "there is no command 'lanch'", "did you mean launch? plan --help"),
    ("prices sho", "there is no command 'sho'", "did you mean show? plan prices --help"),
    ("prices check a b", "plan prices check has no place for: b", "plan prices check --help"),
    ("setup --yes=1", "--yes takes no value", "plan setup --help"),
    ("--frobnicate", "there is no option --frobnicate", "plan --help"),
    ("estimate --frobnicate", "there is no option --frobnicate", "plan estimate --help"),
    ("estimate a.yaml b.yaml", "plan estimate has no place for: b.yaml", "plan estimate --help"),
    ("estimate", "give a job file, --data FOLDER (your own images)", "plan estimate --data ./flowers"),
    ("estimate --model vgg16", "give a job file, --data FOLDER (your own images)", ""),
    ("estimate job.yaml --model vgg61", "--model: there is no 'vgg61'", "did you mean vgg16?"),
    ("estimate jop.yaml", "there is no file jop.yaml", "did you mean job.yaml?"),
    ("estimate .", ". is a folder, not a job file", "name the YAML file in it"),
    ("estimate broken.yaml", "broken.yaml:1: not valid YAML", "check indentation"),
    ("estimate wrong.yaml", "wrong.yaml:6: there is no key 'epoch'", "did you mean 'epochs'?"),
    ("estimate small.yaml", "small.yaml:2: the image is 1 px a side when it reaches maxpool4", ""),
    ("estimate --model vgg61 --dataset cifar10", "--model: there is no 'vgg61'", "did you mean vgg"),
    ("estimate --model vgg16 --dataset cifra10", "--dataset: there is no 'cifra10'", "did you mean cifar10?"),
    ("estimate --model vgg16 --dataset mnist", "vgg16 on mnist: the image is 1 px a side", "another net, or"),
    ("estimate --model vgg16 --dataset cifar10 --epochs 0", "--epochs: ", ""),
    ("estimate --model vgg16 --dataset cifar10 --epochs many", "--epochs: ", ""),
    (
        "estimate --model vgg16 --dataset cifar10 --epochs 10000000",
        "vgg16 on cifar10 with --epochs 10000000: epochs:",
        "",
    ),
    (
        "estimate --model vgg16 --dataset cifar10 --batch 9999999",
        "vgg16 on cifar10 with --batch 9999999: global_batch",
        "",
    ),
    ("estimate job.yaml --deadline soon", "--deadline: 'soon' is not a duration", ""),
    ("estimate job.yaml --deadline 0h", "--deadline: the time must be longer than zero", ""),
    ("estimate job.yaml --deadline 99999d", "--deadline: '99999d' is longer than ten years", ""),
    ("estimate job.yaml --budget much", "--budget: 'much' is not an amount of dollars", "for example --budget 20"),
    ("estimate job.yaml --budget -3", "--budget: '-3' is not an amount of dollars", ""),
    ("estimate job.yaml --budget nan", "--budget: 'nan' is not an amount of dollars", ""),
    ("estimate job.yaml --budget 1e999999", "--budget: '1e999999' is not an amount of dollars", ""),
    ("estimate job.yaml --market futures", "--market: there is no 'futures'", "known: on_demand, spot"),
    ("estimate job.yaml --objective cheap", "--objective: ", ""),
    ("estimate job.yaml --provider asw", "there is no provider 'asw'", "did you mean aws?"),
    ("launch job.yaml --provider simm", "there is no provider 'simm'", "did you mean sim?"),
    ("report RUN --html .", "--html writes a page, and . does not end in .html", "--html report.html"),
    ("estimate job.yaml --region us-central", "there is no region 'us-central'", "did you mean us-central"),
    ("estimate job.yaml --device V10", "no device is called 'V10'", "did you mean V100"),
    ("estimate job.yaml --nodes 0,2", "--nodes: '0,2' is not a list of numbers of machines", "for example --nodes"),
    ("estimate job.yaml --nodes 2,two", "--nodes: '2,two' is not a list of numbers of machines", ""),
    ("estimate job.yaml --nodes 2000", "--nodes: '2000' is not a list of numbers of machines from 1 to 1024", ""),
    ("estimate job.yaml --limit 0", "--limit: ", ""),
    ("estimate job.yaml --explain 999", "--explain 999: there is no such row, of 1", ""),
    ("estimate job.yaml --explain 1 --json", "--explain and --json cannot be combined", "give one of the two"),
    ("init job.yaml", "job.yaml already exists", "choose another name, or --force replaces it"),
    ("init --model vgg16 --dataset digits", "vgg16 on digits: the image is", ""),
    ("status nobody", "there is no run 'nobody'", "plan history lists them"),
    ("stop", "RUN is missing", "plan stop --help"),
    ("stop nobody", "there is no run 'nobody'", "plan history lists them"),
    ("logs nobody -f", "there is no run 'nobody'", "plan history lists them"),
    ("launch", "JOB.yaml is missing", "plan launch --help"),
    ("launch jop.yaml --provider local", "there is no file jop.yaml", "did you mean job.yaml?"),
    ("launch huge.yaml --provider local", "huge cannot train on this machine: needs", "a smaller global_batch_size"),
    ("measure jop.yaml", "there is no file jop.yaml", "did you mean job.yaml?"),
    ("measure job.yaml --steps 1", "--steps: ", ""),
    ("throughput", "plan throughput needs a command", "plan throughput --help"),
    ("throughput check job.csv", "cannot read job.csv: No such file", ""),
]


@pytest.mark.parametrize(("line", "error", "hint"), BAD_INPUT, ids=[row[0] for row in BAD_INPUT])
def test_bad_input_is_one_clear_error_with_code_2(here: Path, line: str, error: str, hint: str) -> None:
    (here / "broken.yaml").write_text("a: b: c")
    (here / "wrong.yaml").write_text(TINY + "epoch: 3\n")
    (here / "small.yaml").write_text(TINY.replace("[8, M, 16, M]", "[8, M, M, M, M]"))
    huge = "{preset: vgg19, image_size: 4096}"
    (here / "huge.yaml").write_text(
        f"name: huge\nmodel: {huge}\ndata: {{name: imagenet}}\nepochs: 1\nglobal_batch_size: 1048576\n"
    )
    said = plan(*line.split())
    assert said.code == 2
    assert bool(said.out) == ("--json" in line), "the error itself, as JSON"
    assert said.error.startswith(error)
    assert said.hint.startswith(hint)
    assert said.err.count("error:") == 1


@pytest.mark.parametrize(
    ("files", "line", "code", "error"),
    [
        ({}, "estimate job.yaml --budget 0.0001", 3, "no offer fits: over the budget"),
        (
            {},
            "estimate job.yaml --deadline 1s --json",
            3,
            "no offer fits: past the deadline",
        ),
        (
            {},
            "estimate job.yaml --explain 1 --provider azure",
            3,
            "no offer fits: not among the providers you asked for",
        ),
        ({}, "init nowhere/job.yaml", 9, "cannot write nowhere/job.yaml: No such file or directory"),
        ({"home": ""}, "history", 2, "PLAN_HOME: "),
        ({"home/journal.sqlite": "no database"}, "history", 9, "the journal "),
        ({"home/journal.sqlite": "no database"}, "status", 9, "the journal "),
        ({"home/settings.toml": "engine = 'dokcer'"}, "estimate job.yaml", 2, ""),
        ({"home/settings.toml": "engine = 'dokcer'"}, "history", 2, ""),
        ({"home/measurements.jsonl": "\udcff"}, "estimate job.yaml", 9, "cannot read "),
        ({}, "estimate job.yaml --catalog job.yaml", 9, "the price catalog job.yaml cannot be read"),
        ({}, "estimate job.yaml --catalog no.sqlite", 9, "there is no price catalog at no.sqlite"),
        ({}, "launch job.yaml --provider sim --detach", 2, "the input is not a terminal, so nobody can be asked"),
    ],
)
def test_every_other_refusal_has_its_own_code(
    here: Path, catalog: Path, files: dict[str, str], line: str, code: int, error: str
) -> None:
    for name, text in files.items():
        (here / name).parent.mkdir(exist_ok=True)
        (here / name).write_bytes(text.encode("utf-8", "surrogateescape"))
    arguments = line.split()
    if arguments[0] == "estimate" and "--catalog" not in arguments:
        arguments += ["--catalog", str(catalog)]
    said = plan(*arguments)
    assert said.code == code
    assert said.error.startswith(error)
    assert said.error


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ("estimate job.yaml --budget much", "--budget"),
        ("estimate job.yaml --deadline soon", "--deadline"),
        ("estimate job.yaml --market futures", "--market"),
        ("estimate job.yaml --limit 0", "--limit"),
        ("estimate job.yaml --provider colab --nodes 2", "--nodes"),
        ("launch job.yaml --max-cost 0", "--max-cost"),
        ("stop", "RUN"),
        ("estimate broken.yaml", None),
    ],
)
def test_an_error_names_the_option_that_it_is_about(here: Path, line: str, field: str | None) -> None:
    (here / "broken.yaml").write_text("a: b: c")
    assert plan(*line.split(), "--json").json["field"] == field


def test_with_json_an_error_is_a_document_too() -> None:
    said = plan("estimate", "none/job.yaml", "--json")
    assert said.json == {"error": said.error, "hint": said.hint, "field": None, "exit_code": said.code}
    assert (said.code, said.error) == (2, "there is no file none/job.yaml")
    assert plan("estimate", "none/job.yaml").out == ""


# --- help and version --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [(), ("--help",), ("-h",)])
def test_help_names_every_command(arguments: tuple[str, ...]) -> None:
    said = plan(*arguments)
    assert (said.code, said.err) == (0, "")
    for title, summaries in groups().items():
        lines = said.out.partition(f"\n{title}:\n")[2].partition("\n\n")[0].splitlines()
        assert [line.split(None, 1) for line in lines] == [list(row) for row in summaries.items()], "in order, none cut"
    assert max(map(len, said.out.splitlines())) <= 80


@pytest.mark.parametrize("name", list(commands()))
def test_every_command_has_help(name: str) -> None:
    said = plan(name, "-h")
    assert said == plan(name, "--help")
    assert said.code == 0
    assert said.out.startswith(f"Usage: plan {name}")


def test_the_version() -> None:
    assert plan("--version").out == f"plan {__version__}\n"
    assert plan("--version", "estimate").out == f"plan {__version__}\n"


# --- estimate ----------------------------------------------------------------------------------------------------


def test_an_estimate_of_a_job_file(catalog: Path) -> None:
    said = plan("estimate", "job.yaml", "--catalog", catalog)
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith("tiny: custom (")
    assert "\n1  aws us-east-1 " in said.out
    assert "this machine: " in said.out
    assert "retired by the vendor (--include-retired shows them) [retired]" in said.out


def test_an_estimate_for_this_machine_alone_is_answered(catalog: Path) -> None:
    said = plan("estimate", "--model", "mnist-cnn", "--dataset", "mnist", "--provider", "local", "--catalog", catalog)
    assert said.code == 0
    assert "this machine: " in said.out


def test_an_estimate_of_several_machines_stands_under_the_ranking(here: Path, catalog: Path) -> None:
    said = plan("estimate", "job.yaml", "--catalog", catalog, "--nodes", "4,2")
    assert said.code == 0
    assert said.out.index("\n#  where") < said.out.index("\nseveral machines, ") < said.out.index("a launch rents one")
    (here / "two.yaml").write_text(TINY + "nodes: 2\n")
    for arguments, numbers in (("job.yaml --nodes 2,4", [1, 2, 4]), ("two.yaml", [1, 2]), ("job.yaml", [])):
        rows = plan("estimate", *arguments.split(), "--json", "--catalog", catalog).json["several_machines"]
        assert sorted({row["machines"] for row in rows}) == numbers


def test_an_estimate_without_a_job_file(catalog: Path) -> None:
    said = plan("estimate", *VGG, "--epochs", 3, "--batch", 64, "--catalog", catalog)
    assert said.out.startswith("vgg16-cifar10: vgg16 (33.6 M parameters, 0.66 GFLOPs forward)")
    assert "3 epochs, batch 64, fp32, tensorflow" in said.out


def test_the_shipped_catalog_answers_with_fifteen_rows() -> None:
    said = plan("estimate", *VGG)
    rows = [line for line in said.out.splitlines() if re.match(r" ?\d+  [a-z]+ ", line)]
    assert said.code == 0
    assert len(rows) == 15
    assert " more rows: --limit N, or --all " in said.out


def test_the_table_has_no_more_rows_than_asked_for(catalog: Path) -> None:
    def rows(*options: object) -> int:
        out = plan("estimate", "job.yaml", "--catalog", catalog, *options).out
        return sum(bool(re.search(r" (on demand|spot)[ ,]", line)) for line in out.split("\n\n")[1].splitlines()[1:])

    assert rows("--limit", 2) == 2
    assert rows("--limit", 99) == rows()
    assert rows("--all") > rows()
    assert rows("--all", "--limit", 2) == 2
    assert rows("--all", "--include-retired") == rows("--all") + 1
    assert rows("--market", "spot") == 1
    assert rows("--market", "on-demand", "--market", "spot") == rows()


def test_json_has_every_offer_and_is_the_same_twice(catalog: Path) -> None:
    first, second = (plan("estimate", "job.yaml", "--json", "--catalog", catalog).json for _ in range(2))
    assert first["candidates"] == second["candidates"]
    assert len(first["candidates"]) > len(plan("estimate", "job.yaml", "--catalog", catalog).out.split("\n\n")[1]) / 200
    refused = sum(row["count"] for row in first["rejections"])
    assert len(first["candidates"]) + refused == 12


def test_a_limit_holds_for_the_json_too_which_says_how_many_rows_there_are(catalog: Path) -> None:
    whole = plan("estimate", "job.yaml", "--json", "--catalog", catalog).json
    assert whole["candidate_count"] == len(whole["candidates"]) > 3
    for limit in (1, 3, 999):
        part = plan("estimate", "job.yaml", "--json", "--limit", limit, "--catalog", catalog).json
        assert part["candidates"] == whole["candidates"][:limit]
        assert part["candidate_count"] == whole["candidate_count"]


def test_json_is_complete_where_nothing_is_left(catalog: Path) -> None:
    said = plan("estimate", "job.yaml", "--json", "--budget", "0.0001", "--catalog", catalog)
    assert (said.code, said.json["candidates"]) == (3, [])
    assert said.json["this_machine"]["fits"] is True


def test_limits_of_the_command_line_are_those_of_the_job(catalog: Path) -> None:
    said = plan(
        "estimate", "job.yaml", "--json", "--catalog", catalog,
        "--deadline", "9h", "--budget", "$12.5", "--objective", "time",
    )  # fmt: skip
    job = said.json["job"]
    assert (job["constraints"]["deadline"], job["constraints"]["budget_usd"], job["objective"]) == (
        "32400s", 12.5, "time",
    )  # fmt: skip
    times = [row["total_seconds"] for row in said.json["candidates"]]
    assert times == sorted(times)


def test_the_row_that_is_explained_is_that_row(catalog: Path) -> None:
    table = plan("estimate", "job.yaml", "--limit", 3, "--catalog", catalog).out.split("\n\n")[1].splitlines()
    for number in (1, 3):
        instance = table[number].split()[3]
        text = plan("estimate", "job.yaml", "--explain", number, "--catalog", catalog).out
        assert text.startswith(f"row {number}: ")
        assert f" {instance}, " in text.splitlines()[0]


def test_a_row_beyond_the_table_can_be_explained(catalog: Path) -> None:
    said = plan("estimate", "job.yaml", "--limit", 1, "--explain", 4, "--catalog", catalog)
    assert said.out.startswith("row 4: ")


def test_what_takes_the_time_and_the_memory_of_a_network_is_explained(catalog: Path) -> None:
    asked = ("--model", "resnet18", "--dataset", "cifar10", "--provider", "gcp", "--explain", 1, "--catalog", catalog)
    lines = plan("estimate", *asked).out.splitlines()
    start = lines.index("operators, by share of a step's computing (by the model of operators)")
    assert lines[start + 1].startswith("  by kind, with how many: convolution ")
    shares = [float(line.split("%")[0]) for line in lines[start + 2 : start + 10]]
    assert shares == sorted(shares, reverse=True)
    assert all(0 < share < 100 for share in shares)
    assert any(line.startswith("  kept for the backward pass, by what computes it (GiB): ") for line in lines)


def test_an_estimate_leaves_nothing_behind(here: Path, catalog: Path) -> None:
    before = sorted(here.rglob("*"))
    plan("estimate", "job.yaml", "--catalog", catalog)
    plan("estimate", "job.yaml", "--json", "--catalog", catalog)
    assert sorted(here.rglob("*")) == before


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.yaml")), ids=lambda path: path.stem)
def test_every_example_can_be_estimated(path: Path) -> None:
    said = plan("estimate", path)
    assert said.code == 0, said.err


# --- the other commands ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dataset", list(DATASETS))
@pytest.mark.parametrize("model", list(Preset))
def test_what_init_writes_is_a_job_or_is_refused(here: Path, model: str, dataset: str) -> None:
    said = plan("init", "new.yaml", "--model", model, "--dataset", dataset, "--epochs", 3, "--batch", 64)
    if said.code == 2:
        assert "px a side" in said.error
        assert not (here / "new.yaml").exists()
        return
    assert said.out == "wrote new.yaml; next: plan estimate new.yaml\n"
    job = read_job(here / "new.yaml")
    assert (job.model.preset, job.data.name, job.epochs, job.global_batch_size) == (model, dataset, 3, 64)


def test_a_count_of_a_net_has_digits_however_small_or_large_the_net_is(here: Path) -> None:
    small = plan("estimate", "--model", "lenet", "--dataset", "mnist", "--limit", 1).out.splitlines()[0]
    assert "(61,706 parameters, 0.83 MFLOPs forward)" in small
    large = ("--model", "vgg16", "--dataset", "imagenet", "--image-size", "4096", "--batch", "65536")
    heading = plan("estimate", *large, "--limit", 1).out.splitlines()[0]
    assert "(34.4 G parameters, 10.33 TFLOPs forward)" in heading
    assert "batch 65,536," in heading


def test_several_values_of_a_filter_stand_with_commas_as_well(here: Path) -> None:
    filters = ("--region", "us-east-1, us-west-2", "--device", "T4,A10G", "--market", "spot,on-demand")
    said = plan("estimate", "--model", "vgg16", "--dataset", "cifar10", *filters, "--json").json
    rows = said["candidates"]
    assert {row["region"] for row in rows} == {"us-east-1", "us-west-2"}
    assert {row["device"] for row in rows} == {"T4", "A10G"}
    assert {row["market"] for row in rows} == {"spot", "on_demand"}


def test_a_disk_that_takes_a_part_of_a_job_file_is_left_without_it(here: Path) -> None:
    """The next try is told that nothing is there, and no estimate that the file is empty."""
    least, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, most))
    try:
        said = plan("init", "new.yaml", "--model", "vgg16", "--dataset", "cifar10")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (least, most))
    assert (said.code, said.error) == (9, "cannot write new.yaml: File too large")
    assert not (here / "new.yaml").exists()
    assert plan("init", "new.yaml", "--model", "vgg16", "--dataset", "cifar10").code == 0


def test_init_then_estimate(here: Path, catalog: Path) -> None:
    assert plan("init", "first.yaml").code == 0
    said = plan("estimate", "first.yaml", "--catalog", catalog)
    assert said.code == 0
    assert said.out.startswith("vgg16-cifar10: vgg16 ")
    first = (here / "first.yaml").read_text().splitlines()[0]
    linked = Path(url2pathname(urlsplit(first.partition("$schema=")[2]).path))
    assert linked.samefile(ROOT / "workloads" / "data" / "job.schema.json")


def test_init_writes_a_recipe_that_is_also_the_example(here: Path, catalog: Path) -> None:
    assert plan("init", "first.yaml", "--recipe", "vgg16-imagenet").code == 0
    text = (here / "first.yaml").read_text()
    assert "71.592 %" in text
    assert text.splitlines()[1:] == (ROOT / "examples" / "vgg16-imagenet.yaml").read_text().splitlines()[1:]
    assert plan("estimate", "first.yaml", "--catalog", catalog).out.startswith("vgg16-imagenet: vgg16 ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--recipe", "none"], "known: vgg16-imagenet"),
        (["--recipe", "vgg16-imagenet", "--epochs", "3"], "leave these out"),
    ],
)
def test_a_recipe_that_is_none(here: Path, arguments: list[str], message: str) -> None:
    refused = plan("init", "first.yaml", *arguments)
    assert refused.code == 2
    assert message in refused.err
    assert not (here / "first.yaml").exists()


def test_devices() -> None:
    said = plan("devices")
    assert (said.code, said.err) == (0, "")
    for name in ("K80", "V100", "T4", "TPU v2", "H100"):
        assert f"\n{name} " in said.out
    rows = plan("devices", "--json").json
    (t4,) = (row for row in rows if row["name"] == "T4")
    assert t4["usable_memory_mib"] == [13627, 13942]
    assert (t4["memory_gib"], t4["architecture"], t4["peak_tflops"]["amp_bf16"]) == (16, "turing", None)


def test_nothing_has_happened_yet() -> None:
    assert plan("history").out.startswith("no runs yet; ")
    assert plan("history", "--json").json == []
    known = "no active runs"
    assert plan("status").out == f"{known}; plan cleanup asks the providers for leftovers\n"
    assert plan("status", "--json").json == []


# --- whatever is typed -------------------------------------------------------------------------------------------

_WORDS = st.sampled_from(
    [
        *commands(), "check", "job.yaml", "no.yaml", "broken.yaml", ".", "", "-", "--", "-h", "--help", "--version",
        "--json", "--all", "--yes", "--fresh", "--dry-run", "--detach", "--follow", "-f", "--include-retired",
        "--check", "--model", "--dataset", "--epochs", "--batch", "--provider", "--region", "--device", "--market",
        "--deadline", "--budget", "--objective", "--limit", "--explain", "--output", "--steps", "--plot",
        "vgg16", "vgg61", "mnist-cnn", "cifar10", "mnist", "local", "aws", "us-east-1", "T4", "cpu", "spot", "cost",
        "0", "1", "-1", "3.5", "1e999999", "nan", "8h", "0s", "\u00fc", "\U0001f984", "x" * 5000, "a\nb", "\udce9",
    ]
)  # fmt: skip


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(arguments=st.lists(_WORDS, max_size=7))
def test_whatever_is_typed_ends_with_a_documented_code_and_no_traceback(
    here: Path, catalog: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    (here / "broken.yaml").write_text("a: [")
    monkeypatch.setitem(*FACTORY)
    monkeypatch.setattr("trainplan.extensions.serve.server.UNSEEN", timedelta())  # plan serve ends at once
    if "estimate" in arguments:
        arguments = [*arguments, "--catalog", str(catalog)]
    said = plan(*arguments)
    assert said.code in (0, 2, 3, 6, 8, 9, 10)
    assert "Traceback" not in said.err
    assert said.code == 0 or said.err.startswith(("error: ", "tiny on this machine")) or "error: " in said.err


def test_imagenet_on_a_tpu_is_planned_with_the_price_of_its_data_disk() -> None:
    asked = ("estimate", ROOT / "examples" / "vgg16-imagenet.yaml", "--provider", "gcp", "--device", "TPU v5e")
    rows = plan(*asked, "--json").json["candidates"]
    # Slices of 16 and more have 4 chips on each host, and such a disk on each.
    hosts = {f"tpu-v5litepod-{chips}": chips // 4 if chips > 8 else 1 for chips in (1, 4, 8, 16, 32, 64)}
    assert {row["instance_type"] for row in rows} == set(hosts)
    with Catalog.open() as catalog:
        rates = catalog.rates["gcp"]
    for row in rows:
        hours, usd = row["total_seconds"] / 3600, float(rates.at(row["region"]).disk.usd)
        disk_gb = 394 * hosts[row["instance_type"]]
        assert row["cost_parts"]["disk"] == pytest.approx(disk_gb * usd / 730 * hours, rel=0.02)
    said = plan(*asked, "--explain", "1").out
    assert "394.0 GB at $0.10 per GB and month; 100 GB are the machine's own disk, 294 GB a data disk" in said
