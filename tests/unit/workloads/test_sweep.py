"""Sweeps: what is refused, which trials there are, and what successive halving does with their results."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.builders import a_job
from tests.rows import each_row
from trainplan.workloads.job import TrainingJob, job_from_json
from trainplan.workloads.jobfile import JobFileError, parse_job
from trainplan.workloads.script import argument_words
from trainplan.workloads.sweep import (
    ACCURACY,
    LOSS,
    MOST_TRIALS,
    Goal,
    Result,
    Rung,
    Standing,
    goal_of,
    images_of_epochs,
    planned_epochs,
    planned_images,
    rungs_for,
    rungs_of,
    table_of,
)

JOB = """
name: swept
model: {preset: vgg11, image_size: 32, classes: 10}
data: {name: digits}
epochs: 9
global_batch_size: 32
"""
LEARNING_RATES = "optimizer.learning_rate: [0.1, 0.03, 0.01]"
MANY = "seed: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]\n  model.dropout: [0, .1, .2, .3, .4, .5, .6, .7, .8, .9]"


def swept(lines: str, more: str = "") -> Any:
    return parse_job(f"{JOB}{more}\nsweep:\n  {lines}\n", "job.yaml")


@each_row(
    ("lines", "message"),
    [
        ("optimizer.learning_rate: []", "optimizer.learning_rate has no values; write at least two"),
        ("optimizer.learning_rate: [0.1]", "has one value; write it in the job itself"),
        ("optimizer.learning_rate: [0.1, 0.1]", "has the same value twice"),
        ("optimizer.learning_rate: 0.1", "needs a list, not 0.1"),
        ("optimizer.learnrate: [0.1, 0.2]", "there is no key 'optimizer.learnrate'; did you mean"),
        ("seed.x: [1, 2]", "there is no key 'seed.x'"),
        ("model.layers.0: [1, 2]", "there is no key 'model.layers.0'"),
        ("optimizer: [1, 2]", "optimizer is a group of keys; sweep one of them, such as optimizer.name"),
        ("epochs: [1, 2]", "epochs cannot be swept: a sweep shares them out itself"),
        ("secrets.TOKEN: [a, b]", "secrets.TOKEN cannot be swept"),
        ("data.images: [1, 2]", "data.images cannot be swept"),
        ("trials: 3", "name at least one key with its values"),
        ("seed: [1, 2]\n  trials: 3", "trials: 3 are more than the 2 combinations"),
        (MANY, f"110 combinations are more than {MOST_TRIALS} trials; write trials: N"),
        (f"{LEARNING_RATES}\n  budget_usd: 0", "budget_usd: must be more than 0"),
        (
            "optimizer.learning_rate: [0.1, -1]\n  seed: [1, 2]",
            "optimizer.learning_rate -1, seed 1 is no job: optimizer.learning_rate: input should be greater than 0",
        ),
        ("model.preset: [vgg11, vgg61]", "model.preset vgg61 is no job: model.preset: input should be 'vgg11'"),
    ],
)
def test_what_cannot_be_swept_is_refused_before_anything_else(lines: str, message: str) -> None:
    with pytest.raises(JobFileError) as caught:
        swept(lines)
    assert message in f"{caught.value.message} {caught.value.hint}"


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("nodes: 2", "trials are trained on one machine"),
        (f"container: registry.example/trainer@sha256:{'0' * 64}", "a container of your own trains one job"),
    ],
)
def test_a_sweep_is_of_our_trainer_on_one_machine(more: str, message: str) -> None:
    with pytest.raises(JobFileError, match=message):
        swept(LEARNING_RATES, more)


def test_a_trial_is_a_job_of_each_combination() -> None:
    job = swept(f"{LEARNING_RATES}\n  global_batch_size: [32, 64]")
    rows = [(trial.number, trial.job.global_batch_size, trial.job.optimizer.learning_rate) for trial in job.trials]
    assert rows == [(1, 32, 0.1), (2, 32, 0.03), (3, 32, 0.01), (4, 64, 0.1), (5, 64, 0.03), (6, 64, 0.01)]
    assert all(trial.job.sweep is None and trial.job.epochs == 9 for trial in job.trials)
    assert [trial.job for trial in job_from_json(job.to_json()).trials] == [trial.job for trial in job.trials]


def test_trials_are_drawn_with_the_seed_of_the_job() -> None:
    drawn = [trial.values for trial in swept(f"{MANY}\n  trials: 7").trials]
    assert len(drawn) == len({str(values) for values in drawn}) == 7
    assert [trial.values for trial in swept(f"{MANY}\n  trials: 7").trials] == drawn
    assert [trial.values for trial in swept(f"{MANY}\n  trials: 7", "seed: 1").trials] != drawn


def test_the_lower_budget_counts_and_changes_nothing_of_what_is_trained() -> None:
    job = swept(f"{LEARNING_RATES}\n  budget_usd: 5", "constraints: {budget_usd: 8}")
    assert job.budget_usd == 5
    assert swept(f"{LEARNING_RATES}\n  budget_usd: 5").budget_usd == 5
    assert swept(LEARNING_RATES, "constraints: {budget_usd: 8}").budget_usd == 8
    assert swept(LEARNING_RATES).budget_usd is None
    assert job.digest() == swept(LEARNING_RATES).digest() != parse_job(JOB, "job.yaml").digest()


def test_a_sweep_needs_what_one_of_its_trials_needs() -> None:
    assert not swept(LEARNING_RATES).needs_keras_3
    assert swept("optimizer.nesterov: [true, false]").needs_keras_3


def test_a_third_and_one_more_go_on_to_three_times_the_epochs() -> None:
    assert rungs_of(9, 9) == (Rung(1, 9), Rung(3, 4), Rung(9, 2))
    assert rungs_of(90, 9) == (Rung(10, 9), Rung(30, 4), Rung(90, 2))
    assert rungs_of(90, 4) == (Rung(10, 4), Rung(30, 2), Rung(90, 1))
    assert planned_epochs(rungs_of(9, 9)) == 29
    # Two epochs are too few for three rungs, and one for two.
    assert rungs_of(2, 9) == (Rung(1, 9), Rung(2, 4))
    assert rungs_of(1, 9) == (Rung(1, 9),)


@given(st.integers(1, 500), st.integers(2, MOST_TRIALS))
def test_rungs_never_train_more_than_the_full_grid(epochs: int, trials: int) -> None:
    rungs = rungs_of(epochs, trials)
    assert rungs[0].trials == trials
    assert rungs[-1].epochs == epochs
    assert [rung.epochs for rung in rungs] == sorted({rung.epochs for rung in rungs})
    assert planned_epochs(rungs) <= epochs * trials


def test_the_most_images_are_planned_where_batches_differ() -> None:
    job = swept("global_batch_size: [32, 1000]")
    small, large = images_of_epochs(job, 1437)
    assert (small, large) == (1408, 1000)
    assert planned_images(job, 1437) == [[3 * small, 3 * large], [6 * small]]


@given(st.integers(1, 40), st.integers(6, MOST_TRIALS))
def test_from_six_trials_on_no_more_than_45_percent_of_the_grid_are_trained(ninths: int, trials: int) -> None:
    epochs = 729 * ninths  # enough for all rungs
    assert planned_epochs(rungs_of(epochs, trials)) <= 0.45 * epochs * trials


ACCURACIES = st.lists(st.one_of(st.none(), st.floats(0, 1)), min_size=2, max_size=30)


@given(ACCURACIES, st.integers(1, 40))
def test_a_sweep_goes_on_wherever_it_was_left(accuracies: list[float | None], epochs: int) -> None:
    """Trained through, and with every decision made anew from what was written down: the same tasks, the same best."""
    rungs = rungs_of(epochs, len(accuracies))
    standing = Standing(rungs, len(accuracies), ACCURACY)
    tasks = []
    while (task := standing.next_task()) is not None:
        tasks.append(task)
        value = accuracies[task.trial - 1]
        assert task.trial in standing.kept()
        result = Result(
            trial=task.trial, epochs=task.epochs, accuracy=value, failure="" if value is not None else "NaN"
        )
        standing = Standing(rungs, len(accuracies), ACCURACY, standing.with_result(result).results)
    assert len(tasks) == len({(task.rung, task.trial) for task in tasks}) <= sum(rung.trials for rung in rungs)
    good = [value for value in accuracies if value is not None]
    assert (standing.best is None) == (not good)
    if standing.best is not None:
        assert accuracies[standing.best - 1] == max(good)
        assert standing.kept() == {standing.best}


def test_states_are_kept_of_what_may_still_go_on() -> None:
    standing = Standing(rungs_of(9, 9), 9, ACCURACY)
    for trial, accuracy in enumerate((0.5, 0.9, 0.1, 0.7, 0.8), start=1):
        standing = standing.with_result(Result(trial=trial, epochs=1, accuracy=accuracy))
    # Four of nine go on: the best four so far, and those that are not trained yet.
    assert standing.kept() == {1, 2, 4, 5, 6, 7, 8, 9}


def test_the_measure_of_the_validation_ranks() -> None:
    results = [Result(trial=1, epochs=1, accuracy=0.9, loss=0.5), Result(trial=2, epochs=1, accuracy=0.8, loss=0.4)]
    assert Standing(rungs_of(1, 2), 2, ACCURACY, results).best == 1
    assert Standing(rungs_of(1, 2), 2, LOSS, results).best == 2
    ties = [Result(trial=number, epochs=1, accuracy=0.5, loss=0.5) for number in (2, 1)]
    assert Standing(rungs_of(1, 2), 2, ACCURACY, ties).best == 1


def test_a_table_says_how_each_trial_did() -> None:
    job = swept(LEARNING_RATES)
    results = [Result(trial=number, epochs=3, accuracy=number / 10) for number in (1, 2, 3)]
    table = table_of(job, results)
    assert (table.best, table.epochs, table.grid_epochs) == (None, 15, 27)
    table = table_of(job, [*results, Result(trial=3, epochs=9, accuracy=0.9)])
    assert table.best == 3
    assert [len(row.results) for row in table.trials] == [1, 1, 2]


def test_a_job_without_a_sweep_is_as_it_was() -> None:
    job = a_job()
    assert job.trials == ()
    assert "sweep" not in job.to_json()


RATES = {"args.lr": [0.1, 0.01, 0.001]}
PAIR = {"names": ["--fast"], "dest": "fast", "takes": "pair", "off": "--no-fast"}
READ = {"sha256": "0" * 64, "source": ""}
SCRIPT = {
    "script": "train.py",
    "read_script": READ,
    "checkpoints": True,
    "constraints": {"deadline": "1h"},
    "args": {"lr": 0.1},
}


def of_script(sweep: dict[str, Any], **keys: Any) -> Any:
    values = {"name": "mine", **SCRIPT, **keys, "sweep": sweep}
    return TrainingJob.model_validate({name: value for name, value in values.items() if value is not None})


@pytest.mark.parametrize(
    ("sweep", "keys", "message"),
    [
        (RATES, {}, "nobody but you knows which figure of a script counts; write maximize: NAME or minimize: NAME"),
        ({**RATES, "maximize": "a", "minimize": "b"}, {}, "maximize and minimize name what trials are ranked by"),
        ({**RATES, "maximize": "a, b"}, {}, "maximize"),
        ({**RATES, "maximize": "a"}, {"checkpoints": None}, "checkpoints: true says that it does"),
        ({"seed": [1, 2], "maximize": "a"}, {}, "seed is not swept with a script; sweep its arguments"),
        ({**RATES, "maximize": "a"}, {"args": ["--lr", "3"]}, "args is a list of words; write keys and values"),
        ({"args.lr": [0.1, [[1]]], "maximize": "a"}, {}, r"args.lr \[\[1\]\] is no job: args: an argument is a text"),
        ({"args.lr": [1, "1"], "maximize": "a"}, {}, "args.lr 1 and args.lr 1 train the same thing"),
        ({"args.fast": [True, False], "maximize": "a"}, {}, "how the script takes false"),
        ({"args.password": ["x", "y"], "maximize": "a"}, {}, "seems to be a secret"),
        ({"args": [{"lr": 1}, {"lr": 2}], "maximize": "a"}, {}, "args is not swept with a script"),
    ],
)
def test_a_sweep_of_a_script_says_what_it_lacks(sweep: dict[str, Any], keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        of_script(sweep, **keys)


@pytest.mark.parametrize("name", ["token", "lr"])
def test_a_secret_among_the_values_is_refused_and_not_repeated(name: str) -> None:
    with pytest.raises(ValidationError) as refused:
        of_script({f"args.{name}": ["hf_" + "aqzwsxedcrfvtgbyh" * 2, "b"], "maximize": "a"})
    assert f"a value of args.{name} seems to be a secret" in str(refused.value)
    assert "zwsx" not in str(refused.value)


def test_trials_of_a_script_differ_in_their_arguments() -> None:
    sweep = {**RATES, "args.fast": [True, False], "maximize": "val_accuracy"}
    job = of_script(sweep, read_script={**READ, "options": [PAIR]})
    words = [trial.job.script_words for trial in job.trials]
    rates = ("0.1", "0.01", "0.001")
    assert words == [*(("--fast", "--lr", rate) for rate in rates), *(("--no-fast", "--lr", rate) for rate in rates)]
    assert goal_of(job) == Goal("val_accuracy", is_more_better=True)
    # Six trials: 6, 3 and 2 are trained to a ninth, a third and the whole.
    assert rungs_for(job) == (Rung(1, 6), Rung(3, 3), Rung(9, 2))
    assert job_from_json(job.to_json()) == job
    bare = of_script({**RATES, "minimize": "loss"}, args=None)
    assert [argument_words(trial.job.args) for trial in bare.trials] == [
        ("--lr", value) for value in ("0.1", "0.01", "0.001")
    ]
    assert goal_of(bare) == Goal("loss", is_more_better=False)


def test_the_figure_of_a_script_ranks_its_trials() -> None:
    figures = [Result(trial=number, epochs=1, figure=value) for number, value in enumerate((2.0, 3.0, 1.0), start=1)]
    more, less = (Goal("score", is_more_better=value) for value in (True, False))
    assert Standing(rungs_of(1, 3), 3, more, figures).best == 2
    assert Standing(rungs_of(1, 3), 3, less, figures).best == 3
    equal = [Result(trial=number, epochs=1, figure=1.0) for number in (2, 1)]
    assert Standing(rungs_of(1, 2), 2, more, equal).best == 1


def test_only_a_script_names_the_figure() -> None:
    with pytest.raises(JobFileError, match="maximize is for a script"):
        swept(f"{LEARNING_RATES}\n  maximize: accuracy")


def test_the_arguments_that_are_swept_make_another_job() -> None:
    read = {"sha256": "0" * 64, "source": ""}
    job = of_script({**RATES, "maximize": "a"}, read_script=read)
    assert job.digest() != of_script({**RATES, "minimize": "a"}, read_script=read).digest()
    assert job.digest() == of_script({**RATES, "maximize": "a", "budget_usd": 3}, read_script=read).digest()
