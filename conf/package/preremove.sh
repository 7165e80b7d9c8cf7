#!/bin/sh
# Runs before zkd is removed or upgraded, by dpkg ("remove", "upgrade") and by rpm (0 is a removal, 1 an upgrade).
set -e

case "${1:-}" in
remove | 0)
	if [ -d /run/systemd/system ]; then
		systemctl disable --now zkd.service || true
	fi
	;;
esac
