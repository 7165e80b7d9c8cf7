package jaas

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// module is one module of a section in tests.
func module(class string, options ...string) Module {
	m := Module{Class: class, Flag: "required"}
	for i := 0; i < len(options); i += 2 {
		m.Options = append(m.Options, Option{options[i], options[i+1]})
	}
	return m
}

// plain forgets the lines.
func plain(c *Config) []Section {
	sections := c.Sections
	for i := range sections {
		sections[i].Line = 0
		for j := range sections[i].Modules {
			sections[i].Modules[j].Line = 0
		}
	}
	return sections
}

// TestParse has what Java 17's Configuration makes of the same files (measured, 2026-11).
func TestParse(t *testing.T) {
	digest := "org.apache.zookeeper.server.auth.DigestLoginModule"
	for _, c := range []struct {
		name, text string
		want       []Section
	}{
		{"nothing", "", nil},
		{"comments alone", "// a\n/* b\n c */\n", nil},
		{
			"ZooKeeper's example",
			"Server {\n  " + digest + " required\n  user_super=\"adminsecret\"\n  user_bob=\"bobsecret\";\n};\n",
			[]Section{{Name: "Server", Modules: []Module{
				module(digest, "user_super", "adminsecret", "user_bob", "bobsecret"),
			}}},
		},
		{
			"several sections and modules",
			"A{x.Y required;z.W REQUIRED a=b c=\"d e\";};B {};",
			[]Section{
				{Name: "A", Modules: []Module{module("x.Y"), module("z.W", "a", "b", "c", "d e")}}, {Name: "B"},
			},
		},
		{
			"quoted everywhere",
			`"My Server" { "a.B" "Required" "k 1"="v"; };`,
			[]Section{{Name: "My Server", Modules: []Module{module("a.B", "k 1", "v")}}},
		},
		{
			"escapes",
			`A { m required k="q\"b\\n\nt\t\101\7\477x\é;{}=//"; };`,
			[]Section{{Name: "A", Modules: []Module{module("m", "k", "q\"b\\n\nt\tA\a'7xé;{}=//")}}},
		},
		{
			"comments between all",
			"A/**/{//x\nm/*\n*/required k/**/=/**/v;// y\r\n};",
			[]Section{{Name: "A", Modules: []Module{module("m", "k", "v")}}},
		},
		{
			"words",
			"A { m$_*-.1é required user_é-1.2=w; };",
			[]Section{{Name: "A", Modules: []Module{module("m$_*-.1é", "user_é-1.2", "w")}}},
		},
	} {
		got, err := Parse([]byte(c.text))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if diff := cmp.Diff(c.want, plain(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// TestWrong: what is refused, where, and why. Java refuses the same, but for the cases that doc.go names.
func TestWrong(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"no section", "{", "line 1: expected the name of a section, found '{'"},
		{"no module", "A {\n required", "line 2: expected required, requisite, sufficient or optional, found the end"},
		{"no flag", "A {\n m\n k=\"v\";};", "line 3: expected required, requisite, sufficient or optional after"},
		{"no semicolon after the module", "A { m required k=v };", "line 1: expected an option or ';', found '}'"},
		{"no semicolon after the section", "A { m required k=v; }\nB {};", "line 2: expected ';', found a word"},
		{"no value", "A { m required k=;};", "line 1: expected the value of the option, in quotation marks, found ';'"},
		{"no equals", "A { m required\n k \"v\";};", "line 2: expected '=', found a word"},
		{"a number", "A { m required\nk=123;};", "line 2: a value that begins with a digit or a dot must be"},
		{"single quotes", "A { m required\nk='v';};", "line 2: a value must be in double quotation marks"},
		{"a path", "A { m required k=/etc/keytab;};", "line 1: a single / must be in quotation marks"},
		{"a dash first", "A { m required k=-v;};", "line 1: unexpected character '-'"},
		{"a comma", "A { m required k=v, l=w;};", "line 1: unexpected character ','"},
		{"an open string", "A { m required\nk=\"v;\n};", "line 2: the string that begins here does not end"},
		{"an open string at the end", "A { m required k=\"v", "line 1: the string that begins here has no end"},
		{"an escaped end", "A { m required k=\"v\\\n\";};", "line 1: the string that begins here does not end"},
		{"an open comment", "\n/* A", "line 2: the comment that begins here has no end"},
		{"a section twice", "A {};\nA {};", `line 2: section "A" was there already in line 1`},
		{"an option twice", "A { m required k=v\nk=v;};", `line 2: the module has the option "k" twice`},
		{"a property", "A { m required k=\"${user.home}/x\";};", `line 1: the value of the option "k" has ${`},
		{"not text", "A { m required k=\"\xff\";};", "is not text in UTF-8"},
		{"a control character", "A { m required k=\u0085;};", "line 1: a control character"},
		{"lines of all kinds", "\r\n\r\r\n\n}", "line 5: expected the name of a section"},
	} {
		_, err := Parse([]byte(c.text))
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s…", c.name, err, c.want)
		}
	}
}

func TestSections(t *testing.T) {
	c, err := Parse([]byte(`Client { m required username="u"; };
Server { a required user_x="1" user_y="2" debug="true"; b required user_x="3" user_="4"; };`))
	if err != nil {
		t.Fatal(err)
	}
	s, ok := c.Section("Server")
	if !ok || s.Line != 2 || len(s.Modules) != 2 || s.Modules[1].Option("user_x") != "3" ||
		s.Modules[1].Option("none") != "" {
		t.Errorf("the section is %+v, %v", s, ok)
	}
	if diff := cmp.Diff(map[string]string{"x": "3", "y": "2", "": "4"}, s.Users()); diff != "" {
		t.Errorf("users (-want +got):\n%s", diff)
	}
	if _, ok := c.Section("server"); ok {
		t.Error("the name of a section was not compared exactly")
	}
}

func TestParseUsers(t *testing.T) {
	got, err := ParseUsers([]byte("# users\n\nbob:bob secret \r\n  \nsuper:a:b#c\né:ü"))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"bob": "bob secret ", "super": "a:b#c", "é": "ü"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("users (-want +got):\n%s", diff)
	}
	for text, want := range map[string]string{
		"":                         "holds no user",
		"# none\n":                 "holds no user",
		"a:s3cret\ns3cret":         "line 2: expected name:password",
		":s3cret":                  "line 1: the name",
		" a:s3cret":                "line 1: the name",
		"a:":                       `line 1: user "a" has no password`,
		"a:s3cret\nb:c\na:s3cret2": `line 3: user "a" was there already`,
		"a:\xff":                   "is not text",
	} {
		_, err := ParseUsers([]byte(text))
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: %v, want %s…", text, err, want)
		}
	}
}

// FuzzParse: any bytes are a configuration or an error in one line that holds no value, and the same twice.
func FuzzParse(f *testing.F) {
	f.Add([]byte("Server {\n m required\n user_a=\"secret\"\n user_b=\"\\101\";\n};\n"))
	f.Add([]byte("/* x */ A{m optional k=v;};// y"))
	f.Add([]byte("A { m required k=\"${x}\";};"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := Parse(text)
		again, errAgain := Parse(text)
		if (err == nil) != (errAgain == nil) || !cmp.Equal(c, again) {
			t.Fatalf("two outcomes: %v, %v", err, errAgain)
		}
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Fatalf("an error of several lines: %q", err)
			}
			return
		}
		size := 0
		for _, s := range c.Sections {
			size += len(s.Name)
			for _, m := range s.Modules {
				for _, o := range m.Options {
					size += len(o.Key) + len(o.Value)
				}
			}
			s.Users()
		}
		if size > 2*len(text) {
			t.Fatalf("%d bytes of text gave %d bytes", len(text), size)
		}
	})
}

// FuzzParseUsers: any bytes are users or an error in one line.
func FuzzParseUsers(f *testing.F) {
	f.Add([]byte("# a\nbob:secret\nsuper:x:y\r\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		users, err := ParseUsers(text)
		if (err == nil) != (len(users) > 0) || err != nil && strings.Contains(err.Error(), "\n") {
			t.Fatalf("%d users and error %v", len(users), err)
		}
	})
}

func TestParseKerberos(t *testing.T) {
	for text, want := range map[string]Kerberos{
		"": {ClockSkew: 5 * time.Minute},
		"[libdefaults]\n default_realm = A.B\r\n clockskew=10s # no\n": {},
		"include /etc/x\n[realms]\ndefault_realm = X\n[libdefaults] # x\n# default_realm = Y\n" +
			" default_realm = \"A.B\"\ndefault_realm = C\nclockskew = 10\n" +
			"[realms]\nA.B = {\n kdc = x\n}\n": {"A.B", 10 * time.Second},
	} {
		got, err := ParseKerberos([]byte(text))
		if want == (Kerberos{}) {
			if err == nil || !strings.HasPrefix(err.Error(), "line 3: clockskew") {
				t.Errorf("%q: %v", text, err)
			}
		} else if got != want || err != nil {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}
