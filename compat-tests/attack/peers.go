package attack

import (
	"encoding/binary"
	"hash/crc32"
	"io"
	"net"
	"sync/atomic"
	"time"

	"zkd/compat-tests/target"
	"zkd/jute"
)

// Settings of the attack on the ports for servers.
const (
	members    = 3
	stranger   = 9 // an id that nobody has
	streamPart = 256 << 10
	pauseAgain = 10 * time.Millisecond // of a stranger who was refused
)

// Types of ZooKeeper's QuorumPacket (org.apache.zookeeper.server.quorum.Leader).
const (
	packetObserverInfo = 16
	packetAckEpoch     = 18
)

// strangers speaks to the ports for servers, in the name of members and of nobody, and streams what never ends.
var strangers = Attack{
	Name:    "strangers at the ports for servers",
	Servers: members,
	Run: func(f *Field) error {
		begins := zookeeperBegins()
		if f.Kind == target.Zkd {
			begins = zkdBegins()
		}
		var taken, told atomic.Int64
		var tries int
		for range f.Peers {
			tries += len(begins)
		}
		_ = f.Each(tries, func(i int) error {
			addr, begin := f.Peers[i%len(f.Peers)], begins[i/len(f.Peers)]
			for !f.Over() {
				if err := f.stranger(addr, begin, i%2 == 0, &taken, &told); err != nil {
					return err
				}
			}
			return nil
		})
		f.Note("strangers were told %d KiB, and %d MiB were taken from them", told.Load()>>10, taken.Load()>>20)
		return nil
	},
}

// stranger says something to a port, and streams bytes that mean nothing until it is cut off, or only listens.
func (f *Field) stranger(addr string, begin []byte, streams bool, taken, told *atomic.Int64) error {
	nc, err := net.DialTimeout("tcp", addr, callWithin)
	if err != nil {
		return err
	}
	defer func() { _ = nc.Close() }() // it may be closed
	_ = nc.SetDeadline(f.until)       // it is new
	listened := make(chan struct{})
	go func() {
		defer close(listened)
		n, _ := io.Copy(io.Discard, nc) // until one of both is through
		told.Add(n)
	}()
	_, err = nc.Write(begin)
	part := snapshotMessage(3, make([]byte, streamPart))
	for err == nil && streams && !f.Over() {
		var n int
		n, err = nc.Write(part)
		taken.Add(int64(n))
	}
	if streams {
		_ = nc.Close() // it is over
	}
	<-listened
	f.Cut()
	again := time.NewTimer(pauseAgain)
	defer again.Stop()
	select {
	case <-again.C:
	case <-f.ctx.Done():
	}
	return nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// zkdBegins are hellos of each purpose, in the name of each member and of a stranger (docs/formats/peer.md).
func zkdBegins() (all [][]byte) {
	for to := 1; to <= members; to++ {
		for _, from := range []int{1, 2, 3, stranger} {
			for purpose := byte(1); purpose <= 3; purpose++ {
				all = append(all, peerHello(from, to, purpose))
			}
		}
	}
	return append(all, nil, make([]byte, streamPart))
}

// peerHello is what a server of zkd's says first.
func peerHello(from, to int, purpose byte) []byte {
	b := append([]byte{0xF5}, "zkdpeer"...)
	b = append(b, 0, 1, 0, 3, 0, 0)
	head := len(b)
	b = append(b, make([]byte, 16)...) // the cluster: not known
	b = binary.BigEndian.AppendUint64(b, uint64(from))
	b = binary.BigEndian.AppendUint64(b, uint64(to))
	b = binary.BigEndian.AppendUint64(b, 0xBAD)
	b = append(b, purpose, 0, 0, 0) // no name, no founders
	b = append(b, 0, 99, 0, 99, 0, 1)
	binary.BigEndian.PutUint16(b[head-2:], uint16(len(b)-head+4))
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// snapshotMessage is one of a snapshot stream of zkd's.
func snapshotMessage(kind byte, body []byte) []byte {
	b := binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(body)))
	b = binary.BigEndian.AppendUint32(b, crc32.Update(crc32.Checksum([]byte{kind}, castagnoli), castagnoli, body))
	return append(b, body...)
}

// zookeeperBegins are what an observer says that nobody knows, to the port of a leader, which takes it in and sends it
// the state; what a member says in an election; and nonsense.
func zookeeperBegins() [][]byte {
	info := jute.AppendLong(nil, stranger) // LearnerInfo
	info = jute.AppendInt(info, 0x10000)
	info = jute.AppendLong(info, 0)
	observer := quorumPacket(packetObserverInfo, info)
	observer = append(observer, quorumPacket(packetAckEpoch, jute.AppendInt(nil, -1))...)
	election := jute.AppendLong(nil, -65536) // QuorumCnxManager.PROTOCOL_VERSION
	election = jute.AppendLong(election, stranger)
	election = jute.AppendBuffer(election, []byte("127.0.0.1:1"))
	all := [][]byte{observer, election, nil, make([]byte, streamPart)}
	for len(all) < len(zkdBegins()) {
		all = append(all, observer, election)
	}
	return all
}

// quorumPacket is a packet between servers of ZooKeeper.
func quorumPacket(kind int32, data []byte) []byte {
	b := jute.AppendInt(nil, kind)
	b = jute.AppendLong(b, 0)
	b = jute.AppendBuffer(b, data)
	return jute.AppendInt(b, -1) // no authinfo
}
