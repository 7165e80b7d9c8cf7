package client

import (
	"context"
	"io"
)

// commandBytesMax bounds what a four-letter command is answered. A guess: what mntr says, a thousand times.
const commandBytesMax = 4 << 20

// Ask sends a four-letter command to a client port, and returns what has come of the answer when the connection ends.
// All of it is over by ctx's deadline, which it should have.
func Ask(ctx context.Context, dial DialFunc, addr, word string) (answer string, err error) {
	conn, err := dial(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	defer conn.Close() //nolint:errcheck // read only
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return "", err
		}
	}
	if _, err := io.WriteString(conn, word); err != nil {
		return "", err
	}
	text, err := io.ReadAll(io.LimitReader(conn, commandBytesMax))
	return string(text), err
}
