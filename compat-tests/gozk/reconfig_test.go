package gozk_test

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"

	"zkd/compat-tests/ensemble"
	"zkd/compat-tests/target"
)

var update = flag.Bool("update", false, "record the goldens anew, from ZKD_COMPAT_TARGET=zookeeper")

const configPath = "/zookeeper/config"

// reconfigured is an ensemble whose members change, and what came of it so far.
type reconfigured struct {
	*ensemble.Ensemble
	t    *testing.T
	conn *zk.Conn
	out  strings.Builder
	mask ensemble.Mask
}

// startReconfigured starts the first of several servers as an ensemble; the others are to join.
func startReconfigured(t *testing.T, founders, joiners int, config map[string]string) *reconfigured {
	return startNumbered(t, false, founders, joiners, config)
}

// startNumbered is startReconfigured, with servers that are numbered from 0 or from 1.
func startNumbered(t *testing.T, fromZero bool, founders, joiners int, config map[string]string) *reconfigured {
	r := &reconfigured{t: t, Ensemble: ensemble.Prepare(t, ensemble.Options{
		Servers: founders + joiners, FromZero: fromZero, Dynamic: true, Config: config, Calm: true,
	})}
	r.mask.Ensemble = r.Ensemble
	r.Found(founders)
	return r
}

// use goes on as a client of one server, the superuser unless told otherwise.
func (r *reconfigured) use(s *ensemble.Server, super bool) {
	r.t.Helper()
	r.conn = connect(r.t, s.Addr, within)
	if super {
		if err := r.conn.AddAuth("digest", []byte(target.SuperUser+":"+target.SuperPassword)); err != nil {
			r.t.Fatal(err)
		}
	}
}

// note writes what one call came to, and the configuration then.
func (r *reconfigured) note(what string, stat *zk.Stat, err error) {
	r.t.Helper()
	fmt.Fprintf(&r.out, "%s: %v", what, err)
	if err == nil {
		fmt.Fprintf(&r.out, " %s", statText(stat))
	}
	r.out.WriteString("\n")
	r.show()
}

// statText is what is the same in each run of a Stat of /zookeeper/config.
func statText(s *zk.Stat) string {
	return fmt.Sprintf("version=%d cversion=%d aversion=%d children=%d owner=%d czxid=%d", s.Version, s.Cversion,
		s.Aversion, s.NumChildren, s.EphemeralOwner, s.Czxid)
}

// show writes the configuration as it is.
func (r *reconfigured) show() {
	r.t.Helper()
	if _, err := r.conn.Sync(configPath); err != nil {
		r.t.Fatal(err)
	}
	data, stat, err := r.conn.Get(configPath)
	if err != nil {
		r.t.Fatal(err)
	}
	text := r.mask.Text(string(data))
	fmt.Fprintf(&r.out, "  %s\n", strings.ReplaceAll(text, "\n", "\n  "))
	_, hex, _ := strings.Cut(string(data), "version=")
	if hex == "0" {
		r.out.WriteString("  the version is none\n")
	}
	if !strings.HasSuffix(text, "v0") && hex != fmt.Sprintf("%x", stat.Mzxid) {
		fmt.Fprintf(&r.out, "  the version is %s, the mzxid %x\n", hex, stat.Mzxid)
	}
}

// change asks for a change, in turn while a former one is under way, and notes it.
func (r *reconfigured) change(what string, joining, leaving []string, version int64) {
	r.t.Helper()
	stat, err := r.conn.IncrementalReconfig(joining, leaving, version)
	r.note(what, stat, err)
}

// whole asks for another configuration and notes it.
func (r *reconfigured) whole(what string, members []string, version int64) {
	r.t.Helper()
	stat, err := r.conn.Reconfig(members, version)
	r.note(what, stat, err)
}

// TestReconfig changes the members of an ensemble in all ways, and makes all mistakes.
func TestReconfig(t *testing.T) {
	r := startReconfigured(t, 3, 2, nil)
	one := r.Followers()[0]
	four, five := r.Servers[3], r.Servers[4]

	r.use(one, false)
	r.change("without permission", r.Lines("observer", four), nil, -1)
	r.change("without permission, and wrong", []string{"server.4=x"}, nil, -1)
	r.use(one, true)
	watch := r.watchConfig()
	r.change("add an observer that is down", r.Lines("observer", four), nil, -1)
	awaitEvent(t, watch, zk.EventNodeDataChanged, configPath)
	four.Launch()
	r.AwaitMode(four, "observer")
	r.change("promote it", r.Lines("participant", four), nil, -1)
	r.AwaitMode(four, "follower")
	r.use(four, true)
	moved := strings.Replace(r.Lines("participant", four)[0], ";"+four.Addr, ";"+five.Addr, 1)
	r.use(one, true)
	r.change("move its client port", []string{moved}, nil, -1)
	r.use(&ensemble.Server{Server: five.Server}, true) // where it is now
	r.change("put it back, through itself", r.Lines("participant", four), nil, -1)

	r.use(one, true)
	r.mistakes()

	r.change("demote it", r.Lines("observer", four), nil, -1)
	r.AwaitMode(four, "observer")
	r.change("remove it", nil, []string{"4"}, -1)
	r.twoAtOnce()
	r.change("remove what is not there", nil, []string{"7"}, -1)

	target.Golden(t, "reconfig", r.out.String(), *update)
	r.removeLeader()
}

// removeLeader has the leader removed: another one leads, and the configuration is in force, whether or not the answer
// has come through.
func (r *reconfigured) removeLeader() {
	r.t.Helper()
	old := r.AwaitLeader()
	r.use(r.Followers()[0], true)
	_, err := r.conn.IncrementalReconfig(nil, []string{fmt.Sprint(old.ID)}, -1)
	r.t.Logf("to remove the leader is answered %v", err)
	if why := ensemble.Await(within, func() (bool, string) {
		data, _, err := r.conn.Get(configPath)
		if err != nil || strings.Contains(string(data), fmt.Sprintf("server.%d=", old.ID)) {
			return false, fmt.Sprintf("the leader is still in the configuration: %s, %v", data, err)
		}
		next := r.Leader()
		return next != nil && next != old, "nobody leads instead"
	}); why != "" {
		r.t.Error(why)
	}
}

// watchConfig sets a watch on the configuration.
func (r *reconfigured) watchConfig() <-chan zk.Event {
	r.t.Helper()
	_, _, events, err := r.conn.GetW(configPath)
	if err != nil {
		r.t.Fatal(err)
	}
	return events
}

// mistakes asks for what cannot be.
func (r *reconfigured) mistakes() {
	r.t.Helper()
	four, five := r.Servers[3], r.Servers[4]
	r.change("of another version", r.Lines("observer", five), nil, 7)
	r.change("of another version, and wrong", []string{"server.9=x"}, nil, 7)
	r.change("no address", []string{"server.9=x"}, nil, -1)
	r.change("no client port", []string{"server.9=127.0.0.1:1:2"}, nil, -1)
	r.change("no equals sign", []string{"server.9"}, nil, -1)
	r.change("no number leaves", nil, []string{"x"}, -1)
	r.change("nothing", nil, nil, -1)
	r.change("all leave", nil, []string{"1", "2", "3", "4"}, -1)
	r.whole("one is left", r.Lines("participant", four), -1)
	r.whole("observers only", r.Lines("observer", four, five), -1)
	r.whole("nobody that runs but one", append(r.Lines("participant", four, five),
		strings.Replace(r.Lines("participant", five)[0], "server.5", "server.6", 1)), -1)
	r.whole("garbage", []string{"garbage"}, -1)
}

// twoAtOnce asks for the same twice. The second is refused, with ReconfigInProgress, if it comes before the first is
// done.
func (r *reconfigured) twoAtOnce() {
	r.t.Helper()
	answers := make(chan string, 2)
	for range cap(answers) {
		go func() {
			_, err := r.conn.IncrementalReconfig(r.Lines("observer", r.Servers[4]), nil, -1)
			answers <- fmt.Sprint(err)
		}()
	}
	both := []string{<-answers, <-answers}
	slices.Sort(both)
	if both[0] != "<nil>" || both[1] != "<nil>" && both[1] != "unknown error: -14" {
		r.t.Errorf("two at once are answered %q", both)
	}
	r.out.WriteString("two at once\n")
	r.show()
}
