package conf

import "strings"

// quorumKeys are the rows for what concerns the members of an ensemble.
var quorumKeys = []key{
	{name: "myid", kind: kindNumber, def: "", mark: must, effect: works,
		doc: "Id of this server among the server lines; -1 is none, and enough for a server that stands alone. " +
			"ZooKeeper has it only as the content of the file `dataDir/myid`, which must agree.",
		set: func(c *Config, v value) { c.Ensemble.MyID = v.num }},
	{name: "server.N", kind: kindMember, mark: must, effect: works, runtime: true,
		doc: "Member N of the ensemble; N is any whole number but -1, as a rule from 0 or 1 on. Members talk to each " +
			"other over the peer port alone; the election port must be there and differ, as in ZooKeeper, and " +
			"nothing listens on it. One line with standaloneEnabled=true is a standalone server.",
		set: func(*Config, value) {}},
	{name: "group.N", kind: kindText, mark: should, effect: works,
		doc: "Ids of the members of group N with colons between them. Groups and weights that mean nothing else than " +
			"a majority of those who have a vote are taken: one group, or one for each participant. Others are " +
			"refused.",
		set: func(*Config, value) {}},
	{name: "weight.N", kind: kindNumber, min: 0, max: maxInt, mark: should, effect: works,
		doc: "Weight of the vote of member N. Weights by which all majorities, and nothing else, are quorums are " +
			"taken, as when all are equal; others are refused. A participant whose weight is 0 is an observer.",
		set: func(*Config, value) {}},
	{name: "initLimit", kind: kindNumber, min: 0, max: maxInt, mark: must, effect: works,
		doc: "Ticks of tickTime after which a member that takes over the state of another gives up on a stream " +
			"without headway and asks anew. Required in an ensemble. Elections do not depend on it.",
		set: func(c *Config, v value) { c.Ensemble.InitLimit = int(v.num) }},
	{name: "syncLimit", kind: kindNumber, min: 0, max: maxInt, mark: must, effect: works,
		doc: "Ticks of tickTime after which a connection between members that shows no sign of life is cut and made " +
			"anew. Required in an ensemble. Elections do not depend on it: see zkd.electionTimeout.",
		set: func(c *Config, v value) { c.Ensemble.SyncLimit = int(v.num) }},
	{name: "standaloneEnabled", kind: kindBoolean, def: "true", mark: must, effect: works,
		doc: "A single server line runs a standalone server; false runs an ensemble of one, which can grow.",
		set: func(c *Config, v value) { c.Ensemble.StandaloneEnabled = v.flag }},
	{name: "reconfigEnabled", kind: kindBoolean, def: "false", mark: must, effect: works,
		doc: "Allow the request reconfig, and keep the server lines in a file of their own that follows it. A " +
			"standalone server answers the request with an error either way.",
		set: func(c *Config, v value) { c.Tree.Reconfig = v.flag }},
	{name: "dynamicConfigFile", kind: kindPath, mark: must, effect: works,
		doc: "File with the server lines, which zoo.cfg must then not have. Hexadecimal digits behind the last dot " +
			"of its name are the version of the configuration. A reconfiguration writes a new one and names it here.",
		set: func(c *Config, v value) { c.Ensemble.DynamicConfigFile = v.text }},
	{name: "peerType", kind: kindText, def: "participant", mark: must, effect: works,
		doc: "`participant` or `observer`, in any case. The server line wins.",
		set: func(c *Config, v value) { c.Ensemble.Observer = strings.EqualFold(v.text, "observer") }},
	{name: "electionAlg", kind: kindNumber, def: "3", min: 3, max: 3, mark: must, effect: works,
		doc: "Only 3 is possible; the election is raft's.", set: func(*Config, value) {}},
	{name: "syncEnabled", kind: kindBoolean, def: "true", mark: should, effect: ignored,
		doc: "`false` has ZooKeeper's observers keep nothing on disk; those of zkd always do.",
		why: "an observer always keeps its log and its state on disk",
		set: func(c *Config, v value) { c.Storage.SyncEnabled = v.flag }},
	{name: "quorumListenOnAllIPs", kind: kindBoolean, def: "false", mark: should, effect: works,
		doc: "The peer port listens on all addresses, not on those of this server's line alone.",
		set: func(c *Config, v value) { c.Ensemble.ListenOnAllIPs = v.flag }},
	{name: "multiAddress.enabled", property: "zookeeper.multiAddress.enabled", kind: kindBoolean, def: "false",
		mark: should, effect: works,
		doc: "A server line may hold several addresses with `|` between them; they are tried in turn.",
		set: func(c *Config, v value) { c.Ensemble.MultiAddress = v.flag }},
	{name: "multiAddress.reachabilityCheckEnabled", property: "zookeeper.multiAddress.reachabilityCheckEnabled",
		kind: kindBoolean, def: "true", mark: should, effect: ignored, doc: "Ask which address of a member answers.",
		why: "the addresses of a member are tried in turn, which is the question",
		set: func(c *Config, v value) { c.Ensemble.ReachabilityCheck = v.flag }},
	{name: "multiAddress.reachabilityCheckTimeoutMs", property: "zookeeper.multiAddress.reachabilityCheckTimeoutMs",
		kind: kindMillis, def: "1000", min: 0, max: maxInt, mark: should, effect: works,
		doc: "How long the first attempt at each of several addresses of a member may take; then cnxTimeout counts.",
		set: func(c *Config, v value) { c.Ensemble.ReachabilityTimeout = v.span }},
	{name: "cnxTimeout", property: "zookeeper.cnxTimeout", kind: kindMillis, def: "5000", min: 1, max: maxInt,
		mark: should, effect: works, doc: "How long to try one address of another member, TLS handshake included.",
		set: func(c *Config, v value) { c.Ensemble.ConnectTimeout = v.span }},
	{name: "tcpKeepAlive", property: "zookeeper.tcpKeepAlive", kind: kindBoolean, def: "false", mark: should,
		effect: works,
		doc:    "TCP keep-alive on connections between members.",
		set:    func(c *Config, v value) { c.Ensemble.KeepAlive = v.flag }},
	{name: "leaderServes", property: "zookeeper.leaderServes", kind: kindYesNo, def: "yes", mark: should, effect: works,
		doc: "`no`: the leader of an ensemble serves no clients: it closes their connections, and they go to the " +
			"others.",
		set: func(c *Config, v value) { c.Client.LeaderServes = v.flag }},
	{name: "readonlymode.enabled", property: "readonlymode.enabled", kind: kindBoolean, def: "false", mark: must,
		effect: works,
		doc: "A member without a quorum serves reads to clients that allow it. For a standalone server it only has " +
			"isro answered.",
		set: func(c *Config, v value) { c.Client.ReadOnlyMode = v.flag }},
}

// ownKeys are the rows that ZooKeeper has not. Their names begin with `zkd.`, which their variables leave out.
var ownKeys = []key{
	{name: "zkd.sasl.users", kind: kindPath, mark: must, effect: works,
		doc: "File with the users of SASL's DIGEST-MD5, `name:password` a line, in place of a JAAS file. It switches " +
			"the scheme sasl on, without authProvider.X. Let nobody but the server read it.",
		set: func(c *Config, v value) { c.Auth.SASLUsersFile = v.text }},
	{name: "zkd.quorum.secretFile", kind: kindPath, mark: must, effect: works,
		doc: "File with the secret of the ensemble, 16 bytes at least, which servers prove to each other before they " +
			"say anything else; without TLS it encrypts, too, what they say. Each line is a secret: the first is " +
			"proven, all are taken. Other users must not be able to read the file.",
		set: func(c *Config, v value) { c.Ensemble.SecretFile = v.text }},
	{name: "zkd.quorum.secretRequired", kind: kindBoolean, def: "true", mark: must, effect: works,
		doc: "`false`: servers without the secret are let in, too. For the time in which it is given to one server " +
			"after the other.",
		set: func(c *Config, v value) { c.Ensemble.SecretRequired = v.flag }},
	{name: "zkd.linearizableReads", kind: kindBoolean, def: "false", mark: must, effect: works,
		doc: "Every read waits until this server has seen all that was committed before it, for the price of a " +
			"message to the leader and back. Without it reads are those of ZooKeeper: of this server, in the order " +
			"of the session.",
		set: func(c *Config, v value) { c.Client.LinearizableReads = v.flag }},
	{name: "zkd.join", kind: kindBoolean, def: "false", mark: must, effect: works,
		doc: "The first start of this server founds nothing: it waits for the state of a running ensemble, which " +
			"reconfig adds it to. Set it for a new member of a running ensemble, and for one that lost its data. It " +
			"counts only while dataDir holds no state.",
		set: func(c *Config, v value) { c.Ensemble.Join = v.flag }},
	{name: "zkd.myidFromHostname", kind: kindNumber, min: 0, max: maxInt, mark: must, effect: works,
		doc: "Take the number of this server from its host's name: the digits that the name ends with before its " +
			"first dot, plus this. With 1 the pods `zkd-0`, `zkd-1` and `zkd-2` of a StatefulSet are the servers 1, " +
			"2 and 3, with 0 they are 0, 1 and 2. `myid` and the file `dataDir/myid` are not needed then, and must " +
			"agree.",
		set: func(*Config, value) {}},
	{name: "zkd.electionTimeout", kind: kindMillis, def: "1000", min: 300, max: 60_000, mark: must, effect: works,
		doc: "Silence of the leader after which a member asks for an election, in steps of 100. Each draws a time " +
			"between this and twice this. A connection to the leader that breaks asks at once.",
		set: func(c *Config, v value) { c.Ensemble.ElectionTimeout = v.span }},
	{name: "zkd.leaderGrace", kind: kindMillis, def: "2000", min: 0, max: 60_000, mark: must, effect: works,
		doc: "How long a server that knows of no leader keeps its clients: reads go on, writes and new sessions " +
			"wait. After that it turns clients away, or serves reads with readonlymode.enabled.",
		set: func(c *Config, v value) { c.Ensemble.LeaderGrace = v.span }},
	{name: "zkd.removedGrace", kind: kindMillis, def: "600000", min: 0, max: 86_400_000, mark: must, effect: works,
		doc: "How long a server that a reconfig takes out of the ensemble keeps its clients, as a follower without a " +
			"vote; the same on every server of the ensemble. Then, or when it is stopped, it is out of it. 0 is at " +
			"once.",
		set: func(c *Config, v value) { c.Ensemble.RemovedGrace = v.span }},
	{name: "zkd.snapshotRate", kind: kindSize, def: "67108864", min: 0, max: maxLong, mark: must, effect: works,
		doc: "Most bytes a second with which this server sends its state to one that is too far behind; 0 is no limit.",
		set: func(c *Config, v value) { c.Ensemble.SnapshotRate = v.num }},
	{name: "zkd.featureLevelMax", kind: kindNumber, def: "0", min: 0, max: 65535, mark: must, effect: works,
		doc: "Highest feature level to which this server agrees that the ensemble is raised; 0 is the highest that " +
			"it can do. While one server says the level that there is, all can go back to the zkd that they ran " +
			"before.",
		set: func(c *Config, v value) { c.Ensemble.FeatureLevelMax = v.num }},
	{name: "zkd.log.retainBytes", kind: kindSize, def: "0", min: 0, max: maxLong, mark: must, effect: works,
		doc: "Most bytes of entries that the raft log keeps for members that are behind, away, or being sent the " +
			"state; on every server of the ensemble. Beyond it a member is sent the state, or a newer one. 0 is an " +
			"eighth of the room on the log's disk, between 64 and 256 MiB.",
		set: func(c *Config, v value) { c.Ensemble.LogRetainBytes = v.num }},
}
