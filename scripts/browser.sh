#!/bin/sh
# Installs what tests of pages need beside the playwright client (an extra of pip): Debian's Chromium (root, apt), and
# axe-core from npm, which judges accessibility, below .build. Prints the path of the browser and of axe's script.
#
# axe-core is MPL-2.0: only tests use it, and nothing of it is shipped. Safe to run again, and twice at once.
set -eu

AXE=4.14.1
AXE_SHA256=29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c
folder=$(cd "$(dirname "$0")/.." && pwd)/.build/axe
target=$folder/axe-$AXE.min.js

die() {
    printf 'error: %s\n' "$1" >&2
    printf 'hint: %s\n' "$2" >&2
    exit 9
}

# The wrapper in /usr/bin sets the machine's own flags; without the package there is none.
if ! command -v chromium >/dev/null; then
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        die "chromium is not installed" "install Debian's package chromium, or leave the tests of pages out"
    fi
    # The lock serves two that install at once.
    if ! { apt-get -qq -o DPkg::Lock::Timeout=300 update &&
        DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o DPkg::Lock::Timeout=300 install --no-install-recommends \
            chromium fonts-dejavu-core; } >&2; then
        die "chromium could not be installed" "see above; leave the tests of pages out where there is no network"
    fi
fi

if [ ! -e "$target" ]; then
    command -v npm >/dev/null || die "npm is not installed" "install node and npm, or leave the tests of pages out"
    made=$folder/making-$$
    trap 'rm -rf "$made"' EXIT
    mkdir -p "$made"
    npm install --prefix "$made" --no-audit --no-fund --no-save --ignore-scripts --loglevel=error "axe-core@$AXE" >&2
    script=$made/node_modules/axe-core/axe.min.js
    echo "$AXE_SHA256  $script" | sha256sum --check --quiet >&2 ||
        die "axe-core $AXE is not the file whose hash scripts/browser.sh has" "do not use it; look at what npm installed"
    mv "$script" "$target"
fi
command -v chromium
echo "$target"
