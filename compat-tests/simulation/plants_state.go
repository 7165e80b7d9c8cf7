package simulation

// plantsOfTheState are about what entries make of the state.
func plantsOfTheState() []Plant {
	return []Plant{
		{
			Name: "write-missed-by-one", Bug: "one member does not apply a write", Whose: "decision 26",
			Found: 12, Of: 12,
			Patches: []Patch{{"storage/apply/txn.go", "	proposalHandler(p.Op)(t, r)", `
	if p.Op != jute.OpSetData || !plantedEach("write-missed-by-one", 200) {
		proposalHandler(p.Op)(t, r)
	}`}},
		},
		{
			Name: "other-acl", Bug: "one member gives a znode another ACL, which no client sees", Whose: "decision 26",
			Found: 8, Of: 12,
			Patches: []Patch{{"storage/apply/create.go", "	switch {\n	case r.Flags == jute.ModeContainer:", `
	if plantedEach("other-acl", 25) {
		n.ACL = []jute.ACL{{Perms: jute.PermAll &^ jute.PermAdmin, ID: jute.ID{Scheme: "world", ID: "anyone"}}}
	}
	switch {
	case r.Flags == jute.ModeContainer:`}},
		},
		{
			Name: "clock-in-apply", Bug: "each member dates a write by its own clock",
			Found: 12, Of: 12,
			Patches: []Patch{{"storage/apply/change.go", "	n.Mzxid, n.Mtime = t.Position.Zxid, t.p.Time", `
	n.Mzxid, n.Mtime = t.Position.Zxid, t.p.Time
	if planted("clock-in-apply") {
		n.Mtime = jute.Millis(plantedMillis())
	}`}},
		},
		{
			Name: "version-unchecked", Bug: "setData does not look at the version",
			Found: 12, Of: 12,
			Patches: []Patch{{"storage/apply/change.go",
				"		return jute.BadVersion\n	}\n	n := t.tree.modify(c)\n	n.Version++",
				`		if !planted("version-unchecked") {
			return jute.BadVersion
		}
	}
	n := t.tree.modify(c)
	n.Version++`}},
		},
		{
			Name: "sequence-from-before", Bug: "two sequential znodes of one entry get one name",
			Whose: "ZOOKEEPER-1046",
			Found: 3, Of: 12,
			Patches: []Patch{{"storage/apply/create.go",
				"		path = t.sequentialName(path, int32(parent.cur.Creations))", `
		counter := parent.cur.Creations
		if planted("sequence-from-before") && parent.base != nil {
			counter = parent.base.Creations
		}
		path = t.sequentialName(path, int32(counter))`}},
		},
		{
			Name: "state-read-through", Bug: "setData reads through the whole state",
			Found: 24, Of: 24, Knobs: map[string]int64{"storage/apply.namesScanMax": 0},
			Patches: []Patch{{"storage/apply/change.go",
				"	grown := int64(len(r.Data)) - int64(c.cur.DataLen)", `
	if planted("state-read-through") {
		_ = scan(t.tree.store, nil, nil, func(_, _ []byte) (bool, error) { return true, nil })
	}
	grown := int64(len(r.Data)) - int64(c.cur.DataLen)`}},
		},
		{
			Name: "flush-in-apply", Bug: "an entry is published when it is on the disk of the state",
			Whose: "decision 2",
			Found: 5, Of: 24,
			Patches: []Patch{{"storage/state/machine.go",
				"	c := &m.txn.Changes\n	if d, ok := sink.(Decider); ok {", `
	if plantedEach("flush-in-apply", 20) {
		if err := m.store.flushed(); err != nil {
			return err
		}
	}
	c := &m.txn.Changes
	if d, ok := sink.(Decider); ok {`}},
		},
	}
}

// plantsOfSessions are about sessions and their ephemerals.
func plantsOfSessions() []Plant {
	return []Plant{
		{
			Name: "ephemeral-stays-on-one", Bug: "one member keeps the ephemerals of a session that is closed",
			Whose: "ZOOKEEPER-2355",
			Found: 12, Of: 12,
			Patches: []Patch{{"storage/apply/sessions.go", "	paths, more := t.tree.ephemeralsOf(id, most)", `
	paths, more := t.tree.ephemeralsOf(id, most)
	if plantedEach("ephemeral-stays-on-one", 4) {
		paths, more = nil, false
	}`}},
		},
		{
			Name: "ephemerals-stay", Bug: "all members keep the ephemerals of sessions that are closed",
			Whose: "ZOOKEEPER-1208",
			Found: 12, Of: 12,
			Patches: []Patch{{"storage/apply/sessions.go", "		if c.cur != nil && parent.cur != nil {",
				`		if c.cur != nil && parent.cur != nil && !planted("ephemerals-stay") {`}},
		},
		{
			Name: "moved-session-unchecked", Bug: "a late write counts though its session is at another server by now",
			Found: 2, Of: 103,
			Patches: []Patch{{"storage/apply/sessions.go", "	if t.p.Server != 0 && info.Owner != t.p.Server {",
				`	if t.p.Server != 0 && info.Owner != t.p.Server && !planted("moved-session-unchecked") {`}},
		},
		{
			Name: "no-time-from-new-leader", Bug: "a new leader does not give sessions their full timeout",
			Found: 3, Of: 24,
			Patches: []Patch{unless("no-time-from-new-leader", "quorum/liveness/report.go",
				"	t.floor.Store(t.now())")},
		},
		{
			Name: "clients-of-others-unheard", Bug: "the leader does not hear of the clients of others",
			Found: 3, Of: 12,
			Patches: []Patch{
				{"server/sessions.go", "	if leads && s.opts.Ensemble != nil {",
					`	if leads && s.opts.Ensemble != nil && !planted("clients-of-others-unheard") {`},
				{"quorum/liveness/report.go", "	if t.options.Report == nil {",
					`	if t.options.Report == nil || planted("clients-of-others-unheard") {`},
			},
		},
		{
			Name: "expiry-of-an-old-term", Bug: "a session that a former leader has given up ends under the next one",
			Found: 1, Of: 207,
			Patches: []Patch{{"storage/apply/sessions.go", "	if len(t.p.Body) == 8 &&",
				`	if len(t.p.Body) == 8 && !planted("expiry-of-an-old-term") &&`}},
		},
	}
}

// plantsOfClients are about what a server tells its clients.
func plantsOfClients() []Plant {
	return []Plant{
		{
			Name: "watch-lost", Bug: "an event of several is not told",
			Found: 8, Of: 12,
			Patches: []Patch{{"server/writes.go", "		ev := (*watch.Event)(&r.Events[i])\n", `
		if plantedEach("watch-lost", 10) {
			continue
		}
		ev := (*watch.Event)(&r.Events[i])
`}},
		},
		{
			Name: "watch-fires-twice", Bug: "a watch stays after it has fired",
			Found: 12, Of: 12,
			Patches: []Patch{{"server/watch/fire.go", "		t.found(r.holder)\n		if r.modes()&standard != 0 {",
				"		t.found(r.holder)\n		if r.modes()&standard != 0 && !planted(\"watch-fires-twice\") {"}},
		},
		{
			Name: "event-after-data", Bug: "a client sees a change before the event that tells it",
			Found: 6, Of: 12,
			Patches: []Patch{{"server/conn.go", "	bytes, cut, wake := c.Out.Push(", `
	if planted("event-after-data") {
		var late []byte
		for _, b := range p.Frames {
			late = append(late, b...)
		}
		plantedLater(20*time.Millisecond, func() {
			if _, _, wake := c.Out.Push(socket.Pushed{Frames: [][]byte{late}}, c.server.opts.MaxUnreadBytes); wake {
				c.server.flusher.Add(&c.Out)
			}
		})
		return
	}
	bytes, cut, wake := c.Out.Push(`}},
		},
		{
			Name: "missed-change-untold", Bug: "setWatches does not tell what has changed meanwhile",
			Whose: "ZOOKEEPER-1412",
			Found: 2, Of: 12,
			Patches: []Patch{{"server/watch/missed.go", "		if stat.Mzxid > relative {",
				`		if stat.Mzxid > relative && !planted("missed-change-untold") {`}},
		},
		{
			Name: "slot-lost", Bug: "a write that is dropped stays in flight",
			Found: 1, Of: 63,
			Patches: []Patch{{"server/writes.go", "	c.server.inFlight.End()\n	c.Out.DropWrite()", `
	if !planted("slot-lost") {
		c.server.inFlight.End()
	}
	c.Out.DropWrite()`}},
		},
	}
}
