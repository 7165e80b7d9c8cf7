package shell

import (
	"encoding/base64"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"zkd/jute"
	"zkd/jute/client/session"
	"zkd/jute/client/subtree"
)

// statJSON is a Stat.
type statJSON struct {
	Czxid          jute.Zxid    `json:"czxid"`
	Mzxid          jute.Zxid    `json:"mzxid"`
	Pzxid          jute.Zxid    `json:"pzxid"`
	Ctime          time.Time    `json:"ctime"`
	Mtime          time.Time    `json:"mtime"`
	Version        jute.Version `json:"version"`
	Cversion       jute.Version `json:"cversion"`
	Aversion       jute.Version `json:"aversion"`
	EphemeralOwner string       `json:"ephemeralOwner,omitempty"` // as ids of sessions are written: 0x…
	DataLength     int32        `json:"dataLength"`
	NumChildren    int32        `json:"numChildren"`
}

func newStatJSON(s jute.Stat) *statJSON {
	j := &statJSON{Czxid: s.Czxid, Mzxid: s.Mzxid, Pzxid: s.Pzxid, Ctime: time.UnixMilli(int64(s.Ctime)).UTC(),
		Mtime: time.UnixMilli(int64(s.Mtime)).UTC(), Version: s.Version, Cversion: s.Cversion, Aversion: s.Aversion,
		DataLength: s.DataLength, NumChildren: s.NumChildren}
	if s.EphemeralOwner != 0 {
		j.EphemeralOwner = jute.Hex(s.EphemeralOwner)
	}
	return j
}

// nodeJSON is what is told of a znode.
type nodeJSON struct {
	Path string `json:"path"`
	subtree.Value

	Children []string           `json:"children,omitempty"`
	ACL      []subtree.ACLEntry `json:"acl,omitempty"`
	Stat     *statJSON          `json:"stat,omitempty"`
	Nodes    []*nodeJSON        `json:"nodes,omitempty"`
}

// stats prints a Stat if -s was given.
func (c *call) stats(stat jute.Stat) {
	if c.has("s") {
		c.out.print(statLines(stat, c.o.Zone))
	}
}

func runGet(c *call) error {
	if err := c.watchWord("get [-s] [-w] path"); err != nil {
		return err
	}
	path, err := c.path()
	if err != nil {
		return err
	}
	data, stat, err := c.session.Get(c.ctx, path, c.has("w"))
	if err != nil {
		return answered(err, "null")
	}
	return c.emit(nodeJSON{Path: path, Value: subtree.NewValue(data), Stat: newStatJSON(stat)}, func() {
		if data == nil {
			data = []byte("null")
		}
		switch {
		case c.has("x"):
			c.Shell.line(hexDump(data))
		case c.has("b"):
			c.Shell.line(base64.StdEncoding.EncodeToString(data))
		default:
			c.Shell.line(c.value(javaText(data)))
		}
		c.stats(stat)
	})
}

func runStat(c *call) error {
	if err := c.watchWord("stat [-w] path"); err != nil {
		return err
	}
	path, err := c.path()
	if err != nil {
		return err
	}
	stat, err := c.session.Exists(c.ctx, path, c.has("w"))
	if err != nil {
		return answered(err, "null")
	}
	return c.emit(nodeJSON{Path: path, Stat: newStatJSON(stat)}, func() { c.out.print(statLines(stat, c.o.Zone)) })
}

func runLs(c *call) error {
	if c.has("?") {
		c.Shell.line("usage: ls [options] path" + c.command.options.help())
	}
	if err := c.watchWord("ls [-w] path"); err != nil {
		return err
	}
	path, err := c.path()
	if err != nil {
		return err
	}
	if c.has("R") {
		return c.listTree(path, c.has("w"))
	}
	children, stat, err := c.session.Children(c.ctx, path, c.has("w"))
	if err != nil {
		return answered(err, "null")
	}
	slices.SortFunc(children, javaCompare)
	node := nodeJSON{Path: path, Children: children}
	if c.has("s") {
		node.Stat = newStatJSON(stat)
	}
	return c.emit(node, func() {
		c.out.print("[")
		for i, child := range children {
			if i > 0 {
				c.out.print(", ")
			}
			c.out.print(c.name(child))
		}
		c.out.print("]\n")
		c.stats(stat)
	})
}

// listTree is ls -R: each znode, its children, then what is below each of them.
func (c *call) listTree(path string, watch bool) error {
	if _, _, err := c.session.Get(c.ctx, path, watch); err != nil {
		return answered(err, "null")
	}
	show := func(path string) error {
		return c.emit(map[string]string{"path": path}, func() { c.Shell.line(c.name(path)) })
	}
	if err := show(path); err != nil {
		return err
	}
	return answered(c.visit(path, watch, show), "null")
}

// visit is ZKUtil.visitSubTreeDFSHelper: it calls f for each znode below path, brothers before what is below them.
func (c *call) visit(path string, watch bool, f func(path string) error) error {
	children, _, err := c.session.Children(c.ctx, path, watch)
	if session.CodeOf(err) == jute.NoNode {
		return nil // it was deleted meanwhile
	}
	if err != nil {
		return err
	}
	slices.SortFunc(children, javaCompare)
	for _, child := range children {
		if err := f(jute.ChildPath(path, child)); err != nil {
			return err
		}
	}
	for _, child := range children {
		if err := c.visit(jute.ChildPath(path, child), watch, f); err != nil {
			return err
		}
	}
	return nil
}

// javaCompare is String.compareTo: by 16-bit characters, so that those beyond U+FFFF come before the last ones below.
func javaCompare(a, b string) int {
	for i := 0; i < len(a) && i < len(b); i++ {
		if a[i] != b[i] {
			return compareRunes(a, b)
		}
	}
	return len(a) - len(b)
}

func compareRunes(a, b string) int {
	unit := func(r rune) rune { // the first 16 bits of a character
		if r > 0xffff {
			return 0xd800 + (r-0x10000)>>10
		}
		return r
	}
	for a != "" && b != "" {
		x, n := utf8.DecodeRuneInString(a)
		y, m := utf8.DecodeRuneInString(b)
		if x != y {
			if d := int(unit(x) - unit(y)); d != 0 {
				return d
			}
			return int(x - y)
		}
		a, b = a[n:], b[m:]
	}
	return len(a) - len(b)
}

func runGetACL(c *call) error {
	path, err := c.path()
	if err != nil {
		return err
	}
	acl, stat, err := c.session.ACL(c.ctx, path)
	if err != nil {
		return answered(err, "null")
	}
	return c.emit(nodeJSON{Path: path, ACL: subtree.NewACL(acl), Stat: newStatJSON(stat)}, func() {
		for _, a := range acl {
			c.Shell.line(c.shown(idText(a.ID)) + ": " + subtree.PermsText(a.Perms))
		}
		c.stats(stat)
	})
}

func runGetAllChildrenNumber(c *call) error {
	path, err := c.path()
	if err != nil {
		return err
	}
	n, err := c.session.Descendants(c.ctx, path)
	if err != nil {
		return answered(err, "null")
	}
	return c.emit(map[string]any{"path": path, "descendants": n}, func() { c.out.print(itoa(n) + "\n") })
}

func runGetEphemerals(c *call) error {
	prefix := "/"
	if len(c.args) > 1 {
		if prefix = c.args[1]; checkPath(prefix) != nil {
			return checkPath(prefix)
		}
	}
	paths, err := c.session.Ephemerals(c.ctx, prefix)
	if err != nil {
		return answered(err, "null")
	}
	return c.emit(paths, func() {
		shown := make([]string, len(paths))
		for i, p := range paths {
			shown[i] = c.name(p)
		}
		c.Shell.line("[" + strings.Join(shown, ", ") + "]")
	})
}
