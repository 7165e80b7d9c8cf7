package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"time"

	"github.com/go-zookeeper/zk"

	"zkd/jute"
)

// silent keeps go-zookeeper quiet.
type silent struct{}

// Printf implements zk.Logger.
func (silent) Printf(string, ...any) {}

// RunGoZookeeper writes and reads the registers with go-zookeeper, one request in each pace, until stop.
func RunGoZookeeper(id int, root string, h *History, every time.Duration, o SessionOptions) {
	dial := o.dialer()
	conn, _, err := zk.Connect(o.Addrs, o.Timeout, zk.WithLogger(silent{}), zk.WithLogInfo(false),
		zk.WithDialer(func(network, addr string, _ time.Duration) (net.Conn, error) {
			return dial(context.Background(), network, addr)
		}))
	if err != nil {
		h.Violated("client %d: %v", id, err)
		return
	}
	done := make(chan struct{})
	go func() { // ends the call that waits for a server
		<-o.Stop
		conn.Close()
		close(done)
	}()
	pace := time.NewTicker(every)
	defer pace.Stop()
	versions := map[string]int32{}
	for n := 0; ; n++ {
		select {
		case <-o.Stop:
			<-done
			return
		case <-pace.C:
			if o.rests() {
				continue
			}
			path := registerPath(root, o.Rand.IntN(registers))
			if op, ok := goStep(conn, versions, fmt.Sprintf("v%d.%d", id, n), path, o); ok {
				op.Client = id
				h.Add(op)
			}
		}
	}
}

// goStep does one operation; ok is false for a read that got no reply.
func goStep(conn *zk.Conn, versions map[string]int32, value, path string, o SessionOptions) (op Op, ok bool) {
	op = Op{Kind: kindOf(o.Rand), Path: path, Value: value, Session: jute.SessionID(conn.SessionID()), Call: o.Now()}
	var stat *zk.Stat
	var err error
	switch expected, known := versions[path]; {
	case op.Kind == SyncRead:
		var data []byte
		if _, err = conn.Sync(path); err == nil {
			data, stat, err = conn.Get(path)
		}
		op.Value = string(data)
		if err != nil {
			return op, false
		}
	case op.Kind == Swap && known:
		op.Expected = jute.Version(expected)
		stat, err = conn.Set(path, []byte(value), expected)
	default:
		op.Kind = Write
		stat, err = conn.Set(path, []byte(value), -1)
	}
	op.Ret = o.Now()
	if op.Session != jute.SessionID(conn.SessionID()) {
		op.Session = 0 // it is not known which one it was
	}
	switch {
	case err == nil:
		op.Outcome, op.Version, op.Mzxid = Done, jute.Version(stat.Version), jute.Zxid(stat.Mzxid)
		if op.Kind != SyncRead {
			op.Zxid = op.Mzxid
		}
		versions[path] = stat.Version
	case errors.Is(err, zk.ErrBadVersion):
		op.Outcome = Refused
		delete(versions, path)
	case err.Error() == fmt.Sprintf("unknown error: %d", jute.SystemError): // the client has no name for it
		op.Outcome = Declined
	}
	return op, true
}

func kindOf(r *rand.Rand) Kind { return []Kind{Write, Swap, SyncRead}[r.IntN(3)] }
