#!/bin/sh
# `make build`: the sdist, the wheel built from it, and what is around them as CycloneDX (SBOM): one file for what CI
# installs (requirements/ci.txt), one for what each software of providers/cloud/data/machines.toml installs on a rented
# machine.
set -eu

bin=$1
cd "$(dirname "$0")/.."
rm -rf dist
"$bin/hatchling" build --target sdist --directory dist >/dev/null
"$bin/pip" wheel --quiet --no-deps --no-build-isolation --wheel-dir dist dist/*.tar.gz
for list in requirements/ci.txt providers/cloud/data/pinned/*.txt; do
    "$bin/cyclonedx-py" requirements "$list" --pyproject pyproject.toml --output-reproducible \
        --output-file "dist/$(basename "$list" .txt).cdx.json"
done
ls dist
