package conf

import (
	"net"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"
)

// NoID is the number of a server without one, as in ZooKeeper (QuorumPeerConfig.UNSET_SERVERID).
const NoID = -1

// leastID is the lowest number that a member may have: ids in raft of some below it are raft's own (storage/serverid).
const leastID = -1 << 62

// Ensemble describes the members and this server's place among them.
type Ensemble struct {
	// more than one voter, or standaloneEnabled=false: QuorumPeerConfig.isDistributed. The fields below it but for MyID
	// and Members mean something only then.
	Distributed       bool
	StandaloneEnabled bool // standaloneEnabled (true)
	// myid, or by zkd.myidFromHostname; NoID when there is none; the number of a member when Distributed
	MyID int64
	// server.N, ascending by ID. They found the ensemble, or tell a server that joins where it is; afterwards the
	// members are what the ensemble has agreed on.
	Members []Member
	Groups  map[int64][]int64 // group.N: ids of the members of a group
	Weights map[int64]int64   // weight.N by member
	// version of the configuration, behind the last dot of the dynamic file's name; 0 when there is none
	Version             int64
	DynamicConfigFile   string        // dynamicConfigFile
	Listen              []string      // where the peer port listens, host:port; the host is empty for all addresses
	SecretFile          string        // zkd.quorum.secretFile: what servers prove to each other; empty is none
	SecretRequired      bool          // zkd.quorum.secretRequired (true): nobody passes without
	Join                bool          // zkd.join (false): this server founds nothing
	InitLimit           int           // initLimit, in ticks; 0 is not set
	InitTimeout         time.Duration // InitLimit in time: a transfer of state without headway is begun anew
	SyncLimit           int           // syncLimit, in ticks; 0 is not set
	SyncTimeout         time.Duration // SyncLimit in time: a silent connection between members is cut
	ElectionTimeout     time.Duration // zkd.electionTimeout (1000 ms): least silence of the leader before an election
	LeaderGrace         time.Duration // zkd.leaderGrace (2000 ms): how long clients are kept without a leader
	RemovedGrace        time.Duration // zkd.removedGrace (600000 ms): how long a removed server keeps its clients
	ConnectTimeout      time.Duration // cnxTimeout (5000 ms): how long to try one address of a member
	SnapshotRate        int64         // zkd.snapshotRate (64 MiB): bytes a second of state that is sent; 0 is no limit
	FeatureLevelMax     int64         // zkd.featureLevelMax (0): the ensemble is not raised above it; 0 is no limit
	LogRetainBytes      int64         // zkd.log.retainBytes (0): what the log keeps for others; 0 is by the room
	Observer            bool          // this server observes, by its server line or peerType
	ListenOnAllIPs      bool          // quorumListenOnAllIPs (false)
	MultiAddress        bool          // multiAddress.enabled (false)
	ReachabilityCheck   bool          // multiAddress.reachabilityCheckEnabled (true)
	ReachabilityTimeout time.Duration // multiAddress.reachabilityCheckTimeoutMs (1000 ms)
	KeepAlive           bool          // tcpKeepAlive (false)
}

// Member is one server.N line.
type Member struct {
	ID        int64
	Addresses []PeerAddress // at least one
	Observer  bool
	// host:port of the part after `;`; the host is 0.0.0.0 when only a port was given; empty when there is none
	ClientAddr string
}

// PeerAddress is one `host:peerPort:electionPort` of a member. Host is a name or an IP address without brackets.
type PeerAddress struct {
	Host                   string
	PeerPort, ElectionPort uint16
}

// Peer is the address of the peer port as host:port, an IPv6 address in brackets.
func (a PeerAddress) Peer() string {
	return net.JoinHostPort(a.Host, strconv.Itoa(int(a.PeerPort)))
}

// PeerAddresses are the addresses of the member's peer port as host:port, in the order of the line.
func (m Member) PeerAddresses() []string {
	found := make([]string, 0, len(m.Addresses))
	for _, a := range m.Addresses {
		found = append(found, a.Peer())
	}
	return found
}

// Line is the server line of m as ZooKeeper writes it in /zookeeper/config and in dynamic files: with its role, its
// addresses in the order of their hosts, and the client address if the line has one (QuorumPeer.QuorumServer.toString).
func (m Member) Line() string {
	addresses := slices.Clone(m.Addresses)
	sort.SliceStable(addresses, func(i, j int) bool { return addresses[i].Host < addresses[j].Host })
	parts := make([]string, 0, len(addresses))
	for _, a := range addresses {
		parts = append(parts, a.Peer()+":"+strconv.Itoa(int(a.ElectionPort)))
	}
	line := "server." + strconv.FormatInt(m.ID, 10) + "=" + strings.Join(parts, "|")
	if m.Observer {
		line += ":observer"
	} else {
		line += ":participant"
	}
	if m.ClientAddr != "" {
		line += ";" + m.ClientAddr
	}
	return line
}

// Own returns this server's member; ok is false when no server line is its own, as in a server that is not Distributed.
func (e *Ensemble) Own() (own Member, ok bool) {
	if m := e.member(); m != nil {
		return *m, true
	}
	return Member{}, false
}

// Lines are the server lines as Member.Line writes them, ascending by id: what /zookeeper/config holds above its
// version.
func (e *Ensemble) Lines() []string {
	lines := make([]string, 0, len(e.Members))
	for _, m := range e.Members {
		lines = append(lines, m.Line())
	}
	return lines
}

// member returns this server's own line, or nil.
func (e *Ensemble) member() *Member { return e.byID(e.MyID) }

// byID returns the line of a member, or nil.
func (e *Ensemble) byID(id int64) *Member {
	for i := range e.Members {
		if e.Members[i].ID == id {
			return &e.Members[i]
		}
	}
	return nil
}

// voters counts the members that vote.
func (e *Ensemble) voters() int {
	n := 0
	for _, m := range e.Members {
		if !m.Observer {
			n++
		}
	}
	return n
}

// listen returns where the peer port of own listens, as Leader and Election do in ZooKeeper: on each address of its
// line, or on the ports of all of them at every address of the machine.
func (e *Ensemble) listen(own *Member) []string {
	var found []string
	for _, a := range own.Addresses {
		if e.ListenOnAllIPs || isWildcard(a.Host) {
			a.Host = ""
		}
		found = append(found, a.Peer())
	}
	slices.Sort(found)
	return slices.Compact(found)
}
