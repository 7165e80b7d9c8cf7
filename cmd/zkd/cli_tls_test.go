package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"zkd/compat-tests/target"
)

// TestShellOverTLS: by the flags, and by the properties that ZooKeeper's own client has.
func TestShellOverTLS(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a server")
	}
	end, _, _ := pemStores(t)
	dir := t.TempDir()
	port := target.FreePort(t)
	stores := fmt.Sprintf("ssl.keyStore.location=%s\nssl.trustStore.location=%s\n", end.KeyStore.Location,
		end.TrustStore.Location)
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	config := write("zoo.cfg", fmt.Sprintf("dataDir=%s\nclientPort=%d\nclientPortAddress=127.0.0.1\n"+
		"secureClientPort=%d\nsecureClientPortAddress=127.0.0.1\n%s", filepath.Join(dir, "data"), target.FreePort(t),
		port, stores))
	server, err := startProcess(dir, []string{"serve", config})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.kill)
	properties := "zookeeper.client.secure=true\nzookeeper." + strings.ReplaceAll(strings.TrimSuffix(stores, "\n"),
		"\n", "\nzookeeper.") + "\n"
	trust, cert := "--ca-file="+end.TrustStore.Location, "--cert-file="+end.KeyStore.Location
	inEnv := "CLIENT_JVMFLAGS=-D" + strings.Join(strings.Fields(properties), " -D")
	for name, c := range map[string]struct {
		args   []string
		env    string
		status int
	}{
		"flags":             {args: []string{"--tls", trust, cert}},
		"no certificate":    {args: []string{"--tls", trust}, status: statusOfFailure},
		"nobody is trusted": {args: []string{"--tls", cert}, status: statusOfFailure},
		"in plain text":     {status: statusOfFailure},
		"a file of zkCli's": {args: []string{"-client-configuration", write("client.properties", properties)}},
		"the environment":   {env: inEnv},
		"~/.zkdrc":          {env: "ZKD_CLI_RC=" + write("zkdrc", properties)},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command("zkd", append(append([]string{"cli", "-q", "-timeout", "20000", "-server",
				fmt.Sprintf("127.0.0.1:%d", port)}, c.args...), "ls", "/")...)
			cmd.Env = append(os.Environ(), "HOME="+dir)
			if c.env != "" {
				cmd.Env = append(cmd.Env, c.env)
			}
			out, err := cmd.CombinedOutput()
			if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != c.status ||
				c.status == 0 && string(out) != "[zookeeper]\n" {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

// statusOfFailure is that of a command that failed.
const statusOfFailure = 1
