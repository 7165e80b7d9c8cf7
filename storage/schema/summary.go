package schema

import (
	"fmt"

	"zkd/jute"
	"zkd/storage/entry"
)

// Summary is what a backup says about the state that it holds.
type Summary struct {
	Made      jute.Millis     // when the backup was begun, by the clock of who made it
	Writer    string          // the version that made it
	ClusterID entry.ClusterID // of the ensemble that the state was of; zero if it was of none
	Config    string          // the text of that ensemble's configuration; "" if there was none
	Index     uint64          // of the last log entry in the state
	Term      uint64          // of that entry
	Zxid      jute.Zxid       // of the last write in the state
	Znodes    int64           // the root included
	// Ephemerals are the znodes that belong to sessions, DataBytes the bytes of all paths and data.
	Ephemerals, DataBytes int64
	// Digest is ZooKeeper's of the tree (version 2): paths, data and Stats of all znodes outside /zookeeper.
	Digest   uint64
	Sessions int64
}

// Position is the state's own words for the same.
func (i *Summary) Position() Position {
	return Position{Index: i.Index, Term: i.Term, Zxid: i.Zxid, Nodes: i.Znodes, Ephemerals: i.Ephemerals,
		DataBytes: i.DataBytes, Digest: i.Digest}
}

// SummaryOf says of a state what a backup says of it.
func SummaryOf(pos *Position, e *EnsembleRecord, sessions int) Summary {
	return Summary{ClusterID: e.ClusterID(), Config: e.ConfigText(), Index: pos.Index, Term: pos.Term,
		Zxid: pos.Zxid, Znodes: pos.Nodes, Ephemerals: pos.Ephemerals, DataBytes: pos.DataBytes, Digest: pos.Digest,
		Sessions: int64(sessions)}
}

// Tally adds up what the znodes of a backup make, to compare it with what the state has said.
type Tally struct {
	Znodes, ephemerals, dataBytes, children int64
	digest                                  uint64
	Sessions                                int64
	buf                                     [DigestStatBytes]byte
}

// Add counts a znode.
func (t *Tally) Add(n *Znode) {
	t.Znodes++
	t.dataBytes += int64(len(n.Path)) + int64(n.DataLen)
	t.children += int64(n.Children)
	t.digest += n.Digest(&t.buf)
	if SessionOwner(n) != 0 {
		t.ephemerals++
	}
}

// Compare says what does not fit.
func (t *Tally) Compare(i *Summary) error {
	for _, c := range []struct {
		what      string
		got, want int64
	}{
		{"znodes", t.Znodes, i.Znodes},
		{"ephemeral znodes", t.ephemerals, i.Ephemerals},
		{"bytes of paths and data", t.dataBytes, i.DataBytes},
		{"children", t.children, i.Znodes - 1},
		{"sessions", t.Sessions, i.Sessions},
	} {
		if c.got != c.want {
			return fmt.Errorf("%d %s are there, %d were counted", c.got, c.what, c.want)
		}
	}
	if t.digest != i.Digest {
		return fmt.Errorf("the digest of the znodes is %#x, the state's is %#x", t.digest, i.Digest)
	}
	return nil
}
