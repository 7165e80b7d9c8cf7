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
	w := &walker{session: c.session, data: c.has("v"), depth: int(depth)}
	var above []bool // for each level: whether the znode there was the last of its brothers
	denied := denials{call: c}
	count := 0
	err = w.walk(c.ctx, root, func(n *node) error {
		count++
		denied.note(n)
		above = append(above[:min(n.depth, len(above))], n.last)
		return c.emit(treeJSON{newFoundJSON(n, c.has("v")), n.depth}, func() {
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
func nodeText(c *call, n *node) string {
	name := n.name()
	if n.depth == 0 {
		name = n.path
	}
	switch {
	case n.ephemeral():
		return c.paint(colorOwned, c.name(name))
	case n.stat.NumChildren > 0:
		return c.paint(colorNode, c.name(name))
	}
	return c.name(name)
}

// treeValueMax is how much of a value a tree shows.
const treeValueMax = 60

// briefText is what a tree says behind a name.
func briefText(c *call, n *node) string {
	var parts []string
	if n.ephemeral() {
		parts = append(parts, "ephemeral of "+sessionText(n.stat.EphemeralOwner))
	}
	if n.stat.DataLength > 0 {
		parts = append(parts, bytesText(int64(n.stat.DataLength)))
	}
	if n.denied {
		parts = append(parts, "not readable")
	}
	text := ""
	if len(parts) > 0 {
		text = "  (" + strings.Join(parts, ", ") + ")"
	}
	if c.has("v") && len(n.data) > 0 {
		value := javaText(n.data)
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
	dataJSON

	Stat *statJSON `json:"stat"`
}

func newFoundJSON(n *node, values bool) foundJSON {
	j := foundJSON{Path: n.path, Kind: n.kind(), Stat: newStatJSON(n.stat)}
	if values {
		j.dataJSON = newDataJSON(n.data)
	}
	return j
}

// test is one of find.
type test func(*node) bool

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
		return func(n *node) bool { ok, _ := path.Match(v, n.name()); return ok }, err
	})
	add("size", func(v string) (test, error) {
		is, err := within(v, sizeOf)
		return func(n *node) bool { return is(int64(n.stat.DataLength)) }, err
	})
	add("children", func(v string) (test, error) {
		is, err := within(v, func(s string) (int64, error) { return strconv.ParseInt(s, 10, 32) })
		return func(n *node) bool { return is(int64(n.stat.NumChildren)) }, err
	})
	age := func(of func(jute.Stat) jute.Millis) func(string) (test, error) {
		return func(v string) (test, error) {
			is, err := within(v, ageOf)
			now := c.o.Clock.Now()
			return func(n *node) bool { return is(int64(now.Sub(time.UnixMilli(int64(of(n.stat)))))) }, err
		}
	}
	add("mtime", age(func(s jute.Stat) jute.Millis { return s.Mtime }))
	add("ctime", age(func(s jute.Stat) jute.Millis { return s.Ctime }))
	add("type", func(v string) (test, error) {
		if v != "p" && v != "e" {
			return nil, errors.New("want p for persistent or e for ephemeral")
		}
		return func(n *node) bool { return n.ephemeral() == (v == "e") }, nil
	})
	add("owner", func(v string) (test, error) {
		id, err := strconv.ParseUint(strings.TrimPrefix(v, "0x"), 16, 64)
		return func(n *node) bool { return uint64(n.stat.EphemeralOwner) == id }, err
	})
	add("regex", func(v string) (test, error) {
		re, err := regexp.Compile(v)
		return func(n *node) bool { return !n.denied && re.Match(n.data) }, err
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
	w := &walker{session: c.session, data: c.has("regex"), depth: int(depth)}
	denied := denials{call: c}
	err = w.walk(c.ctx, root, func(n *node) error {
		denied.note(n)
		for _, is := range tests {
			if !is(n) {
				return nil
			}
		}
		return c.emit(newFoundJSON(n, c.has("regex")), func() {
			text := c.name(n.path)
			if c.has("s") {
				text = fmt.Sprintf("%10d %6d %s %s", n.stat.DataLength, n.stat.NumChildren,
					time.UnixMilli(int64(n.stat.Mtime)).In(c.o.Zone).Format(time.DateTime), text)
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

func (u *usage) add(n *node) {
	u.Znodes++
	u.Bytes += int64(n.stat.DataLength)
	u.Largest = max(u.Largest, int64(n.stat.DataLength))
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
	w := &walker{session: c.session, depth: -1}
	err = w.walk(c.ctx, root, func(n *node) error {
		denied.note(n)
		open = open[:min(n.depth, len(open))]
		if n.depth <= int(depth) {
			one := &usage{Path: n.path}
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
