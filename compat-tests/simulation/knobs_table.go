package simulation

import (
	"slices"
	"time"
)

// knobs are all of them.
//
// Left out are constants of formats and of ZooKeeper's behaviour, those that arrays are made with, and those whose
// other values break a promise:
//   - quorum.lastTimeEntries, apply.marksKept: with less of them a new leader may date a write before one of its
//     predecessor, and a comparison ends without a verdict.
//   - quorum.caughtUpEntries, stallTimeouts, lateTicks, the times of a stream's keep-alives: they are what clients and
//     operators are told of how soon zkd notices something.
//   - apply.grownACLLeast, multiReadTimes: requests are refused at them.
func knobs() []Knob {
	return slices.Concat(knobsOfTheNode(), knobsOfMembersBehind(), knobsOfStreams(), knobsOfTheServer(),
		knobsOfTheState(), knobsOfTheLog())
}

// of is the values of a knob.
func of[T int | int64 | time.Duration](values ...T) (all []int64) {
	for _, v := range values {
		all = append(all, int64(v))
	}
	return all
}

// knobsOfTheNode are about what is proposed, sent and applied.
func knobsOfTheNode() []Knob {
	return []Knob{
		{"quorum/options.go", "defaultMaxEntryBytes", "int", of(200, 4<<10, 64<<10)},
		{"quorum/options.go", "defaultMaxOutstandingBytes", "int", of(1, 1<<10, 64<<10)},
		{"quorum/options.go", "defaultCompareTicks", "int", of(20, 100)},
		{"quorum/options.go", "defaultFlushInterval", "time.Duration", of(time.Second, 5*time.Second)},
		{"quorum/options.go", "maxApplyingBytes", "uint64", of(1<<10, 64<<10, 1<<20)},
		{"quorum/applier.go", "quietApplyBytes", "int", nil},
		{"quorum/options.go", "maxMessageBytes", "uint64", of(1, 1<<10, 64<<10)},
		{"quorum/options.go", "maxInflightMessages", "int", of(1, 2, 16)},
		// raft wants it to be no less than a message.
		{"quorum/options.go", "maxInflightBytes", "uint64", of(1<<20, 4<<20)},
		{"quorum/stall.go", "maxUnstoredBytes", "int", nil},
		{"quorum/inbox.go", "maxInboxBytes", "int", of(1, 1<<10, 64<<10)},
		{"quorum/propose.go", "smallBatchBytes", "int", of(0, 1<<10)},
		{"quorum/propose.go", "growYields", "int", of(0, 1, 64)},
		{"quorum/compare.go", "compareEntries", "uint64", of(20, 500)},
		{"quorum/forward.go", "forwardWindow", "int", of(1, 8)},
		{"quorum/forward.go", "maxForwardedBytes", "int", of(1<<10, 64<<10)},
		{"quorum/readindex.go", "readIndexTicks", "int", of(2, 5)},
		{"quorum/loop.go", "shrinkTicks", "uint64", of(1, 7)},
		{"quorum/counting.go", "countsPerTick", "int", of(1, 2)},
		{"quorum/batcher/free.go", "maxFreeBatches", "int", of(0, 1)},
		{"quorum/batcher/batcher.go", "batchBufferBytes", "int", of(0, 100)},
		{"quorum/liveness/tracker.go", "expireBatch", "int", of(1, 3)},
		{"quorum/liveness/tracker.go", "reportBatch", "int", of(1, 3)},
		{"server/identify.go", "inlineIdentityBytes", "int", of(0, 20)},
		{"server/instance/peers/bootstrap.go", "askAgain", "time.Duration",
			of(10*time.Millisecond, 500*time.Millisecond)},
	}
}

// knobsOfMembersBehind are about what is kept for members that are away, and how they get it.
func knobsOfMembersBehind() []Knob {
	return []Knob{
		{"quorum/options.go", "defaultTailEntries", "uint64", of(2, 30, 300)},
		{"quorum/options.go", "defaultTailBytes", "int64", of(1<<10, 16<<10, 256<<10)},
		{"quorum/retention.go", "retainLeast", "uint64", of(16<<10, 1<<20)},
		{"quorum/retention.go", "retainMost", "uint64", of(64<<10, 4<<20)},
		{"quorum/retention.go", "retainUnknown", "uint64", of(16<<10, 1<<20)},
		{"quorum/compactor.go", "compactorSteps", "uint64", of(1, 2, 64)},
		{"quorum/compactor.go", "compactorInterval", "time.Duration", of(100*time.Millisecond, 3*time.Second)},
		{"quorum/compactor.go", "lowSpaceTails", "uint64", of(1, 8)},
		{"quorum/uncached.go", "chunkBytes", "uint64", of(1, 1<<10, 64<<10)},
		{"quorum/uncached.go", "chunksBytesMax", "int", of(1, 16<<10, 1<<20)},
		{"quorum/uncached.go", "chunksWantedMax", "int", of(1, 3)},
		{"quorum/uncached.go", "chunkIdleTicks", "int", of(2, 100)},
		{"quorum/uncached.go", "resendsMax", "int", of(1, 4)},
		{"quorum/uncached.go", "headsMax", "uint64", of(1, 16)},
		{"quorum/uncached.go", "scanHeadsMax", "uint64", of(1, 16)},
		{"quorum/logview.go", "scanBytes", "uint64", of(1, 4<<10)},
		{"quorum/checkpoint.go", "checkpointIdleTicks", "int", of(3, 300)},
		{"quorum/checkpoint.go", "catchUpTicks", "int", of(20, 100)},
		{"quorum/members.go", "historyLength", "int", of(2, 4)},
		// Longer pauses have a member that gets a snapshot miss the bound for the end of a run.
		{"quorum/backoff.go", "firstPauseTicks", "int", of(1, 4)},
		{"quorum/backoff.go", "longestPauseTicks", "int", of(20, 100)},
		{"quorum/snapshot/wire.go", "chunkBytes", "int", of(2<<10, 16<<10)},
		{"quorum/snapshot/staging.go", "syncBytes", "int64", of(1, 64<<10)},
		{"quorum/snapshot/sender.go", "attemptsMax", "int", of(1, 3)},
		{"quorum/snapshot/sender.go", "pauseLeast", "time.Duration", of(50*time.Millisecond, 300*time.Millisecond)},
		{"quorum/snapshot/sender.go", "pauseMost", "time.Duration", of(time.Second, 5*time.Second)},
		// Later, and a server whose disk fills up ends before it has refused what grows.
		{"quorum/spacemonitor.go", "spaceInterval", "time.Duration", of(50*time.Millisecond, 400*time.Millisecond)},
		{"quorum/spacemonitor.go", "reclaimInterval", "time.Duration", of(50*time.Millisecond, time.Second)},
	}
}

// knobsOfStreams are about what is between servers.
func knobsOfStreams() []Knob {
	return []Knob{
		{"quorum/transport/frame.go", "readBufferBytes", "int", of(1<<10, 8<<10)},
		{"quorum/transport/frame.go", "pieceBytes", "int", nil},
		{"quorum/transport/frame.go", "growBytes", "int", of(1, 4<<10)},
		{"quorum/transport/frame.go", "growFactor", "int", of(2, 16)},
		{"quorum/transport/frame.go", "largeBufferBytes", "int", of(0, 64<<10)},
		{"quorum/transport/frame.go", "idleUses", "int", of(1, 3)},
		{"quorum/transport/options.go", "defaultQueueBytesMax", "int", of(64<<10, 1<<20)},
		{"quorum/transport/peer.go", "burstPieces", "int", of(1, 16)},
		{"quorum/transport/link.go", "writeStepBytes", "int", of(100, 16<<10)},
		{"quorum/transport/inorder.go", "inOrderBytesMax", "int", of(1, 64<<10)},
		// A server that is cut off for a while is to be found again as soon as with the default.
		{"quorum/transport/options.go", "backoffLeast", "time.Duration", of(time.Millisecond, 100*time.Millisecond)},
		{"quorum/transport/options.go", "backoffMost", "time.Duration", of(200*time.Millisecond, time.Second)},
		{"quorum/large.go", "largeBytes", "int", of(50, 1<<10)},
		{"quorum/large.go", "repeatBytes", "int", of(1<<10, 16<<10)},
	}
}

// knobsOfTheServer are about clients.
func knobsOfTheServer() []Knob {
	return []Knob{
		{"server/availability.go", "barrierRetry", "time.Duration", of(10*time.Millisecond, 300*time.Millisecond)},
		{"server/commands.go", "commandFlushBytes", "int", of(1, 1<<10)},
		{"server/reads.go", "largeData", "int", of(0, 20, 1<<10)},
		{"server/reads.go", "readsPerPace", "int", nil},
		{"server/watches.go", "watchesAtOnce", "int", of(1, 3)},
		{"server/cleanup.go", "searchContainers", "int", of(1, 3)},
		{"storage/state/buried.go", "buriedLeast", "int", of(1, 2)},
		{"server/space.go", "refusalInterval", "time.Duration", of(time.Millisecond, 100*time.Millisecond)},
		{"server/socket/output.go", "outputBufferBytes", "int", of(1, 100, 1<<10)},
		{"server/socket/output.go", "maxPooledBytes", "int", of(0, 4<<10)},
		{"server/socket/output.go", "FlushAtBytes", "int", of(1, 100, 4<<10)},
		{"server/socket/output.go", "MaxOutstanding", "int", of(1, 2, 16)},
		{"server/socket/output.go", "MaxOutstandingBytes", "int", of(1, 1<<10)},
		{"server/socket/reserved.go", "sharedBytes", "int", of(1, 100)},
		{"server/socket/pair.go", "lingerBytes", "int64", of(1, 1<<10)},
		{"server/limits/inflight.go", "batchPart", "int", of(1, 64)},
		{"server/limits/inflight.go", "againPart", "int64", of(1, 64)},
		{"server/limits/readturns.go", "scanTurnKeys", "int", of(0, 10)},
		{"server/watch/fire.go", "keepFound", "int", of(0, 2)},
		{"server/watch/audience.go", "changesKept", "int", of(0, 2)},
		{"server/telling.go", "toldTogether", "int", of(1, 2)},
		{"server/telling.go", "toldBytesMax", "int", of(1, 200)},
		{"server/telling.go", "knownMax", "int", of(0, 3)},
		{"server/watch/report.go", "reportBatch", "uint32", of(1, 5)},
		{"server/instance/scrub.go", "scrubDelay", "time.Duration", of(time.Second, 15*time.Second)},
	}
}

// knobsOfTheState are about the state. What decides how an entry is applied is the same on all servers of a run.
func knobsOfTheState() []Knob {
	return []Knob{
		{"storage/apply/access.go", "verdictsFrom", "int", of(0, 1000)},
		{"storage/apply/names.go", "namesMax", "int", of(0, 20)},
		{"storage/apply/names.go", "namesParentsMax", "int", of(0, 2)},
		{"storage/apply/names.go", "namesScanMax", "int32", of(0, 3)},
		{"storage/apply/overlay.go", "changeSlab", "int", of(1, 5)},
		{"storage/apply/overlay.go", "keptChangesMax", "int", of(0, 3)},
		{"storage/apply/overlay.go", "arenaChunkBytes", "int", of(1, 1<<10)},
		{"storage/apply/counts.go", "CountZnodesMax", "int64", of(1, 5, 50)},
		{"storage/apply/counts.go", "countingQueueSlack", "int", of(0, 2)},
		{"storage/apply/counting.go", "CountsAtOnceMax", "int", of(1, 2)},
		{"storage/state/machine.go", "defaultCacheBytes", "int64", of(1, 16<<10, 256<<10)},
		{"storage/state/machine.go", "defaultListBytes", "int64", of(1, 2<<10, 64<<10)},
		{"storage/state/lists.go", "listAsked", "uint8", of(1, 3)},
		{"storage/state/lists.go", "listAskedMost", "int", of(2, 8)},
		{"storage/state/lists.go", "listChangesLeast", "int", of(0, 5)},
		{"storage/state/lists.go", "listChangesPart", "int", of(1, 100)},
		{"storage/state/lists.go", "listDropsAtOnce", "int", of(1, 2)},
		{"storage/childlist/list.go", "chunkBytesLeast", "int", of(1, 100)},
		{"storage/childlist/list.go", "chunkBytesMost", "int", of(1, 100)},
		{"storage/childlist/list.go", "chunksOfList", "int", of(1, 1000)},
		{"storage/state/machine.go", "defaultBlockCacheBytes", "int64", of(1<<10, 256<<10)},
		{"storage/state/machine.go", "defaultMemTableBytes", "int64", of(512<<10, 1<<20)},
		{"storage/state/machine.go", "defaultFlushBytes", "int64", of(2<<10, 32<<10, 256<<10)},
		{"storage/state/machine.go", "defaultFlushReplay", "time.Duration",
			of(30*time.Microsecond, 300*time.Microsecond, 3*time.Millisecond)},
		{"storage/state/readview.go", "ScanPace", "int", of(8, 16)},
		{"storage/state/reclaim.go", "tableBytesLeast", "int64", of(4<<10, 32<<10)},
		{"storage/state/reclaim.go", "tableBytesMost", "int64", of(16<<10, 128<<10)},
		{"storage/state/reclaim.go", "baseLevelBytesLeast", "int64", of(16<<10, 128<<10)},
		{"storage/state/reclaim.go", "baseLevelBytesMost", "int64", of(64<<10, 1<<20)},
		{"storage/state/scrub.go", "scrubStepBytes", "int", of(1, 1<<10)},
		{"storage/disk/fence.go", "writeStepBytes", "int", of(1<<10, 16<<10)},
		{"storage/disk/manifest.go", "ManifestBytes", "int64", of(1<<10, 16<<10)},
	}
}

// knobsOfTheLog are about the raft log.
func knobsOfTheLog() []Knob {
	return []Knob{
		{"storage/raftlog/append.go", "logBatchRetainedBytes", "int", of(1, 1<<10)},
		{"storage/raftlog/append.go", "reclaimLogBytes", "uint64", of(1, 64<<10)},
		{"storage/raftlog/log.go", "logMemTableBytesDefault", "int64", of(512<<10, 1<<20)},
		{"storage/raftlog/log.go", "logTailBytesDefault", "int64", of(1, 1<<10, 64<<10)},
		{"storage/raftlog/log.go", "logCacheBytesDefault", "int64", of(1<<10, 64<<10)},
		{"storage/raftlog/log.go", "logBlockBytes", "int", of(512, 4<<10)},
		{"storage/raftlog/log.go", "logTablesMax", "int", of(2, 4)},
		{"storage/raftlog/marker.go", "syncMarkerEvery", "int", of(1, 100)},
		{"storage/raftlog/spares.go", "sparesMax", "int", of(0, 1)},
		{"storage/raftlog/size.go", "logSizeStep", "uint64", of(1, 1<<10)},
	}
}
