package conf

import (
	"errors"
	"fmt"
	"math"
	"net"
	"strconv"
	"strings"
)

// errMemberForm is the message for a server line of another shape.
var errMemberForm = errors.New(
	"wanted host:peerPort:electionPort[:participant|observer][|more addresses][;[clientHost:]clientPort]")

// parseMember reads the value of a server line as ZooKeeper's QuorumPeer.QuorumServer does; several addresses only with
// multiAddress. An empty host is localhost.
func parseMember(id int64, line string, multiAddress bool) (Member, error) {
	m := Member{ID: id}
	halves := splitJava(line, ";")
	if len(halves) == 0 || len(halves) > 2 {
		return Member{}, errMemberForm
	}
	addresses := splitJava(halves[0], "|")
	if len(addresses) > 1 && !multiAddress {
		return Member{}, errors.New("several addresses need multiAddress.enabled=true")
	}
	role := ""
	for _, text := range addresses {
		address, itsRole, err := parsePeerAddress(text)
		if err != nil {
			return Member{}, err
		}
		if itsRole != "" && role != "" && itsRole != role {
			return Member{}, errors.New("all addresses must have the same role")
		}
		role = max(role, itsRole)
		m.Addresses = append(m.Addresses, address)
	}
	if len(m.Addresses) == 0 {
		return Member{}, errMemberForm
	}
	m.Observer = role == "observer"
	if len(halves) == 2 {
		var err error
		if m.ClientAddr, err = parseClientPart(halves[1]); err != nil {
			return Member{}, err
		}
	}
	return m, nil
}

// parsePeerAddress reads host:peerPort:electionPort with an optional role, which is returned in small letters.
func parsePeerAddress(text string) (address PeerAddress, role string, err error) {
	fields, err := splitAddress(text)
	if err != nil {
		return PeerAddress{}, "", err
	}
	if len(fields) < 3 || len(fields) > 4 {
		return PeerAddress{}, "", errMemberForm
	}
	if address.Host, err = parseHost(fields[0]); err != nil {
		return PeerAddress{}, "", err
	}
	if address.PeerPort, err = parsePort("peer port", fields[1]); err != nil {
		return PeerAddress{}, "", err
	}
	if address.ElectionPort, err = parsePort("election port", fields[2]); err != nil {
		return PeerAddress{}, "", err
	}
	if address.PeerPort == address.ElectionPort {
		return PeerAddress{}, "", errors.New("peer port and election port must differ")
	}
	if len(fields) == 4 {
		role = strings.ToLower(trimJava(fields[3]))
		if role != "participant" && role != "observer" {
			return PeerAddress{}, "", fmt.Errorf("the role must be participant or observer, not %q", fields[3])
		}
	}
	return address, role, nil
}

// parseClientPart reads [clientHost:]clientPort and returns host:port.
func parseClientPart(text string) (string, error) {
	fields, err := splitAddress(text)
	if err != nil {
		return "", err
	}
	if len(fields) == 0 || len(fields) > 2 {
		return "", errMemberForm
	}
	host := "0.0.0.0"
	if len(fields) == 2 {
		if host, err = parseHost(fields[0]); err != nil {
			return "", err
		}
	}
	number, err := parsePort("client port", fields[len(fields)-1])
	if err != nil {
		return "", err
	}
	return net.JoinHostPort(host, strconv.Itoa(int(number))), nil
}

// parseHost reads a host. What no host has would be the end of the line, or another line, where the members are kept
// (storage/ensemble).
func parseHost(text string) (string, error) {
	odd := func(r rune) bool { return r <= ' ' || r == 0x7f || r == '[' || r == '\\' }
	if strings.ContainsFunc(text, odd) {
		return "", fmt.Errorf("a host must not have a blank, a control character, a bracket or a backslash: %q", text)
	}
	return orLocalhost(text), nil
}

// splitAddress splits at colons, but for a first field in brackets, which lose them (ConfigUtils.getHostAndPort).
func splitAddress(text string) ([]string, error) {
	inside, bracketed := strings.CutPrefix(text, "[")
	if !bracketed {
		return splitJava(text, ":"), nil
	}
	host, rest, closed := strings.Cut(inside, "]")
	if !closed {
		return nil, errors.New("the bracket [ is not closed")
	}
	if rest == "" {
		return []string{host}, nil
	}
	ports, ok := strings.CutPrefix(rest, ":")
	if !ok || ports == "" {
		return nil, errors.New("wanted a colon and a port after the bracket ]")
	}
	return append([]string{host}, splitJava(ports, ":")...), nil
}

// splitJava splits as Java's String.split does, which drops empty parts at the end.
func splitJava(s, separator string) []string {
	parts := strings.Split(s, separator)
	for len(parts) > 0 && parts[len(parts)-1] == "" {
		parts = parts[:len(parts)-1]
	}
	return parts
}

// parsePort reads a port; what names it in the error.
func parsePort(what, s string) (uint16, error) {
	n, ok := parseDecimal(s)
	if !ok || n < 0 || n > math.MaxUint16 {
		return 0, fmt.Errorf("the %s must be a number from 0 to 65535, not %q", what, s)
	}
	return uint16(n), nil
}

// parseGroup reads the ids of a group line.
func parseGroup(s string) ([]int64, bool) {
	var ids []int64
	for _, part := range splitJava(s, ":") {
		id, ok := parseDecimal(part)
		if !ok {
			return nil, false
		}
		ids = append(ids, id)
	}
	return ids, len(ids) > 0
}
