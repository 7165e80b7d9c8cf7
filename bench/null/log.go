package null

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

// logBytes is the size of the file, which is written over and over: to extend it would cost the file system more than
// the write.
const logBytes = 16 << 20

// log is the file that writes go to. Safe for concurrent use.
type log struct {
	file *os.File
	mu   struct {
		sync.Mutex
		next   *batch
		closed bool
	}
	wake chan struct{} // has one when next holds something, or the log is closed
}

// batch is what goes to the file at once.
type batch struct {
	data []byte
	done chan struct{} // closed once it is synced, or err is set
	err  error
}

func newBatch(room []byte) *batch { return &batch{data: room[:0], done: make(chan struct{})} }

// openLog makes the file in dir, filled with zeros and synced.
func openLog(dir string) (*log, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("make the directory of the null server: %w", err)
	}
	file, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, fmt.Errorf("make the log of the null server: %w", err)
	}
	zeros := make([]byte, 1<<20)
	for at := 0; at < logBytes && err == nil; at += len(zeros) {
		_, err = file.WriteAt(zeros, int64(at))
	}
	if err == nil {
		err = file.Sync()
	}
	if err != nil {
		_ = file.Close() // the error before says more
		return nil, fmt.Errorf("fill the log of the null server: %w", err)
	}
	l := &log{file: file, wake: make(chan struct{}, 1)}
	l.mu.next = newBatch(nil)
	go l.run()
	return l, nil
}

// write returns once data is on the disk, with whatever others write meanwhile.
func (l *log) write(data []byte) error {
	l.mu.Lock()
	if l.mu.closed {
		l.mu.Unlock()
		return os.ErrClosed
	}
	mine := l.mu.next
	mine.data = append(mine.data, data...)
	l.mu.Unlock()
	l.signal()
	<-mine.done
	return mine.err
}

func (l *log) signal() {
	select {
	case l.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// close ends the log once what was written is synced.
func (l *log) close() {
	l.mu.Lock()
	l.mu.closed = true
	l.mu.Unlock()
	l.signal()
}

// run writes and syncs one batch after the other until the log is closed.
func (l *log) run() {
	defer func() { _ = l.file.Close() }() // what counts is synced
	var room []byte
	at := int64(0)
	for range l.wake {
		l.mu.Lock()
		now, closed := l.mu.next, l.mu.closed
		l.mu.next = newBatch(room)
		l.mu.Unlock()
		if len(now.data) > 0 {
			if at+int64(len(now.data)) > logBytes {
				at = 0
			}
			_, now.err = l.file.WriteAt(now.data, at)
			at += int64(len(now.data))
			if now.err == nil {
				now.err = syncData(l.file)
			}
		}
		close(now.done)
		room = now.data
		if closed {
			return
		}
	}
}
