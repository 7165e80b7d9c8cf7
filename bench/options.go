package bench

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Options shape one run of a load. Fields that a load does not use are ignored by it.
type Options struct {
	Load         string
	Clients      int           // connections, each with a session
	Outstanding  int           // requests on their way per connection
	ReadPercent  int           // share of reads in mixed, paced and children, 0 to 100
	SizeBytes    int           // data of a znode
	Count        int           // sessions, watches, znodes or children
	Rate         int           // paced requests a second over all connections
	Warmup       time.Duration // before the interval that counts
	WarmRequests int           // that must have been answered before it, unless that takes 30 s more
	Duration     time.Duration // the interval that counts
	Seed         uint64        // of the data and of the order of reads and writes
	// Tell is told now and then how many of the znodes of million are there. May be nil.
	Tell func(made, of int64)
}

// bound is what all of a load, the last replies included, may take.
func (o Options) bound() time.Duration {
	d := o.Warmup + o.Duration + grace
	if o.WarmRequests > 0 {
		d += warmWithin
	}
	return d
}

// Limits of the options: guesses at what one machine can hold, to keep a slip of the finger from filling a disk.
const (
	clientsMax     = 50_000
	outstandingMax = 1_000 // with short requests; bytesOnWayMax bounds long ones
	countMax       = 50_000_000
	childrenMax    = 1_000_000 // whose names fit into the longest reply that the load takes (client.MaxReplyBytes)
	rateMax        = 1_000_000
	failoversMax   = 1000
	sizeMax        = 1 << 20
	durationMax    = time.Hour
	// bytesOnWayMax is what may be on its way on one connection. More could fill the buffers of both sides, so that
	// each waits for the other to read.
	bytesOnWayMax = 1 << 20
	// opsPerMulti is the number of operations of each request of the load multi.
	opsPerMulti = 10
)

// Load describes a load.
type Load struct {
	Name     string
	Summary  string // for the help, lower case
	Defaults Options
	run      func(*run) ([]Result, error) // nil: it keeps requests outstanding, and needs nothing else
}

// on runs the load.
func (l *Load) on(r *run) ([]Result, error) {
	if l.run == nil {
		return r.closed()
	}
	return l.run(r)
}

// Loads returns all loads, in the order of the help.
func Loads() []Load {
	closed := Options{
		Clients: 250, Outstanding: 100, SizeBytes: 1024, Warmup: 5 * time.Second, Duration: 10 * time.Second,
	}
	with := func(change func(*Options)) Options {
		o := closed
		change(&o)
		return o
	}
	return []Load{
		{"mixed", "reads and writes of 1 KiB in a given ratio, the load of the ZooKeeper paper",
			with(func(o *Options) { o.ReadPercent = 80 }), nil},
		{"read", "reads (getData) of 1 KiB", with(func(o *Options) { o.ReadPercent = 100 }), nil},
		{"write", "writes (setData) of 1 KiB", closed, nil},
		{"create", "creates of persistent znodes of 1 KiB",
			with(func(o *Options) { o.Clients = 32 }), nil},
		{"delete", "deletes of znodes of 100 bytes, which are made before the measurement",
			with(func(o *Options) { o.Clients, o.Outstanding, o.SizeBytes, o.Count = 64, 1, 100, 500_000 }),
			(*run).deletes},
		{"ephemeral", "creates of ephemeral sequential znodes of 100 bytes",
			with(func(o *Options) { o.Clients, o.Outstanding, o.SizeBytes = 64, 1, 100 }), nil},
		{"children", "lists of one znode's children (getChildren2), and creates and deletes of children",
			with(func(o *Options) {
				o.Clients, o.Outstanding, o.ReadPercent, o.SizeBytes, o.Count = 64, 1, 100, 0, 1000
			}), (*run).children},
		{"multi", "multis of ten setData of 1 KiB each",
			with(func(o *Options) { o.Clients, o.Outstanding = 32, 10 }), nil},
		{"latency", "one client with one request at a time: reads, then writes",
			with(func(o *Options) { o.Clients, o.Outstanding = 1, 1 }), (*run).latency},
		{"paced", "evenly paced requests, writes unless told, latencies counted from when each was due",
			with(func(o *Options) { o.Clients, o.Rate = 64, 8000 }), (*run).paced},
		{"fanout", "one write at a time on a znode that all clients watch",
			with(func(o *Options) { o.Clients, o.SizeBytes = 1000, 100 }), fanout},
		{"idle", "idle sessions: memory of the server for each",
			with(func(o *Options) { o.Count, o.Duration = 5000, 5*time.Second }), (*run).idle},
		{"watches", "watches of all clients on the same znodes: memory of the server for each",
			with(func(o *Options) { o.Clients, o.Count, o.Duration = 100, 1_000_000, 5*time.Second }), (*run).watches},
		{"ownwatches", "watches each on a znode of its own: memory of the server for each",
			with(func(o *Options) { o.Clients, o.Count, o.Duration = 100, 1_000_000, 5*time.Second }),
			(*run).ownWatches},
		{"million", "fill with znodes of 100 bytes; memory, paced writes and reads on top, restart after kill -9",
			with(func(o *Options) {
				o.Clients, o.SizeBytes, o.Count, o.Rate, o.Duration = 32, 100, 1_000_000, 4000, 30*time.Second
			}), (*run).million},
		{"beside", "reads on the followers of an ensemble while paced writes go to its leader",
			with(func(o *Options) { o.Clients, o.Outstanding, o.Rate = 64, 1, 2000 }), beside},
		{"listing", "one client that reads, then writes, while the others list a large znode in a loop",
			with(func(o *Options) { o.Clients, o.Outstanding, o.Count = 4, 1, 300_000 }), (*run).listing},
		{"failover", "end the leader of an ensemble, by SIGKILL and SIGTERM in turn; the gap in acknowledged writes",
			with(func(o *Options) { o.Clients, o.Count, o.Warmup = 2, 3, 3*time.Second }), failover},
	}
}

// LoadNamed returns the load of that name.
func LoadNamed(name string) (Load, error) {
	var names []string
	for _, load := range Loads() {
		if load.Name == name {
			load.Defaults.Load = name
			return load, nil
		}
		names = append(names, load.Name)
	}
	return Load{}, fmt.Errorf("no load is named %q: use one of %s", name, strings.Join(names, ", "))
}

// CaseSyntax is how compare takes a load.
const CaseSyntax = "NAME[:CLIENTSxOUTSTANDING][@READPERCENT][/RATE][#COUNT][=BYTES]"

// CaseHelp explains CaseSyntax.
const CaseHelp = "A load is " + CaseSyntax + `; what is not said is the default of
the load (zkd bench NAME --help):

  read:64x1, read:32x100  getData with 64 sessions of one request each, and with 32 of 100 requests each on their way
  write:16x1              setData of 1 KiB with 16 sessions; write:16x1=100 of 100 bytes
  create:64x1=100         creates of 100 bytes
  delete:64x1#500000      deletes, of so many znodes that are made before; the measurement ends with them
  ephemeral:64x1          creates of ephemeral sequential znodes
  multi:64x1              multis of ten setData
  children:64x1#1000      getChildren2 of a znode with 1,000 children
  children:64x1@95#1000   the same, where 5 % of the requests create and delete children of that znode
  mixed:32x100@80         80 % getData, 20 % setData
  paced:64@50/4000        4,000 requests a second, half of them reads, evenly spaced
  million#10000000        ten million znodes: memory, paced writes and reads on top, restart after kill -9`

// ParseCase reads a load with its shape, in CaseSyntax: such as read:64x1, mixed:250x100@50, paced:64@100/30000,
// million#100000, create:64x1=100 or children:64x1@95#1000. All else is the load's default.
func ParseCase(text string) (Options, error) {
	rest, size, hasSize := strings.Cut(text, "=")
	rest, count, hasCount := strings.Cut(rest, "#")
	rest, rate, hasRate := strings.Cut(rest, "/")
	rest, percent, hasPercent := strings.Cut(rest, "@")
	name, shape, hasShape := strings.Cut(rest, ":")
	load, err := LoadNamed(name)
	if err != nil {
		return Options{}, err
	}
	o := load.Defaults
	var errs []error
	number := func(into *int, text string) {
		n, err := strconv.Atoi(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("%q is not a number", text))
		}
		*into = n
	}
	if hasSize {
		number(&o.SizeBytes, size)
	}
	if hasCount {
		number(&o.Count, count)
	}
	if hasRate {
		number(&o.Rate, rate)
	}
	if hasPercent {
		number(&o.ReadPercent, percent)
	}
	if hasShape {
		clients, outstanding, ok := strings.Cut(shape, "x")
		if !ok {
			outstanding = "1"
		}
		number(&o.Clients, clients)
		number(&o.Outstanding, outstanding)
	}
	errs = append(errs, o.Validate())
	if err := errors.Join(errs...); err != nil {
		return Options{}, fmt.Errorf("case %q, use %s: %w", text, CaseSyntax, err)
	}
	return o, nil
}

// Validate returns all that is out of range, joined.
func (o Options) Validate() error {
	_, err := LoadNamed(o.Load)
	errs := []error{err}
	within := func(name string, value, low, high int) {
		if value < low || value > high {
			errs = append(errs, fmt.Errorf("%s is %d: it must be %d to %d", name, value, low, high))
		}
	}
	within("clients", o.Clients, 1, clientsMax)
	within("outstanding", o.Outstanding, 1, outstandingMax)
	within("read percent", o.ReadPercent, 0, 100)
	within("size", o.SizeBytes, 0, sizeMax)
	within("count", o.Count, 0, countMax)
	within("warm-up in requests", o.WarmRequests, 0, countMax)
	within("rate", o.Rate, 0, rateMax)
	within("warm-up in seconds", int(o.Warmup.Seconds()), 0, int(durationMax.Seconds()))
	within("duration in seconds", int(o.Duration.Seconds()), 0, int(durationMax.Seconds()))
	if o.Duration <= 0 {
		errs = append(errs, errors.New("duration must be positive"))
	}
	bytes := o.SizeBytes
	if o.Load == "multi" {
		bytes *= opsPerMulti
	}
	if onWay := bytes * (o.Outstanding - 1); onWay > bytesOnWayMax {
		errs = append(errs, fmt.Errorf("size times outstanding is %d bytes: it may be %d", onWay, bytesOnWayMax))
	}
	switch o.Load {
	case "paced", "beside":
		within("rate", o.Rate, 1, rateMax)
	case "failover":
		within("count", o.Count, 1, failoversMax)
	case "idle", "million", "listing":
		within("count", o.Count, 1, countMax)
	case "watches", "ownwatches", "delete":
		within("count", o.Count, o.Clients, countMax)
	case "children":
		within("count", o.Count, 0, childrenMax)
	}
	return errors.Join(errs...)
}

// String is the load with its shape, as ParseCase reads it for the closed loads.
func (o Options) String() string {
	size := ""
	if load, err := LoadNamed(o.Load); err == nil && load.Defaults.SizeBytes != o.SizeBytes {
		size = fmt.Sprintf("=%d", o.SizeBytes)
	}
	return o.shape() + size
}

// shape is String without the size.
func (o Options) shape() string {
	switch o.Load {
	case "idle", "watches", "ownwatches", "million", "failover":
		return fmt.Sprintf("%s#%d", o.Load, o.Count)
	case "mixed":
		return fmt.Sprintf("mixed:%dx%d@%d", o.Clients, o.Outstanding, o.ReadPercent)
	case "children":
		changes := ""
		if o.ReadPercent < 100 {
			changes = fmt.Sprintf("@%d", o.ReadPercent)
		}
		return fmt.Sprintf("children:%dx%d%s#%d", o.Clients, o.Outstanding, changes, o.Count)
	case "latency":
		return o.Load
	case "paced":
		return fmt.Sprintf("paced:%d@%d/%d", o.Clients, o.ReadPercent, o.Rate)
	case "beside":
		return fmt.Sprintf("beside:%dx%d/%d", o.Clients, o.Outstanding, o.Rate)
	case "listing":
		return fmt.Sprintf("listing:%d#%d", o.Clients, o.Count)
	case "fanout":
		return fmt.Sprintf("fanout:%d", o.Clients)
	default:
		count := ""
		if load, err := LoadNamed(o.Load); err == nil && load.Defaults.Count != o.Count {
			count = fmt.Sprintf("#%d", o.Count)
		}
		return fmt.Sprintf("%s:%dx%d%s", o.Load, o.Clients, o.Outstanding, count)
	}
}
