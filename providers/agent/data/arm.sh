# At every boot, before anything else: this machine ends at its deadline, and at its boot deadline unless it trains.
here=/usr/local/lib/trainplan
units=/etc/systemd/system
state=/var/lib/trainplan
mkdir -p "$here" $state "$units/timers.target.wants"
for unit in apt-daily.timer apt-daily-upgrade.timer apt-daily.service apt-daily-upgrade.service \
    unattended-upgrades.service; do
    ln -sf /dev/null "$units/$unit"
done
arm() { # NAME WHEN CONDITION
    cat >"$units/trainplan-$1.service" <<EOF
[Unit]
Description=trainplan: $1
DefaultDependencies=no
[Service]
Type=oneshot
TimeoutStartSec=infinity
ExecStart=/bin/sh -c '$3 timeout 300 sh $here/end.sh $1; systemctl poweroff -ff'
EOF
    cat >"$units/trainplan-$1.timer" <<EOF
[Unit]
Description=trainplan: $1
DefaultDependencies=no
[Timer]
OnCalendar=$2
AccuracySec=1s
EOF
    ln -sf "../trainplan-$1.timer" "$units/timers.target.wants/trainplan-$1.timer"
}
# The last switch, in memory. Not in a container, whose kernel is somebody else's.
echo @SWITCH@ | base64 -d | gzip -d >"$here/switch.py"
cat >"$units/trainplan-switch.service" <<EOF
[Unit]
Description=trainplan: last switch
DefaultDependencies=no
ConditionVirtualization=!container
[Service]
ExecStart=@/usr/bin/python3 @trainplan-switch -IS $here/switch.py @DEADLINE@ @BOOT_DEADLINE@ @ASKED@
OOMScoreAdjust=-1000
Restart=always
EOF
ln -sf ../trainplan-switch.service "$units/timers.target.wants/trainplan-switch.service"
# A kernel that has crashed or hangs is started again; the third time in a row start.sh ends the machine.
# A report of RCU, after 21 s on Debian, would put off that of the hang.
systemd-detect-virt -qc || (cd /proc/sys/kernel && echo 5 >panic && echo 20 >watchdog_thresh && echo 1 >softlockup_panic &&
    echo 60 >/sys/module/rcupdate/parameters/rcu_cpu_stall_timeout) 2>/dev/null
[ ! -e $state/up ] || echo crashed >>$state/crashes
: >$state/up
arm deadline '@DEADLINE_UTC@' ''
arm boot '@BOOT_DEADLINE_UTC@' "[ ! -e $state/running ] || exit 0;"
systemctl daemon-reload
systemctl --no-block start trainplan-switch trainplan-deadline.timer trainplan-boot.timer
# A crash within the next half minute is counted too; a disk that does not answer holds up nothing.
[ ! -e $state/crashes ] || {
    sync $state/crashes $state >/dev/null 2>&1 &
    n=$(wc -l <$state/crashes)
    # Off it may bill on (Azure, a TPU's node): the agent, where an earlier boot has fetched it, deletes it. Only once.
    [ "$n" -ne 4 ] || timeout 300 sh $here/end.sh crashes
    [ "$n" -lt 4 ] || systemctl poweroff -ff
}
# A date that has passed never comes again.
now=$(date +%s)
[ "$now" -lt @DEADLINE@ ] || systemctl --no-block start trainplan-deadline.service
[ "$now" -lt @BOOT_DEADLINE@ ] || systemctl --no-block start trainplan-boot.service
