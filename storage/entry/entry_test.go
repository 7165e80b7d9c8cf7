package entry

import (
	"bytes"
	"testing"

	"zkd/jute"
)

// TestStampEntryChangesTheTimesAlone: every proposal has the time, and all else is as it was.
func TestStampEntryChangesTheTimesAlone(t *testing.T) {
	entry := AppendEntryHeader(nil, 5, 6)
	want := AppendEntryHeader(nil, 5, 6)
	for i := range 3 {
		p := Proposal{
			Op: jute.OpSetData, Session: jute.SessionID(i + 1), Xid: 7, Time: jute.Millis(1000 * i), Server: 2,
			Identities: []jute.ID{{Scheme: "ip", ID: "127.0.0.1"}}, Body: bytes.Repeat([]byte{byte(i)}, 10*i),
		}
		entry = AppendProposal(entry, &p)
		p.Time = 123456
		want = AppendProposal(want, &p)
	}
	StampEntry(entry, 123456)
	if !bytes.Equal(entry, want) {
		t.Errorf("stamped as %x, want %x", entry, want)
	}
	if at, ok := Time(entry); !ok || at != 123456 {
		t.Errorf("the entry's time is %d, %v", at, ok)
	}
}

// FuzzStampEntry: whatever an entry is, its length and all but times stay, and what was readable is.
func FuzzStampEntry(f *testing.F) {
	p := Proposal{Op: jute.OpDelete, Body: []byte("body")}
	f.Add(AppendProposal(AppendEntryHeader(nil, 1, 2), &p))
	f.Add([]byte{})
	f.Add([]byte{1, 2, 3})
	f.Fuzz(func(t *testing.T, entry []byte) {
		times := func(entry []byte) (all []jute.Millis, readable bool) {
			r, err := NewReader(entry)
			if err != nil {
				return nil, false
			}
			var p Proposal
			for r.Next(&p) {
				all = append(all, p.Time)
			}
			return all, r.Err() == nil
		}
		stamped := bytes.Clone(entry)
		StampEntry(stamped, 99)
		before, readable := times(entry)
		after, still := times(stamped)
		if readable != still || len(before) != len(after) {
			t.Fatalf("%d proposals, readable %v; stamped %d, %v", len(before), readable, len(after), still)
		}
		for i, at := range after {
			if readable && at != 99 {
				t.Errorf("proposal %d has the time %d", i, at)
			}
		}
		if first, ok := Time(stamped); readable && len(after) > 0 && (!ok || first != 99) {
			t.Errorf("the time is %d, %v", first, ok)
		}
	})
}
