package inspect

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"iter"
	"strings"

	"zkd/jute"
	"zkd/storage/schema"
	"zkd/storage/serverid"
)

// Comparable is a state that Differences reads: a State or a backup.Reader.
type Comparable interface {
	// Each calls znode with each znode in the order of their keys, its data loaded, then session with each session in
	// the order of their ids. What they get is valid during the call.
	Each(znode func(n *schema.Znode, header []byte) error, session func(*schema.SessionInfo) error) error
}

// Difference is a znode or a session that two states do not have alike.
type Difference struct {
	Path    string         // of the znode; "" for a session
	Session jute.SessionID // of the session
	// OnlyIn is 1 if only the first state has it, 2 if only the second one, 0 if both have.
	OnlyIn int
	// Fields are what differs, if both have it.
	Fields []FieldDifference
}

// FieldDifference is one thing in which two znodes or sessions differ, as text for people. Data and passwords are
// secrets: their lengths and checksums are shown.
type FieldDifference struct{ Name, First, Second string }

// compared is one znode or session on its way through the comparison.
type compared struct {
	key     []byte // in the order of the store: znodes come before sessions
	node    *schema.Znode
	session *schema.SessionInfo
}

// errEnough ends a walk whose rest nobody wants.
var errEnough = errors.New("enough was seen")

// walk returns the content of a state, a znode or session at a time; each is valid until the next one is asked for. The
// error ends it.
func walk(c Comparable) iter.Seq2[compared, error] {
	return func(yield func(compared, error) bool) {
		var key []byte
		next := func(one compared) error {
			if !yield(one, nil) {
				return errEnough
			}
			return nil
		}
		err := c.Each(func(n *schema.Znode, _ []byte) error {
			key = schema.AppendNodeKey(key[:0], schema.KindNode, n.Path)
			return next(compared{key: key, node: n})
		}, func(s *schema.SessionInfo) error {
			// ids have a sign
			key = binary.BigEndian.AppendUint64(append(key[:0], schema.KindSession), uint64(s.ID)^1<<63)
			return next(compared{key: key, session: s})
		})
		if err != nil && err != errEnough { //nolint:errorlint // it is what next returned
			yield(compared{}, err)
		}
	}
}

// Differences calls f with each znode, and then each session, that two states do not have alike, in the order of the
// store: the children of one parent side by side. It ends when f returns false, and with ctx. Memory does not go with
// the number.
func Differences(ctx context.Context, first, second Comparable, f func(Difference) bool) error {
	counts, err := countsOf(first, second)
	if err != nil {
		return err
	}
	a, stopA := iter.Pull2(walk(first))
	defer stopA()
	b, stopB := iter.Pull2(walk(second))
	defer stopB()
	one, errOne, moreA := a()
	two, errTwo, moreB := b()
	for moreA || moreB {
		if err := ctx.Err(); err != nil {
			return err
		}
		if errOne != nil {
			return fmt.Errorf("read the first state: %w", errOne)
		}
		if errTwo != nil {
			return fmt.Errorf("read the second state: %w", errTwo)
		}
		order := compareKeys(one.key, moreA, two.key, moreB)
		var d Difference
		switch {
		case order < 0:
			d = one.alone(1)
		case order > 0:
			d = two.alone(2)
		default:
			d = one.differs(&two)
			counts.compare(&d)
		}
		if (d.OnlyIn != 0 || len(d.Fields) > 0) && !f(d) {
			return nil
		}
		if order <= 0 {
			one, errOne, moreA = a()
		}
		if order >= 0 {
			two, errTwo, moreB = b()
		}
	}
	return nil
}

// countsUnderWay are the counts of quotas in two states, by the paths of their stats.
type countsUnderWay [2]map[string]*schema.Count

// countsOf reads the counts under way if both states have any: a backup has none, its stats say what they will come to,
// as those of an inspection do here.
func countsOf(first, second Comparable) (found countsUnderWay, err error) {
	for i, c := range [...]Comparable{first, second} {
		s, ok := c.(*State)
		if !ok {
			return countsUnderWay{}, nil
		}
		all, err := s.r.Counts()
		if err != nil {
			return found, err
		}
		found[i] = map[string]*schema.Count{}
		for _, c := range all {
			found[i][string(schema.AppendQuotaNode(nil, c.Target, schema.StatsName))] = c
		}
	}
	return found, nil
}

// compare adds to d, which is of a znode that both states have, how their counts differ.
func (u *countsUnderWay) compare(d *Difference) {
	if len(u[0])+len(u[1]) == 0 {
		return
	}
	if a, b := u[0][d.Path].String(), u[1][d.Path].String(); a != b {
		d.Fields = append(d.Fields, FieldDifference{Name: "count under way", First: a, Second: b})
	}
}

// compareKeys compares keys of which one may not be there: it is behind all others.
func compareKeys(a []byte, hasA bool, b []byte, hasB bool) int {
	switch {
	case !hasB:
		return -1
	case !hasA:
		return 1
	}
	return bytes.Compare(a, b)
}

// alone is the difference that only one of the states has c.
func (c *compared) alone(in int) Difference {
	d := c.named()
	d.OnlyIn = in
	return d
}

// named is a difference that names c.
func (c *compared) named() Difference {
	if c.session != nil {
		return Difference{Session: c.session.ID}
	}
	return Difference{Path: c.node.Path}
}

// differs is what differs between two znodes or sessions of the same name.
func (c *compared) differs(o *compared) Difference {
	d := c.named()
	mine, theirs := c.fields(), o.fields()
	for i := range mine {
		if mine[i][1] != theirs[i][1] {
			d.Fields = append(d.Fields, FieldDifference{Name: mine[i][0], First: mine[i][1], Second: theirs[i][1]})
		}
	}
	return d
}

// fields are the names and values of what c consists of.
func (c *compared) fields() [][2]string {
	if s := c.session; s != nil {
		return [][2]string{
			{"timeout", fmt.Sprintf("%d ms", s.TimeoutMillis)}, {"server", fmt.Sprint(serverid.Number(s.Owner))},
			{"password", fmt.Sprintf("checksum %#x", crc32.ChecksumIEEE(s.Passwd[:]))},
		}
	}
	n := c.node
	data := "null"
	if !n.NullData {
		data = fmt.Sprintf("%d bytes, checksum %#x", n.DataLen, n.CRC)
	}
	return [][2]string{
		{"data", data}, {"ACL", aclText(n.ACL)},
		{"czxid", hexZxid(n.Czxid)}, {"mzxid", hexZxid(n.Mzxid)}, {"pzxid", hexZxid(n.Pzxid)},
		{"ctime", fmt.Sprint(n.Ctime)}, {"mtime", fmt.Sprint(n.Mtime)},
		{"version", fmt.Sprint(n.Version)}, {"creations of children", fmt.Sprint(n.Creations)},
		{"ACL version", fmt.Sprint(n.Aversion)}, {"owner", fmt.Sprintf("%#x", uint64(n.Owner))},
		{"children", fmt.Sprint(n.Children)},
	}
}

// aclText is a list as zkCli's getAcl shows it, in a line.
func aclText(list []jute.ACL) string {
	var b strings.Builder
	for i := range list {
		fmt.Fprintf(&b, "%s:%s:%d ", list[i].ID.Scheme, list[i].ID.ID, list[i].Perms)
	}
	return "[" + strings.TrimSpace(b.String()) + "]"
}

// hexZxid is a zxid as ZooKeeper writes it.
func hexZxid(z jute.Zxid) string { return fmt.Sprintf("%#x", uint64(z)) }

// Each implements Comparable: stats of quotas whose count is under way are what they will come to.
func (s *State) Each(
	znode func(n *schema.Znode, header []byte) error, session func(*schema.SessionInfo) error,
) error {
	r, err := s.r.Settled()
	if err != nil {
		return err
	}
	return r.Each(znode, session)
}
