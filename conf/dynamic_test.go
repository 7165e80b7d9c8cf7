package conf

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// memoryFiles is Files in memory. The budget counts the changes that still succeed; nil is without end.
type memoryFiles struct {
	files  map[string]string
	budget *int
	writes []string
}

var errNoBudget = errors.New("no space left on device")

func (m *memoryFiles) spend() error {
	if m.budget == nil {
		return nil
	}
	if *m.budget == 0 {
		return errNoBudget
	}
	*m.budget--
	return nil
}

func (m *memoryFiles) ReadFile(name string) ([]byte, error) {
	content, ok := m.files[name]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return []byte(content), nil
}

func (m *memoryFiles) WriteFile(name, _ string, content []byte) error {
	if err := m.spend(); err != nil {
		return err
	}
	m.files[name] = string(content)
	m.writes = append(m.writes, name)
	return nil
}

func (m *memoryFiles) Remove(name string) error {
	if _, ok := m.files[name]; !ok {
		return &fs.PathError{Op: "remove", Path: name, Err: fs.ErrNotExist}
	}
	if err := m.spend(); err != nil {
		return err
	}
	delete(m.files, name)
	m.writes = append(m.writes, "-"+name)
	return nil
}

// TestWriteDynamic runs the scripts in testdata/dynamic. The command `files` begins with other files: sections as in
// TestLoad, `\r` and a lone `\` at the end of a line as they are. The command `reconfig myid=1 version=100000002` has
// server lines as its input and prints the files that changed with `|` before each line, and `¬` where the last line
// has no end.
func TestWriteDynamic(t *testing.T) {
	datadriven.Walk(t, "testdata/dynamic", func(t *testing.T, path string) {
		memory := &memoryFiles{}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "files" {
				memory.files = scriptFiles(t, d.Input)
				return ""
			}
			m := Membership{Static: "/c/zoo.cfg"}
			var version string
			d.ScanArgs(t, "myid", &m.MyID)
			d.ScanArgs(t, "version", &version)
			var err error
			if m.Version, err = strconv.ParseInt(version, 16, 64); err != nil {
				t.Fatal(err)
			}
			m.Lines = strings.Split(d.Input, "\n")
			return reconfigure(memory, m)
		})
	})
}

// reconfigure writes a membership and prints what that changed.
func reconfigure(memory *memoryFiles, m Membership) string {
	memory.writes = nil
	name, err := WriteDynamic(memory, m)
	var b strings.Builder
	if err != nil {
		fmt.Fprintf(&b, "error: %v\n", err)
	} else {
		fmt.Fprintf(&b, "%s\n", name)
	}
	for _, written := range memory.writes {
		fmt.Fprintf(&b, "-- %s --\n", written)
		for line := range strings.Lines(memory.files[written]) {
			end := "¬\n"
			if strings.HasSuffix(line, "\n") {
				end = ""
			}
			fmt.Fprintf(&b, "|%s%s", strings.ReplaceAll(line, "\r", "\\r"), end)
		}
	}
	return b.String()
}

// scriptFiles splits the input of a script command into files.
func scriptFiles(t *testing.T, input string) map[string]string {
	t.Helper()
	files := map[string]string{}
	name := ""
	for line := range strings.Lines(input + "\n") {
		if header, ok := strings.CutPrefix(strings.TrimSpace(line), "-- "); ok && strings.HasSuffix(header, " --") {
			name = strings.TrimSuffix(header, " --")
			files[name] = ""
			continue
		}
		files[name] += strings.ReplaceAll(line, "\\r\n", "\r\n")
	}
	for name, content := range files { // any order: each by itself
		files[name], _ = strings.CutSuffix(content, "¬\n")
	}
	return files
}

// TestWriteDynamicInterrupted lets each change of a reconfiguration fail and checks that the files left behind load,
// with the old members or the new ones, and that the next try finishes.
func TestWriteDynamicInterrupted(t *testing.T) {
	const static = "dataDir=/d\ninitLimit=1\nsyncLimit=1\nreconfigEnabled=true\nclientPort=2181\n" +
		"server.1=a:1:2;2181\nserver.2=b:1:2\nserver.3=c:1:2\n"
	m := Membership{
		Static: "/c/zoo.cfg", MyID: 1, Version: 0x100000002,
		Lines: []string{"server.1=a:1:2:participant;0.0.0.0:2181", "server.2=b:1:2:participant"},
	}
	for budget := range 10 {
		left := budget
		memory := &memoryFiles{budget: &left, files: map[string]string{
			"/c/zoo.cfg": static, "/d/myid": "1\n", "/c/zoo.cfg.dynamic.next": "server.1=a:1:2\nversion=100000002",
		}}
		_, err := WriteDynamic(memory, m)
		if (err == nil) != (left > 0 || budget == 4) {
			t.Fatalf("with %d changes: error %v", budget, err)
		}
		if err != nil && !errors.Is(err, errNoBudget) {
			t.Fatalf("with %d changes: error %v", budget, err)
		}
		c, err := Load(Sources{Path: "/c/zoo.cfg", ReadFile: memory.ReadFile})
		if err != nil {
			t.Fatalf("with %d changes: %v", budget, err)
		}
		if members := len(c.Ensemble.Members); members != 3 && (members != 2 || c.Ensemble.Version != m.Version) {
			t.Fatalf("with %d changes: members %v of version %x", budget, c.Ensemble.Members, c.Ensemble.Version)
		}
		memory.budget = nil
		if _, err := WriteDynamic(memory, m); err != nil {
			t.Fatal(err)
		}
		memory.writes = nil
		if _, err := WriteDynamic(memory, m); err != nil || len(memory.writes) > 0 {
			t.Fatalf("written again: %v, error %v", memory.writes, err)
		}
		if got := slices.Sorted(maps.Keys(memory.files)); len(got) != 4 || memory.files["/c/zoo.cfg.bak"] != static {
			t.Fatalf("with %d changes: files %v", budget, got)
		}
	}
}

func TestMembershipFile(t *testing.T) {
	const base = "dataDir=/d\ninitLimit=1\nsyncLimit=1\nclientPort=1\n"
	const members = "server.1=a:1:2\nserver.2=b:1:2\nserver.3=c:1:2\n"
	files := map[string]string{
		"/c/one.cfg":    base + "server.1=a:1:2\nreconfigEnabled=true\n",
		"/c/three.cfg":  base + members + "reconfigEnabled=true\n",
		"/c/fixed.cfg":  base + members,
		"/c/named.cfg":  base + "reconfigEnabled=true\ndynamicConfigFile=/c/members.1\n",
		"/c/none.cfg":   base + "reconfigEnabled=true\n",
		"/c/members.1":  members,
		"/d/myid":       "1\n",
		"zkd-data/myid": "1\n",
	}
	readFile := (&memoryFiles{files: files}).ReadFile
	env := strings.Split("ZKD_SERVER_1=a:1:2\nZKD_SERVER_2=b:1:2\nZKD_SERVER_3=c:1:2", "\n")
	for _, c := range []struct {
		path, file, why string
		environ         []string
	}{
		{path: "/c/three.cfg", file: "/c/three.cfg"},
		{path: "/c/named.cfg", file: "/c/named.cfg"},
		{path: "/c/one.cfg", why: "a standalone server has no members"},
		{path: "/c/fixed.cfg", why: "reconfigEnabled is false"},
		{path: "/c/none.cfg", environ: env, why: "the server lines come from environment variable ZKD_SERVER_1"},
		{path: "/c/none.cfg", environ: []string{"ZKD_DYNAMIC_CONFIG_FILE=/c/members.1"},
			why: "dynamicConfigFile comes from environment variable ZKD_DYNAMIC_CONFIG_FILE"},
		{environ: append([]string{"ZKD_RECONFIG_ENABLED=true", "ZKD_INIT_LIMIT=1", "ZKD_SYNC_LIMIT=1"}, env...),
			why: "the server was started without a zoo.cfg"},
	} {
		config, err := Load(Sources{Path: c.path, Environ: c.environ, ReadFile: readFile})
		if err != nil {
			t.Errorf("%s: %v", c.path, err)
			continue
		}
		if file, why := config.MembershipFile(); file != c.file || why != c.why {
			t.Errorf("%s, %v: got %q, %q, want %q, %q", c.path, c.environ, file, why, c.file, c.why)
		}
	}
}

// FuzzEditStatic checks that any zoo.cfg loses its lines about members and nothing else, or is left alone.
func FuzzEditStatic(f *testing.F) {
	for _, text := range propertiesCorpus {
		f.Add([]byte(text), "/c/zoo.cfg.dynamic.1")
	}
	f.Add([]byte("a=b\\"), "/c/a b\\é.dynamic.1")
	f.Add([]byte("server.1=a\\\n  b\r\n\\\n#c\nserver.2"), " x\U0001F600")
	f.Fuzz(func(t *testing.T, text []byte, dynamic string) {
		if strings.ToValidUTF8(dynamic, "") != dynamic {
			return
		}
		edited, _, err := editStatic(text, dynamic, true)
		if entries, broken := parseProperties(text); len(broken) > 0 || len(entries) == 0 {
			if err == nil {
				t.Fatal("a text that cannot be read, or has no keys, was edited")
			}
			return
		}
		if err != nil { // the edit checks itself
			t.Fatalf("%v: %q", err, edited)
		}
		again, backup, err := editStatic(edited, dynamic, true)
		if err != nil || backup || !bytes.Equal(again, edited) {
			t.Fatalf("%q edited again is %q, error %v", edited, again, err)
		}
	})
}

func TestDiskFiles(t *testing.T) {
	dir := t.TempDir()
	name, link := filepath.Join(dir, "zoo.cfg"), filepath.Join(dir, "link.cfg")
	if err := os.WriteFile(name, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("zoo.cfg", link); err != nil {
		t.Fatal(err)
	}
	fresh := filepath.Join(dir, "fresh")
	for _, file := range []string{link, fresh} {
		if err := (DiskFiles{}).WriteFile(file, "", []byte("new")); err != nil {
			t.Fatal(err)
		}
	}
	for file, mode := range map[string]os.FileMode{name: 0o600, fresh: 0o644} { // any order: each by itself
		content, err := DiskFiles{}.ReadFile(file)
		if err != nil || string(content) != "new" {
			t.Errorf("%s: %q, error %v", file, content, err)
		}
		if info, err := os.Stat(file); err != nil || info.Mode() != mode {
			t.Errorf("%s: %v, error %v, want mode %v", file, info.Mode(), err, mode)
		}
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is one no more: %v, error %v", info, err)
	}
	if err := (DiskFiles{}).Remove(fresh); err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
		t.Errorf("files %v, error %v, want the file and the link", entries, err)
	}
	if err := (DiskFiles{}).WriteFile(filepath.Join(dir, "none", "x"), "", nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file in no folder: error %v", err)
	}
}

// TestSecretsOfTheStaticFileStayItsOwn: a zoo.cfg that only the server may read has passwords; so has the one that is
// kept of it.
func TestSecretsOfTheStaticFileStayItsOwn(t *testing.T) {
	static := filepath.Join(t.TempDir(), "zoo.cfg")
	const text = "dataDir=/d\nssl.quorum.keyStore.password=hush\nserver.1=127.0.0.1:1:2\n"
	if err := os.WriteFile(static, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	m := Membership{Static: static, MyID: 1, Lines: []string{"server.1=127.0.0.1:1:2:participant"}, Version: 1}
	if _, err := WriteDynamic(DiskFiles{}, m); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{static, static + ".bak"} {
		content, err := os.ReadFile(name)
		if err != nil || !strings.Contains(string(content), "hush") {
			t.Fatalf("%s: %q, error %v", name, content, err)
		}
		if info, err := os.Stat(name); err != nil || info.Mode() != 0o600 {
			t.Errorf("%s: mode %v, error %v", name, info.Mode(), err)
		}
	}
}
