package conf

import "strings"

// tuningKeys are accepted without effect: they tune a design that zkd does not have. Their values are not looked at.
var tuningKeys = ignoredKeys(tuning,
	"connectToLearnerMasterLimit", "observerMasterPort", "oraclePath",
	"zookeeper.emulate353TTLNodes", "zookeeper.enableEagerACLCheck", "zookeeper.txnLogSizeLimitInKb",
	"zookeeper.preAllocSize",
	"zookeeper.commitLogCount", "zookeeper.snapshotSizeFactor", "zookeeper.maxResponseCacheSize",
	"zookeeper.maxGetChildrenResponseCacheSize", "zookeeper.commitProcessor.numWorkerThreads",
	"zookeeper.commitProcessor.maxReadBatchSize",
	"zookeeper.commitProcessor.maxCommitBatchSize", "zookeeper.commitProcessor.shutdownTimeout",
	"zookeeper.netty.server.earlyDropSecureConnectionHandshakes",
	"zookeeper.netty.advancedFlowControl.enabled", "zookeeper.leader.maxConcurrentSnapSyncs",
	"zookeeper.leader.maxConcurrentDiffSyncs",
	"zookeeper.leader.maxTimeToWaitForEpoch", "zookeeper.leader.ackLoggingFrequency",
	"zookeeper.leader.closeSocketAsync",
	"zookeeper.learner.asyncSending", "zookeeper.learner.closeSocketAsync", "zookeeper.leaderConnectDelayDuringRetryMs",
	"zookeeper.follower.skipLearnerRequestToNextProcessor",
	"zookeeper.forward_learner_requests_to_commit_processor_disabled",
	"zookeeper.forceSnapshotSync", "zookeeper.quorumCnxnTimeoutMs",
	"zookeeper.electionPortBindRetry",
	"zookeeper.fastleader.minNotificationInterval", "zookeeper.fastleader.maxNotificationInterval",
	"zookeeper.observer.reconnectDelayMs",
	"zookeeper.observer.election.DelayMs", "zookeeper.observerMaster.sizeLimit", "zookeeper.observer.syncEnabled",
	"zookeeper.pathStats.X", "zookeeper.messageTracker.X", "zookeeper.kerberos.canonicalizeHostNames",
)

// javaKeys are accepted without effect: they have no meaning outside the JVM.
var javaKeys = ignoredKeys(javaOnly,
	"metricsProvider.X", "jvm.pause.X",
	"zookeeper.admin.httpVersion", "zookeeper.serverCnxnFactory", "zookeeper.nio.numSelectorThreads",
	"zookeeper.nio.numWorkerThreads",
	"zookeeper.nio.directBufferBytes", "zookeeper.nio.shutdownTimeout", "zookeeper.watchManagerName",
	"zookeeper.watcherCleanThreshold",
	"zookeeper.watcherCleanIntervalInSeconds", "zookeeper.watcherCleanThreadsNum",
	"zookeeper.maxInProcessingDeadWatchers",
	"zookeeper.bitHashCacheSize", "zookeeper.audit.impl.class", "zookeeper.intBufferStartingSizeBytes",
	"zookeeper.request_throttler.shutdownTimeout", "zookeeper.jmx.log4j.X", "zookeeper.controllerPort",
	"zookeeper.test.X",
	"zookeeper.testingonly.X", "zookeeper.ssl.context.supplier.class", "zookeeper.ssl.quorum.context.supplier.class",
	"zookeeper.log.dir", "zookeeper.log.file", "zookeeper.log.threshold", "zookeeper.root.logger",
	"zookeeper.console.threshold",
	"leader.nodelay", "follower.nodelay",
)

// Why keys without effect have none whose values are looked at all the same: a wrong one is a mistake.
const (
	whyPurge        = "zkd keeps its log short by itself, and no snapshots pile up"
	whySnapshots    = "zkd's state is on disk already, and is not written anew from time to time"
	whyDigest       = "zkd computes the digest when it is asked for"
	whyCloseSession = "it is about the format of ZooKeeper's log, of which zkd writes none"
	whyBatches      = "a batch of zkd's is what has come while the disk was busy"
)

// noField is the set of a row without effect.
func noField(*Config, value) {}

// ignoredKeys makes rows without effect. A name that begins with `zookeeper.` is a JVM property; the two without it
// that are also JVM properties are marked as such.
func ignoredKeys(m mark, names ...string) []key {
	rows := make([]key, 0, len(names))
	for _, name := range names {
		row := key{name: name, kind: kindText, mark: m, effect: ignored, why: ignoredWhy(m)}
		row.doc = "Nothing: it " + row.why + "."
		row.set = noField
		if bare, ok := strings.CutPrefix(name, propertyPrefix); ok {
			row.name, row.property = bare, name
		}
		if name == "leader.nodelay" || name == "follower.nodelay" {
			row.property = name
		}
		rows = append(rows, row)
	}
	return rows
}

// ignoredWhy says why a row has no effect.
func ignoredWhy(m mark) string {
	if m == javaOnly {
		return "has no meaning outside the JVM"
	}
	return "tunes something that zkd does not have"
}
