package report

import (
	"strconv"
	"strings"
	"time"

	"zkd/jute"
)

// sample is what a server of Apache's says of itself at one moment.
type sample struct {
	at          time.Time
	figures     func(name string) string
	connections []connection
}

// connection is a client's, as the admin command connections has it.
type connection struct {
	Remote      string  `json:"remote_socket_address"`
	Session     int64   `json:"session_id"`
	Received    int64   `json:"packets_received"`
	Sent        int64   `json:"packets_sent"`
	MeanLatency float64 `json:"avg_latency"` // milliseconds, since it began
	MaxLatency  int64   `json:"max_latency"`
}

// readCons reads the four-letter word cons (org.apache.zookeeper.server.ServerCnxn.dumpConnectionInfo):
// " /10.0.0.1:4711[1](queued=0,recved=6,sent=6,sid=0x1,…,avglat=9,maxlat=35)".
func readCons(text string) (list []connection) {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		remote, rest, ok := strings.Cut(strings.TrimPrefix(line, "/"), "[")
		_, fields, found := strings.Cut(rest, "](")
		if !ok || !found {
			continue
		}
		c := connection{Remote: remote}
		for field := range strings.SplitSeq(strings.TrimSuffix(fields, ")"), ",") {
			name, value, _ := strings.Cut(field, "=")
			n, _ := strconv.ParseInt(value, 0, 64) // 0 for what is no number
			switch name {
			case "recved":
				c.Received = n
			case "sent":
				c.Sent = n
			case "sid":
				c.Session = n
			case "avglat":
				c.MeanLatency = float64(n)
			case "maxlat":
				c.MaxLatency = n
			}
		}
		list = append(list, c)
	}
	return list
}

// number is a figure; 0 if the server does not tell it.
func (s *sample) number(name string) int64 {
	f, _ := strconv.ParseFloat(s.figures(name), 64) // 0 for what is no number
	return int64(f)
}

// since says what has come about since before, which may be nil: then nothing is known of that. Latencies are those
// since a connection, or the server, has begun: nothing else is told.
func (s *sample) since(before *sample, to *Server) {
	to.State = &State{Serving: true, State: s.figures("server_state"), UptimeMs: s.number("uptime"),
		Connections: s.number("num_alive_connections"), Outstanding: s.number("outstanding_requests"),
		Watches: s.number("watch_count"), Znodes: s.number("znode_count")}
	to.Total = &Counts{}
	if before == nil {
		return
	}
	took := s.at.Sub(before.at).Seconds()
	if took <= 0 {
		return
	}
	to.Seconds = took
	past := map[string]connection{}
	for _, c := range before.connections {
		past[c.Remote] = c
	}
	const us = int64(time.Millisecond / time.Microsecond)
	mean, _ := strconv.ParseFloat(s.figures("avg_latency"), 64) // 0 for what is no number
	to.Total.Requests = grown(s.number("packets_received"), before.number("packets_received"))
	to.Total.MeanUs, to.Total.MaxUs = int64(mean*float64(us)), s.number("max_latency")*us
	byAddress := map[string]*Row{}
	for i := range s.connections {
		c := &s.connections[i]
		row := Row{Session: jute.Hex(c.Session), Address: c.Remote, Untold: true}
		row.Requests = grown(c.Received, past[c.Remote].Received)
		row.MeanUs, row.MaxUs = int64(c.MeanLatency*float64(us)), c.MaxLatency*us
		if row.Requests == 0 || c.Session == 0 { // one without a session asks for words, as this one
			continue
		}
		to.lists.Sessions = append(to.lists.Sessions, row)
		host := c.Remote
		if i := strings.LastIndexByte(host, ':'); i >= 0 {
			host = strings.Trim(host[:i], "[]")
		}
		if byAddress[host] == nil {
			byAddress[host] = &Row{Address: host, Untold: true}
		}
		byAddress[host].add(&row.Counts, 0)
	}
	for _, row := range byAddress { // order: the report sorts them
		to.lists.Addresses = append(to.lists.Addresses, *row)
	}
}

// grown is how much a count has grown; one that was reset counts from 0.
func grown(now, before int64) int64 {
	if now < before {
		return now
	}
	return now - before
}
