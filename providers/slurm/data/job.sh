
# Trains one attempt on the nodes that Slurm gave, and goes on after a requeue. What becomes of the attempt is what
# rank 0 says: srun's own exit code misleads after the death of another rank.

attempt_dir=$run_dir/attempts/$attempt
say() { printf '%s %s\n' "$(date -u +%Y-%m-%dT%H:%M:%SZ)" "$*"; }

# tidy: the trainer's sources go with the last job of the run. Another attempt brings them again.
tidy() {
    jobs=$(squeue --me --noheader --format=%j) || return 0
    run=trainplan-${run_dir##*/}
    printf '%s\n' "$jobs" | grep -v -x -F "$run-$attempt" | grep -q -F "$run-" ||
        rm -rf "$run_dir/trainer" "$run_dir/trainer.whl"
}

# finish CODE: the attempt has ended, and no requeue begins it again. A shared disk that takes no file for a while is
# waited for: without this file the attempt would have no known end.
finish() {
    tidy
    until printf '%s\n' "$1" >"$attempt_dir/.slurm-end.$$" && mv -f "$attempt_dir/.slurm-end.$$" "$attempt_dir/slurm-end"; do
        [ "$(date +%s)" -lt $((deadline + grace_seconds)) ] || break
        sleep "$pause_seconds"
    done
    exit "$1"
}

# owns: whether this start of the job still has its nodes. After the loss of a node Slurm requeues the job, and a
# script that was not killed (its slurmd is dead) has to give way. A controller that does not answer has not said no.
owns() {
    until shown=$(scontrol -o show job "$SLURM_JOB_ID" 2>&1); do
        case $shown in *"Invalid job id"*) return 1 ;; esac
        [ "$(date +%s)" -lt $((deadline + grace_seconds)) ] || return 1
        sleep "$pause_seconds"
    done
    case " $shown " in *" JobState=RUNNING "*) ;; *) return 1 ;; esac
    case " $shown " in *" Restarts=${SLURM_RESTART_COUNT:-0} "*) ;; *) return 1 ;; esac
}

# give_way: another start of this job has the attempt, or is to have it. It writes down no end.
give_way() {
    say "job $SLURM_JOB_ID was requeued by Slurm; this start ends"
    exit 0
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
# From the first start on it is charged for; Slurm shows the newest alone.
[ -e "$attempt_dir/slurm-began" ] || date +%s >"$attempt_dir/slurm-began"
[ ! -e "$attempt_dir/slurm-end" ] || { say "the attempt has ended before"; exit 0; }
[ ! -e "$attempt_dir/stop" ] || { say "asked to stop before it began"; finish 75; }
[ "$(date +%s)" -lt "$deadline" ] || { say "the deadline was reached in the queue"; finish 76; }

# The trainer's own sources, as they were when the run was launched.
if [ ! -d "$run_dir/trainer" ]; then
    $python -m zipfile -e "$run_dir/trainer.whl" "$run_dir/.trainer.$SLURM_JOB_ID" || finish 70
    mv "$run_dir/.trainer.$SLURM_JOB_ID" "$run_dir/trainer" || finish 70
fi
export PYTHONPATH="$run_dir/trainer" PYTHONUNBUFFERED=1
# sbatch hands on the environment that it was called in. Credentials in it are not for what trains; SLURM_JWT is srun's.
for name in $(env | awk -F= '$1 ~ /^[A-Za-z_][A-Za-z0-9_]*$/ && $1 != "SLURM_JWT" && toupper($1) ~ \
    /TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL|(API|ACCESS|PRIVATE|ACCOUNT)_?KEY|JWT/ { print $1 }'); do
    unset "$name"
done

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

# of_ranks: how the attempt ended, of the exit codes that the ranks wrote. The loss of one rank ends the others, some
# with an error of their own; TERM ends them with a checkpoint (75), or before they could write one (143).
of_ranks() {
    code=$(cat "$ranks/0" 2>/dev/null || echo lost)
    [ "$code" != 0 ] || return 0
    rank=0 failed='' lost=''
    while [ "$rank" -lt "$nodes" ]; do
        one=$(cat "$ranks/$rank" 2>/dev/null || echo lost)
        case $one in
        65) code=65; return 0 ;;
        0 | 75 | 143) ;;
        lost | 12[89] | 1[3-9][0-9] | 2[0-9][0-9]) lost=yes ;;
        *) failed=${failed:-$one} ;;
        esac
        rank=$((rank + 1))
    done
    code=${lost:+lost}
    code=${code:-${failed:-75}}
}

# wait_for SECONDS: less where it is to stop, or its time is over.
wait_for() {
    until=$(($(date +%s) + $1))
    while [ "$(date +%s)" -lt "$until" ] && [ "$(date +%s)" -lt "$deadline" ] && [ ! -e "$attempt_dir/stop" ]; do sleep 2; done
}

# Slurm takes a while to notice a lost node (SlurmdTimeout, 300 s unless set), and requeues the job then. The pauses
# after the losses are longer than that together.
losses=0 loss_pause=$pause_seconds
while :; do
    start="$SLURM_JOB_ID.${SLURM_RESTART_COUNT:-0}.$losses"
    ranks=$attempt_dir/ranks-$start
    # Ranks of an earlier start, on a node that Slurm has lost, end when they read another name here than their own.
    mkdir -p "$ranks" && printf '%s\n' "$start" >"$attempt_dir/.slurm-start" &&
        mv -f "$attempt_dir/.slurm-start" "$attempt_dir/slurm-start"
    TRAINPLAN_COORDINATOR="${address:-$first}:$((20000 + (SLURM_JOB_ID * 7 + losses) % 10000))"
    export TRAINPLAN_COORDINATOR
    say "job $SLURM_JOB_ID, start $((${SLURM_RESTART_COUNT:-0} + losses + 1)): $nodes nodes ($SLURM_JOB_NODELIST)"
    watch &
    watcher=$!
    # TERM is for the trainer, which writes a checkpoint; the shell around it only writes down how that ended.
    # shellcheck disable=SC2016  # each rank expands it
    srun --nodes="$nodes" --ntasks="$nodes" --ntasks-per-node=1 --kill-on-bad-exit=1 \
        sh -c 'trap : TERM; unset SLURM_JWT; start=$1; shift; "$@" & rank=$!
            while sleep 2; do
                now=$(cat "$0/slurm-start" 2>/dev/null) && [ "$now" != "$start" ] && kill -9 "$rank"
            done >/dev/null 2>&1 </dev/null & fence=$!
            while :; do wait "$rank"; code=$?; kill -0 "$rank" 2>/dev/null || break; done
            kill "$fence" 2>/dev/null
            echo "$code" >"$0/ranks-$start/$SLURM_PROCID"; exit "$code"' \
        "$attempt_dir" "$start" $container $python -P -m trainplan.workloads.trainer \
        --job "$run_dir/job.json" --run-dir "$run_dir" --attempt "$attempt" --data-dir "$data_dir" \
        --deadline-unix "$deadline" $measuring
    kill "$watcher" 2>/dev/null
    wait "$watcher" 2>/dev/null
    of_ranks
    rm -rf "$ranks"
    say "the ranks ended with $code"
    # What is trained, what cannot be trained and what has run out of time ends so, whoever has the nodes.
    case $code in 0 | 65 | 76 | 77) finish "$code" ;; esac
    owns || give_way
    case $code in
    lost | 75) [ ! -e "$attempt_dir/stop" ] || finish 75 ;;
    *) finish "$code" ;;
    esac
    [ "$(date +%s)" -lt "$deadline" ] || finish 76
    if [ "$code" = 75 ]; then
        # Slurm's time limit, or a job with more priority: it goes on from its checkpoint, until the deadline.
        say "stopped by the cluster; requeued"
        until scontrol requeue "$SLURM_JOB_ID"; do owns || give_way; sleep "$pause_seconds"; done
        # Slurm ends this script when it has requeued the job.
        sleep 60
        exit 0
    fi
    losses=$((losses + 1))
    [ "$losses" -le "$most_losses" ] || finish 137
    say "a rank was lost; begun again from the last checkpoint in $loss_pause s"
    wait_for "$loss_pause"
    loss_pause=$((loss_pause * 4))
    owns || give_way
    [ ! -e "$attempt_dir/stop" ] || finish 75
    [ "$(date +%s)" -lt "$deadline" ] || finish 76
done
