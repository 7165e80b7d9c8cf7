package admin

import (
	"net"
	"slices"
	"strconv"
	"time"

	"zkd/storage/ensemble"
	"zkd/storage/serverid"
)

// Members is what a member of an ensemble knows of it.
type Members struct {
	ID, Leader uint64 // Leader is serverid.None while there is none
	Servers    []ensemble.Server
	// ClientAddr is where this server's clients are, host:port, if its line does not say.
	ClientAddr string
	Observers  []Observer // on the leader: those that it hears
}

// Observer is a connection of the leader to an observer.
type Observer struct {
	ID                         uint64
	Remote                     string // host:port
	Since                      time.Time
	QueuedBytes                int64
	FramesSent, FramesReceived int64
}

// server finds a member's line.
func (m *Members) server(id uint64) *ensemble.Server {
	for i := range m.Servers {
		if m.Servers[i].ID == id {
			return &m.Servers[i]
		}
	}
	return nil
}

// leader: LeaderCommand.
func (c *call) leader() bool {
	m := c.server.members()
	if m == nil || c.info.ReadOnly {
		c.str("error", "server is not initialized")
		return false
	}
	c.flag("is_leader", c.info.Mode == modeLeader)
	c.num("leader_id", serverid.Number(m.Leader))
	ip := ""
	if s := m.server(m.Leader); s != nil {
		ip = s.Addresses[0].Host
	}
	c.str("leader_ip", ip)
	return true
}

// Modes of fourletter.Info.
const (
	modeLeader     = "leader"
	modeStandalone = "standalone"
)

// votingView: VotingViewCommand. A server knows the client address of others only if their lines say it.
func (c *call) votingView() bool {
	c.field("current_config")
	c.object(func() {
		m := c.server.members()
		if m == nil {
			return
		}
		for i := range m.Servers {
			s := &m.Servers[i]
			if s.Observer {
				continue
			}
			c.field(strconv.FormatInt(serverid.Number(s.ID), 10))
			c.object(func() {
				c.strs("server_addresses", addresses(s, peerPort)...)
				c.strs("election_addresses", addresses(s, electionPort)...)
				c.str("client_address", m.clientAddr(s))
				c.str("learner_type", "participant")
			})
		}
	})
	return true
}

// clientAddr is where a server's clients are, as far as m knows.
func (m *Members) clientAddr(s *ensemble.Server) string {
	if s.ClientAddr == "" && s.ID == m.ID {
		return m.ClientAddr
	}
	return s.ClientAddr
}

func peerPort(a ensemble.Address) uint16     { return a.Port }
func electionPort(a ensemble.Address) uint16 { return a.ElectionPort }

// addresses are a server's, host:port.
func addresses(s *ensemble.Server, port func(ensemble.Address) uint16) []string {
	found := make([]string, 0, len(s.Addresses))
	for _, a := range s.Addresses {
		found = append(found, net.JoinHostPort(a.Host, strconv.Itoa(int(port(a)))))
	}
	return found
}

// zabState: ZabStateCommand.
func (c *call) zabState() bool {
	m := c.server.members()
	if m == nil || !c.info.Serving || c.info.ReadOnly {
		c.flag("voting", false)
		c.str("zabstate", "")
		return true
	}
	own := m.server(m.ID)
	if own == nil {
		own = &ensemble.Server{ID: m.ID, Observer: true}
	}
	c.num("myid", serverid.Number(m.ID))
	c.flag("is_leader", c.info.Mode == modeLeader)
	c.multipleAddresses("quorum_address", own, peerPort)
	c.multipleAddresses("election_address", own, electionPort)
	c.str("client_address", m.clientAddr(own))
	c.flag("voting", !own.Observer)
	c.str("last_zxid", hexZxid(c.info.Zxid))
	c.num("zab_epoch", int64(c.info.Zxid)>>32)
	c.num("zab_counter", int64(c.info.Zxid)&0xffffffff)
	state := "broadcast"
	if m.Leader == 0 {
		state = "election"
	}
	c.str("zabstate", state)
	return true
}

// multipleAddresses: the properties of org.apache.zookeeper.server.quorum.MultipleAddresses. Whether an address can be
// reached is not tried.
func (c *call) multipleAddresses(name string, s *ensemble.Server, port func(ensemble.Address) uint16) {
	c.field(name)
	c.object(func() {
		all := addresses(s, port)
		var hosts, wildcards []string
		var ports []int64
		one := ""
		for i, a := range s.Addresses {
			hosts = append(hosts, a.Host)
			wildcards = append(wildcards, net.JoinHostPort("0.0.0.0", strconv.Itoa(int(port(a)))))
			ports = append(ports, int64(port(a)))
			if i == 0 {
				one = all[0]
			}
		}
		c.flag("empty", len(all) == 0)
		c.strs("all_addresses", all...)
		c.strs("wildcard_addresses", slices.Compact(wildcards)...)
		c.field("all_ports")
		c.array(func() {
			for _, n := range slices.Compact(ports) {
				c.item()
				c.number(n)
			}
		})
		c.strs("all_host_strings", hosts...)
		c.str("reachable_address", one)
		c.strs("all_reachable_addresses", all...)
		c.strs("all_reachable_addresses_or_all", all...)
		c.str("reachable_or_one", one)
		c.str("one", one)
	})
}

// observers: SyncedObserverConsCommand. Frames count as packets; requests and zxids are not known by observer.
func (c *call) observers() bool {
	var list []Observer
	if m := c.server.members(); m != nil && c.info.Mode == modeLeader {
		list = m.Observers
	}
	c.num("synced_observers", int64(len(list)))
	c.field("observers")
	c.array(func() {
		for _, o := range list {
			base := c.server.observerBase(o.ID)
			c.item()
			c.object(func() {
				c.str("remote_socket_address", "/"+o.Remote)
				c.num("sid", serverid.Number(o.ID))
				c.num("established", o.Since.UnixMilli())
				c.num("queued_packets", 0)
				c.num("queued_packets_size", o.QueuedBytes)
				c.num("packets_received", o.FramesReceived-base.FramesReceived)
				c.num("packets_sent", o.FramesSent-base.FramesSent)
				c.num("requests", 0)
				c.num("last_zxid", -1)
			})
		}
	})
	return true
}

// observerBase is what an observer's counts were when they were reset.
func (s *Server) observerBase(id uint64) Observer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.observers[id]
}

// resetObservers: ObserverCnxnStatResetCommand.
func (c *call) resetObservers() bool {
	m := c.server.members()
	if m == nil {
		return true
	}
	s := c.server
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.observers = map[uint64]Observer{}
	for _, o := range m.Observers {
		s.mu.observers[o.ID] = o
	}
	return true
}

// members is what this server knows of its ensemble; nil if it has none.
func (s *Server) members() *Members {
	if s.opts.Members == nil {
		return nil
	}
	return s.opts.Members()
}
