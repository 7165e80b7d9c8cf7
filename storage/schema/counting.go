package schema

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"strings"

	"zkd/jute"
)

// Count is a count that is under way: the stats of target are to say how many znodes there were when they were made,
// and what was charged to them since. They say that, less what lies behind the cursor now. Immutable.
type Count struct {
	Began  jute.Zxid // of the create of the stats; an older count comes first
	Target string
	// Cursor is the header key of the last znode that was counted, or one before those of all below target. The znode
	// at target itself was counted at the beginning.
	Cursor string
	// OwedZnodes and OwedBytes are to be added to the stats with the next piece: what was changed behind the cursor and
	// is not charged to the quota will be counted, though it is of after the beginning.
	OwedZnodes, OwedBytes int64
}

// NewCount returns the count of what is below target, before its first piece.
func NewCount(began jute.Zxid, target string) *Count {
	// No znode below has this key: a name has a byte at least.
	return &Count{Began: began, Target: target, Cursor: string(AppendChildrenPrefix(nil, target))}
}

// Before orders counts as they are made.
func (c *Count) Before(o *Count) int {
	return cmp.Or(cmp.Compare(c.Began, o.Began), strings.Compare(c.Target, o.Target))
}

// CountingVersion begins the value of a count.
const CountingVersion = 1

// CountingFixedBytes is the size of a count's value without the cursor.
const CountingFixedBytes = 1 + 2*8

// CountingKeyFixedBytes is the size of a count's key without the target.
const CountingKeyFixedBytes = 1 + 8

// AppendKey adds the key of a count to b: their order is that in which they are made.
func (c *Count) AppendKey(b []byte) []byte {
	return append(binary.BigEndian.AppendUint64(append(b, KindCounting), uint64(c.Began)), c.Target...)
}

// Append adds the value of c to b (docs/formats/state.md).
func (c *Count) Append(b []byte) []byte {
	b = append(b, CountingVersion)
	b = binary.BigEndian.AppendUint64(b, uint64(c.OwedZnodes))
	b = binary.BigEndian.AppendUint64(b, uint64(c.OwedBytes))
	return append(b, c.Cursor...)
}

// DecodeCount reads a count.
func DecodeCount(key, value []byte) (*Count, error) {
	if len(key) <= CountingKeyFixedBytes || len(value) <= CountingFixedBytes || value[0] != CountingVersion {
		return nil, fmt.Errorf("%w: count of a quota %x: %x", ErrDamagedValue, key, value)
	}
	return &Count{
		Began: jute.Zxid(binary.BigEndian.Uint64(key[1:])), Target: string(key[CountingKeyFixedBytes:]),
		OwedZnodes: int64(binary.BigEndian.Uint64(value[1:])), OwedBytes: int64(binary.BigEndian.Uint64(value[9:])),
		Cursor: string(value[CountingFixedBytes:]),
	}, nil
}

// String is c for people.
func (c *Count) String() string {
	if c == nil {
		return "none"
	}
	return fmt.Sprintf("begun at %#x, come to %s, owes %d znodes of %d bytes", uint64(c.Began),
		PathOfNodeKey(nil, []byte(c.Cursor)), c.OwedZnodes, c.OwedBytes)
}
