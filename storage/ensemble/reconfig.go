package ensemble

import (
	"fmt"
	"slices"
	"strings"

	"zkd/jute"
	"zkd/storage/serverid"
)

// Rules are what must be equal on all servers and is decided by the proposer of a reconfig, from its configuration.
type Rules struct {
	SingleVoter  bool // a configuration may have one voter alone (standaloneEnabled=false)
	MultiAddress bool // a server may have several addresses (zookeeper.multiAddress.enabled)
	// AnyNumber says that a server may have the number 0, or a negative one: from entry.LevelNumbers on.
	AnyNumber bool
}

// Apply returns the configuration that a reconfig makes of c, or the code with which ZooKeeper refuses it and the
// reason, for a log (PrepRequestProcessor.pRequest2Txn, OpCode.reconfig; QuorumPeerConfig.parseDynamicConfig). The
// version of what it returns is c's: the proposer does not know the next one, which is the zxid of the request.
//
// It fails, in this order, with BadVersion if c is not the version that the client expects, BadArguments or
// MarshallingError if a server cannot be read, depending on whether ZooKeeper looks for what is wrong or stumbles over
// it, BadArguments if two servers share an address (of the incremental form) or too few voters are left.
func (c *Config) Apply(r *jute.ReconfigRequest, rules Rules) (next Config, code jute.Code, why string) {
	if r.CurConfigID != -1 && r.CurConfigID != c.Version {
		return Config{}, jute.BadVersion, fmt.Sprintf("the version is %x, not %x", c.Version, r.CurConfigID)
	}
	var refused *refusal
	if r.Nulls.Has(2) {
		next, refused = c.incremental(r, rules)
	} else {
		next, refused = whole(r.NewMembers, rules)
	}
	if refused == nil {
		refused = checkVoters(&next, rules)
	}
	if refused != nil {
		return Config{}, refused.code, refused.why
	}
	next.Version = c.Version
	return next, jute.OK, ""
}

// checkVoters refuses a configuration with too few voters.
func checkVoters(c *Config, rules Rules) *refusal {
	switch voters := c.Voters(); {
	case voters < 1:
		return badArguments("there must be at least 1 participant")
	case voters < 2 && !rules.SingleVoter:
		return badArguments("there must be at least 2 participants unless standaloneEnabled=false")
	}
	return nil
}

// Bounds of what a reconfig may ask for: each server is compared with each other, and each address with theirs, on the
// goroutine that all clients wait for, and before it is known whether the client may ask. Guesses, far more than a
// group can have.
const (
	serversMax   = 255
	addressesMax = 32 // of one server
)

// tooMany refuses a configuration for its size.
func tooMany(n int) *refusal {
	return badArguments(fmt.Sprintf("%d servers are more than an ensemble may have, which is %d", n, serversMax))
}

// whole reads the configuration that replaces another one: lines, or a list with commas.
func whole(members string, rules Rules) (Config, *refusal) {
	if strings.Contains(members, `\`) {
		return Config{}, badArguments(`a configuration may not hold the character \`)
	}
	next, refused := parse(strings.ReplaceAll(members, ",", "\n"), rules)
	if refused != nil {
		return Config{}, refused
	}
	if len(next.Servers) > serversMax {
		return Config{}, tooMany(len(next.Servers))
	}
	// Quirk: that there are too few voters is found twice; the first time nobody catches it.
	observers := len(next.Servers) > next.Voters()
	switch voters := next.Voters(); {
	case voters == 0 && (rules.SingleVoter || observers), voters == 1 && !rules.SingleVoter && observers:
		return Config{}, unexpected("there are observers without participants, or no participant at all")
	}
	return next, nil
}

// incremental returns c without the servers that leave and with those that join, in this order. A server that joins
// with the id of one that is there replaces it.
func (c *Config) incremental(r *jute.ReconfigRequest, rules Rules) (Config, *refusal) {
	servers := make(map[uint64]Server, len(c.Servers))
	for _, s := range c.Servers {
		servers[s.ID] = s
	}
	for _, text := range list(r.LeavingServers, ",") {
		number, ok := parseLong(text)
		if !ok {
			return Config{}, notANumber("id of a server that leaves", text)
		}
		delete(servers, serverid.Of(number))
	}
	joining := list(r.JoiningServers, ",")
	if len(joining) > serversMax {
		return Config{}, tooMany(len(joining))
	}
	for _, text := range joining {
		parts := list(text, "=")
		if len(parts) != 2 {
			return Config{}, badArguments(fmt.Sprintf("%q: wanted server.N=… of a server that joins", text))
		}
		s, refused := parseServer(parts[0][strings.LastIndexByte(parts[0], '.')+1:], parts[1], rules)
		if refused != nil {
			return Config{}, refused
		}
		if s.ClientAddr == "" {
			return Config{}, badArguments(fmt.Sprintf("server %d has no client port", serverid.Number(s.ID)))
		}
		for _, other := range sorted(servers) {
			if at := conflict(&s, &other); other.ID != s.ID && at != "" {
				return Config{}, badArguments(fmt.Sprintf("servers %d and %d share %s", serverid.Number(s.ID),
					serverid.Number(other.ID), at))
			}
		}
		servers[s.ID] = s
	}
	return Config{Servers: sorted(servers)}, nil
}

// list splits a list and drops what is blank (org.apache.zookeeper.common.StringUtils.split).
func list(text, separator string) []string {
	parts := strings.Split(text, separator)
	for i := range parts {
		parts[i] = strings.TrimFunc(parts[i], func(r rune) bool { return r <= ' ' })
	}
	return slices.DeleteFunc(parts, func(part string) bool { return part == "" })
}

// MovedPeers returns the ids, by number, of the servers that are in both configurations and have other addresses for
// the other servers in next.
func (c *Config) MovedPeers(next *Config) []uint64 {
	var moved []uint64
	for i := range next.Servers {
		s := &next.Servers[i]
		old, ok := c.Server(s.ID)
		if ok && !slices.Equal(old.PeerAddresses(), s.PeerAddresses()) {
			moved = append(moved, s.ID)
		}
	}
	return moved
}

// Changes tells what is to be done to a group so that it follows a configuration. Each list is sorted by number.
type Changes struct {
	Added    []Server // new ids
	Removed  []Server // as they were
	Promoted []Server // from observer to participant
	Demoted  []Server // from participant to observer
	Moved    []Server // with other addresses or another client address, whatever their role
}

// Empty reports whether nothing has changed but, maybe, the version.
func (c *Changes) Empty() bool {
	return len(c.Added)+len(c.Removed)+len(c.Promoted)+len(c.Demoted)+len(c.Moved) == 0
}

// Diff returns what has changed from one configuration to the next.
func Diff(from, to *Config) Changes {
	var c Changes
	for _, s := range to.Servers {
		old, ok := from.Server(s.ID)
		switch {
		case !ok:
			c.Added = append(c.Added, s)
			continue
		case old.Observer && !s.Observer:
			c.Promoted = append(c.Promoted, s)
		case !old.Observer && s.Observer:
			c.Demoted = append(c.Demoted, s)
		}
		if old.ClientAddr != s.ClientAddr || !slices.Equal(old.Addresses, s.Addresses) {
			c.Moved = append(c.Moved, s)
		}
	}
	for _, s := range from.Servers {
		if _, ok := to.Server(s.ID); !ok {
			c.Removed = append(c.Removed, s)
		}
	}
	return c
}
