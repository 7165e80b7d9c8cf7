package server

import (
	"encoding/binary"
	"net"

	"zkd/jute"
	"zkd/server/limits"
	"zkd/server/socket"
	"zkd/storage/childlist"
	"zkd/storage/state"
)

// shared is what belongs to an answer and is not copied into it: the names of a list that is in memory, to be sent
// behind the first at bytes of the answer.
type shared struct {
	may   bool // it need not be copied
	names [][]byte
	at    int
	bytes int
}

// insertShared sends the answer in buf, which begins at mark, with what is shared in its place.
func (c *queries) insertShared(buf *[]byte, mark int) {
	b, s := *buf, &c.shared
	body := len(b) - mark - jute.FrameHeaderBytes + s.bytes
	binary.BigEndian.PutUint32(b[mark:], uint32(body)) //nolint:gosec // a list is no longer than what is kept
	parts := append(make(net.Buffers, 0, len(s.names)+2), b[:s.at])
	c.Out.InsertParts(append(append(parts, s.names...), b[s.at:]), body)
	socket.GiveBuffer(buf)
}

// lookChildren is look for a list of the znode's children.
func (c *queries) lookChildren(r *request, path string) (state.Present, state.Node, bool) {
	v, n, ok := c.server.opts.Machine.LookChildren(path)
	c.held.begin(r)
	return v, n, ok
}

// getChildren answers getChildren and getChildren2. A short list that is in memory is copied while the present is held.
func (c *queries) getChildren(r *request) error {
	v, n, ok, err := c.findFor(r, c.lookChildren)
	if !ok {
		return err
	}
	p := &c.req.pathWatch
	if p.Watch {
		c.server.watches.AddChild(&c.watch, p.Path)
		c.metered.watches++
	}
	stat := n.Stat()
	if stat.NumChildren == 0 {
		return c.answer(r, v, jute.OK, func(b []byte) []byte { return c.appendStat(jute.AppendInt(b, 0), r, &stat) })
	}
	list := v.List(p.Path, int(stat.NumChildren))
	defer list.Close()
	bytes := list.Bytes()
	if bytes > 0 && bytes <= largeData && list.Settle() {
		return c.answer(r, v, jute.OK, func(b []byte) []byte { return c.appendStat(list.Names().Append(b), r, &stat) })
	}
	if bytes == 0 {
		bytes = int(stat.NumChildren) * aboutNameBytes
	}
	c.shared = shared{may: list.Bytes() > 0 && c.Out.Gathers()}
	defer func() { c.shared = shared{} }()
	return c.answerReserved(r, v, bytes+aboutHeadBytes, func(v state.View, b []byte) ([]byte, jute.Code) {
		if c.shared.may && list.Settle() {
			b = c.share(b, list.Names())
		} else {
			b = c.appendChildren(b, v, p.Path, int(stat.NumChildren), &list)
		}
		return c.appendStat(b, r, &stat), jute.OK
	})
}

// share appends the number of names in a list that is in memory, and has them sent behind that as they are.
func (c *queries) share(b []byte, names *childlist.List) []byte {
	number := len(b)
	b = jute.AppendInt(b, int32(names.Len())) //nolint:gosec // what NumChildren counts
	c.shared = shared{names: names.Chunks(), at: len(b), bytes: names.Bytes() - (len(b) - number)}
	return b
}

// appendStat appends the Stat to the reply to getChildren2.
func (c *queries) appendStat(b []byte, r *request, stat *jute.Stat) []byte {
	if r.op == jute.OpGetChildren2 {
		return stat.Append(b)
	}
	return b
}

// aboutNameBytes is what a name takes in a list of children, about.
const aboutNameBytes = 24

// appendChildren appends the list of the children of a znode that is there and has n of them, from list if that has
// them.
func (c *queries) appendChildren(b []byte, v state.View, path string, n int, list *state.List) []byte {
	if n == 0 {
		return jute.AppendInt(b, 0)
	}
	if list.Settle() {
		return c.appendList(b, list.Names())
	}
	keys := v.ListKeys(path, n)
	if keys > state.ScanPace {
		c.mayPause()
		v.Pace(c.pace)
	}
	if !c.scan.Expect(keys) {
		return b
	}
	mark, count := len(b), 0
	b = jute.AppendInt(b, 0)
	names := len(b)
	v.EachChild(path, n, func(name []byte) {
		b = jute.AppendBuffer(b, name)
		count++
	})
	jute.AppendInt(b[:mark], int32(count))
	list.Keep(b[names:])
	return b
}

// appendList appends a list that is in memory. A long one pauses as often as other data of its length.
func (c *queries) appendList(b []byte, names *childlist.List) []byte {
	if names.Bytes() <= largeData {
		return names.Append(b)
	}
	c.mayPause()
	if !c.scan.Expect(limits.KeysOf(names.Bytes())) {
		return b
	}
	pauseBytes := state.ScanPace * limits.BytesPerKey
	since := 0
	return names.AppendPaced(b, func(bytes int) bool {
		since += bytes
		if since < pauseBytes {
			return true
		}
		since -= pauseBytes
		return c.pace()
	})
}
