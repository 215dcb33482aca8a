# until DEADLINE GRACE COMMAND...: run COMMAND and end it at DEADLINE (seconds since 1970), by force GRACE seconds later.
# First process of the container: it passes TERM on, and tells a kill by the memory limit (exit 86) from others, also
# where what was killed is a process that the command had started.
stopped='' child='' code=127
oom_kills() {
    for counter in /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control; do
        [ -r "$counter" ] || continue
        while read -r key count _; do
            [ "$key" != oom_kill ] || echo "$count"
        done <"$counter"
    done
}
kills=$(oom_kills)
trap 'stopped=yes; [ -z "$child" ] || kill -TERM "$child" 2>/dev/null' TERM INT
left=$(($1 - $(date +%s))) grace=$2
shift 2
[ "$left" -gt 0 ] || exit 76
# --foreground: else timeout sends TERM twice, and the second may meet a Python that is taking its handlers down.
timeout --foreground -k "$grace" "$left" "$@" &
child=$!
[ -z "$stopped" ] || kill -TERM "$child"
while :; do
    stopped=''
    wait "$child"
    now=$?
    [ "$now" -eq 127 ] || code=$now
    [ -n "$stopped" ] || break
done
case $code in 1 | 70 | 137) ;; *) exit "$code" ;; esac
[ "$(oom_kills)" = "$kills" ] || exit 86
exit "$code"
