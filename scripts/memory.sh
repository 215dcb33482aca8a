#!/usr/bin/env bash
# memory.sh: prints where tests write: a folder in memory where there is one with room in which programs may run.
#
# A launch writes through to the disk dozens of times, and a test that waits for it proves no more.
set -euo pipefail
memory=/dev/shm
enough_kib=$((4 * 1024 * 1024))
with_workers_kib=$((3 * enough_kib)) # two workers of make test take up to 4 GiB each

has_room() {
    [ "$(df -Pk "$memory" | awk 'NR == 2 { print $4 }')" -ge "$enough_kib" ] &&
        [ "$(awk '$1 == "MemAvailable:" { print $2 }' /proc/meminfo)" -ge "$with_workers_kib" ]
}

runs_programs() {
    local program status=0
    program=$(mktemp "$memory/plan-tests.XXXXXX") || return
    printf '#!/bin/sh\n' > "$program"
    { chmod +x "$program" && "$program"; } || status=$?
    rm -f "$program"
    return "$status"
}

if [ -d "$memory" ] && has_room && runs_programs 2> /dev/null; then
    echo "$memory"
else
    echo "${TMPDIR:-/tmp}"
fi
