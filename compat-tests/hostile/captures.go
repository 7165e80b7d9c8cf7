package hostile

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"

	"zkd/jute"
)

// Captures are requests recorded from real clients, each with its length.
type Captures struct {
	Handshakes [][]byte // ConnectRequests
	Requests   [][]byte // of sessions
	Ends       [][]byte // requests that end the connection
}

// ReadCaptures reads the recorded exchanges of a file such as jute/testdata/captures.jsonl. What is no frame (a
// four-letter word, several at once) is left out.
func ReadCaptures(name string) (Captures, error) {
	text, err := os.ReadFile(name) //nolint:gosec // a test's own file
	if err != nil {
		return Captures{}, fmt.Errorf("read the captures: %w", err)
	}
	var all Captures
	for line := range bytes.Lines(text) {
		var c struct {
			Kind, Req string
			Closed    bool
		}
		if err := json.Unmarshal(line, &c); err != nil {
			return Captures{}, fmt.Errorf("read the captures: %w", err)
		}
		frame, err := hex.DecodeString(c.Req)
		if err != nil {
			return Captures{}, fmt.Errorf("read the captures: %w", err)
		}
		switch {
		case len(frame) < 12:
		case c.Kind == "handshake":
			all.Handshakes = append(all.Handshakes, frame)
		case c.Kind != "request" && c.Kind != "setup":
		case c.Closed || endsWhenDamaged(frame):
			all.Ends = append(all.Ends, frame)
		default:
			all.Requests = append(all.Requests, frame)
		}
	}
	if len(all.Handshakes) < 20 || len(all.Requests) < 200 {
		return all, fmt.Errorf("%s has %d handshakes and %d requests: too few to be the captures", name,
			len(all.Handshakes), len(all.Requests))
	}
	return all, nil
}

// endsWhenDamaged reports whether a request ends its connection if it is damaged, or already if it is not.
func endsWhenDamaged(frame []byte) bool {
	var h jute.RequestHeader
	d := jute.NewDecoder(frame[jute.FrameHeaderBytes:])
	h.Decode(&d)
	switch h.Op {
	case jute.OpAuth, jute.OpSASL, jute.OpCloseSession, jute.OpCreateSession, jute.OpDeleteContainer, jute.OpCheck:
		return true
	default:
		return false
	}
}
