package process

import (
	"context"
	"io"
	"net"
	"strings"
	"time"
)

// Ask sends a four-letter word to a client port and returns all of the answer.
func Ask(ctx context.Context, addr, word string, within time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	defer conn.Close() //nolint:errcheck // read only
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return "", err
	}
	if _, err := io.WriteString(conn, word); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(conn)
	return string(answer), err
}

// Mode returns what the server at a client port says after "Mode: ", "" if it says nothing in time: srvr says "not
// currently serving" until the server takes requests.
func Mode(ctx context.Context, addr string, within time.Duration) string {
	answer, err := Ask(ctx, addr, "srvr", within)
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(answer, "Mode: ")
	mode, _, _ := strings.Cut(rest, "\n")
	return mode
}
