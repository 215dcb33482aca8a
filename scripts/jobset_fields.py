"""Write the fields and types of JobSet's published schema that exported files use: tests/data/jobset/fields.json.

git clone https://github.com/kubernetes-sigs/jobset FOLDER
python -m scripts.jobset_fields FOLDER COMMIT DATE
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from trainplan.extensions.export.engine_files import Accelerators, Engine, Place, engine_files
from trainplan.workloads.job import TrainingJob

CRD = "config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml"
TARGET = Path(__file__).parent.parent / "tests" / "data" / "jobset" / "fields.json"
JOB = {
    "name": "all",
    "model": {"preset": "vgg11"},
    "data": {"name": "cifar10"},
    "epochs": 1,
    "global_batch_size": 64,
    "framework": "jax",
    "nodes": 2,
    "constraints": {"deadline": "8h"},
}


def paths(value: Any, path: str = "") -> dict[str, str]:
    """The type of each field of a document, by its path, with spaces between its parts; items of a list are `[]`."""
    if isinstance(value, dict):
        below = {name: item for key, part in value.items() for name, item in paths(part, f"{path} {key}").items()}
        return {path: "object", **below}
    if isinstance(value, list):
        below = {name: item for part in value for name, item in paths(part, f"{path} []").items()}
        return {path: "array", **below}
    return {path: {bool: "boolean", int: "integer", str: "string"}[type(value)]}


def stated(schema: dict[str, Any], path: str) -> str:
    """The type that the schema states for a path. Raises KeyError for a field that it does not have."""
    for part in path.split(" "):
        if part == "[]":
            schema = schema["items"]
        elif part in schema.get("properties", {}):
            schema = schema["properties"][part]
        else:
            schema = schema["additionalProperties"]
    return "integer or string" if schema.get("x-kubernetes-int-or-string") else str(schema["type"])


def main(folder: str, commit: str, date: str) -> None:
    """Look up every field of an exported JobSet."""
    text = subprocess.run(
        ["git", "-C", folder, "show", f"{commit}:{CRD}"], check=True, capture_output=True, text=True
    ).stdout
    (version,) = (one for one in yaml.safe_load(text)["spec"]["versions"] if one["name"] == "v1alpha2")
    schema = version["schema"]["openAPIV3Schema"]
    job = TrainingJob.model_validate(JOB)
    place = Place(folder="/f", image="me/it:1")
    exported = engine_files(job, Engine.JOBSET, place, Accelerators(device="V100", count=1))
    *_, jobset = yaml.safe_load_all(exported.files["jobset.yaml"])
    fields = {path: stated(schema, path) for path in sorted(paths(jobset["spec"], "spec"))}
    document = {"source": f"https://github.com/kubernetes-sigs/jobset/blob/{commit}/{CRD}", "read_on": date}
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_text(json.dumps({**document, "fields": fields}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
