
# Trains one attempt on the nodes that Slurm gave, and goes on after a requeue. What becomes of the attempt is what
# rank 0 says: srun's own exit code misleads after the death of another rank.

attempt_dir=$run_dir/attempts/$attempt
say() { printf '%s %s\n' "$(date -u +%Y-%m-%dT%H:%M:%SZ)" "$*"; }

# finish CODE: the attempt has ended, and no requeue begins it again
finish() {
    printf '%s\n' "$1" >"$attempt_dir/.slurm-end.$$" && mv -f "$attempt_dir/.slurm-end.$$" "$attempt_dir/slurm-end"
    exit "$1"
}

# Without its job the run directory was removed: there is nothing to train.
[ -f "$run_dir/job.json" ] || { say "there is no $run_dir/job.json"; exit 66; }
mkdir -p "$attempt_dir/log"

# One job for each attempt. A hard link is made whole or not at all, also over NFS.
printf '%s\n' "$SLURM_JOB_ID" >"$attempt_dir/.slurm-job.$SLURM_JOB_ID"
ln "$attempt_dir/.slurm-job.$SLURM_JOB_ID" "$attempt_dir/slurm-job" 2>/dev/null || :
rm -f "$attempt_dir/.slurm-job.$SLURM_JOB_ID"
owner=$(cat "$attempt_dir/slurm-job")
[ "$owner" = "$SLURM_JOB_ID" ] || { say "job $owner trains this attempt; this one ends"; exit 0; }
[ ! -e "$attempt_dir/slurm-end" ] || { say "the attempt has ended before"; exit 0; }
[ ! -e "$attempt_dir/stop" ] || { say "asked to stop before it began"; finish 75; }
[ "$(date +%s)" -lt "$deadline" ] || { say "the deadline was reached in the queue"; finish 76; }

# The trainer's own sources, as they were when the run was launched.
if [ ! -d "$run_dir/trainer" ]; then
    $python -m zipfile -e "$run_dir/trainer.whl" "$run_dir/.trainer.$SLURM_JOB_ID" || finish 70
    mv "$run_dir/.trainer.$SLURM_JOB_ID" "$run_dir/trainer" || finish 70
fi
export PYTHONPATH="$run_dir/trainer" PYTHONUNBUFFERED=1

nodes=$SLURM_JOB_NUM_NODES

# Host names need not resolve on the nodes; Slurm knows the addresses.
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
address=$(scontrol -o show node "$first" | tr ' ' '\n' | sed -n 's/^NodeAddr=//p')

# Slurm's --time begins anew with every start. This does not.
watch() {
    while sleep 2; do
        if [ "$(date +%s)" -ge $((deadline + grace_seconds)) ]; then
            printf '124\n' >"$attempt_dir/slurm-end"
            scancel "$SLURM_JOB_ID"
        elif [ -e "$attempt_dir/stop" ]; then
            scancel --signal=TERM "$SLURM_JOB_ID" 2>/dev/null
        fi
    done
}

losses=0
while :; do
    rm -f "$attempt_dir"/rank-*-exit
    TRAINPLAN_COORDINATOR="${address:-$first}:$((20000 + (SLURM_JOB_ID * 7 + losses) % 10000))"
    export TRAINPLAN_COORDINATOR
    say "job $SLURM_JOB_ID, start $((${SLURM_RESTART_COUNT:-0} + losses + 1)): $nodes nodes ($SLURM_JOB_NODELIST)"
    watch &
    watcher=$!
    # TERM is for the trainer, which writes a checkpoint; the shell around it only writes down how that ended.
    # shellcheck disable=SC2016  # each rank expands it
    srun --nodes="$nodes" --ntasks="$nodes" --ntasks-per-node=1 --kill-on-bad-exit=1 \
        sh -c 'trap : TERM; "$@" & rank=$!
            while :; do wait "$rank"; code=$?; kill -0 "$rank" 2>/dev/null || break; done
            echo "$code" >"$0/rank-$SLURM_PROCID-exit"; exit "$code"' \
        "$attempt_dir" $container $python -P -m trainplan.workloads.trainer \
        --job "$run_dir/job.json" --run-dir "$run_dir" --attempt "$attempt" --data-dir "$data_dir" \
        --deadline-unix "$deadline" $measuring
    kill "$watcher" 2>/dev/null
    wait "$watcher" 2>/dev/null
    code=$(cat "$attempt_dir/rank-0-exit" 2>/dev/null || echo lost)
    # The loss of one rank ends the others, some with an error of their own.
    rank=0
    while [ "$code" != 0 ] && [ "$rank" -lt "$nodes" ]; do
        case $(cat "$attempt_dir/rank-$rank-exit" 2>/dev/null || echo lost) in
        65) code=65; break ;;
        lost | 1[2-9][0-9] | 2[0-9][0-9]) code=lost ;;
        esac
        rank=$((rank + 1))
    done
    say "the ranks ended with $code"
    case $code in
    0 | 65 | 70 | 76) finish "$code" ;;
    75)
        [ ! -e "$attempt_dir/stop" ] || finish 75
        # Slurm's time limit, or a job with more priority: it goes on from its checkpoint, until the deadline.
        say "stopped by the cluster; requeued"
        scontrol requeue "$SLURM_JOB_ID" && sleep 60
        finish 75
        ;;
    esac
    [ ! -e "$attempt_dir/stop" ] || finish 75
    [ "$(date +%s)" -lt "$deadline" ] || finish 76
    losses=$((losses + 1))
    [ "$losses" -le "$most_losses" ] || finish 137
    say "a rank was lost; begun again from the last checkpoint"
done
