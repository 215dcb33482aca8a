#!/usr/bin/env bash
# Trains with TensorFlow 2.14.1 and Keras 2.14, the last ones for a K80, on this machine's processor: two epochs of
# examples/digits-vgg.yaml, then the trainer's own tests. In an environment of its own below .build (1.5 GB).
#
# Safe to run again: what is installed is left alone. Needs Python 3.11 and a package index.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$PWD/.build/k80
pinned=providers/cloud/data/requirements/tensorflow-2.14-nvidia.txt
python=${PYTHON:-python3.11}
command -v "$python" >/dev/null || {
    echo "error: there is no $python" >&2
    echo "hint: TensorFlow 2.14 has wheels up to Python 3.11; PYTHON=/path/to/python3.11 names one" >&2
    exit 9
}

# The same versions as on a machine with a K80, but for CUDA.
wanted=$(sed -e '/^#/d' -e '/^nvidia-/d' -e 's/^tensorflow==/tensorflow-cpu==/' "$pinned")
if [ "$(cat "$folder/installed" 2>/dev/null)" != "$wanted" ]; then
    rm -rf "$folder"
    mkdir -p "$folder"
    "$python" -m venv "$folder/venv"
    echo "$wanted" >"$folder/requirements.txt"
    "$folder/venv/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: \
        -r "$folder/requirements.txt" pytest pytest-socket hypothesis
    echo "$wanted" >"$folder/installed"
fi

export CUDA_VISIBLE_DEVICES=-1 TF_CPP_MIN_LOG_LEVEL=2 PYTHONPATH=$PWD/src:$PWD TRAINPLAN_KERAS_2=1
run=$(mktemp -d)
trap 'rm -rf "$run"' EXIT
"$folder/venv/bin/python" -P - "$run/job.json" <<'PYTHON'
import sys
from pathlib import Path
from trainplan.workloads.jobfile import read_job
job = read_job(Path("examples/digits-vgg.yaml")).model_copy(update={"epochs": 2})
Path(sys.argv[1]).write_text(job.to_json(), encoding="utf-8")
PYTHON
"$folder/venv/bin/python" -P -m trainplan.workloads.trainer --job "$run/job.json" --run-dir "$run" --attempt 1
"$folder/venv/bin/python" -P - "$run/attempts/1/progress.jsonl" <<'PYTHON'
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1], encoding="utf-8")]
start = next(line for line in lines if line["event"] == "start")
end = next(line for line in lines if line["event"] == "end")
print(f"{start['framework']} {start['framework_version']}: {end['hold_out_accuracy']:.1%} of {end['hold_out_images']} held-out digits")
sys.exit(0 if start["framework_version"].startswith("2.14.") and end["hold_out_accuracy"] > 0.5 else 6)
PYTHON
# Batches in parts need Keras 3; the trainer says so, and the table of what runs where knows it.
"$folder/venv/bin/python" -P -m pytest -q -p no:cacheprovider -W default --ignore tests/unit/workloads/trainer/test_accumulate.py \
    tests/unit/workloads/trainer
