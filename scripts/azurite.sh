#!/bin/sh
# Installs Azurite, Microsoft's double of Azure Blob Storage, below .build (needs node and npm). Only tests use it.
#
# Safe to run again: what is in place is left alone. Prints nothing when all is well.
set -eu

VERSION=3.37.0
folder=$(dirname "$0")/../.build/azurite

[ -f "$folder/$VERSION.done" ] && exit 0
command -v npm >/dev/null || {
    echo "error: npm is not installed" >&2
    echo "hint: install node and npm, or leave the tests against Azurite out" >&2
    exit 9
}
mkdir -p "$folder"
npm install --prefix "$folder" --no-audit --no-fund --no-save --ignore-scripts --loglevel=error "azurite@$VERSION" >&2
touch "$folder/$VERSION.done"
