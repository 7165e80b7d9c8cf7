package report

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"zkd/quorum/clock"
)

// Target is a server to ask.
type Target struct {
	Name  string // how it is shown
	Admin string // URL of its admin commands; "" if they are not to be asked
	// Words asks for a four-letter word; nil if that is not possible.
	Words func(ctx context.Context, word string) (string, error)
	// Own answers for a server in this process; nil for any other one.
	Own func(seconds int) (*Answer, error)
}

// Options says how servers are asked.
type Options struct {
	Client        *http.Client
	Authorization string // the header for admin servers; "" for none
	Timeout       time.Duration
	Clock         clock.Clock
}

// Asker asks servers. It remembers what Apache's have said, to tell what came since.
type Asker struct {
	options Options

	mu     sync.Mutex
	before map[string]*sample // guarded by mu; by target
}

// NewAsker returns an asker that knows nothing.
func NewAsker(o Options) *Asker { return &Asker{options: o, before: map[string]*sample{}} }

// Ask asks all targets, at once, for what has come about in the last seconds.
func (a *Asker) Ask(ctx context.Context, targets []Target, seconds int) *Report {
	servers := make([]Server, len(targets))
	var all sync.WaitGroup
	for i := range targets {
		all.Go(func() { servers[i] = a.ask(ctx, &targets[i], seconds) })
	}
	all.Wait()
	return New(a.options.Clock.Now(), servers)
}

// Answered is nil if any server has answered, and else says that none has.
func (r *Report) Answered() error {
	for i := range r.Servers {
		if r.Servers[i].Error == "" {
			return nil
		}
	}
	return errors.New("no server has answered")
}

// Waits reports whether servers of Apache's were met that have been asked once: what came about there shows at the next
// time.
func (a *Asker) Waits(r *Report) bool {
	for i := range r.Servers {
		if s := &r.Servers[i]; s.Error == "" && s.Kind != KindZkd && s.Seconds == 0 {
			return true
		}
	}
	return false
}

// errNoTop says that an admin server does not have the command.
var errNoTop = errors.New("it has no such command")

// ask asks one server.
func (a *Asker) ask(ctx context.Context, t *Target, seconds int) Server {
	ctx, cancel := context.WithTimeout(ctx, a.options.Timeout)
	defer cancel()
	s := Server{Address: t.Name}
	if t.Own != nil {
		got, err := t.Own(seconds)
		if err != nil {
			return Server{Address: t.Name, Error: err.Error()}
		}
		s.take(got)
		return s
	}
	err := errors.New("its admin server is not asked")
	if t.Admin != "" {
		err = a.askTop(ctx, t, seconds, &s)
	}
	var refused *refusedError
	switch {
	case err == nil, errors.As(err, &refused):
	case errors.Is(err, errNoTop):
		err = a.askAdmin(ctx, t, &s)
	case t.Words != nil:
		if other := a.askWords(ctx, t, &s); other == nil {
			err = nil
		} else {
			err = fmt.Errorf("admin server: %w; four-letter words: %w", err, other)
		}
	}
	if err != nil {
		s = Server{Address: t.Name, Error: err.Error()}
	}
	return s
}

// askTop asks for the admin command top.
func (a *Asker) askTop(ctx context.Context, t *Target, seconds int, s *Server) error {
	body, err := a.get(ctx, t, fmt.Sprintf("top?seconds=%d&rows=%d", seconds, RowsMax))
	if err != nil {
		return err
	}
	got, err := readAnswer(body)
	if err != nil {
		return fmt.Errorf("not the answer of an admin server: %w", err)
	}
	if got.Error != nil {
		if strings.HasPrefix(*got.Error, "Unknown command") {
			return errNoTop
		}
		return &refusedError{errors.New(*got.Error)}
	}
	s.take(got)
	return nil
}

// take takes what a server of zkd has answered.
func (s *Server) take(got *Answer) {
	s.Kind, s.Seconds, s.SampledOneIn = KindZkd, got.Seconds, got.SampledOneIn
	s.State, s.Total, s.lists = &got.Server, &got.Total, got.Lists
}

// refusedError is an answer that says no: to ask otherwise would not help.
type refusedError struct{ error }

// Unwrap returns it.
func (e *refusedError) Unwrap() error { return e.error }

// answerBytesMax bounds what is read of an answer: several times the longest that a server of zkd gives.
const answerBytesMax = 64 << 20

// get asks for an admin command.
func (a *Asker) get(ctx context.Context, t *Target, command string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, t.Admin+"/"+command, nil)
	if err != nil {
		return nil, err
	}
	if a.options.Authorization != "" {
		request.Header.Set("Authorization", a.options.Authorization)
	}
	response, err := a.options.Client.Do(request) //nolint:gosec // the operator names it, or the ensemble
	if err != nil {
		var wrapped *url.Error
		if errors.As(err, &wrapped) {
			err = wrapped.Err // without the URL, which stands beside it
		}
		return nil, err
	}
	defer func() { _ = response.Body.Close() }() // it was read
	body, err := io.ReadAll(io.LimitReader(response.Body, answerBytesMax))
	switch {
	case err != nil:
		return nil, err
	case response.StatusCode == http.StatusForbidden || response.StatusCode == http.StatusUnauthorized:
		return nil, &refusedError{errors.New("not authorized: ask on its own machine, or with the superuser's " +
			"credentials")}
	case response.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("its admin server answers %s", response.Status)
	}
	return body, nil
}

// askAdmin asks an admin server of Apache's.
func (a *Asker) askAdmin(ctx context.Context, t *Target, s *Server) error {
	figures, err := a.get(ctx, t, "monitor")
	if err != nil {
		return err
	}
	connections, err := a.get(ctx, t, "connections")
	if err != nil {
		return err
	}
	now := &sample{at: a.options.Clock.Now()}
	var list struct {
		Connections       []connection `json:"connections"`
		SecureConnections []connection `json:"secure_connections"`
		Error             *string      `json:"error"`
	}
	values := map[string]any{}
	if err := errors.Join(json.Unmarshal(figures, &values), json.Unmarshal(connections, &list)); err != nil {
		return fmt.Errorf("not the answer of an admin server: %w", err)
	}
	if list.Error != nil {
		return &refusedError{errors.New(*list.Error)}
	}
	now.connections = append(list.Connections, list.SecureConnections...)
	now.figures = func(name string) string {
		if v, known := values[name]; known {
			return fmt.Sprint(v)
		}
		return ""
	}
	a.since(t, now, s, KindAdmin)
	return nil
}

// askWords asks by four-letter words.
func (a *Asker) askWords(ctx context.Context, t *Target, s *Server) error {
	now := &sample{at: a.options.Clock.Now()}
	text, err := t.Words(ctx, "mntr")
	if err != nil {
		return fmt.Errorf("mntr: %w", err)
	}
	values := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
			values[strings.TrimPrefix(name, "zk_")] = value
		}
	}
	now.figures = func(name string) string { return values[name] }
	if text, err = t.Words(ctx, "cons"); err != nil {
		return fmt.Errorf("cons: %w", err)
	}
	now.connections = readCons(text)
	a.since(t, now, s, KindWords)
	return nil
}

// since says what has come about since the sample before.
func (a *Asker) since(t *Target, now *sample, s *Server, kind string) {
	a.mu.Lock()
	before := a.before[t.Name]
	a.before[t.Name] = now
	a.mu.Unlock()
	s.Kind = kind
	now.since(before, s)
}
