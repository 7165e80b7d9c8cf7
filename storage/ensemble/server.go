package ensemble

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"sort"
	"strconv"
	"strings"

	"zkd/storage/serverid"
)

// Server is one server of an ensemble (org.apache.zookeeper.server.quorum.QuorumPeer.QuorumServer).
type Server struct {
	ID        uint64    // by which raft knows it; its line has its number (package serverid)
	Addresses []Address // at least one, sorted by host
	Observer  bool
	// ClientAddr is where clients connect, host:port with brackets around an IPv6 host; "" if the configuration does
	// not say.
	ClientAddr string
}

// Address is one of the addresses under which the other servers reach a server.
type Address struct {
	Host         string // a name or an IP address, as Java writes it, without brackets
	Port         uint16 // for the quorum
	ElectionPort uint16
}

// PeerAddresses are where the other servers reach the server, host:port.
func (s *Server) PeerAddresses() []string {
	found := make([]string, 0, len(s.Addresses))
	for _, a := range s.Addresses {
		found = append(found, bracketed(a.Host)+":"+strconv.Itoa(int(a.Port)))
	}
	return found
}

// String returns the value of the server's line.
func (s *Server) String() string {
	var b strings.Builder
	for i, a := range s.Addresses {
		if i > 0 {
			b.WriteByte('|')
		}
		fmt.Fprintf(&b, "%s:%d:%d", bracketed(a.Host), a.Port, a.ElectionPort)
	}
	if s.Observer {
		b.WriteString(":observer")
	} else {
		b.WriteString(":participant")
	}
	if s.ClientAddr != "" {
		b.WriteString(";" + s.ClientAddr)
	}
	return b.String()
}

// serverForm is what the value of a server's line looks like.
const serverForm = "wanted host:port:electionPort[:participant|observer][|more addresses][;[clientHost:]clientPort]"

// parseServer reads the value of the line of the server with this number (QuorumServer.initializeWithAddressString).
func parseServer(digits, value string, rules Rules) (Server, *refusal) {
	number, ok := parseLong(digits)
	if !ok {
		return Server{}, notANumber("id of a server", digits)
	}
	halves := split(value, ";")
	if len(halves) == 0 {
		return Server{}, unexpected(serverForm)
	}
	s := Server{ID: serverid.Of(number)}
	if len(halves) == 2 {
		var refused *refusal
		if s.ClientAddr, refused = parseClientAddr(halves[1]); refused != nil {
			return Server{}, refused
		}
	}
	addresses := split(halves[0], "|")
	if len(addresses) > 1 && !rules.MultiAddress {
		return Server{}, badArguments("several addresses of a server need multiAddress.enabled=true")
	}
	if len(addresses) > addressesMax {
		return Server{}, badArguments(fmt.Sprintf("a server may have at most %d addresses", addressesMax))
	}
	if len(halves) > 2 || len(addresses) == 0 {
		return Server{}, badArguments(serverForm)
	}
	role := ""
	for _, text := range addresses {
		a, itsRole, refused := parseAddress(text)
		if refused != nil {
			return Server{}, refused
		}
		if role != "" && itsRole != "" && role != itsRole {
			return Server{}, badArguments("all addresses of a server must have the same role")
		}
		role = max(role, itsRole)
		s.Addresses = append(s.Addresses, a)
	}
	switch {
	case number <= 0 && !rules.AnyNumber:
		return Server{}, badArguments(fmt.Sprintf("the id of a server must be positive, not %d, as long as there are "+
			"members of zkd that know no other", number))
	case s.ID == serverid.None:
		return Server{}, badArguments(fmt.Sprintf("no server may have the id %d", number))
	}
	sort.Slice(s.Addresses, func(i, j int) bool {
		a, b := &s.Addresses[i], &s.Addresses[j]
		return a.Host < b.Host || a.Host == b.Host && a.Port < b.Port
	})
	s.Addresses = slices.Compact(s.Addresses)
	s.Observer = role == roleObserver
	return s, nil
}

// The roles of servers, as they stand in a line.
const (
	roleObserver    = "observer"
	roleParticipant = "participant"
)

// parseAddress reads host:port:electionPort with an optional role.
func parseAddress(text string) (a Address, role string, refused *refusal) {
	fields, refused := splitAddress(text)
	if refused != nil {
		return Address{}, "", refused
	}
	if len(fields) < 3 || len(fields) > 4 {
		return Address{}, "", badArguments(serverForm)
	}
	if a.Host, refused = parseHost(fields[0]); refused != nil {
		return Address{}, "", refused
	}
	if a.Port, refused = parsePort(fields[1]); refused != nil {
		return Address{}, "", refused
	}
	if a.ElectionPort, refused = parsePort(fields[2]); refused != nil {
		return Address{}, "", refused
	}
	if a.Port == a.ElectionPort {
		return Address{}, "", badArguments("port and election port of a server must differ")
	}
	if len(fields) == 4 {
		role = strings.ToLower(strings.TrimFunc(fields[3], func(r rune) bool { return r <= ' ' }))
		if role != roleObserver && role != roleParticipant {
			return Address{}, "", badArguments(fmt.Sprintf("the role must be %s or %s, not %q", roleParticipant,
				roleObserver, fields[3]))
		}
	}
	return a, role, nil
}

// parseClientAddr reads [host:]port and returns host:port.
func parseClientAddr(text string) (string, *refusal) {
	fields, refused := splitAddress(text)
	switch {
	case refused != nil:
		return "", refused
	case len(fields) == 0:
		return "", unexpected(serverForm)
	case len(fields) > 2:
		return "", badArguments(serverForm)
	}
	host := "0.0.0.0"
	if len(fields) == 2 {
		if host, refused = parseHost(fields[0]); refused != nil {
			return "", refused
		}
	}
	port, refused := parsePort(fields[len(fields)-1])
	if refused != nil {
		return "", refused
	}
	return bracketed(host) + ":" + strconv.Itoa(int(port)), nil
}

// splitAddress splits at colons, but for a first field in brackets, which lose them (ConfigUtils.getHostAndPort).
func splitAddress(text string) ([]string, *refusal) {
	inside, ok := strings.CutPrefix(text, "[")
	if !ok {
		return split(text, ":"), nil
	}
	host, rest, closed := strings.Cut(inside, "]")
	switch {
	case !closed:
		return nil, badArguments("a bracket [ is not closed")
	case rest == "":
		return []string{host}, nil
	case len(rest) == 1:
		return nil, badArguments("there is no port after a bracket ]")
	}
	// Quirk: whatever stands between the bracket and the port counts as a colon.
	return append([]string{host}, split(rest[1:], ":")...), nil
}

// split splits as Java's String.split does, which drops empty parts at the end, unless there is nothing to split.
func split(s, separator string) []string {
	parts := strings.Split(s, separator)
	for len(parts) > 0 && parts[len(parts)-1] == "" && s != "" {
		parts = parts[:len(parts)-1]
	}
	return parts
}

// portForm says what a port must be.
const portForm = "a port must be a number from 0 to 65535, not %q"

// parsePort reads a port. Quirk: ZooKeeper checks that it is a number, and fails unawares if it is not a port.
func parsePort(s string) (uint16, *refusal) {
	n, ok := parseLong(s)
	switch {
	case !ok || n != int64(int32(n)):
		return 0, badArguments(fmt.Sprintf(portForm, s))
	case n < 0 || n > math.MaxUint16:
		return 0, unexpected(fmt.Sprintf(portForm, s))
	}
	return uint16(n), nil
}

// parseLong reads a decimal number as Long.parseLong does.
func parseLong(s string) (int64, bool) {
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}

// parseHost reads a host. What would not be read again as it was written is refused: a line break would end the line of
// the server, and nobody could read the configuration any more.
func parseHost(text string) (string, *refusal) {
	odd := func(r rune) bool { return r <= ' ' || r == 0x7f || r == '[' }
	if strings.ContainsFunc(text, odd) {
		return "", badArguments(fmt.Sprintf("a host must not have a blank, a control character or a bracket: %q", text))
	}
	return canonicalHost(text), nil
}

// canonicalHost returns host as java.net.InetSocketAddress.getHostString gives it back: IP addresses without
// abbreviations, an empty name as localhost, names as they are.
func canonicalHost(host string) string {
	if host == "" {
		return "localhost"
	}
	ip, err := netip.ParseAddr(host)
	if err != nil || ip.Zone() != "" {
		return host
	}
	ip = ip.Unmap()
	if ip.Is4() {
		return ip.String()
	}
	groups := make([]string, 0, 8)
	for b := ip.As16(); len(groups) < 8; {
		i := 2 * len(groups)
		groups = append(groups, strconv.FormatUint(uint64(b[i])<<8|uint64(b[i+1]), 16))
	}
	return strings.Join(groups, ":")
}

// bracketed returns host for use before a port (QuorumServer.delimitedHostString).
func bracketed(host string) string {
	if strings.Contains(host, ":") {
		return "[" + host + "]"
	}
	return host
}

// conflict returns an address that two servers share, "" if there is none (QuorumServer.checkAddressDuplicate).
// Addresses of this machine alone, and wildcards, are anybody's. Unlike ZooKeeper, it takes names as they are.
func conflict(a, b *Server) string {
	theirs := b.endpoints()
	for _, mine := range a.endpoints() {
		if slices.Contains(theirs, mine) {
			return mine
		}
	}
	return ""
}

// endpoints returns the addresses that no other server may have.
func (s *Server) endpoints() []string {
	var list []string
	add := func(host, port string) {
		ip, err := netip.ParseAddr(host)
		if err == nil && (ip.IsLoopback() || ip.IsUnspecified()) || strings.EqualFold(host, "localhost") {
			return
		}
		list = append(list, strings.ToLower(host)+" "+port)
	}
	for _, a := range s.Addresses {
		add(a.Host, strconv.Itoa(int(a.Port)))
		add(a.Host, strconv.Itoa(int(a.ElectionPort)))
	}
	if i := strings.LastIndexByte(s.ClientAddr, ':'); i >= 0 {
		add(strings.Trim(s.ClientAddr[:i], "[]"), s.ClientAddr[i+1:])
	}
	return list
}
