package state

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"zkd/jute"
	"zkd/storage/apply"
	"zkd/storage/schema"
)

// formatResult writes all that a Result holds.
func formatResult(w io.Writer, r *apply.Result) {
	fmt.Fprintf(w, "%s session=%d zxid=%d %s", r.Op, r.Session, r.Zxid, r.Code)
	if r.Path != "" {
		fmt.Fprintf(w, " %s", r.Path)
	}
	if r.Stat != (jute.Stat{}) {
		fmt.Fprintf(w, " %s", formatStat(r.Stat))
	}
	fmt.Fprintln(w)
	for i := range r.Ops {
		o := &r.Ops[i]
		fmt.Fprintf(w, "  %d: %s %s", i, o.Op, o.Code)
		if o.Path != "" {
			fmt.Fprintf(w, " %s", o.Path)
		}
		if o.Stat != (jute.Stat{}) {
			fmt.Fprintf(w, " %s", formatStat(o.Stat))
		}
		fmt.Fprintln(w)
	}
	for i := range r.Events {
		e := &r.Events[i]
		fmt.Fprintf(w, "  event %s %s zxid=%d %s\n", eventName(e.Type), e.Path, e.Zxid, formatACL(e.ACL))
	}
	if r.Refusal != "" {
		fmt.Fprintf(w, "  refused: %s\n", r.Refusal)
	}
	if r.Data != nil {
		fmt.Fprintf(w, "  data %q\n", r.Data)
	}
	if s := r.NewSession; s != nil {
		fmt.Fprintf(w, "  new session %d timeout=%d owner=%d passwd=%x\n", s.ID, s.TimeoutMillis, s.Owner, s.Passwd)
	}
	if s := r.ClosedSession; s != nil {
		fmt.Fprintf(w, "  closed session %d\n", s.ID)
		if r.Unfinished {
			fmt.Fprintf(w, "  not all of it\n")
		}
	}
}

// eventName names an event type.
func eventName(e jute.EventType) string {
	switch e {
	case jute.EventNodeCreated:
		return "created"
	case jute.EventNodeDeleted:
		return "deleted"
	case jute.EventNodeDataChanged:
		return "changed"
	case jute.EventNodeChildrenChanged:
		return "children"
	}
	return fmt.Sprint(int(e))
}

// formatStat writes the fields of a Stat by their first letters.
func formatStat(s jute.Stat) string {
	return fmt.Sprintf("c=%d m=%d p=%d ct=%d mt=%d v=%d cv=%d av=%d eo=%d len=%d n=%d",
		s.Czxid, s.Mzxid, s.Pzxid, s.Ctime, s.Mtime, s.Version, s.Cversion, s.Aversion,
		s.EphemeralOwner, s.DataLength, s.NumChildren)
}

// formatACL writes a list as a script does.
func formatACL(list []jute.ACL) string {
	var parts []string
	for i := range list {
		parts = append(parts, fmt.Sprintf("%s:%s:%d", list[i].ID.Scheme, list[i].ID.ID, list[i].Perms))
	}
	return strings.Join(parts, ",")
}

// formatData writes data so that null and empty differ.
func formatData(b []byte) string {
	switch {
	case b == nil:
		return "null"
	case len(b) > 64:
		return fmt.Sprintf("[%d bytes]", len(b))
	}
	return fmt.Sprintf("%q", b)
}

// dumpState writes all that readers can see, in order; the system's own znodes only if asked for.
func dumpState(m *Machine, system bool) string {
	v := m.View()
	defer v.Close()
	return dumpView(v, system)
}

// dumpView writes what a View shows.
func dumpView(v View, system bool) string {
	var out strings.Builder
	var walk func(path string)
	walk = func(path string) {
		n, ok := v.Get(path)
		if !ok {
			fmt.Fprintf(&out, "%s is missing\n", path)
			return
		}
		fmt.Fprintf(&out, "%s %s %s %s\n", path, formatData(n.Data()), formatStat(n.Stat()), formatACL(n.ACL()))
		names, _ := v.Children(path, nil)
		for _, name := range names {
			child := strings.TrimSuffix(path, "/") + "/" + name
			if child != schema.ZookeeperPath || system {
				walk(child)
			}
		}
	}
	walk("/")
	v.Ephemerals(func(id jute.SessionID, path string) { fmt.Fprintf(&out, "ephemeral of %d: %s\n", id, path) })
	var sessions []schema.SessionInfo
	v.Sessions(func(s schema.SessionInfo) { sessions = append(sessions, s) })
	slices.SortFunc(sessions, func(a, b schema.SessionInfo) int { return int(a.ID - b.ID) })
	for _, s := range sessions {
		formatSession(&out, &s)
	}
	fmt.Fprintf(&out, "zxid=%d nodes=%d ephemerals=%d bytes=%d\n", v.Zxid(), v.NodeCount(), v.EphemeralCount(),
		v.ApproximateDataBytes())
	return out.String()
}

// formatSession writes what there is of a session.
func formatSession(out *strings.Builder, s *schema.SessionInfo) {
	fmt.Fprintf(out, "session %d timeout=%d owner=%d passwd=%x", s.ID, s.TimeoutMillis, s.Owner, s.Passwd)
	if s.Identities != nil {
		fmt.Fprintf(out, " identities=%v", s.Identities.IDs)
	}
	if s.Ending {
		fmt.Fprint(out, " ending")
	}
	fmt.Fprintln(out)
}

// discardLogger returns a logger that says nothing.
func discardLogger() *slog.Logger { return slog.New(slog.DiscardHandler) }

// dump writes the state as dumpState does, and the digest.
func (o *oracle) dump() (text string, digest uint64) {
	var out strings.Builder
	var owned []string
	ephemerals, bytes := 0, 0
	var walk func(path string)
	walk = func(path string) {
		n := o.nodes[path]
		fmt.Fprintf(&out, "%s %s %s %s\n", path, formatData(n.data), formatStat(n.visible()), formatACL(n.acl))
		bytes += len(path) + len(n.data)
		if n.stat.EphemeralOwner > 0 {
			ephemerals++
			owned = append(owned, fmt.Sprintf("%020d %s", n.stat.EphemeralOwner, path))
		}
		if !strings.HasPrefix(path, "/zookeeper/") {
			s := &n.stat
			b := append([]byte(strings.TrimSuffix(path, "/")), n.data...)
			for _, v := range []int64{int64(s.Czxid), int64(s.Mzxid), int64(s.Pzxid), int64(s.Ctime), int64(s.Mtime)} {
				b = binary.BigEndian.AppendUint64(b, uint64(v))
			}
			for _, v := range []jute.Version{s.Version, s.Cversion, s.Aversion} {
				b = binary.BigEndian.AppendUint32(b, uint32(v))
			}
			digest += uint64(crc32.ChecksumIEEE(binary.BigEndian.AppendUint64(b, uint64(s.EphemeralOwner))))
		}
		for _, name := range slices.Sorted(maps.Keys(n.child)) {
			walk(strings.TrimSuffix(path, "/") + "/" + name)
		}
	}
	walk("/")
	slices.Sort(owned)
	for _, line := range owned {
		id, path, _ := strings.Cut(line, " ")
		fmt.Fprintf(&out, "ephemeral of %s: %s\n", strings.TrimLeft(id, "0"), path)
	}
	for _, id := range slices.Sorted(maps.Keys(o.sessions)) {
		s := o.sessions[id]
		formatSession(&out, &s)
	}
	fmt.Fprintf(&out, "zxid=%d nodes=%d ephemerals=%d bytes=%d\n", o.zxid, len(o.nodes), ephemerals, bytes)
	return out.String(), digest
}
