mkdir -p /etc/systemd/system/multi-user.target.wants
ln -sf ../trainplan.service /etc/systemd/system/multi-user.target.wants/trainplan.service
systemctl daemon-reload
systemctl --no-block start trainplan.service
