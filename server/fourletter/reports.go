package fourletter

import "zkd/jute"

// dump: DumpCommand, ExpiryQueue.dump and DataTree.dumpEphemerals; LeaderSessionTracker and LearnerSessionTracker in an
// ensemble.
func (c *Commands) dump(p *page, info *Info) {
	p.str("SessionTracker dump:\n")
	if info.LocalSessions != nil {
		p.str("Local ")
		sessionSets(p, info.LocalSessions)
	}
	switch {
	case info.GlobalSessions != nil:
		globalSessions(p, info.GlobalSessions())
	case info.PeerState != "":
		p.str("Global ")
		fallthrough
	default:
		sessionSets(p, info.Sessions)
	}
	ephemerals(p, info)
	clients(p, info)
}

// globalSessions writes the sessions that another server expires.
func globalSessions(p *page, sessions []SessionTimeout) {
	p.str("Global Sessions(")
	p.num(int64(len(sessions)))
	p.str("):\n")
	for _, s := range sessions {
		p.str("0x")
		p.hex(int64(s.Session))
		p.str("\t")
		p.num(s.Timeout.Milliseconds())
		p.str("ms\n")
	}
}

// sessionSets writes the expiry queue of sessions.
func sessionSets(p *page, of func() []SessionBucket) {
	var sessions []SessionBucket
	if of != nil {
		sessions = of()
	}
	n := 0
	for _, b := range sessions {
		n += len(b.Sessions)
	}
	p.str("Session ")
	sets(p, len(sessions), n)
	for _, b := range sessions {
		p.num(int64(len(b.Sessions)))
		p.str(" expire at ")
		p.date(b.At)
		p.str(":\n")
		for _, id := range b.Sessions {
			p.str("\t0x")
			p.hex(int64(id))
			p.str("\n")
		}
	}
}

// sets writes the size of an expiry queue.
func sets(p *page, buckets, elements int) {
	p.str("Sets (")
	p.num(int64(buckets))
	p.str(")/(")
	p.num(int64(elements))
	p.str("):\n")
}

// ephemerals needs the number of sessions before the first, and so goes through them twice; what changes meanwhile may
// make the number differ from the list.
func ephemerals(p *page, info *Info) {
	n := 0
	if info.Ephemerals != nil {
		for range info.Ephemerals {
			n++
		}
	}
	p.str("ephemeral nodes dump:\nSessions with Ephemerals (")
	p.num(int64(n))
	p.str("):\n")
	if info.Ephemerals == nil {
		return
	}
	for id, paths := range info.Ephemerals {
		p.str("0x")
		p.hex(int64(id))
		p.str(":\n")
		for _, path := range paths {
			p.str("\t", path, "\n")
		}
	}
}

func clients(p *page, info *Info) {
	var buckets []ConnectionBucket
	if info.Clients != nil {
		buckets = info.Clients()
	}
	n := 0
	for _, b := range buckets {
		n += len(b.Connections)
	}
	p.str("Connections dump:\nConnections ")
	sets(p, len(buckets), n)
	for _, b := range buckets {
		p.num(int64(len(b.Connections)))
		p.str(" expire at ")
		p.date(b.At)
		p.str(":\n")
		for _, cn := range b.Connections {
			p.str("\tip: ")
			p.remote(cn.Remote)
			p.str(" sessionId: 0x")
			p.hex(int64(cn.Session))
			p.str("\n")
		}
	}
}

// wchs: WatchManager.toString. Like wchc and wchp it shows the data table only.
func (c *Commands) wchs(p *page, info *Info) {
	if info.Watches == nil {
		return
	}
	n := info.Watches.Counts()
	p.num(int64(n.Connections))
	p.str(" connections watching ")
	p.num(int64(n.Paths))
	p.line(" paths\nTotal watches:", int64(n.Watches))
}

// wchc: WatchManager.dumpWatches by connection.
func (c *Commands) wchc(p *page, info *Info) {
	if info.Watches != nil {
		info.Watches.ByConnection(func(session jute.SessionID, paths []string) bool {
			p.str("0x")
			p.hex(int64(session))
			p.str("\n")
			for _, path := range paths {
				p.str("\t", path, "\n")
			}
			return true
		})
	}
	p.str("\n")
}

// wchp: WatchManager.dumpWatches by path.
func (c *Commands) wchp(p *page, info *Info) {
	if info.Watches != nil {
		info.Watches.ByPath(func(path string, sessions []jute.SessionID) bool {
			p.str(path, "\n")
			for _, id := range sessions {
				p.str("\t0x")
				p.hex(int64(id))
				p.str("\n")
			}
			return true
		})
	}
	p.str("\n")
}
