package console

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"zkd/jute"
	client "zkd/jute/client/session"
	"zkd/server/console/page"
	"zkd/server/console/session"
)

// job is something that takes longer than a page may wait. It runs in a session of whoever has begun it, and ends with
// the console, with his visit, or when he stops it.
type job struct {
	id    string
	Title string
	Back  string // the path that its page leads back to; "" is the page of the ensemble
	owner *identity
	stop  context.CancelFunc
	over  chan struct{}

	done atomic.Int64 // of what it does, so far

	mu    sync.Mutex
	ended time.Time // zero while it runs
	said  string    // how it has ended
}

// work is what a job does: it tells how much it has done, and returns what is to be said of it.
type work interface {
	run(ctx context.Context, s *session.Session, done *atomic.Int64) (said string, err error)
}

// jobsMax is how many jobs are remembered, and jobsRunning how many run at once, of all visitors.
const (
	jobsMax     = 100
	jobsRunning = 4
)

// jobs are those of a console.
type jobs struct {
	mu      sync.Mutex
	all     []*job // the oldest first
	running sync.WaitGroup
	turns   chan struct{} // of size jobsRunning: who comes beyond waits
}

// startJob has a job begin.
func (c *Console) startJob(r *request, title, back string, w work) *job {
	id, err := c.visits.draw()
	if err != nil {
		id = "" // nobody finds it; its work is done all the same
	}
	ctx, stop := context.WithTimeout(c.stopped, jobWithin)
	j := &job{id: id, Title: title, Back: back, owner: r.identity, stop: stop, over: make(chan struct{})}
	c.jobs.mu.Lock()
	c.jobs.all = append(c.jobs.all, j)
	if len(c.jobs.all) > jobsMax {
		c.jobs.all = c.jobs.all[1:]
	}
	c.jobs.mu.Unlock()
	e, v := r.ensemble, r.visitor
	c.jobs.running.Go(func() {
		defer close(j.over)
		defer stop()
		select {
		case c.jobs.turns <- struct{}{}:
			defer func() { <-c.jobs.turns }()
		case <-ctx.Done():
		}
		said := ""
		s, err := e.sessions.get(ctx, v)
		if err == nil {
			defer s.Hold()()
			said, err = w.run(ctx, s, &j.done)
		}
		j.end(c.opts.Clock.Now(), said, err)
	})
	return j
}

// end notes how a job has ended.
func (j *job) end(now time.Time, said string, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.ended, j.said = now, said
	if errors.Is(err, context.Canceled) {
		j.said += " It was stopped before its end."
	} else if err != nil {
		_, why := explain(err)
		j.said += " It has not come to its end: " + why
	}
}

// isOver reports whether it has ended.
func (j *job) isOver() bool {
	select {
	case <-j.over:
		return true
	default:
		return false
	}
}

// how is how it has ended.
func (j *job) how() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.said
}

// main implements body.
func (j *job) main(p *page.Page, v *view) {
	p.Put(`<section class="card narrow"><h1>{}</h1>
<div id="live"`, plain(j.Title))
	p.PutIf(!j.isOver(), ` data-refresh-url="{}/job/live?id={}" data-every="500"`, v.Base(), query(j.id))
	p.Put(`>`)
	j.live(p, v)
	p.Put(`</div>
<p>`)
	if j.Back == "" {
		p.Put(`<a class="button" href="{}/members">Back</a>`, v.Base())
	} else {
		p.Put(`<a class="button" href="{}/tree?path={}">Back</a>`, v.Base(), query(j.Back))
	}
	p.Put(`</p>
</section>
`)
}

// live implements moving.
func (j *job) live(p *page.Page, v *view) {
	if j.isOver() {
		p.Put(`<p class="notice note" role="status" data-end>{}</p>
`, j.how())
		return
	}
	p.Put(`<p role="status">{} so far…</p><progress aria-label="It runs"></progress>
`, countText(j.done.Load()))
	v.post(p, "job/stop", "")
	hidden(p, "id", j.id)
	p.Put(`<button class="danger">Stop</button></form>
`)
}

// job finds a job of the visitor.
func (c *Console) job(r *request) (*job, error) {
	id := r.FormValue("id")
	c.jobs.mu.Lock()
	defer c.jobs.mu.Unlock()
	for _, j := range c.jobs.all {
		if id != "" && j.id == id && j.owner == r.identity {
			return j, nil
		}
	}
	return nil, errNotFound
}

// jobPage shows how far a job is.
func jobPage(c *Console, w http.ResponseWriter, r *request) error {
	j, err := c.job(r)
	if err != nil {
		return err
	}
	show(w, http.StatusOK, &view{Title: j.Title, Active: "tree", Console: c, visitor: r.visitor,
		Ensemble: r.ensemble, Body: j})
	return nil
}

// jobLive shows it again.
func jobLive(c *Console, w http.ResponseWriter, r *request) error {
	j, err := c.job(r)
	if err != nil {
		return err
	}
	showLive(w, &view{Console: c, visitor: r.visitor, Ensemble: r.ensemble}, j)
	return nil
}

// stopJob stops a job, and waits until it has.
func stopJob(c *Console, w http.ResponseWriter, r *request) error {
	j, err := c.job(r)
	if err != nil {
		return err
	}
	j.stop()
	select {
	case <-j.over:
	case <-r.ctx.Done():
	}
	http.Redirect(w, r.Request, Path+r.ensemble.Name+"/job?id="+j.id, http.StatusSeeOther)
	return nil
}

// stopJobs stops those of whoever has signed out, and gives up what he has uploaded.
func (c *Console) stopJobs(of *identity) {
	c.held.give(of)
	c.jobs.mu.Lock()
	defer c.jobs.mu.Unlock()
	for _, j := range c.jobs.all {
		if j.owner == of {
			j.stop()
		}
	}
}

// remover deletes a znode with all that is below it.
type remover struct{ path string }

// deletesAtOnce is how many deletes are under way: a guess.
const deletesAtOnce = 100

// run implements work. What is created below meanwhile is deleted, too, or has the delete begin again.
func (d *remover) run(ctx context.Context, s *session.Session, done *atomic.Int64) (string, error) {
	err := d.remove(ctx, s, d.path, done)
	return plural(done.Load(), "znode was deleted.", "znodes were deleted."), err
}

// remove deletes what is below path, then path itself.
func (d *remover) remove(ctx context.Context, s *session.Session, path string, done *atomic.Int64) error {
	for ctx.Err() == nil {
		names, _, err := s.Children(ctx, path, false)
		if err != nil {
			return ignoreGone(err)
		}
		for len(names) > 0 && ctx.Err() == nil {
			batch := names[:min(deletesAtOnce, len(names))]
			names = names[len(batch):]
			if err := d.removeAll(ctx, s, path, batch, done); err != nil {
				return err
			}
		}
		err = s.Delete(ctx, path, jute.AnyVersion)
		if session.CodeOf(err) != jute.NotEmpty { // somebody has created one
			if err == nil {
				done.Add(1)
			}
			return ignoreGone(err)
		}
	}
	return ctx.Err()
}

// removeAll deletes children, those that have none at once.
func (d *remover) removeAll(ctx context.Context, s *session.Session, parent string, names []string,
	done *atomic.Int64) error {
	paths := make([]string, 0, len(names))
	for _, name := range names {
		paths = append(paths, jute.ChildPath(parent, name))
	}
	codes, err := s.Deletes(ctx, paths)
	if err != nil {
		return err
	}
	for i, code := range codes {
		switch code {
		case jute.OK:
			done.Add(1)
		case jute.NoNode:
		case jute.NotEmpty:
			if err := d.remove(ctx, s, paths[i], done); err != nil {
				return err
			}
		default:
			return &client.Error{Code: code, Path: paths[i]}
		}
	}
	return nil
}

// ignoreGone is err unless it says that a znode is gone.
func ignoreGone(err error) error {
	if session.CodeOf(err) == jute.NoNode {
		return nil
	}
	return err
}
