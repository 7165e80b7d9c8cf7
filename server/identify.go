package server

import (
	"zkd/jute"
	"zkd/storage/acl"
	"zkd/storage/apply"
	"zkd/storage/entry"
)

// inlineIdentityBytes is up to how many bytes of identities each write carries by itself. One address and one digest
// have 70; to refer to a list takes 10, and a proposal for each connection. A guess: the usual client is below it.
const inlineIdentityBytes = 100

// identification is how the writes of a connection say who its client is. Owned by the reader.
type identification struct {
	who       *acl.Proven        // that the rest is about
	size      int                // of its list
	list      entry.IdentityList // nil: it is short
	reference entry.Reference    // 0: the list is not proposed
}

// bytes is how much the identities of a connection add to its next write. It is for who the client is now.
func (i *identification) bytes(who *acl.Proven) int {
	if who != i.who {
		list := entry.ListIdentities(who.IDs())
		*i = identification{who: who, size: len(list)}
		if len(list) > inlineIdentityBytes {
			i.list = list
		}
	}
	if i.reference != 0 {
		return 0
	}
	return i.size
}

// identify has p say who the client is: by a reference to a list that the session has, if that is long, all members
// know such lists, and the session is theirs. The list is proposed before p then. Reconfigs are looked at before they
// are applied, so they carry what they need.
func (c *writes) identify(p *entry.Proposal) error {
	i := &c.identification
	if i.list == nil || c.flags&flagLocal != 0 || p.Op == jute.OpReconfig ||
		c.server.opts.Machine.Level() < entry.LevelIdentities {
		p.Identities = i.who.IDs()
		return nil
	}
	if i.reference == 0 {
		set := entry.Proposal{Op: entry.OpSetIdentities, Session: c.session, Xid: p.Xid, Time: p.Time, Flags: p.Flags,
			Server: p.Server, Body: i.list}
		if err := c.server.opts.node.Propose(&set, identifying{c.conn}); err != nil {
			return err
		}
		i.reference = i.list.Reference()
	}
	p.Reference = i.reference
	return nil
}

// identifying waits for the list of a connection to be the session's.
type identifying struct{ *conn }

// Applied ends the connection if the session is not its own any more: its writes are refused then.
func (w identifying) Applied(r *apply.Result) {
	if r.Code != jute.OK {
		w.Out.Close()
	}
}

// Dropped ends the connection, as Dropped of the write behind it would.
func (w identifying) Dropped(error) { w.Out.Close() }
