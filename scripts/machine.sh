#!/bin/sh
# machine.sh: makes the disk of a machine that QEMU boots: Debian 12 with its cloud kernel, cloud-init and Docker.
# Root, Debian. What it makes lies in .build/machine/HASH (printed at the end), by the hash of this file: made once.
set -eu
cd "$(dirname "$0")/.."
packages=linux-image-cloud-amd64,systemd,systemd-sysv,udev,dbus,kmod,util-linux,e2fsprogs,cloud-init,python3
packages=$packages,iptables,iproute2,isc-dhcp-client,ifupdown,netbase,ca-certificates,docker.io,apparmor
place=.build/machine/$(sha256sum "$0" | cut -c1-16)
say() { printf 'machine: %s\n' "$*" >&2; }

for program in qemu-system-x86_64 mmdebstrap mkfs.ext4; do
    command -v "$program" >/dev/null && continue
    say "installing QEMU and mmdebstrap"
    DEBIAN_FRONTEND=noninteractive apt-get -qq update >&2
    DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends qemu-system-x86 mmdebstrap e2fsprogs >&2
    break
done
if [ ! -s "$place/disk.ext4" ]; then
    say "making the disk, in some minutes"
    made=$place.new
    rm -rf "$made"
    mkdir -p "$made/root"
    mmdebstrap --quiet --variant=minbase --components=main --include="$packages" bookworm "$made/root.tar"
    tar -xf "$made/root.tar" -C "$made/root" --exclude='./dev/*'
    cp "$made"/root/boot/vmlinuz-* "$made/vmlinuz"
    cp "$made"/root/boot/initrd.img-* "$made/initrd"
    truncate -s 3G "$made/disk.ext4"
    mkfs.ext4 -q -F -L root -d "$made/root" "$made/disk.ext4"
    rm -rf "$made/root" "$made/root.tar" "$place"
    mv "$made" "$place"
fi
echo "$place"
