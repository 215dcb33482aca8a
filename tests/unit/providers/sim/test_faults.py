"""What goes wrong on purpose: which calls are hit, how often, and with what effect."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.unit.providers.sim.worlds import Practice
from trainplan.providers.sim.api import DisconnectedError, RefusedError
from trainplan.providers.sim.values import Code


def outcomes(practice: Practice, operation: str, count: int, **parameters: Any) -> str:
    """A letter for each call: `.` answered, `E` refused, `L` lost."""

    def one() -> str:
        try:
            practice.call(operation, **parameters)
        except RefusedError:
            return "E"
        except DisconnectedError:
            return "L"
        return "."

    return "".join(one() for _ in range(count))


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ({}, "E....."),
        ({"operation": "GetIdentity"}, "E....."),
        ({"operation": "RunInstance"}, "......"),
        ({"skip": 2}, "..E..."),
        ({"skip": 1, "times": 3}, ".EEE.."),
        ({"times": None}, "EEEEEE"),
        ({"effect": "lost_reply"}, "L....."),
        ({"effect": "lost_request", "times": 2}, "LL...."),
        ({"effect": "slow", "times": None}, "......"),
        ({"where": {"region": "sim-east"}}, "E....."),
        ({"where": {"region": "sim-west"}, "times": None}, "......"),
        ({"where": {"region": "*"}}, "E....."),
        ({"where": {"zone": "*"}, "times": None}, "......"),
        ({"chance": 0.0, "times": None}, "......"),
    ],
)
def test_which_calls_are_hit(fault: dict[str, Any], expected: str) -> None:
    practice = Practice()
    practice.script(faults=[fault])
    assert outcomes(practice, "GetIdentity", 6) == expected


def test_chance_is_the_same_for_the_same_seed() -> None:
    def told(seed: int) -> str:
        practice = Practice({"seed": seed, "faults": [{"chance": 0.3, "times": None}]})
        return outcomes(practice, "GetIdentity", 200)

    assert told(1) == told(1) != told(2)
    assert 30 < told(1).count("E") < 90


def test_a_window_of_time_bounds_a_fault() -> None:
    practice = Practice({"faults": [{"code": "ExpiredCredentials", "times": None, "start": "10m", "end": "20m"}]})
    told = []
    for _ in range(4):
        told.append(outcomes(practice, "GetIdentity", 1))
        practice.wait(minutes=6)
    assert told == [".", ".", "E", "E"]
    practice.wait(minutes=2)
    assert outcomes(practice, "GetIdentity", 1) == "."


@pytest.mark.parametrize(("effect", "machine_count"), [("lost_reply", 1), ("lost_request", 0), ("error", 0)])
def test_whether_a_call_took_effect(effect: str, machine_count: int) -> None:
    practice = Practice()
    practice.script(faults=[{"operation": "RunInstance", "effect": effect}])
    with pytest.raises((RefusedError, DisconnectedError)):
        practice.launch()
    assert len(practice.ids()) == machine_count
    practice.launch()
    assert practice.ledger["runs"]["r1"]["instances"] == 1


def test_a_refusal_can_be_lost_too() -> None:
    practice = Practice({"stock": 0})
    practice.script(faults=[{"operation": "RunInstance", "effect": "lost_reply"}])
    with pytest.raises(DisconnectedError):
        practice.launch()


def test_a_slow_call_takes_its_time() -> None:
    practice = Practice()
    before = practice.world.now
    practice.script(faults=[{"operation": "RunInstance", "effect": "slow", "takes": "40s"}])
    practice.launch()
    assert practice.world.now - before == timedelta(seconds=40)


def test_a_list_can_come_back_with_a_warning_in_placement_of_its_items() -> None:
    practice = Practice()
    practice.launch()
    practice.script(faults=[{"effect": "warning", "times": None}])
    told = practice.call("ListInstances")
    assert (told["items"], told["nextPageToken"], len(told["warnings"])) == ([], None, 1)
    assert practice.call("GetIdentity")


def test_a_fault_says_what_it_was_made_to_say() -> None:
    practice = Practice()
    practice.script(faults=[{"code": "SomethingNew"}, {"code": Code.QUOTA, "skip": 1}])
    for code in ("SomethingNew", Code.QUOTA):
        with pytest.raises(RefusedError) as caught:
            practice.call("GetIdentity")
        assert caught.value.code == code
    assert caught.value.details["quota"]


def test_scripts_add_up_and_a_new_scenario_replaces_only_the_old_one() -> None:
    practice = Practice({"faults": [{"operation": "GetImage", "times": None}]})
    practice.script(faults=[{"operation": "GetIdentity", "times": None}])
    practice.script(faults=[{"operation": "GetQuota", "times": None}])
    quota = {"family": "t4", "market": "spot"}
    assert outcomes(practice, "GetImage", 1, name="x") == outcomes(practice, "GetQuota", 1, **quota) == "E"
    practice.world.follow(practice.world.scenario.model_copy(update={"faults": ()}))
    assert outcomes(practice, "GetImage", 1, name="x") == "."
    assert outcomes(practice, "GetIdentity", 1) == outcomes(practice, "GetQuota", 1, **quota) == "E"
