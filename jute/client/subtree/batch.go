package subtree

import (
	"context"
	"strings"

	"zkd/jute"
	"zkd/jute/client/session"
)

// Bounds of one multi: servers take requests of jute.maxbuffer, 1 MiB less one byte, and answer each operation.
const (
	MultiBytes = 512 << 10
	MultiOps   = 500
	opBytes    = 100 // of one operation beside its path, data and ACL, at the most that is usual
)

// Batch gathers operations and does them, as many at a time as fit.
type Batch struct {
	Session *session.Session

	ops   []session.Op
	bytes int
	done  int
}

// Done is how many operations were done.
func (b *Batch) Done() int { return b.done }

// OpSize is about how much of a request an operation takes.
func OpSize(path string, data []byte, acl []jute.ACL) int {
	size := opBytes + len(path) + len(data)
	for _, a := range acl {
		size += 12 + len(a.ID.Scheme) + len(a.ID.ID)
	}
	return size
}

// Add takes an operation of a size.
func (b *Batch) Add(ctx context.Context, op session.Op, size int) error {
	if len(b.ops) > 0 && (b.bytes+size > MultiBytes || len(b.ops) >= MultiOps) {
		if err := b.Flush(ctx); err != nil {
			return err
		}
	}
	b.ops, b.bytes = append(b.ops, op), b.bytes+size
	return nil
}

// Flush does what was gathered.
func (b *Batch) Flush(ctx context.Context) error {
	if len(b.ops) == 0 {
		return nil
	}
	err := b.Session.Multi(ctx, b.ops)
	if err == nil {
		b.done += len(b.ops)
	}
	b.ops, b.bytes = b.ops[:0], 0
	return err
}

// Moved is the path of a znode below from, when from has become to.
func Moved(path, from, to string) string {
	rest := strings.TrimPrefix(path, from)
	if from == "/" {
		rest = path
	}
	if to == "/" {
		to = ""
	}
	if rest == "" || rest == "/" {
		if to == "" {
			return "/"
		}
		return to
	}
	return to + rest
}
