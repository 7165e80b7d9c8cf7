package attack

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"zkd/compat-tests/target"
	"zkd/jute"
	"zkd/jute/client"
)

func TestMain(m *testing.M) {
	if addr := os.Getenv(healthyEnv); addr != "" {
		if err := beHealthy(addr, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(target.Main(m, "attack"))
}

// Settings of a run; the durations are those of a whole one.
const (
	quickScale  = 0.01
	attackFor   = 10 * time.Second
	quickFor    = 400 * time.Millisecond
	calmFor     = 2 * time.Second // before and after
	quickCalm   = 150 * time.Millisecond
	memoryLimit = 1000 << 20 // of zkd's process: what -Xmx1000m is to ZooKeeper
	quickMemory = 300 << 20
	memoryPlus  = 20 // percent beyond it that may be resident
)

// settings are what the environment says.
func settings(t *testing.T) (scale float64, whole bool, only *regexp.Regexp) {
	t.Helper()
	only, err := regexp.Compile(os.Getenv("ZKD_ATTACK_ONLY"))
	if err != nil {
		t.Fatalf("ZKD_ATTACK_ONLY: %v", err)
	}
	text := os.Getenv("ZKD_ATTACK_SCALE")
	if text == "" {
		return quickScale, false, only
	}
	if scale, err = strconv.ParseFloat(text, 64); err != nil || scale <= 0 || scale > 10 {
		t.Fatalf("ZKD_ATTACK_SCALE is %q: use a number above 0 and up to 10", text)
	}
	return scale, true, only
}

// TestAttacks does each attack to zkd and, as make attack does, to Apache ZooKeeper, and prints the table. Of zkd it
// demands that the healthy client and others are served in the end, that nothing acknowledged is lost, that it starts
// again, and that its memory stays below its bound.
func TestAttacks(t *testing.T) {
	scale, whole, only := settings(t)
	kinds := []target.Kind{target.Zkd}
	if whole {
		kinds = append(kinds, target.Zookeeper)
		target.Require(t, target.ToolsOf(target.Zookeeper)...)
	}
	target.Require(t)
	target.ZkdBinary(t) // before the limit, which is not the compiler's
	limit := quickMemory
	if whole {
		limit = memoryLimit
	}
	t.Setenv("GOMEMLIMIT", strconv.Itoa(limit))
	begun := loadOf(t)
	var results []Result
	for i := range attacks {
		a := &attacks[i]
		if !only.MatchString(a.Name) {
			continue
		}
		for _, kind := range kinds {
			t.Run(fmt.Sprintf("%s/%s", a.Name, kind), func(t *testing.T) {
				r := play(t, a, kind, scale, whole)
				results = append(results, r)
				t.Logf("\n%s", Table([]Result{r}))
			})
		}
	}
	if whole {
		fmt.Printf("\n%s\n%s, %d processors, load %s at the beginning and %s at the end\n\n%s", Table(results),
			time.Now().Format("2006-01"), runtime.NumCPU(), begun, loadOf(t), Rows(results))
	}
}

// loadOf is the machine's load in the last minute.
func loadOf(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown" // another system
	}
	load, _, _ := strings.Cut(string(text), " ")
	return load
}

// play does one attack to one kind of server.
func play(t *testing.T, a *Attack, kind target.Kind, scale float64, whole bool) Result {
	f := a.start(t, kind)
	f.Scale, f.For = scale, quickFor
	calm := quickCalm
	if whole {
		f.For, calm = attackFor, calmFor
	}
	if a.Prepare != nil {
		if err := a.Prepare(f); err != nil {
			t.Fatalf("prepare: %v", err)
		}
	}
	h, err := startHealthy(f)
	if err != nil {
		t.Fatal(err)
	}
	u := startUsage(f.servers)
	begun := time.Now()
	f.until = begun.Add(calm)
	f.Await(1)
	u.enter(during)
	r := Result{Attack: a.Name, Server: kind}
	attacked := time.Now()
	f.until = attacked.Add(f.For)
	if err := a.Run(f); err != nil {
		f.Note("the attack ended: %v", err)
	}
	f.Await(1) // what was begun may go on
	f.hangUp()
	u.enter(after)
	over := time.Now()
	r.Took = over.Sub(attacked)
	f.until = over.Add(calm)
	f.Await(1)
	report, err := h.end()
	ended := time.Now()
	u.end()
	samples := report.Samples
	r.Healthy = [phases]Latencies{latencies(samples, begun, attacked), latencies(samples, attacked, over),
		latencies(samples, over, ended)}
	r.Memory, r.Disk = u.memory, u.disk
	if err = errors.Join(err, f.alive()); err != nil {
		f.Note("%v", err)
	}
	r.Notes = f.said()
	switch {
	case kind != target.Zkd:
		for _, server := range f.servers { // some have ended, and some do not any more when they are asked to
			if server.Running() {
				server.Kill9()
			}
		}
	case err != nil:
		t.Error(err)
	default:
		demand(t, a, f, report.Written, &r)
	}
	return r
}

// demand checks what zkd owes to others, whatever was done to it.
func demand(t *testing.T, a *Attack, f *Field, written int64, r *Result) {
	t.Helper()
	for phase, l := range r.Healthy {
		if l.Lost > 0 {
			t.Errorf("%d requests of the healthy client were lost in phase %d", l.Lost, phase)
		}
	}
	if r.Healthy[after].Count == 0 || written == 0 {
		t.Errorf("the healthy client was not served afterwards: %+v, %d", r.Healthy, written)
	}
	limit, err := strconv.ParseInt(os.Getenv("GOMEMLIMIT"), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	if most := limit + limit*memoryPlus/100; r.Memory[during] > most {
		t.Errorf("%d MiB were resident, beyond %d", r.Memory[during]>>20, most>>20)
	}
	serves(t, f, written)
	if a.Check != nil {
		if err := a.Check(f); err != nil {
			t.Error(err)
		}
	}
	for _, s := range f.servers {
		s.Stop()
	}
	for _, s := range f.servers {
		s.Launch()
	}
	for _, s := range f.servers {
		s.Restart()
	}
	serves(t, f, written)
}

// serves checks that a newcomer is served, and finds what the healthy client has written.
func serves(t *testing.T, f *Field, written int64) {
	t.Helper()
	err := f.Session(func(c *client.Conn) error {
		if err := create(c, fmt.Sprintf("/newcomer%d", c.Session), nil); err != nil {
			return err
		}
		header, body, err := c.Do(jute.OpGetData, (&jute.PathWatchRequest{Path: healthyPath}).Append)
		if err != nil || header.Err != jute.OK {
			return fmt.Errorf("read: %v, %w", header.Err, err)
		}
		d := jute.NewDecoder(body)
		n, err := strconv.ParseInt(string(d.Buffer()), 10, 64)
		if err != nil || n < written {
			return fmt.Errorf("the healthy client's znode has %d, but %d was acknowledged: %w", n, written, err)
		}
		return nil
	})
	if err != nil {
		t.Errorf("a newcomer: %v", err)
	}
}
