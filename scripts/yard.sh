#!/bin/sh
# Builds the images of the end-to-end tests, in which a container plays the rented machine (tests/e2e/yard).
#
# usage: scripts/yard.sh machine | plain | public | trainer BASE_IMAGE
# Prints the name of the image. Safe to run again: what is in place is left alone, what is older is removed.
# Needs Podman as scripts/engine.sh sets it up, and root.
set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
kind=${1:?machine, plain, public or trainer}
base=${2:-localhost/trainplan-base:bookworm}
folder=$here/tests/e2e/yard/images/$kind
certificates=/etc/ssl/certs/ca-certificates.crt
[ -s "$certificates" ] || certificates=

die() {
    printf 'error: %s\n' "$1" >&2
    printf 'hint: %s\n' "$2" >&2
    exit 9
}

[ -d "$folder" ] || die "there is no image $kind" "machine, plain, public or trainer"
podman image exists "$base" 2>/dev/null || die "there is no image $base here" "scripts/engine.sh makes the base image"
made_from=$(podman image inspect --format '{{.Id}}' "$base")
context=$(mktemp -d)
trap 'rm -rf "$context"' EXIT INT TERM HUP
cp -a "$folder/." "$context"
[ "$kind" != public ] || cp "$here/providers/cloud/data/pinned/jax-cpu.txt" "$context/requirements.txt"
digest=$(cd "$context" && find . -type f | LC_ALL=C sort | while read -r file; do
    echo "$file"
    cat "$file"
done | { cat; echo "$made_from"; } | sha256sum | cut -c1-12)
tag=localhost/trainplan-yard-$kind:$digest

if ! podman image exists "$tag"; then
    podman build --quiet --isolation=chroot --network=host --pull-never \
        ${certificates:+--volume "$certificates:/run/host-ca.crt:ro"} \
        --build-arg "BASE=$base" --tag "$tag" "$context" >/dev/null
    podman images --format '{{.Repository}}:{{.Tag}}' "localhost/trainplan-yard-$kind" | while read -r earlier; do
        # Not one that another session may just be using.
        made=$(podman image inspect --format '{{.Created.Unix}}' "$earlier" 2>/dev/null || date +%s)
        [ "$earlier" = "$tag" ] || [ $(($(date +%s) - made)) -lt 3600 ] || podman rmi "$earlier" >/dev/null 2>&1 || true
    done
fi
echo "$tag"
