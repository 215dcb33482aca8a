#!/bin/sh
# Sets up Slurm with two real nodes on this machine (root, Debian): a controller and two slurmd on loopback, for the tests of
# providers/slurm. Nothing outside FOLDER (default .build/slurm) is configured or written; only the packages are installed.
#
#     scripts/slurm.sh [up [FOLDER]]     prints what to export; what runs already is left alone
#     scripts/slurm.sh node N [FOLDER]   starts node n1 or n2 again
#     scripts/slurm.sh down [FOLDER]     ends all of it, and waits until it has ended
set -eu

PACKAGES="slurm-wlm munge slurm-wlm-basic-plugins"
IDLE_SECONDS=60

here=$(cd "$(dirname "$0")/.." && pwd)

say() { printf 'slurm: %s\n' "$*" >&2; }

die() {
    printf 'error: %s\n' "$1" >&2
    printf 'hint: %s\n' "$2" >&2
    exit 9
}

# runs PROGRAM: whether the process of its pid file is there and is that program
runs() {
    pid=$(cat "$folder/run/$1.pid" 2>/dev/null) || return 1
    [ -n "$pid" ] && [ -d "/proc/$pid" ] && ! grep -q '^State:.Z' "/proc/$pid/status"
}

install_packages() {
    missing=
    for package in $PACKAGES; do
        dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q '^install ok installed$' || missing="$missing $package"
    done
    [ -n "$missing" ] || return 0
    [ -f /etc/debian_version ] || die "this sets up Slurm on Debian only" "run the tests of Slurm on Debian, as root"
    [ "$(id -u)" = 0 ] || die "this installs packages and starts Slurm as root" "sudo make slurm"
    say "installing$missing"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -q >&2
    # The packages start no service: each reads a configuration of its own that is not there.
    # shellcheck disable=SC2086  # a list of names
    apt-get install -q -y --no-install-recommends $missing >&2
}

configuration() {
    # Ports of its own for each folder, so that two checkouts can have a cluster each.
    port=$((16000 + $(printf '%s' "$folder" | cksum | cut -d ' ' -f 1) % 4000 * 3))
    host=$(hostname -s)
    cat <<CONF
# Written by scripts/slurm.sh.
ClusterName=two
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
AuthType=auth/munge
AuthInfo=socket=$folder/munge/socket
CryptoType=crypto/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation=$folder/state
SlurmctldPidFile=$folder/run/slurmctld.pid
SlurmdPidFile=$folder/run/slurmd.%n.pid
SlurmctldLogFile=$folder/log/slurmctld.log
SlurmdLogFile=$folder/log/slurmd.%n.log
SlurmdSpoolDir=$folder/spool.%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SchedulerType=sched/backfill
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
ReturnToService=2
SlurmdTimeout=20
SlurmctldTimeout=20
InactiveLimit=0
KillWait=10
MinJobAge=600
JobRequeue=1
SwitchType=switch/none
# Both nodes are this host, whose name need not resolve.
NodeName=n1 NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port + 1)) CPUs=1 RealMemory=1000 State=UNKNOWN
NodeName=n2 NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port + 2)) CPUs=1 RealMemory=1000 State=UNKNOWN
PartitionName=two Nodes=n1,n2 Default=YES MaxTime=60 State=UP
CONF
}

start_munge() {
    runs munged && return 0
    [ -s "$folder/munge/key" ] || (umask 077 && head -c 1024 /dev/urandom >"$folder/munge/key")
    munged --force --key-file="$folder/munge/key" --socket="$folder/munge/socket" --pid-file="$folder/run/munged.pid" \
        --log-file="$folder/log/munged.log" --seed-file="$folder/run/munge.seed" 2>>"$folder/log/munged.err"
}

up() {
    install_packages
    mkdir -p "$folder/run" "$folder/state" "$folder/log" "$folder/munge"
    chmod 700 "$folder/munge/key" 2>/dev/null || :
    chmod 755 "$folder" "$folder/run" "$folder/log" "$folder/munge"
    configuration >"$folder/slurm.conf"
    start_munge
    runs slurmctld || slurmctld
    for node in n1 n2; do runs "slurmd.$node" || slurmd -N "$node"; done
    waited=0
    until [ "$(sinfo -h -N -o %T 2>/dev/null | sort -u)" = idle ]; do
        waited=$((waited + 1))
        [ "$waited" -le "$IDLE_SECONDS" ] ||
            die "the nodes are not idle after $IDLE_SECONDS s: $(sinfo -h -N -o '%N %T %E' 2>&1 | tr '\n' ';')" "the logs are in $folder/log"
        [ $((waited % 10)) -ne 5 ] || scontrol update nodename=n1,n2 state=resume 2>/dev/null || :
        sleep 1
    done
    say "two idle nodes: $(sbatch --version)"
    echo "export SLURM_CONF=$SLURM_CONF"
}

down() {
    for name in slurmd.n1 slurmd.n2 slurmctld munged; do
        runs "$name" || continue
        kill "$pid"
        waited=0
        while runs "$name"; do
            waited=$((waited + 1))
            [ "$waited" -le 100 ] || kill -9 "$pid" 2>/dev/null || :
            [ "$waited" -le 150 ] || die "$name ($pid) does not end" "the logs are in $folder/log"
            sleep 0.1
        done
        rm -f "$folder/run/$name.pid"
    done
}

action=${1:-up}
[ $# -eq 0 ] || shift
case $action in
node)
    node=$1
    shift
    ;;
esac
folder=${1:-$here/.build/slurm}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
export SLURM_CONF="$folder/slurm.conf"
case $action in
up) up ;;
node) runs "slurmd.$node" || slurmd -N "$node" ;;
down) down ;;
*) die "there is no action $action" "up, node or down" ;;
esac
