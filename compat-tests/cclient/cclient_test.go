package cclient_test

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"zkd/compat-tests/target"
)

var update = flag.Bool("update", false, "record the transcript anew from the real ZooKeeper")

func TestMain(m *testing.M) { os.Exit(target.Main(m, "cclient")) }

// TestTranscript compiles the program, runs it through a proxy that it can cut, and compares what it prints.
func TestTranscript(t *testing.T) {
	target.Require(t, target.CZk)
	server := target.Start(t, target.Options{})
	proxy, doomed := target.StartProxy(t, server.Addr), target.StartProxy(t, server.Addr)
	out, err := target.Client{
		Argv: []string{
			compile(t), server.Addr, proxy.Addr, proxy.CutServer(t), doomed.Addr, doomed.CloseServer(t),
		},
		Within: 3 * time.Minute,
	}.Run(t)
	if err != nil {
		t.Fatalf("the program failed: %v", err)
	}
	target.Golden(t, "transcript", out, *update)
}

func compile(t *testing.T) string {
	t.Helper()
	sources, err := filepath.Glob(filepath.Join("src", "*.c"))
	if err != nil || len(sources) == 0 {
		t.Fatalf("no C sources: %v", err)
	}
	binary := filepath.Join(t.TempDir(), "cclient")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	args := append([]string{"-std=gnu11", "-Wall", "-Wextra", "-O1", "-g", "-DTHREADED", "-o", binary}, sources...)
	if err := target.Execute(ctx, "", "cc", append(args, "-lzookeeper_mt", "-lpthread")...); err != nil {
		t.Fatal(err)
	}
	return binary
}
