package peers

import (
	"net"
	"slices"
	"strconv"

	"zkd/server/admin"
	"zkd/server/stats/catalog"
	"zkd/storage/serverid"
)

// Describe is what the admin commands tell of the members.
func (p *Peers) Describe() *admin.Members {
	m := &admin.Members{ID: p.id, ClientAddr: shownAddr(p.config.Client.Addr)}
	agreed, err := p.agreed()
	if err != nil || agreed == nil {
		agreed = &p.configured
	}
	m.Servers = agreed.Servers
	status := p.node.Status()
	m.Leader = status.Leader
	learning := map[uint64]bool{}
	for _, peer := range status.Peers {
		learning[peer.ID] = peer.Learner && !peer.Leaving && peer.Active
	}
	for _, s := range p.streams.Status() {
		if learning[s.ID] {
			m.Observers = append(m.Observers, admin.Observer{
				ID: s.ID, Remote: s.Address, Since: s.OutSince, QueuedBytes: int64(s.QueueBytes),
				FramesSent: s.FramesOut, FramesReceived: s.FramesIn,
			})
		}
	}
	return m
}

// shownAddr is an address as ZooKeeper shows it: with 0.0.0.0 for all.
func shownAddr(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil || host != "" {
		return addr
	}
	return net.JoinHostPort("0.0.0.0", port)
}

// SetMetrics sets what the streams tell.
func (p *Peers) SetMetrics(v *catalog.Values) {
	ports := p.ports.status()
	for _, address := range ports.own {
		v.SetKeyed("zkd_peer_port", address, 1)
	}
	for _, address := range ports.closed {
		v.SetKeyed("zkd_peer_port", address, 0)
	}
	for _, address := range ports.former {
		v.SetKeyed("zkd_peer_port_former", address, 1)
	}
	for _, s := range p.streams.Status() {
		peer := strconv.FormatInt(serverid.Number(s.ID), 10)
		connected := int64(0)
		if s.Out && s.In {
			connected = 1
		}
		v.SetKeyed("zkd_peer_connected", peer, connected)
		v.SetKeyed("zkd_peer_feature_level", peer, int64(s.LevelAgreed))
		moving := int64(0)
		if s.Out && !slices.Contains(s.Addresses, s.Address) {
			moving = 1
		}
		v.SetKeyed("zkd_peer_moving", peer, moving)
		v.SetKeyed("zkd_peer_sent_bytes_total", peer, s.BytesOut)
		v.SetKeyed("zkd_peer_received_bytes_total", peer, s.BytesIn)
		v.SetKeyed("zkd_peer_dropped_messages_total", peer, s.Drops)
	}
}
