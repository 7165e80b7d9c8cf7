package report

import (
	"math"
	"net/netip"

	"zkd/jute"
	"zkd/server/fourletter"
	"zkd/server/traffic"
)

// samplingSpread is how many standard deviations 95 % are within.
const samplingSpread = 1.96

// Of is what a server says of a window, with so many rows of each list at most. What the server is now it has to add.
func Of(w *traffic.Window, rows int) *Answer {
	a := &Answer{Seconds: w.Took.Seconds(), SampledOneIn: int64(w.Every), Total: countsOf(&w.Total)}
	for i := range w.Operations {
		o := &w.Operations[i]
		a.Operations = append(a.Operations, Row{Operation: traffic.Name(o.Op), Counts: countsOf(&o.Counts)})
	}
	every := float64(w.Every)
	path := func(r *Row, p string) { r.Path = p }
	a.Subtrees = rowsOf(w.Subtrees, rows, every, path)
	a.Znodes = rowsOf(w.Znodes, rows, every, path)
	a.Sessions = rowsOf(w.Sessions, rows, 1, func(r *Row, who traffic.Client) {
		r.Session, r.Address, r.User = jute.Hex(who.Session), who.Remote.String(), who.User
	})
	a.Addresses = rowsOf(w.Addresses, rows, 1, func(r *Row, addr netip.Addr) { r.Address = addr.String() })
	a.Users = rowsOf(w.Users, rows, 1, func(r *Row, u string) { r.User = u })
	for i := range w.Slowest {
		a.Slow = append(a.Slow, slowOf(&w.Slowest[i]))
	}
	return a
}

// countsOf are counts as they are written.
func countsOf(n *traffic.Counts) Counts {
	return Counts{Requests: int64(n.Requests), Failed: int64(n.Failed), BytesIn: int64(n.BytesIn),
		BytesOut: int64(n.BytesOut), WatchesSet: int64(n.WatchesSet), Notices: int64(n.Notices),
		Applied: int64(n.Applied), ApplyUs: n.Apply.Microseconds(), MeanUs: n.Latency.Mean(n.Requests).Microseconds(),
		P50Us: n.Latency.Quantile(0.5).Microseconds(), P99Us: n.Latency.Quantile(0.99).Microseconds(),
		MaxUs: n.Latency.Max.Microseconds()}
}

// rowsOf are the first rows of a list. One in every of its requests was counted.
func rowsOf[K comparable](list []traffic.Row[K], rows int, every float64, key func(*Row, K)) []Row {
	found := make([]Row, min(len(list), rows))
	for i := range found {
		r := &list[i]
		found[i] = Row{Counts: countsOf(&r.Counts), MissedAtMost: int64(r.Missed),
			SamplingError: int64(math.Ceil(samplingSpread * math.Sqrt(float64(r.Requests)*(every-1))))}
		key(&found[i], r.Key)
	}
	return found
}

// slowOf is one of the slowest requests.
func slowOf(s *traffic.Slow) Slow {
	p := &s.Phases
	return Slow{AtMs: s.At.UnixMilli(), Operation: traffic.Name(s.Op), Path: s.Path, Failed: s.Failed,
		TookUs: s.Took.Microseconds(), Bytes: int64(s.Bytes), Session: jute.Hex(s.Client.Session),
		Address: s.Client.Remote.String(), User: s.Client.User,
		PhasesUs: Phases{Queue: p.Queue.Microseconds(), Turn: p.Turn.Microseconds(), Confirm: p.Confirm.Microseconds(),
			Log: p.Log.Microseconds(), Replicate: p.Replicate.Microseconds(), Apply: p.Apply.Microseconds(),
			Answer: p.Answer.Microseconds()}}
}

// StateOf is what a server of a number is, and has now.
func StateOf(i *fourletter.Info, id int64) State {
	watches := 0
	if i.Watches != nil {
		watches = i.Watches.Counts().All
	}
	return State{ID: id, Serving: i.Serving, State: i.Mode, UptimeMs: i.Uptime.Milliseconds(),
		Zxid: jute.Hex(i.Zxid), Connections: int64(i.AliveConnections),
		Outstanding: i.Outstanding, Watches: int64(watches), Znodes: i.Nodes}
}
