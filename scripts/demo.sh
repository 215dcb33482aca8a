#!/usr/bin/env bash
# The main job, end to end: an estimate over everything that can be rented, a real training run here, its receipt.
# Trains in a container where Docker or Podman answers, else in a process of this environment.
set -euo pipefail
bin=$1
root=$(cd "$(dirname "$0")/.." && pwd)
export PLAN_HOME="$root/.build/demo"
install -d -m 700 "$PLAN_HOME"  # a home is private, and says so where it was not

answers() { command -v "$1" >/dev/null && timeout 10 "$1" info >/dev/null 2>&1; }

if ! answers docker && ! answers podman; then
    echo "no container engine answers: training in a process of this environment"
    "$bin/pip" install --quiet -e "${root}[train-cpu]"
    export PLAN_ENGINE=process
fi

echo "\$ plan estimate examples/vgg16-imagenet.yaml"
# Without a terminal as input nothing is asked: the demo shows the shipped prices.
"$bin/plan" estimate "$root/examples/vgg16-imagenet.yaml" </dev/null
echo
echo "\$ plan launch examples/digits-vgg.yaml --provider local --yes"
"$bin/plan" launch "$root/examples/digits-vgg.yaml" --provider local --yes --fresh
echo
echo "\$ plan history"
"$bin/plan" history
