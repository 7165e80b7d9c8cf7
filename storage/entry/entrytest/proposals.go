package entrytest

import (
	"github.com/cespare/xxhash/v2"

	"zkd/jute"
	"zkd/storage/acl"
	"zkd/storage/entry"
)

// Identities is what a connection without authentication has proven.
var Identities = []jute.ID{{Scheme: acl.SchemeIP, ID: "127.0.0.1"}}

// Create is a create of path.
func Create(path string, data []byte, mode jute.CreateMode) *entry.Proposal {
	r := jute.CreateRequest{Path: path, Data: data, ACL: acl.Open, Flags: mode}
	return &entry.Proposal{Op: jute.OpCreate, Session: 1, Time: 1700000000000, Identities: Identities,
		Body: r.Append(nil)}
}

// Delete is a delete of path.
func Delete(path string) *entry.Proposal {
	r := jute.PathVersionRequest{Path: path, Version: -1}
	return &entry.Proposal{Op: jute.OpDelete, Session: 1, Time: 1700000000000, Identities: Identities,
		Body: r.Append(nil)}
}

// SetData is a SetData of path.
func SetData(path string, data []byte) *entry.Proposal {
	r := jute.SetDataRequest{Path: path, Data: data, Version: -1}
	return &entry.Proposal{Op: jute.OpSetData, Session: 1, Time: 1700000000000, Identities: Identities,
		Body: r.Append(nil)}
}

// Entries puts proposals into entries of size each.
func Entries(size int, proposals []*entry.Proposal) [][]byte {
	var entries [][]byte
	for len(proposals) > 0 {
		n := min(size, len(proposals))
		b := entry.AppendEntryHeader(nil, 1, uint64(len(entries)))
		for _, p := range proposals[:n] {
			b = entry.AppendProposal(b, p)
		}
		entries = append(entries, b)
		proposals = proposals[n:]
	}
	return entries
}

// Session makes a session.
func Session(id jute.SessionID) *entry.Proposal {
	return &entry.Proposal{Op: jute.OpCreateSession, Session: id, Body: (&entry.SessionTxn{Owner: 1}).Append(nil)}
}

// Load is one of the proposals of a restore.
func Load(op jute.Op, txn entry.LoadTxn) *entry.Proposal {
	return &entry.Proposal{Op: op, Body: txn.Append(nil)}
}

// Upload returns the proposals that bring content in pieces of a size, and the one that makes it the state.
func Upload(id uint64, content []byte, piece int) (upload []*entry.Proposal, commit *entry.Proposal) {
	upload = append(upload, Load(entry.OpLoadBegin, entry.LoadTxn{Upload: id}))
	for at := 0; at < len(content); at += piece {
		upload = append(upload, Load(entry.OpLoadChunk, entry.LoadTxn{Upload: id, Offset: int64(at),
			Data: content[at:min(at+piece, len(content))]}))
	}
	return upload, Load(entry.OpLoadCommit, entry.LoadTxn{Upload: id, Offset: int64(len(content)),
		Sum: xxhash.Sum64(content)})
}
