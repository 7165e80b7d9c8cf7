package survey

import (
	"context"
	"strconv"
	"strings"
	"time"

	"zkd/server/fourletter"
)

// Connection is a client of a server.
type Connection struct {
	Server  string // where it is connected, as Member.Name
	Remote  string // host:port
	Session int64  // 0: none, as a four-letter word's
	Users   []string
	LastOp  string
	Since   time.Time // zero: not known

	Timeout               time.Duration
	Received, Sent        int64
	Outstanding           int64
	LastLatency           int64 // milliseconds
	MeanLatency           float64
	MaxLatency, HeldBytes int64
	Secure                bool
}

// OfInfo is a connection as the server of this process describes it.
func OfInfo(c *fourletter.Connection) Connection {
	return Connection{Remote: c.Remote.String(), Session: int64(c.Session), LastOp: c.LastOp, Timeout: c.Timeout,
		Since: sinceMillis(int64(c.Established)), Received: c.Received, Sent: c.Sent, Outstanding: c.Outstanding,
		LastLatency: c.LastLatency, MeanLatency: c.Latency.Avg, MaxLatency: c.Latency.Max, HeldBytes: c.HeldBytes,
		Secure: c.Secure}
}

// Connections asks a server for its clients.
func (a *Asker) Connections(ctx context.Context, addr string) ([]Connection, error) {
	text, err := Word(ctx, a.Dial, addr, "cons")
	if err != nil {
		return nil, err
	}
	var found []Connection
	for line := range strings.Lines(text) {
		if c, ok := parseCons(strings.TrimSpace(line)); ok {
			found = append(found, c)
		}
	}
	return found, nil
}

// parseCons reads a line of cons: "/host:port[1](queued=0,recved=1,…)" (org.apache.zookeeper.server.ServerCnxn).
func parseCons(line string) (c Connection, ok bool) {
	where, rest, ok := strings.Cut(strings.TrimPrefix(line, "/"), "[")
	if !ok {
		return c, false
	}
	_, rest, ok = strings.Cut(rest, "](")
	if !ok {
		return c, false
	}
	c.Remote = where
	numbers := map[string]*int64{"queued": &c.Outstanding, "recved": &c.Received, "sent": &c.Sent,
		"llat": &c.LastLatency, "maxlat": &c.MaxLatency}
	for field := range strings.SplitSeq(strings.TrimSuffix(rest, ")"), ",") {
		name, value, _ := strings.Cut(field, "=")
		n, _ := strconv.ParseInt(value, 10, 64) // what is no number stays 0
		switch name {
		case "sid":
			id, _ := strconv.ParseUint(strings.TrimPrefix(value, "0x"), 16, 64) // likewise
			c.Session = int64(id)
		case "lop":
			c.LastOp = value
		case "est":
			c.Since = sinceMillis(n)
		case "to":
			c.Timeout = time.Duration(n) * time.Millisecond
		case "avglat":
			c.MeanLatency = float64(n)
		default:
			if into := numbers[name]; into != nil {
				*into = n
			}
		}
	}
	return c, true
}

// sinceMillis is a time in milliseconds since 1970; zero for 0.
func sinceMillis(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.UnixMilli(n)
}

// Watches asks a server which paths are watched, by how many sessions each.
func (a *Asker) Watches(ctx context.Context, addr string) (map[string]int, error) {
	text, err := Word(ctx, a.Dial, addr, "wchp")
	if err != nil {
		return nil, err
	}
	return parseWchp(text), nil
}

// parseWchp reads wchp: each path, and below it its sessions behind tabs.
func parseWchp(text string) map[string]int {
	found := map[string]int{}
	path := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "\t0x") {
			found[path]++
		} else {
			path = line
		}
	}
	return found
}
