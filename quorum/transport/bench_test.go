package transport

import (
	"fmt"
	"net"
	"sync/atomic"
	"testing"
)

// BenchmarkSend measures frames over the loopback, from Send to Receive, with at most 8 MiB under way.
func BenchmarkSend(b *testing.B) {
	for _, size := range []int{100, 1 << 10, 64 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			a, c := newMember(b, 1, nil), newMemberAt(b, 2, l, nil)
			var got atomic.Int64
			progress := make(chan struct{}, 1)
			c.heard.receive = func(uint64, uint8, []byte) {
				if got.Add(1)%64 == 0 {
					select {
					case progress <- struct{}{}:
					default: // it is told already
					}
				}
			}
			a.know(c)
			c.know(a)
			a.Start(a.heard)
			c.Start(c.heard)
			a.linked(c)
			content := make([]byte, size)
			encode := func(b []byte) []byte { return append(b, content...) }
			window := int64(max(64, (8<<20)/(size+frameHeadBytes+1)))
			b.SetBytes(int64(size))
			b.ReportAllocs()
			sent := int64(0)
			for b.Loop() {
				for sent-got.Load() >= window {
					<-progress
				}
				if !a.Send(2, 1, encode) {
					b.Fatal("refused")
				}
				sent++
			}
			for got.Load() < sent-64 {
				<-progress
			}
		})
	}
}
