package quorum

import (
	"encoding/binary"

	"go.etcd.io/raft/v3/raftpb"

	"zkd/storage"
)

// BeginRestored makes the beginning of a raft log behind the entry index of that term, whose effect a restored state
// is, with the member id as a group of one. The log must be new.
func BeginRestored(log *storage.RaftLog, id, index, term uint64) error {
	m := membership{index: index, conf: &raftpb.ConfState{Voters: []uint64{id}}}
	blob, err := m.encode()
	if err != nil {
		return err
	}
	return log.Install(index, term, appendHardState(nil, term, 0, index), map[string][]byte{
		membershipKey: blob, memberKey: binary.BigEndian.AppendUint64([]byte{stateVersion}, id),
	})
}
