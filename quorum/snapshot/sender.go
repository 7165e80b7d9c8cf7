package snapshot

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/time/rate"

	"zkd/quorum/clock"
	"zkd/storage/serverid"
)

// SenderOptions says what a Sender consists of. FS, Open and Clock are needed; the rest has defaults.
type SenderOptions struct {
	FS vfs.FS // where checkpoints lie
	// Open opens a stream to a member.
	Open   func(ctx context.Context, to uint64) (net.Conn, error)
	Clock  clock.Clock
	Logger *slog.Logger
	// BytesPerSecond bounds what is sent, all transfers together.
	BytesPerSecond int
	// Silence is how long the receiver may say nothing.
	Silence time.Duration
}

// Defaults, all guesses: half of a 1-Gbit/s link; three times the pause after which transport gives up a stream, for a
// disk that is busy with a checkpoint.
const (
	defaultBytesPerSecond = 64 << 20
	defaultSilence        = 30 * time.Second
)

// Trying again within SendSnapshot.
const (
	attemptsMax   = 6 // in a row that brought nothing new; with the pauses, half a minute
	pauseLeast    = time.Second
	pauseMost     = 30 * time.Second
	progressEvery = 5 * time.Second // between log lines

	// chunksPerSecond is how many messages a low rate is cut into.
	chunksPerSecond = 8
	// hashingFactor is how much faster than it is sent a snapshot is read before, for its checksums. A guess: little
	// later, and no disk that is read as fast as it can.
	hashingFactor = 4
)

// Sender sends snapshots. Its methods may be called by any goroutine.
type Sender struct {
	opts    SenderOptions
	bytes   *rate.Limiter // of what is sent
	hashing *rate.Limiter // of what is read for checksums
	chunk   int           // data of one message; so small that a low rate looks like no silence
	hashes  *hashes
}

// NewSender returns a sender.
func NewSender(opts SenderOptions) (*Sender, error) {
	if opts.FS == nil || opts.Open == nil || opts.Clock == nil {
		return nil, errors.New("snapshot sender options: FS, Open and Clock must be given")
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.BytesPerSecond <= 0 {
		opts.BytesPerSecond = defaultBytesPerSecond
	}
	if opts.Silence <= 0 {
		opts.Silence = defaultSilence
	}
	chunk := min(max(opts.BytesPerSecond/chunksPerSecond, 1), chunkBytes)
	return &Sender{opts: opts, chunk: chunk, hashes: newHashes(),
		bytes:   rate.NewLimiter(rate.Limit(opts.BytesPerSecond), chunk),
		hashing: rate.NewLimiter(hashingFactor*rate.Limit(opts.BytesPerSecond), chunkBytes)}, nil
}

// SendSnapshot brings the files of dir to a member, with header (at most 1 MiB), and returns when the member has all of
// it durably and its node has taken it. A stream that breaks is opened again, and goes on where it broke; an error
// comes when several in a row bring nothing new, or when the member refuses for good or has no room. It ends with ctx.
// The files must not change, and be plain ones with names of letters, digits and ". _ - +". When a directory is sent
// again, only what is sent is read of it. If ctx ends it, the error is its cause, or, when the last stream before had
// failed and nothing went through it, that one's.
func (s *Sender) SendSnapshot(ctx context.Context, to uint64, header []byte, dir string) error {
	m, err := s.scan(ctx, dir, header, false)
	if err != nil {
		return err
	}
	t := &transfer{sender: s, manifest: m, to: to, dir: dir, began: s.opts.Clock.Now()}
	t.told = t.began
	logger := s.opts.Logger
	logger.Info("snapshot transfer started", slog.Int64("peer", serverid.Number(to)), slog.Int("files", len(m.files)),
		slog.Int64("bytes", m.bytes))
	pause := pauseLeast
	for failures := 0; ; {
		further, err := t.try(ctx)
		if err == nil {
			logger.Info("snapshot acknowledged", slog.Int64("peer", serverid.Number(to)), slog.Int64("bytes", m.bytes),
				slog.Int64("sent", t.sent), slog.Duration("took", s.opts.Clock.Since(t.began)))
			return nil
		}
		if further {
			failures, pause = 0, pauseLeast
		}
		failures++
		if ctx.Err() != nil || failures >= attemptsMax || isFinal(err) {
			return fmt.Errorf("send snapshot to server %d, %d of %d bytes are there: %w", serverid.Number(to), t.known,
				m.bytes, err)
		}
		logger.Warn("snapshot transfer interrupted", slog.Int64("peer", serverid.Number(to)),
			slog.Int64("there", t.known),
			slog.Int64("bytes", m.bytes), slog.Any("err", err))
		if ended := s.wait(ctx, pause); ended != nil {
			return fmt.Errorf("send snapshot to server %d: %w", serverid.Number(to), cmp.Or(t.refused, ended))
		}
		if refusedWith(err, codeDamaged) { // here, perhaps
			if t.manifest, err = s.scan(ctx, dir, header, true); err != nil {
				return err
			}
		}
		pause = min(2*pause, pauseMost)
	}
}

// scan makes the manifest of a directory. afresh has it read all of it.
func (s *Sender) scan(ctx context.Context, dir string, header []byte, afresh bool) (*manifest, error) {
	if err := s.hashes.enter(ctx); err != nil {
		return nil, err
	}
	defer s.hashes.leave()
	if afresh {
		s.hashes.forget()
	}
	return scan(ctx, s.opts.FS, dir, header, s.hashes, func(n int) error { return s.pace(ctx, s.hashing, n) })
}

// isFinal says whether another attempt would come out the same, unless somebody makes room.
func isFinal(err error) bool {
	return errors.Is(err, errLocal) || refusedWith(err, codeFinal) || refusedWith(err, codeSpace)
}

// wait waits, or returns why ctx ended.
func (s *Sender) wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := s.opts.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// pace waits until n bytes may pass a limit, or returns why ctx ended.
func (s *Sender) pace(ctx context.Context, limit *rate.Limiter, n int) error {
	now := s.opts.Clock.Now()
	return s.wait(ctx, limit.ReserveN(now, n).DelayFrom(now))
}

// transfer is one call of SendSnapshot.
type transfer struct {
	sender   *Sender
	manifest *manifest
	to       uint64
	dir      string
	began    time.Time
	told     time.Time // of the last log line
	known    int64     // bytes that the receiver said it had, at the last attempt that it answered
	sent     int64     // bytes of files, all attempts together
	refused  error     // what the last attempt met, if nothing went through it
}

// reply is what the receiver says in the end.
type reply struct{ err error }

// try makes an attempt; further tells whether the receiver had more than at the one before. The error of one that ctx
// ends is what SendSnapshot says of that.
func (t *transfer) try(ctx context.Context) (further bool, err error) {
	known, sent := t.known, t.sent
	err = t.attempt(ctx)
	further = t.known > known
	ended := context.Cause(ctx)
	switch {
	case further || t.sent > sent:
		t.refused = nil
	case ended == nil:
		t.refused = err
	}
	if err != nil && ended != nil {
		err = cmp.Or(t.refused, ended)
	}
	return further, err
}

// attempt opens a stream and sends what is missing.
func (t *transfer) attempt(ctx context.Context) error {
	opts := &t.sender.opts
	conn, err := opts.Open(ctx, t.to)
	if err != nil {
		return err
	}
	s := newStream(conn, opts.Clock, opts.Silence)
	defer s.end()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() }) // what waits for it sees the error
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	have, final := make(chan []int64, 1), make(chan reply, 1) // the receiver says each once
	s.running.Go(func() {
		err := t.listen(s, have)
		final <- reply{err}
		if err == nil {
			err = errDone
		}
		cancel(err) // whoever waits to send gives up
		if !errors.Is(err, errDone) {
			_ = conn.Close() // whoever is sending too
		}
	})
	err = t.send(ctx, s, have)
	if err != nil && !errors.Is(err, errDone) {
		s.end()
	}
	said := <-final
	var refused *refusal
	if said.err == nil || errors.As(said.err, &refused) || err == nil {
		return said.err // it says more than what writing met
	}
	return err
}

// errLocal is in every error of reading the snapshot.
var errLocal = errors.New("read snapshot")

// errDone ends the sending when the receiver has all.
var errDone = errors.New("the receiver has it all")

// listen reads what the receiver says, until the end; nil means that it has all.
func (t *transfer) listen(s *stream, have chan<- []int64) error {
	answered := false
	for {
		kind, body, err := s.read(max(filesMax*8, textBytesMax+1))
		if err != nil {
			return err
		}
		switch {
		case kind == msgBeat:
		case kind == msgDone:
			return nil
		case kind == msgError:
			return parseRefusal(body)
		case kind == msgHave && !answered:
			offsets, err := parseHave(body, t.manifest)
			if err != nil {
				return err
			}
			answered = true
			have <- offsets
		default:
			return fmt.Errorf("%w: kind %d", errProtocol, kind)
		}
	}
}

// parseHave reads how many bytes of each file the receiver has.
func parseHave(body []byte, m *manifest) ([]int64, error) {
	if len(body) != 8*len(m.files) {
		return nil, fmt.Errorf("%w: %d bytes for %d files", errProtocol, len(body), len(m.files))
	}
	offsets := make([]int64, len(m.files))
	for i, f := range m.files {
		offsets[i] = int64(binary.BigEndian.Uint64(body[8*i:]))
		if offsets[i] < 0 || offsets[i] > f.size {
			return nil, fmt.Errorf("%w: %d bytes of %s, which has %d", errProtocol, offsets[i], f.name, f.size)
		}
	}
	return offsets, nil
}

// send offers the manifest and sends what is missing.
func (t *transfer) send(ctx context.Context, s *stream, have <-chan []int64) error {
	if err := s.write(msgManifest, t.manifest.raw); err != nil {
		return err
	}
	var offsets []int64
	select {
	case offsets = <-have:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	t.known = 0
	for _, n := range offsets {
		t.known += n
	}
	buf := make([]byte, dataHeadBytes+t.sender.chunk)
	for i, f := range t.manifest.files {
		if offsets[i] == f.size {
			continue
		}
		if err := t.sendFile(ctx, s, i, offsets[i], buf); err != nil {
			return err
		}
	}
	return nil
}

// sendFile sends a file from an offset on.
func (t *transfer) sendFile(ctx context.Context, s *stream, index int, offset int64, buf []byte) error {
	f, opts := t.manifest.files[index], &t.sender.opts
	name := opts.FS.PathJoin(t.dir, f.name)
	from, err := opts.FS.Open(name)
	if err != nil {
		return fmt.Errorf("%w: %w", errLocal, err)
	}
	defer func() { _ = from.Close() }() // of a file that was read
	for offset < f.size {
		piece := buf[:min(int64(len(buf)), dataHeadBytes+f.size-offset)]
		n := len(piece) - dataHeadBytes
		if _, err := from.ReadAt(piece[dataHeadBytes:], offset); err != nil {
			return fmt.Errorf("%w %s at %d: %w", errLocal, name, offset, err)
		}
		if err := t.sender.pace(ctx, t.sender.bytes, n); err != nil {
			return context.Cause(ctx)
		}
		binary.BigEndian.PutUint32(piece, uint32(index))
		binary.BigEndian.PutUint64(piece[4:], uint64(offset))
		if err := s.write(msgData, piece); err != nil {
			return err
		}
		offset += int64(n)
		t.sent += int64(n)
		t.progress()
	}
	return nil
}

// progress logs now and then.
func (t *transfer) progress() {
	opts := &t.sender.opts
	if opts.Clock.Since(t.told) < progressEvery {
		return
	}
	t.told = opts.Clock.Now()
	opts.Logger.Info("snapshot transfer resumed", slog.Int64("peer", serverid.Number(t.to)), slog.Int64("sent", t.sent),
		slog.Int64("bytes", t.manifest.bytes), slog.Duration("took", opts.Clock.Since(t.began)))
}
