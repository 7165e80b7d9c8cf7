package faults

import (
	"crypto/sha1" //nolint:gosec // the digest scheme is made of it
	"encoding/base64"
	"fmt"
	"sync"
	"time"

	"zkd/jute"
)

// owners are clients with an identity each, whose znodes nobody else may read, write or delete, but for those that are
// opened: they have an odd version of their ACL.
type owners struct {
	part
	mu       sync.Mutex
	paths    []owned  // guarded by mu; the latest last
	accesses []Access // guarded by mu
}

// owned is a znode and the client whose it is.
type owned struct {
	path  string
	owner int
}

// Access is what came of a request for another's znode, or one's own.
type Access struct {
	Client, Owner int
	Op            jute.Op
	Path, Addr    string
	Code          jute.Code
	Data          string       // that was read
	Aversion      jute.Version // of the znode, as it was read
}

// secret is what every znode of an owner holds.
const secret = "secret"

func identityOf(client int) Identity {
	return Identity{User: fmt.Sprintf("owner%d", client), Password: fmt.Sprintf("password%d", client)}
}

// aclOf lets the owner do everything; open lets everybody read.
func aclOf(client int, open bool) []jute.ACL {
	i := identityOf(client)
	sum := sha1.Sum([]byte(i.User + ":" + i.Password)) //nolint:gosec // likewise
	acl := []jute.ACL{{Perms: jute.PermAll,
		ID: jute.ID{Scheme: "digest", ID: i.User + ":" + base64.StdEncoding.EncodeToString(sum[:])}}}
	if open {
		acl = append(acl, jute.ACL{Perms: jute.PermRead, ID: jute.ID{Scheme: "world", ID: "anyone"}})
	}
	return acl
}

func (w *owners) folder(client int) string { return fmt.Sprintf("%s/o%d", w.root, client) }

// Plant implements Role.
func (w *owners) Plant(s *Session) error {
	if err := s.Plant(w.root, ""); err != nil {
		return err
	}
	for client := range w.Clients {
		reply, err := s.Insist(func() (Reply, error) {
			return s.CreateWith(w.folder(client), secret, aclOf(client, false))
		})
		if err := planted(w.folder(client), reply, err); err != nil {
			return err
		}
		w.paths = append(w.paths, owned{w.folder(client), client})
	}
	return nil
}

// Identities implements Role.
func (w *owners) Identities() (all []Identity) {
	for client := range w.Clients {
		all = append(all, identityOf(client))
	}
	return all
}

// Run implements Role.
func (w *owners) Run(id int, pace time.Duration, o SessionOptions) {
	o.Identities = []Identity{identityOf(id)}
	n := 0
	(&shift{part: &w.part, id: id, pace: 2 * pace, o: o, step: func(s *Session) {
		if o.Rand.IntN(4) > 0 {
			w.mu.Lock()
			recent := w.paths[max(0, len(w.paths)-6):]
			to := recent[o.Rand.IntN(len(recent))]
			if o.Rand.IntN(4) == 0 {
				to = w.paths[o.Rand.IntN(len(w.paths))]
			}
			w.mu.Unlock()
			w.access(s, id, to)
			return
		}
		n++
		to := owned{fmt.Sprintf("%s/z%d", w.folder(id), n), id}
		w.mu.Lock() // others may try before it is there
		w.paths = append(w.paths, to)
		w.mu.Unlock()
		reply, err := s.CreateWith(to.path, secret, aclOf(id, false))
		w.note(s, Access{Client: id, Owner: id, Op: jute.OpCreate, Path: to.path}, reply, err, jute.NodeExists)
	}}).run()
}

// access tries to do something to a znode.
func (w *owners) access(s *Session, id int, to owned) {
	a := Access{Client: id, Owner: to.owner, Path: to.path}
	var reply Reply
	var err error
	r := s.o.Rand.IntN(10)
	switch {
	case r == 0 && to.path != w.folder(to.owner):
		a.Op = jute.OpDelete
		reply, err = s.Delete(to.path)
	case r == 1:
		a.Op = jute.OpSetData
		reply, _, err = s.SetData(to.path, secret, jute.AnyVersion)
	case r == 2:
		a.Op = jute.OpGetChildren2
		reply, _, _, err = s.Children(to.path, false)
	case r == 3 && to.owner == id:
		w.turn(s, &a)
		return
	default:
		a.Op = jute.OpGetData
		var stat jute.Stat
		reply, a.Data, stat, err = s.GetData(to.path, false)
		a.Aversion = stat.Aversion
	}
	w.note(s, a, reply, err, jute.NoAuth, jute.NoNode)
}

// turn opens a znode to readers, or closes it again.
func (w *owners) turn(s *Session, a *Access) {
	reply, stat, err := s.Exists(a.Path)
	if w.outcome("exists", reply, err, jute.NoNode) != Done {
		return
	}
	a.Op = jute.OpSetACL
	request := jute.SetACLRequest{Path: a.Path, ACL: aclOf(a.Owner, stat.Aversion%2 == 0), Version: stat.Aversion}
	reply, err = s.Do(jute.OpSetACL, request.Append)
	w.note(s, *a, reply, err, jute.NoAuth, jute.NoNode, jute.BadVersion)
}

// note notes what came of a request.
func (w *owners) note(s *Session, a Access, reply Reply, err error, may ...jute.Code) {
	if o := w.outcome(a.Op.String(), reply, err, may...); o != Done && o != Refused {
		return
	}
	a.Code, a.Addr = reply.Err, s.Addr
	w.mu.Lock()
	defer w.mu.Unlock()
	w.accesses = append(w.accesses, a)
}

// Check implements Role.
func (w *owners) Check([]Tree) { CheckAccesses(w.accesses, w.violated) }

// CheckAccesses holds requests against the ACLs: the owner is never refused, and everybody else always, but who reads
// what is open.
func CheckAccesses(all []Access, violated func(string, ...any)) {
	for _, a := range all {
		isRead := a.Op == jute.OpGetData || a.Op == jute.OpGetChildren2
		switch {
		case a.Client == a.Owner && a.Code == jute.NoAuth:
			violated("its owner was refused: %+v", a)
		case a.Client == a.Owner && a.Code == jute.OK && a.Op == jute.OpGetData && a.Data != secret:
			violated("another content: %+v", a)
		case a.Client != a.Owner && a.Code == jute.OK && !isRead:
			violated("another than the owner has changed: %+v", a)
		case a.Client != a.Owner && a.Code == jute.OK && a.Op == jute.OpGetData && a.Aversion%2 == 0:
			violated("another than the owner has read: %+v", a)
		case a.Client != a.Owner && a.Data != "" && a.Code != jute.OK:
			violated("a refusal with data: %+v", a)
		}
	}
}
