package console

import (
	"strings"
	"testing"
)

// configuration is that of three voters and an observer.
const configuration = "server.1=a:1:2:participant;3\nserver.2=b:1:2:participant;3\nserver.3=c:1:2:participant;3\n" +
	"server.4=d:1:2:observer;3\nversion=10000000f\n"

func TestPreviewsSayWhatAChangeMeans(t *testing.T) {
	rows, version := parseMembers(configuration)
	if len(rows) != 4 || !rows[3].Observer || version != 0x10000000f {
		t.Fatalf("%+v %x", rows, version)
	}
	for i := range rows {
		rows[i].State = "follower"
	}
	rows[0].State, rows[2].State = "leader", "away"
	for name, c := range map[string]struct{ joining, leaving, says, warns string }{
		"a voter leaves":          {"", "2", "Voters: 2 instead of 3. A majority is 2, so 0 servers", "An even number"},
		"the leader leaves":       {"", "1", "Server 1 leaves", "It leads now"},
		"who is needed leaves":    {"", "2", "", "Only 1 of the new voters"},
		"an observer leaves":      {"", "4", "Voters: 3 instead of 3", ""},
		"a voter joins":           {"server.5=e:1:2;3", "", "Server 5 joins", "An even number"},
		"an observer joins":       {"server.5=e:1:2:observer;3", "", "Voters: 3 instead of 3", ""},
		"an observer is to vote":  {"server.4=d:1:2:participant;3", "", "Server 4 changes from", "An even number"},
		"one goes as another one": {"server.5=e:1:2;3", "3", "Voters: 3 instead of 3", ""},
	} {
		m := &members{Rows: rows, Version: version}
		p, err := m.preview(c.joining, c.leaving)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if says := strings.Join(p.Says, "\n"); !strings.Contains(says, c.says) {
			t.Errorf("%s: says %q", name, says)
		}
		if warns := strings.Join(p.Warnings, "\n"); !strings.Contains(warns, c.warns) || c.warns == "" && warns != "" {
			t.Errorf("%s: warns %q", name, warns)
		}
	}
	for _, c := range [][2]string{{"", ""}, {"", "9"}, {"server.x=a:1:2", ""}, {"a:1:2;3", ""}, {"server.5=", ""},
		{"server.5=e:1:2;3,server.6=f:1:2;3", ""}} {
		if p, err := (&members{Rows: rows}).preview(c[0], c[1]); err == nil {
			t.Errorf("%q: %+v", c, p)
		}
	}
}

func TestUseOfQuotas(t *testing.T) {
	for _, c := range []struct {
		used, soft, hard int64
		level            string
	}{
		{5, -1, -1, ""}, {7, 10, -1, ""}, {8, 10, -1, "warning"}, {10, 10, -1, "warning"}, {11, 10, -1, "bad"},
		{10, -1, 10, "bad"}, {9, 100, 10, "warning"}, {-1, 10, -1, ""},
	} {
		if u := use(c.used, c.soft, c.hard); u.Level != c.level {
			t.Errorf("%+v: %+v", c, u)
		}
	}
}
