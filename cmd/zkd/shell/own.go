package shell

import (
	"fmt"
	"slices"
	"time"

	"zkd/jute"
	"zkd/jute/client/session"
	"zkd/jute/client/subtree"
)

// ownCommands are those that zkCli has not.
func ownCommands() []*command {
	all := []*command{
		{name: "ping", usage: "[-c count] [-i seconds]", run: runPing, options: flags("c:", "how often; 4 by default",
			"i:", "seconds between two; 1 by default"),
			about: "time how long the server takes to answer a read"},
		{name: "watch", usage: "[-n count] [-v] path", least: 1, run: runWatch, paths: true,
			options: flags("n:", "end after so many events", "v", "show the values, too"),
			about:   "follow what happens to a znode and below it, a line for each event"},
		{name: "tree", usage: "[-L depth] [-v] [path]", run: runTree, paths: true,
			options: flags("L:", "no deeper than this", "v", "with the values"),
			about:   "draw a subtree"},
		{name: "find", usage: "[-name glob] [-size [+-]n[k|m]] [-children [+-]n] [-mtime [+-]age] [-ctime [+-]age] " +
			"[-type p|e] [-owner session] [-regex expression] [-L depth] [-s] [path]", run: runFind, paths: true,
			options: flags("name:", "of the znode", "size:", "of the value", "children:", "how many",
				"mtime:", "how long ago it was written: +1h, -2d", "ctime:", "how long ago it was made",
				"type:", "persistent or ephemeral", "owner:", "the session of an ephemeral",
				"regex:", "of the value", "L:", "no deeper than this", "s", "with size, children and time"),
			about: "list the znodes for which all of that is so"},
		{name: "du", usage: "[-d depth] [path]", run: runDu, paths: true,
			options: flags("d:", "how deep; 1 by default"),
			about:   "sum up what subtrees take, the largest first"},
		{name: "cp", usage: "[-r] [-to server] from to", least: 2, run: runCp, paths: true,
			options: flags("r", "what is below it, too", "to:", "another server"),
			about:   "copy a znode with its ACL; ephemerals are left out"},
		{name: "mv", usage: "from to", least: 2, run: runMv, paths: true,
			about: "move a subtree, in one multi where it fits in one"},
		{name: "edit", usage: "[-c] path", least: 1, run: runEdit, paths: true,
			options: flags("c", "make it if it is not there"),
			about:   "edit a value in $EDITOR; the version is checked"},
		{name: "export", usage: "[-f file | -d folder] [-e] [path]", run: runExport, paths: true,
			options: flags("f:", "a new file, of lines of JSON", "d:", "a new folder, with one for each znode",
				"e", "ephemerals, too"),
			about: "write a subtree, to standard output if nothing else is said"},
		{name: "import", usage: "[-f] file|folder|- [path]", least: 1, run: runImport,
			options: flags("f", "overwrite what is there"),
			about:   "make what export has written, there or below another path"},
		{name: "diff", usage: "[-to server] left [right]", least: 1, run: runDiff, paths: true,
			options: flags("to:", "the server of the right one"),
			about:   "compare two subtrees: data, ACLs, ephemerals; the status is 1 if they differ"},
		{name: "lock", usage: "[-t seconds] path [--] command arguments", least: 2, run: runLock, paths: true,
			options: flags("t:", "wait no longer than this"),
			about:   "run a command while holding a lock, which Curator's and Kazoo's locks keep to, too"},
		{name: "elect", usage: "[-t seconds] path [--] command arguments", least: 2, run: runElect, paths: true,
			options: flags("t:", "wait no longer than this"),
			about:   "run a command while leading, beside LeaderLatch, LeaderSelector and Kazoo's Election"},
	}
	for _, c := range all {
		c.own = true
	}
	return all
}

// wait waits for d, or until the call is interrupted.
func (c *call) wait(d time.Duration) error {
	timer := c.o.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
		return nil
	case <-c.ctx.Done():
		return c.ctx.Err()
	}
}

// Defaults of ping, as of the program of this name.
const (
	pingCount  = 4
	pingPauses = time.Second
)

func runPing(c *call) error {
	count, err := c.number("c", pingCount, 32)
	if err != nil {
		return err
	}
	seconds, err := c.number("i", int64(pingPauses/time.Second), 32)
	if err != nil {
		return err
	}
	var all []time.Duration
	for i := int64(0); i < count; i++ {
		if i > 0 {
			if c.wait(time.Duration(seconds)*time.Second) != nil {
				break
			}
		}
		took, err := c.session.Ping(c.ctx)
		if err != nil {
			return answered(err, "null")
		}
		all = append(all, took)
		server := c.session.Server()
		if err := c.emit(map[string]any{"server": server, "seconds": took.Seconds()}, func() {
			c.Shell.line(fmt.Sprintf("%s answers in %v", server, took.Round(time.Microsecond)))
		}); err != nil {
			return err
		}
		c.out.flush()
	}
	if len(all) > 1 && !c.o.JSON {
		slices.Sort(all)
		c.Shell.line(fmt.Sprintf("%d answers: least %v, median %v, most %v", len(all), all[0].Round(time.Microsecond),
			all[len(all)/2].Round(time.Microsecond), all[len(all)-1].Round(time.Microsecond)))
	}
	return nil
}

// eventsWaiting is how many events may wait for watch to show them: while it asks for values, others come. More are an
// error, and not left out silently.
const eventsWaiting = 100_000

func runWatch(c *call) error {
	path, err := c.path()
	if err != nil {
		return err
	}
	most, err := c.number("n", 0, 64)
	if err != nil {
		return err
	}
	events, lost := make(chan session.Event, eventsWaiting), make(chan struct{}, 1)
	defer c.hooks.add(func(e session.Event) {
		select {
		case events <- e:
		default:
			select {
			case lost <- struct{}{}:
			default:
			}
		}
	})()
	defer c.mute()()
	if err := c.session.AddWatch(c.ctx, path, jute.WatchPersistentRecursive); err != nil {
		return answered(err, "null")
	}
	defer func() { // whoever ends the shell ends the watch
		_ = c.session.RemoveWatches(c.ctx, path, jute.WatcherPersistentRecursive, true)
	}()
	for shown := int64(0); most == 0 || shown < most; {
		select {
		case e := <-events:
			if e.Kind == session.EventNode {
				shown++
			}
			if err := c.showEvent(e); err != nil {
				return err
			}
			c.out.flush()
		case <-lost:
			return failed("events come faster than they can be shown: at least one was left out")
		case <-c.session.Done():
			return answered(&session.Error{Code: jute.SessionExpired}, "null")
		case <-c.ctx.Done():
			return nil // as it was asked to
		}
	}
	return nil
}

// mute has events not printed as zkCli does, until the returned function is called.
func (c *call) mute() (unmute func()) {
	set := func(silent bool) bool {
		c.out.lock.Lock()
		defer c.out.lock.Unlock()
		before := c.silent
		c.silent = silent
		return before
	}
	before := set(true)
	return func() { set(before) }
}

// eventJSON is an event.
type eventJSON struct {
	Time  time.Time `json:"time"`
	State string    `json:"state,omitempty"`
	Type  string    `json:"type"`
	Path  string    `json:"path,omitempty"`
	Zxid  jute.Zxid `json:"zxid,omitempty"`
	subtree.Value
}

// showEvent prints an event, with the value if -v was given.
func (c *call) showEvent(e session.Event) error {
	j := eventJSON{Time: c.o.Clock.Now().In(c.o.Zone), Type: eventType(e), Path: e.Path, Zxid: max(e.Zxid, 0)}
	if e.Kind == session.EventState {
		j.State = stateNames[e.State]
	}
	value := ""
	if c.has("v") && e.Kind == session.EventNode && e.Type != jute.EventNodeDeleted {
		data, _, err := c.session.Get(c.ctx, e.Path, false)
		if err == nil { // else it is gone again, or not for us
			j.Value = subtree.NewValue(data)
			value = " " + c.value(javaText(data))
		}
	}
	return c.emit(j, func() {
		what := j.Type + " " + c.name(j.Path)
		if j.State != "" {
			what = j.State
		}
		if j.Zxid > 0 {
			what += fmt.Sprintf(" 0x%x", uint64(j.Zxid))
		}
		c.Shell.line(j.Time.Format("15:04:05.000") + " " + c.paint(colorEvent, what) + value)
	})
}
