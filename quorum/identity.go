package quorum

import (
	"encoding/binary"
	"fmt"

	"zkd/quorum/member"
	"zkd/storage/serverid"
)

// memberKey is the name among the log's blobs of whose log it is: the version byte, then the id (8 bytes, big-endian).
// Two members with one id, or one with another's log, would each make raft's promises for the other.
const memberKey = "member"

// openIdentity refuses a log that is of another member, and one of a group of one that is to become a group of several
// by its configuration alone. On the first start it writes whose log it is.
func openIdentity(o *Options) error {
	said, err := checkIdentity(o.Log, o.ID)
	if err != nil {
		return err
	}
	if !said {
		if err := o.Log.SetMeta(memberKey, binary.BigEndian.AppendUint64([]byte{stateVersion}, o.ID)); err != nil {
			return fmt.Errorf("store whose log it is: %w", err)
		}
	}
	return checkAlone(o.Log, o, func() bool { return o.Machine.ClusterID() != [16]byte{} })
}

// checkAlone refuses the log of a group of one that is to become a group of several by its configuration alone. founded
// tells whether its ensemble was founded.
func checkAlone(log LogReader, o *Options, founded func() bool) error {
	blob, ok := log.Meta(membershipKey)
	// Imported data bootstraps an ensemble alone, and a crash may have come before it has.
	if !ok || len(o.Members) < 2 || founded() || Imported(log) {
		return nil
	}
	m, err := member.Decode(blob)
	if err != nil || !m.SoleVoter(o.ID) || len(m.IDs()) > 1 {
		return err
	}
	if m.Index > bootstrapIndex { // an ensemble has shrunk to it, of which the state may know nothing before a replay
		return nil
	}
	return fmt.Errorf("the data is of a server that stood alone, and the configuration names %d servers, which could "+
		"found an ensemble without it: leave the server line of this server alone, with standaloneEnabled=false and "+
		"reconfigEnabled=true, start it, and add the others by reconfig", len(o.Members))
}

// checkIdentity compares the member with the one whose log it is, if that says it.
func checkIdentity(log LogReader, id uint64) (said bool, err error) {
	if blob, ok := log.Meta(memberKey); ok {
		if len(blob) != 9 || blob[0] != stateVersion {
			return true, fmt.Errorf("member %x in the raft log is not of format %d: run a newer zkd", blob,
				stateVersion)
		}
		return true, sameMember(binary.BigEndian.Uint64(blob[1:]), id)
	}
	blob, ok := log.Meta(membershipKey)
	if !ok {
		return false, nil
	}
	m, err := member.Decode(blob) // of before the other blob
	if err != nil {
		return false, err
	}
	if ids := m.IDs(); len(ids) == 1 {
		return false, sameMember(ids[0], id)
	}
	return false, nil
}

// sameMember refuses the data of one member for another.
func sameMember(stored, id uint64) error {
	if stored == id {
		return nil
	}
	return fmt.Errorf("the data is of server %d, and this is server %d: write %d into the file myid (and number its "+
		"server line so), or give this server its own data directory; a standalone server without myid is server 1",
		serverid.Number(stored), serverid.Number(id), serverid.Number(stored))
}
