//go:build !linux

package transport

import "net"

// boundSilence leaves the silence of a connection to the supervisor: only Linux has TCP_USER_TIMEOUT.
func boundSilence(net.Conn, *Options) {}

// boundUnsent is nothing here: a small frame waits behind all that the system has taken.
func boundUnsent(net.Conn, *Options) {}
