#!/bin/sh
# Runs after zkd was removed or upgraded. The data and the user that owns it are left: only the operator can know that
# nobody needs them any more.
set -e

if [ -d /run/systemd/system ]; then
	systemctl daemon-reload || true
fi
case "${1:-}" in
purge | 0)
	if [ -d /var/lib/zkd ]; then
		echo "zkd: the data is left in /var/lib/zkd"
	fi
	;;
esac
