package childlist

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"zkd/jute"
)

// encode is the list of these names as simply as can be.
func encode(names []string) []byte {
	b := jute.AppendInt(nil, int32(len(names)))
	for _, name := range names {
		b = jute.AppendBuffer(b, []byte(name))
	}
	return b
}

// check compares a list with the names that it must have, and its accounts with its chunks.
func check(t *testing.T, l *List, names []string) {
	t.Helper()
	want := encode(names)
	if got := l.Append(nil); !bytes.Equal(got, want) {
		t.Fatalf("%q, want %q", got, want)
	}
	if l.Len() != len(names) || l.Bytes() != len(want) || l.MemoryBytes() < l.bytes {
		t.Fatalf("%d names in %d bytes, want %d in %d", l.Len(), l.Bytes(), len(names), len(want))
	}
	for _, chunk := range l.chunks {
		if len(chunk) == 0 {
			t.Fatal("an empty chunk")
		}
	}
}

// TestListAgainstSet changes lists at random: in ones and in thousands, names that are there and that are not, at both
// ends and in the middle, until nothing is left and from nothing on. What earlier lists show stays.
func TestListAgainstSet(t *testing.T) {
	for seed := range uint64(4) {
		r := rand.New(rand.NewPCG(seed, 1))
		set := map[string]bool{}
		l := &List{}
		before, beforeNames := l, []string{}
		for round := range 60 {
			var c Changes
			for range 1 + r.IntN(1+r.IntN([]int{2, 30, 3000}[r.IntN(3)])) {
				name := fmt.Sprintf("%s%d", strings.Repeat("x", r.IntN(2)*r.IntN(80)), r.IntN(20000))
				if r.IntN(10) < []int{8, 5, 1}[round/20] {
					c = c.Add(name)
					set[name] = true
				} else {
					c = c.Remove(name)
					delete(set, name)
				}
			}
			l = l.With(c)
			names := slices.Sorted(maps.Keys(set))
			check(t, l, names)
			check(t, before, beforeNames)
			if round%10 == 0 {
				before, beforeNames = l, names
				check(t, Of(l.Append(nil)[lengthBytes:]), names)
			}
		}
		var c Changes
		for name := range set {
			c = c.Remove(name)
		}
		check(t, l.With(c), nil)
	}
}

// TestChunksStayInBounds adds and removes one name at a time: chunks grow neither without bound nor into crumbs.
func TestChunksStayInBounds(t *testing.T) {
	l := &List{}
	name := func(i int) string { return fmt.Sprintf("lock-%010d", i) }
	for i := range 4000 {
		l = l.With(Changes(nil).Add(name(i)))
	}
	most := 0
	for _, chunk := range l.chunks {
		most = max(most, len(chunk))
	}
	if most > 3*chunkBytesMost {
		t.Errorf("a chunk of %d bytes", most)
	}
	for i := range 3990 {
		l = l.With(Changes(nil).Remove(name((i * 7919) % 4000)))
	}
	if l.Len() != 10 || len(l.chunks) > 10 {
		t.Errorf("%d names in %d chunks", l.Len(), len(l.chunks))
	}
}

// TestUnchangedChunksAreShared: a change of one name makes one chunk anew.
func TestUnchangedChunksAreShared(t *testing.T) {
	l := listOf(100000)
	changed := l.With(Changes(nil).Add("child-050000x"))
	if changed.Len() != l.Len()+1 || len(changed.chunks) != len(l.chunks) {
		t.Fatalf("%d names in %d chunks, before %d in %d", changed.Len(), len(changed.chunks), l.Len(), len(l.chunks))
	}
	made := 0
	for i := range l.chunks {
		if &l.chunks[i][0] != &changed.chunks[i][0] {
			made++
		}
	}
	if made != 1 {
		t.Errorf("%d chunks were made", made)
	}
}

func TestAppendPacedStops(t *testing.T) {
	l := listOf(10000)
	calls, bytesSeen := 0, 0
	all := l.AppendPaced(nil, func(n int) bool { calls++; bytesSeen += n; return true })
	if !bytes.Equal(all, l.Append(nil)) || calls != len(l.chunks) || bytesSeen != l.bytes {
		t.Errorf("%d bytes in %d calls", bytesSeen, calls)
	}
	if some := l.AppendPaced(nil, func(int) bool { return false }); len(some) != lengthBytes {
		t.Errorf("%d bytes of a list that was stopped", len(some))
	}
}

// listOf returns a list of n names.
func listOf(n int) *List {
	var b []byte
	for i := range n {
		b = jute.AppendBuffer(b, fmt.Appendf(nil, "child-%06d", i))
	}
	return Of(b)
}

// BenchmarkWith changes one name in the middle of a list.
func BenchmarkWith(b *testing.B) {
	for _, n := range []int{10, 1000, 100000} {
		b.Run(fmt.Sprintf("names=%d", n), func(b *testing.B) {
			l := listOf(n)
			add := Changes(nil).Add(fmt.Sprintf("child-%06dx", n/2))
			b.ReportAllocs()
			for b.Loop() {
				l.With(add)
			}
		})
	}
}

// BenchmarkAppend makes a reply.
func BenchmarkAppend(b *testing.B) {
	for _, n := range []int{10, 1000, 100000} {
		b.Run(fmt.Sprintf("names=%d", n), func(b *testing.B) {
			l := listOf(n)
			buf := l.Append(nil)
			b.ReportAllocs()
			for b.Loop() {
				buf = l.Append(buf[:0])
			}
		})
	}
}
