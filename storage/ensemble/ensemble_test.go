package ensemble

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"zkd/jute"
	"zkd/storage/serverid"
)

// recorded is one reconfig that three servers of ZooKeeper 3.9.5 were sent, and what came of it. The version of the
// configuration before it is written as 7.
type recorded struct {
	Single                    bool // standaloneEnabled=false
	Before                    string
	Joining, Leaving, Members *string
	Version                   int64
	Code                      jute.Code
	After                     string // without the version
}

// request returns the request that was sent.
func (c *recorded) request() *jute.ReconfigRequest {
	r := &jute.ReconfigRequest{CurConfigID: c.Version}
	for i, s := range []*string{c.Joining, c.Leaving, c.Members} {
		if s == nil {
			r.Nulls |= 1 << i
			continue
		}
		*[]*string{&r.JoiningServers, &r.LeavingServers, &r.NewMembers}[i] = *s
	}
	return r
}

// TestApplyAnswersAsZooKeeper replays what was recorded from ZooKeeper 3.9.5, in two ensembles: with and without
// standaloneEnabled. NewConfigNoQuorum is not decided here.
func TestApplyAnswersAsZooKeeper(t *testing.T) {
	file, err := os.Open("testdata/reconfig.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close() //nolint:errcheck // opened for reading only
	lines := bufio.NewScanner(file)
	n := 0
	for ; lines.Scan(); n++ {
		var c recorded
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		before, err := Parse(c.Before)
		if err != nil {
			t.Fatal(err)
		}
		if before.Text() != c.Before {
			t.Fatalf("text\n%s\nwant\n%s", before.Text(), c.Before)
		}
		next, code, why := before.Apply(c.request(), Rules{SingleVoter: c.Single})
		want := c.Code
		if want == jute.NewConfigNoQuorum {
			want = jute.OK
		}
		if code != want || (code == jute.OK) != (why == "") {
			t.Errorf("line %d: %v (%s), want %v: %s", n+1, code, why, want, lines.Bytes())
		} else if c.Code == jute.OK && next.Members() != c.After {
			t.Errorf("line %d: %s", n+1, cmp.Diff(c.After, next.Members()))
		}
	}
	if err := lines.Err(); err != nil || n < 100 {
		t.Fatalf("%d cases: %v", n, err)
	}
}

// TestApplyIsStricter is what zkd refuses although ZooKeeper does not.
func TestApplyIsStricter(t *testing.T) {
	const two = "server.1=10.0.0.1:1:2;3\nserver.2=10.0.0.2:1:2;3\n"
	before, err := Parse(two + "version=7")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ joining, members, why string }{
		{"", two + "group.1=1:2", "groups and weights"},
		{"", two + "weight.1=1", "groups and weights"},
		{"", two + "server.0=10.0.0.3:1:2;3", "must be positive"},
		{"server.-1=10.0.0.3:1:2;3", "", "must be positive"},
		{"server.3=NAME:1:2;3,server.4=name:1:5;4", "", "servers 4 and 3 share name 1"},
		{"server.3=|;2181", "", "wanted host:port"},
		{"", two + `server.3=10.0.0.3:1:2\;3`, "may not hold"},
		{"server.3=na\rme:1:2;3", "", "must not have a blank"},
		{"server.3=name:1:2;an other:3", "", "must not have a blank"},
		{"server.3=[[name]:1:2;3", "", "must not have a blank"},
	} {
		r := &jute.ReconfigRequest{JoiningServers: c.joining, NewMembers: c.members, CurConfigID: 7}
		if c.members == "" {
			r.Nulls = 4
		}
		if _, code, why := before.Apply(r, Rules{}); code != jute.BadArguments || !strings.Contains(why, c.why) {
			t.Errorf("%+v: %v, %s", c, code, why)
		}
	}
}

// TestApplyIsBounded: what is beyond the bounds is refused before servers are compared with one another.
func TestApplyIsBounded(t *testing.T) {
	before, err := Parse("server.1=a:1:2;3\nserver.2=b:1:2;3")
	if err != nil {
		t.Fatal(err)
	}
	servers := func(n int) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf("server.%d=h%d:1:2;3", i+10, i))
		}
		return strings.Join(all, ",")
	}
	addresses := func(n int) string {
		return "server.9=" + strings.Repeat("c:1:2|", n-1) + "c:1:2;3"
	}
	joining := func(text string) *jute.ReconfigRequest {
		return &jute.ReconfigRequest{JoiningServers: text, CurConfigID: -1, Nulls: 1 << 2}
	}
	whole := func(text string) *jute.ReconfigRequest {
		return &jute.ReconfigRequest{NewMembers: text, CurConfigID: -1, Nulls: 1<<0 | 1<<1}
	}
	for i, c := range []struct {
		request *jute.ReconfigRequest
		want    jute.Code
	}{
		{joining(servers(serversMax)), jute.OK}, {joining(servers(serversMax + 1)), jute.BadArguments},
		{whole(servers(serversMax)), jute.OK}, {whole(servers(serversMax + 1)), jute.BadArguments},
		{joining(addresses(addressesMax)), jute.OK}, {joining(addresses(addressesMax + 1)), jute.BadArguments},
	} {
		if _, code, why := before.Apply(c.request, Rules{MultiAddress: true}); code != c.want {
			t.Errorf("request %d: %v (%s), want %v", i, code, why, c.want)
		}
	}
}

func TestSeveralAddresses(t *testing.T) {
	before, err := Parse("server.1=b:1:2|a:3:4:observer;5")
	if err != nil {
		t.Fatal(err)
	}
	if want := "server.1=a:3:4|b:1:2:observer;0.0.0.0:5\nversion=0"; before.Text() != want {
		t.Errorf("text %q, want %q", before.Text(), want)
	}
	r := &jute.ReconfigRequest{JoiningServers: "server.2=a:3:4|b:1:2;5,server.3=c:3:4;5", CurConfigID: -1, Nulls: 4}
	if _, code, why := before.Apply(r, Rules{}); code != jute.BadArguments || !strings.Contains(why, "multiAddress") {
		t.Errorf("%v, %s", code, why)
	}
	r.JoiningServers = "server.2=c:3:4|d:1:2;5,server.3=e:3:4;5"
	if _, code, why := before.Apply(r, Rules{MultiAddress: true}); code != jute.OK {
		t.Errorf("%v, %s", code, why)
	}
	if _, err := Parse("server.1=a:1:2:observer|b:1:2:participant"); err == nil {
		t.Error("two roles")
	}
}

func TestDiff(t *testing.T) {
	parse := func(text string) *Config {
		c, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return &c
	}
	from := parse("server.1=a:1:2;3\nserver.2=b:1:2;3\nserver.3=c:1:2:observer;3\nserver.4=d:1:2;3\nversion=1")
	to := parse("server.1=a:1:2;3\nserver.2=b:1:2:observer;3\nserver.3=c:1:5;3\nserver.5=e:1:2;3\nversion=2")
	ids := func(list []Server) (ids []uint64) {
		for i := range list {
			ids = append(ids, list[i].ID)
		}
		return ids
	}
	d := Diff(from, to)
	got := [][]uint64{ids(d.Added), ids(d.Removed), ids(d.Promoted), ids(d.Demoted), ids(d.Moved)}
	if diff := cmp.Diff([][]uint64{{5}, {4}, {3}, {2}, {3}}, got); diff != "" {
		t.Error(diff)
	}
	if same := Diff(to, to); d.Empty() || !same.Empty() {
		t.Error("what is empty and what is not")
	}
}

// FuzzApply checks that nothing in a request can break anything, and that what comes of it can be read again.
func FuzzApply(f *testing.F) {
	const two = "server.1=10.0.0.1:1:2;3\nserver.2=10.0.0.2:1:2:observer;3\nversion=7"
	f.Add("server.3=[::1]:1:2:observer;3", "1", "", uint8(4))
	f.Add("", "", two, uint8(0))
	f.Add("server.0=a:1:2;3,server.-2=b:1:2:observer;3", "2,0", "", uint8(4))
	f.Fuzz(func(t *testing.T, joining, leaving, members string, nulls uint8) {
		before, err := Parse(two)
		if err != nil {
			t.Fatal(err)
		}
		r := &jute.ReconfigRequest{JoiningServers: joining, LeavingServers: leaving, NewMembers: members,
			CurConfigID: -1, Nulls: jute.Nulls(nulls)}
		next, code, _ := before.Apply(r, Rules{SingleVoter: true, MultiAddress: true, AnyNumber: true})
		if code != jute.OK {
			return
		}
		again, err := Parse(next.Text())
		if err != nil {
			t.Fatalf("%q: %v", next.Text(), err)
		}
		if diff := cmp.Diff(next, again); diff != "" {
			t.Errorf("read again: %s", diff)
		}
	})
}

// TestAnyNumber is of servers with numbers that raft has no place for: the text has them, the ids are others.
func TestAnyNumber(t *testing.T) {
	const text = "server.-2=c:1:2:observer\nserver.0=a:1:2:participant;0.0.0.0:3\nserver.1=b:1:2:participant\n" +
		"version=0"
	c, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if c.Text() != text {
		t.Errorf("text %q, want %q", c.Text(), text)
	}
	if s, ok := c.Server(serverid.Of(0)); !ok || s.ClientAddr != "0.0.0.0:3" {
		t.Errorf("server 0 is %+v", s)
	}
	if _, ok := c.Server(serverid.None); ok {
		t.Error("a server has the id of nobody")
	}
	r := &jute.ReconfigRequest{JoiningServers: "server.0=d:1:2;4,server.-3=e:1:2;5", LeavingServers: "-2,-1",
		CurConfigID: -1, Nulls: 1 << 2}
	next, code, why := c.Apply(r, Rules{AnyNumber: true})
	const want = "server.-3=e:1:2:participant;0.0.0.0:5\nserver.0=d:1:2:participant;0.0.0.0:4\n" +
		"server.1=b:1:2:participant\n"
	if next.Members() != want {
		t.Errorf("%v, %s: %q", code, why, next.Members())
	}
	for _, joining := range []string{"server.-1=f:1:2;6", "server.-9223372036854775808=f:1:2;6"} {
		r.JoiningServers = joining
		_, code, why := c.Apply(r, Rules{AnyNumber: true})
		if code != jute.BadArguments || !strings.Contains(why, "no server") {
			t.Errorf("%s: %v, %s", joining, code, why)
		}
	}
	if _, err := Parse("server.-1=f:1:2;6"); err == nil {
		t.Error("-1 is somebody")
	}
}
