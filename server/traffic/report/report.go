package report

import (
	"cmp"
	"sort"
	"strings"
	"time"
)

// Server is what came of asking one server.
type Server struct {
	Address string `json:"address"` // where it was asked
	// Kind says what told: zkd has everything; of Apache ZooKeeper its admin server or its four-letter words tell of
	// clients alone.
	Kind         string  `json:"kind,omitempty"`
	Error        string  `json:"error,omitempty"`
	Seconds      float64 `json:"seconds,omitempty"`
	SampledOneIn int64   `json:"sampled_one_in,omitempty"`
	State        *State  `json:"state,omitempty"`
	Total        *Counts `json:"total,omitempty"`

	lists Lists
}

// Kinds of servers.
const (
	KindZkd   = "zkd"
	KindAdmin = "zookeeper, by its admin server"
	KindWords = "zookeeper, by four-letter words"
)

// Report is what all servers have said, put together.
type Report struct {
	At      time.Time `json:"at"`
	Servers []Server  `json:"servers"`
	Total   Row       `json:"total"`
	Lists
}

// RowsMax is how many rows of each list a report has.
const RowsMax = 256

// New puts together what servers have said. Requests add up. Of percentiles the largest is taken: no server did
// worse.
func New(at time.Time, servers []Server) *Report {
	r := &Report{At: at, Servers: servers}
	all := map[int]*joined{}
	for i := range servers {
		s := &servers[i]
		if s.Error != "" {
			continue
		}
		r.Total.add(s.Total, s.Seconds)
		r.Total.Untold = r.Total.Untold || s.Kind != KindZkd
		for k, list := range s.lists.rows() {
			if all[k] == nil {
				all[k] = &joined{index: map[Row]int{}}
			}
			for j := range *list {
				row := (*list)[j]
				if k == sessionsList {
					row.Server = s.Address
				}
				all[k].add(&row, s.Seconds)
			}
		}
		for _, slow := range s.lists.Slow {
			slow.Server = s.Address
			r.Slow = append(r.Slow, slow)
		}
	}
	for k, list := range r.rows() {
		*list = []Row{}
		if all[k] != nil {
			*list = all[k].sorted()
		}
	}
	sort.SliceStable(r.Slow, func(i, j int) bool { return r.Slow[i].TookUs > r.Slow[j].TookUs })
	r.Slow = append([]Slow{}, r.Slow[:min(len(r.Slow), RowsMax)]...)
	return r
}

// sessionsList is the place of the sessions in rows.
const sessionsList = 3

// rows are the lists of rows, in the order of the views.
func (l *Lists) rows() []*[]Row {
	return []*[]Row{&l.Operations, &l.Subtrees, &l.Znodes, &l.Sessions, &l.Addresses, &l.Users}
}

// joined are rows of several servers by their keys.
type joined struct {
	index map[Row]int
	rows  []Row
}

// key is a row without its counts.
func (r *Row) key() Row {
	return Row{Operation: r.Operation, Path: r.Path, Session: r.Session, Address: r.Address, User: r.User,
		Server: r.Server}
}

// Text is the key in one text, for the filter and the order.
func (r *Row) Text() string {
	return strings.Join([]string{r.Operation, r.Path, r.Session, r.Address, r.User, r.Server}, " ")
}

// add adds a row of so many seconds.
func (j *joined) add(r *Row, seconds float64) {
	key := r.key()
	at, known := j.index[key]
	if !known {
		at = len(j.rows)
		j.index[key] = at
		j.rows = append(j.rows, key)
	}
	j.rows[at].add(&r.Counts, seconds)
	j.rows[at].Untold = j.rows[at].Untold || r.Untold
	j.rows[at].MissedAtMost += r.MissedAtMost
	j.rows[at].SamplingError += r.SamplingError // at most: of independent errors it is less
}

// add adds counts of so many seconds.
func (r *Row) add(c *Counts, seconds float64) {
	if all := r.Requests + c.Requests; all > 0 {
		r.MeanUs = (r.MeanUs*r.Requests + c.MeanUs*c.Requests) / all
	}
	r.Requests += c.Requests
	r.Failed += c.Failed
	r.BytesIn += c.BytesIn
	r.BytesOut += c.BytesOut
	r.WatchesSet += c.WatchesSet
	r.Notices += c.Notices
	r.Applied += c.Applied
	r.ApplyUs += c.ApplyUs
	r.P50Us = max(r.P50Us, c.P50Us)
	r.P99Us = max(r.P99Us, c.P99Us)
	r.MaxUs = max(r.MaxUs, c.MaxUs)
	r.Seconds = max(r.Seconds, seconds)
	if seconds > 0 {
		r.PerSecond += float64(c.Requests) / seconds
	}
}

// Rate is a count of the row's window in a second.
func (r *Row) Rate(n int64) float64 {
	if r.Seconds <= 0 {
		return 0
	}
	return float64(n) / r.Seconds
}

// sorted returns the rows, those with most requests first.
func (j *joined) sorted() []Row {
	sort.Slice(j.rows, func(x, y int) bool {
		a, b := &j.rows[x], &j.rows[y]
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), cmp.Compare(b.BytesIn+b.BytesOut, a.BytesIn+a.BytesOut),
			strings.Compare(a.Text(), b.Text())) < 0
	})
	return j.rows[:min(len(j.rows), RowsMax)]
}
