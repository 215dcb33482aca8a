#!/usr/bin/env bash
# skypilot_check.sh TASK.yaml: whether SkyPilot's own parser takes a task. In an environment of its own below .build (300 MB);
# nothing is launched and nobody is asked.
set -euo pipefail
cd "$(dirname "$0")/.."
VERSION=0.14.1
folder=$PWD/.build/skypilot
if [ ! -e "$folder/$VERSION" ]; then
    rm -rf "$folder"
    mkdir -p "$folder"
    "${PYTHON:-python3}" -m venv "$folder/venv"
    "$folder/venv/bin/pip" install --quiet --disable-pip-version-check "skypilot==$VERSION"
    touch "$folder/$VERSION"
fi
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
HOME=$home "$folder/venv/bin/python" -P - "$1" <<'PYTHON'
import sys
import sky
task = sky.Task.from_yaml(sys.argv[1])
print(task.name, task.num_nodes, sorted(task.storage_mounts))
PYTHON
