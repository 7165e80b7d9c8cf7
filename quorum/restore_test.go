package quorum

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/jute"
	"zkd/storage/entry"
	"zkd/storage/migrate"
	"zkd/storage/state"
	"zkd/storage/zkdata"
)

// stateOf opens a state on fs.
func stateOf(t *testing.T, fs vfs.FS) *state.Machine {
	t.Helper()
	m, err := state.OpenMachine(state.MachineOptions{Dir: "state", FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// emptySnapshot is what a server without znodes of its own gives.
func emptySnapshot(t *testing.T) []byte {
	t.Helper()
	fs := vfs.NewMem()
	m := stateOf(t, fs)
	state, err := m.ReadCheckpoint(context.Background(), "copy")
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := errors.Join(zkdata.WriteSnapshot(&b, migrate.SourceOf(state), zkdata.WriteOptions{}), state.Close(),
		m.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestRestoreBetweenWrites restores an empty tree while others write: the node tells before and after, each write is on
// one side, and the log leads to the same state again.
func TestRestoreBetweenWrites(t *testing.T) {
	fs, logs := vfs.NewCrashableMem(), vfs.NewMem()
	var told []string // owned by the apply goroutine, and read when the node has stopped
	options := func(m *state.Machine) Options {
		o := testOptions(openLog(t, logs, "log"), m)
		o.OnReplacing = func() { told = append(told, fmt.Sprint("restoring ", nodes(m) > 4)) }
		o.OnReplaced = func() { told = append(told, fmt.Sprint("restored ", nodes(m))) }
		return o
	}
	m := stateOf(t, fs)
	n := startNode(t, options(m))
	must := func(p *entry.Proposal) answer {
		w := newWaiter(t)
		if err := n.Propose(p, w); err != nil {
			t.Error(err)
			return answer{}
		}
		return w.wait()
	}
	must(&entry.Proposal{Op: jute.OpCreateSession, Session: 1, Body: (&entry.SessionTxn{Owner: 1}).Append(nil)})
	content := emptySnapshot(t)
	restore := func(op jute.Op, txn entry.LoadTxn) answer {
		txn.Upload = 9
		return must(&entry.Proposal{Op: op, Body: txn.Append(nil)})
	}
	var writers sync.WaitGroup
	write := func(client, count int) {
		for i := range count {
			r := jute.CreateRequest{Path: fmt.Sprintf("/%d-%d", client, i), Data: []byte{}, ACL: []jute.ACL{{
				Perms: jute.PermAll, ID: jute.ID{Scheme: "world", ID: "anyone"}}}}
			must(&entry.Proposal{Op: jute.OpCreate, Session: 1, Body: r.Append(nil)})
		}
	}
	write(0, 10)
	for client := range 4 {
		writers.Go(func() { write(client+1, 50) })
	}
	answers := []answer{
		restore(entry.OpLoadBegin, entry.LoadTxn{}),
		restore(entry.OpLoadChunk, entry.LoadTxn{Data: content}),
		restore(entry.OpLoadCommit, entry.LoadTxn{Offset: int64(len(content)), Sum: xxhash.Sum64(content)}),
	}
	writers.Wait()
	for _, a := range answers {
		if a.err != nil || a.code != jute.OK {
			t.Fatalf("%+v", answers)
		}
	}
	v := m.View()
	zxid, digest, left := v.Zxid(), v.Digest(), v.NodeCount()
	if _, ok := v.Exists("/0-0"); ok || v.LoadedZxid() != answers[2].zxid {
		t.Errorf("/0-0 is there: %t; restored at %d, told %d", ok, v.LoadedZxid(), answers[2].zxid)
	}
	v.Close()
	crashed := fs.CrashClone(vfs.CrashCloneCfg{})
	stopNode(t, n)
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if want := []string{"restoring true", "restored 4"}; !slices.Equal(told, want) {
		t.Errorf("told %v, want %v", told, want)
	}

	m = stateOf(t, crashed)
	n = startNode(t, options(m))
	if a := barrier(t, n); a.err != nil {
		t.Fatal(a.err)
	}
	v = m.View()
	if v.Zxid() != zxid || v.Digest() != digest || v.NodeCount() != left {
		t.Errorf("after a crash: zxid %d, digest %#x, %d znodes; want %d, %#x, %d", v.Zxid(), v.Digest(), v.NodeCount(),
			zxid, digest, left)
	}
	v.Close()
	t.Cleanup(func() { _ = m.Close() }) // nothing is lost with it
	stopNode(t, n)
}

// nodes counts the znodes.
func nodes(m *state.Machine) int {
	v := m.View()
	defer v.Close()
	return v.NodeCount()
}
