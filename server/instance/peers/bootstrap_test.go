package peers

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"zkd/quorum/clock"
	"zkd/quorum/transport"
)

// answers are what other servers say when they are asked, one time after the other.
type answers []map[uint64]transport.Probed

// founder is server 1, into which data was imported, before it bootstraps an ensemble with it.
type founder struct {
	*Peers
	clock *clock.Manual
	log   strings.Builder
	asked int
}

// ownCluster is the cluster that the founder is about to found.
var ownCluster = [16]byte{1}

func newFounder() *founder {
	f := &founder{clock: clock.NewManual(time.Unix(0, 0))}
	f.Peers = &Peers{logger: slog.New(slog.NewTextHandler(&f.log, nil)), opts: Options{Clock: f.clock},
		data: ownCluster}
	return f
}

// waits has it wait while others answer so, each time so long after the one before.
func (f *founder) waits(t *testing.T, said answers, apart time.Duration) error {
	t.Helper()
	return f.mayFound(t.Context(), func(context.Context) map[uint64]transport.Probed {
		if f.asked == len(said) {
			t.Fatalf("asked again after %d answers", f.asked)
		}
		f.asked++
		f.clock.Advance(apart)
		return said[f.asked-1]
	})
}

// TestDataWaitsForAFoundingWithoutIt: whoever takes part in one is waited for until he says that he does not any more,
// also while he is not heard, and the log says so now and then.
func TestDataWaitsForAFoundingWithoutIt(t *testing.T) {
	bootstrap := transport.Probed{Standing: transport.Bootstrapping}
	said := answers{
		{2: bootstrap, 3: {}}, {3: bootstrap}, {2: bootstrap, 3: {Standing: transport.GaveWay}}, {},
		{2: {Standing: transport.GaveWay}, 3: {Cluster: ownCluster}},
	}
	for _, tc := range []struct {
		apart time.Duration
		told  int
	}{{askAgain, 1}, {tellWaiting / 2, 2}, {tellWaiting, 4}} {
		f := newFounder()
		if err := f.waits(t, said, tc.apart); err != nil || f.asked != len(said) {
			t.Errorf("asked %d times: %v", f.asked, err)
		}
		if told := strings.Count(f.log.String(), "waits for what becomes of that"); told != tc.told {
			t.Errorf("told %d times that it waits, asking each %v, want %d:\n%s", told, tc.apart, tc.told, &f.log)
		}
	}
	f := newFounder()
	if err := f.waits(t, answers{{2: {}}}, askAgain); err != nil || f.log.Len() > 0 {
		t.Errorf("with nobody to wait for: %v, %s", err, &f.log)
	}
}

// TestDataFoundsNothingBesideOthers: what ends the wait with an error.
func TestDataFoundsNothingBesideOthers(t *testing.T) {
	bootstrap := map[uint64]transport.Probed{2: {Standing: transport.Bootstrapping}}
	for _, tc := range []struct {
		said transport.Probed
		want string
	}{
		{transport.Probed{Standing: transport.WithData}, "into server 3, too"},
		{transport.Probed{Known: true}, "server 3 belongs to an ensemble already"},
		{transport.Probed{Cluster: [16]byte{2}}, "server 3 belongs to an ensemble already"},
	} {
		f := newFounder()
		err := f.waits(t, answers{bootstrap, {2: {}, 3: tc.said}}, askAgain)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("beside %+v: %v, want %q", tc.said, err, tc.want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	err := newFounder().mayFound(ctx, func(context.Context) map[uint64]transport.Probed {
		cancel()
		return bootstrap
	})
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "wait for the servers [2]") {
		t.Errorf("stopped while it waits: %v", err)
	}
}
