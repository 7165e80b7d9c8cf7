package ensemble_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"zkd/compat-tests/ensemble"
	"zkd/compat-tests/target"
	"zkd/jute"
	"zkd/jute/client"
)

// Sizes of TestMemberWithoutSpace: what logs keep, a disk that has no room for the state, and one that has.
const (
	retained   = 16 << 20
	smallDisk  = 96 << 20
	largeDisk  = 1 << 30
	znodeBytes = 256 << 10
)

// filling writes large znodes to an ensemble.
type filling struct {
	t       *testing.T
	e       *ensemble.Ensemble
	written int
}

// write makes znodes of so many bytes in all, and checks what the logs keep all the while.
func (f *filling) write(bytes int) {
	f.t.Helper()
	c, err := client.Dial(context.Background(), client.Options{Addr: f.e.AwaitLeader().Addr, Timeout: 30 * time.Second,
		Now: time.Now, Dial: new(net.Dialer).DialContext})
	if err != nil {
		f.t.Fatal(err)
	}
	defer c.Close()
	random := rand.NewChaCha8([32]byte{byte(f.written)})
	data := make([]byte, znodeBytes)
	for end := f.written + bytes/znodeBytes; f.written < end; f.written++ {
		_, _ = random.Read(data) // cannot fail
		r := jute.CreateRequest{Path: fmt.Sprintf("/n%d", f.written), Data: data, ACL: []jute.ACL{
			{Perms: jute.PermAll, ID: jute.ID{Scheme: "world", ID: "anyone"}},
		}}
		header, _, err := c.Do(jute.OpCreate, r.Append)
		if err != nil || header.Err != jute.OK {
			f.t.Fatalf("create of %s: %v, %v", r.Path, header.Err, err)
		}
		if f.written%16 == 0 {
			f.checkLogs()
		}
	}
}

// checkLogs checks what the logs of the servers that have a vote in it keep.
func (f *filling) checkLogs() {
	f.t.Helper()
	for _, s := range f.e.Servers {
		if s.Mode() != "leader" && s.Mode() != "follower" {
			continue
		}
		if kept := figure(f.t, s, "zk_zkd_log_kept_bytes"); kept >= 2*retained {
			f.t.Fatalf("the log of server %d keeps %d bytes, the bound is %d", s.ID, kept, retained)
		}
	}
}

// figure is a number of a server's mntr, -1 if it does not tell it.
func figure(t *testing.T, s *ensemble.Server, name string) int64 {
	t.Helper()
	text, err := s.FourLetterWord("mntr")
	if err != nil {
		return -1
	}
	for line := range strings.Lines(text) {
		if key, value, _ := strings.Cut(strings.TrimSpace(line), "\t"); key == name {
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			return n
		}
	}
	return -1
}

// failedTransfers matches what a leader says of a snapshot that was not taken.
var failedTransfers = regexp.MustCompile(
	`msg="snapshot transfer failed: will retry" peer=3 failures=(\d+) again=(\S+) err=.*no room in .*needs \d+ bytes`)

// tick is what a leader counts pauses in.
const tick = 100 * time.Millisecond

// failure is a snapshot that was not taken: which it was in a row, and the pause after it.
type failure struct {
	row   int
	pause time.Duration
}

// failures returns those that a server's log tells of, in their order.
func failures(t *testing.T, s *ensemble.Server) (found []failure) {
	t.Helper()
	for _, m := range failedTransfers.FindAllStringSubmatch(s.Log(), -1) {
		row, err := strconv.Atoi(m[1])
		pause, err2 := time.ParseDuration(m[2])
		if err := errors.Join(err, err2); err != nil {
			t.Fatalf("%q: %v", m[0], err)
		}
		found = append(found, failure{row, pause})
	}
	return found
}

// TestMemberWithoutSpace has a server come back with a disk that is too small for the state that it lacks: the others
// keep no more of their logs than they may, do not send it again and again, and send it once there is room.
func TestMemberWithoutSpace(t *testing.T) {
	if testing.Short() {
		t.Skip("-short was given")
	}
	if err := ensemble.Mountable(t); err != nil {
		target.LeaveOut(t, err.Error())
	}
	if target.Selected(t) != target.Zkd {
		t.Skip("it is about zkd's own figures and messages")
	}
	config := maps.Clone(quick)
	config["zkd.log.retainBytes"] = strconv.Itoa(retained)
	config["syncLimit"] = "20"
	e := ensemble.Start(t, ensemble.Options{Config: config, DiskBytesOf: map[int]int64{3: smallDisk},
		Calm: true}) // one leader tells of all
	f, small := &filling{t: t, e: e}, e.Servers[2]
	small.Kill9()
	e.AwaitLeader()
	f.write(smallDisk)
	small.Launch()
	leader := e.AwaitLeader()
	awaitIn(t, func() (bool, string) {
		f.write(znodeBytes)
		n := len(failures(t, leader))
		return n >= 3, fmt.Sprintf("%d snapshots have failed, want 3", n)
	})
	f.write(4 * retained)
	for _, f := range failures(t, leader) {
		least := (min(time.Second<<(f.row-1), 30*time.Second) * 3 / 4).Truncate(tick)
		if f.pause < least {
			t.Errorf("after failure %d in a row the pause is %v, want at least %v", f.row, f.pause, least)
		}
	}
	if n := figure(t, leader, "zk_3_zkd_peer_snapshot_failures_total"); n < 3 {
		t.Errorf("the leader's metrics tell of %d failures, want 3", n)
	}
	awaitIn(t, func() (bool, string) { // another attempt may be under way
		_, err := os.Stat(filepath.Join(small.DataDir(), "state.staged"))
		return errors.Is(err, os.ErrNotExist), fmt.Sprintf("what was staged is left: %v", err)
	})
	if log := small.Log(); !strings.Contains(log, "snapshot not received: disk space low") {
		t.Errorf("the server does not say what it lacks:\n%s", log)
	}
	small.ResizeDisk(largeDisk)
	awaitIn(t, func() (bool, string) {
		mine, its := figure(t, small, "zk_zkd_applied_index"), figure(t, leader, "zk_zkd_applied_index")
		return mine == its && mine > 0, fmt.Sprintf("the server is at entry %d, the leader at %d", mine, its)
	})
	f.checkLogs()
	f.readAll(small)
}

// TestMemberWhoseDiskGoesOn has a follower's disk hang until the others have dropped what it lacks from their logs. Its
// client finds all there when the disk has gone on.
func TestMemberWhoseDiskGoesOn(t *testing.T) {
	if testing.Short() {
		t.Skip("-short was given")
	}
	if err := ensemble.Hangable(t); err != nil {
		target.LeaveOut(t, err.Error())
	}
	if target.Selected(t) != target.Zkd {
		t.Skip("it is about what zkd's logs keep")
	}
	config := maps.Clone(quick)
	config["zkd.log.retainBytes"] = strconv.Itoa(retained)
	e := ensemble.Start(t, ensemble.Options{Config: config, CanHang: true, Calm: true})
	f, hangs := &filling{t: t, e: e}, e.Followers()[0]
	f.write(retained)
	hangs.HangDisk()
	f.write(4 * retained)
	hangs.ThawDisk()
	e.AwaitServing(e.Servers...)
	f.readAll(hangs)
	if log := hangs.Log(); !strings.Contains(log, "installing a snapshot") {
		t.Errorf("the server needed no snapshot:\n%s", log)
	}
}

// readAll has a client of the Go library read all that was written from one server, as soon as that serves.
func (f *filling) readAll(s *ensemble.Server) {
	f.t.Helper()
	conn, _, err := zk.Connect([]string{s.Addr}, 30*time.Second, zk.WithLogInfo(false))
	if err != nil {
		f.t.Fatal(err)
	}
	defer conn.Close()
	for n := range f.written {
		path := fmt.Sprintf("/n%d", n)
		awaitIn(f.t, func() (bool, string) {
			data, _, err := conn.Get(path)
			return err == nil && len(data) == znodeBytes, fmt.Sprintf("%s has %d bytes, %v", path, len(data), err)
		})
	}
}

// awaitIn fails the test with the last reason if it does not become ready.
func awaitIn(t *testing.T, ready func() (bool, string)) {
	t.Helper()
	if why := ensemble.Await(3*time.Minute, ready); why != "" {
		t.Fatal(why)
	}
}
