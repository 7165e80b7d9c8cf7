package ensemble_test

import (
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"

	"zkd/compat-tests/ensemble"
	"zkd/jute"
)

// answerWithin bounds the wait for the answer to a handshake: longer than any grace.
const answerWithin = 60 * time.Second

// shakeHands asks a server for a session, once, and returns its answer.
func shakeHands(t *testing.T, s *ensemble.Server, readOnly bool) (*jute.ConnectResponse, error) {
	t.Helper()
	nc, err := net.Dial("tcp", s.Addr)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = nc.Close() }) // nothing is written any more
	if err := nc.SetDeadline(time.Now().Add(answerWithin)); err != nil {
		t.Fatal(err)
	}
	frame, mark := jute.BeginFrame(nil)
	request := jute.ConnectRequest{TimeoutMillis: 20_000, Passwd: make([]byte, 16), HasReadOnly: true,
		ReadOnly: readOnly}
	if _, err := nc.Write(jute.EndFrame(request.Append(frame), mark)); err != nil {
		return nil, err
	}
	var head [4]byte
	if _, err := io.ReadFull(nc, head[:]); err != nil {
		return nil, err
	}
	payload := make([]byte, binary.BigEndian.Uint32(head[:]))
	if _, err := io.ReadFull(nc, payload); err != nil {
		return nil, err
	}
	var answer jute.ConnectResponse
	d := jute.NewDecoder(payload)
	answer.Decode(&d)
	return &answer, d.Err()
}

// TestWhoComesWithoutALeader: when the majority is gone, also the leader that is left tells no new client of a
// session before the read-only mode has begun; the first answer says so. ZooKeeper's closes connections meanwhile.
func TestWhoComesWithoutALeader(t *testing.T) {
	e := ensemble.Start(t, ensemble.Options{Config: map[string]string{
		"readonlymode.enabled": "true", "localSessionsEnabled": "true", "localSessionsUpgradingEnabled": "true",
	}, JVMFlags: []string{"-Dreadonlymode.enabled=true"}})
	for _, left := range []*ensemble.Server{e.AwaitLeader(), e.Followers()[0]} {
		for _, s := range e.Servers {
			if s != left {
				s.Kill9()
			}
		}
		await(t, func() (bool, string) { // until they are known to be gone
			mode := left.Mode()
			return mode != "leader", "server " + left.Addr + " is a " + mode
		})
		var answer *jute.ConnectResponse
		await(t, func() (ok bool, why string) {
			var err error
			if answer, err = shakeHands(t, left, true); err != nil {
				return false, err.Error()
			}
			return true, ""
		})
		if !answer.ReadOnly || answer.SessionID == 0 {
			t.Errorf("without a leader server %d tells a new client %+v", left.ID, answer)
		}
		for _, s := range e.Servers {
			if s != left {
				s.Launch()
			}
		}
		e.AwaitServing(e.Servers...)
		if answer, err := shakeHands(t, left, true); err != nil || answer.ReadOnly || answer.SessionID == 0 {
			t.Errorf("with a leader server %d tells a new client %+v, %v", left.ID, answer, err)
		}
	}
}
