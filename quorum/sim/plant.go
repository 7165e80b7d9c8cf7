package sim

// The blobs of a node's raft log that say who it is, and that it takes part.
const (
	incarnationKey = "incarnation"
	admittedKey    = "admitted"
)

// Plant is a bug that a run is to have: a test asks for one to see it caught.
type Plant uint8

// The plants.
const (
	PlantNone Plant = iota
	// PlantLyingDisk has the disk of the first two members say that it has synced, without.
	PlantLyingDisk
	// PlantForwardTwice has entries that a follower forwards proposed twice: each write is applied again.
	PlantForwardTwice
	// PlantEphemeralStays has one member forget to delete the ephemerals of a session that ends.
	PlantEphemeralStays
	// PlantCloseIgnored has all members do so.
	PlantCloseIgnored
	// PlantStaleSync has sync answered at once, without the leader.
	PlantStaleSync
	// PlantLostWatch has one event of several not delivered.
	PlantLostWatch
	// PlantWatchTwice has a watch stay after it fired.
	PlantWatchTwice
	// PlantEarlyAnswer has a write acknowledged when it is proposed, before it is committed.
	PlantEarlyAnswer
	// PlantSkippedWrite has one write of a connection dropped on its way, and those behind it not.
	PlantSkippedWrite
	// PlantClockInApply has a member take the time of a write from its own clock.
	PlantClockInApply
	// PlantOtherACL has a member give znodes another ACL: no client sees it, and no digest of ZooKeeper's.
	PlantOtherACL
	// PlantNoHeal has one connection stay broken after the faults stop.
	PlantNoHeal
	// PlantKeptIncarnation has members that have lost their disks take themselves, and be taken, for what they were.
	PlantKeptIncarnation
	plantEnd
)

// keepIncarnation remembers who a member is whose disk is about to be lost.
func (m *member) keepIncarnation() {
	if m.w.cfg.Plant == PlantKeptIncarnation {
		m.kept, _ = m.log.Meta(incarnationKey)
	}
}

// plantIncarnation has a member without data be who it was.
func (m *member) plantIncarnation() error {
	if m.kept == nil {
		return nil
	}
	kept := m.kept
	m.kept = nil
	if err := m.log.SetMeta(incarnationKey, kept); err != nil {
		return err
	}
	return m.log.SetMeta(admittedKey, []byte{1, 0})
}
