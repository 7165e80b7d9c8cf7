package snapshot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/compat-tests/leak"
	"zkd/quorum/clock"
	"zkd/storage/crashfs"
)

func TestMain(m *testing.M) { leak.VerifyTestMain(m) }

// testChunk is what a message of a rig's sender has at most.
const testChunk = 1 << 12

// testDeadline bounds every wait of a test.
const testDeadline = time.Minute

// impatient is a clock whose timers fire at once: throttling and pauses take no time. Tickers stand still.
type impatient struct{ *clock.Manual }

func (c impatient) NewTimer(time.Duration) clock.Timer { return c.Manual.NewTimer(0) }

// still returns a clock on which nobody waits.
func still() clock.Clock { return impatient{clock.NewManual(time.Unix(1e6, 0))} }

// handed is what Staged was told.
type handed struct {
	from   uint64
	header string
	files  map[string]string
}

// rig is a sender and a receiver, joined by pipes.
type rig struct {
	t        *testing.T
	from     *vfs.MemFS // the checkpoint lies in "checkpoint"
	to       vfs.FS     // is staged in "data/staging"
	sender   *Sender
	receiver *Receiver
	wrap     func(attempt int, conn net.Conn) net.Conn // around the sender's end
	staged   func(from uint64, header []byte, dir string) error
	streams  sync.WaitGroup

	mu       sync.Mutex
	attempts int
	handed   []handed
}

// content is the checkpoint of most tests: 3 chunks, an empty file, one of a chunk exactly, and a small one.
var content = sync.OnceValue(func() map[string]string {
	rnd := rand.New(rand.NewPCG(1, 1))
	random := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(rnd.Uint32())
		}
		return string(b)
	}
	return map[string]string{
		"000001.sst": random(2*testChunk + 17), "000002.sst": "", "MANIFEST-000003": random(testChunk),
		"OPTIONS-000004": "options", "marker.format-version.000001.013": "",
	}
})

// newRig returns a rig with a checkpoint of content.
func newRig(t *testing.T, files map[string]string, set func(*SenderOptions, *ReceiverOptions)) *rig {
	t.Helper()
	r := &rig{t: t, from: vfs.NewMem(), to: crashfs.New()}
	writeFiles(t, r.from, "checkpoint", files)
	logger := slog.New(slog.NewTextHandler(t.Output(), nil))
	so := SenderOptions{
		Logger: logger, FS: r.from, Open: r.open, Clock: still(), BytesPerSecond: chunksPerSecond * testChunk,
	}
	ro := ReceiverOptions{Logger: logger, FS: r.to, Dir: "data/staging", Staged: r.take, Clock: still()}
	if set != nil {
		set(&so, &ro)
	}
	r.to = ro.FS
	if err := r.to.MkdirAll("data", 0o700); err != nil {
		t.Fatal(err)
	}
	root, err := r.to.OpenDir("")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(root.Sync(), root.Close()); err != nil {
		t.Fatal(err)
	}
	if r.sender, err = NewSender(so); err != nil {
		t.Fatal(err)
	}
	if r.receiver, err = NewReceiver(ro); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.streams.Wait()
		r.receiver.Close()
	})
	return r
}

// open is the sender's Open: server 1 calls.
func (r *rig) open(_ context.Context, to uint64) (net.Conn, error) {
	if to != 2 {
		return nil, fmt.Errorf("no server %d", to)
	}
	r.mu.Lock()
	r.attempts++
	attempt := r.attempts
	r.mu.Unlock()
	conn := r.connect(1)
	if r.wrap != nil {
		conn = r.wrap(attempt, conn)
	}
	return conn, nil
}

// connect returns the sender's end of a stream of a server.
func (r *rig) connect(from uint64) net.Conn {
	near, far := net.Pipe()
	r.streams.Go(func() { r.receiver.Receive(from, far) })
	return near
}

// take is the receiver's Staged.
func (r *rig) take(from uint64, header []byte, dir string) error {
	if r.staged != nil {
		if err := r.staged(from, header, dir); err != nil {
			return err
		}
	}
	complete, err := Complete(r.to, dir)
	if err != nil || !complete {
		r.t.Errorf("staged, and complete is %v, %v", complete, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.handed = append(r.handed, handed{from, string(header), readFiles(r.t, r.to, dir)})
	return nil
}

// send sends the checkpoint to server 2.
func (r *rig) send() error {
	ctx, cancel := context.WithTimeout(context.Background(), testDeadline)
	defer cancel()
	return r.sender.SendSnapshot(ctx, 2, []byte("header"), "checkpoint")
}

// wantHanded checks that Staged was told once, of all files.
func (r *rig) wantHanded(files map[string]string) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.handed) != 1 {
		r.t.Fatalf("staged %d times, want once", len(r.handed))
	}
	got := r.handed[0]
	if got.from != 1 || got.header != "header" || !sameFiles(got.files, files) {
		r.t.Errorf("staged from %d with header %q, %d files", got.from, got.header, len(got.files))
	}
}

func sameFiles(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for name, text := range a { // order: each is compared alone
		if other, ok := b[name]; !ok || other != text {
			return false
		}
	}
	return true
}

func writeFiles(t *testing.T, fs vfs.FS, dir string, files map[string]string) {
	t.Helper()
	if err := fs.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range files { // order: each is a file of its own
		f, err := fs.Create(fs.PathJoin(dir, name), category)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

// readFiles returns the files of a directory but the receiver's own.
func readFiles(t *testing.T, fs vfs.FS, dir string) map[string]string {
	t.Helper()
	names, err := fs.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, name := range names {
		if name == transferName || name == completeName {
			continue
		}
		f, err := fs.Open(fs.PathJoin(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if _, err := io.Copy(&b, f); err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
		files[name] = b.String()
	}
	return files
}

// faultyConn counts what is written, and at given numbers of bytes breaks, or changes one.
type faultyConn struct {
	net.Conn
	written *int64 // of all attempts
	broken  int64  // breaks when so many bytes of this connection were written; 0: never
	flip    int64  // changes this byte; 0: none
	here    int64
}

func (c *faultyConn) Write(b []byte) (int, error) {
	b = bytes.Clone(b)
	if c.flip > c.here && c.flip <= c.here+int64(len(b)) {
		b[c.flip-c.here-1] ^= 0x40
	}
	cut := false
	if c.broken > 0 && c.here+int64(len(b)) > c.broken {
		b, cut = b[:max(c.broken-c.here, 0)], true
	}
	n, err := c.Conn.Write(b)
	c.here += int64(n)
	*c.written += int64(n)
	if cut {
		_ = c.Conn.Close()
		return n, errors.New("broken")
	}
	return n, err
}
