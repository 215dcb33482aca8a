"""Writes one run to a tracker: run as a script, in a process of its own, by a Python that has the tracker's library.

A JSON object on stdin says what (`tracker`, `project`, `run_id`, `job_name`, `params`, `curves`, `figures`, `files`);
one on stdout says where it is to be seen. It imports nothing of this product. Addresses and keys are the library's own:
those of its environment variables and of its own login. A run that is written again takes the place of the earlier one.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any

_TAG = "trainplan.run_id"


def main() -> int:
    """Write the run on stdin; an error is one line on stderr."""
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what libraries print is no answer
    run: dict[str, Any] = json.load(sys.stdin)
    try:
        where = _WRITERS[run["tracker"]](run)
    # What libraries raise where they reach nobody, or nobody has signed in, is listed nowhere.
    except Exception as error:  # noqa: BLE001
        sys.stderr.write(f"error: {' '.join(str(error).split())[:500] or type(error).__name__}\n")
        return 2
    replies.write(json.dumps({"where": where}) + "\n")
    return 0


def _mlflow(run: dict[str, Any]) -> str:
    mlflow: Any = importlib.import_module("mlflow")
    client = mlflow.MlflowClient()
    experiment = mlflow.set_experiment(run["project"])
    earlier = client.search_runs([experiment.experiment_id], f"tags.`{_TAG}` = '{run['run_id']}'")
    for one in earlier:
        client.delete_run(one.info.run_id)
    tags = {_TAG: run["run_id"]}
    with mlflow.start_run(experiment_id=experiment.experiment_id, run_name=run["run_id"], tags=tags) as active:
        mlflow.log_params(run["params"])
        for row in run["curves"]:
            mlflow.log_metrics(row["values"], step=row["step"])
        mlflow.log_metrics(run["figures"])
        for file in run["files"]:
            mlflow.log_artifact(file)
    return f"{mlflow.get_tracking_uri()}, experiment {run['project']}, run {active.info.run_id}"


def _wandb(run: dict[str, Any]) -> str:
    wandb: Any = importlib.import_module("wandb")
    settings = wandb.Settings(console="off", disable_git=True, disable_code=True, x_disable_stats=True)
    active = wandb.init(
        project=run["project"],
        id=run["run_id"],
        name=f"{run['job_name']} {run['run_id']}",
        config=run["params"],
        resume="allow" if settings.mode == "online" else None,
        settings=settings,
    )
    for row in run["curves"]:
        active.log({**row["values"], "step": row["step"]})
    active.summary.update(run["figures"])
    model = wandb.Artifact(f"model-{run['run_id']}", type="model")
    for file in run["files"]:
        model.add_file(file)
    active.log_artifact(model)
    where = active.url or active.dir
    active.finish()
    return str(where)


def _trackio(run: dict[str, Any]) -> str:
    trackio: Any = importlib.import_module("trackio")
    earlier = trackio.SQLiteStorage
    while run["run_id"] in earlier.get_runs(run["project"]) and earlier.delete_run(run["project"], run["run_id"]):
        pass
    active = trackio.init(project=run["project"], name=run["run_id"], config=run["params"], resume="never", embed=False)
    for row in run["curves"]:
        trackio.log(row["values"], step=row["step"])
    trackio.log(run["figures"])
    for file in run["files"]:
        trackio.log_artifact(file, name=f"{run['run_id']}-{Path(file).name}", type="model")
    trackio.finish()
    return f"project {active.project}, run {run['run_id']}: trackio show --project {active.project}"


_WRITERS = {"mlflow": _mlflow, "wandb": _wandb, "trackio": _trackio}


if __name__ == "__main__":
    sys.path[:] = [path for path in sys.path if path and Path(path) != Path(__file__).parent]
    raise SystemExit(main())
