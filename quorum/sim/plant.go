package sim

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
	// PlantNoHeal has one connection stay broken after the faults stop.
	PlantNoHeal
)
