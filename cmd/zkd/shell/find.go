package shell

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"zkd/jute"
	"zkd/jute/client/subtree"
)

// runTree draws a subtree.
func runTree(c *call) error {
	root, err := pathOrRoot(c)
	if err != nil {
		return err
	}
	depth, err := c.number("L", -1, 32)
	if err != nil {
		return err
	}
	w := &subtree.Walker{Session: c.session, Data: c.has("v"), Depth: int(depth)}
	var above []bool // for each level: whether the znode there was the last of its brothers
	denied := denials{call: c}
	count := 0
	err = w.Walk(c.ctx, root, func(n *subtree.Node) error {
		count++
		denied.note(n)
		above = append(above[:min(n.Depth, len(above))], n.Last)
		return c.emit(treeJSON{newFoundJSON(n, c.has("v")), n.Depth}, func() {
			c.Shell.line(branchText(above) + nodeText(c, n) + c.paint(colorFaint, briefText(c, n)))
		})
	})
	if err != nil {
		return answered(err, "null")
	}
	if !c.o.JSON {
		c.Shell.line(fmt.Sprintf("\n%d znodes", count))
	}
	return denied.err()
}

// treeJSON is a znode of a tree.
type treeJSON struct {
	foundJSON
	Depth int `json:"depth"`
}

// branchText draws the lines before a name.
func branchText(above []bool) string {
	var b strings.Builder
	for i, last := range above[1:] {
		switch end := i == len(above)-2; {
		case end && last:
			b.WriteString("└── ")
		case end:
			b.WriteString("├── ")
		case last:
			b.WriteString("    ")
		default:
			b.WriteString("│   ")
		}
	}
	return b.String()
}

// nodeText is the name of a znode in the colour of its kind.
func nodeText(c *call, n *subtree.Node) string {
	name := n.Name()
	if n.Depth == 0 {
		name = n.Path
	}
	switch {
	case n.Ephemeral():
		return c.paint(colorOwned, c.name(name))
	case n.Stat.NumChildren > 0:
		return c.paint(colorNode, c.name(name))
	}
	return c.name(name)
}

// treeValueMax is how much of a value a tree shows.
const treeValueMax = 60

// briefText is what a tree says behind a name.
func briefText(c *call, n *subtree.Node) string {
	var parts []string
	if n.Ephemeral() {
		parts = append(parts, "ephemeral of "+jute.Hex(n.Stat.EphemeralOwner))
	}
	if n.Stat.DataLength > 0 {
		parts = append(parts, bytesText(int64(n.Stat.DataLength)))
	}
	if n.Denied {
		parts = append(parts, "not readable")
	}
	text := ""
	if len(parts) > 0 {
		text = "  (" + strings.Join(parts, ", ") + ")"
	}
	if c.has("v") && len(n.Data) > 0 {
		value := javaText(n.Data)
		if cut := []rune(value); len(cut) > treeValueMax {
			value = string(cut[:treeValueMax]) + "…"
		}
		text += " " + escaped(value, false)
	}
	return text
}

// bytesText is a number of bytes in words.
func bytesText(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	value, names := float64(n)/unit, "KMGTPE"
	for value >= unit && len(names) > 1 {
		value, names = value/unit, names[1:]
	}
	return fmt.Sprintf("%.1f %ciB", value, names[0])
}

// pathOrRoot is the first word, which must be a path; the root if there is none.
func pathOrRoot(c *call) (string, error) {
	if len(c.args) < 2 {
		return "/", nil
	}
	return c.args[1], checkPath(c.args[1])
}

// foundJSON is a znode that was found.
type foundJSON struct {
	Path string `json:"path"`
	Kind string `json:"kind"`
	subtree.Value

	Stat *statJSON `json:"stat"`
}

func newFoundJSON(n *subtree.Node, values bool) foundJSON {
	j := foundJSON{Path: n.Path, Kind: n.Kind(), Stat: newStatJSON(n.Stat)}
	if values {
		j.Value = subtree.NewValue(n.Data)
	}
	return j
}

// test is one of find.
type test func(*subtree.Node) bool

// within reads +N, -N or N, with a unit: more than, less than, exactly.
func within(text string, number func(string) (int64, error)) (func(int64) bool, error) {
	n, err := number(strings.TrimLeft(text, "+-"))
	if err != nil {
		return nil, err
	}
	switch {
	case strings.HasPrefix(text, "+"):
		return func(x int64) bool { return x > n }, nil
	case strings.HasPrefix(text, "-"):
		return func(x int64) bool { return x < n }, nil
	}
	return func(x int64) bool { return x == n }, nil
}

// sizeOf reads a number of bytes, with k, m or g.
func sizeOf(text string) (int64, error) {
	unit := int64(1)
	if n := len(text) - 1; n > 0 {
		if factor := map[byte]int64{'k': 1 << 10, 'm': 1 << 20, 'g': 1 << 30}[text[n]|0x20]; factor > 0 {
			unit, text = factor, text[:n]
		}
	}
	n, err := strconv.ParseInt(text, 10, 32)
	return n * unit, err
}

// ageOf reads a duration, in which d stands for a day.
func ageOf(text string) (int64, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.ParseInt(days, 10, 32)
		return n * int64(24*time.Hour), err
	}
	d, err := time.ParseDuration(text)
	return int64(d), err
}

// findTests are what the options of find ask for.
func findTests(c *call) (all []test, err error) {
	add := func(name string, make func(value string) (test, error)) {
		value, given := c.values[name]
		if !given || err != nil {
			return
		}
		one, wrong := make(value)
		if wrong != nil {
			err = failed("-%s %q: %v", name, value, wrong)
			return
		}
		all = append(all, one)
	}
	add("name", func(v string) (test, error) {
		_, err := path.Match(v, "")
		return func(n *subtree.Node) bool { ok, _ := path.Match(v, n.Name()); return ok }, err
	})
	add("size", func(v string) (test, error) {
		is, err := within(v, sizeOf)
		return func(n *subtree.Node) bool { return is(int64(n.Stat.DataLength)) }, err
	})
	add("children", func(v string) (test, error) {
		is, err := within(v, func(s string) (int64, error) { return strconv.ParseInt(s, 10, 32) })
		return func(n *subtree.Node) bool { return is(int64(n.Stat.NumChildren)) }, err
	})
	age := func(of func(jute.Stat) jute.Millis) func(string) (test, error) {
		return func(v string) (test, error) {
			is, err := within(v, ageOf)
			now := c.o.Clock.Now()
			return func(n *subtree.Node) bool { return is(int64(now.Sub(time.UnixMilli(int64(of(n.Stat)))))) }, err
		}
	}
	add("mtime", age(func(s jute.Stat) jute.Millis { return s.Mtime }))
	add("ctime", age(func(s jute.Stat) jute.Millis { return s.Ctime }))
	add("type", func(v string) (test, error) {
		if v != "p" && v != "e" {
			return nil, errors.New("want p for persistent or e for ephemeral")
		}
		return func(n *subtree.Node) bool { return n.Ephemeral() == (v == "e") }, nil
	})
	add("owner", func(v string) (test, error) {
		id, err := strconv.ParseUint(strings.TrimPrefix(v, "0x"), 16, 64)
		return func(n *subtree.Node) bool { return uint64(n.Stat.EphemeralOwner) == id }, err
	})
	add("regex", func(v string) (test, error) {
		re, err := regexp.Compile(v)
		return func(n *subtree.Node) bool { return !n.Denied && re.Match(n.Data) }, err
	})
	return all, err
}

// runFind finds znodes.
func runFind(c *call) error {
	root, err := pathOrRoot(c)
	if err != nil {
		return err
	}
	tests, err := findTests(c)
	if err != nil {
		return err
	}
	depth, err := c.number("L", -1, 32)
	if err != nil {
		return err
	}
	w := &subtree.Walker{Session: c.session, Data: c.has("regex"), Depth: int(depth)}
	denied := denials{call: c}
	err = w.Walk(c.ctx, root, func(n *subtree.Node) error {
		denied.note(n)
		for _, is := range tests {
			if !is(n) {
				return nil
			}
		}
		return c.emit(newFoundJSON(n, c.has("regex")), func() {
			text := c.name(n.Path)
			if c.has("s") {
				text = fmt.Sprintf("%10d %6d %s %s", n.Stat.DataLength, n.Stat.NumChildren,
					time.UnixMilli(int64(n.Stat.Mtime)).In(c.o.Zone).Format(time.DateTime), text)
			}
			c.Shell.line(text)
		})
	})
	if err != nil {
		return answered(err, "null")
	}
	return denied.err()
}

// usage is what a subtree takes.
type usage struct {
	Path    string `json:"path"`
	Znodes  int    `json:"znodes"`
	Bytes   int64  `json:"bytes"`
	Largest int64  `json:"largest"` // value in it
}

func (u *usage) add(n *subtree.Node) {
	u.Znodes++
	u.Bytes += int64(n.Stat.DataLength)
	u.Largest = max(u.Largest, int64(n.Stat.DataLength))
}

// runDu sums up what subtrees take.
func runDu(c *call) error {
	root, err := pathOrRoot(c)
	if err != nil {
		return err
	}
	depth, err := c.number("d", 1, 32)
	if err != nil {
		return err
	}
	var all []*usage
	var open []*usage // those that the walk is in, by their depth
	denied := denials{call: c}
	w := &subtree.Walker{Session: c.session, Depth: -1}
	err = w.Walk(c.ctx, root, func(n *subtree.Node) error {
		denied.note(n)
		open = open[:min(n.Depth, len(open))]
		if n.Depth <= int(depth) {
			one := &usage{Path: n.Path}
			open, all = append(open, one), append(all, one)
		}
		for _, u := range open {
			u.add(n)
		}
		return nil
	})
	if err != nil {
		return answered(err, "null")
	}
	if len(all) > 1 {
		slices.SortStableFunc(all[1:], func(a, b *usage) int { return cmp.Compare(b.Bytes, a.Bytes) })
		all = append(all[1:], all[0]) // the whole comes last
	}
	for _, u := range all {
		if err := c.emit(u, func() {
			c.Shell.line(fmt.Sprintf("%10s %8d znodes  %s", bytesText(u.Bytes), u.Znodes, c.name(u.Path)))
		}); err != nil {
			return err
		}
	}
	return denied.err()
}

// denials counts what a walk may not read, and says so.
type denials struct {
	call  *call
	count int
}

// note tells of a znode that was denied.
func (d *denials) note(n *subtree.Node) {
	if n.Denied {
		d.count++
		d.call.err.print("Insufficient permission : " + d.call.name(n.Path) + "\n")
	}
}

// err is the error of a walk that has not seen all.
func (d *denials) err() error {
	if d.count == 0 {
		return nil
	}
	return failed("%d znodes may not be read", d.count)
}
