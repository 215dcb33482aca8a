#!/bin/sh
# `make release`: what a release consists of, in dist/, tried before anybody gets it.
#
# usage: scripts/release.sh BIN TOOLS [rehearsal]
# BIN is the environment of the checkout, TOOLS one with twine. Builds wheel, sdist and lists of parts, checks both with
# twine, installs each into an empty environment, from where `plan --version` and a first table are asked for, lists what
# the wheel brought with it there (CycloneDX), and writes SHA256SUMS. A rehearsal asks for no tag. Needs a package index.
set -eu

bin=$1
tools=$2
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
[ "${3:-}" = rehearsal ] || "$bin/python" -m scripts.release
scripts/build.sh "$bin" >/dev/null
version=$("$bin/python" -c 'from trainplan.planner import __version__; print(__version__)')
wheel=dist/trainplan-$version-py3-none-any.whl
sdist=dist/trainplan-$version.tar.gz
"$tools/twine" check --strict "$wheel" "$sdist"

place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT INT TERM HUP
for file in "$wheel" "$sdist"; do
    rm -rf "$place/env"
    "$bin/python" -m venv "$place/env"
    "$place/env/bin/pip" install --quiet --disable-pip-version-check "$root/$file"
    (
        cd "$place"
        export PLAN_HOME="$place/home"
        [ "$(env/bin/plan --version)" = "plan $version" ]
        env/bin/plan estimate --model vgg16 --dataset cifar10 >table.txt
        grep -q images/s table.txt
        env/bin/python -c 'import trainplan'
    ) || { echo "error: what $file installs does not answer as it should" >&2; exit 6; }
    echo "$file: installed, plan $version, a table of $(wc -l <"$place/table.txt") lines"
    [ "$file" = "$sdist" ] || "$bin/cyclonedx-py" environment "$place/env/bin/python" --pyproject pyproject.toml \
        --output-reproducible --output-file "dist/trainplan-$version.cdx.json"
done
(cd dist && sha256sum -- * >"$place/sums" && mv "$place/sums" SHA256SUMS)
ls -l dist
