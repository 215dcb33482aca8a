"""A plan from Python: offers in order, and the documents of the command."""

from __future__ import annotations

import copy
import json
import pickle
import re
import sys
import types
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from trainplan.planner.api.job import Job
from trainplan.planner.api.plan import Plan, estimate
from trainplan.planner.errors import BadInputError, NothingLeftError, ThisMachineError, TrainplanError
from trainplan.workloads.jobfile import read_job

EXAMPLES = Path(__file__).parents[4] / "examples"
SCHEMA = Path(__file__).parents[4] / "planner" / "report" / "schemas" / "estimate.schema.json"


PLACE = ("provider", "region", "instance_type", "market")
SAME = ("device", "device_count", "machines", "basis")
"""What offers and rows of the document call the same."""


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLAN_HOME", str(tmp_path / "home"))


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plan]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PLAN_HOME", str(tmp_path_factory.mktemp("home")))
        yield estimate(Job.read(EXAMPLES / "vgg16-cifar10.yaml"), deadline="8h", devices=["T4", "V100"])


def test_offers_are_ranked_and_within_the_limits(plan: Plan) -> None:
    assert len(plan) > 2
    assert [offer.rank for offer in plan] == list(range(1, len(plan) + 1))
    assert {offer.device for offer in plan} == {"T4", "V100", "V100-32GB"}
    for offer in plan:
        assert offer.seconds <= timedelta(hours=8).total_seconds()
        assert offer.seconds_interval[0] <= offer.seconds <= offer.seconds_interval[1]
        assert offer.usd_interval[0] <= offer.usd <= offer.usd_interval[1]
        assert offer.plan is plan
    assert plan[0].usd == min(offer.usd for offer in plan if offer.can_launch)
    assert list(plan[1:3]) == [plan[1], plan[2]]


@pytest.mark.parametrize("providers", [[], ["sim"], ["sim", "aws"], ["local"]])
def test_a_plan_and_its_offers_are_pickled_and_copied(providers: list[str]) -> None:
    plan = estimate(Job.read(EXAMPLES / "digits-vgg.yaml"), providers=providers)
    document = plan.to_dict()
    for other in (pickle.loads(pickle.dumps(plan)), copy.copy(plan), copy.deepcopy(plan)):
        assert [*other] == [*plan]
        assert (other.this_machine, other.advice, repr(other)) == (plan.this_machine, plan.advice, repr(plan))
        assert other.to_dict() == document
    offer = pickle.loads(pickle.dumps(plan[0]))
    assert offer == plan[0]
    assert offer.plan[0] is offer
    assert copy.deepcopy(plan[0]).explain() == plan[0].explain()


def test_a_pickled_plan_plans_on_with_what_it_was_asked() -> None:
    plan = estimate(Job.read(EXAMPLES / "digits-vgg.yaml"), providers=["sim", "aws"])
    other = pickle.loads(pickle.dumps(plan))  # before its documents are made
    assert other.to_dict() == plan.to_dict()
    assert [*other.anew()] == [*plan]


def test_a_row_that_is_not_there_is_named(plan: Plan) -> None:
    with pytest.raises(IndexError, match=rf"there is no plan\[999\]: the plan has {len(plan)} offers"):
        plan[999]


def test_nothing_beats_the_front_and_everything_else_is_beaten(plan: Plan) -> None:
    for offer in (one for one in plan if one.can_launch):
        beaten = any(
            other.seconds <= offer.seconds and other.usd <= offer.usd and other != offer
            for other in plan
            if other.can_launch
        )
        assert (offer in plan.front) is not beaten or any(
            (other.seconds, other.usd) == (offer.seconds, offer.usd) for other in plan.front
        )


def test_the_document_is_that_of_the_command(plan: Plan) -> None:
    document = plan.to_dict()
    jsonschema.validate(json.loads(json.dumps(document)), json.loads(SCHEMA.read_text(encoding="utf-8")))
    rows = {tuple(row[name] for name in PLACE): row for row in reversed(document["candidates"])}
    for offer in plan:
        row = rows[tuple(getattr(offer, name) for name in PLACE)]
        assert [row[name] for name in SAME] == [getattr(offer, name) for name in SAME]
        assert (row["total_seconds"], row["total_low_seconds"], row["total_high_seconds"]) == pytest.approx(
            (offer.seconds, *offer.seconds_interval)
        )
        assert (row["cost_usd"], row["cost_low_usd"], row["cost_high_usd"]) == pytest.approx(
            (offer.usd, *offer.usd_interval), rel=1e-4
        )
        assert row["planning_usd_per_hour"] == pytest.approx(offer.planning_usd_per_hour)
        assert row["images_per_second"] == pytest.approx(offer.images_per_second)


def test_a_row_is_explained(plan: Plan) -> None:
    assert plan.explain(2).startswith(f"row 2: {plan[1].provider} {plan[1].region}")
    assert plan[1].explain() == plan.explain(2)
    assert repr(plan.explain(2)).splitlines() == str(plan.explain(2)).splitlines(), "a notebook shows lines"
    for wrong in (len(plan) + 1, "1.2", "first"):
        with pytest.raises(BadInputError, match="there is no row"):
            plan.explain(wrong)


def test_levers_are_shown_as_a_table(plan: Plan) -> None:
    levers = plan.levers()
    assert repr(levers).splitlines()[2].split()[:2] == ["change", "work"]
    cell = levers._repr_html_()  # type: ignore[attr-defined]
    assert '<th scope="col">change</th>' in cell
    assert "first offer then" in cell
    assert pickle.loads(pickle.dumps(levers)) == levers


def test_two_plans_are_compared_as_the_command_compares(plan: Plan) -> None:
    other = estimate(Job.read(EXAMPLES / "digits-vgg.yaml"), providers=["sim"])
    compared = plan.compare(other)
    document = compared.to_dict()
    schema = json.loads(SCHEMA.with_name("comparison.schema.json").read_text(encoding="utf-8"))
    assert {*document} == {*schema["properties"]}
    assert document["cheapest"]["a"]["cost_usd"] == min(row["cost_usd"] for row in plan.to_dict()["candidates"])
    assert document["cheapest"]["b"]["provider"] != "sim", "it is asked as the first plan was"
    assert repr(compared).startswith("A: vgg16-cifar10 (this plan)\nB: digits-vgg (the other plan)")
    assert "cheapest offer" in compared._repr_html_()
    with pytest.raises(BadInputError, match="a plan is expected"):
        plan.compare(plan[0])  # type: ignore[arg-type]


class _Frame:
    """Of pandas, what is asked of it."""

    def __init__(self, records: list[dict[str, Any]], columns: list[str]) -> None:
        self.records, self.columns = records, columns


def test_a_data_frame_has_a_row_for_each_offer(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    pandas = types.ModuleType("pandas")
    pandas.DataFrame = _Frame  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pandas", pandas)
    frame = plan.to_dataframe()
    assert len(frame.records) == len(plan)
    first, offer = frame.records[0], plan[0]
    assert [*first] == frame.columns
    assert (first["seconds_low"], first["seconds_high"]) == offer.seconds_interval
    assert (first["usd"], first["usd_low"], first["zones"]) == (offer.usd, offer.usd_interval[0], "".join(offer.zones))
    assert not [name for name in frame.columns if name.startswith("_") or name.endswith("_interval")]


def test_without_pandas_a_sentence_names_it(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ThisMachineError, match="pandas is not installed") as caught:
        plan.to_dataframe()
    assert caught.value.hint.startswith("python -m pip install pandas")


def test_levers_say_what_a_change_saves(plan: Plan) -> None:
    levers = plan.levers()
    assert levers == sorted(levers, key=lambda lever: not lever.is_same_work)
    fitting = [lever for lever in levers if lever.usd is not None]
    assert fitting
    for lever in fitting:
        assert lever.usd_difference == pytest.approx((lever.usd or 0) - plan[0].usd, abs=0.01)


@pytest.mark.parametrize("objective", ["cost", "time"])
def test_levers_ask_for_no_machine_more_than_a_session_has(objective: str) -> None:
    """By cost a place that lends one machine comes first, by time a cloud that rents out several."""
    plan = estimate(Job.read(EXAMPLES / "vgg16-cifar10.yaml"), providers=["aws", "colab"], objective=objective)
    assert plan[0].provider == ("colab" if objective == "cost" else "aws")
    assert any(lever.name == "machines" for lever in plan.levers()) is (objective == "time")


def test_what_the_mark_behind_a_cost_means_stands_below_the_table(plan: Plan) -> None:
    table, *below = repr(plan).split("* ranked as")
    assert ("*" in table) == bool(below)
    assert below, "no offer of this plan is ranked at more than its cost"


def test_a_shell_and_a_notebook_show_its_table(plan: Plan) -> None:
    lines = repr(plan).splitlines()
    assert lines[0].startswith("vgg16-cifar10: vgg16_bn on cifar10")
    assert lines[1].split()[:2] == ["#", "where"]
    assert f"{plan[0].provider} {plan[0].region}" in lines[2]
    cell = plan._repr_html_()
    assert plan[0].instance_type in cell
    shown = [re.findall("<td>([^<]*)", row) for row in cell.split("<tr")[2:]]
    assert [(row[0], row[1]) for row in shown] == [
        (str(offer.rank), f"{offer.provider} {offer.region}") for offer in plan[:15]
    ]
    assert "<script" not in cell
    assert "<svg" in cell
    assert plan[0].region in repr(plan[0])


def test_wrong_names_and_limits_are_said_in_words_of_python() -> None:
    job = Job.read(EXAMPLES / "digits-vgg.yaml")
    with pytest.raises(BadInputError) as caught:
        estimate(job, deadline="soon")
    assert caught.value.message.startswith("deadline: ")
    with pytest.raises(BadInputError, match="providers: 'aws' is one text"):
        estimate(job, providers="aws")
    with pytest.raises(BadInputError, match="markets: there is no 'sport'") as caught:
        estimate(job, markets=["sport"])
    assert caught.value.__notes__ == ["hint: did you mean spot?"]
    with pytest.raises(NothingLeftError):
        estimate(job, deadline="1s", providers=["aws"])
    with pytest.raises(BadInputError, match="a Job is expected, not "):
        estimate("job.yaml")  # type: ignore[arg-type]
    with pytest.raises(BadInputError, match="the keys of a job are expected, not "):
        Job.from_dict("job.yaml")  # type: ignore[arg-type]
    with pytest.raises(TrainplanError, match="there is no file"):
        Job.read("nothing.yaml")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"deadline": 8}, "deadline: write a duration with its unit, for example 90s, 10m or 8h"),
        ({"deadline": timedelta.max}, "deadline: 2,739,726 y 0 mo is longer than ten years"),
        ({"deadline": timedelta(0)}, "deadline: the time must be longer than zero"),
        ({"objective": 5}, "objective: there is no '5'"),
        ({"providers": [5]}, "providers: 5 is not a name"),
        ({"regions": None}, "regions: None is not a name"),
        ({"devices": [None]}, "devices: None is not a name"),
        ({"markets": 3}, "markets: 3 is not a name"),
    ],
)
def test_an_argument_of_another_type_is_bad_input(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInputError) as caught:
        estimate(Job.read(EXAMPLES / "digits-vgg.yaml"), **wrong)
    assert caught.value.message == said
    assert caught.value.field == next(iter(wrong))


def test_a_job_of_keys_is_that_of_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {
        "name": "own",
        "model": {"preset": "vgg16", "image_size": 32, "classes": 2},
        "data": {"path": "images"},
        "epochs": 2,
        "global_batch_size": 8,
    }
    for kind in ("cat", "dog"):
        (tmp_path / "images" / kind).mkdir(parents=True)
    file = tmp_path / "job.yaml"
    file.write_text(json.dumps(keys), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert Job.from_dict(keys) == Job.read(file)
    assert hash(Job.from_dict(keys)) == hash(Job.read(file))
    assert Job.read(file).to_dict()["data"]["path"] == str(read_job(file).data.path)
    with pytest.raises(BadInputError, match="there is no folder"):
        Job.from_dict({**keys, "data": {"path": "elsewhere"}})
    with pytest.raises(BadInputError, match="epochs"):
        Job.from_dict({**keys, "epochs": 0})
