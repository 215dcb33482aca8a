"""Which settings are tried, in which order, and which are kept, on machines that run out of memory at a known size."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.workloads.trainer.builders import a_job
from trainplan.workloads.tries import MOST_SECONDS, Search, Try, TryEnd, TrySettings, possible, search

BATCH = 64
PLAIN_NET = {"layers": [8, "M", 16, "M"], "dense": [16]}
JOB = a_job(model=PLAIN_NET, global_batch_size=BATCH)
AS_IT_IS = TrySettings(1, False)


@dataclass
class Machine:
    """A micro-batch of more than `room` images runs out of memory. `rates` are images/s by settings, 100 where not
    named; each try takes `seconds`, and XLA crashes where it `crashes`."""

    room: int = BATCH
    rates: dict[TrySettings, float] = field(default_factory=dict)
    seconds: float = 10.0
    half_width: float | None = 0.01
    crashes: bool = False
    now: float = 1_000.0
    asked: list[TrySettings] = field(default_factory=list)

    def run(self, settings: TrySettings, most_seconds: float) -> Try:
        self.asked.append(settings)
        lasting = min(self.seconds, most_seconds)
        self.now += lasting
        ended = TryEnd.MEASURED
        if lasting < self.seconds:
            ended = TryEnd.OUT_OF_TIME
        elif BATCH // settings.accumulate > self.room:
            ended = TryEnd.OUT_OF_MEMORY
        elif settings.xla and self.crashes:
            ended = TryEnd.FAILED
        rate = self.rates.get(settings, 100.0) if ended is TryEnd.MEASURED else None
        return Try(settings=settings, ended=ended, seconds=lasting, images_per_second=rate, half_width=self.half_width)

    def found(self, devices: int = 1) -> Search:
        return search(lambda: possible(JOB, devices), AS_IT_IS, self.run, lambda: self.now)


def test_the_job_as_it_is_comes_first_and_stays_where_nothing_beside_it_is_faster() -> None:
    machine = Machine()
    found = machine.found()
    assert machine.asked == [AS_IT_IS, TrySettings(1, True), TrySettings(2, False)]
    assert found.best is not None
    assert found.best.settings == AS_IT_IS
    assert (found.not_tried, found.is_time_up) == (11, False)


def test_what_is_faster_in_one_thing_is_followed() -> None:
    faster = {TrySettings(1, True): 130.0, TrySettings(2, True): 150.0, TrySettings(4, True): 140.0}
    found = Machine(rates=faster).found()
    assert found.best is not None
    assert found.best.settings == TrySettings(2, True)


def test_running_out_of_memory_makes_the_micro_batch_smaller_and_larger_ones_are_never_tried_again() -> None:
    machine = Machine(room=16)
    found = machine.found()
    assert machine.asked[:3] == [AS_IT_IS, TrySettings(2, False), TrySettings(4, False)]
    assert found.best is not None
    assert found.best.settings == TrySettings(4, False)
    assert TrySettings(1, True) not in machine.asked


def test_a_crash_of_xla_ends_that_try_alone() -> None:
    found = Machine(crashes=True).found()
    assert [one.ended for one in found.tries] == [TryEnd.MEASURED, TryEnd.FAILED, TryEnd.MEASURED]
    assert found.best is not None


def test_where_not_even_one_image_fits_nothing_is_kept() -> None:
    machine = Machine(room=0)
    found = machine.found()
    assert found.best is None
    assert {one.ended for one in found.tries} == {TryEnd.OUT_OF_MEMORY}
    assert machine.asked[-1].accumulate == BATCH


def test_a_time_that_ends_after_the_first_try_keeps_it_and_counts_the_rest() -> None:
    found = Machine(seconds=100.0).found()
    assert len(found.tries) == 1  # the rest of the time is too short for another one
    assert found.best is not None
    assert (found.best.settings, found.not_tried, found.is_time_up) == (AS_IT_IS, 13, True)


def test_a_time_that_ends_in_the_first_try_keeps_nothing() -> None:
    found = Machine(seconds=500.0).found()
    assert [one.ended for one in found.tries] == [TryEnd.OUT_OF_TIME]
    assert (found.best, found.is_time_up) == (None, True)


def test_of_rates_within_their_spread_the_one_nearest_to_the_job_stays() -> None:
    rates = {TrySettings(1, True): 103.0}
    sure, unsure = Machine(rates=rates, half_width=0.01).found(), Machine(rates=rates, half_width=0.05).found()
    untold = Machine(rates=rates, half_width=None).found()
    assert sure.best is not None
    assert unsure.best is not None
    assert untold.best is not None
    assert sure.best.settings == TrySettings(1, True)
    assert unsure.best.settings == untold.best.settings == AS_IT_IS


def test_all_settings_do_the_same_work_on_all_devices() -> None:
    job = a_job(model=PLAIN_NET, global_batch_size=96)
    assert {one.accumulate for one in possible(job, 4)} == {1, 2, 4, 8, 24}
    assert {one.accumulate for one in possible(job)} == {1, 2, 4, 8, 16, 32, 96}


def test_batch_norm_and_averages_keep_their_micro_batch() -> None:
    normed = a_job(global_batch_size=BATCH)
    averaged = a_job(model=PLAIN_NET, optimizer={"name": "adam", "learning_rate": 0.003, "ema": 0.99})
    for job in (normed, averaged):
        assert possible(job) == [TrySettings(1, False), TrySettings(1, True)]


def test_a_framework_that_always_or_never_compiles_has_no_choice() -> None:
    for framework in ("jax", "torch"):
        assert {one.xla for one in possible(a_job(model=PLAIN_NET, framework=framework))} == {False}


MACHINES = st.builds(
    Machine,
    room=st.integers(0, BATCH),
    rates=st.dictionaries(st.sampled_from(possible(JOB)), st.floats(0.1, 1e5)),
    seconds=st.floats(0.5, 150),
    half_width=st.none() | st.floats(0, 0.5),
    crashes=st.booleans(),
)


@given(machine=MACHINES, devices=st.sampled_from([1, 2, 4]))
def test_what_is_kept_never_failed_and_the_time_is_never_passed(machine: Machine, devices: int) -> None:
    found = machine.found(devices)
    assert machine.now - 1_000.0 <= MOST_SECONDS + 1e-6
    assert len(set(machine.asked)) == len(machine.asked)
    assert all(BATCH // one.accumulate % devices == 0 for one in machine.asked)
    assert len(found.tries) + found.not_tried <= len(possible(JOB, devices))
    measured = [one for one in found.tries if one.ended is TryEnd.MEASURED]
    assert (found.best is None) == (not measured)
    if found.best is not None:
        assert found.best.ended is TryEnd.MEASURED
        assert BATCH // found.best.settings.accumulate <= machine.room
        fastest = max(one.rate for one in measured)
        width = 0.1 if machine.half_width is None else machine.half_width
        assert found.best.rate >= fastest * (1 - width)
