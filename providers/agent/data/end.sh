#!/bin/sh
# end.sh deadline|boot|crashes|after: ends this machine. The agent knows how where a power-off is not enough; then the power goes.
here=/usr/local/lib/trainplan
# A restart of the machine is not its end.
if [ "$1" = after ] && [ "$(systemctl is-system-running)" = stopping ]; then
    rm -f /var/lib/trainplan/up
    exit 0
fi
limit=280
[ "$1" != after ] || limit=2400 # a role may be late by half an hour, and the deadline's own timer stands behind it
[ ! -s $here/@AGENT@ ] || [ ! -s $here/spec.json ] || timeout $limit python3 $here/@AGENT@ end "$1"
sync & # it cannot be killed while a disk does not answer
sleep 5
systemctl --no-block poweroff
sleep 55
systemctl poweroff -ff &
sleep 10
# In a container the kernel's own switch is that of somebody else's machine.
if systemd-detect-virt --quiet --container; then
    wait
    exit 0
fi
echo 1 >/proc/sys/kernel/sysrq
echo o >/proc/sysrq-trigger
