#!/bin/sh
# Sets up Slurm with two real nodes on this machine (root, Debian): a controller, two slurmd, and an accounting (slurmdbd
# over MariaDB) on loopback, for the tests of providers/slurm. Nothing outside FOLDER (default .build/slurm) is configured or
# written; only the packages are installed. A slurm.conf that somebody has edited there stays as it is.
#
#     scripts/slurm.sh [up [FOLDER]]     prints what to export; what runs already is left alone
#     scripts/slurm.sh node N [FOLDER]   starts node n1 or n2 again
#     scripts/slurm.sh down [FOLDER]     ends all of it, and waits until it has ended
set -eu

PACKAGES="slurm-wlm munge slurm-wlm-basic-plugins slurmdbd mariadb-server-core"
DATABASE_SECONDS=60
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
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort=$((port + 3))
AccountingStoragePass=$folder/munge/socket
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

configuration_of_accounting() {
    cat <<CONF
# Written by scripts/slurm.sh.
AuthType=auth/munge
AuthInfo=socket=$folder/munge/socket
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort=$((port + 3))
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort=$((port + 4))
StorageUser=root
StorageLoc=slurm
SlurmUser=root
LogFile=$folder/log/slurmdbd.log
PidFile=$folder/run/slurmdbd.pid
CONF
}

# write_configuration: anew where this script makes another one than before, but never over somebody's own edits
write_configuration() {
    configuration >"$folder/slurm.conf.new"
    if [ -f "$folder/slurm.conf" ] && [ -f "$folder/slurm.conf.made" ] &&
        ! cmp -s "$folder/slurm.conf" "$folder/slurm.conf.made"; then
        say "$folder/slurm.conf was edited, and stays as it is; remove it to have it written anew"
        rm "$folder/slurm.conf.new"
        return 0
    fi
    if ! cmp -s "$folder/slurm.conf.new" "$folder/slurm.conf"; then
        [ ! -f "$folder/slurm.conf" ] || down
        cp "$folder/slurm.conf.new" "$folder/slurm.conf.made"
        cp "$folder/slurm.conf.new" "$folder/slurm.conf"
    fi
    rm "$folder/slurm.conf.new"
    (umask 077 && configuration_of_accounting >"$folder/slurmdbd.conf")
}

start_accounting() {
    if ! runs mariadbd; then
        mkdir -p "$folder/database"
        # On loopback, for tests, without users. What the disk has not yet is lost with the machine only.
        mariadbd --no-defaults --user=root --datadir="$folder/database" --socket="$folder/run/mariadbd.socket" \
            --pid-file="$folder/run/mariadbd.pid" --bind-address=127.0.0.1 --port=$((port + 4)) --skip-grant-tables \
            --innodb-flush-log-at-trx-commit=0 --innodb-buffer-pool-size=64M >>"$folder/log/mariadbd.log" 2>&1 </dev/null &
    fi
    runs slurmdbd && return 0
    waited=0
    until slurmdbd 2>/dev/null && sleep 0.5 && runs slurmdbd && sacctmgr -n list cluster >/dev/null 2>&1; do
        waited=$((waited + 1))
        [ "$waited" -le "$DATABASE_SECONDS" ] || die "the accounting does not begin" "the logs are in $folder/log"
        sleep 0.5
    done
    sacctmgr --immediate add cluster two >/dev/null 2>&1 || :
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
    write_configuration
    start_munge
    start_accounting
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
    for name in slurmd.n1 slurmd.n2 slurmctld slurmdbd mariadbd munged; do
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
# Ports of its own for each folder, so that two checkouts can have a cluster each.
port=$((16000 + $(printf '%s' "$folder" | cksum | cut -d ' ' -f 1) % 2400 * 5))
case $action in
up) up ;;
node) runs "slurmd.$node" || slurmd -N "$node" ;;
down) down ;;
*) die "there is no action $action" "up, node or down" ;;
esac
