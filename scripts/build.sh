#!/bin/sh
# `make build`: the wheel, and beside it what is in it and around it as CycloneDX (SBOM): one file for what CI installs
# (requirements/ci.txt), one for what each software of providers/cloud/data/machines.toml installs on a rented machine.
set -eu

bin=$1
cd "$(dirname "$0")/.."
rm -rf dist
"$bin/pip" wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .
for list in requirements/ci.txt providers/cloud/data/pinned/*.txt; do
    "$bin/cyclonedx-py" requirements "$list" --pyproject pyproject.toml --output-reproducible \
        --output-file "dist/$(basename "$list" .txt).cdx.json"
done
ls dist
