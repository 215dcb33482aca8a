#!/bin/sh
# Mounts the data disk where data is fetched and unpacked, at every boot. It is formatted once, and only while it is
# blank: no partition, no file system, nothing mounted.
root=/var/lib/trainplan
at=$root/data-disk
label=trainplan-data
least=@DATA_DISK_BYTES@

is_blank() { # DEVICE
    [ "$(lsblk -bdno SIZE "$1")" -ge "$least" ] && [ "$(lsblk -no NAME "$1" | wc -l)" -eq 1 ] && [ -z "$(wipefs -n "$1")" ]
}

formatted() { # the device with the label, made first where there is none
    blkid -L $label && return
    for device in /dev/sd? /dev/nvme?n?; do
        if [ -b "$device" ] && is_blank "$device"; then
            mkfs.ext4 -q -F -m 0 -L $label "$device" && echo "$device"
            return
        fi
    done
    return 1
}

tries=60 # five minutes
until device=$(formatted); do
    tries=$((tries - 1))
    [ "$tries" -gt 0 ] || exit 1
    sleep 5
done
mkdir -p $at
mountpoint -q $at || mount -o discard,noatime "$device" $at || exit 1
for folder in data spool/fetched; do
    mkdir -p "$at/$folder" "$root/$folder"
    mountpoint -q "$root/$folder" || mount --bind "$at/$folder" "$root/$folder" || exit 1
done
