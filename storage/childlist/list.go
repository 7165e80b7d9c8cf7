package childlist

import (
	"bytes"
	"encoding/binary"
	"sort"

	"zkd/jute"
)

// Bounds of the size of a chunk, which is a sixteenth of a list within them: a change copies one, and looks at half of
// its names. A guess: the first change since a list was read last takes about as long as a copy of 1,000 names, or a
// tenth of one of 100,000.
const (
	chunkBytesLeast = 2 << 10
	chunkBytesMost  = 16 << 10
	chunksOfList    = 16
)

// lengthBytes is how many bytes before a name tell its length.
const lengthBytes = 4

// chunkOverheadBytes is what a chunk costs beside its bytes: its place in the list, and what the allocator adds.
const chunkOverheadBytes = 64

// List is a list of names. The zero List is empty.
type List struct {
	chunks [][]byte // none is empty
	names  int
	bytes  int // of all chunks
}

// Of returns the list of the names in encoded, which are sorted; it keeps nothing of encoded.
func Of(encoded []byte) *List {
	b := builder{size: chunkSize(len(encoded))}
	for pos := 0; pos < len(encoded); b.list.names++ {
		pos += nameBytes(nameAt(encoded, pos))
	}
	b.split(encoded)
	return &b.list
}

// Len returns the number of names.
func (l *List) Len() int { return l.names }

// Bytes returns how many bytes Append appends.
func (l *List) Bytes() int { return lengthBytes + l.bytes }

// MemoryBytes returns what the list takes of memory, about.
func (l *List) MemoryBytes() int { return l.bytes + len(l.chunks)*chunkOverheadBytes }

// Append appends the list as a reply has it: the number of names, and each name behind its length.
func (l *List) Append(b []byte) []byte {
	b = jute.AppendInt(b, int32(l.names))
	for _, chunk := range l.chunks {
		b = append(b, chunk...)
	}
	return b
}

// Chunks are the names as they are in memory, which nobody may change: joined they are what Append appends behind the
// number.
func (l *List) Chunks() [][]byte { return l.chunks }

// AppendPaced is Append for a long list: goOn is called between chunks, with the number of bytes since it was called
// last. If it returns false, the rest is left out.
func (l *List) AppendPaced(b []byte, goOn func(bytes int) bool) []byte {
	b = jute.AppendInt(b, int32(l.names))
	for _, chunk := range l.chunks {
		if !goOn(len(chunk)) {
			break
		}
		b = append(b, chunk...)
	}
	return b
}

// With returns the list after the changes.
func (l *List) With(c Changes) *List {
	changes := c.net()
	b := builder{size: chunkSize(l.bytes)}
	b.list.names = l.names
	b.list.chunks = make([][]byte, 0, len(l.chunks)+2)
	next := 0
	for i := 0; i < len(changes); {
		at := l.chunkOf(changes[i].name)
		end := i + 1
		for end < len(changes) && (at+1 >= len(l.chunks) ||
			bytes.Compare(changes[end].name, nameAt(l.chunks[at+1], 0)) < 0) {
			end++
		}
		var chunk []byte
		if at < len(l.chunks) {
			b.keep(l.chunks[next:at])
			chunk = l.chunks[at]
			next = at + 1
		}
		b.merge(chunk, changes[i:end])
		i = end
	}
	b.keep(l.chunks[next:])
	return &b.list
}

// chunkOf returns which chunk a name is in, or would be.
func (l *List) chunkOf(name []byte) int {
	behind := sort.Search(len(l.chunks), func(i int) bool { return bytes.Compare(nameAt(l.chunks[i], 0), name) > 0 })
	return max(behind-1, 0)
}

// chunkSize is the size of the chunks that are made of a list of so many bytes.
func chunkSize(bytes int) int { return min(max(bytes/chunksOfList, chunkBytesLeast), chunkBytesMost) }

// nameAt returns the name whose length is at pos.
func nameAt(b []byte, pos int) []byte {
	n := int(binary.BigEndian.Uint32(b[pos:]))
	return b[pos+lengthBytes : pos+lengthBytes+n]
}

// nameBytes is what a name takes.
func nameBytes(name []byte) int { return lengthBytes + len(name) }

// builder makes a list, from its beginning to its end.
type builder struct {
	list List
	size int // of chunks that are made
}

// keep adds chunks as they are.
func (b *builder) keep(chunks [][]byte) {
	b.list.chunks = append(b.list.chunks, chunks...)
	for _, chunk := range chunks {
		b.list.bytes += len(chunk)
	}
}

// merge adds a chunk after changes of names in it.
func (b *builder) merge(chunk []byte, changes []change) {
	size := len(chunk)
	for i := range changes {
		if changes[i].there {
			size += nameBytes(changes[i].name)
		}
	}
	merged := make([]byte, 0, size)
	from, pos := 0, 0
	for i := range changes {
		name := changes[i].name
		found := false
		for pos < len(chunk) {
			is := nameAt(chunk, pos)
			order := bytes.Compare(is, name)
			if found = order == 0; order >= 0 {
				break
			}
			pos += nameBytes(is)
		}
		if found == changes[i].there {
			continue
		}
		merged = append(merged, chunk[from:pos]...)
		if found {
			pos += nameBytes(name)
			b.list.names--
		} else {
			merged = jute.AppendBuffer(merged, name)
			b.list.names++
		}
		from = pos
	}
	b.put(append(merged, chunk[from:]...))
}

// put adds a chunk that was made, in parts if it is large, and with the one before it if it is small.
func (b *builder) put(chunk []byte) {
	last := len(b.list.chunks) - 1
	switch {
	case len(chunk) == 0:
	case len(chunk) > 2*b.size:
		b.split(chunk)
	case len(chunk) < b.size/4 && last >= 0 && len(b.list.chunks[last])+len(chunk) <= b.size:
		before := b.list.chunks[last]
		joined := make([]byte, 0, len(before)+len(chunk))
		b.list.chunks[last] = append(append(joined, before...), chunk...)
		b.list.bytes += len(chunk)
	default:
		b.list.chunks = append(b.list.chunks, chunk)
		b.list.bytes += len(chunk)
	}
}

// split adds names as chunks in memory of their own.
func (b *builder) split(names []byte) {
	for from, pos := 0, 0; from < len(names); {
		pos += nameBytes(nameAt(names, pos))
		if pos-from >= b.size || pos == len(names) {
			b.list.chunks = append(b.list.chunks, bytes.Clone(names[from:pos]))
			b.list.bytes += pos - from
			from = pos
		}
	}
}
