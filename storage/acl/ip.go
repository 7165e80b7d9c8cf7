package acl

import (
	"strconv"
	"strings"
)

// address is an IPv4 address in its first 4 bytes, or an IPv6 address in all 16.
type address struct {
	bytes [16]byte
	size  int
}

// ipMatches reports whether the address id is in the address or network that expr names
// (org.apache.zookeeper.server.auth.IPAuthenticationProvider.matches). The two families never match each other.
func ipMatches(id, expr string) bool {
	if id == expr && !strings.Contains(id, "/") {
		_, ok := parseAddress(id)
		return ok
	}
	network, bits, ok := parseIPExpr(expr)
	if !ok {
		return false
	}
	remote, ok := parseAddress(id)
	if !ok || remote.size != network.size {
		return false
	}
	for i := range network.size {
		mask := byte(0xff)
		if left := bits - 8*i; left <= 0 {
			break
		} else if left < 8 {
			mask <<= 8 - left
		}
		if (network.bytes[i]^remote.bytes[i])&mask != 0 {
			return false
		}
	}
	return true
}

// parseIPExpr reads "address" or "address/bits" (IPAuthenticationProvider.isValid).
func parseIPExpr(expr string) (network address, bits int, ok bool) {
	addr, prefix, found := strings.Cut(expr, "/")
	network, ok = parseAddress(addr)
	if !ok {
		return network, 0, false
	}
	bits = 8 * network.size
	if found {
		n, err := strconv.ParseInt(prefix, 10, 32)
		if err != nil || n < 0 || int(n) > bits {
			return network, 0, false
		}
		bits = int(n)
	}
	return network, bits, true
}

// parseAddress reads an address of either family (IPAuthenticationProvider.addr2Bytes).
func parseAddress(addr string) (address, bool) {
	if strings.Contains(addr, ":") {
		return parseIPv6(addr)
	}
	return parseIPv4(addr)
}

// parseIPv4 reads four numbers up to 255. Quirk: as Java's Integer.parseInt does, it takes leading zeros and signs.
func parseIPv4(addr string) (a address, ok bool) {
	a.size = 4
	for i := range 4 {
		part, rest, found := strings.Cut(addr, ".")
		if found != (i < 3) {
			return a, false
		}
		v, err := strconv.ParseInt(part, 10, 32)
		if err != nil || v < 0 || v > 255 {
			return a, false
		}
		a.bytes[i] = byte(v)
		addr = rest
	}
	return a, true
}

// ipv6Segments is the number of 16-bit parts of an IPv6 address.
const ipv6Segments = 8

// parseIPv6 reads eight hexadecimal parts, of which "::" may stand for one or more
// (IPAuthenticationProvider.parseV6addr). There is no form that ends in an IPv4 address.
func parseIPv6(addr string) (a address, ok bool) {
	a.size = 16
	head, tail, compressed := strings.Cut(addr, "::")
	if !compressed {
		return a, strings.Count(addr, ":") == ipv6Segments-1 && parseSegments(a.bytes[:], addr)
	}
	if strings.Contains(tail, "::") {
		return a, false
	}
	headSegments, tailSegments := countSegments(head), countSegments(tail)
	if headSegments+tailSegments >= ipv6Segments {
		return a, false
	}
	return a, parseSegments(a.bytes[:], head) && parseSegments(a.bytes[2*(ipv6Segments-tailSegments):], tail)
}

// countSegments returns the number of parts between the colons of s.
func countSegments(s string) int {
	if s == "" {
		return 0
	}
	return strings.Count(s, ":") + 1
}

// parseSegments writes the parts of s to dst, which has room for them. Quirk: Java takes a sign in a part.
func parseSegments(dst []byte, s string) bool {
	for s != "" {
		segment, rest, found := strings.Cut(s, ":")
		if found && rest == "" {
			return false
		}
		v, err := strconv.ParseInt(segment, 16, 32)
		if err != nil || len(segment) > 4 {
			return false
		}
		dst[0], dst[1] = byte(v>>8), byte(v)
		dst, s = dst[2:], rest
	}
	return true
}
