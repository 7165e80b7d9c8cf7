package null

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"

	"zkd/jute"
)

// Bounds of a connection.
const (
	frameMax   = jute.DefaultMaxBufferBytes
	readBytes  = 64 << 10
	flushBytes = 64 << 10 // of replies, before which no more requests are taken
)

// timeoutMaxMillis is the longest session that is granted, as by ZooKeeper's defaults. None expires.
const timeoutMaxMillis = 40_000

// server is what connections share.
type server struct {
	log      *log
	answers  answers
	sessions atomic.Int64
}

// Serve serves those who connect to l until ctx ends, with its file in dir.
func Serve(ctx context.Context, l net.Listener, dir string) error {
	file, err := openLog(dir)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	defer file.close()
	s := &server{log: file}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer context.AfterFunc(ctx, func() { _ = l.Close() })() // ends Accept
	for {
		conn, err := l.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("accept a connection: %w", err)
		}
		wg.Go(func() {
			defer context.AfterFunc(ctx, func() { _ = conn.Close() })() // ends its reads
			_ = s.serve(conn)                                           // the client is gone, or speaks otherwise
			_ = conn.Close()
		})
	}
}

// serve answers the requests of one connection until it ends.
func (s *server) serve(conn net.Conn) error {
	r := bufio.NewReaderSize(conn, readBytes)
	if err := s.shakeHands(r, conn); err != nil {
		return err
	}
	var in, out, writes []byte
	for over := false; !over; {
		out, writes = out[:0], writes[:0]
		for more := true; more && !over; more = len(out) < flushBytes && buffered(r) {
			var err error
			if in, err = readFrame(r, in); err != nil {
				return err
			}
			d := jute.NewDecoder(in)
			var header jute.RequestHeader
			header.Decode(&d)
			if d.Err() != nil {
				return d.Err()
			}
			if isWrite(header.Op) {
				writes = append(writes, in...)
			}
			out = s.answers.reply(out, header, &d)
			over = header.Op == jute.OpCloseSession
		}
		if len(writes) > 0 {
			if err := s.log.write(writes); err != nil {
				return err
			}
		}
		if _, err := conn.Write(out); err != nil {
			return err
		}
	}
	return nil
}

// shakeHands gives a session to whoever asks.
func (s *server) shakeHands(r *bufio.Reader, conn net.Conn) error {
	in, err := readFrame(r, nil)
	if err != nil {
		return err
	}
	d := jute.NewDecoder(in)
	var request jute.ConnectRequest
	request.Decode(&d)
	if d.Err() != nil {
		return d.Err()
	}
	response := jute.ConnectResponse{
		TimeoutMillis: min(request.TimeoutMillis, timeoutMaxMillis),
		SessionID:     jute.SessionID(s.sessions.Add(1)), Passwd: make([]byte, 16), HasReadOnly: true,
	}
	out, mark := jute.BeginFrame(nil)
	_, err = conn.Write(jute.EndFrame(response.Append(out), mark))
	return err
}

// buffered reports whether a whole frame can be read without waiting.
func buffered(r *bufio.Reader) bool {
	if r.Buffered() < jute.FrameHeaderBytes {
		return false
	}
	head, err := r.Peek(jute.FrameHeaderBytes)
	return err == nil && r.Buffered()-jute.FrameHeaderBytes >= int(binary.BigEndian.Uint32(head))
}

// readFrame reads the next frame into room, or into a larger one.
func readFrame(r *bufio.Reader, room []byte) ([]byte, error) {
	var head [jute.FrameHeaderBytes]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > frameMax {
		return nil, fmt.Errorf("frame of %d bytes: %w", n, jute.ErrLength)
	}
	if uint32(cap(room)) < n {
		room = make([]byte, n)
	}
	room = room[:n]
	_, err := io.ReadFull(r, room)
	return room, err
}
