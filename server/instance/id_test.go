package instance

import (
	"testing"

	"zkd/conf"
	"zkd/quorum"
	"zkd/storage/serverid"
)

func TestServerID(t *testing.T) {
	ours := quorum.LogInfo{Member: 3, Voters: []uint64{3}}
	ofSeveral := quorum.LogInfo{Member: 3, Voters: []uint64{1, 3}}
	for _, tc := range []struct {
		name        string
		number      int64
		distributed bool
		log         quorum.LogInfo
		want        uint64
	}{
		{"a member", 3, true, quorum.LogInfo{}, 3},
		{"member 0", 0, true, quorum.LogInfo{}, serverid.Of(0)},
		{"a member on another's data", 2, true, ours, 2},
		{"alone", 3, false, quorum.LogInfo{}, 3},
		{"alone without a number", conf.NoID, false, quorum.LogInfo{}, 1},
		{"alone with the number 0", 0, false, quorum.LogInfo{}, serverid.Of(0)},
		{"alone on its data, with another number", 2, false, ours, 3},
		{"alone on its data, without a number", conf.NoID, false, ours, 3},
		{"alone on data of a member of several", 2, false, ofSeveral, 2},
	} {
		c := &conf.Config{Ensemble: conf.Ensemble{MyID: tc.number, Distributed: tc.distributed}}
		if got := ServerID(c, &tc.log); got != tc.want {
			t.Errorf("%s: %#x, want %#x", tc.name, got, tc.want)
		}
	}
}
