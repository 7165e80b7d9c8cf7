package zkdata

import (
	"bytes"
	"errors"
	"fmt"
	"hash/adler32"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"zkd/jute"
)

// logHead begins a log.
func logHead() []byte {
	return jute.AppendLong(jute.AppendInt(jute.AppendInt(nil, logMagic), fileVersion), 0)
}

// txnHead begins a transaction.
func txnHead(zxid jute.Zxid, op jute.Op) []byte {
	b := jute.AppendLong(nil, 0x100001)
	b = jute.AppendInt(b, 3)
	b = jute.AppendLong(b, int64(zxid))
	b = jute.AppendLong(b, 1234)
	return jute.AppendInt(b, int32(op))
}

// framed makes a record of a transaction.
func framed(txn []byte) []byte {
	b := jute.AppendLong(nil, int64(adler32.Checksum(txn)))
	b = jute.AppendInt(b, int32(len(txn)))
	return append(append(b, txn...), endOfRecord)
}

// setDataTxn is a transaction that sets /a.
func setDataTxn(zxid jute.Zxid, data string) []byte {
	b := jute.AppendString(txnHead(zxid, jute.OpSetData), "/a")
	return jute.AppendInt(jute.AppendBuffer(b, []byte(data)), 5)
}

// withDigest adds a digest.
func withDigest(txn []byte, sum uint64) []byte {
	return jute.AppendLong(jute.AppendInt(txn, DigestVersion), int64(sum))
}

// zxids reads a log and returns what is in it.
func zxids(content []byte) (found []jute.Zxid, torn string, err error) {
	l, err := ReadLog(bytes.NewReader(content), int64(len(content)), "log.1")
	if err != nil {
		return nil, "", err
	}
	for {
		x, ok, err := l.Next()
		if err != nil || !ok {
			return found, l.Torn(), err
		}
		found = append(found, x.Zxid)
	}
}

// TestLogEnds reads logs that end in all the ways that a crash may leave.
func TestLogEnds(t *testing.T) {
	one, two := framed(setDataTxn(1, "one")), framed(setDataTxn(2, "two"))
	three := framed(setDataTxn(3, "three"))
	zeros := make([]byte, 200<<10)
	log := func(parts ...[]byte) []byte { return append(logHead(), bytes.Join(parts, nil)...) }
	noEnd := bytes.Clone(two)
	noEnd[len(noEnd)-1] = 0
	for _, c := range []struct {
		name    string
		content []byte
		want    []jute.Zxid
		torn    string // a part of it; "" for none
		damage  string // likewise
	}{
		{"whole", log(one, two), []jute.Zxid{1, 2}, "", ""},
		{"zeros ahead", log(one, two, zeros), []jute.Zxid{1, 2}, "", ""},
		{"nothing", nil, nil, "", ""},
		{"zeros alone", zeros, nil, "", ""},
		{"a head alone", log(), nil, "", ""},
		{"half a head", logHead()[:7], nil, "no header yet", ""},
		{"cut inside a record", log(one, two[:20]), []jute.Zxid{1}, "the file ends inside a record", ""},
		{"cut inside a checksum", log(one, two[:5]), []jute.Zxid{1}, "the file ends inside a record", ""},
		{"half a record, then zeros", log(one, two[:40], zeros), []jute.Zxid{1}, "no end", ""},
		{"a record without its end", log(one, noEnd), []jute.Zxid{1}, "no end", ""},
		{"a record without its end, and another", log(one, noEnd, three), []jute.Zxid{1}, "", "a whole one at offset"},
		{"zeros, then a record", log(one, zeros[:512], three, zeros), []jute.Zxid{1}, "", "a whole one at offset"},
		{"zeros, then rubbish", log(one, zeros[:512], []byte("rubbish"), zeros), []jute.Zxid{1},
			"zeros with something", ""},
		{"a length of rubbish", log(one, []byte("rubbish rubbish")), []jute.Zxid{1}, "ends inside", ""},
		{"a negative length", log(one, make([]byte, 8), []byte{0xff, 0xff, 0xff, 0xfe}), []jute.Zxid{1},
			"has -2 bytes", ""},
		{"no log", []byte("ZKSN and so on, and on"), nil, "", "it begins with"},
	} {
		got, torn, err := zxids(c.content)
		if c.damage == "" && err != nil || c.damage != "" && (!errors.Is(err, ErrDamaged) ||
			!strings.Contains(err.Error(), c.damage) || !strings.Contains(err.Error(), "log.1 at offset")) {
			t.Errorf("%s: %v, want damage %q", c.name, err, c.damage)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
		if (torn == "") != (c.torn == "") || !strings.Contains(torn, c.torn) {
			t.Errorf("%s: torn %q, want %q", c.name, torn, c.torn)
		}
	}
}

// TestLogDamage flips a bit in each byte of the records: no transaction is read wrong, and none is lost without a
// word, but for the last one, which then looks like a torn write.
func TestLogDamage(t *testing.T) {
	content := logHead()
	for zxid := jute.Zxid(1); zxid <= 3; zxid++ {
		content = append(content, framed(setDataTxn(zxid, "some data"))...)
	}
	whole := len(content)
	lastFrom := whole - len(framed(setDataTxn(3, "some data")))
	content = append(content, make([]byte, 4096)...)
	for i := logHeaderBytes; i < whole; i++ {
		for bit := range 8 {
			b := bytes.Clone(content)
			b[i] ^= 1 << bit
			got, torn, err := zxids(b)
			if err == nil && (i < lastFrom || torn == "" || len(got) != 2) {
				t.Fatalf("bit %d of byte %d of %d: read %v, torn %q", bit, i, whole, got, torn)
			}
		}
	}
}

// TestTxns decodes each kind of transaction.
func TestTxns(t *testing.T) {
	list := []jute.ACL{{Perms: 31, ID: jute.ID{Scheme: "world", ID: "anyone"}}}
	acls := appendACLs(nil, list)
	head := Txn{Session: 0x100001, Cxid: 3, Zxid: 9, Time: 1234}
	path := func(op jute.Op) []byte { return jute.AppendString(txnHead(9, op), "/p") }
	withData := func(op jute.Op) []byte { return append(jute.AppendBuffer(path(op), []byte("d")), acls...) }
	created := func(op jute.Op, cversion jute.Version) Txn {
		x := head
		x.Op, x.Path, x.Data, x.ACL, x.ParentCversion = op, "/p", []byte("d"), list, cversion
		return x
	}
	ephemeral, ttl := created(jute.OpCreate, 7), created(jute.OpCreateTTL, 7)
	ephemeral.Ephemeral, ttl.TTL = true, 5000
	part := func(op jute.Op, body []byte) []byte { return jute.AppendBuffer(jute.AppendInt(nil, int32(op)), body) }
	deleteBody := jute.AppendString(nil, "/p")
	for _, c := range []struct {
		name string
		b    []byte
		want func(x *Txn)
	}{
		{"create", jute.AppendInt(append(withData(jute.OpCreate), 1), 7), func(x *Txn) { *x = ephemeral }},
		{"create of before 3.3", append(withData(jute.OpCreate), 1), func(x *Txn) {
			*x = ephemeral
			x.ParentCversion = -1
		}},
		{"create2", jute.AppendInt(append(withData(jute.OpCreate2), 0), 7), func(x *Txn) {
			*x = created(jute.OpCreate2, 7)
		}},
		{"container", jute.AppendInt(withData(jute.OpCreateContainer), 7), func(x *Txn) {
			*x = created(jute.OpCreateContainer, 7)
		}},
		{"ttl", jute.AppendLong(jute.AppendInt(withData(jute.OpCreateTTL), 7), 5000), func(x *Txn) { *x = ttl }},
		{"delete", path(jute.OpDelete), func(x *Txn) { x.Op, x.Path = jute.OpDelete, "/p" }},
		{"deleteContainer", path(jute.OpDeleteContainer), func(x *Txn) { x.Op, x.Path = jute.OpDeleteContainer, "/p" }},
		{"setData", jute.AppendInt(jute.AppendBuffer(path(jute.OpSetData), nil), 4), func(x *Txn) {
			x.Op, x.Path, x.Version = jute.OpSetData, "/p", 4
		}},
		{"setACL", jute.AppendInt(append(path(jute.OpSetACL), acls...), 4), func(x *Txn) {
			x.Op, x.Path, x.ACL, x.Version = jute.OpSetACL, "/p", list, 4
		}},
		{"createSession", jute.AppendInt(txnHead(9, jute.OpCreateSession), 30000), func(x *Txn) {
			x.Op, x.TimeoutMillis = jute.OpCreateSession, 30000
		}},
		{"closeSession", jute.AppendUstrings(txnHead(9, jute.OpCloseSession), []string{"/p"}), func(x *Txn) {
			x.Op, x.Paths, x.PathsKnown = jute.OpCloseSession, []string{"/p"}, true
		}},
		{"closeSession of before 3.6", txnHead(9, jute.OpCloseSession), func(x *Txn) { x.Op = jute.OpCloseSession }},
		{"closeSession with a digest alone", withDigest(txnHead(9, jute.OpCloseSession), 1<<40), func(x *Txn) {
			x.Op, x.Digest = jute.OpCloseSession, &Digest{9, 2, 1 << 40}
		}},
		{"error", jute.AppendInt(txnHead(9, jute.OpError), -110), func(x *Txn) {
			x.Op, x.Code = jute.OpError, jute.NodeExists
		}},
		{"multi", append(jute.AppendInt(txnHead(9, jute.OpMulti), 1), part(jute.OpDelete, deleteBody)...),
			func(x *Txn) {
				x.Op, x.Ops = jute.OpMulti, []Txn{head}
				x.Ops[0].Op, x.Ops[0].Path = jute.OpDelete, "/p"
			}},
		{"multi that failed", append(jute.AppendInt(txnHead(9, jute.OpMulti), 1),
			part(jute.OpError, jute.AppendInt(nil, -101))...), func(x *Txn) {
			x.Op, x.Failed, x.Ops = jute.OpMulti, true, []Txn{head}
			x.Ops[0].Op, x.Ops[0].Code = jute.OpError, jute.NoNode
		}},
	} {
		want := head
		c.want(&want)
		for _, digest := range []bool{false, true} {
			b := c.b
			if digest && want.Digest == nil {
				if c.name == "create of before 3.3" {
					continue // before digests
				}
				b = withDigest(bytes.Clone(b), 77<<33)
				want.Digest = &Digest{9, 2, 77 << 33}
			}
			var got Txn
			if err := decodeTxn(b, &got); err != nil {
				t.Errorf("%s: %v", c.name, err)
				continue
			}
			if len(got.Ops) == 0 {
				got.Ops = nil
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: want -, got +\n%s", c.name, diff)
			}
		}
	}
	for _, b := range [][]byte{nil, txnHead(1, 99), txnHead(1, jute.OpCreate), append(setDataTxn(1, ""), 1, 2, 3),
		jute.AppendInt(txnHead(1, jute.OpMulti), 1<<30)} {
		var got Txn
		if err := decodeTxn(b, &got); err == nil {
			t.Errorf("%x is read as %+v", b, got)
		}
	}
}

// logOf returns a log of setData transactions.
func logOf(zxids ...jute.Zxid) []byte {
	b := logHead()
	for _, z := range zxids {
		b = append(b, framed(setDataTxn(z, fmt.Sprint(z)))...)
	}
	return append(b, make([]byte, 100)...)
}

// closing is told when a log is closed.
type closing func()

func (c closing) Close() error { c(); return nil }

// TestReplay reads over several logs: from a snapshot on, over the end of an epoch, and not over a gap.
func TestReplay(t *testing.T) {
	epoch2 := jute.Zxid(2 << 32)
	for _, c := range []struct {
		name   string
		logs   [][]byte
		from   jute.Zxid
		force  bool
		want   []jute.Zxid
		err    error
		notice string
	}{
		{"from the middle", [][]byte{logOf(1, 2, 3), logOf(4, 5)}, 2, false,
			[]jute.Zxid{3, 4, 5}, nil, ""},
		{"nothing behind it", [][]byte{logOf(1, 2, 3)}, 3, false, nil, nil, ""},
		{"a new epoch", [][]byte{logOf(1, 2), logOf(epoch2+1, epoch2+2)}, 0, false,
			[]jute.Zxid{1, 2, epoch2 + 1, epoch2 + 2}, nil, ""},
		{"the same zxid twice", [][]byte{logOf(1, 2, 2, 3)}, 0, false, []jute.Zxid{1, 2, 2, 3}, nil,
			""},
		{"a gap", [][]byte{logOf(1, 2, 4)}, 0, false, []jute.Zxid{1, 2}, ErrGap, ""},
		{"a missing log", [][]byte{logOf(1), logOf(5)}, 0, false, []jute.Zxid{1}, ErrGap,
			""},
		{"a gap behind the snapshot", [][]byte{logOf(9)}, 5, false, nil, ErrGap, ""},
		{"a gap at the beginning of an epoch", [][]byte{logOf(1, epoch2+2)}, 0, false, []jute.Zxid{1},
			ErrGap, ""},
		{"a gap by force", [][]byte{logOf(1, 4)}, 0, true, []jute.Zxid{1, 4}, nil, "missing"},
		{"backwards", [][]byte{logOf(1, 2, 1)}, 0, false, []jute.Zxid{1, 2}, ErrDamaged, ""},
		{"torn before the last log", [][]byte{append(logOf(1)[:len(logOf(1))-100],
			framed(setDataTxn(2, "two"))[:30]...), logOf(2, 3)}, 0, false, []jute.Zxid{1, 2, 3}, nil, "torn"},
	} {
		read, opened, closed := int64(0), 0, 0
		o := ReplayOptions{AcceptGaps: c.force, Read: func(n int64) { read += n }}
		r := NewReplay(c.from, o, func() (*Log, io.Closer, error) {
			if opened == len(c.logs) {
				return nil, nil, nil
			}
			content := c.logs[opened]
			opened++
			l, err := ReadLog(bytes.NewReader(content), int64(len(content)), fmt.Sprint("log ", opened))
			return l, closing(func() { closed++ }), err
		})
		var got []jute.Zxid
		var err error
		for {
			var x *Txn
			var ok bool
			if x, ok, err = r.Next(); err != nil || !ok {
				break
			}
			got = append(got, x.Zxid)
		}
		if !errors.Is(err, c.err) {
			t.Errorf("%s: %v, want %v", c.name, err, c.err)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: want -, got +\n%s", c.name, diff)
		}
		if notices := strings.Join(r.Notices, "\n"); !strings.Contains(notices, c.notice) || c.notice == "" &&
			notices != "" {
			t.Errorf("%s: notices %q, want %q", c.name, notices, c.notice)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if closed != opened {
			t.Errorf("%s: %d logs were opened, %d closed", c.name, opened, closed)
		}
		if read == 0 {
			t.Errorf("%s: nothing was said to be read", c.name)
		}
	}
}

// TestGoldenLogs reads what real servers have written.
func TestGoldenLogs(t *testing.T) {
	for file, content := range goldens(t, "log") { // order does not matter: independent cases
		l, err := ReadLog(bytes.NewReader(content), int64(len(content)), file)
		if err != nil {
			t.Fatal(err)
		}
		digests, ops := 0, map[jute.Op]int{}
		for {
			x, ok, err := l.Next()
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				break
			}
			ops[x.Op]++
			if x.Digest != nil {
				digests++
			}
		}
		isOld := strings.Contains(file, "3.5") || strings.Contains(file, "3.4")
		if (digests == 0) != isOld || len(ops) < 3 {
			t.Errorf("%s: %d digests, transactions %v", file, digests, ops)
		}
	}
}

func FuzzLog(f *testing.F) {
	f.Add(logOf(1, 2, 3))
	f.Add(append(logHead(), framed(append(jute.AppendInt(txnHead(9, jute.OpMulti), 2), make([]byte, 40)...))...))
	for _, content := range goldens(f, "log") { // order does not matter: a corpus
		f.Add(content[:min(len(content), 8<<10)])
	}
	f.Fuzz(func(_ *testing.T, content []byte) { _, _, _ = zxids(content) })
}

// FuzzTxn decodes what stands in a record.
func FuzzTxn(f *testing.F) {
	f.Add(setDataTxn(1, "x"))
	for op := range jute.Op(30) {
		f.Add(append(txnHead(1, op-11), make([]byte, 60)...))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var x Txn
		if decodeTxn(b, &x) == nil && len(x.Ops) > len(b) {
			t.Errorf("%d operations in %d bytes", len(x.Ops), len(b))
		}
	})
}
