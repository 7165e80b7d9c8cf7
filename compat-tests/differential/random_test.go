package differential_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// generator makes random scripts. Its paths, sessions and values are few, so that operations meet.
type generator struct {
	rng   *rand.Rand
	lines []line
}

// conns are the connections of a random script, each with a session of its own.
var conns = []string{"a", "b", "c"}

// Values to draw from; one that stands more than once is drawn more often.
var (
	somePaths = strings.Fields("~/a ~/a ~/a ~/a/b ~/a/b ~/a/b/c ~/a/c ~/b ~/b ~/b/b ~/b/d ~/e ~/e/f ~ ~ " +
		"~/s0000000000 ~/s0000000001 ~/s0000000003 ~/a/s0000000000 ~/a/s0000000001 ~/a/s0000000002")
	badPaths = []string{
		`~/a/`, `~//a`, `~/./a`, `~/a/..`, `""`, `/`, `null`, `a`, `"~/a\x01"`, `"~/a\x00b"`, `"~/\ud800"`,
		`"~/\ue000"`,
		`"~/𝄞"`, `"~/é"`, `"~/\xff"`, `/zookeeper`, `~/none/x`, `~/none/`,
	}
	sequentials = strings.Fields("~/s ~/a/s ~/a/ ~/b/s ~/none/s ~/")
	someData    = []string{"", "x", "yy", "null", "zzzz", `"\x00\xff"`}
	someACLs    = append(strings.Split(strings.Repeat("world:anyone:31;", 40), ";")[:40],
		"world:anyone:1", "world:anyone:30", "world:anyone:29", "auth::31", "auth:x:3", "ip:127.0.0.1:31",
		"ip:10.0.0.0/8:31",
		"digest:u1:d5hTT9NTTQZpCmjRGdPbRAyqh1k=:31", "digest:u:p:1,world:anyone:1", "world:bob:31", "null", "",
		"nosuch:x:31", "world:anyone:31,world:anyone:31", "super:x:31", "digest:nocolon:31", "ip:300.0.0.1:31",
		"world:anyone:0", "world:anyone:255", "sasl:bob:31", "x509:CN=a:31", "ip:::1:31")
	versions = strings.Fields("-1 -1 -1 -1 0 0 1 1 2 3 -2 2147483647")
)

func pick[T any](rng *rand.Rand, from []T) T { return from[rng.IntN(len(from))] }

// generate returns the random script of a seed with about n requests.
func generate(seed uint64, n int) []line {
	g := &generator{rng: rand.New(rand.NewPCG(seed, 1))} //nolint:gosec // it is to be repeatable
	for _, conn := range conns {
		g.open(conn)
	}
	for _, path := range strings.Fields("~/a ~/b ~/e ~/a/b ~/b/b")[:g.rng.IntN(6)] {
		g.add(pick(g.rng, conns), pick(g.rng, []string{"create", "create2", "createContainer"}), []string{path})
	}
	for len(g.lines) < n {
		conn := pick(g.rng, conns)
		switch g.rng.IntN(40) {
		case 0:
			g.alone(conn)
		default:
			for i := range 1 + g.rng.IntN(8)*g.rng.IntN(2) {
				l := g.request()
				l.conn, l.joined = conn, i > 0
				g.lines = append(g.lines, l)
				if alone(l) {
					break
				}
			}
		}
	}
	return g.lines
}

func (g *generator) add(conn, verb string, args []string, keys ...string) {
	l := op(verb, args, keys...)
	l.conn = conn
	g.lines = append(g.lines, l)
}

func op(verb string, args []string, keys ...string) line {
	l := line{verb: verb, args: args, keys: map[string]string{}}
	for i := 0; i < len(keys); i += 2 {
		l.keys[keys[i]] = keys[i+1]
		l.order = append(l.order, keys[i])
	}
	return l
}

// alone adds what cannot be in one segment with other requests: what ends connections, and what may be answered out
// of order.
func (g *generator) alone(conn string) {
	switch g.rng.IntN(10) {
	case 0, 1:
		g.add(conn, "close", nil)
		g.open(conn)
	case 2, 3:
		g.add(conn, "drop", nil)
		g.add(conn, "open", nil, "timeout", "60000", "session", conn)
	case 4:
		g.add(conn, "open", nil, "timeout", "60000", "session", conn)
	case 5:
		g.add(conn, "auth", []string{"digest", "super:superpw"})
	case 6:
		g.add(conn, "auth", []string{"ip", "x"})
	default:
		g.authenticate(conn)
	}
}

// open makes a session and, every other time, up to fifteen identities: from twelve on the order of all is another one.
func (g *generator) open(conn string) {
	g.add(conn, "open", nil, "timeout", "60000")
	for range g.rng.IntN(2) * g.rng.IntN(16) {
		g.authenticate(conn)
	}
}

func (g *generator) authenticate(conn string) {
	user := pick(g.rng, []string{"u1:p1", "u2:p2", "nocolon", "", fmt.Sprintf("w%d:", g.rng.IntN(100))})
	g.add(conn, "auth", []string{"digest", user})
}

// weighted is one kind of request and how often it comes.
type weighted struct {
	weight int
	make   func(*generator) line
}

func requests() []weighted {
	return []weighted{
		{34, (*generator).create}, {10, (*generator).remove}, {14, (*generator).setData}, {6, (*generator).setACL},
		{24, (*generator).read}, {12, (*generator).multi}, {4, (*generator).multiRead}, {8, (*generator).watchRequest},
		{4, (*generator).setWatches}, {3, (*generator).ofSession}, {2, (*generator).malformed},
	}
}

func (g *generator) request() line {
	total := 0
	for _, w := range requests() {
		total += w.weight
	}
	at := g.rng.IntN(total)
	for _, w := range requests() {
		if at -= w.weight; at < 0 {
			return w.make(g)
		}
	}
	panic("unreachable: at is below the total")
}

func (g *generator) path() string {
	if g.rng.IntN(40) == 0 {
		return pick(g.rng, badPaths)
	}
	return pick(g.rng, somePaths)
}

func (g *generator) create() line {
	path, mode := g.path(), pick(g.rng, []string{"0", "0", "0", "0", "1", "1", "2", "3"})
	if mode > "1" {
		path = pick(g.rng, sequentials)
	}
	keys := []string{"data", pick(g.rng, someData), "acl", pick(g.rng, someACLs)}
	switch g.rng.IntN(12) {
	case 0:
		return op("createContainer", []string{path}, append(keys, "mode", "4")...)
	case 1:
		ttl := pick(g.rng, []string{"100000000", "100000000", "1099511627775", "0", "-1", "1099511627776"})
		if mode > "1" {
			return op("createTTL", []string{path}, append(keys, "mode", "6", "ttl", ttl)...)
		}
		return op("createTTL", []string{path}, append(keys, "mode", "5", "ttl", ttl)...)
	case 2:
		return op("create", []string{path}, append(keys, "mode", pick(g.rng, []string{"7", "-1", "5", "6"}))...)
	}
	return op(pick(g.rng, []string{"create", "create2"}), []string{path}, append(keys, "mode", mode)...)
}

func (g *generator) remove() line {
	return op("delete", []string{g.path()}, "version", pick(g.rng, versions))
}

func (g *generator) setData() line {
	return op("setData", []string{g.path()}, "data", pick(g.rng, someData), "version", pick(g.rng, versions))
}

func (g *generator) setACL() line {
	return op("setACL", []string{g.path()}, "acl", pick(g.rng, someACLs), "version", pick(g.rng, versions))
}

func (g *generator) check() line {
	return op("check", []string{g.path()}, "version", pick(g.rng, versions))
}

func (g *generator) read() line {
	watched := []string{"exists", "getData", "getChildren", "getChildren2"}
	if g.rng.IntN(4) > 0 {
		return op(pick(g.rng, watched), []string{g.path()}, "watch", fmt.Sprint(g.rng.IntN(2)))
	}
	return op(pick(g.rng, []string{"getACL", "getAllChildrenNumber"}), []string{g.path()})
}

func (g *generator) multi() line {
	l := line{verb: "multi"}
	for range g.rng.IntN(6) {
		switch g.rng.IntN(7) {
		case 0, 1, 2:
			l.ops = append(l.ops, g.create())
		case 3, 4:
			l.ops = append(l.ops, g.remove())
		case 5:
			l.ops = append(l.ops, g.setData())
		default:
			l.ops = append(l.ops, g.check())
		}
	}
	return l
}

func (g *generator) multiRead() line {
	l := line{verb: "multiRead"}
	for range g.rng.IntN(4) {
		verb := pick(g.rng, []string{"getData", "getChildren"})
		l.ops = append(l.ops, op(verb, []string{g.path()}, "watch", fmt.Sprint(g.rng.IntN(2))))
	}
	return l
}

func (g *generator) watchRequest() line {
	if g.rng.IntN(2) == 0 {
		return op("addWatch", []string{g.path()}, "mode", pick(g.rng, []string{"0", "0", "0", "1", "1", "1", "2"}))
	}
	verb := pick(g.rng, []string{"checkWatches", "removeWatches"})
	return op(verb, []string{g.path()}, "type", fmt.Sprint(1+g.rng.IntN(6)))
}

func (g *generator) setWatches() line {
	verb, names := "setWatches", []string{"data", "exist", "child"}
	if g.rng.IntN(2) == 0 {
		verb, names = "setWatches2", append(names, "persistent", "recursive")
	}
	keys := []string{"zxid", fmt.Sprint(g.rng.IntN(150))}
	for _, name := range names {
		var paths []string
		for range g.rng.IntN(3) {
			paths = append(paths, pick(g.rng, somePaths))
		}
		keys = append(keys, name, strings.Join(paths, ","))
	}
	return op(verb, nil, keys...)
}

func (g *generator) ofSession() line {
	switch g.rng.IntN(5) {
	case 0:
		return op("sync", []string{g.path()})
	case 1:
		return op("whoAmI", nil)
	case 2:
		return op("ping", nil)
	case 3:
		return op("reconfig", nil)
	}
	return op("getEphemerals", []string{g.path()})
}

// malformed returns a request whose body ends early.
func (g *generator) malformed() line {
	of := g.request()
	for of.verb == "ping" || of.verb == "whoAmI" || of.verb == "raw" || of.verb == "sasl" {
		of = g.request()
	}
	e := encoder{root: "/malformed"}
	body, err := e.body(nil, of)
	if err != nil || len(body) == 0 {
		return op("ping", nil)
	}
	return op("raw", nil, "op", fmt.Sprint(int32(opOf(of))), "body", fmt.Sprintf("%x", body[:g.rng.IntN(len(body))]))
}
