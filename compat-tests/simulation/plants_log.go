package simulation

import "fmt"

// unless leaves a statement out.
func unless(name, file, statement string) Patch {
	return Patch{file, statement, fmt.Sprintf("if !planted(%q) {\n%s\n}", name, statement)}
}

// returns has a function return a value at once that goes on with some text.
func returns(name, file, text, value string) Patch {
	return Patch{file, text, fmt.Sprintf("if planted(%q) {\nreturn %s\n}\n%s", name, value, text)}
}

// plantsOfDisks are about what disks are trusted with.
func plantsOfDisks() []Plant {
	return []Plant{
		{
			Name: "lying-disk", Bug: "disks say that they have synced, and have not",
			Found: 7, Of: 12,
			Patches: []Patch{returns("lying-disk", "storage/crashfs/crashfs.go",
				"	return f.fs.change(f.sync)", "nil")},
		},
		{
			Name: "append-unsynced", Bug: "entries are acknowledged before they are synced", Whose: "ZOOKEEPER-3911",
			Found: 9, Of: 12,
			Patches: []Patch{{"quorum/appender.go", "a.log.Append(a.entries, hard, sync)",
				`a.log.Append(a.entries, hard, sync && !planted("append-unsynced"))`}},
		},
		{
			Name: "log-locked-over-sync", Bug: "who reads the log waits until what is appended is on disk",
			Whose: "decision 28",
			Found: 7, Of: 12,
			Patches: []Patch{{"storage/raftlog/append.go",
				"	if err := l.commitLocked(sync); err != nil {\n		return err\n	}\n	l.publishAppend(",
				`	if planted("log-locked-over-sync") {
		l.mu.Lock()
	}
	err := l.commitLocked(sync)
	if planted("log-locked-over-sync") {
		l.mu.Unlock()
	}
	if err != nil {
		return err
	}
	l.publishAppend(`}},
		},
		{
			Name: "log-failure-survived", Bug: "a server whose log cannot be written goes on", Whose: "ZOOKEEPER-2247",
			Found: 2, Of: 49,
			Patches: []Patch{
				returns("log-failure-survived", "quorum/start.go",
					"	n.stop(err)\n	n.fatal <- err\n", ""),
				{"storage/disk/fault.go",
					"	if f.OnFatal != nil {", `	if f.OnFatal != nil && !planted("log-failure-survived") {`},
			},
		},
		{
			Name: "hung-leader-stays", Bug: "a leader whose disk hangs neither hands over nor proposes",
			Whose: "decision 19",
			Found: 3, Of: 36,
			Patches: []Patch{
				unless("hung-leader-stays", "quorum/stall.go", "		h.transfer.tryForDisk()"),
				{"quorum/stall.go",
					"	return h.stall.late &&", `	return !planted("hung-leader-stays") && h.stall.late &&`},
			},
		},
		{
			Name: "durable-early", Bug: "what is applied counts as durable, and leaves the log", Whose: "decision 2",
			Found: 2, Of: 12,
			Patches: []Patch{{"storage/state/machine.go",
				"DurableIndex() uint64 { return m.flush.durable.Load() }", `DurableIndex() uint64 {
	if planted("durable-early") {
		return m.applied.Load()
	}
	return m.flush.durable.Load()
}`}},
		},
	}
}

// plantsOfTheLog are about what is in the log, and what is made of it.
func plantsOfTheLog() []Plant {
	return []Plant{
		{
			Name: "old-tail-stays", Bug: "entries that another leader replaces stay on disk", Whose: "ZOOKEEPER-2845",
			Found: 6, Of: 112,
			Patches: []Patch{{"storage/raftlog/append.go", "		op := l.writer.batch.SetDeferred(", `
		if planted("old-tail-stays") && entry.Index <= last {
			continue
		}
		op := l.writer.batch.SetDeferred(`}},
		},
		{
			Name: "last-entry-lost", Bug: "a start forgets the last entry of the log", Whose: "ZOOKEEPER-4643",
			Found: 7, Of: 12,
			Patches: []Patch{{"storage/raftlog/recover.go", "	if acknowledged := replayed.mark.sequence;", `
	if planted("last-entry-lost") && l.mu.last > l.mu.startIndex {
		l.mu.tail.cutFrom(l.mu.last)
		l.mu.outline.cutFrom(l.mu.last)
		l.mu.last--
	}
	if acknowledged := replayed.mark.sequence;`}},
		},
		{
			Name: "applied-ahead", Bug: "the state on disk says that it has one entry more", Whose: "etcd 3.5",
			Found: 8, Of: 12,
			Patches: []Patch{{"storage/apply/writer.go",
				"	w.scratch = c.Position.Append(w.scratch[:0])", `	ahead := c.Position
	if planted("applied-ahead") {
		ahead.Index++
	}
	w.scratch = ahead.Append(w.scratch[:0])`}},
		},
		{
			Name: "log-kept", Bug: "the log forgets nothing",
			Found: 3, Of: 43,
			Patches: []Patch{{"quorum/compactor.go", "	if upTo < first ||",
				`	if planted("log-kept") || upTo < first ||`}},
			Knobs: map[string]int64{"quorum.defaultFlushInterval": 1e9}, // what is not durable stays in any case
		},
		{
			Name: "never-flushed", Bug: "what is applied is not made durable by time",
			Found: 1, Of: 39,
			Patches: []Patch{returns("never-flushed", "quorum/compactor.go",
				"	if c.clock.Since(c.oldSince) < c.flushInterval {", "nil")},
		},
		{
			Name: "forwarded-twice", Bug: "what a follower forwards is proposed twice", Whose: "decision 10",
			Found: 12, Of: 12,
			Patches: []Patch{{"quorum/propose.go",
				"		l.entries = append(l.entries, e)\n	}\n	return len(pending)", `
		l.entries = append(l.entries, e)
		if planted("forwarded-twice") && !f.reconf {
			l.entries = append(l.entries, &raftpb.Entry{Data: bytes.Clone(e.GetData())})
		}
	}
	return len(pending)`}},
		},
		{
			Name: "write-skipped", Bug: "a write is dropped on its way, and those behind it are not",
			Found: 3, Of: 12,
			Patches: []Patch{{"quorum/node.go", "	_, err := n.ProposeIf(p, w, nil)", `
	if p.Op == jute.OpSetData && plantedEach("write-skipped", 100) {
		return nil
	}
	_, err := n.ProposeIf(p, w, nil)`}},
		},
		{
			Name: "created-before-committed", Bug: "a create is acknowledged when it is proposed",
			Found: 5, Of: 12,
			Patches: []Patch{{"server/writes.go", "func (c *writes) create(r *request) error { return", `
func (c *writes) create(r *request) error {
	req := &c.req.create
	if planted("created-before-committed") && r.op == jute.OpCreate && c.req.decode(r, req) == nil &&
		req.Flags == jute.ModePersistent {
		p := &entry.Proposal{Op: r.op, Session: c.session, Xid: r.xid, Time: c.server.millis(),
			Flags: c.server.opts.Flags, Server: c.server.opts.ServerID, Identities: c.login.ids.Snapshot(),
			Body: append([]byte(nil), r.body...)}
		if err := c.server.opts.node.Propose(p, nil); err != nil {
			return err
		}
		c.Out.Lock()
		b, mark := c.beginLocked(r.xid, 0, jute.OK)
		c.Out.EndLocked(jute.AppendString(b, req.Path), mark)
		c.Out.Unlock()
		c.answered(r.xid, 0)
		return nil
	}
	return c.createAsEver(r)
}

func (c *writes) createAsEver(r *request) error { return`}},
		},
		{
			Name: "sync-before-applied", Bug: "sync is answered before this server has applied what the leader has",
			Found: 2, Of: 30,
			Patches: []Patch{{"quorum/applier.go", "a.waiting[n].index <= applied {",
				`(planted("sync-before-applied") || a.waiting[n].index <= applied) {`}},
		},
		{
			Name: "sync-without-leader", Bug: "sync is answered at once", Whose: "ZOOKEEPER-2136",
			Found: 3, Of: 12,
			Patches: []Patch{returns("sync-without-leader", "server/sync.go",
				"	c.server.opts.node.Barrier(w)\n	select",
				"c.server.opts.Machine.LastZxid(), nil")},
		},
	}
}
