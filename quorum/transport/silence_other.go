//go:build !linux

package transport

import "net"

// boundSilence leaves the silence of a connection to the minder: only Linux has TCP_USER_TIMEOUT.
func (t *Transport) boundSilence(net.Conn) {}
