package zkdata

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/adler32"
	"io"

	"zkd/jute"
)

// logHeaderBytes is the size of a log's FileHeader, txnHeaderBytes that of a TxnHeader, which no record lacks.
const (
	logHeaderBytes = 4 + 4 + 8
	txnHeaderBytes = 8 + 4 + 8 + 8 + 4
)

// endOfRecord follows each record.
const endOfRecord = 'B'

// logRemedy is what an operator does about a damaged log.
const logRemedy = "restore the file, or import the directory of another server of the ensemble"

// Log reads one transaction log. It is for one goroutine.
type Log struct {
	r    io.ReaderAt
	size int64
	name string
	in   *input
	txn  Txn
	tail string
	done bool
}

// ReadLog begins to read the log of size bytes in r, which messages call name. A log that holds no header yet has no
// records.
func ReadLog(r io.ReaderAt, size int64, name string) (*Log, error) {
	l := &Log{r: r, size: size, name: name, in: newInput(io.NewSectionReader(r, 0, size))}
	magic, version := l.in.int(), l.in.int()
	_ = l.in.long() // the id of a database, which nobody sets
	switch {
	case errors.Is(l.in.err, errShort), magic == 0 && version == 0 && l.in.err == nil:
		if err := l.stop(0, "it has no header yet"); err != nil {
			return nil, err
		}
	case l.in.err != nil:
		return nil, fmt.Errorf("read %s: %w", name, l.in.err)
	case magic != logMagic:
		return nil, damaged(name, 0, logRemedy, "it begins with %08x, a transaction log with %08x", magic, logMagic)
	case version != fileVersion:
		return nil, damaged(name, 4, logRemedy, "its version is %d, not %d", version, fileVersion)
	}
	return l, nil
}

// Torn says what was dropped at the end of the log, "" if it ends as it should. Such an end is what a crash leaves of a
// write that was never acknowledged. It is known once Next has come to the end.
func (l *Log) Torn() string { return l.tail }

// Offset returns how much of the file was read.
func (l *Log) Offset() int64 { return l.in.offset }

// Next reads the next transaction and is false at the end. The transaction is valid until the next call.
//
// Where the bytes are no record, the log has ended, unless a whole record is found behind that place: then it is
// damaged there. (FileTxnLog.FileTxnIterator ends there in any case.) A record whose checksum is wrong although it is
// complete is damage, as in ZooKeeper.
func (l *Log) Next() (*Txn, bool, error) {
	if l.done {
		return nil, false, nil
	}
	at := l.in.offset
	l.in.release()
	if l.in.ended() {
		l.done = true
		return nil, false, nil
	}
	sum := l.in.long()
	n := l.in.int()
	switch {
	case l.in.err == nil && n == 0 && sum == 0:
		return nil, false, l.stop(at, "")
	case l.in.err == nil && n < txnHeaderBytes:
		return nil, false, l.stop(at, fmt.Sprintf("a record says it has %d bytes", n))
	}
	var record []byte
	end := [1]byte{}
	if l.in.err == nil {
		record = l.in.bytes(int(n))
		l.in.read(end[:])
	}
	switch {
	case errors.Is(l.in.err, errShort):
		return nil, false, l.stop(at, "the file ends inside a record")
	case l.in.err != nil:
		return nil, false, fmt.Errorf("read %s at offset %d: %w", l.name, at, l.in.err)
	case end[0] != endOfRecord:
		return nil, false, l.stop(at, "a record has no end")
	}
	if got := int64(adler32.Checksum(record)); got != sum {
		return nil, false, damaged(l.name, at, logRemedy,
			"a record of %d bytes has the checksum %#x, and %#x is stored",
			n, got, uint64(sum))
	}
	if err := decodeTxn(record, &l.txn); err != nil {
		return nil, false, damaged(l.name, at, logRemedy, "a record whose checksum is right cannot be read: %v", err)
	}
	return &l.txn, true, nil
}

// evidenceBytes is how far behind the end of a log records are looked for: that of zeros to come, which ZooKeeper
// writes ahead, is 64 MiB, and a torn write is a few records.
const evidenceBytes = 8 << 20

// stop ends the log at a place that holds no record: nothing but zeros, or what was left of a write. A record behind
// it makes it damage.
func (l *Log) stop(at int64, why string) error {
	l.done = true
	from, err := l.firstNonZero(at)
	if err != nil {
		return fmt.Errorf("read %s at offset %d: %w", l.name, at, err)
	}
	if from < 0 {
		if at < l.size && why != "" && at > 0 {
			l.tail = fmt.Sprintf("%s at offset %d: %s", l.name, at, why)
		}
		return nil
	}
	window := make([]byte, min(l.size-from, evidenceBytes))
	if _, err := l.r.ReadAt(window, from); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read %s at offset %d: %w", l.name, from, err)
	}
	if found := findRecord(window); found >= 0 {
		return damaged(l.name, at, logRemedy, "no record is there, and a whole one at offset %d", from+int64(found))
	}
	if why == "" {
		why = "zeros with something behind them that is no record"
	}
	l.tail = fmt.Sprintf("%s at offset %d: %s, %d bytes were left out", l.name, at, why, l.size-at)
	return nil
}

// firstNonZero returns the offset from which on what is at from is looked at for records, -1 if there are but zeros.
func (l *Log) firstNonZero(from int64) (int64, error) {
	buf := make([]byte, inputBufferBytes)
	for at := from; at < l.size; {
		n, err := l.r.ReadAt(buf[:min(int64(len(buf)), l.size-at)], at)
		for i, b := range buf[:n] {
			if b != 0 {
				return max(from, at+int64(i)-8-4+1), nil // a record may begin with zeros, but not its length
			}
		}
		at += int64(n)
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		if n == 0 {
			break
		}
	}
	return -1, nil
}

// findRecord returns where in b a whole record begins whose checksum is right, -1 if nowhere.
func findRecord(b []byte) int {
	const head = 8 + 4
	for i := 0; i+head < len(b); i++ {
		if b[i] != 0 || binary.BigEndian.Uint32(b[i:]) != 0 {
			continue
		}
		n := int64(binary.BigEndian.Uint32(b[i+8:]))
		end := int64(i+head) + n
		if n < txnHeaderBytes || end >= int64(len(b)) || b[end] != endOfRecord {
			continue
		}
		if adler32.Checksum(b[i+head:end]) == binary.BigEndian.Uint32(b[i+4:]) {
			return i
		}
	}
	return -1
}

// errTxn means a transaction that no ZooKeeper writes.
var errTxn = errors.New("unknown transaction")

// decodeTxn reads a record of a log (SerializeUtils.deserializeTxn) into t. Data stays a view of b.
func decodeTxn(b []byte, t *Txn) error {
	d := jute.NewDecoder(b)
	*t = Txn{Session: jute.SessionID(d.Long()), Cxid: d.Int(), Zxid: jute.Zxid(d.Long()), Time: jute.Millis(d.Long()),
		Op: jute.Op(d.Int()), Ops: t.Ops[:0]}
	if err := d.Err(); err != nil {
		return err
	}
	body := d.Remaining()
	if err := decodeBody(&d, t); err != nil {
		// A create of before 3.3 lacks the parent's cversion, a closeSession of before 3.6 has no body, or only a
		// digest.
		switch t.Op {
		case jute.OpCreate:
			d.Reset(body)
			t.decodeCreate(&d, false)
			if d.Err() != nil {
				return err
			}
		case jute.OpCloseSession:
			d.Reset(body)
			t.Paths, t.PathsKnown = nil, false
		default:
			return err
		}
	}
	rest := d.Remaining()
	switch len(rest) {
	case 0:
	case digestBytes:
		t.Digest = &Digest{Zxid: t.Zxid, Version: d.Int(), Sum: uint64(d.Long())}
	default:
		return fmt.Errorf("%w: %d bytes behind one of type %d", errTxn, len(rest), t.Op)
	}
	return nil
}

// digestBytes is the size of a TxnDigest.
const digestBytes = 4 + 8

// decodeBody reads what a transaction of t.Op says.
func decodeBody(d *jute.Decoder, t *Txn) error {
	switch t.Op {
	case jute.OpCloseSession:
		if isDigest(d.Remaining()) {
			return nil
		}
		t.Paths, t.PathsKnown = d.Ustrings(nil), true
	case jute.OpCreateSession:
		t.TimeoutMillis = d.Int()
	case jute.OpMulti:
		return decodeMulti(d, t)
	default:
		return decodeOperation(d, t)
	}
	return d.Err()
}

// isDigest tells a closeSession that holds a digest alone, as with closeSessionTxn.enabled=false, from a list of two
// empty paths.
func isDigest(b []byte) bool {
	return len(b) == digestBytes && binary.BigEndian.Uint32(b) == DigestVersion && binary.BigEndian.Uint64(b[4:]) != 0
}

// decodeOperation reads what may stand alone or in a multi.
func decodeOperation(d *jute.Decoder, t *Txn) error {
	var nulls jute.Nulls
	switch t.Op {
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL:
		t.decodeCreate(d, true)
	case jute.OpDelete, jute.OpDeleteContainer:
		t.Path = d.Ustring(&nulls, 0)
	case jute.OpSetData, jute.OpReconfig:
		t.Path, t.Data, t.Version = d.Ustring(&nulls, 0), d.Buffer(), jute.Version(d.Int())
	case jute.OpSetACL:
		t.Path, t.ACL, t.Version = d.Ustring(&nulls, 0), decodeACL(d), jute.Version(d.Int())
	case jute.OpCheck:
		t.Path, t.Version = d.Ustring(&nulls, 0), jute.Version(d.Int())
	case jute.OpError:
		t.Code = jute.Code(d.Int())
	default:
		return fmt.Errorf("%w: type %d", errTxn, t.Op)
	}
	return d.Err()
}

// decodeCreate reads a create of any kind.
func (t *Txn) decodeCreate(d *jute.Decoder, withCversion bool) {
	var nulls jute.Nulls
	t.Path, t.Data, t.ACL = d.Ustring(&nulls, 0), d.Buffer(), decodeACL(d)
	if t.Op == jute.OpCreate || t.Op == jute.OpCreate2 {
		t.Ephemeral = d.Bool()
	}
	t.ParentCversion = -1
	if withCversion {
		t.ParentCversion = jute.Version(d.Int())
	}
	if t.Op == jute.OpCreateTTL {
		t.TTL = d.Long()
	}
}

// decodeMulti reads the parts of a multi.
func decodeMulti(d *jute.Decoder, t *Txn) error {
	n := int(d.Int())
	for range n {
		if d.Err() != nil {
			break
		}
		op := Txn{Session: t.Session, Cxid: t.Cxid, Zxid: t.Zxid, Time: t.Time, Op: jute.Op(d.Int())}
		part := jute.NewDecoder(d.Buffer())
		if d.Err() != nil {
			break
		}
		if err := decodeOperation(&part, &op); err != nil {
			return err
		}
		t.Failed = t.Failed || op.Op == jute.OpError
		t.Ops = append(t.Ops, op)
	}
	return d.Err()
}

// decodeACL reads a list of ACLs in memory of its own; null is nil.
func decodeACL(d *jute.Decoder) []jute.ACL {
	n := d.Int()
	if n < 0 || d.Err() != nil {
		return nil
	}
	list := []jute.ACL{}
	for ; n > 0 && d.Err() == nil; n-- {
		var entry jute.ACL
		entry.Decode(d)
		entry.ID.Scheme, entry.ID.ID = textOf([]byte(entry.ID.Scheme)), textOf([]byte(entry.ID.ID))
		list = append(list, entry)
	}
	return list
}
