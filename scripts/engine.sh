#!/bin/sh
# Sets up Podman as a container engine on a Debian machine (root), with a base image made here.
#
# For machines that have no engine and cannot pull images. Whoever has Docker or Podman needs none of it.
# Safe to run again: what is in place is left alone, and then it takes about a second.
#
# It writes    /etc/containers/containers.conf.d/50-trainplan.conf   how containers run here
#              /etc/trainplan/settings.toml                          how the trainer image is built here
# and makes    localhost/trainplan-base:bookworm                     Debian with Python, by debootstrap
set -eu

PACKAGES="podman runc buildah netavark aardvark-dns iptables dnsmasq-base uidmap slirp4netns fuse-overlayfs debootstrap ca-certificates"
SUITE=bookworm
MIRROR=${TRAINPLAN_DEBIAN_MIRROR:-}  # empty: the one that debootstrap knows
BASE=localhost/trainplan-base:$SUITE
CONTAINERS_CONF=/etc/containers/containers.conf.d/50-trainplan.conf
SETTINGS_TOML=/etc/trainplan/settings.toml

say() { printf 'engine: %s\n' "$*" >&2; }

die() {
    printf 'error: %s\n' "$1" >&2
    [ $# -lt 2 ] || printf 'hint: %s\n' "$2" >&2
    exit 9
}

containers_conf() {
    cat <<'CONF'
# Written by scripts/engine.sh. runc and cgroupfs also run where there is no systemd and on cgroup v1.
[containers]
default_ulimits = ["nofile=20000:20000", "nproc=4096:4096"]

[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"

[network]
network_backend = "netavark"
CONF
}

settings_toml() {
    cat <<TOML
# Written by scripts/engine.sh: how plan builds the trainer image with the engine of this machine.
build_flags = ["--network=host"]
podman_build_flags = ["--isolation=chroot"]
TOML
}

# put FILE PRODUCER: what PRODUCER prints becomes FILE, in one step, where it differs
put() {
    mkdir -p "$(dirname "$1")"
    "$2" >"$1.new"
    if cmp -s "$1.new" "$1"; then rm "$1.new"; else mv "$1.new" "$1" && say "wrote $1"; fi
}

# The limits are part of the check: an engine that runs a container but cannot hold it to them will not do.
hello() {
    [ "$(podman run --rm --pull=never --network none --memory 64m --cpus 1 "$BASE" \
        python3 -c 'print("hello")' 2>/dev/null)" = hello ]
}

in_place() {
    command -v podman >/dev/null 2>&1 &&
        containers_conf | cmp -s - "$CONTAINERS_CONF" &&
        settings_toml | cmp -s - "$SETTINGS_TOML" &&
        podman image exists "$BASE" 2>/dev/null &&
        hello
}

install_packages() {
    missing=
    for package in $PACKAGES; do
        dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q '^install ok installed$' ||
            missing="$missing $package"
    done
    [ -n "$missing" ] || return 0
    say "installing$missing"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -q >&2
    # shellcheck disable=SC2086  # a list of names
    apt-get install -q -y --no-install-recommends $missing >&2
}

make_base() {
    podman image exists "$BASE" && return 0
    say "making $BASE by debootstrap (about a minute, 300 MB)"
    root=$(mktemp -d)
    trap 'rm -rf "$root"' EXIT INT TERM HUP
    debootstrap --variant=minbase --include=python3,python3-venv,ca-certificates "$SUITE" "$root" ${MIRROR:+"$MIRROR"} \
        >"$root.log" 2>&1 || die "debootstrap failed: $(tail -n 1 "$root.log")" "the whole output is in $root.log"
    rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/* "$root.log"
    tar -C "$root" -c . | podman import --change 'CMD ["python3"]' - "$BASE" >/dev/null
    rm -rf "$root"
    trap - EXIT INT TERM HUP
}

main() {
    if in_place; then
        say "in place: $(podman --version), $BASE"
        return 0
    fi
    if ! command -v podman >/dev/null 2>&1 && docker info >/dev/null 2>&1; then
        say "Docker answers: there is nothing to set up"
        return 0
    fi
    [ -f /etc/debian_version ] || die "this sets up Podman on Debian only" "install Docker or Podman; plan uses whichever answers"
    [ "$(id -u)" = 0 ] || die "this installs packages and needs root" "sudo make engine, or install Docker or Podman yourself"
    install_packages
    put "$CONTAINERS_CONF" containers_conf
    put "$SETTINGS_TOML" settings_toml
    make_base
    hello || die "a container does not run with limits here" "podman run --rm --network none --memory 64m $BASE true"
    say "ready: $(podman --version), $BASE"
}

main
