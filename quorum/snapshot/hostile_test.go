package snapshot

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"

	"zkd/compat-tests/hostile"
	"zkd/quorum/clock"
)

// hostileStreams is how many streams are damaged unless ZKD_HOSTILE_STREAMS says it.
const hostileStreams = 2000

// recordedConn keeps what the sender says.
type recordedConn struct {
	net.Conn
	said *bytes.Buffer
}

func (c recordedConn) Write(b []byte) (int, error) {
	c.said.Write(b)
	return c.Conn.Write(b)
}

// TestHostileStreams sends a receiver what a leader would that has gone mad: streams with bits, lengths, offsets and
// messages changed, most of them with the right checksums. What is handed on is what a manifest says, hash by hash, and
// afterwards a whole state is taken. ZKD_HOSTILE_SEED repeats a run.
func TestHostileStreams(t *testing.T) {
	seed := hostile.Seed(t)
	t.Logf("ZKD_HOSTILE_SEED=%d", seed)
	files := map[string]string{"000001.sst": strings.Repeat("table", 300), "CURRENT": "1", "OPTIONS-000004": ""}
	var said bytes.Buffer
	r := newRig(t, files, func(_ *SenderOptions, o *ReceiverOptions) { o.Logger = nil })
	r.wrap = func(_ int, conn net.Conn) net.Conn { return recordedConn{conn, &said} }
	if err := r.send(); err != nil {
		t.Fatal(err)
	}
	r.streams.Wait()
	r.staged = func(_ uint64, _ []byte, dir string) error {
		m, err := staged(r.to, dir)
		if err != nil || m == nil {
			t.Errorf("handed on without a manifest: %v", err)
			return nil
		}
		content := readFiles(t, r.to, dir)
		for _, f := range m.files {
			if xxhash.Sum64String(content[f.name]) != f.hash {
				t.Errorf("%s has not the hash of the manifest", f.name)
			}
		}
		return nil
	}
	messages := splitMessages(t, said.Bytes())
	framed := make([][]byte, 0, len(messages))
	for _, m := range messages {
		framed = append(framed, append(make([]byte, 4), m...))
	}
	damage, random := hostile.NewMutator(framed, seed), rand.New(rand.NewPCG(seed, 13))
	handed := 0
	for range hostile.Streams(t, hostileStreams) {
		r.reset(t)
		conn := r.connect(1)
		go func() { _, _ = io.Copy(io.Discard, conn) }() // ends with the stream
		for _, m := range messages {
			if random.IntN(3) == 0 {
				m = append([]byte(nil), m...)
				changed := damage.Append(nil)[4:]
				if random.IntN(4) == 0 || len(changed) <= messageHeadBytes {
					m = changed
				} else {
					m = hostile.SnapshotMessage(m[0], changed[messageHeadBytes:])
				}
			}
			if _, err := conn.Write(m); err != nil {
				break // it is given up
			}
		}
		_ = conn.Close()
		r.streams.Wait()
		handed += len(r.handed)
	}
	t.Logf("%d of them were whole", handed)
	r.reset(t)
	r.wrap = nil
	if err := r.send(); err != nil {
		t.Fatal(err)
	}
	r.wantHanded(files)
}

// reset gives the rig a receiver that has taken nothing, on what the one before has left on the disk.
func (r *rig) reset(t *testing.T) {
	t.Helper()
	r.receiver.Close()
	next, err := NewReceiver(ReceiverOptions{FS: r.to, Dir: "data/staging", Staged: r.take,
		Clock: clock.NewManual(r.receiver.opts.Clock.Now())})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.handed) > 0 { // the node has taken it from there
		if err := r.to.RemoveAll("data/staging"); err != nil {
			t.Fatal(err)
		}
	}
	r.receiver, r.handed = next, nil
}

// splitMessages cuts what was said on a stream into its messages.
func splitMessages(t *testing.T, said []byte) (messages [][]byte) {
	t.Helper()
	s := newStream(recordedStream{said: bytes.NewReader(said)}, still(), defaultSilence)
	defer s.end()
	for {
		kind, body, err := s.read(len(said))
		if err != nil {
			break
		}
		messages = append(messages, hostile.SnapshotMessage(kind, body))
	}
	if len(messages) < 3 {
		t.Fatalf("%d messages were sent", len(messages))
	}
	return messages
}

// recordedStream is a connection on which all was said already.
type recordedStream struct {
	net.Conn
	said io.Reader
}

func (s recordedStream) Read(b []byte) (int, error) { return s.said.Read(b) }
func (recordedStream) Close() error                 { return nil }
