#!/bin/sh
# Fetches the agent, makes the machine ready for containers, and becomes the agent. What follows its end is end.sh.
here=/usr/local/lib/trainplan
agent=$here/@AGENT@
keyrings=/etc/apt/keyrings
lock=60
branch=@DRIVER@
patience=@REFUSED_SECONDS@

note() {
    echo "trainplan: $*"
    (echo "trainplan: $*" >/dev/console) 2>/dev/null
}

give_up() { # REASON MESSAGE
    note "$1: $2"
    [ ! -s "$agent" ] || timeout 60 python3 "$agent" say "$1" "$2"
    exit 1
}

packages() { # NAME...: of the distribution, once nobody else installs
    timeout 600 python3 -c 'import fcntl
for name in "/var/lib/dpkg/lock-frontend", "/var/lib/dpkg/lock", "/var/lib/apt/lists/lock":
    fcntl.lockf(open(name, "a"), fcntl.LOCK_EX)' || give_up PACKAGES_LOCKED "another installation did not end in 10 min"
    export DEBIAN_FRONTEND=noninteractive
    apt-get -o DPkg::Lock::Timeout=$lock -qq update
    apt-get -o DPkg::Lock::Timeout=$lock -qq install -y --no-install-recommends "$@"
}

driver() { # for GPUs that no newer branch has, on an image without one
    packages "linux-headers-$(uname -r)" "nvidia-headless-$branch-server" "nvidia-utils-$branch-server" || return 1
    modprobe nvidia && nvidia-smi
}

only_nvidias() { # FOLDER KEYRING: of the keys in FOLDER/key the one of this fingerprint; none of the others is trusted
    gpg -q --batch --homedir "$1" --import "$1/key" 2>/dev/null
    gpg -q --batch --homedir "$1" --export C95B321B61E88C1809C4F759DDCAE044F796ECB0 >"$2"
    [ -s "$2" ]
}

toolkit() {
    place=https://nvidia.github.io/libnvidia-container
    key=$keyrings/nvidia-container-toolkit.gpg
    got=$(mktemp -d)
    mkdir -p $keyrings
    command -v gpg >/dev/null || packages gnupg
    python3 -c 'import sys, urllib.request
open(sys.argv[2], "wb").write(urllib.request.urlopen(sys.argv[1], timeout=60).read())' "$place/gpgkey" "$got/key" || return 1
    only_nvidias "$got" "$key" || give_up NOT_NVIDIAS_KEY "$place/gpgkey is not the key of NVIDIA that is pinned here"
    echo "deb [signed-by=$key] $place/stable/deb/$(dpkg --print-architecture) /" \
        >/etc/apt/sources.list.d/nvidia-container-toolkit.list
    packages nvidia-container-toolkit
}

# With systemd's own control groups a daemon-reload takes the GPU away from running containers.
control_groups() {
    mkdir -p /etc/docker
    python3 - <<'EOF'
import json, pathlib
path = pathlib.Path("/etc/docker/daemon.json")
try:
    now = json.loads(path.read_text())
except (OSError, ValueError):
    now = {}
others = [word for word in now.get("exec-opts", []) if not word.startswith("native.cgroupdriver=")]
path.write_text(json.dumps({**now, "exec-opts": [*others, "native.cgroupdriver=cgroupfs"]}, indent=1))
EOF
}

[ "$(date +%s)" -lt @DEADLINE@ ] || exit 0
crashes=/var/lib/trainplan/crashes
[ ! -e $crashes ] || [ "$(wc -l <$crashes)" -lt 3 ] ||
    give_up MACHINE_CRASHES "three times in a row the machine went down before the next checkpoint"
refused_at=0
while :; do
    python3 $here/fetch.py /etc/trainplan/boot.json \
        attempts/@ATTEMPT@/machine/@AGENT@ @AGENT_SHA256@ "$agent" \
        attempts/@ATTEMPT@/machine/spec.json @SPEC_SHA256@ $here/spec.json
    case $? in
    0) break ;;
    3) give_up NOT_WHAT_WAS_SENT "the run directory holds another agent than this machine was promised" ;;
    4) # a new right may be on its way (0 seconds: it is always waited for)
        [ "$refused_at" -gt 0 ] || refused_at=$(date +%s)
        [ "$patience" -eq 0 ] || [ $(($(date +%s) - refused_at)) -lt "$patience" ] ||
            give_up STORE_REFUSED "this machine may not read its run directory" ;;
    *) refused_at=0 ;;
    esac
    sleep 5
done
@MOUNT@command -v docker >/dev/null || packages docker.io apparmor || give_up DOCKER_NOT_INSTALLED "Docker could not be installed"
if [ -n "$branch" ] && ! command -v nvidia-smi >/dev/null; then
    driver || give_up DRIVER_NOT_INSTALLED "NVIDIA's driver $branch could not be installed"
fi
if command -v nvidia-smi >/dev/null; then
    command -v nvidia-ctk >/dev/null || toolkit || give_up TOOLKIT_NOT_INSTALLED "NVIDIA's container toolkit is missing"
    nvidia-ctk runtime configure --runtime=docker
fi
control_groups || give_up DOCKER_NOT_READY "Docker could not be set up"
systemctl restart docker
tries=30
until docker info >/dev/null 2>&1; do
    tries=$((tries - 1))
    [ "$tries" -gt 0 ] || give_up DOCKER_NOT_READY "Docker does not answer"
    sleep 2
done
exec python3 -u "$agent" run
