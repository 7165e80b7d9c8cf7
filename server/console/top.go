package console

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"zkd/quorum/clock"
	"zkd/server/console/survey"
	"zkd/server/traffic/report"
)

// Windows of the page, in seconds, and what it shows at most.
const (
	topSeconds  = 10 // without a wish
	topAnswerIn = 2 * time.Second
	topRows     = 50
)

// topWindows are those that the page offers.
var topWindows = []int{2, 10, 60}

// topper asks the servers of an ensemble who does what. Whoever looks at the same window within a second shares an
// answer.
type topper struct {
	asker  *report.Asker
	clock  clock.Clock
	survey *survey.Asker
	here   *Here

	asking sync.Mutex // held while servers are asked: who comes meanwhile gets that answer
	last   map[int]*report.Report
}

// newTopper returns one for an ensemble.
func newTopper(c clock.Clock, e *ensemble) *topper {
	// Nothing is left open; where an admin server leads elsewhere, it is not followed.
	web := &http.Client{Transport: &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return &topper{clock: c, survey: &e.Asker, here: e.Here, last: map[int]*report.Report{},
		asker: report.NewAsker(report.Options{Client: web, Timeout: topAnswerIn, Clock: c})}
}

// latest is what the servers say of the last seconds.
func (t *topper) latest(ctx context.Context, places []survey.Place, seconds int) *report.Report {
	t.asking.Lock()
	defer t.asking.Unlock()
	if r := t.last[seconds]; r != nil && t.clock.Since(r.At) < topInterval {
		return r
	}
	targets := make([]report.Target, len(places))
	for i := range places {
		targets[i] = t.target(&places[i])
	}
	r := t.asker.Ask(ctx, targets, seconds)
	t.last[seconds] = r
	return r
}

// topInterval is for how long an answer is taken for the present; less than the second after which pages ask again.
const topInterval = 900 * time.Millisecond

// target is where a server is asked: this process, its admin server, or by four-letter words. The credential of the
// visitor goes nowhere.
func (t *topper) target(p *survey.Place) report.Target {
	target := report.Target{Name: p.Name()}
	switch {
	case p.Figures != nil && t.here != nil && t.here.Top != nil:
		target.Own = t.here.Top
		return target
	case p.Addr == "":
		target.Own = func(int) (*report.Answer, error) { return nil, errNoClientAddress }
		return target
	}
	target.Words = func(ctx context.Context, word string) (string, error) {
		return survey.Word(ctx, t.survey.Dial, p.Addr, word)
	}
	if host, _, err := net.SplitHostPort(p.Addr); err == nil && t.survey.AdminPort != 0 {
		target.Admin = "http://" + net.JoinHostPort(host, strconv.Itoa(t.survey.AdminPort)) + "/" +
			strings.Trim(t.survey.AdminURL, "/")
	}
	return target
}

// errNoClientAddress is said of a server that nobody can ask.
var errNoClientAddress = errors.New("nobody says where its clients connect")

// topPage is what the page of who does what shows.
type topPage struct {
	Report   *report.Report // of the servers that were chosen
	All      []string       // servers
	Server   string         // the one that was chosen; "" for all
	View     int
	Column   int // that is sorted by; -1: as the report has it
	Reversed bool
	Filter   string
	Seconds  int
	waits    bool // of Apache's servers what comes about shows at the next time
}

// top shows who does what.
func top(c *Console, w http.ResponseWriter, r *request) error {
	p := readTop(c, r)
	show(w, http.StatusOK, &view{Title: "Top", Active: "top", Console: c, visitor: r.visitor,
		Ensemble: r.ensemble, Body: p})
	return nil
}

// topLive shows it again.
func topLive(c *Console, w http.ResponseWriter, r *request) error {
	showLive(w, &view{Console: c, visitor: r.visitor, Ensemble: r.ensemble}, readTop(c, r))
	return nil
}

// readTop asks the servers for what the page is to show.
func readTop(c *Console, r *request) *topPage {
	r.ensemble.look(r.ctx, c, r.visitor)
	q := r.URL.Query()
	p := &topPage{View: max(report.ViewOf(q.Get("view")), 0), Server: q.Get("server"), Filter: q.Get("filter"),
		Reversed: q.Get("reversed") == "true", Seconds: topSeconds, Column: -1}
	if n, err := strconv.Atoi(q.Get("seconds")); err == nil && slices.Contains(topWindows, n) {
		p.Seconds = n
	}
	if sort := q.Get("sort"); sort != "" && p.View != report.SlowView {
		p.Column = report.Views[p.View].Column(sort)
	}
	p.Report = r.ensemble.top.latest(r.ctx, r.ensemble.Places(), p.Seconds)
	p.waits = r.ensemble.top.asker.Waits(p.Report)
	for i := range p.Report.Servers {
		p.All = append(p.All, p.Report.Servers[i].Address)
	}
	if i := slices.Index(p.All, p.Server); i >= 0 {
		p.Report = report.New(p.Report.At, p.Report.Servers[i:i+1])
	} else {
		p.Server = ""
	}
	return p
}

// rows are the rows of the view, and how many there are besides.
func (p *topPage) rows() (rows []report.Row, more int) {
	v := &report.Views[p.View]
	rows = v.Rows(&p.Report.Lists, p.Filter, p.Column, p.Reversed)
	n := min(len(rows), topRows)
	return rows[:n], len(rows) - n
}

// slow are the slow requests with the filter in them.
func (p *topPage) slow() [][]string {
	asItIs := func(cell string) string { return cell } // a page escapes what it writes
	return p.Report.SlowRows(p.Filter, time.UTC, asItIs)
}
