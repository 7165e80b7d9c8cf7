package sim

import (
	"io"
	"io/fs"
	"slices"
	"sync"
	"time"
)

// files are what an operator has put on one machine beside the data: myid, and what the server writes for him. They
// outlive every fault of the disk.
type files struct {
	mu   sync.Mutex
	held map[string][]byte // guarded by mu
}

// ReadFile implements instance.Files.
func (f *files) ReadFile(name string) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	content, ok := f.held[name]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return slices.Clone(content), nil
}

// WriteFile implements instance.Files.
func (f *files) WriteFile(name, _ string, content []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held[name] = slices.Clone(content)
	return nil
}

// Remove implements instance.Files.
func (f *files) Remove(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.held[name]; !ok {
		return &fs.PathError{Op: "remove", Path: name, Err: fs.ErrNotExist}
	}
	delete(f.held, name)
	return nil
}

// Stat implements instance.Files.
func (f *files) Stat(name string) (fs.FileInfo, error) {
	content, err := f.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return file{name, int64(len(content))}, nil
}

// Append implements instance.Files.
func (f *files) Append(name string) (io.WriteCloser, error) {
	return &appended{files: f, name: name}, nil
}

// file is what is known of one.
type file struct {
	name string
	size int64
}

func (f file) Name() string     { return f.name }
func (f file) Size() int64      { return f.size }
func (file) Mode() fs.FileMode  { return 0o600 }
func (file) ModTime() time.Time { return time.Time{} }
func (file) IsDir() bool        { return false }
func (file) Sys() any           { return nil }

// appended is a file that grows.
type appended struct {
	files *files
	name  string
}

// Write implements io.Writer.
func (a *appended) Write(b []byte) (int, error) {
	a.files.mu.Lock()
	defer a.files.mu.Unlock()
	a.files.held[a.name] = append(a.files.held[a.name], b...)
	return len(b), nil
}

// Close implements io.Closer.
func (*appended) Close() error { return nil }
