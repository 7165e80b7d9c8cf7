package sim

import (
	"fmt"
	"strings"
)

// drawn is something that a run has drawn, or met. What the runs of a test never do, they do not test.
type drawn uint8

// What can be drawn: faults first.
const (
	drawnCrash drawn = iota
	drawnCrashSeveral
	drawnCrashAll
	drawnTorn // a file came back with a part of what was written
	drawnPartition
	drawnOneWay
	drawnIsolatedLeader
	drawnBrokenConnection
	drawnDropped
	drawnDuplicated
	drawnOvertaken
	drawnFullQueue
	drawnSlowDisk
	drawnSlowApply
	drawnHungLog
	drawnHungState
	drawnPause
	drawnClockJump
	drawnSnapshotsCutOff
	drawnSnapshotsRefused // checkpoints, by a member, for long
	drawnSnapshotRefused  // one of them
	drawnMovedLeader
	drawnLostDisk
	drawnLostAgain        // by one that was not taken in again since the last time
	drawnLateFounder      // comes when the others have founded the ensemble
	drawnReconfig         // asked for, as a client does
	drawnReconfigDone     // committed, and OK
	drawnReconfigRefused  // committed, and not OK
	drawnChange           // of the membership, without a reconfig
	drawnLossAndChange    // a run that loses a disk and changes its members
	drawnRetired          // a server that was removed stops
	drawnDiskTransfer     // of a leader whose disk hangs or is slow
	drawnFive             // a run with five participants
	drawnSmall            // a run that begins with one or two
	drawnOneVoter         // a change of the membership that leaves one
	drawnTwoVoters        // one that leaves or makes two
	drawnGrown            // one by which one or two become three or more
	drawnObserver         // a run with observers
	drawnObserverRead     // a read that an observer has answered
	drawnEphemeral        // made
	drawnEphemeralEnded   // gone with its session
	drawnWatch            // registered
	drawnWatchSetAgain    // on another server, and fires there at once
	drawnWatchConfig      // fired for /zookeeper/config
	drawnLinearOp         // given to the checker of linearizability
	drawnOrderedWrite     // of a session, compared with the one before
	drawnComparedRead     // made again on the log's own state
	drawnComparedState    // of a member, at the end
	drawnComparedSnapshot // of a member that installs one
	drawnComparedEntry    // digest and zxid of one that another member had applied
	drawnAgreedState      // a member whose state the ensemble has found to be its own
	drawnBoundedLog       // a log that was measured
	drawnUncachedRead     // of entries for a member that is behind, that the log did not have in memory
	drawnCount
)

// drawnNames are their names.
var drawnNames = [drawnCount]string{
	"crash", "crash several", "crash all", "torn write", "partition", "one way", "isolate the leader",
	"break a connection", "drop a frame", "duplicate a frame", "overtake a frame", "full queue", "slow disk",
	"slow apply", "disk of the log hangs", "disk of the state hangs", "pause", "clock", "cut off snapshots",
	"refuse snapshots", "refused snapshot", "move the leader", "lose a disk", "lose it again", "late founder",
	"reconfig", "reconfig done", "reconfig refused", "change without reconfig", "loss and change in one run", "retire",
	"transfer the leadership because of a disk", "five participants",
	"one or two participants", "one voter", "two voters", "three voters of fewer",
	"observers", "read of an observer", "ephemeral", "ephemeral gone with its session", "watch",
	"watch fires when set again", "watch of the configuration", "linear operation", "ordered write", "compared read",
	"compared state", "compared snapshot", "compared entry", "agreed state", "bounded log",
	"uncached read",
}

// String is its name.
func (d drawn) String() string { return drawnNames[d] }

// tally counts what was drawn.
type tally [drawnCount]int

// String lists the counts.
func (t tally) String() string {
	var b strings.Builder
	for d, n := range t {
		fmt.Fprintf(&b, "%v %d, ", drawn(d), n)
	}
	return strings.TrimSuffix(b.String(), ", ")
}

// count notes that something was drawn.
func (w *world) count(d drawn) { w.report.Drawn[d]++ }
