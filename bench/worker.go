package bench

import (
	"errors"
	"fmt"

	"zkd/jute"
	"zkd/jute/client"
)

// generator appends a connection's next request to b, framed, or returns nil if there is none any more.
type generator func(b []byte, xid jute.Xid) []byte

// worker keeps the requests of one connection outstanding. Owned by its goroutine.
type worker struct {
	index   int
	conn    *client.Conn
	next    generator
	rec     *recorder
	last    jute.Xid // of the request that was sent last
	sent    []int64  // ring of the times at which requests were sent, by xid
	replies []reply
	out     []byte
}

// run sends and receives until the recorder says stop, or there is nothing left to send, and every reply is there, or
// the connection fails, which is counted. It may be called again.
func (w *worker) run(outstanding int) {
	if len(w.sent) != outstanding {
		w.sent = make([]int64, outstanding)
		w.replies = make([]reply, 0, outstanding)
	}
	got := w.last
	onWay, err := w.send(outstanding)
	for err == nil && onWay > 0 {
		var n int
		n, err = w.receive(got)
		got += jute.Xid(n) //nolint:gosec // at most outstandingMax
		onWay -= n
		w.rec.see(w.index, w.replies)
		if err == nil && !w.rec.stopping.Load() {
			n, err = w.send(n)
			onWay += n
		}
	}
	if err != nil {
		w.rec.fail(w.index, failure(err), int64(onWay))
	}
}

// send sends n requests, fewer if there are no more, and returns how many, with the error of a broken connection.
func (w *worker) send(n int) (int, error) {
	w.out = w.out[:0]
	for i := range n {
		out := w.next(w.out, w.last+jute.Xid(i)+1) //nolint:gosec // at most outstandingMax
		if out == nil {
			w.rec.runDry()
			n = i
			break
		}
		w.out = out
	}
	if n == 0 {
		return 0, nil
	}
	now := nanos()
	for range n {
		w.last++
		w.sent[int(w.last)%len(w.sent)] = now
	}
	return n, w.conn.Write(w.out)
}

// receive waits for a reply and takes all that have come with it into w.replies; last is the xid of the reply before.
func (w *worker) receive(last jute.Xid) (int, error) {
	w.replies = w.replies[:0]
	for more := true; more; more = w.conn.Buffered() {
		header, _, err := w.conn.ReadReply()
		if err != nil {
			return len(w.replies), err
		}
		last++
		if header.Xid != last {
			return len(w.replies), fmt.Errorf("%w: got xid %d for %d", client.ErrOutOfOrder, header.Xid, last)
		}
		w.replies = append(w.replies, reply{took: w.sent[int(last)%len(w.sent)], code: header.Err})
	}
	now := nanos() - int64(w.conn.Lag())
	for i := range w.replies {
		w.replies[i].took = now - w.replies[i].took
	}
	return len(w.replies), nil
}

// failure names the reason for which a connection's requests have no reply.
func failure(err error) string {
	if errors.Is(err, client.ErrOutOfOrder) {
		return "outOfOrder"
	}
	return jute.ConnectionLoss.String()
}
