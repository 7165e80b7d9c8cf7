package conf

import (
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// joinPort returns addr with port number in place of its port. addr may be empty.
func joinPort(addr string, number int64) string {
	host, _ := splitHostPort(addr)
	return net.JoinHostPort(host, strconv.FormatInt(number, 10))
}

// joinHost returns addr with host in place of its host. host may have brackets, addr may be empty.
func joinHost(host, addr string) string {
	_, number := splitHostPort(addr)
	if inner, ok := strings.CutPrefix(host, "["); ok {
		host = strings.TrimSuffix(inner, "]")
	}
	return net.JoinHostPort(host, number)
}

// orLocalhost is host, or localhost when it is empty. Quirk: InetAddress.getByName of an empty name is the loopback
// address, so ZooKeeper listens there when an address is given and empty.
func orLocalhost(host string) string {
	if host == "" {
		return "localhost"
	}
	return host
}

// splitHostPort splits what joinPort and joinHost made; both halves are empty when addr is.
func splitHostPort(addr string) (host, number string) {
	host, number, err := net.SplitHostPort(addr)
	if err != nil {
		return "", ""
	}
	return host, number
}

// isWildcard tells whether host means every address of the machine.
func isWildcard(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "" || (err == nil && ip.IsUnspecified())
}

// sameHost tells whether two hosts are certainly or possibly the same: names are not resolved, so only two different IP
// addresses are known to differ.
func sameHost(a, b string) bool {
	ipA, errA := netip.ParseAddr(a)
	ipB, errB := netip.ParseAddr(b)
	if errA != nil || errB != nil {
		return true
	}
	return ipA.Unmap() == ipB.Unmap()
}

// canonicalHost writes a host so that two spellings of one address are equal: IP addresses in their shortest form,
// names in small letters.
func canonicalHost(host string) string {
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Unmap().String()
	}
	return asciiLower(host)
}
