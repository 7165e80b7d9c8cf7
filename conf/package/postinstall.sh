#!/bin/sh
# Runs after zkd was installed or upgraded, by dpkg ("configure") and by rpm (1 is an install, 2 an upgrade).
set -e

case "${1:-}" in
abort-*) exit 0 ;;
esac

# The user: by systemd where it is and can, which reads sysusers.d, else by hand.
if ! command -v systemd-sysusers >/dev/null 2>&1 || ! systemd-sysusers zkd.conf; then
	if ! getent passwd zkd >/dev/null 2>&1; then
		getent group zkd >/dev/null 2>&1 || groupadd --system zkd
		useradd --system --gid zkd --home-dir /var/lib/zkd --no-create-home --shell /usr/sbin/nologin zkd
	fi
fi

# The folder for the data; what is in it is left as it is. systemd-tmpfiles fails without /proc, as in an image that is
# being built.
if command -v systemd-tmpfiles >/dev/null 2>&1; then
	systemd-tmpfiles --create zkd.conf 2>/dev/null || true
fi
if [ ! -d /var/lib/zkd ]; then
	mkdir -m 0750 /var/lib/zkd
	chown zkd:zkd /var/lib/zkd
fi

if [ -d /run/systemd/system ]; then
	systemctl daemon-reload || true
fi

# Neither started nor restarted: the members of an ensemble need their configuration first, and are restarted one after
# the other.
case "${1:-}:${2:-}" in
configure: | 1:)
	echo "zkd: edit /etc/zkd/zoo.cfg, then: systemctl enable --now zkd" ;;
*)
	echo "zkd: the new version runs after: systemctl restart zkd (one server of an ensemble at a time)" ;;
esac
