package bench

import (
	"errors"
	"slices"

	"zkd/jute/client"
)

// besideWriters is the number of connections to the leader that write beside the reads.
const besideWriters = 8

// beside reads on the followers, in a closed loop, while paced writes go to the leader. The result is of the reads;
// the server's CPU time is of both.
func beside(r *run) ([]Result, error) {
	if r.target.Ensemble == nil {
		return nil, errNoEnsemble
	}
	leader, err := r.target.Ensemble.Leader(r.ctx)
	if err != nil {
		return nil, err
	}
	if err := r.makeNodes(r.o.Clients); err != nil {
		return nil, err
	}
	addrs := r.target.addrs()
	writers, err := r.dialTo(addrs[leader:leader+1], besideWriters)
	if err != nil {
		return nil, err
	}
	defer r.closeAll(writers)
	readers, err := r.dialTo(slices.Delete(slices.Clone(addrs), leader, leader+1), r.o.Clients)
	if err != nil {
		return nil, err
	}
	result, failed, err := readBeside(r, readers, writers)
	for name, n := range failed { // a sum for each name, so the order does not matter
		if result.Errors == nil {
			result.Errors = map[string]int64{}
		}
		result.Errors["write "+name] += n
	}
	return []Result{result}, err
}

// readBeside runs both, and returns the errors of the writes apart.
func readBeside(r *run, readers, writers []*client.Conn) (Result, map[string]int64, error) {
	p, err := r.newPacer(writers, r.writes)
	if err != nil {
		r.closeAll(readers)
		return Result{}, nil, err
	}
	p.rec.counting.Store(true) // for its errors alone
	written := p.start()
	result, err := r.loopOn(readers, r.o.String(), newRecorder(), r.reads)
	p.rec.stopping.Store(true)
	err = errors.Join(err, <-written)
	var writes Result
	p.rec.fill(&writes)
	return result, writes.Errors, err
}
