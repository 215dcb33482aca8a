#!/bin/sh
# `make audit`: whether anything that CI installs (requirements) has a known vulnerability.
#
# pip-audit asks the Python Package Index for what is known of each version. Where that is not to be had (no network, or a
# mirror without it), it passes over each package and says that nothing was found: --strict makes that a failure.
set -eu

bin=$1
cd "$(dirname "$0")/.."
for list in requirements/*.txt; do
    "$bin/pip-audit" --requirement "$list" --require-hashes --disable-pip --strict --progress-spinner off && continue
    echo "error: the audit found something, or could not look: pip-audit says above which" >&2
    echo "hint: it needs the index's vulnerability data, which mirrors often lack, and there is none to be had offline;" \
        "for a vulnerability, raise the version in pyproject.toml and run make lock" >&2
    exit 9
done
