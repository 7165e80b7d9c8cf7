package firstweek

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"

	"zkd/compat-tests/ensemble"
	"zkd/compat-tests/target"
)

// install makes the archive of this platform as make dist does, compares its checksum, and unpacks it.
func (w *week) install(t *testing.T) {
	for name, value := range map[string]string{ // any order
		"VERSION": "1.2.3", "REVISION": "0123456789abcdef", "SOURCE_DATE_EPOCH": "1700000000",
	} {
		t.Setenv(name, value)
	}
	platform := runtime.GOOS + "/" + runtime.GOARCH
	w.names[platform], w.names["1.2.3_"+strings.ReplaceAll(platform, "/", "_")] = "PLATFORM", "1.2.3_PLATFORM"
	dist := w.path("dist")
	w.run(t, "go", "run", "zkd/conf/package", "dist", "-packages=false", "-targets", platform, "-out", dist)
	sums, err := os.ReadFile(filepath.Join(dist, "SHA256SUMS"))
	must(t, err)
	archives, err := filepath.Glob(filepath.Join(dist, "*.tar.gz"))
	if err != nil || len(archives) != 1 {
		t.Fatalf("dist has made %q: %v", archives, err)
	}
	archive, err := os.ReadFile(archives[0])
	must(t, err)
	if line := fmt.Sprintf("%x  %s\n", sha256.Sum256(archive), filepath.Base(archives[0])); !strings.Contains(
		string(sums), line) {
		t.Errorf("SHA256SUMS has no line %s", line)
	}
	w.zkd = filepath.Join(w.path("root"), "zkd")
	for _, name := range unpack(t, archives[0], w.path("root")) {
		fmt.Fprintln(&w.text, name)
	}
	w.text.WriteByte('\n')
	w.command(t, "version")
	w.command(t, "--version")
	w.command(t, "sreve")
	w.command(t, "check", filepath.Join(w.path("root"), "conf", "zoo_sample.cfg"), "--set", "dataDir="+w.path("none"),
		"--set", fmt.Sprintf("clientPort=%d", w.port(t, "SAMPLE")), "--set", "admin.enableServer=false")
}

// port returns a free port, which the transcript has under a name.
func (w *week) port(t *testing.T, name string) int {
	t.Helper()
	port := target.FreePort(w.t)
	w.names[fmt.Sprint(port)] = name
	return port
}

// unpack unpacks an archive without its outermost folder, and returns what is at its top and in conf; the other folders
// have whatever documents and commands there are.
func unpack(t *testing.T, archive, to string) (names []string) {
	t.Helper()
	file, err := os.Open(archive) //nolint:gosec // the test has made it
	must(t, err)
	defer file.Close() //nolint:errcheck // it is only read
	zipped, err := gzip.NewReader(file)
	must(t, err)
	for packed := tar.NewReader(zipped); ; {
		header, err := packed.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		must(t, err)
		_, name, _ := strings.Cut(header.Name, "/")
		if top, _, below := strings.Cut(name, "/"); below && top != "conf" {
			names = append(names, top+"/")
		} else {
			names = append(names, name)
		}
		place := filepath.Join(to, filepath.FromSlash(name))
		must(t, os.MkdirAll(filepath.Dir(place), 0o750))
		content, err := io.ReadAll(packed)
		must(t, err)
		must(t, os.WriteFile(place, content, header.FileInfo().Mode()))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// imports brings over what each version has written, and the newest into the first server of the ensemble.
func (w *week) imports(t *testing.T) {
	from, err := filepath.Abs(goldenDir)
	must(t, err)
	w.names[from] = "ZOOKEEPER"
	for _, version := range []string{"3.4", "3.5", "3.8", "3.9"} {
		data := w.path("imported-" + version)
		w.command(t, "import", "--from", filepath.Join(from, version), "--data-dir", data)
		w.command(t, "inspect", "summary", data)
	}
	w.command(t, "import", "--from", filepath.Join(from, "3.9"), "--data-dir", w.path("imported-3.9"))
	w.prepare()
	first := w.e.Servers[0]
	w.command(t, "import", first.ConfigPath(), "--from", filepath.Join(from, "3.9"))
	w.command(t, "check", first.ConfigPath())
}

// prepare makes the files of four servers, of which the last one comes later.
func (w *week) prepare() {
	w.e = ensemble.Prepare(w.t, ensemble.Options{Kind: target.Zkd, Servers: 4, Dynamic: true, Calm: true,
		DiskBytes: diskBytes})
	admin := target.FreePorts(w.t, len(w.e.Servers))
	lines := w.e.Lines("participant", w.e.Servers[:3]...)
	for i, s := range w.e.Servers {
		s.Binary = w.zkd
		w.names[s.Dir], w.names[s.Port()] = fmt.Sprintf("SERVER%d", s.ID), fmt.Sprintf("CLIENT%d", s.ID)
		ports := strings.Split(s.Address, ":")
		w.names[ports[1]], w.names[ports[2]] = fmt.Sprintf("PEER%d", s.ID), fmt.Sprintf("ELECTION%d", s.ID)
		w.names[fmt.Sprint(admin[i])] = fmt.Sprintf("ADMIN%d", s.ID)
		text, err := os.ReadFile(s.ConfigPath())
		must(w.t, err)
		more := strings.Replace(string(text), "admin.enableServer=false\n", fmt.Sprintf(
			"admin.enableServer=true\nadmin.serverAddress=127.0.0.1\nadmin.serverPort=%d\n", admin[i]), 1)
		must(w.t, os.WriteFile(s.ConfigPath(), []byte(more), 0o600))
		if s.ID < 4 {
			w.e.Configure(s, lines...)
		} else {
			w.e.Configure(s, append(slices.Clone(lines), w.e.Lines("observer", s)...)...)
		}
	}
}

// three are the servers of the ensemble.
func (w *week) three() []*ensemble.Server { return w.e.Servers[:3] }

// status shows the ensemble, as every server of it sees it when all is calm.
func (w *week) status(t *testing.T) {
	t.Helper()
	w.command(t, "status", w.e.Servers[0].ConfigPath())
}

// run3 starts three servers, of which the first has the data.
func (w *week) run3(t *testing.T) {
	if os.Getenv(longEnv) != "" {
		for _, s := range w.three() {
			s.Binary = target.PreviousZkd(t)
		}
	}
	for _, s := range w.three() {
		s.Launch()
	}
	w.e.AwaitServing(w.three()...)
	w.awaitInSync(t, 2)
	w.status(t)
	c := connect(t, w.e.Servers[1].Addr)
	_, err := c.Create("/week", []byte("first"), 0, zk.WorldACL(zk.PermAll))
	must(t, err)
}

// roll starts one server after the other anew, with what is installed, the leader last.
func (w *week) roll(t *testing.T) {
	leader := w.awaitInSync(t, 2)
	order := append(slices.DeleteFunc(slices.Clone(w.three()), func(s *ensemble.Server) bool { return s == leader }),
		leader)
	for _, s := range order {
		s.Stop()
		if s.Binary != w.zkd {
			s.Binary = w.zkd
			w.lines.skip(s.LogPath(), s.Log())
		}
		w.command(t, "check", s.ConfigPath())
		s.Launch()
		w.e.AwaitServing(s)
		w.awaitInSync(t, 2)
	}
	w.status(t)
}

// replace puts an empty machine in the place of a server.
func (w *week) replace(t *testing.T) {
	w.awaitInSync(t, 2)
	lost := w.e.Followers()[0]
	lost.Kill9()
	w.status(t)
	lost.Wipe()
	w.command(t, "check", lost.ConfigPath())
	lost.Launch()
	w.e.AwaitServing(lost)
	w.awaitInSync(t, 2)
	w.status(t)
}

// reconfigure takes a fourth server in as an observer, gives it a vote, and takes it out again.
func (w *week) reconfigure(t *testing.T) {
	late := w.e.Servers[3]
	c := connect(t, w.three()[0].Addr)
	late.Launch()
	awaitLine(t, late, "server started")
	for _, role := range []string{"observer", "participant"} {
		_, err := c.IncrementalReconfig([]string{late.Member(role)}, nil, -1)
		must(t, err)
		mode := map[string]string{"observer": "observer", "participant": "follower"}[role]
		w.e.AwaitMode(late, mode)
		w.status(t)
	}
	_, err := c.IncrementalReconfig(nil, []string{"4"}, -1)
	must(t, err)
	w.status(t)
	w.command(t, "status", "--server", late.Addr) // which goes on for its clients
	late.Stop()
	w.awaitInSync(t, 2)
}
