package main

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"zkd/compat-tests/target"
)

// exitStatus runs a command of zkd in dir to its end.
func exitStatus(t *testing.T, dir string, args ...string) (status int, said string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "zkd", args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), noAdmin)
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return exit.ExitCode(), string(out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return 0, string(out)
}

// serves starts a server in dir, and stops it once it serves; 0 if it does.
func serves(t *testing.T, dir string, args ...string) (status int, said string) {
	t.Helper()
	s, err := startProcess(dir, append([]string{"serve"}, args...))
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return exit.ExitCode(), err.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
	s.kill()
	return 0, s.output()
}

// local has a server listen where others of the machine are not disturbed.
var local = []string{"--set", "clientPort=0", "--set", "clientPortAddress=127.0.0.1"}

// prepared are data directories to begin with: data/NAME below dir.
func prepared(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	golden := os.DirFS("../../storage/zkdata/zkdatatest/testdata/zookeeper/3.9")
	must(os.CopyFS(filepath.Join(dir, "zookeeper"), golden))
	must(os.CopyFS(filepath.Join(dir, "inplace"), golden))
	for _, name := range []string{"stopped", "killed", "member"} {
		args := append([]string{"serve", "--data-dir", name}, local...)
		if name == "member" {
			must(os.MkdirAll(filepath.Join(dir, name), 0o750))
			must(os.WriteFile(filepath.Join(dir, name, "myid"), []byte("1\n"), 0o600))
			for _, a := range threeServers {
				args = append(args, strings.ReplaceAll(a, "PEER", strconv.Itoa(target.FreePort(t))))
			}
		}
		s, err := startProcess(dir, args)
		must(err)
		if name == "stopped" {
			must(s.cmd.Process.Signal(os.Interrupt))
			must(s.wait())
		}
		s.kill()
	}
	for _, args := range [][]string{
		{"import", "--from", "zookeeper", "--data-dir", "imported"},
		{"backup", "--data-dir", "stopped", "file"},
		{"restore", "file", "--data-dir", "restored"},
		{"import", "--from", "inplace", "--data-dir", "inplace"},
	} {
		if status, said := exitStatus(t, dir, args...); status != 0 {
			t.Fatalf("zkd %v: %s", args, said)
		}
	}
	return dir
}

// threeServers makes a server the first of three.
var threeServers = []string{"--set", "server.1=127.0.0.1:PEER:1", "--set", "server.2=127.0.0.1:1:2",
	"--set", "server.3=127.0.0.1:2:3", "--set", "initLimit=10", "--set", "syncLimit=5"}

// agreement is a directory and a configuration with which check and serve are to say the same.
type agreement struct {
	name    string
	from    string   // the directory that data is a copy of; "": it is not there
	args    []string // beside --data-dir data; TAKEN is a port that is taken, DIR where all is
	change  func(t *testing.T, data string)
	ports   bool // the client port is among args
	want    int
	finding string // what check says
}

// put writes a file below data.
func put(name, content string) func(t *testing.T, data string) {
	return func(t *testing.T, data string) {
		t.Helper()
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(data, name)), 0o750),
			os.WriteFile(filepath.Join(data, name), []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
}

// remove removes what is there below data.
func remove(names ...string) func(t *testing.T, data string) {
	return func(t *testing.T, data string) {
		t.Helper()
		for _, name := range names {
			if err := os.RemoveAll(filepath.Join(data, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// cut cuts the files that a pattern names below data in half.
func cut(pattern string) func(t *testing.T, data string) {
	return func(t *testing.T, data string) {
		t.Helper()
		files, err := filepath.Glob(filepath.Join(data, pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("no %s: %v", pattern, err)
		}
		for _, file := range files {
			info, err := os.Stat(file)
			if err == nil {
				err = os.Truncate(file, info.Size()/2)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

// directories are the kinds of them.
var directories = []agreement{
	{name: "nothing", finding: "begins empty"},
	{name: "nothing, and it must be there", args: []string{"--set", "datadir.autocreate=false"}, want: 1,
		finding: "datadir.autocreate is false"},
	{name: "no dataLogDir, and it must be there", from: "stopped", want: 1, finding: "no raft log in",
		args: []string{"--set", "datadir.autocreate=false", "--set", "dataLogDir=logs"}},
	{name: "nothing, and it must not begin", args: []string{"--set", "zookeeper.db.autocreate=false"}, want: 1,
		finding: "db.autocreate is false"},
	{name: "an empty version-2", change: put("version-2/currentEpoch", "1"), finding: "begins empty"},
	{name: "a file", change: func(t *testing.T, data string) { put("data", "x")(t, filepath.Dir(data)) }, want: 2,
		finding: "not a directory"},
	{name: "a file in the way", args: []string{"--set", "dataLogDir=zoo.cfg/logs"}, want: 1,
		finding: "zoo.cfg is a file",
		change:  func(t *testing.T, data string) { put("zoo.cfg", "")(t, filepath.Dir(data)) }},
	{name: "stopped", from: "stopped", finding: "ok       state"},
	{name: "killed", from: "killed", finding: "ok       state"},
	{name: "imported", from: "imported", finding: "ok       state"},
	{name: "imported in place", from: "inplace", finding: "ok       state"},
	{name: "restored", from: "restored", finding: "ok       state"},
	{name: "a member's", from: "member", args: threeServers, finding: "ok       state"},
	{name: "a member's, for another one", from: "member", args: threeServers, change: put("myid", "2\n"), want: 1,
		finding: "the data is of server 1, and this is server 2"},
	{name: "of a server alone, for one of three", from: "stopped", args: threeServers, change: put("myid", "1\n"),
		want: 1, finding: "the data is of a server that stood alone"},
	{name: "imported, for one of three", from: "imported", args: threeServers, change: put("myid", "1\n"),
		finding: "ok       state"},
	{name: "imported, for an observer", from: "imported", change: put("myid", "1\n"), want: 1,
		finding: "which is an observer", args: append([]string{"--set", "peerType=observer"},
			strings.Split(strings.Replace(strings.Join(threeServers, " "), ":PEER:1", ":PEER:1:observer", 1), " ")...)},
	{name: "imported, for one that joins", from: "imported", change: put("myid", "1\n"), want: 1,
		finding: "remove zkd.join", args: append([]string{"--set", "zkd.join=true"}, threeServers...)},
	{name: "half an import", from: "imported", change: put("ZKD-IMPORT", ""), want: 1, finding: "zkd import again"},
	{name: "half an import, and the start imports", from: "inplace", change: put("ZKD-IMPORT", ""),
		args: []string{"--set", "zkd.importOnStart=true"}, finding: "the start imports data: zxid"},
	{name: "of ZooKeeper", from: "zookeeper", want: 1, finding: "zkd import"},
	{name: "of ZooKeeper, and the start imports", from: "zookeeper", args: []string{"--set", "zkd.importOnStart=true"},
		finding: "the start imports data: zxid"},
	{name: "of ZooKeeper, damaged", from: "zookeeper", args: []string{"--set", "zkd.importOnStart=true"}, want: 1,
		change: cut("version-2/snapshot.*"), finding: "error    zkd.importOnStart"},
	{name: "a newer format", from: "stopped", change: put("ZKD-FORMAT", "zkd data directory, format 7\n"), want: 1,
		finding: "a newer zkd wrote it"},
	{name: "no format", from: "stopped", change: remove("ZKD-FORMAT"), want: 1, finding: "no file ZKD-FORMAT"},
	{name: "no raft log", from: "stopped", change: remove("raftlog"), want: 1, finding: "there is no raft log"},
	{name: "no state", from: "stopped", change: remove("state"), finding: "there is none yet"},
	{name: "imported, no state", from: "imported", change: remove("state"), want: 1, finding: "is not there"},
	{name: "neither store", from: "stopped", change: remove("state", "raftlog"), finding: "there is none yet"},
	{name: "neither store, and it must not begin", from: "stopped", change: remove("state", "raftlog"), want: 1,
		args: []string{"--set", "zookeeper.db.autocreate=false"}, finding: "db.autocreate is false"},
	{name: "a damaged raft log", from: "stopped", change: cut("raftlog/*.log"), want: 1, finding: "error    raftlog"},
	{name: "a damaged state", from: "stopped", change: cut("state/*.sst"), want: 1, finding: "error    state"},
	{name: "another dataLogDir", from: "stopped", args: []string{"--set", "dataLogDir=logs"}, want: 1,
		finding: "no raft log in logs"},
}

// configurations are the kinds of them, with no data.
var configurations = []agreement{
	{name: "a port that is taken", args: []string{"--port", "TAKEN"}, ports: true, want: 1, finding: "cannot listen"},
	{name: "a port for TLS that is taken", want: 1, finding: "error    secureClientPort: cannot listen",
		args: []string{"--set", "secureClientPort=TAKEN", "--set", "ssl.keyStore.location=DIR/key.pem",
			"--set", "ssl.trustStore.location=DIR/trust.pem"}},
	{name: "a port for metrics that is taken", want: 1, finding: "error    metricsProvider.httpPort: cannot listen",
		args: []string{"--set", "metricsProvider.httpPort=TAKEN", "--set", "metricsProvider.httpHost=127.0.0.1",
			"--set", "metricsProvider.className=org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider"}},
	{name: "a port for operators that is taken", want: 1, finding: "error    admin.serverPort: cannot listen",
		args: []string{"--set", "admin.enableServer=true", "--set", "admin.serverAddress=127.0.0.1",
			"--set", "admin.serverPort=TAKEN"}},
	{name: "a port for servers that is taken", change: put("myid", "1\n"), want: 1,
		finding: "error    server.N: cannot listen",
		args:    strings.Split(strings.Replace(strings.Join(threeServers, " "), "PEER", "TAKEN", 1), " ")},
	{name: "one port twice", want: 1, finding: "it is the port of clientPort, too", ports: true,
		args: []string{"--set", "clientPortAddress=127.0.0.1", "--port", "FREE", "--set",
			"admin.enableServer=true", "--set", "admin.serverAddress=127.0.0.1", "--set", "admin.serverPort=FREE"}},
	{name: "no trust store, and none is needed", finding: "certificate is valid",
		args: []string{"--set", "secureClientPort=0", "--set", "secureClientPortAddress=127.0.0.1",
			"--set", "ssl.keyStore.location=DIR/key.pem", "--set", "ssl.clientAuth=none"}},
	{name: "no key store", want: 1, finding: "no.pem",
		args: []string{"--set", "secureClientPort=0", "--set", "secureClientPortAddress=127.0.0.1",
			"--set", "ssl.keyStore.location=DIR/no.pem", "--set", "ssl.trustStore.location=DIR/trust.pem"}},
	{name: "no key store for metrics", want: 1, finding: "no.pem",
		args: []string{"--set", "metricsProvider.httpsPort=0", "--set", "metricsProvider.httpHost=127.0.0.1",
			"--set", "metricsProvider.ssl.keyStore.location=DIR/no.pem",
			"--set", "metricsProvider.ssl.trustStore.location=DIR/trust.pem",
			"--set", "metricsProvider.className=org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider"}},
	{name: "words that are none", args: []string{"--set", "4lw.commands.whitelist=mntr,srv"},
		finding: `warning  4lw.commands.whitelist: "srv" is no four-letter command`},
	{name: "a superuser that nobody can be", finding: "nobody can be super by it",
		args: []string{"--set", "DigestAuthenticationProvider.superDigest=super:secret"}},
	{name: "no logins", args: []string{"--set", "java.security.auth.login.config=DIR/no.conf"}, want: 1,
		finding: "no.conf"},
	{name: "no directory for the audit log", want: 1, finding: "error    zkd.audit.file",
		args: []string{"--set", "audit.enable=true", "--set", "zkd.audit.file=DIR/nowhere/audit.log"}},
	{name: "a wrong value", args: []string{"--set", "tickTime=x"}, want: 2, finding: `tickTime: "x": must be`},
	{name: "a class that is not there", args: []string{"--set", "authProvider.own=com.example.Own"}, want: 2,
		finding: "classes of one's own"},
	{name: "a class for certificates that is not there", want: 2, finding: " ssl.authProvider: classes of one",
		args: ownCertificates},
	{name: "a class for certificates that is left out", finding: "identities of the scheme x509",
		args: append(slices.Clone(ownCertificates), "--set", "zkd.ignoreUnknownProviders=true")},
}

// ownCertificates asks for a class of one's own for clients with TLS.
var ownCertificates = []string{
	"--set", "secureClientPort=FREE", "--set", "secureClientPortAddress=127.0.0.1", "--set", "ssl.authProvider=own",
	"--set", "authProvider.own=com.example.Own", "--set", "ssl.keyStore.location=DIR/key.pem",
	"--set", "ssl.trustStore.location=DIR/trust.pem",
}

// TestCheckAgreesWithServe has both look at every kind of directory and configuration: what serve refuses check finds,
// and says why; what check finds good serves.
func TestCheckAgreesWithServe(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts fifty servers")
	}
	from := prepared(t)
	key, trust := target.SelfSigned(t, "localhost")
	taken, err := net.Listen("tcp", ":0") //nolint:gosec,noctx // all addresses: zkd listens there by default
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() }) // nobody has come
	_, port, _ := net.SplitHostPort(taken.Addr().String())
	for _, c := range append(directories, configurations...) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // it mostly waits for the disk
			dir := t.TempDir()
			data := filepath.Join(dir, "data")
			if c.from != "" {
				if err := os.CopyFS(data, os.DirFS(filepath.Join(from, c.from))); err != nil {
					t.Fatal(err)
				}
			}
			if c.change != nil {
				c.change(t, data)
			}
			for from, to := range map[string]string{key: "key.pem", trust: "trust.pem"} {
				if err := os.Link(from, filepath.Join(dir, to)); err != nil {
					t.Fatal(err)
				}
			}
			words := strings.NewReplacer("TAKEN", port, "DIR", dir, "FREE", strconv.Itoa(target.FreePort(t)),
				"PEER", strconv.Itoa(target.FreePort(t)))
			args := []string{"--data-dir", "data"}
			if !c.ports {
				args = append(args, local...)
			}
			for _, a := range c.args {
				args = append(args, words.Replace(a))
			}
			checking := append([]string{"check"}, args...)
			for i, a := range checking { // it has no such flag
				if a == "--port" {
					checking[i], checking[i+1] = "--set", "clientPort="+checking[i+1]
				}
			}
			found, said := exitStatus(t, dir, checking...)
			if found != c.want || !strings.Contains(said, c.finding) {
				t.Errorf("check ends with %d, want %d and %q:\n%s", found, c.want, c.finding, said)
			}
			if served, said := serves(t, dir, args...); served != c.want {
				t.Errorf("serve ends with %d, want %d:\n%s", served, c.want, said)
			}
		})
	}
}
