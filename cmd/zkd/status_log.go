package main

import (
	"fmt"
	"sort"
	"strings"

	"zkd/conf"
)

// logStatus is what a server says of its raft log, and, if it leads, of those that do not take the state that they
// lack.
type logStatus struct {
	LogBytes    *int64         `json:"log_kept_bytes,omitempty"`
	LogBytesMax *int64         `json:"log_kept_max_bytes,omitempty"`
	LogHolder   *int64         `json:"log_kept_for,omitempty"` // says the leader; -1: nobody
	Refusing    []refusingPeer `json:"refusing,omitempty"`     // says the leader
}

// refusingPeer is a server that has not taken the state that it was sent.
type refusingPeer struct {
	ID       int64 `json:"id"`
	Tries    int64 `json:"tries"`
	Failures int64 `json:"failures"`
	Pause    int64 `json:"next_in_seconds"`
}

// readLog takes what mntr says of it.
func (s *logStatus) readLog(values map[string]string) {
	s.LogBytes, s.LogBytesMax = parsed(values["zk_zkd_log_kept_bytes"]), parsed(values["zk_zkd_log_kept_max_bytes"])
	s.LogHolder = parsed(values["zk_zkd_log_kept_for_id"])
	number := func(id, name string) int64 {
		if n := parsed(values["zk_"+id+"_zkd_peer_"+name]); n != nil {
			return *n
		}
		return 0
	}
	for key := range values { // order: sorted below
		id, ok := strings.CutSuffix(strings.TrimPrefix(key, "zk_"), "_zkd_peer_snapshot_pause_seconds")
		if n := parsed(id); ok && n != nil && number(id, "snapshot_pause_seconds") > 0 {
			s.Refusing = append(s.Refusing, refusingPeer{ID: *n, Tries: number(id, "snapshots_total"),
				Failures: number(id, "snapshot_failures_total"), Pause: number(id, "snapshot_pause_seconds")})
		}
	}
	sort.Slice(s.Refusing, func(i, j int) bool { return s.Refusing[i].ID < s.Refusing[j].ID })
}

// logNotes says who does not take the state that it lacks, and for whom logs grow, as the leader sees it.
func (s *logStatus) logNotes() (notes []string) {
	for _, p := range s.Refusing {
		notes = append(notes, fmt.Sprintf("server %d has not taken the state that it lacks, %d of %d times; the next "+
			"try is in %d s, and its log says why", p.ID, p.Failures, p.Tries, p.Pause))
	}
	if s.LogHolder == nil || *s.LogHolder == conf.NoID || s.LogBytes == nil || s.LogBytesMax == nil {
		return notes
	}
	if *s.LogBytes > *s.LogBytesMax/2 {
		notes = append(notes, fmt.Sprintf("the raft logs keep %d MiB, at most %d MiB, for server %d: beyond that it "+
			"is sent the whole state", *s.LogBytes>>20, *s.LogBytesMax>>20, *s.LogHolder))
	}
	return notes
}
