package server

import (
	"testing"

	"zkd/jute"
)

// BenchmarkTLS is what one client is answered over TLS: reads one at a time and in a pipeline, and a large read and
// write.
func BenchmarkTLS(b *testing.B) {
	const pipelined, large = 32, 500_000
	r := newRig(b, nil)
	c := connectTLS(b, r.securePort(&Port{Secure: true}))
	c.mustCreate("/n", string(make([]byte, 1<<10)), jute.ModePersistent)
	c.mustCreate("/large", string(make([]byte, large)), jute.ModePersistent)
	b.Run("read", func(b *testing.B) {
		for b.Loop() {
			c.must(jute.OpGetData, look("/n"), jute.OK)
		}
	})
	b.Run("pipeline", func(b *testing.B) {
		for b.Loop() {
			c.pipeline(pipelined, jute.OpGetData, look("/n"))
			c.wantReplies(pipelined, jute.OK)
		}
	})
	b.Run("largeread", func(b *testing.B) {
		for b.Loop() {
			c.must(jute.OpGetData, look("/large"), jute.OK)
		}
	})
	b.Run("largewrite", func(b *testing.B) {
		for b.Loop() {
			c.must(jute.OpSetData, setTo("/large", string(make([]byte, large))), jute.OK)
		}
	})
}
