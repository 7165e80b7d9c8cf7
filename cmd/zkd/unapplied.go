package main

import (
	"errors"
	"fmt"

	"zkd/quorum"
	"zkd/storage/inspect"
	"zkd/storage/raftlog"
)

// writesOf are the entries with writes among some of a raft log: those that a new leader or a change of members makes
// have none.
type writesOf struct {
	first, last uint64
	entries     int
}

// String names them.
func (w writesOf) String() string {
	if w.first == w.last {
		return fmt.Sprintf("entry %d of its raft log", w.first)
	}
	return fmt.Sprintf("entries %d to %d of its raft log", w.first, w.last)
}

// findWrites looks for writes in the entries [from, to] of a log.
func findWrites(log *raftlog.LogInspection, from, to uint64) (w writesOf, err error) {
	for next := max(from, log.FirstIndex()); next <= to; {
		entries, err := log.Entries(nil, next, to+1, 1<<20)
		if err != nil {
			return w, err
		}
		for i := range entries {
			e := &entries[i]
			data, err := quorum.EntryProposals(e.Kind, e.Data)
			if err != nil {
				return w, fmt.Errorf("entry %d: %w", e.Index, err)
			}
			if len(data) == 0 {
				continue
			}
			if w.entries == 0 {
				w.first = e.Index
			}
			w.last = e.Index
			w.entries++
		}
		next += uint64(len(entries))
	}
	return w, nil
}

// checkApplied refuses a state at rest that lacks writes of its raft log which somebody may have been told of, and
// returns what is to be said about those that nobody was. flag lets the state be taken as it is.
func checkApplied(i *inspect.Dir, applied uint64, flag string) (notices []string, err error) {
	log, err := i.OpenLog()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	d, err := quorum.DescribeLog(log)
	if err != nil {
		return nil, err
	}
	if d.Installing {
		return nil, errors.New("the server was about to take over the state of another one: start it, and stop it " +
			"again, or take the data of the other")
	}
	lacking, err := findWrites(log, applied+1, d.Settled)
	if err != nil {
		return nil, err
	}
	if lacking.entries > 0 {
		return nil, lackingError(lacking, &d, flag)
	}
	open, err := findWrites(log, max(applied, d.Settled)+1, log.LastIndex())
	if err != nil || open.entries == 0 {
		return nil, err
	}
	return []string{fmt.Sprintf("left out: %s (zkd inspect log shows what it is): this server had proposed it as the "+
		"leader, it was not committed when the server stopped, and no client was told that it is written. If another "+
		"server has a higher zxid (zkd inspect summary), take the data of that one", open)}, nil
}

// lackingError says what to do about writes that are not in the state.
func lackingError(lacking writesOf, d *quorum.LogInfo, flag string) error {
	why, remedy := "the server did not stop cleanly", "start it, and stop it by SIGTERM"
	switch {
	case d.Sole:
	case !d.Stopped:
		remedy = "start it with so many of the others that it serves, and stop it by SIGTERM, or take the data of " +
			"another server that has stopped cleanly"
	case lacking.last <= d.Commit:
		why = "the server stopped before it had applied all that is committed"
	default:
		why = "this server did not lead when it stopped, and cannot tell whether all of its log is committed"
		remedy = "take the data of the server that led last, or start it with so many of the others that it serves, " +
			"and stop it by SIGTERM"
	}
	return fmt.Errorf("%s: not in the state, and perhaps acknowledged: %s: %s, or leave that out by %s", why, lacking,
		remedy, flag)
}
