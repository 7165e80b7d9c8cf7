package entry

import (
	"encoding/binary"
	"fmt"

	"zkd/jute"
)

// OpCompareState is the proposal by which the members of an ensemble compare their states. Its body is a CompareTxn,
// and it is alone in its entry. It takes no zxid and never comes from a client.
const OpCompareState jute.Op = -20

// CompareTxn is the body of OpCompareState.
type CompareTxn struct {
	// Index is 0 for a checksum point: all members take the sums of their states before this entry. Otherwise it is the
	// index of a point, and Sums what most members had there.
	Index uint64
	Sums  Sums
}

// compareTxnBytes is the size of an encoded CompareTxn.
const compareTxnBytes = 4 * 8

// Append adds the encoding of c to b (docs/formats/entry.md).
func (c *CompareTxn) Append(b []byte) []byte {
	for _, n := range [...]uint64{c.Index, c.Sums.Znodes, c.Sums.Sessions, c.Sums.Rest} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	return b
}

// Decode reads c from b.
func (c *CompareTxn) Decode(b []byte) error {
	if len(b) != compareTxnBytes {
		return fmt.Errorf("compare transaction of %d bytes, want %d", len(b), compareTxnBytes)
	}
	c.Index = binary.BigEndian.Uint64(b)
	c.Sums = Sums{
		Znodes: binary.BigEndian.Uint64(b[8:]), Sessions: binary.BigEndian.Uint64(b[16:]),
		Rest: binary.BigEndian.Uint64(b[24:]),
	}
	return nil
}

// Sums stand for a whole state: states that differ have, but for chance, other sums. Each is a sum modulo 2⁶⁴ of 64-bit
// hashes, so that an entry changes it by what the entry changes.
//
// ZooKeeper's digest, which a position has as well, is for others to compare with: it knows nothing of ACLs, sessions
// and what is below /zookeeper.
type Sums struct {
	// Znodes is over all znodes: paths, data, ACL lists, Stats, and what no client sees of them. Quotas are znodes.
	Znodes uint64
	// Sessions is over all sessions: ids, passwords, timeouts, owners.
	Sessions uint64
	// Rest is over what there is once: zxid, counters, the ensemble with its configuration, an upload; and over the
	// counts of quotas that are under way.
	Rest uint64
}

// Differs names the first part in which two states differ; "" if there is none.
func (s Sums) Differs(o Sums) string {
	switch {
	case s.Znodes != o.Znodes:
		return "znodes"
	case s.Sessions != o.Sessions:
		return "sessions"
	case s.Rest != o.Rest:
		return "zxid, counters, configuration or counts of quotas"
	}
	return ""
}
