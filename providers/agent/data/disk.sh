#!/bin/sh
# Mounts the data disk where data is fetched and unpacked, at every boot. It is formatted once, and only while it is
# blank: large enough, no partition, no file system, zeros at its beginning. A disk that this attempt has formatted is known
# by the id of its file system. Where there is none to mount, standard output says why.
root=/var/lib/trainplan
at=$root/data-disk
id=@DATA_DISK_ID@
least=@DATA_DISK_BYTES@

fail() { # WHY
    echo "$1"
    exit 1
}

format_blank() { # DEVICE: formats it where it is blank; else tells why not
    bytes=$(lsblk -bdno SIZE "$1")
    if ! signatures=$(wipefs -n "$1"); then
        echo "cannot be read"
    elif [ "$(lsblk -no NAME "$1" | wc -l)" -ne 1 ]; then
        echo "has partitions"
    elif [ -n "$signatures" ]; then
        echo "holds a file system or a table of partitions"
    elif [ "$bytes" -lt "$least" ]; then
        echo "has $bytes bytes of $least"
    elif ! cmp -s -n 1048576 "$1" /dev/zero; then
        echo "does not begin with zeros"
    else
        mkfs.ext4 -q -F -m 0 -L trainplan-data -U $id "$1" >&2 || echo "cannot be formatted"
    fi
}

find_disk() { # sets `device`, formatted first where it is blank; else `refused`: why none of those that are there is taken
    refused=
    device=$(blkid -U $id) && return
    for device in /dev/sd? /dev/nvme?n?; do
        [ -b "$device" ] || continue
        ! lsblk -no MOUNTPOINT "$device" | grep -q . || continue # it is the machine's own
        why=$(format_blank "$device")
        [ -n "$why" ] || return 0
        refused="${refused:+$refused, }$device $why"
    done
    return 1
}

tries=0
until find_disk; do
    tries=$((tries + 1))
    # Five minutes for a disk to come. Where one has come that is refused, half a minute for another.
    limit=60
    [ -z "$refused" ] || limit=6
    [ $tries -lt $limit ] || fail "there is no blank disk for the data: ${refused:-none is attached}"
    sleep 5
done
mkdir -p $at
mountpoint -q $at || mount -o discard,noatime "$device" $at || fail "the data disk $device cannot be mounted"
for folder in data spool/fetched; do
    mkdir -p "$at/$folder" "$root/$folder"
    mountpoint -q "$root/$folder" || mount --bind "$at/$folder" "$root/$folder" ||
        fail "the data disk $device cannot be mounted at $root/$folder"
done
