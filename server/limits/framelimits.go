package limits

import (
	"errors"
	"math"
	"sync/atomic"
)

// ErrFrameLength means a frame that is longer than jute.maxbuffer, or of negative length.
var ErrFrameLength = errors.New("frame length is out of range")

// ErrLargeRequests means a large request beyond what all of them may have together.
var ErrLargeRequests = errors.New("large requests in flight have too many bytes together")

// FrameLimits bound what clients may send: one frame, and all large requests in flight together
// (ZooKeeperServer.checkRequestSizeWhenReceivingMessage).
type FrameLimits struct {
	frame    int   // jute.maxbuffer
	large    int   // largeRequestThreshold; what is longer is large
	all      int64 // largeRequestMaxBytes
	bytes    atomic.Int64
	rejected atomic.Int64
}

// FrameOptions say what the limits are.
type FrameOptions struct {
	FrameBytes int   // of one frame
	LargeBytes int   // what is longer is large; 0 or less: nothing is
	AllBytes   int64 // of all large requests together
}

// Init sets the limits.
func (l *FrameLimits) Init(o FrameOptions) {
	l.frame, l.large, l.all = o.FrameBytes, math.MaxInt, o.AllBytes
	if o.LargeBytes > 0 {
		l.large = o.LargeBytes
	}
}

// IsLarge reports whether a request of n bytes is large.
func (l *FrameLimits) IsLarge(n int) bool { return n > l.large }

// Check refuses a frame of n bytes before its bytes have come. Nothing is reserved: they may not come.
func (l *FrameLimits) Check(n int) error {
	if n < 0 || n > l.frame {
		return ErrFrameLength
	}
	if l.IsLarge(n) && l.bytes.Load()+int64(n) > l.all {
		l.rejected.Add(1)
		return ErrLargeRequests
	}
	return nil
}

// Take reserves the bytes of a large request until Give.
func (l *FrameLimits) Take(n int) error {
	if l.bytes.Add(int64(n)) > l.all {
		l.Give(n)
		l.rejected.Add(1)
		return ErrLargeRequests
	}
	return nil
}

// Refused returns how many requests were refused so far.
func (l *FrameLimits) Refused() int64 { return l.rejected.Load() }

// Give ends a reservation.
func (l *FrameLimits) Give(n int) { l.bytes.Add(-int64(n)) }
