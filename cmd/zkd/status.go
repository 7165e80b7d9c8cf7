package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"zkd/conf"
	"zkd/quorum/clock"
	"zkd/storage/space"
)

// statusIntervalMin is the least time between two tables of --watch.
const statusIntervalMin = 500 * time.Millisecond

// statusFlags are what zkd status is told.
type statusFlags struct {
	servers  []string
	timeout  time.Duration
	watch    bool
	interval time.Duration
	tls      tlsFlags
	output   outputFlag

	asker asker // how servers are asked; of tls
}

// newStatusCommand returns the command that shows an ensemble.
func newStatusCommand() *cobra.Command {
	f := statusFlags{}
	cmd := &cobra.Command{
		Use:   "status [zoo.cfg]",
		Short: "Show all servers of an ensemble in one table",
		Long: `Show all servers of an ensemble in one table: role, term, zxid and how far it is behind the leader's,
clients, watches, latency in milliseconds (least/mean/most), feature level, uptime, free room on the fuller
disk, version, or why a server does not answer. The connection on which a server is asked is not counted.
The others are found from one server, through its /zookeeper/config or its four-letter word conf, or from the
server lines of zoo.cfg.

Works with zkd and with Apache ZooKeeper. What a server shows depends on 4lw.commands.whitelist: srvr is on by
default; term, watches and feature level are in mntr. The command says which word is missing.

With --tls the others are asked on the port of the one that was asked first; name those with other ports by --server. A
zoo.cfg that has secureClientPort alone is enough: its key and trust stores are used.

Exit status: 0 every server serves, and one of them leads or stands alone; 1 not so; 2 the command line is wrong.`,
		Example: `  zkd status
  zkd status --server zk1:2181,zk2:2181
  zkd status --server zk1:2281 --tls --ca-file ca.pem
  zkd status /etc/zookeeper/zoo.cfg --watch`,
		Args: oneOptional(),
		RunE: func(cmd *cobra.Command, args []string) error {
			seeds, err := f.seeds(args)
			if err != nil {
				return usageError{err}
			}
			if f.watch {
				return f.follow(cmd, seeds)
			}
			s := f.look(cmd.Context(), seeds)
			return errors.Join(f.output.write(cmd.OutOrStdout(), s, s.text), s.exitError())
		},
	}
	cmd.Flags().StringSliceVar(&f.servers, "server", nil, "`host:port` of a server, or more with commas between them")
	cmd.Flags().DurationVar(&f.timeout, "timeout", 3*time.Second, "how long a server may take to answer")
	cmd.Flags().BoolVar(&f.watch, "watch", false, "show it again and again, until interrupted; on a terminal only")
	cmd.Flags().DurationVar(&f.interval, "interval", 2*time.Second, "with --watch: how often")
	f.tls.addTo(cmd)
	f.output.addTo(cmd)
	return cmd
}

// seeds are the servers that are asked first.
func (f *statusFlags) seeds(args []string) ([]place, error) {
	switch {
	case len(args) == 1 && len(f.servers) > 0:
		return nil, errors.New("give either a zoo.cfg or --server")
	case len(args) == 1:
		return f.placesOfFile(args[0])
	}
	var err error
	if f.asker, err = f.tls.asker(nil); err != nil {
		return nil, err
	}
	if len(f.servers) == 0 {
		return []place{{address: "127.0.0.1:2181"}}, nil
	}
	var places []place
	for _, s := range f.servers {
		if !strings.Contains(s, ":") {
			s += ":2181"
		}
		places = append(places, place{address: s})
	}
	return places, nil
}

// placesOfFile reads where the servers are from a zoo.cfg.
func (f *statusFlags) placesOfFile(path string) ([]place, error) {
	c, err := conf.Load(conf.Sources{Path: path, ReadFile: os.ReadFile})
	if err != nil {
		return nil, err
	}
	if f.asker, err = f.tls.asker(c); err != nil {
		return nil, err
	}
	own, secure := c.Client.Addr, f.asker.secure() && c.Client.SecureAddr != ""
	if secure {
		own = c.Client.SecureAddr
	}
	if len(c.Ensemble.Members) == 0 {
		return []place{{address: reachable(own, "127.0.0.1")}}, nil
	}
	_, port, _ := net.SplitHostPort(own) // conf has joined it
	var places []place
	for i := range c.Ensemble.Members {
		m := &c.Ensemble.Members[i]
		client := cmp.Or(m.ClientAddr, own)
		if secure { // lines of servers name the other port
			client = port
		}
		places = append(places, place{id: &m.ID, address: reachable(client, m.Addresses[0].Host),
			guessed: secure || m.ClientAddr == ""})
	}
	return settle(places, &c.Ensemble.MyID), nil
}

// follow shows the table again and again.
func (f *statusFlags) follow(cmd *cobra.Command, seeds []place) error {
	if !isTerminal(cmd.OutOrStdout()) || f.output.json {
		return usageError{errors.New("--watch wants a terminal, and no --output json")}
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	ticker := clock.Real().NewTicker(max(f.interval, statusIntervalMin))
	defer ticker.Stop()
	for {
		s := f.look(ctx, seeds)
		if ctx.Err() != nil {
			return nil
		}
		var b strings.Builder
		b.WriteString("\x1b[H\x1b[2J") // to the top of an empty screen
		fmt.Fprintf(&b, "%s\n\n", clock.Real().Now().Format(time.DateTime))
		if err := s.text(&b); err != nil {
			return err
		}
		if err := s.exitError(); err != nil {
			fmt.Fprintf(&b, "\n%v\n", err)
		}
		if _, err := io.WriteString(cmd.OutOrStdout(), b.String()); err != nil {
			return err
		}
		select {
		case <-ticker.C():
		case <-ctx.Done():
			return nil
		}
	}
}

// ensembleStatus is all that is known of an ensemble.
type ensembleStatus struct {
	Servers []serverStatus `json:"servers"`
	Notes   []string       `json:"notes,omitempty"`
}

// places asks the first seed that answers which servers there are.
func (f *statusFlags) places(ctx context.Context, seeds []place) []place {
	places, _ := f.named(ctx, seeds)
	return places
}

// named is places, and says whether any server has named them: else they are the seeds.
func (f *statusFlags) named(ctx context.Context, seeds []place) (places []place, found bool) {
	places = slices.Clone(seeds)
	for _, seed := range seeds { // first, since its session is a write
		if seed.unknown {
			continue
		}
		if named := f.discover(ctx, seed.address); len(named) > 0 {
			places = f.withAsked(ctx, merge(named, seed), seed)
			if f.asker.secure() {
				places = withSeeds(places, seeds)
			}
			found = true
			break
		}
	}
	known := slices.DeleteFunc(slices.Clone(seeds), func(p place) bool { return p.unknown })
	return f.withNamed(ctx, places, known), found
}

// look asks all servers.
func (f *statusFlags) look(ctx context.Context, seeds []place) *ensembleStatus {
	places := f.places(ctx, seeds)
	found := map[string]serverStatus{} // by address
	f.ask(ctx, places, found)
	s := &ensembleStatus{Servers: []serverStatus{}}
	for _, p := range places {
		one := found[p.address]
		if p.unknown {
			one = serverStatus{Address: p.address, Unknown: true, Error: "its line names no port for clients"}
		}
		one.ID = p.id
		s.Servers = append(s.Servers, one)
	}
	sort.SliceStable(s.Servers, func(i, j int) bool { return s.Servers[i].compareID(s.Servers[j].ID) < 0 })
	s.compare()
	s.noteStranger(places)
	return s
}

// withSeeds adds those of the seeds that are not there.
func withSeeds(places, seeds []place) []place {
	for _, seed := range seeds {
		if !slices.ContainsFunc(places, func(p place) bool { return p.address == seed.address }) {
			places = append(places, seed)
		}
	}
	return places
}

// merge adds the seed to the servers that it has named, under the address by which it was reached, if they do not name
// it by that one: the one on the same port, if there is exactly one.
func merge(named []place, seed place) []place {
	if slices.ContainsFunc(named, func(p place) bool { return p.address == seed.address }) {
		return named
	}
	port := seed.address[strings.LastIndexByte(seed.address, ':'):]
	at, same := -1, 0
	for i, p := range named {
		if strings.HasSuffix(p.address, port) {
			at, same = i, same+1
		}
	}
	if same == 1 {
		named[at].address = seed.address
	}
	return named
}

// ask asks servers, all at once.
func (f *statusFlags) ask(ctx context.Context, places []place, found map[string]serverStatus) {
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, p := range places {
		if p.unknown {
			continue
		}
		all.Go(func() {
			asking, cancel := context.WithTimeout(ctx, f.timeout)
			defer cancel()
			s := f.asker.askServer(asking, p.address)
			mu.Lock()
			defer mu.Unlock()
			found[p.address] = s
		})
	}
	all.Wait()
}

// leads tells whether a server with this role takes writes.
func leads(role string) bool { return role == "leader" || role == "standalone" }

// compare works out what needs more than one server.
func (s *ensembleStatus) compare() {
	var leader *serverStatus
	for i := range s.Servers {
		if leads(s.Servers[i].Role) {
			leader = &s.Servers[i]
		}
	}
	s.noteLevel()
	if note := s.agreed(); note != "" {
		s.Notes = append(s.Notes, note)
	}
	hidden := map[string][]string{} // words that are not whitelisted, and where
	for i := range s.Servers {
		one := &s.Servers[i]
		if leader != nil && one.hasZxid {
			behind := max(leader.zxid-one.zxid, 0) // those asked later may have more
			one.Lag = &behind
			if leader.zxid>>32 != one.zxid>>32 && leader.zxid>>32 > 0 {
				one.Lag = nil // counted from 0 again in each epoch of ZooKeeper
			}
		}
		if leader != nil {
			s.compareClocks(leader, one)
		}
		s.Notes = append(s.Notes, one.logNotes()...)
		for _, word := range one.Missing {
			hidden[word] = append(hidden[word], one.Address)
		}
	}
	s.noteUnknown()
	s.notePorts()
	s.noteRoom()
	s.noteDisks()
	for _, word := range []string{"srvr", "mntr"} {
		if at := hidden[word]; len(at) > 0 {
			what := map[string]string{"srvr": "role, zxid, latency", "mntr": "term, watches, feature level"}[word]
			s.Notes = append(s.Notes, fmt.Sprintf("%s of %s: add %s to 4lw.commands.whitelist there", what,
				strings.Join(at, ", "), word))
		}
	}
}

// clockSkewMax is how far a clock may be from the leader's without a note, as in the servers' logs.
const clockSkewMax = 500 * time.Millisecond

// compareClocks says how far a server's clock is before the leader's, as the leader sees it.
func (s *ensembleStatus) compareClocks(leader, one *serverStatus) {
	if one.ID == nil {
		return
	}
	skew, ok := leader.clockSkews[*one.ID]
	if ok = ok || one == leader && len(leader.clockSkews) > 0; !ok {
		return
	}
	one.Skew = skew.String()
	if skew.Abs() > clockSkewMax {
		s.Notes = append(s.Notes, fmt.Sprintf("the clock of server %d is %v before the leader's (with a minus sign: "+
			"behind): synchronise both", *one.ID, skew))
	}
}

// noteLevel tells when the ensemble could be at a higher feature level than it is.
func (s *ensembleStatus) noteLevel() {
	for i := range s.Servers {
		one := &s.Servers[i]
		if one.Level != nil && one.Supported != nil && *one.Level < *one.Supported {
			s.Notes = append(s.Notes, fmt.Sprintf("feature level %d, and server %s can do %d: a server runs an older "+
				"zkd, was not met, or has zkd.featureLevelMax; zkd_peer_feature_level of the leader tells which",
				*one.Level, counted(one.ID), *one.Supported))
			return
		}
	}
}

// notePorts notes the servers that have moved, or could not, and not all know it.
func (s *ensembleStatus) notePorts() {
	for i := range s.Servers {
		one := &s.Servers[i]
		who := fmt.Sprintf("server %s", counted(one.ID))
		if len(one.CannotListen) > 0 {
			s.Notes = append(s.Notes, fmt.Sprintf("%s cannot listen for the others at %s: free the address, "+
				"or reconfig it to another one", who, strings.Join(one.CannotListen, ", ")))
		}
		if len(one.ListensStill) > 0 {
			s.Notes = append(s.Notes, fmt.Sprintf("%s listens for the others at %s, and still at %s", who,
				dash(strings.Join(one.Listens, ", ")), strings.Join(one.ListensStill, ", ")))
		}
		if len(one.Moving) > 0 {
			s.Notes = append(s.Notes, fmt.Sprintf("%s has not found server %s at its new address yet", who,
				strings.Join(one.Moving, ", ")))
		}
	}
}

// agreed says up to which entry of the log each state was last found to be the ensemble's; "" if none says so.
func (s *ensembleStatus) agreed() string {
	var each []string
	for i := range s.Servers {
		if one := &s.Servers[i]; one.Agreed != nil && *one.Agreed > 0 {
			each = append(each, fmt.Sprintf("%s to %d", counted(one.ID), *one.Agreed))
		}
	}
	if len(each) == 0 {
		return ""
	}
	return "states found equal, server to entry: " + strings.Join(each, ", ")
}

// noteDisks tells whose disks do not answer. One that turns its clients away does not say so itself.
func (s *ensembleStatus) noteDisks() {
	for i := range s.Servers {
		one := &s.Servers[i]
		told := slices.ContainsFunc(s.Servers, func(o serverStatus) bool {
			return leads(o.Role) && one.ID != nil && slices.Contains(o.PeersHang, *one.ID)
		})
		switch {
		case one.DiskHangs != nil && *one.DiskHangs > 0:
			s.Notes = append(s.Notes, fmt.Sprintf("the disk of %s has not answered for %d s", one.name(),
				*one.DiskHangs))
		case told && one.DiskHangs == nil:
			s.Notes = append(s.Notes, fmt.Sprintf("the leader hears %s, which acknowledges nothing: its disk may hang",
				one.name()))
		}
	}
}

// name is how a server is named in a sentence.
func (s *serverStatus) name() string {
	if s.ID == nil {
		return s.Address
	}
	return fmt.Sprintf("server %d (%s)", *s.ID, s.Address)
}

// compareID orders servers by their ids, those of which it is not known before all others.
func (s *serverStatus) compareID(id *int64) int {
	switch {
	case s.ID != nil && id != nil:
		return cmp.Compare(*s.ID, *id)
	case s.ID != nil:
		return 1
	case id != nil:
		return -1
	}
	return 0
}

// noteRoom says whose disks are nearly full, and whether writes are refused for that.
func (s *ensembleStatus) noteRoom() {
	refused := false
	for i := range s.Servers {
		one := &s.Servers[i]
		if one.DiskFree != nil && *one.DiskFree < space.WarnPercent {
			s.Notes = append(s.Notes, fmt.Sprintf("%d %% of the disk of %s are free: remove znodes, or make room there",
				*one.DiskFree, one.Address))
		}
		refused = refused || one.LowSpace != nil && *one.LowSpace > 0
	}
	if refused {
		s.Notes = append(s.Notes,
			"writes that grow are refused (SystemError): too few servers have room on their disks")
	}
}

// exitError is nil, or the error that the exit status follows from.
func (s *ensembleStatus) exitError() error {
	leaders, silent, unknown := 0, 0, 0
	for i := range s.Servers {
		switch {
		case s.Servers[i].Unknown:
			unknown++
		case s.Servers[i].Error != "":
			silent++
		}
		if leads(s.Servers[i].Role) {
			leaders++
		}
	}
	switch {
	case silent > 0 && leaders == 0:
		return fmt.Errorf("%d of %d servers do not serve, and none leads", silent, len(s.Servers))
	case silent > 0:
		return fmt.Errorf("%d of %d servers do not serve", silent, len(s.Servers))
	case unknown > 0:
		return fmt.Errorf("%d of %d servers could not be asked", unknown, len(s.Servers))
	case leaders == 0:
		return errors.New("no server leads")
	case leaders > 1:
		return fmt.Errorf("%d servers say that they lead: they are not one ensemble, or one has just taken over",
			leaders)
	}
	return nil
}

// text writes the table.
func (s *ensembleStatus) text(w io.Writer) error {
	var t strings.Builder
	fmt.Fprintln(&t, "ID\tADDRESS\tROLE\tTERM\tZXID\tLAG\tCLIENTS\tWATCHES\tLATENCY\tSKEW\tLEVEL\tUPTIME\tFREE\t"+
		"VERSION")
	for i := range s.Servers {
		one := &s.Servers[i]
		if one.Error != "" {
			role := "down"
			if one.Unknown {
				role = "unknown"
			}
			fmt.Fprintf(&t, "%s\t%s\t%s\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t%s\n", counted(one.ID), one.Address, role,
				one.Error)
			continue
		}
		fmt.Fprintf(&t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", counted(one.ID), one.Address,
			dash(one.Role), counted(one.Term), dash(one.Zxid), counted(one.Lag), counted(one.Clients),
			counted(one.Watches), dash(one.Latency), dash(one.Skew), counted(one.Level), one.uptime(),
			one.free(), one.version())
	}
	if err := writeTable(w, t.String()); err != nil {
		return err
	}
	for _, n := range s.Notes {
		if _, err := fmt.Fprintln(w, n); err != nil {
			return err
		}
	}
	return nil
}

// uptime is how long the server runs.
func (s *serverStatus) uptime() string {
	if s.Uptime == nil {
		return "-"
	}
	return (time.Duration(*s.Uptime) * time.Second).String()
}

// free is the free part of the fuller of its disks.
func (s *serverStatus) free() string {
	if s.DiskFree == nil {
		return "-"
	}
	return fmt.Sprintf("%d%%", *s.DiskFree)
}

// version is the ZooKeeper that the server behaves as, and which zkd it is.
func (s *serverStatus) version() string {
	if s.Build == "" {
		return dash(s.Version)
	}
	build := s.Build
	if commitName.MatchString(build) {
		build = build[:shortCommit]
	}
	return dash(s.Version) + ", zkd " + build
}

// shortCommit is how much of a commit is shown of a build that is no release.
const shortCommit = 12

// commitName matches the name of a commit, and behind it that files were changed.
var commitName = regexp.MustCompile(`^[0-9a-f]{16,}(-dirty)?$`)

// dash is s, or a dash for nothing.
func dash(s string) string { return cmp.Or(s, "-") }

// counted is *n, or a dash for nil.
func counted(n *int64) string {
	if n == nil {
		return "-"
	}
	return strconv.FormatInt(*n, 10)
}
