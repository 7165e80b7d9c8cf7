package sim

import "time"

// event is something that happens at a moment of simulated time.
type event struct {
	at  time.Duration
	seq uint64 // breaks ties: first planned, first done
	do  func()
}

// before orders events.
func (e *event) before(o *event) bool { return e.at < o.at || e.at == o.at && e.seq < o.seq }

// queue holds what is planned: a binary heap.
type queue struct {
	heap []event
	seq  uint64
}

// put plans do.
func (q *queue) put(at time.Duration, do func()) {
	q.seq++
	q.heap = append(q.heap, event{at: at, seq: q.seq, do: do})
	for i := len(q.heap) - 1; i > 0; {
		up := (i - 1) / 2
		if !q.heap[i].before(&q.heap[up]) {
			break
		}
		q.heap[i], q.heap[up] = q.heap[up], q.heap[i]
		i = up
	}
}

// take removes the next event; false if nothing is planned up to the moment.
func (q *queue) take(until time.Duration) (event, bool) {
	if len(q.heap) == 0 || q.heap[0].at > until {
		return event{}, false
	}
	first, last := q.heap[0], len(q.heap)-1
	q.heap[0] = q.heap[last]
	q.heap[last] = event{}
	q.heap = q.heap[:last]
	for i := 0; ; {
		down := 2*i + 1
		if down >= last {
			return first, true
		}
		if down+1 < last && q.heap[down+1].before(&q.heap[down]) {
			down++
		}
		if !q.heap[down].before(&q.heap[i]) {
			return first, true
		}
		q.heap[i], q.heap[down] = q.heap[down], q.heap[i]
		i = down
	}
}
