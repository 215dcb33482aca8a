#!/bin/sh
# Starts Docker beside Podman on a Debian machine (root), for the tests that hold the contract against it.
#
# It is a daemon of its own, away from any other: its socket is /run/trainplan-docker/docker.sock, its data is below
# /var/lib/trainplan-docker, and no program finds it without being told. Its firewall rules are off, so that Podman's
# stay as they are. Safe to run again: what runs is left alone. `scripts/docker.sh stop` ends it.
set -eu

RUN=/run/trainplan-docker
DATA=/var/lib/trainplan-docker
SOCKET=unix://$RUN/docker.sock
BASE=localhost/trainplan-base:bookworm  # made by scripts/engine.sh
WAIT_SECONDS=60

say() { printf 'docker: %s\n' "$*" >&2; }

die() {
    printf 'error: %s\n' "$1" >&2
    [ $# -lt 2 ] || printf 'hint: %s\n' "$2" >&2
    exit 9
}

client() { /usr/bin/docker --host "$SOCKET" "$@"; }

install_packages() {
    dpkg-query -W -f '${Status}' docker.io 2>/dev/null | grep -q '^install ok installed$' && return 0
    say "installing docker.io"
    export DEBIAN_FRONTEND=noninteractive
    # The package would start Docker's own service where there is systemd; this daemon is started below.
    apt-get update -q >&2
    apt-get install -q -y --no-install-recommends docker.io iptables >&2
}

start() {
    client info >/dev/null 2>&1 && return 0
    mkdir -p "$RUN" "$DATA"
    rm -f "$RUN/docker.pid"
    nohup /usr/sbin/dockerd --host "$SOCKET" --data-root "$DATA" --exec-root "$RUN/exec" --pidfile "$RUN/docker.pid" \
        --iptables=false --ip6tables=false --ip-masq=false >"$RUN/docker.log" 2>&1 </dev/null &
    waited=0
    until client info >/dev/null 2>&1; do
        [ "$waited" -lt "$WAIT_SECONDS" ] || die "Docker does not answer: $(tail -n 1 "$RUN/docker.log")" "see $RUN/docker.log"
        sleep 1
        waited=$((waited + 1))
    done
}

base_image() {
    client image inspect "$BASE" >/dev/null 2>&1 && return 0
    podman image exists "$BASE" 2>/dev/null || die "there is no $BASE" "make engine makes it"
    podman save "$BASE" 2>/dev/null | client load >&2
}

stop() {
    [ -f "$RUN/docker.pid" ] || return 0
    kill "$(cat "$RUN/docker.pid")"
    say "ended"
}

main() {
    [ -f /etc/debian_version ] || die "this sets up Docker on Debian only" "install Docker; plan uses it where it answers"
    [ "$(id -u)" = 0 ] || die "this installs packages and needs root" "sudo make docker"
    if [ "${1:-}" = stop ]; then
        stop
        return 0
    fi
    install_packages
    start
    base_image
    say "ready: $(client version --format '{{.Server.Version}}'), $SOCKET"
}

main "$@"
