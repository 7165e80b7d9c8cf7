package auth

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"zkd/jute"
	"zkd/storage/acl"
)

// Identities is who one connection is. One goroutine adds (the connection's reader), any may read. The zero Identities
// has none and takes none; the connection calls Start before its first request.
type Identities struct {
	ids atomic.Pointer[acl.Proven]
	set *javaSet  // of the same, their order; nil up to the second. Owned by who adds.
	any []jute.ID // of SchemeSASLAny: last in ids, not in set, which clients see. Owned by who adds.

	// Owned by who adds.
	bounds Bounds
	full   bool // one was refused for the bounds
}

// Bounds are how much one connection may prove, its address included: servers keep it in memory and replicate it, and
// what it may do is looked up in it (ZooKeeper has no bound). What is zero takes the default.
type Bounds struct {
	Identities int // 64
	Bytes      int // of the schemes and ids together: 8 KiB
}

// Defaults of Bounds. Guesses: clients have one identity or two.
const (
	defaultIdentities    = 64
	defaultIdentityBytes = 8 << 10
)

// Start sets the first identity, ip:<address>, the address as HostAddress writes it.
func (c *Identities) Start(remote netip.Addr, b Bounds) {
	if b.Identities == 0 {
		b.Identities = defaultIdentities
	}
	if b.Bytes == 0 {
		b.Bytes = defaultIdentityBytes
	}
	c.bounds = b
	c.ids.Store(acl.NewProven([]jute.ID{{Scheme: SchemeIP, ID: HostAddress(remote)}}))
}

// Snapshot returns the identities in the order in which ZooKeeper goes through them, that of a hash set (javaSet). The
// slice is shared and never changes: it may be kept and must not be written to. Costs one atomic load.
func (c *Identities) Snapshot() []jute.ID {
	if p := c.ids.Load(); p != nil {
		return p.IDs()
	}
	return nil
}

// Proven returns the identities ready to be asked about; nil before Start. It is the same until another is added.
func (c *Identities) Proven() *acl.Proven { return c.ids.Load() }

// Add takes an auth packet in and returns the code of its reply: OK, or AuthFailed, after which the connection is
// closed (org.apache.zookeeper.server.ZooKeeperServer.processPacket). What goes beyond the bounds of a connection
// fails, too. A provider may have another code for its refusals; BadArguments closes without any reply. scheme and data
// are views of the frame; nothing keeps them.
func (c *Identities) Add(r *Registry, remote netip.Addr, scheme string, data []byte) jute.Code {
	p := r.Provider(scheme)
	if p == nil {
		return jute.AuthFailed
	}
	if _, certifies := p.(Certifier); certifies { // the handshake has proven what there is
		if c.has(scheme) {
			return jute.OK
		}
		return jute.AuthFailed
	}
	ids, ok := p.Authenticate(remote, data)
	if !ok {
		if r, ok := p.(refuser); ok {
			return r.Refusal()
		}
		return jute.AuthFailed
	}
	for _, id := range ids {
		if !c.Grant(id) {
			return jute.AuthFailed
		}
	}
	return jute.OK
}

// has reports whether there is an identity of a scheme.
func (c *Identities) has(scheme string) bool {
	return slices.ContainsFunc(c.Snapshot(), func(id jute.ID) bool { return id.Scheme == scheme })
}

// Grant adds an identity that was proven by other means than an auth packet (a certificate, a SASL dialogue), unless it
// is there already. It reports whether the connection has it now: false if that would be too many. Its strings are
// copied.
func (c *Identities) Grant(id jute.ID) bool {
	old := c.Snapshot()
	if !slices.Contains(old, id) && !c.fits(old, id) {
		c.full = true
		return false
	}
	id = jute.ID{Scheme: strings.Clone(id.Scheme), ID: strings.Clone(id.ID)}
	if c.set == nil {
		c.set = newJavaSet(old)
	}
	changed := false
	switch {
	case id.Scheme != SchemeSASLAny:
		changed = c.set.add(id)
	case !slices.Contains(c.any, id):
		c.any, changed = append(c.any, id), true
	}
	if changed {
		c.ids.Store(acl.NewProven(append(c.set.list(), c.any...)))
	}
	return true
}

// Full reports whether an identity was refused because the connection would have had too many. For who adds.
func (c *Identities) Full() bool { return c.full }

// fits tells whether a connection that has old may have id, too.
func (c *Identities) fits(old []jute.ID, id jute.ID) bool {
	bytes := len(id.Scheme) + len(id.ID)
	for i := range old {
		bytes += len(old[i].Scheme) + len(old[i].ID)
	}
	return len(old) < c.bounds.Identities && bytes <= c.bounds.Bytes
}

// HostAddress writes an address as Java's InetAddress.getHostAddress does: IPv4 addresses, those inside IPv6 too, with
// dots; IPv6 addresses as eight hexadecimal numbers without any shortening, with their zone.
func HostAddress(a netip.Addr) string {
	a = a.Unmap()
	if !a.Is6() {
		return a.String()
	}
	raw := a.As16()
	b := make([]byte, 0, 48)
	for i := 0; i < len(raw); i += 2 {
		if i > 0 {
			b = append(b, ':')
		}
		b = strconv.AppendUint(b, uint64(raw[i])<<8|uint64(raw[i+1]), 16)
	}
	if a.Zone() != "" {
		b = append(append(b, '%'), a.Zone()...)
	}
	return string(b)
}
