package peaks

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"zkd/compat-tests/target"
	"zkd/jute"
	"zkd/jute/client"
)

// TestMain has the server built as releases are: with C code Pebble keeps memtables and blocks where Go's memory limit
// does not see them, some 60 MiB more for the case with large values.
func TestMain(m *testing.M) {
	if err := os.Setenv("CGO_ENABLED", "0"); err != nil {
		panic(err)
	}
	os.Exit(target.Main(m, "peaks"))
}

// What a server may take besides what the clients of a case hold: what the options of decision 9 allow, with what an
// idle server takes, and what whatever clients do may add.
const (
	optionsBytes = 147 << 20
	beyondBytes  = 128 << 20
	// clientBytes is zkd.clientMemory: more than any case holds, as half of it is for watches and half for the rest.
	clientBytes = 512 << 20
)

// quickScale is how large the cases are unless ZKD_PEAKS_SCALE says otherwise, but for brief ones.
const quickScale = 0.05

// parent is the znode below which the cases work.
const parent = "/peak"

var open = []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: "world", ID: "anyone"}}}

// field is the server of a case.
type field struct {
	*target.Server
	t     *testing.T
	scale float64
}

// n is a number of a whole run, as large as this one is.
func (f *field) n(whole int) int { return max(1, int(float64(whole)*f.scale)) }

// dial connects, with a session.
func (f *field) dial() (*client.Conn, error) {
	return client.Dial(f.t.Context(), client.Options{
		Addr: f.Addr, Now: time.Now, Dial: (&net.Dialer{}).DialContext, MaxReplyBytes: 64 << 20,
	})
}

// each runs work on so many connections at once.
func (f *field) each(n int, work func(i int, c *client.Conn) error) error {
	var all sync.WaitGroup
	errs := make([]error, n)
	for i := range n {
		all.Go(func() {
			c, err := f.dial()
			if err == nil {
				defer c.Close()
				err = work(i, c)
			}
			errs[i] = err
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// must has a request answered with OK.
func must(c *client.Conn, op jute.Op, record func([]byte) []byte) error {
	header, _, err := c.Do(op, record)
	if err == nil && header.Err != jute.OK {
		err = errors.New(op.String() + ": " + header.Err.String())
	}
	return err
}

// many sends n requests, some hundred at a time.
func many(ctx context.Context, c *client.Conn, op jute.Op, n int, record func(i int) func([]byte) []byte) error {
	return c.Pipeline(ctx, n, 500, func(b []byte, i int, xid jute.Xid) []byte {
		return client.Request(b, xid, op, record(i))
	}, func(_ int, code jute.Code) error {
		if code != jute.OK {
			return errors.New(op.String() + ": " + code.String())
		}
		return nil
	})
}

func makes(path string, mode jute.CreateMode, data []byte) func([]byte) []byte {
	return (&jute.CreateRequest{Path: path, Data: data, ACL: open, Flags: mode}).Append
}

// fill makes n children of parent.
func (f *field) fill(c *client.Conn, n int, mode jute.CreateMode, path func(int) string) error {
	return many(f.t.Context(), c, jute.OpCreate, n, func(i int) func([]byte) []byte {
		return makes(path(i), mode, []byte("0123456789"))
	})
}

func short(i int) string { return fmt.Sprintf(parent+"/%07d", i) }

func long(i int) string { return short(i) + strings.Repeat("x", 400) }

// theCase is one: prepare does not count.
type theCase struct {
	name    string
	holds   int64 // MiB of answers, requests and watches that its clients hold at most
	brief   bool  // takes seconds only, and is done whole
	prepare func(f *field, c *client.Conn) error
	run     func(f *field, c *client.Conn) error
}

// ending is the end of a session that owns so many ephemerals, each of which another one watches.
func ending(name string, holds int64, whole int, path func(int) string) theCase {
	return theCase{name: name, holds: holds,
		run: func(f *field, c *client.Conn) error {
			n := f.n(whole)
			return f.each(1, func(_ int, owner *client.Conn) error {
				if err := f.fill(owner, n, jute.ModeEphemeral, path); err != nil {
					return err
				}
				err := many(f.t.Context(), c, jute.OpExists, n, func(i int) func([]byte) []byte {
					return (&jute.PathWatchRequest{Path: path(i), Watch: true}).Append
				})
				if err != nil {
					return err
				}
				return must(owner, jute.OpCloseSession, nil)
			})
		}}
}

// persistent fills parent with children.
func persistent(f *field, c *client.Conn) error {
	return f.fill(c, f.n(300_000), jute.ModePersistent, short)
}

var cases = []theCase{
	ending("end of 300,000 ephemerals", 24, 300_000, short),
	ending("end of 100,000 ephemerals with long paths", 48, 100_000, long),
	{"multis of 12,000 creates and deletes, 4 clients", 8, true, nil, func(f *field, _ *client.Conn) error {
		n := f.n(12_000)
		return f.each(4, func(client int, c *client.Conn) error {
			for range 8 {
				for _, op := range []jute.Op{jute.OpCreate, jute.OpDelete} {
					err := must(c, jute.OpMulti, func(b []byte) []byte {
						for i := range n {
							h := jute.MultiHeader{Type: op, Err: -1}
							b = h.Append(b)
							path := fmt.Sprintf("%s/%d-%05d", parent, client, i)
							if op == jute.OpCreate {
								b = makes(path, jute.ModePersistent, nil)(b)
							} else {
								b = (&jute.PathVersionRequest{Path: path, Version: -1}).Append(b)
							}
						}
						return jute.AppendMultiEnd(b)
					})
					if err != nil {
						return err
					}
				}
			}
			return nil
		})
	}},
	{"values of 1 MB, 32 clients", 80, true, nil, func(f *field, _ *client.Conn) error {
		data := make([]byte, f.n(1_000_000))
		return f.each(32, func(i int, c *client.Conn) error {
			path := short(i)
			if err := must(c, jute.OpCreate, makes(path, jute.ModePersistent, nil)); err != nil {
				return err
			}
			for range 15 {
				err := must(c, jute.OpSetData, (&jute.SetDataRequest{Path: path, Data: data, Version: -1}).Append)
				if err == nil {
					err = must(c, jute.OpGetData, (&jute.PathWatchRequest{Path: path}).Append)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
	}},
	{"lists of 300,000 children, 16 clients", 120, false, persistent, func(f *field, _ *client.Conn) error {
		return f.each(16, func(_ int, c *client.Conn) error {
			for range 6 {
				if err := must(c, jute.OpGetChildren2, (&jute.PathWatchRequest{Path: parent}).Append); err != nil {
					return err
				}
			}
			return nil
		})
	}},
	{"getEphemerals of 300,000, 8 times", 16, false, func(f *field, c *client.Conn) error {
		return f.fill(c, f.n(300_000), jute.ModeEphemeral, short)
	}, func(f *field, c *client.Conn) error {
		for range 8 {
			if err := must(c, jute.OpGetEphemerals, (&jute.PathRequest{Path: parent}).Append); err != nil {
				return err
			}
		}
		return nil
	}},
	{"setWatches of 100,000 paths, 8 clients", 64, false, persistent, func(f *field, _ *client.Conn) error {
		const once = 5000
		return f.each(8, func(_ int, c *client.Conn) error {
			for from := 0; from < f.n(100_000); from += once {
				request := &jute.SetWatchesRequest{RelativeZxid: 1 << 40}
				for i := range min(once, f.n(100_000)-from) {
					request.Data = append(request.Data, short(from+i))
				}
				if _, _, err := c.DoAs(jute.XidSetWatches, jute.OpSetWatches, request.Append); err != nil {
					return err
				}
			}
			return nil
		})
	}},
	{"words with 300,000 watches and ephemerals", 40, false, func(f *field, c *client.Conn) error {
		if err := f.fill(c, f.n(300_000), jute.ModeEphemeral, short); err != nil {
			return err
		}
		return many(f.t.Context(), c, jute.OpExists, f.n(300_000), func(i int) func([]byte) []byte {
			return (&jute.PathWatchRequest{Path: short(i), Watch: true}).Append
		})
	}, func(f *field, _ *client.Conn) error {
		for _, word := range []string{"wchp", "wchc", "dump", "cons", "mntr"} {
			for range 3 {
				if _, err := f.FourLetterWord(word); err != nil {
					return err
				}
			}
		}
		return nil
	}},
}

// TestPeaks does each case to a server, and demands that it takes no more than it may.
func TestPeaks(t *testing.T) {
	target.Require(t)
	if target.Selected(t) != target.Zkd {
		t.Skip("the bound is zkd's")
	}
	asked := os.Getenv("ZKD_PEAKS_SCALE")
	scale := quickScale
	if asked != "" {
		var err error
		if scale, err = strconv.ParseFloat(asked, 64); err != nil || scale <= 0 || scale > 1 {
			t.Fatalf("ZKD_PEAKS_SCALE is %q: use a number above 0 and up to 1", asked)
		}
	}
	for _, c := range cases {
		scale := scale
		if c.brief && asked == "" {
			scale = 1
		}
		t.Run(c.name, func(t *testing.T) { measure(t, c, scale) })
	}
}

// measure does one case.
func measure(t *testing.T, c theCase, scale float64) {
	f := &field{t: t, scale: scale, Server: target.Start(t, target.Options{Config: map[string]string{
		"zkd.clientMemory": strconv.Itoa(clientBytes), "4lw.commands.whitelist": "*", "maxClientCnxns": "0",
	}})}
	conn, err := f.dial()
	if err == nil {
		defer conn.Close()
		err = must(conn, jute.OpCreate, makes(parent, jute.ModePersistent, nil))
	}
	if err == nil && c.prepare != nil {
		err = c.prepare(f, conn)
	}
	if err != nil {
		t.Fatal(err)
	}
	before := residentNow(t, f.PID())
	began := time.Now()
	if err := c.run(f, conn); err != nil {
		t.Error(err)
	}
	peak := memoryOf(t, f.PID(), "VmHWM:")
	t.Logf("%d MiB before, %d MiB at most, %.1f s", before>>20, peak>>20, time.Since(began).Seconds())
	if most := optionsBytes + c.holds<<20 + beyondBytes; peak > most {
		t.Errorf("%d MiB at most: %d are allowed", peak>>20, most>>20)
	}
}

// residentNow is the memory of a process, from which its peak counts on.
func residentNow(t *testing.T, pid int) int64 {
	t.Helper()
	// 5: see proc_pid_clear_refs(5).
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0); err != nil {
		t.Fatalf("count the peak of memory from here: %v", err)
	}
	return memoryOf(t, pid, "VmRSS:")
}

// memoryOf is a figure of a process's status, in bytes.
func memoryOf(t *testing.T, pid int, field string) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) == 3 && words[0] == field {
			kib, err := strconv.ParseInt(words[1], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kib << 10
		}
	}
	t.Fatalf("%s is not in the status of process %d", field, pid)
	return 0
}
