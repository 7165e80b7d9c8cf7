package snapshot

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/quorum/clock"
	"zkd/storage/crashfs"
)

func TestWholeTransfer(t *testing.T) {
	r := newRig(t, content(), nil)
	if err := r.send(); err != nil {
		t.Fatal(err)
	}
	r.wantHanded(content())
	// The answer was lost, say: the same snapshot is not taken twice.
	if err := r.send(); err != nil {
		t.Fatal(err)
	}
	r.wantHanded(content())
}

func TestEmptyDirectory(t *testing.T) {
	r := newRig(t, nil, nil)
	if err := r.send(); err != nil {
		t.Fatal(err)
	}
	r.wantHanded(nil)
}

func TestBrokenAnywhereItGoesOn(t *testing.T) {
	whole := int64(0)
	r := newRig(t, content(), nil)
	r.wrap = func(_ int, conn net.Conn) net.Conn { return &faultyConn{Conn: conn, written: &whole} }
	if err := r.send(); err != nil {
		t.Fatal(err)
	}
	if r.attempts != 1 {
		t.Fatalf("a whole transfer took %d attempts", r.attempts)
	}
	manifest := int64(messageHeadBytes + len(encodeManifest([]byte("header"), make([]file, 5))) +
		len("000001.sst000002.sstMANIFEST-000003OPTIONS-000004marker.format-version.000001.013"))
	for at := int64(1); at < whole; at += testChunk / 11 {
		written := int64(0)
		r := newRig(t, content(), nil)
		r.wrap = func(attempt int, conn net.Conn) net.Conn {
			c := &faultyConn{Conn: conn, written: &written}
			if attempt == 1 {
				c.broken = at
			}
			return c
		}
		if err := r.send(); err != nil {
			t.Fatalf("broken at %d: %v", at, err)
		}
		r.wantHanded(content())
		if more := written - whole - manifest; r.attempts != 2 || more > testChunk+messageHeadBytes+dataHeadBytes {
			t.Errorf("broken at %d: %d attempts, %d bytes too many", at, r.attempts, more)
		}
	}
}

func TestBrokenAgainAndAgainItGoesOnWhileItMakesProgress(t *testing.T) {
	written := int64(0)
	files := maps.Clone(content())
	files["000009.sst"] = strings.Repeat("long", 4*testChunk)
	r := newRig(t, files, nil)
	r.wrap = func(_ int, conn net.Conn) net.Conn {
		return &faultyConn{Conn: conn, written: &written, broken: testChunk + 1000}
	}
	if err := r.send(); err != nil {
		t.Fatal(err)
	}
	r.wantHanded(files)
	if r.attempts <= attemptsMax {
		t.Errorf("%d attempts: too few to see that progress counts", r.attempts)
	}
}

func TestWithoutProgressItGivesUp(t *testing.T) {
	written := int64(0)
	r := newRig(t, content(), nil)
	r.wrap = func(_ int, conn net.Conn) net.Conn { return &faultyConn{Conn: conn, written: &written, broken: 500} }
	if err := r.send(); err == nil || r.attempts != attemptsMax {
		t.Errorf("%d attempts, %v", r.attempts, err)
	}
	if err := r.sender.SendSnapshot(context.Background(), 3, nil, "checkpoint"); err == nil {
		t.Error("a snapshot came to nobody")
	}
}

func TestDamagedOnTheWayIsSentAgain(t *testing.T) {
	for _, flip := range []int64{1, 40, testChunk, 2*testChunk + 1000} {
		written := int64(0)
		r := newRig(t, content(), nil)
		r.wrap = func(attempt int, conn net.Conn) net.Conn {
			c := &faultyConn{Conn: conn, written: &written}
			if attempt == 1 {
				c.flip = flip
			}
			return c
		}
		if err := r.send(); err != nil {
			t.Fatalf("byte %d changed: %v", flip, err)
		}
		r.wantHanded(content())
	}
}

func TestStagedBytesThatAreWrongAreDiscarded(t *testing.T) {
	r := newRig(t, content(), nil)
	m, err := scan(context.Background(), r.from, "checkpoint", []byte("header"), newHashes(), atOnce)
	if err != nil {
		t.Fatal(err)
	}
	writeFiles(t, r.to, "data/staging", map[string]string{
		transferName:  string(m.raw),
		completeName:  string(m.id[:]),
		"000001.sst":  strings.Repeat("wrong", 1000),
		"000002.sst":  "longer than it should be",
		"000009.none": "of no snapshot",
	})
	if complete, err := Complete(r.to, "data/staging"); err != nil || complete {
		t.Errorf("complete is %v, %v", complete, err)
	}
	_ = r.to.Remove("data/staging/000009.none")
	if err := r.send(); err != nil {
		t.Fatal(err)
	}
	r.wantHanded(content())
}

// breakOff sends until the stream breaks behind the first chunk, and no more.
func (r *rig) breakOff() {
	r.t.Helper()
	written := int64(0)
	r.wrap = func(_ int, conn net.Conn) net.Conn {
		return &faultyConn{Conn: conn, written: &written, broken: testChunk + 1000}
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.sender.opts.Clock = stopping{cancel, r.sender.opts.Clock}
	if err := r.sender.SendSnapshot(ctx, 2, []byte("header"), "checkpoint"); !errors.Is(err, context.Canceled) {
		r.t.Fatal(err)
	}
	r.streams.Wait()
}

func TestAnotherSnapshotDiscardsWhatIsThere(t *testing.T) {
	r := newRig(t, map[string]string{"000001.sst": strings.Repeat("a", 3*testChunk), "000002.sst": "old"}, nil)
	r.breakOff()
	if files := readFiles(t, r.to, "data/staging"); len(files["000001.sst"]) == 0 {
		t.Fatal("nothing is staged")
	}
	r.wrap = nil
	next := map[string]string{"000001.sst": strings.Repeat("b", testChunk), "000003.sst": "new"}
	if err := r.from.RemoveAll("checkpoint"); err != nil {
		t.Fatal(err)
	}
	writeFiles(t, r.from, "checkpoint", next)
	r.sender.opts.Clock = still()
	if err := r.send(); err != nil {
		t.Fatal(err)
	}
	r.wantHanded(next)
}

// stopping is a clock that cancels a context when somebody would wait.
type stopping struct {
	cancel context.CancelFunc
	clock.Clock
}

func (s stopping) NewTimer(time.Duration) clock.Timer {
	s.cancel()
	return s.Clock.NewTimer(time.Hour)
}

// TestWhyNothingIsThereWhenItEnds ends a transfer after its first attempt: a stream that was refused is why, and one
// that broke when something was through is not.
func TestWhyNothingIsThereWhenItEnds(t *testing.T) {
	errOver, errNoStream := errors.New("given up"), errors.New("no stream")
	for _, broken := range []int64{0, testChunk + 600} {
		written := int64(0)
		r := newRig(t, content(), func(o *SenderOptions, _ *ReceiverOptions) { o.BytesPerSecond = 1 << 30 })
		r.sender.chunk = testChunk
		r.wrap = func(_ int, conn net.Conn) net.Conn {
			return &faultyConn{Conn: conn, written: &written, broken: broken}
		}
		want, open := errOver, r.sender.opts.Open
		if broken == 0 {
			want = errNoStream
			open = func(context.Context, uint64) (net.Conn, error) { return nil, errNoStream }
		}
		ctx, cancel := context.WithCancelCause(context.Background())
		r.sender.opts.Open = open
		r.sender.opts.Clock = stopping{func() { cancel(errOver) }, r.sender.opts.Clock}
		err := r.sender.SendSnapshot(ctx, 2, []byte("header"), "checkpoint")
		if !errors.Is(err, want) || errors.Is(err, errOver) != (broken > 0) {
			t.Errorf("broken at %d: %v, want %v", broken, err, want)
		}
	}
}

func TestNodeThatRefuses(t *testing.T) {
	r := newRig(t, content(), nil)
	refuse := errors.New("the log is further")
	r.staged = func(uint64, []byte, string) error { return refuse }
	if err := r.send(); err == nil || !strings.Contains(err.Error(), "the log is further") || r.attempts != 1 {
		t.Errorf("%d attempts, %v", r.attempts, err)
	}
	r.streams.Wait()
	if complete, err := Complete(r.to, "data/staging"); err != nil || !complete {
		t.Errorf("what is staged is complete: %v, %v", complete, err)
	}
	r.staged = nil
	written := int64(0)
	r.wrap = func(_ int, conn net.Conn) net.Conn { return &faultyConn{Conn: conn, written: &written} }
	if err := r.send(); err != nil || written > 1000 {
		t.Errorf("again: %d bytes sent, %v", written, err)
	}
	r.wantHanded(content())
}

func TestOneTransferAtATime(t *testing.T) {
	r := newRig(t, content(), nil)
	entered, release := make(chan struct{}, 1), make(chan struct{})
	r.staged = func(uint64, []byte, string) error {
		entered <- struct{}{}
		<-release
		return nil
	}
	done := make(chan error, 1)
	go func() { done <- r.send() }()
	<-entered

	other := newStream(r.connect(3), still(), time.Hour)
	if err := other.write(msgManifest, encodeManifest(nil, nil)); err != nil {
		t.Fatal(err)
	}
	kind, body, err := other.read(1 << 20)
	if err != nil || kind != msgError || body[0] != codeLater {
		t.Errorf("another sender is told %d %q, %v", kind, body, err)
	}
	other.end()
	close(release)
	if err := <-done; err != nil {
		t.Error(err)
	}
	r.wantHanded(content())
}

func TestStreamOfTheSameSenderTakesThePlaceOfTheEarlier(t *testing.T) {
	r := newRig(t, content(), nil)
	m, err := scan(context.Background(), r.from, "checkpoint", []byte("header"), newHashes(), atOnce)
	if err != nil {
		t.Fatal(err)
	}
	dead := newStream(r.connect(1), still(), time.Hour)
	if err := dead.write(msgManifest, m.raw); err != nil {
		t.Fatal(err)
	}
	if kind, _, err := dead.read(1 << 20); err != nil || kind != msgHave {
		t.Fatal(kind, err)
	}
	if err := r.send(); err != nil {
		t.Fatal(err)
	}
	r.wantHanded(content())
	if _, _, err := dead.read(1 << 20); err == nil {
		t.Error("the earlier stream is open")
	}
	dead.end()
}

// leaping is a clock that moves on when somebody waits.
type leaping struct{ *clock.Manual }

func (l leaping) NewTimer(d time.Duration) clock.Timer {
	l.Advance(d)
	return l.Manual.NewTimer(0)
}

func TestThrottle(t *testing.T) {
	manual := clock.NewManual(time.Unix(1e6, 0))
	const size, perSecond = 2 << 20, 256 << 10
	files := map[string]string{"000001.sst": strings.Repeat("x", size)}
	r := newRig(t, files, func(s *SenderOptions, _ *ReceiverOptions) {
		s.Clock, s.BytesPerSecond = leaping{manual}, perSecond
	})
	began := manual.Now()
	if err := r.send(); err != nil {
		t.Fatal(err)
	}
	r.wantHanded(files)
	sent := time.Duration(size-perSecond/chunksPerSecond) * time.Second / perSecond
	want := sent + (size-chunkBytes)*time.Second/(hashingFactor*perSecond)
	if took := manual.Since(began); took < want || took > want+time.Second {
		t.Errorf("took %v, want %v", took, want)
	}
}

func TestMarkIsGoneBeforeAnythingIsVerifiedAnew(t *testing.T) {
	r := newRig(t, map[string]string{"a": "right"}, nil)
	m, err := scan(context.Background(), r.from, "checkpoint", nil, newHashes(), atOnce)
	if err != nil {
		t.Fatal(err)
	}
	writeFiles(t, r.to, "data/staging", map[string]string{
		transferName: string(m.raw), completeName: string(m.id[:]), "a": "wrong",
	})
	st := &staging{fs: r.to, dir: "data/staging", manifest: m}
	if err := st.prepare(); err != nil {
		t.Fatal(err)
	}
	if complete, err := Complete(r.to, "data/staging"); err != nil || complete {
		t.Errorf("complete is %v, %v", complete, err)
	}
}

func TestSilence(t *testing.T) {
	manual := clock.NewManual(time.Unix(1e6, 0))
	r := newRig(t, content(), func(_ *SenderOptions, o *ReceiverOptions) { o.Clock = manual })
	mute := r.connect(1) // a sender that says nothing, and reads
	heard := make(chan struct{})
	beats := 0
	go func() {
		defer close(heard)
		s := newStream(mute, still(), time.Hour)
		defer s.end()
		for {
			kind, _, err := s.read(1 << 10)
			if err != nil {
				return
			}
			if kind == msgBeat {
				beats++
			}
		}
	}()
	manual.AwaitEvents(2) // of who looks for silence, and of who says beats
	began := manual.Now()
	for ended := false; !ended; {
		select {
		case <-heard:
			ended = true
		default:
			manual.Step(100 * time.Millisecond)
		}
	}
	if took := manual.Since(began); took < defaultSilence || beats == 0 {
		t.Errorf("given up after %v and %d beats", took, beats)
	}

	near, far := net.Pipe() // a receiver that says nothing, and reads
	go func() {
		buf := make([]byte, 1<<10)
		for {
			if _, err := far.Read(buf); err != nil {
				return
			}
		}
	}()
	sender, err := NewSender(SenderOptions{FS: r.from, Clock: manual,
		Open: func(context.Context, uint64) (net.Conn, error) { return near, nil }})
	if err != nil {
		t.Fatal(err)
	}
	m, err := scan(context.Background(), r.from, "checkpoint", nil, newHashes(), atOnce)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		done <- (&transfer{sender: sender, manifest: m, to: 2, dir: "checkpoint"}).attempt(context.Background())
	}()
	for {
		select {
		case err := <-done:
			if !errors.Is(err, errSilent) {
				t.Errorf("a silent receiver ends the attempt with %v", err)
			}
			return
		default:
			manual.Step(100 * time.Millisecond)
		}
	}
}

func TestCancelEndsShip(t *testing.T) {
	r := newRig(t, content(), nil)
	entered, release := make(chan struct{}), make(chan struct{})
	r.staged = func(uint64, []byte, string) error {
		close(entered)
		<-release
		return nil
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	over := errors.New("leadership is over")
	done := make(chan error, 1)
	go func() { done <- r.sender.SendSnapshot(ctx, 2, []byte("header"), "checkpoint") }()
	<-entered
	cancel(over)
	if err := <-done; !errors.Is(err, over) {
		t.Error(err)
	}
	close(release)
}

// fullFS has no room for more than some bytes.
type fullFS struct {
	vfs.FS
	left *int64
	err  error
}

func (f fullFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	file, err := f.FS.OpenReadWrite(name, c, o...)
	return fullFile{file, f}, err
}

type fullFile struct {
	vfs.File
	fs fullFS
}

func (f fullFile) WriteAt(b []byte, at int64) (int, error) {
	if *f.fs.left -= int64(len(b)); *f.fs.left < 0 {
		return 0, f.fs.err
	}
	return f.File.WriteAt(b, at)
}

func TestDiskFull(t *testing.T) {
	for room := int64(0); room < 3*testChunk; room += testChunk {
		left := room
		r := newRig(t, content(), func(_ *SenderOptions, o *ReceiverOptions) {
			o.FS = fullFS{o.FS, &left, &os.PathError{Op: "write", Path: "file", Err: syscall.ENOSPC}}
		})
		err := r.send()
		if err == nil || !strings.Contains(err.Error(), "no room in data: the state needs") || r.attempts != 1 {
			t.Fatalf("%d attempts, %v", r.attempts, err)
		}
		r.streams.Wait()
		if _, err := r.to.Stat("data/staging"); !isMissing(err) {
			t.Errorf("what was staged is there: %v", err)
		}
	}
}

func TestTooLittleRoomIsSeenBeforehand(t *testing.T) {
	written := int64(0)
	r := newRig(t, content(), nil)
	r.wrap = func(_ int, conn net.Conn) net.Conn { return &faultyConn{Conn: conn, written: &written} }
	r.to.(*crashfs.FS).TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: testChunk})
	err := r.send()
	if err == nil || !strings.Contains(err.Error(), fmt.Sprint(testChunk, " are free")) || written > 1000 {
		t.Errorf("%d bytes sent, %v", written, err)
	}
}

func TestHostileMessages(t *testing.T) {
	data := func(index uint32, offset uint64, n int) []byte {
		b := binary.BigEndian.AppendUint32(nil, index)
		return append(binary.BigEndian.AppendUint64(b, offset), make([]byte, n)...)
	}
	good := encodeManifest(nil, []file{{"a", 10, 0}, {"b", 5, 0}})
	for name, messages := range map[string][]struct { // order: each case has a receiver of its own
		kind uint8
		body []byte
	}{
		"no manifest":     {{msgData, data(0, 0, 5)}},
		"empty manifest":  {{msgManifest, nil}},
		"manifest twice":  {{msgManifest, good}, {msgManifest, good}},
		"too much":        {{msgManifest, good}, {msgData, data(0, 0, 11)}},
		"wrong file":      {{msgManifest, good}, {msgData, data(1, 0, 5)}},
		"no such file":    {{msgManifest, good}, {msgData, data(9, 0, 5)}},
		"a gap":           {{msgManifest, good}, {msgData, data(0, 3, 5)}},
		"no bytes":        {{msgManifest, good}, {msgData, data(0, 0, 0)}},
		"half a head":     {{msgManifest, good}, {msgData, []byte{0, 0}}},
		"receiver's word": {{msgManifest, good}, {msgDone, nil}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil, nil)
			s := newStream(r.connect(1), still(), time.Hour)
			defer s.end()
			sent := make(chan struct{})
			go func() {
				defer close(sent)
				for _, m := range messages {
					if s.write(m.kind, m.body) != nil {
						return
					}
				}
			}()
			for {
				kind, body, err := s.read(1 << 10)
				if err != nil {
					t.Fatal(err)
				}
				if kind == msgError {
					if body[0] != codeFinal {
						t.Errorf("told %q", body)
					}
					break
				}
			}
			<-sent
			if len(r.handed) != 0 {
				t.Error("it was staged")
			}
		})
	}
}

// TestDataOfMembersOfAnyVersion: a message has as much data as docs/formats/peer.md says, whatever this member sends.
func TestDataOfMembersOfAnyVersion(t *testing.T) {
	const most = 256 << 10
	content := bytes.Repeat([]byte("x"), most)
	for more, want := range []uint8{msgDone, 0} { // 0: the connection ends
		r := newRig(t, nil, nil)
		s := newStream(r.connect(1), still(), time.Hour)
		all := append(content, make([]byte, more)...)
		message := append(make([]byte, dataHeadBytes), all...) // of file 0, from byte 0 on
		err := s.write(msgManifest, encodeManifest(nil, []file{{"a", int64(len(all)), xxhash.Sum64(all)}}))
		if err == nil {
			_, _, err = s.read(1 << 10) // what it has
		}
		if err != nil {
			t.Fatal(err)
		}
		_ = s.write(msgData, message) // whether it was taken is what is answered
		kind := uint8(msgBeat)
		for err == nil && kind == msgBeat {
			kind, _, err = s.read(1 << 10)
		}
		if kind != want {
			t.Errorf("%d bytes were answered with %d, %v", len(all), kind, err)
		}
		s.end()
	}
}

// TestWhatDoesNotFitIsRefused before anything of it is received: for good, or until it does fit.
func TestWhatDoesNotFitIsRefused(t *testing.T) {
	unfit := errors.New("it does not fit")
	var verdicts []error
	r := newRig(t, content(), func(_ *SenderOptions, ro *ReceiverOptions) {
		ro.Fits = func(from uint64, header []byte) error {
			if from != 1 || string(header) != "header" {
				t.Errorf("asked for %q of server %d", header, from)
			}
			verdict := verdicts[0]
			verdicts = verdicts[1:]
			return verdict
		}
	})
	verdicts = []error{unfit}
	err := r.sender.SendSnapshot(context.Background(), 2, []byte("header"), "checkpoint")
	if !refusedWith(err, codeFinal) || !strings.Contains(err.Error(), unfit.Error()) {
		t.Errorf("sent: %v", err)
	}
	if _, err := r.to.Stat("data/staging"); !isMissing(err) {
		t.Errorf("something of it was staged: %v", err)
	}
	verdicts = []error{fmt.Errorf("%w: %w", ErrLater, unfit), nil}
	if err := r.sender.SendSnapshot(context.Background(), 2, []byte("header"), "checkpoint"); err != nil {
		t.Error(err)
	}
	if len(verdicts) > 0 || len(r.handed) != 1 {
		t.Errorf("%d verdicts are left, %d snapshots were taken", len(verdicts), len(r.handed))
	}
}
