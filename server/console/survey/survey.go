package survey

import (
	"context"
	"strings"
	"sync"
	"time"

	"zkd/quorum/clock"
)

// Place is a server that is asked.
type Place struct {
	ID   string // its number in the configuration; "" if that is not known
	Addr string // host:port of its clients; "" if nobody knows it
	Role string // participant or observer, as the configuration has it; ""
	// Figures are those of a server in this process; nil: it is asked at Addr.
	Figures func() (Figures, error)
}

// Name is what the server is called on pages.
func (p *Place) Name() string {
	switch {
	case p.ID == "":
		return p.Addr
	case p.Addr == "":
		return "server " + p.ID
	}
	return p.ID + " · " + p.Addr
}

// Options says whom to ask. All of it is needed.
type Options struct {
	Clock  clock.Clock
	Asker  *Asker
	Places func() []Place
}

// Times of samples. Guesses, but for the second: nothing that is open costs more than a sample of that.
const (
	interval   = 900 * time.Millisecond // less than the second after which pages ask again
	answerIn   = time.Second
	historyMax = 150 // samples: two minutes and a half
	gapMax     = 5 * time.Second
)

// Member is what a server has said.
type Member struct {
	Place
	Err     error // nil: it has answered
	Limited bool  // only srvr is on its whitelist
	Figures Figures
	asked   time.Time

	Role    string // leader, follower, observer, standalone, read-only; "" without an answer
	Version string
	Zkd     string // the build, if it is a zkd
	Zxid    int64
	HasZxid bool
	Clients int64
	// Lag is how many entries of the log a zkd has not confirmed to its leader.
	Lag    int64
	HasLag bool
	// What has happened since the sample before, a second; HasRates says that there was one.
	HasRates      bool
	Reads, Writes float64
	// Latency is the mean of what was answered since, in milliseconds; HasLatency says that something was.
	Latency    float64
	HasLatency bool
	latencySum float64
	latencyN   float64
}

// Sample is an ensemble at one moment.
type Sample struct {
	At      time.Time
	Members []Member
	Point
}

// Point is what the pictures show of a sample: the sums over its members.
type Point struct {
	At            time.Time
	Known         bool // of a sample that has one before it
	Reads, Writes float64
	Latency       float64 // milliseconds; 0 if nothing was answered
	Clients       float64
}

// Survey samples an ensemble. Any number of goroutines look.
type Survey struct {
	opts   Options
	asking sync.Mutex // held while a sample is taken: who comes meanwhile gets that one

	mu struct {
		sync.Mutex
		last    *Sample
		history []Point
	}
}

// New returns a survey that has asked nobody yet.
func New(o Options) *Survey { return &Survey{opts: o} }

// Latest is the present sample, taken now if the last is older than interval.
func (s *Survey) Latest(ctx context.Context) *Sample {
	if last := s.fresh(); last != nil {
		return last
	}
	s.asking.Lock()
	defer s.asking.Unlock()
	if last := s.fresh(); last != nil {
		return last
	}
	s.mu.Lock()
	before := s.mu.last
	s.mu.Unlock()
	sample := s.take(ctx, before)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.last = sample
	s.mu.history = append(s.mu.history, sample.Point)
	if len(s.mu.history) > historyMax {
		s.mu.history = s.mu.history[len(s.mu.history)-historyMax:]
	}
	return sample
}

// fresh is the last sample, if it is not old.
func (s *Survey) fresh() *Sample {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.last != nil && s.opts.Clock.Since(s.mu.last.At) < interval {
		return s.mu.last
	}
	return nil
}

// History are the samples of the last few minutes, the oldest first.
func (s *Survey) History() []Point {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Point(nil), s.mu.history...)
}

// take asks everybody.
func (s *Survey) take(ctx context.Context, before *Sample) *Sample {
	places := s.opts.Places()
	sample := &Sample{Members: make([]Member, len(places))}
	var all sync.WaitGroup
	for i, place := range places {
		all.Go(func() { sample.Members[i] = s.ask(ctx, place) })
	}
	all.Wait()
	sample.At = s.opts.Clock.Now()
	sample.lags()
	sample.rates(before)
	return sample
}

// ask asks one server.
func (s *Survey) ask(ctx context.Context, p Place) Member {
	m := Member{Place: p}
	switch {
	case p.Figures != nil:
		m.Figures, m.Err = p.Figures()
	case p.Addr == "":
		m.Err = errNoAddress
	default:
		ctx, cancel := context.WithTimeout(ctx, answerIn)
		defer cancel()
		m.Figures, m.Limited, m.Err = s.opts.Asker.Figures(ctx, p.Addr)
	}
	m.asked = s.opts.Clock.Now()
	m.read()
	return m
}

var errNoAddress error = noAddressError{}

// noAddressError says that a server cannot be asked.
type noAddressError struct{}

// Error says what to do.
func (noAddressError) Error() string {
	return "not asked: its line in the configuration does not say where its clients connect"
}

// read takes what a member says.
func (m *Member) read() {
	f := m.Figures
	m.Role = f["server_state"]
	m.Version, _, _ = strings.Cut(f["version"], ",")
	m.Version, _, _ = strings.Cut(m.Version, "-")
	for name := range f { // there is one
		if build, ok := strings.CutSuffix(name, "_zkd_build_info"); ok {
			m.Zkd = build
		}
	}
	m.Zxid, m.HasZxid = f.Int(zxidFigure)
	m.Clients, _ = f.Int("num_alive_connections")
	if m.Place.Figures == nil && m.Clients > 0 && m.Zkd == "" {
		m.Clients-- // the one that asked
	}
}

// lags takes what the leader says of the others.
func (s *Sample) lags() {
	for i := range s.Members {
		if s.Members[i].Role != "leader" {
			continue
		}
		behind := s.Members[i].Figures.Keyed("zkd_peer_lag_entries")
		for j := range s.Members {
			if lag, ok := behind[s.Members[j].ID]; ok {
				s.Members[j].Lag, s.Members[j].HasLag = int64(lag), true
			}
		}
	}
}

// rates compares with the sample before.
func (s *Sample) rates(before *Sample) {
	s.Point.At = s.At
	var sum, n float64
	for i := range s.Members {
		m := &s.Members[i]
		s.Clients += float64(m.Clients)
		if was := before.member(m); was != nil {
			m.compare(was)
		}
		s.Known = s.Known || m.HasRates
		s.Reads += m.Reads
		s.Writes += m.Writes
		sum += m.latencySum
		n += m.latencyN
	}
	if n > 0 {
		s.Latency = sum / n
	}
}

// member finds what a member has said in a sample, which may be nil.
func (s *Sample) member(m *Member) *Member {
	if s == nil {
		return nil
	}
	for i := range s.Members {
		if was := &s.Members[i]; was.ID == m.ID && was.Addr == m.Addr {
			return was
		}
	}
	return nil
}

// compare says what a member has done since it said was.
func (m *Member) compare(was *Member) {
	seconds := m.asked.Sub(was.asked).Seconds()
	if m.Err != nil || was.Err != nil || seconds <= 0 {
		return
	}
	grown := func(name string) (float64, bool) {
		after, ok := m.Figures.Float(name)
		before, had := was.Figures.Float(name)
		return max(after-before, 0), ok && had // less: it was started again
	}
	reads, ok := grown("cnt_readlatency")
	if !ok { // srvr alone, or before 3.6: all requests count as reads
		reads, ok = grown("packets_received")
	}
	writes, _ := grown("cnt_updatelatency")
	m.HasRates, m.Reads, m.Writes = ok, reads/seconds, writes/seconds
	readTime, _ := grown("sum_readlatency")
	writeTime, _ := grown("sum_updatelatency")
	if commits, ok := grown("cnt_zkd_commit_seconds"); ok && commits > 0 { // finer than milliseconds
		took, _ := grown("sum_zkd_commit_seconds")
		writeTime = max(writeTime, took/commits*writes*1000)
	}
	if m.latencyN = reads + writes; m.latencyN > 0 && ok {
		m.latencySum = readTime + writeTime
		m.Latency, m.HasLatency = m.latencySum/m.latencyN, true
	}
}
