package faults

import "zkd/jute"

// CheckOrder sees to it that the writes of a session to a register take effect in the order in which it has sent them,
// those included whose outcome it was never told and that others have seen: a write that is late must not come behind
// one that was sent after it, on another connection.
func CheckOrder(ops []Op, violated func(string, ...any)) {
	type key struct {
		session jute.SessionID
		path    string
	}
	seen := map[string]jute.Version{} // of values, which are written once
	for _, op := range ops {
		if op.Outcome == Done && (op.writes() || op.Kind == Read || op.Kind == SyncRead) {
			seen[op.Value] = op.Version
		}
	}
	last := map[key]Op{}
	for _, op := range ops {
		version, found := seen[op.Value]
		if !op.writes() || !found || op.Session == 0 {
			continue
		}
		op.Version = version
		k := key{op.Session, op.Path}
		if before, ok := last[k]; ok && op.Version <= before.Version {
			violated("session %#x has sent %v, and later %v", op.Session, before, op)
		}
		last[k] = op
	}
}
