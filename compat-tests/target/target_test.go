package target_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"zkd/compat-tests/target"
)

func TestMain(m *testing.M) { os.Exit(target.Main(m, "target")) }

// TestServerLifecycle drives what every part leans on: start, answer, kill, restart on the same data and address,
// stop.
func TestServerLifecycle(t *testing.T) {
	s := target.Start(t, target.Options{Config: map[string]string{"tickTime": "1000"}})
	for _, end := range []func(){s.Kill9, s.Stop} {
		answer, err := s.FourLetterWord("ruok")
		if err != nil || answer != "imok" {
			t.Fatalf("ruok answered %q, %v", answer, err)
		}
		end()
		if conn, err := net.Dial("tcp", s.Addr); err == nil {
			_ = conn.Close()
			t.Fatalf("%s accepts connections after its end", s.Kind)
		}
		s.Restart()
	}
	conf, err := s.FourLetterWord("conf")
	if err != nil || !strings.Contains(conf, "tickTime=1000\n") {
		t.Fatalf("the override did not reach the server: %q, %v", conf, err)
	}
}

func TestCachedFillsOnce(t *testing.T) {
	t.Setenv("ZKD_COMPAT_CACHE", t.TempDir())
	fills := 0
	fill := func(_ context.Context, dir string) error {
		fills++
		return os.WriteFile(filepath.Join(dir, "x"), []byte("content"), 0o600)
	}
	a := target.Cached(t, "thing", []string{"in", "put"}, fill)
	b := target.Cached(t, "thing", []string{"in", "put"}, fill)
	c := target.Cached(t, "thing", []string{"input"}, fill)
	if a != b || a == c || fills != 2 {
		t.Fatalf("dirs %s, %s, %s after %d fills, want equal, equal, another after 2", a, b, c, fills)
	}
}

// TestFetchTriesAgain fails twice, and every time.
func TestFetchTriesAgain(t *testing.T) {
	broken := errors.New("the registry is away")
	for failures, want := range map[int]error{0: nil, 2: nil, 99: broken} { // order: each for itself
		attempts := 0
		err := target.FetchWithout(t.Context(), func(_ context.Context, attempt int) error {
			if attempts++; attempt != attempts {
				t.Errorf("attempt %d is called %d", attempts, attempt)
			}
			if attempt <= failures {
				return broken
			}
			return nil
		})
		if !errors.Is(err, want) || want == nil && attempts != failures+1 || want != nil && attempts > 9 {
			t.Errorf("%d failures: %v after %d attempts, want %v", failures, err, attempts, want)
		}
	}
}

// TestToolsThatAreHalfThere: a program without its other one, and a header without its library, are no tool.
func TestToolsThatAreHalfThere(t *testing.T) {
	two := target.Tool{Name: "half a program", Programs: []string{"go", "zkd-no-such-program"}}
	if why := target.Unusable(two); !strings.Contains(why, "no zkd-no-such-program in the PATH") {
		t.Errorf("a missing program: %q", why)
	}
	whole := target.Linkable("C", "", "stdio.h", "-lc")
	target.Require(t, whole)
	half := target.Linkable("half a library", "", "stdio.h", "-lzkd_no_such_library")
	if why := target.Unusable(half); !strings.HasPrefix(why, "cc: ") {
		t.Errorf("a header without its library: %q", why)
	}
}

// failing is a test that notes whether it has failed.
type failing struct {
	testing.TB
	failed string
}

func (f *failing) Errorf(format string, args ...any) { f.failed = fmt.Sprintf(format, args...) }

// TestUses: a test may run what it has required, and what is on each machine.
func TestUses(t *testing.T) {
	test := &failing{TB: t}
	for _, program := range []string{"go", "git", filepath.Join(t.TempDir(), "zkd")} {
		if target.Uses(test, program); test.failed != "" {
			t.Error(test.failed)
		}
	}
	if target.Uses(test, "cc"); !strings.Contains(test.failed, "cc") {
		t.Errorf("a test that has required nothing runs cc: %q", test.failed)
	}
	target.Require(t, target.Linkable("C", "", "stdio.h", "-lc"))
	t.Run("part", func(t *testing.T) {
		part := &failing{TB: t}
		if target.Uses(part, "cc"); part.failed != "" {
			t.Error(part.failed)
		}
	})
}

func TestProxyCut(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // end of test
	p := target.StartProxy(t, l.Addr().String())
	for range 2 { // a cut proxy serves the next connection
		client, err := net.Dial("tcp", p.Addr)
		if err != nil {
			t.Fatal(err)
		}
		server, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 1)
		if _, err := client.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if _, err := server.Read(buf); err != nil || buf[0] != 'x' {
			t.Fatalf("read %q, %v through the proxy", buf, err)
		}
		p.Cut()
		if err := client.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if _, err := client.Read(buf); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("the cut connection is still open: %v", err)
		}
		_ = client.Close()
		_ = server.Close()
	}
}
