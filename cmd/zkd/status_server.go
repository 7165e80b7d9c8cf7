package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"zkd/jute"
	"zkd/jute/client"
)

// place is where a server has its clients.
type place struct {
	id      *int64 // nil: not known
	address string // host:port; only the host where unknown
	guessed bool   // no line says the port: it is that of the one that was asked
	unknown bool   // the guess cannot be right
	// stranger says that it was asked who belongs to its ensemble, and does not by what it says.
	stranger bool
}

// serverStatus is what a server says of itself. What it does not say is nil or empty.
type serverStatus struct {
	ID          *int64 `json:"id,omitempty"`
	Address     string `json:"address"`
	Role        string `json:"role,omitempty"`          // leader, follower, observer, standalone or read-only
	Term        *int64 `json:"term,omitempty"`          // of raft; the epoch of an Apache ZooKeeper
	Level       *int64 `json:"feature_level,omitempty"` // of the ensemble
	Supported   *int64 `json:"feature_level_supported,omitempty"`
	Zxid        string `json:"zxid,omitempty"`
	Lag         *int64 `json:"lag,omitempty"`          // zxids behind the leader's
	Agreed      *int64 `json:"agreed_index,omitempty"` // up to which its state was found to be the ensemble's
	Clients     *int64 `json:"clients,omitempty"`
	Watches     *int64 `json:"watches,omitempty"`
	Outstanding *int64 `json:"outstanding,omitempty"`
	Znodes      *int64 `json:"znodes,omitempty"` // as the server counts: the root twice
	Latency     string `json:"latency_ms,omitempty"`
	Skew        string `json:"clock_skew,omitempty"` // how far its clock is before the leader's
	Version     string `json:"version,omitempty"`
	Build       string `json:"zkd,omitempty"` // of zkd, where it is one
	Uptime      *int64 `json:"uptime_seconds,omitempty"`
	// Where it listens for the other servers: where the configuration has it, where else, where it should and cannot.
	Listens      []string `json:"listens,omitempty"`
	ListensStill []string `json:"listens_still,omitempty"`
	CannotListen []string `json:"cannot_listen,omitempty"`
	Moving       []string `json:"moving,omitempty"`  // members that it has not found at their new address
	Missing      []string `json:"missing,omitempty"` // four-letter commands that are not on its whitelist
	Error        string   `json:"error,omitempty"`   // why it does not serve
	Unknown      bool     `json:"unknown,omitempty"` // nobody says where its clients connect, so it was not asked
	// DiskFree is the free part of the fuller of its disks in percent, LowSpace zkd_low_space: above 0 writes are
	// refused.
	DiskFree *int64 `json:"disk_free_percent,omitempty"`
	LowSpace *int64 `json:"low_space,omitempty"`
	// DiskHangs is for how many seconds its disk has not answered, 0 if it does, and PeersHang the servers of which a
	// leader thinks that theirs do not.
	DiskHangs *int64  `json:"disk_hangs,omitempty"`
	PeersHang []int64 `json:"peers_hang,omitempty"`

	logStatus

	zxid       int64
	hasZxid    bool
	clockSkews map[int64]time.Duration // of the others' clocks before its own, by id
}

// errNotListed says that a four-letter command is not on the whitelist.
var errNotListed = errors.New("not on the whitelist")

// errNotServing says that a server has no leader, or is not in the ensemble.
var errNotServing = errors.New("up, but not serving: no leader, or not a member")

// fourLetters asks a server for a four-letter command.
func (a asker) fourLetters(ctx context.Context, address, name string) (string, error) {
	answer, err := client.Ask(ctx, a.dial, address, name)
	switch {
	case err != nil && answer == "":
		return "", err
	case strings.Contains(answer, name+" is not executed because it is not in the whitelist"):
		return "", errNotListed
	case strings.HasPrefix(answer, "This ZooKeeper instance is not currently serving requests"):
		if _, why, ok := strings.Cut(strings.TrimSpace(answer), "\n"); ok {
			return "", fmt.Errorf("%w: %s", errNotServing, why)
		}
		return "", errNotServing
	case answer == "":
		return "", errors.New("it closed the connection without an answer: not a server for clients, or full, " +
			"or one that wants --tls")
	}
	return answer, nil
}

// askServer asks one server.
func (a asker) askServer(ctx context.Context, address string) serverStatus {
	s := serverStatus{Address: address}
	text, err := a.fourLetters(ctx, address, "srvr")
	switch {
	case errors.Is(err, errNotListed):
		s.Missing = append(s.Missing, "srvr")
	case err != nil:
		s.Error = plainError(err)
		return s
	default:
		s.readSrvr(text)
	}
	text, err = a.fourLetters(ctx, address, "mntr")
	switch {
	case errors.Is(err, errNotListed):
		s.Missing = append(s.Missing, "mntr")
	case err == nil:
		s.readMntr(text)
	}
	return s
}

// plainError words the usual failures of a connection in a few words.
func plainError(err error) string {
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return "no answer"
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Err != nil {
		return op.Err.Error()
	}
	return err.Error()
}

// readSrvr takes what srvr says (org.apache.zookeeper.server.command.StatCommand).
func (s *serverStatus) readSrvr(text string) {
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch key {
		case "Zookeeper version":
			s.Version, _, _ = strings.Cut(value, ",")
			s.Version, _, _ = strings.Cut(s.Version, "-")
		case "Latency min/avg/max":
			s.Latency = value
		case "Connections":
			s.Clients = others(parsed(value))
		case "Outstanding":
			s.Outstanding = parsed(value)
		case "Node count":
			s.Znodes = parsed(value)
		case "Mode":
			s.Role = value
		case "Zxid":
			if zxid, err := strconv.ParseInt(value, 0, 64); err == nil {
				s.Zxid, s.zxid, s.hasZxid = value, zxid, true
			}
		}
	}
}

// readMntr takes what mntr says (org.apache.zookeeper.server.command.MonitorCommand).
func (s *serverStatus) readMntr(text string) {
	values := map[string]string{}
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
			values[key] = value
		}
	}
	s.clockSkews = clockSkewsOf(values)
	s.Watches = parsed(values["zk_watch_count"])
	s.Term = parsed(values["zk_zkd_term"])
	s.Level, s.Supported = parsed(values["zk_zkd_feature_level"]), parsed(values["zk_zkd_feature_level_supported"])
	s.Agreed = parsed(values["zk_zkd_agreed_index"])
	s.readLog(values)
	s.readDisks(values)
	s.LowSpace = parsed(values["zk_zkd_low_space"])
	for _, store := range []string{"raftlog", "state"} {
		total, free := parsed(values["zk_"+store+"_zkd_disk_bytes"]), parsed(values["zk_"+store+"_zkd_disk_free_bytes"])
		if total == nil || free == nil || *total == 0 {
			continue
		}
		if percent := *free * 100 / *total; s.DiskFree == nil || percent < *s.DiskFree {
			s.DiskFree = &percent
		}
	}
	if s.Role == "" {
		s.Role = values["zk_server_state"]
	}
	if s.Clients == nil {
		s.Clients = others(parsed(values["zk_num_alive_connections"]))
	}
	for key := range values { // there is one
		if build, ok := strings.CutSuffix(strings.TrimPrefix(key, "zk_"), "_zkd_build_info"); ok {
			s.Build = build
		}
	}
	if ms := parsed(values["zk_uptime"]); ms != nil {
		seconds := *ms / 1000
		s.Uptime = &seconds
	}
	if s.Version == "" {
		s.Version, _, _ = strings.Cut(values["zk_version"], "-")
	}
	s.readPorts(values)
	if _, isZkd := values["zk_zkd_term"]; !isZkd && s.hasZxid && s.Role != "standalone" {
		epoch := s.zxid >> 32
		s.Term = &epoch
	}
}

// others is a number of connections without the one on which it was asked for.
func others(connections *int64) *int64 {
	if connections == nil {
		return nil
	}
	n := max(*connections-1, 0)
	return &n
}

// clockSkewsOf reads how far the clocks of other servers are before the one that says so.
func clockSkewsOf(values map[string]string) map[int64]time.Duration {
	clockSkews := map[int64]time.Duration{}
	for name, value := range values { // any order
		digits, ok := strings.CutSuffix(strings.TrimPrefix(name, "zk_"), "_zkd_clock_skew_seconds")
		id, err := strconv.ParseInt(digits, 10, 64)
		if seconds, wrong := strconv.ParseFloat(value, 64); ok && err == nil && wrong == nil {
			clockSkews[id] = time.Duration(seconds * float64(time.Second)).Round(time.Millisecond)
		}
	}
	return clockSkews
}

// readPorts takes what mntr says of the ports for servers.
func (s *serverStatus) readPorts(values map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		address, own := strings.CutSuffix(strings.TrimPrefix(name, "zk_"), "_zkd_peer_port")
		still, former := strings.CutSuffix(strings.TrimPrefix(name, "zk_"), "_zkd_peer_port_former")
		peer, moves := strings.CutSuffix(strings.TrimPrefix(name, "zk_"), "_zkd_peer_moving")
		switch listens := values[name] == "1"; {
		case own && listens:
			s.Listens = append(s.Listens, address)
		case own:
			s.CannotListen = append(s.CannotListen, address)
		case former && listens:
			s.ListensStill = append(s.ListensStill, still)
		case moves && values[name] == "1":
			s.Moving = append(s.Moving, peer)
		}
	}
}

// readDisks takes what mntr says of disks that do not answer.
func (s *serverStatus) readDisks(values map[string]string) {
	for _, store := range []string{"raftlog", "state"} {
		n := parsed(values["zk_"+store+"_zkd_disk_hang_seconds"])
		if n != nil && (s.DiskHangs == nil || *n > *s.DiskHangs) {
			s.DiskHangs = n
		}
	}
	for key, value := range values { // order: sorted below
		peer, ok := strings.CutSuffix(key, "_zkd_peer_disk_hangs")
		id := parsed(strings.TrimPrefix(peer, "zk_"))
		if ok && value == "1" && id != nil {
			s.PeersHang = append(s.PeersHang, *id)
		}
	}
	slices.Sort(s.PeersHang)
}

// parsed is the number in text, nil if there is none.
func parsed(text string) *int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return nil
	}
	return &n
}

// readConfig reads /zookeeper/config through a session that it ends: what is asked next is to count it no more.
func (a asker) readConfig(ctx context.Context, address string, timeout time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	c, err := client.Dial(ctx, client.Options{Addr: address, Timeout: 10 * time.Second, Dial: a.dial, Now: time.Now})
	if err != nil {
		return "", err
	}
	defer context.AfterFunc(ctx, c.Cut)()
	defer func() {
		if _, _, err := c.Do(jute.OpCloseSession, nil); err == nil { // it expires by itself else
			_, _ = c.ReadFrame() // ends when the server has closed the connection, or ctx ends
		}
		c.Cut()
	}()
	request := jute.PathWatchRequest{Path: "/zookeeper/config"}
	header, body, err := c.Do(jute.OpGetData, request.Append)
	if err != nil {
		return "", err
	}
	if header.Err != jute.OK {
		return "", fmt.Errorf("read /zookeeper/config: %v", header.Err)
	}
	d := jute.NewDecoder(body)
	text := string(d.Buffer())
	return text, d.Err()
}

// reachable is an address of clients, [host:]port, with fallback for a host that stands for all.
func reachable(clients, fallback string) string {
	host, port, err := net.SplitHostPort(clients)
	if err != nil {
		host, port = "", clients
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = fallback
	}
	return net.JoinHostPort(host, port)
}
