# At every boot, before anything else: this machine ends at its deadline, and at its boot deadline unless it trains.
here=/usr/local/lib/trainplan
units=/etc/systemd/system
mkdir -p "$here" "$units/timers.target.wants"
for unit in apt-daily.timer apt-daily-upgrade.timer apt-daily.service apt-daily-upgrade.service \
    unattended-upgrades.service; do
    ln -sf /dev/null "$units/$unit"
done
arm() { # NAME WHEN CONDITION
    cat >"$units/trainplan-$1.service" <<EOF
[Unit]
Description=trainplan: the $1 ends this machine
DefaultDependencies=no
[Service]
Type=oneshot
TimeoutStartSec=infinity
ExecStart=/bin/sh -c '$3 timeout 300 sh $here/end.sh $1; systemctl poweroff -ff'
EOF
    cat >"$units/trainplan-$1.timer" <<EOF
[Unit]
Description=trainplan: the $1
DefaultDependencies=no
[Timer]
OnCalendar=$2
AccuracySec=1s
EOF
    ln -sf "../trainplan-$1.timer" "$units/timers.target.wants/trainplan-$1.timer"
}
arm deadline '@DEADLINE_UTC@' ''
arm boot '@BOOT_DEADLINE_UTC@' '[ ! -e /var/lib/trainplan/running ] || exit 0;'
systemctl daemon-reload
systemctl --no-block start trainplan-deadline.timer trainplan-boot.timer
# A date that has passed never comes again.
now=$(date +%s)
[ "$now" -lt @DEADLINE@ ] || systemctl --no-block start trainplan-deadline.service
[ "$now" -lt @BOOT_DEADLINE@ ] || systemctl --no-block start trainplan-boot.service
