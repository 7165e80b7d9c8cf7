package quorum

import (
	"encoding/binary"
	"fmt"

	"zkd/quorum/member"
)

// memberKey is the name among the log's blobs of whose log it is: the version byte, then the id (8 bytes, big-endian).
// Two members with one id, or one with another's log, would each make raft's promises for the other.
const memberKey = "member"

// openIdentity refuses a log that is of another member, and one of a group of one that is to become a group of several
// by its configuration alone. On the first start it writes whose log it is.
func openIdentity(o *Options) error {
	if err := checkIdentity(o); err != nil {
		return err
	}
	blob, ok := o.Log.Meta(membershipKey)
	// Imported data bootstraps an ensemble alone, and a crash may have come before it has.
	if !ok || len(o.Members) < 2 || o.Machine.ClusterID() != [16]byte{} || Imported(o.Log) {
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

// checkIdentity compares the member with the one whose log it is.
func checkIdentity(o *Options) error {
	if blob, ok := o.Log.Meta(memberKey); ok {
		if len(blob) != 9 || blob[0] != stateVersion {
			return fmt.Errorf("member %x in the raft log is not of format %d: run a newer zkd", blob, stateVersion)
		}
		return sameMember(binary.BigEndian.Uint64(blob[1:]), o.ID)
	}
	if blob, ok := o.Log.Meta(membershipKey); ok { // of before the blob
		m, err := member.Decode(blob)
		if err != nil {
			return err
		}
		if ids := m.IDs(); len(ids) == 1 {
			if err := sameMember(ids[0], o.ID); err != nil {
				return err
			}
		}
	}
	if err := o.Log.SetMeta(memberKey, binary.BigEndian.AppendUint64([]byte{stateVersion}, o.ID)); err != nil {
		return fmt.Errorf("store whose log it is: %w", err)
	}
	return nil
}

// sameMember refuses the data of one member for another.
func sameMember(stored, id uint64) error {
	if stored == id {
		return nil
	}
	return fmt.Errorf("the data is of server %d, and this is server %d: write %d into the file myid (and number its "+
		"server line so), or give this server its own data directory; a standalone server without myid is server 1",
		stored, id, stored)
}
