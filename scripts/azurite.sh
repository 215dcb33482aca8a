#!/bin/sh
# Installs Azurite, Microsoft's double of Azure Blob Storage, below .build (needs node and npm), and prints where its program
# for blobs is. Only tests use it.
#
# Safe to run again, and twice at once: what is in place is whole, as it is put there by one rename.
set -eu

VERSION=3.37.0
folder=$(cd "$(dirname "$0")/.." && pwd)/.build/azurite
program=$folder/$VERSION/node_modules/.bin/azurite-blob

if [ ! -e "$program" ]; then
    command -v npm >/dev/null || {
        echo "error: npm is not installed" >&2
        echo "hint: install node and npm, or leave the tests against Azurite out" >&2
        exit 9
    }
    made=$folder/making-$$
    trap 'rm -rf "$made"' EXIT
    mkdir -p "$made"
    npm install --prefix "$made" --no-audit --no-fund --no-save --ignore-scripts --loglevel=error "azurite@$VERSION" >&2
    # Who comes second leaves the first one's in place; in the moment between look and rename it would land inside, unused.
    [ -e "$program" ] || mv "$made" "$folder/$VERSION"
fi
echo "$program"
