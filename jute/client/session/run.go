package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"zkd/jute"
	"zkd/jute/client"
)

// Pauses between two rounds over all servers. Guesses: as short as one can bear, and no load on servers that are down.
const (
	pauseFirst = 100 * time.Millisecond
	pauseMax   = time.Second
	// searchFirst and searchMax are between two looks for a server with a quorum, as ClientCnxn's pingRwTimeout.
	searchFirst = 100 * time.Millisecond
	searchMax   = time.Minute
)

// run is the session's goroutine.
func (s *Session) run(ctx context.Context) {
	defer close(s.ended)
	var last *client.Conn // whose session is taken along; nil before there is one
	for next := 0; ; next++ {
		conn, err := s.connect(ctx, last, &next)
		if err != nil {
			s.end(err)
			return
		}
		if !conn.ReadOnly {
			last = conn // a server without a quorum knows no session
		}
		err = s.serve(ctx, conn)
		conn.Cut()
		if closing := s.lose(err); closing || ctx.Err() != nil || errors.Is(err, errAuthFailed) {
			s.end(err)
			return
		}
		s.trouble(ctx, s.Server(), err)
		s.tell(Event{Kind: EventState, State: Connecting, Zxid: -1})
	}
}

// errAuthFailed ends a session whose identity a server does not take.
var errAuthFailed = &Error{Code: jute.AuthFailed}

func (s *Session) trouble(ctx context.Context, address string, err error) {
	if s.options.OnTrouble != nil && err != nil && ctx.Err() == nil {
		s.options.OnTrouble(address, err)
	}
}

// connect tries one server after the other until one takes the session. next is the one to try first, by its number
// modulo their count, and afterwards the one that was taken. An error ends the session.
func (s *Session) connect(ctx context.Context, last *client.Conn, next *int) (*client.Conn, error) {
	pause, servers := pauseFirst, s.options.Servers
	for tried := 0; ; tried++ {
		if tried > 0 && tried%len(servers) == 0 {
			s.failWaiting()
			select {
			case <-s.options.After(pause):
			case <-ctx.Done():
			}
			pause = min(2*pause, pauseMax)
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		address := servers[*next%len(servers)]
		conn, err := s.tryServer(ctx, address, last)
		switch {
		case err == nil:
			return conn, nil
		case errors.Is(err, client.ErrExpired), errors.Is(err, errAuthFailed):
			return nil, err
		}
		s.trouble(ctx, address, err)
		*next++
	}
}

// tryServer connects to one server, and does all that comes before a request.
func (s *Session) tryServer(ctx context.Context, address string, last *client.Conn) (*client.Conn, error) {
	within := max(s.Timeout()/time.Duration(len(s.options.Servers)), time.Second)
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	began := s.options.Now()
	var conn *client.Conn
	var err error
	if last != nil {
		conn, err = client.Reattach(ctx, address, last)
	} else {
		conn, err = client.Dial(ctx, client.Options{Addr: address, Now: s.options.Now, Timeout: s.options.Timeout,
			Dial: s.options.Dial, ReadOnly: s.options.ReadOnly, MaxReplyBytes: s.options.MaxReplyBytes})
	}
	if err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, conn.Cut)()
	conn.Within = within
	conn.OnEvent = func(zxid jute.Zxid, event *jute.WatcherEvent) { s.nodeEvent(zxid, event) }
	if err := s.prepare(ctx, conn, address); err != nil {
		conn.Cut()
		return nil, err
	}
	s.begin(conn, address, began)
	return conn, nil
}

// prepare proves who the session belongs to, and sets its watches.
func (s *Session) prepare(ctx context.Context, conn *client.Conn, address string) error {
	if s.options.Login != nil {
		if err := s.login(ctx, conn, address); err != nil {
			return err
		}
	}
	s.mu.Lock()
	identity := slices.Clone(s.mu.identity)
	lists := s.mu.watches.lists(conn.LastZxid())
	s.mu.Unlock()
	for _, packet := range identity {
		header, _, err := conn.DoAs(jute.XidAuth, jute.OpAuth, packet.Append)
		if err != nil {
			return err
		}
		if header.Err != jute.OK {
			return errAuthFailed
		}
	}
	for _, request := range lists {
		header, _, err := conn.DoAs(jute.XidSetWatches, request.op(), request.append)
		if err != nil {
			return err
		}
		if header.Err != jute.OK {
			return fmt.Errorf("set the watches again: %w", &Error{Code: header.Err})
		}
	}
	return nil
}

// login is the dialogue of SASL.
func (s *Session) login(ctx context.Context, conn *client.Conn, address string) error {
	refused := func(why error) error {
		s.trouble(ctx, address, fmt.Errorf("%w: %w", ErrLogin, why))
		return errAuthFailed
	}
	dialogue, err := s.options.Login(address)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrLogin, err)
	}
	token, done, err := dialogue.Next(nil)
	for err == nil && token != nil {
		said := jute.SASLToken{Token: token}
		header, body, failed := conn.Do(jute.OpSASL, said.Append)
		if failed != nil {
			return failed
		}
		if header.Err != jute.OK {
			return refused(&Error{Code: header.Err})
		}
		if done {
			return nil
		}
		d := jute.NewDecoder(body)
		var answer jute.SASLToken
		if answer.Decode(&d); d.Err() != nil {
			return d.Err()
		}
		token, done, err = dialogue.Next(append([]byte{}, answer.Token...)) // never nil
	}
	if err != nil {
		return refused(err)
	}
	return nil
}

// begin makes a connection, which was begun at a time, the session's, and sends what has waited for it.
func (s *Session) begin(conn *client.Conn, address string, began time.Time) {
	state := Connected
	if conn.ReadOnly {
		state = ConnectedReadOnly
	}
	s.mu.Lock()
	s.mu.id, s.mu.timeout, s.mu.server = conn.Session, conn.Timeout, address
	s.mu.lastHeard, s.mu.proven, s.mu.pings = s.options.Now(), began, nil
	s.mu.Unlock()
	s.setState(state)
	s.tell(Event{Kind: EventState, State: state, Zxid: -1})
	s.sending.Lock()
	s.mu.Lock()
	s.mu.conn = conn
	var writes []func()
	for _, c := range s.mu.waiting {
		writes = append(writes, s.pendLocked(c))
	}
	s.mu.waiting = nil
	s.mu.Unlock()
	go func() { // the session's goroutine is to read meanwhile
		defer s.sending.Unlock()
		for _, write := range writes {
			write()
		}
	}()
}

// serve reads until the connection breaks, which a pinger has it do when the server is silent.
func (s *Session) serve(ctx context.Context, conn *client.Conn) error {
	ctx, cancel := context.WithCancel(ctx)
	pinged := make(chan struct{})
	go func() {
		defer close(pinged)
		s.keepAlive(ctx, conn)
	}()
	defer func() {
		cancel()
		<-pinged
	}()
	defer context.AfterFunc(ctx, conn.Cut)()
	for {
		header, body, err := conn.ReadReply()
		if err != nil {
			return err
		}
		if err := s.take(header, body); err != nil {
			return err
		}
	}
}

// take hands what a server has said to whom it concerns.
func (s *Session) take(header jute.ReplyHeader, body []byte) error {
	now := s.options.Now()
	s.mu.Lock()
	s.mu.lastHeard = now
	s.mu.Unlock()
	switch header.Xid {
	case jute.XidNotification:
		var event jute.WatcherEvent
		d := jute.NewDecoder(body)
		if event.Decode(&d); d.Err() != nil {
			return d.Err()
		}
		s.nodeEvent(header.Zxid, &event)
		return nil
	case jute.XidPing:
		s.mu.Lock()
		if len(s.mu.pings) > 0 {
			s.mu.proven, s.mu.pings = s.mu.pings[0], s.mu.pings[1:]
		}
		s.mu.Unlock()
		return nil
	case jute.XidAuth:
		s.answer(&s.mu.proving, result{header: header})
		if header.Err != jute.OK {
			return errAuthFailed
		}
		return nil
	}
	s.mu.Lock()
	right := len(s.mu.pending) > 0 && s.mu.pending[0].xid == header.Xid
	s.mu.Unlock()
	if !right {
		return fmt.Errorf("%w: xid %d", client.ErrOutOfOrder, header.Xid)
	}
	s.answer(&s.mu.pending, result{header: header, body: slices.Clone(body)})
	return nil
}

// answer gives a result to the oldest of calls.
func (s *Session) answer(calls *[]*call, r result) {
	s.mu.Lock()
	if len(*calls) == 0 {
		s.mu.Unlock()
		return
	}
	c := (*calls)[0]
	(*calls)[0] = nil
	*calls = (*calls)[1:]
	if r.err == nil {
		s.mu.proven = c.sent
	}
	if c.done != nil && r.err == nil {
		c.done(r.header, r.body)
	}
	s.mu.Unlock()
	c.result <- r
}

// keepAlive pings, cuts a connection on which nothing is heard, and leaves a server without a quorum for one with.
func (s *Session) keepAlive(ctx context.Context, conn *client.Conn) {
	interval := max(conn.Timeout/3, time.Millisecond)
	search := searchFirst
	for {
		wait := interval
		if conn.ReadOnly {
			wait = min(search, interval)
		}
		select {
		case <-s.options.After(wait):
		case <-ctx.Done():
			return
		}
		if conn.ReadOnly {
			if s.quorumElsewhere(ctx) {
				conn.Cut()
				return
			}
			search = min(2*search, searchMax)
		}
		s.mu.Lock()
		silent := s.options.Now().Sub(s.mu.lastHeard)
		s.mu.Unlock()
		if silent > conn.Timeout*2/3 {
			conn.Cut()
			return
		}
		s.mu.Lock()
		s.mu.pings = append(s.mu.pings, s.options.Now())
		s.mu.Unlock()
		if err := conn.PingWithin(conn.Timeout); err != nil {
			conn.Cut()
			return
		}
	}
}

// quorumElsewhere asks each server whether it serves writes.
func (s *Session) quorumElsewhere(ctx context.Context) bool {
	for _, address := range s.options.Servers {
		asking, cancel := context.WithTimeout(ctx, time.Second)
		answer, err := client.Ask(asking, s.options.Dial, address, "isro")
		cancel()
		if err == nil && answer == "rw" {
			return true
		}
	}
	return false
}

// lose is called when a connection is over, for a reason: nobody knows what came of what was sent on it. closing says
// that no other one is wanted.
func (s *Session) lose(reason error) (closing bool) {
	s.mu.Lock()
	s.mu.conn, closing = nil, s.mu.closing
	lost := slices.Concat(s.mu.pending, s.mu.proving)
	s.mu.pending, s.mu.proving = nil, nil
	s.mu.Unlock()
	if !closing {
		s.setState(Connecting)
	}
	if errors.Is(reason, client.ErrTooLong) && len(lost) > 0 { // it would be as long when it is asked for again
		lost[0].result <- result{err: reason}
		lost = lost[1:]
	}
	fail(lost, jute.ConnectionLoss)
	return closing
}

// failWaiting is called when no server could be reached.
func (s *Session) failWaiting() {
	s.mu.Lock()
	waiting := s.mu.waiting
	s.mu.waiting = nil
	s.mu.Unlock()
	fail(waiting, jute.ConnectionLoss)
}

func fail(calls []*call, code jute.Code) {
	for _, c := range calls {
		c.result <- result{err: &Error{Code: code, Path: c.path}}
	}
}

// end makes the session one that is over.
func (s *Session) end(err error) {
	state, code := Closed, jute.SessionExpired
	switch {
	case errors.Is(err, client.ErrExpired):
		state = Expired
	case errors.Is(err, errAuthFailed):
		state, code = AuthFailed, jute.AuthFailed
	}
	s.setState(state)
	s.mu.Lock()
	calls := slices.Concat(s.mu.pending, s.mu.proving, s.mu.waiting)
	s.mu.pending, s.mu.proving, s.mu.waiting = nil, nil, nil
	s.mu.Unlock()
	s.tell(Event{Kind: EventState, State: state, Zxid: -1})
	fail(calls, code)
	s.stop()
}
