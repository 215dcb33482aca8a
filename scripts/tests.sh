#!/usr/bin/env bash
# tests.sh BIN MARKERS: runs the tests that the marker expression selects, with the programs in the folder BIN.
#
# Container tests run one after another, since they share an engine, and beside all other tests, since they mostly wait.
# Their output comes last. No selected container test is no failure.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
bin=$1
markers=$2
none_selected=5
# A test that waits for ever ends its process, which says where each thread stood; the others go on.
longest=(-o faulthandler_timeout=900 -o faulthandler_exit_on_timeout=true)

mkdir -p .build
# Only folders with such tests: to read all thirteen thousand for a handful takes a processor half a minute.
IFS=$'\n' read -r -d '' -a folders < <(grep -rl --include='*.py' 'mark\.container' tests | cut -d/ -f1-2 | sort -u)
"$bin/pytest" "${longest[@]}" -m "container and ($markers)" "${folders[@]}" > .build/containers.log 2>&1 &
containers=$!
[ "$markers" != "not check" ] || TMPDIR=$(scripts/memory.sh)
export TMPDIR
"$bin/pytest" "${longest[@]}" --numprocesses auto --dist loadfile --no-loadscope-reorder -m "not container and ($markers)"
others=$?
wait "$containers"
in_containers=$?
cat .build/containers.log
[ "$in_containers" -ne "$none_selected" ] || in_containers=0
exit $((others || in_containers))
