package process

import (
	"context"
	"net"
	"strings"
	"time"

	"zkd/jute/client"
)

// Ask sends a four-letter word to a client port and returns all of the answer.
func Ask(ctx context.Context, addr, word string, within time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	return client.Ask(ctx, new(net.Dialer).DialContext, addr, word)
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
