package shell

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
)

// usualPort is ZooKeeper's for clients.
const usualPort = "2181"

// ParseConnect reads what zkCli's -server takes: host:port,host:port/chroot. A host without a port has the usual one.
func ParseConnect(text string) (servers []string, chroot string, err error) {
	hosts, chroot := text, ""
	if at := strings.IndexByte(text, '/'); at >= 0 {
		hosts, chroot = text[:at], text[at:]
	}
	if chroot == "/" {
		chroot = ""
	}
	if chroot != "" {
		if err := checkPath(chroot); err != nil {
			return nil, "", fmt.Errorf("chroot of %q: %w", text, err)
		}
	}
	for each := range strings.SplitSeq(hosts, ",") {
		if each = strings.TrimSpace(each); each == "" {
			continue
		}
		address, err := withPort(each)
		if err != nil {
			return nil, "", err
		}
		servers = append(servers, address)
	}
	if len(servers) == 0 {
		return nil, "", fmt.Errorf("%q names no server: want host:port,host:port/chroot", text)
	}
	return servers, chroot, nil
}

// withPort is an address with a port, of one that may have none, or a colon at its end. One of IPv6 stands in brackets
// if it has a port.
func withPort(text string) (string, error) {
	host, port := strings.TrimSuffix(text, ":"), usualPort
	switch {
	case strings.HasPrefix(text, "["):
		inside, behind, ok := strings.Cut(text[1:], "]")
		if !ok || behind != "" && behind[0] != ':' {
			return "", fmt.Errorf("server %q: want [address]:port", text)
		}
		host = inside
		if len(behind) > 1 {
			port = behind[1:]
		}
	case strings.Count(text, ":") == 1 && !strings.HasSuffix(text, ":"):
		host, port, _ = strings.Cut(text, ":")
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", fmt.Errorf("server %q: %q is no port", text, port)
	}
	if host == "" {
		return "", errors.New("server " + strconv.Quote(text) + " has no host")
	}
	return net.JoinHostPort(host, port), nil
}
