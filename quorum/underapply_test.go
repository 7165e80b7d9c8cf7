package quorum

import (
	"testing"
	"time"

	"zkd/jute"
	"zkd/quorum/clock"
	"zkd/storage/entry"
	"zkd/storage/state"
)

// TestWhatIsAppliedShowsWhenItTakesLong: with the proposal that the machine is at, the second here, and to its end.
func TestWhatIsAppliedShowsWhenItTakesLong(t *testing.T) {
	now := clock.NewManual(time.Unix(1, 0))
	u := underApply{clock: now}
	m := &fakeMachine{}
	data := entry.AppendEntryHeader(nil, 1, 1)
	for n, path := range []string{"/first", "/second"} {
		p := entry.Proposal{Op: jute.OpDelete, Session: jute.SessionID(n), Xid: 7, Server: 3,
			Body: (&jute.PathVersionRequest{Path: path}).Append(nil)}
		data = entry.AppendProposal(data, &p)
	}
	if _, long := u.longer(0, m, nil); long {
		t.Error("nothing is applied, and shows")
	}
	var ends []time.Duration
	ended := func(took time.Duration) { ends = append(ends, took) }
	began := now.Now()
	u.begin(9, began, data)
	now.Advance(time.Second - 1)
	if _, long := u.longer(time.Second, m, ended); long {
		t.Error("it shows too early")
	}
	now.Advance(1)
	want := Applying{Index: 9, Since: began, Step: state.StepEvaluate, Op: jute.OpDelete, Session: 1, Xid: 7, Server: 3,
		Path: "/second"}
	for range 2 {
		if got, long := u.longer(time.Second, m, ended); !long || got != want {
			t.Errorf("it shows as %+v, %v", got, long)
		}
	}
	now.Advance(1)
	u.end()
	if len(ends) != 1 || ends[0] != time.Second+1 {
		t.Errorf("its end was told as %v", ends)
	}
	if _, long := u.longer(0, m, nil); long {
		t.Error("it shows after its end")
	}
	u.begin(10, now.Now(), nil)
	if got, long := u.longer(0, m, nil); !long || got.Index != 10 || got.Op != 0 {
		t.Errorf("an entry without proposals shows as %+v, %v", got, long)
	}
	if u.end(); len(ends) != 1 {
		t.Error("the end of an entry that nobody has looked at was told")
	}
}
