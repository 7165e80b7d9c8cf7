package attack

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"zkd/bench/process"
	"zkd/compat-tests/target"
)

// sampleEvery is how often memory and disk are looked at.
const sampleEvery = 200 * time.Millisecond

// phases of a measurement.
const (
	before = iota
	during
	after
	phases
)

// Latencies are those of the healthy client in one phase.
type Latencies struct {
	P50, P99, Max time.Duration
	Count, Lost   int
}

// Result is what one attack did to one kind of server.
type Result struct {
	Attack  string
	Server  target.Kind
	Healthy [phases]Latencies
	Memory  [phases]int64 // bytes; the highest in each phase
	Disk    [phases]int64
	Took    time.Duration // of the attack
	Notes   string
}

// usage samples what the servers use.
type usage struct {
	servers []*target.Server
	stop    chan struct{}
	done    sync.WaitGroup

	mu           sync.Mutex
	phase        int
	memory, disk [phases]int64
}

// startUsage begins.
func startUsage(servers []*target.Server) *usage {
	u := &usage{servers: servers, stop: make(chan struct{})}
	u.done.Go(func() {
		ticker := time.NewTicker(sampleEvery)
		defer ticker.Stop()
		for {
			u.look()
			select {
			case <-ticker.C:
			case <-u.stop:
				return
			}
		}
	})
	return u
}

// look takes one sample of all servers.
func (u *usage) look() {
	var memory, disk int64
	for _, s := range u.servers {
		if used, err := process.UsageOf(s.PID()); err == nil { // it may have ended
			memory = max(memory, used.RSSBytes)
		}
		disk = max(disk, size(s.DataDir()))
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.memory[u.phase] = max(u.memory[u.phase], memory)
	u.disk[u.phase] = max(u.disk[u.phase], disk)
}

// enter begins a phase.
func (u *usage) enter(phase int) {
	u.mu.Lock()
	u.phase = phase
	u.mu.Unlock()
	u.look()
}

// end stops.
func (u *usage) end() {
	close(u.stop)
	u.done.Wait()
}

// sectorBytes is the unit of what files take (stat(2)).
const sectorBytes = 512

// size sums what the files below a directory take of the disk; files come and go.
func size(dir string) (sum int64) {
	_ = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return nil //nolint:nilerr // it has gone
		}
		if info, err := entry.Info(); err == nil {
			if stat, ok := info.Sys().(*syscall.Stat_t); ok {
				sum += stat.Blocks * sectorBytes
			}
		}
		return nil
	})
	return sum
}

// latencies sums up the samples from one moment to another.
func latencies(samples []Sample, from, to time.Time) Latencies {
	var took []time.Duration
	var l Latencies
	for _, s := range samples {
		if s.At.Before(from) || !s.At.Before(to) {
			continue
		}
		took = append(took, s.Took)
		if s.Lost {
			l.Lost++
		}
	}
	if len(took) == 0 {
		return l
	}
	slices.Sort(took)
	l.Count, l.Max = len(took), took[len(took)-1]
	l.P50, l.P99 = took[len(took)/2], took[len(took)*99/100]
	return l
}

// millis writes a time as milliseconds.
func millis(d time.Duration) string {
	ms := float64(d) / float64(time.Millisecond)
	if ms >= 10 {
		return fmt.Sprintf("%.0f", ms)
	}
	return fmt.Sprintf("%.1f", ms)
}

// String writes p50, p99 and maximum.
func (l Latencies) String() string {
	if l.Count == 0 {
		return "–"
	}
	text := millis(l.P50) + " / " + millis(l.P99) + " / " + millis(l.Max)
	if l.Lost > 0 {
		text += fmt.Sprintf(" (%d lost)", l.Lost)
	}
	return text
}

// mebibytes writes sizes with arrows between them.
func mebibytes(sizes [phases]int64) string {
	texts := make([]string, len(sizes))
	for i, n := range sizes {
		texts[i] = fmt.Sprintf("%.0f", float64(n)/(1<<20))
	}
	return strings.Join(texts, " / ")
}

// Table writes results as one table of Markdown.
func Table(results []Result) string {
	var b strings.Builder
	b.WriteString("| attack | server | p50 / p99 / max before, ms | during, ms | after, ms | memory, MiB | disk, MiB " +
		"| took, s | what came of it |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, r := range results {
		fmt.Fprintf(&b, "| %s | %s | %v | %v | %v | %s | %s | %.1f | %s |\n", r.Attack, r.Server, r.Healthy[before],
			r.Healthy[during], r.Healthy[after], mebibytes(r.Memory), mebibytes(r.Disk), r.Took.Seconds(), r.Notes)
	}
	return b.String()
}

// maximumIs is what a healthy client may wait at most on an idle machine.
const maximumIs = 100 * time.Millisecond

// Rows writes results as the table of docs/security.md: an attack is a row, with what it did to both servers, and
// behind the table those rows that are not as they are to be.
func Rows(results []Result) string {
	var b, missed strings.Builder
	b.WriteString("| attack | zkd, ms | 3.9.5, ms | zkd, memory | 3.9.5, memory | zkd, disk | 3.9.5, disk | |\n" +
		"|---|---|---|---|---|---|---|---|\n")
	var done []string
	for _, r := range results {
		if slices.Contains(done, r.Attack) {
			continue
		}
		done = append(done, r.Attack)
		ours, theirs := resultOf(results, r.Attack, target.Zkd), resultOf(results, r.Attack, target.Zookeeper)
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s | %s |\n", r.Attack, ours.waits(), theirs.waits(),
			ours.most(ours.Memory), theirs.most(theirs.Memory), ours.most(ours.Disk), theirs.most(theirs.Disk),
			strings.Join(slices.Concat(ours.saying("zkd"), theirs.saying("3.9.5")), "; "))
		most := ours.Healthy[during].Max
		if most > maximumIs {
			fmt.Fprintf(&missed, "%s: a healthy client waits for %s ms\n", r.Attack, millis(most))
		}
		if theirs.Healthy[during].Count > 0 && most > theirs.Healthy[during].Max {
			fmt.Fprintf(&missed, "%s: longer than beside 3.9.5\n", r.Attack)
		}
	}
	return b.String() + "\n" + missed.String()
}

// resultOf returns what an attack did to a kind of server; without a Server if it was not tried.
func resultOf(results []Result, attack string, kind target.Kind) Result {
	for _, r := range results {
		if r.Attack == attack && r.Server == kind {
			return r
		}
	}
	return Result{}
}

// waits are the latencies during the attack.
func (r Result) waits() string { return r.Healthy[during].String() }

// most is the highest of the sizes of all phases, in MiB.
func (r Result) most(sizes [phases]int64) string {
	if r.Server == "" {
		return "–"
	}
	return fmt.Sprintf("%.0f", float64(slices.Max(sizes[:]))/(1<<20))
}

// saying are the notes with whose they are.
func (r Result) saying(who string) []string {
	if r.Notes == "" {
		return nil
	}
	return []string{who + ": " + r.Notes}
}
