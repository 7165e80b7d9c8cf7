package disk

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestSlowOperationsAreToldOf: each when it is first seen, and again whenever it has taken twice as long.
func TestSlowOperationsAreToldOf(t *testing.T) {
	var text strings.Builder
	s := slowDisk{logger: slog.New(slog.NewTextHandler(&text, nil)), store: "raft log"}
	for _, seconds := range []time.Duration{2, 3, 4, 5, 6, 8, 2} { // the last is another operation on the file
		s.tell(vfs.DiskSlowInfo{Path: "000001.log", OpType: vfs.OpTypeSync, Duration: seconds * time.Second})
	}
	for n := range 2 * slowFilesMax {
		s.tell(vfs.DiskSlowInfo{Path: strconv.Itoa(n), OpType: vfs.OpTypeSync, Duration: time.Second})
	}
	var told []string
	for line := range strings.Lines(text.String()) {
		if strings.Contains(line, "000001.log") {
			_, took, _ := strings.Cut(strings.TrimSpace(line), "took=")
			told = append(told, took)
		}
	}
	if want := []string{"2s", "4s", "8s", "2s"}; !slices.Equal(told, want) {
		t.Errorf("told of %v, want %v", told, want)
	}
	if len(s.told) > slowFilesMax {
		t.Errorf("%d files are remembered", len(s.told))
	}
}

// stuckFS is a file system whose files wait for a channel before they write, read or sync.
type stuckFS struct {
	vfs.FS
	gate chan struct{}
}

type stuckFile struct {
	vfs.File
	gate chan struct{}
}

func (f stuckFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := f.FS.Create(name, category)
	return stuckFile{file, f.gate}, err
}

func (f stuckFS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	file, err := f.FS.Open(name, opts...)
	return stuckFile{file, f.gate}, err
}

func (f stuckFile) Write(p []byte) (int, error) { <-f.gate; return f.File.Write(p) }

func (f stuckFile) Sync() error { <-f.gate; return f.File.Sync() }

func (f stuckFile) ReadAt(p []byte, off int64) (int, error) { <-f.gate; return f.File.ReadAt(p, off) }

// TestDiskProgress: an operation that does not end shows, whatever it is, and that it has ended.
func TestDiskProgress(t *testing.T) {
	gate := make(chan struct{})
	fault := &Fault{Logger: slog.New(slog.DiscardHandler)}
	fence := NewFenceFS(stuckFS{vfs.NewMem(), gate}, fault, 0)
	file, err := fence.Create("f", vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	reader, err := fence.Open("f")
	if err != nil {
		t.Fatal(err)
	}
	for name, operation := range map[string]func() error{ // any order
		"write": func() error { _, err := file.Write([]byte("x")); return err },
		"sync":  file.Sync,
		"read": func() error {
			_, err := reader.ReadAt(make([]byte, 1), 0)
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return err
		},
	} {
		_, before := fence.Operations.Progress()
		done := make(chan error)
		go func() { done <- operation() }()
		for underWay := false; !underWay; runtime.Gosched() {
			underWay, _ = fence.Operations.Progress()
		}
		if _, ended := fence.Operations.Progress(); ended != before {
			t.Errorf("%s: %d operations have ended while it waits", name, ended-before)
		}
		gate <- struct{}{}
		if err := <-done; err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if underWay, ended := fence.Operations.Progress(); underWay || ended != before+1 {
			t.Errorf("%s: afterwards under way %v, %d have ended", name, underWay, ended-before)
		}
	}
}

// TestALongWriteShowsProgress: what a disk takes of a long write counts as it takes it.
func TestALongWriteShowsProgress(t *testing.T) {
	gate := make(chan struct{})
	mem := vfs.NewMem()
	fence := NewFenceFS(stuckFS{mem, gate}, &Fault{Logger: slog.New(slog.DiscardHandler)}, 0)
	file, err := fence.Create("f", vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	content := bytes.Repeat([]byte("long"), writeStepBytes/2+1) // three steps
	done := make(chan error)
	written := bytes.Clone(content) // a file may change what it is given (vfs.File), as this one does under -race
	go func() { _, err := file.Write(written); done <- err }()
	_, before := fence.Operations.Progress()
	for n := range uint64(2) {
		gate <- struct{}{}
		for ended := before; ended != before+n+1; runtime.Gosched() {
			_, ended = fence.Operations.Progress()
		}
	}
	gate <- struct{}{}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	got, err := mem.Open("f")
	if err != nil {
		t.Fatal(err)
	}
	if all, err := io.ReadAll(got); err != nil || !bytes.Equal(all, content) {
		t.Errorf("%d bytes of %d are there, %v", len(all), len(content), err)
	}
}
