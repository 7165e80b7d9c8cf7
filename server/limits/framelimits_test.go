package limits

import (
	"errors"
	"testing"
)

func TestFrameLimits(t *testing.T) {
	var l FrameLimits
	l.Init(FrameOptions{FrameBytes: 5000, LargeBytes: 100, AllBytes: 1000})
	for _, tc := range []struct {
		bytes int64 // that are taken
		frame int
		want  error
	}{
		{0, 0, nil},
		{0, -1, ErrFrameLength},
		{0, 5001, ErrFrameLength},
		{0, 1000, nil},
		{0, 1001, ErrLargeRequests},
		{900, 100, nil}, // not large
		{899, 101, nil},
		{900, 101, ErrLargeRequests},
		{5000, 100, nil},
	} {
		l.bytes.Store(tc.bytes)
		if err := l.Check(tc.frame); !errors.Is(err, tc.want) {
			t.Errorf("%d bytes, then %d: %v, want %v", tc.bytes, tc.frame, err, tc.want)
		}
	}
	l.bytes.Store(900)
	if err := l.Take(100); err != nil {
		t.Error(err)
	}
	if err := l.Take(1); !errors.Is(err, ErrLargeRequests) {
		t.Errorf("one byte too many: %v", err)
	}
	if l.Give(1000); l.bytes.Load() != 0 {
		t.Errorf("%d bytes are left", l.bytes.Load())
	}
}
