package quorum

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"sync"
	"sync/atomic"

	"go.etcd.io/raft/v3"

	"zkd/storage/raftlog"
)

// An ensemble is founded in one of two ways: by a majority of servers without data, which elect a leader first, or by
// one server alone, which has imported data. The logs of the two have nothing in common, and raft, which knows nothing
// of them, would mix them. So a server without data decides once for which it is, before it does anything for either:
// with its first vote or entry it takes part in the bootstrap without data, and from then on refuses whoever belongs to
// the one with data; or it has heard of data before that, in a handshake, and gives way: it has no part in the other
// one any more. Who has data asks all others before it bootstraps, so that they give way, and waits for those that do
// not. docs/decisions/0029 says why.

// BootstrapChoice is for which bootstrap of an ensemble a server without data is. Its node and its handshakes share it.
// Its methods may be called by any goroutine.
type BootstrapChoice struct {
	log   *raftlog.Log // of the server: keeps that it has given way
	mu    sync.Mutex   // held by the node's loop during each of its turns, until the ensemble is founded
	begun bool         // guarded by mu
	// safe are the servers that have no part in a bootstrap without data; nil: this server has not given way. Stored
	// under mu; the map never changes.
	safe atomic.Pointer[map[uint64]bool]

	keeping sync.Mutex // held while it is written that the server has given way, and not by the loop
	kept    bool       // guarded by keeping
}

// gaveWayKey is the name among the log's blobs of the mark that the server has given way: version byte 1.
const gaveWayKey = "gaveway"

// OpenBootstrapChoice returns that of a server whose log is open; founded tells whether its state is of an ensemble.
func OpenBootstrapChoice(log *raftlog.Log, founded bool) (*BootstrapChoice, error) {
	b := &BootstrapChoice{log: log}
	if founded || Imported(log) {
		return b, nil
	}
	if blob, ok := log.Meta(gaveWayKey); ok { // also if it was let in since, and has voted
		if len(blob) != 1 || blob[0] != stateVersion {
			return nil, fmt.Errorf("%s %x in the raft log is not of format %d: run a newer zkd", gaveWayKey, blob,
				stateVersion)
		}
		b.safe.Store(&map[uint64]bool{}) // those that it meets again say what they are
		b.kept = true
		return b, nil
	}
	if _, admitted := log.Meta(admittedKey); admitted { // what it has is of those that have let it in
		return b, nil
	}
	b.begun = log.LastIndex() > bootstrapIndex
	if blob, ok := log.HardState(); ok {
		hard, err := decodeHardState(blob)
		if err != nil {
			return nil, err
		}
		b.begun = b.begun || hard.GetVote() != raft.None
	}
	return b, nil
}

// Begun tells whether the server takes part in a bootstrap without data.
func (b *BootstrapChoice) Begun() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.begun
}

// GaveWay tells whether the server has given way to data.
func (b *BootstrapChoice) GaveWay() bool { return b.safe.Load() != nil }

// GiveWay has the server give way to data that another one has, or belongs to, for good: it has when it is started
// anew, too. first says that it had not. It cannot, ok is false, once it takes part in a bootstrap without data. An
// error is one of the log.
func (b *BootstrapChoice) GiveWay(to uint64) (first, ok bool, err error) {
	b.mu.Lock()
	begun := b.begun
	if !begun {
		b.noteLocked(to)
	}
	b.mu.Unlock()
	if begun {
		return false, false, nil
	}
	first, err = b.keep()
	return first, true, err
}

// keep makes durable that the server has given way; first says that it was not. The loop does not wait for it.
func (b *BootstrapChoice) keep() (first bool, err error) {
	b.keeping.Lock()
	defer b.keeping.Unlock()
	if b.kept {
		return false, nil
	}
	if err := b.log.SetMeta(gaveWayKey, []byte{stateVersion}); err != nil {
		return false, fmt.Errorf("store that another server has data: %w", err)
	}
	b.kept = true
	return true, nil
}

// Note says that another server has no part in a bootstrap without data, or is of a program that cannot say. It matters
// to one that has given way: it hears such servers alone.
func (b *BootstrapChoice) Note(server uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.safe.Load() != nil {
		b.noteLocked(server)
	}
}

// noteLocked adds a server to those that are safe.
func (b *BootstrapChoice) noteLocked(server uint64) {
	safe := map[uint64]bool{server: true}
	if before := b.safe.Load(); before != nil {
		maps.Copy(safe, *before)
	}
	b.safe.Store(&safe)
}

// hears tells whether the server hears another one.
func (b *BootstrapChoice) hears(from uint64) bool {
	safe := b.safe.Load()
	return safe == nil || (*safe)[from]
}

// beginTurn has no handshake decide during a turn of the loop, as long as the ensemble is not founded. What it returns
// ends that.
func (a *admission) beginTurn() (end func()) {
	b := a.options.BootstrapChoice
	if b == nil || a.hasData() {
		return func() {}
	}
	b.mu.Lock()
	return func() {
		voted := a.raft.BasicStatus().HardState.GetVote() != raft.None
		takesPart := b.begun || voted || a.lastIndex() > bootstrapIndex
		b.begun = takesPart && !a.hasData() && !a.ownData && b.safe.Load() == nil
		b.mu.Unlock()
	}
}

// gaveWay tells whether this member, which has nothing, has given way to data.
func (a *admission) gaveWay() bool {
	b := a.options.BootstrapChoice
	return b != nil && b.GaveWay() && a.blank()
}

// deafTo tells whether what raft says on another member may be of a bootstrap that this one has given way. Who has the
// data belongs to the ensemble with it, and has streams with its members alone, some of which it may not have known.
func (a *admission) deafTo(from uint64) bool {
	b := a.options.BootstrapChoice
	return b != nil && !b.hears(from) && !a.hasData()
}

// bootstrapKey is the name among the log's blobs of the id of the cluster that a server with imported data bootstraps:
// version byte 1, then 16 bytes.
const bootstrapKey = "founding"

// onDataMark is what the last bytes of the id of a cluster that was founded on data are made with.
const onDataMark = "founded on data"

// onDataSum is what these bytes are.
func onDataSum(id *[16]byte) uint32 {
	sum := crc32.Update(0, crc32.MakeTable(crc32.Castagnoli), []byte(onDataMark))
	return crc32.Update(sum, crc32.MakeTable(crc32.Castagnoli), id[:12])
}

// OnData tells whether a cluster was founded on imported data. All its members know, as its id says so.
func OnData(id [16]byte) bool {
	return id != [16]byte{} && binary.BigEndian.Uint32(id[12:]) == onDataSum(&id)
}

// DrawCluster returns the id of a cluster that is not founded on data.
func DrawCluster(random io.Reader) (id [16]byte, err error) {
	if _, err := io.ReadFull(random, id[:]); err != nil {
		return id, fmt.Errorf("draw the id of the cluster: %w", err)
	}
	if OnData(id) {
		id[15]++
	}
	return id, nil
}

// DataCluster returns the id of the cluster that a server with imported data bootstraps, the same at each start.
func DataCluster(log *raftlog.Log, random io.Reader) (id [16]byte, err error) {
	if blob, ok := log.Meta(bootstrapKey); ok {
		if len(blob) != 1+len(id) || blob[0] != stateVersion || !OnData([16]byte(blob[1:])) {
			return id, fmt.Errorf("founding %x in the raft log is not of format %d: run a newer zkd", blob,
				stateVersion)
		}
		return [16]byte(blob[1:]), nil
	}
	if _, err := io.ReadFull(random, id[:12]); err != nil {
		return id, fmt.Errorf("draw the id of the cluster: %w", err)
	}
	binary.BigEndian.PutUint32(id[12:], onDataSum(&id))
	if err := log.SetMeta(bootstrapKey, bytes.Join([][]byte{{stateVersion}, id[:]}, nil)); err != nil {
		return id, fmt.Errorf("store the id of the cluster: %w", err)
	}
	return id, nil
}

// Unserved tells whether the log of a server with imported data has nothing in it yet: it has founded nothing.
func Unserved(log *raftlog.Log) bool {
	return Imported(log) && log.LastIndex() <= raftlog.ImportedIndex
}

// Disguise returns what those are told in place of a cluster's id who need to know that there is one, and whether it
// was founded on data, but not its id.
func Disguise(id [16]byte) (told [16]byte) {
	sum := sha256.Sum256(append([]byte("zkd cluster, disguised: "), id[:]...))
	copy(told[:], sum[:])
	if OnData(id) {
		binary.BigEndian.PutUint32(told[12:], onDataSum(&told))
	} else if OnData(told) {
		told[15]++
	}
	return told
}
