package shell

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"zkd/jute"
	"zkd/jute/client/session"
)

// Names by which contenders stand in line, before the number that the server gives: of Curator's InterProcessMutex and
// LeaderSelector, of its LeaderLatch, of Kazoo's Lock and Election.
const (
	curatorLock  = "-lock-"
	curatorLatch = "-latch-"
	kazooLock    = "__lock__"
)

// contender finds whoever stands in line in any of these ways, Kazoo's readers among them.
var contender = regexp.MustCompile(`(?:-lock-|-latch-|__lock__|__rlock__)(-?\d{10})$`)

// place is a place in a line: a znode of ours for each kind of contenders that there may be. All were made by one
// multi, so that their numbers follow one another, and nobody stands between them: two shells never wait for each
// other.
type place struct {
	call   *call
	path   string // of the line
	mark   string // in the names of ours
	number int64  // the least of ours
	woken  chan struct{}
}

// errNotHeld means that the time to wait was over.
var errNotHeld = errors.New("somebody else has it")

// runLock runs a command while it holds a lock; runElect while it leads.
func runLock(c *call) error { return hold(c, []string{"_c_%s" + curatorLock, "%s" + kazooLock}) }
func runElect(c *call) error {
	return hold(c, []string{"_c_%s" + curatorLock, "_c_%s" + curatorLatch, "%s" + kazooLock})
}

// hold stands in line, runs the command when it is first, and leaves.
func hold(c *call, names []string) error {
	path, err := c.path()
	if err != nil {
		return err
	}
	if len(c.args) < 3 {
		return c.command.usageError()
	}
	ctx := c.ctx
	if text, given := c.values["t"]; given {
		within, err := strconv.ParseFloat(text, 64)
		if err != nil || within < 0 {
			return failed("-t wants a number of seconds, not %q", text)
		}
		limited, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		timer := c.o.Clock.NewTimer(time.Duration(within * float64(time.Second)))
		defer timer.Stop()
		go func() {
			select {
			case <-timer.C():
				cancel(errNotHeld)
			case <-limited.Done():
			}
		}()
		ctx = limited
	}
	defer c.mute()()
	p := &place{call: c, path: path, woken: make(chan struct{}, 1)}
	defer c.hooks.add(func(session.Event) {
		select {
		case p.woken <- struct{}{}:
		default:
		}
	})()
	defer p.leave()
	if err = p.stand(ctx, names); err == nil {
		err = p.wait(ctx)
	}
	if cause := context.Cause(ctx); cause != nil && c.ctx.Err() == nil {
		return failed("%s: %v", path, cause)
	}
	if err != nil {
		return answered(err, "null")
	}
	return p.run(c.args[2:])
}

// stand makes our znodes.
func (p *place) stand(ctx context.Context, names []string) error {
	var id [16]byte
	if _, err := rand.Read(id[:]); err != nil {
		return err
	}
	// Those who do not know a name sort it as it stands among numbers: a letter comes behind them.
	p.mark = "f" + hex.EncodeToString(id[:])[1:]
	p.mark = p.mark[:8] + "-" + p.mark[8:12] + "-" + p.mark[12:16] + "-" + p.mark[16:20] + "-" + p.mark[20:]
	host, _ := os.Hostname() // for those who look
	who := []byte(host + ":" + strconv.Itoa(os.Getpid()))
	var ops []session.Op
	for _, name := range names {
		ops = append(ops, session.CreateOp(p.path+"/"+fmt.Sprintf(name, p.mark),
			session.NewNode{Data: who, ACL: session.World(), Mode: jute.ModeEphemeralSequential}))
	}
	for {
		err := p.call.session.Multi(ctx, ops)
		switch session.CodeOf(err) {
		case jute.OK:
			return err
		case jute.NoNode:
			if err := p.makeLine(ctx); err != nil {
				return err
			}
		case jute.ConnectionLoss: // it may have been done
			if err := p.call.session.Await(ctx); err != nil {
				return err
			}
			if there, err := p.ours(ctx); err == nil && len(there) > 0 {
				return nil
			}
		default:
			return err
		}
	}
}

// makeLine makes the znode in which contenders stand, and those above it.
func (p *place) makeLine(ctx context.Context) error {
	at := ""
	for name := range strings.SplitSeq(strings.Trim(p.path, "/"), "/") {
		at += "/" + name
		_, err := p.call.session.Create(ctx, at, session.NewNode{ACL: session.World()})
		if err != nil && session.CodeOf(err) != jute.NodeExists {
			return err
		}
	}
	return nil
}

// ours are the names of our znodes.
func (p *place) ours(ctx context.Context) ([]string, error) {
	names, _, err := p.call.session.Children(ctx, p.path, false)
	return slices.DeleteFunc(names, func(n string) bool { return !strings.Contains(n, p.mark) }), err
}

// wait waits until nobody stands before us.
func (p *place) wait(ctx context.Context) error {
	for {
		before, err := p.before(ctx)
		if session.CodeOf(err) == jute.ConnectionLoss {
			if err := p.call.session.Await(ctx); err != nil {
				return err
			}
			continue
		}
		if err != nil || before == "" {
			return err
		}
		_, _, err = p.call.session.Get(ctx, p.path+"/"+before, true)
		if code := session.CodeOf(err); code == jute.NoNode || code == jute.ConnectionLoss {
			continue // gone meanwhile, or to be asked again
		}
		if err != nil && session.CodeOf(err) != jute.NoAuth {
			return err
		}
		select {
		case <-p.woken:
		case <-p.call.session.Done():
			return &session.Error{Code: jute.SessionExpired, Path: p.path}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// before is the name of the last one who stands before us; "" if we are the first.
func (p *place) before(ctx context.Context) (string, error) {
	names, _, err := p.call.session.Children(ctx, p.path, false)
	if err != nil {
		return "", err
	}
	numbers := map[string]int64{}
	own := int64(-1)
	for _, name := range names {
		match := contender.FindStringSubmatch(name)
		if match == nil {
			continue
		}
		n, err := strconv.ParseInt(match[1], 10, 64)
		switch {
		case err != nil:
			continue
		case !strings.Contains(name, p.mark):
			numbers[name] = n
		case own < 0 || n < own:
			own = n
		}
	}
	if own < 0 {
		return "", failed("our znodes in %s are gone", p.path)
	}
	p.number = own
	last, at := "", int64(-1)
	for name, n := range numbers { // order: the greatest is looked for
		if n < own && n > at {
			last, at = name, n
		}
	}
	return last, nil
}

// leave deletes our znodes.
func (p *place) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), closeWithin)
	defer cancel()
	names, err := p.ours(ctx)
	if err != nil || len(names) == 0 {
		return // they go with the session
	}
	var ops []session.Op
	for _, name := range names {
		ops = append(ops, session.DeleteOp(p.path+"/"+name, jute.AnyVersion))
	}
	_ = p.call.session.Multi(ctx, ops) // else they go with the session
}

// Signals and times of the end of a command. endsWithin is a guess: who holds a lock can end in a few seconds.
const endsWithin = 3 * time.Second

// run runs the command as long as the session is sure to be there: it is asked to end (SIGTERM) a while before the
// servers can have given the place to somebody else, and made to (SIGKILL) by then.
func (p *place) run(words []string) error {
	c := p.call
	c.out.flush()
	cmd := exec.Command(words[0], words[1:]...) //nolint:gosec,noctx // the user's own; its end is asked for below
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), "ZKD_LOCK_PATH="+p.path, fmt.Sprintf("ZKD_LOCK_NUMBER=%d", p.number))
	if err := cmd.Start(); err != nil {
		return failed("%v", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	lost := false
	interrupted := c.ctx.Done()
	for {
		left := c.session.AliveUntil().Sub(c.o.Clock.Now())
		grace := min(endsWithin, c.session.Timeout()/3)
		if c.session.State().Ended() {
			left = 0
		}
		if !lost && left <= grace {
			lost = true
			c.err.print(c.name(p.path) + ": the session may be over: ending the command\n")
			c.err.flush()
			_ = cmd.Process.Signal(syscall.SIGTERM) // it may just have ended
		}
		if left <= 0 {
			_ = cmd.Process.Kill() // as above
		}
		timer := c.o.Clock.NewTimer(min(max(left-grace, left/2, time.Millisecond), time.Second))
		select {
		case err := <-ended:
			timer.Stop()
			return p.outcome(err, lost)
		case <-interrupted:
			interrupted = nil
			_ = cmd.Process.Signal(syscall.SIGTERM) // as above
		case <-c.session.Done():
		case <-timer.C():
		}
		timer.Stop()
		if c.session.State().Ended() && lost { // nothing more to watch
			_ = cmd.Process.Kill() // as above
			return p.outcome(<-ended, lost)
		}
	}
}

// outcome is the exit status of the command as that of the shell.
func (p *place) outcome(err error, lost bool) error {
	exit := (*exec.ExitError)(nil)
	switch {
	case lost:
		return failed("%s was lost: the command was ended", p.path)
	case err == nil:
		return nil
	case !errors.As(err, &exit):
		return failed("%v", err)
	}
	status := exit.ExitCode()
	if signal, ok := exit.Sys().(syscall.WaitStatus); ok && signal.Signaled() {
		status = 128 + int(signal.Signal())
	}
	return failure{status: status} // it has said why
}
