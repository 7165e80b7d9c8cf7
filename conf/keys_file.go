package conf

// maxInt is the largest Java int.
const maxInt = 1<<31 - 1

// maxLong is the largest Java long.
const maxLong = 1<<63 - 1

// fileKeys are the rows for what ZooKeeper's QuorumPeerConfig.parseProperties reads about one server.
var fileKeys = []key{
	{name: "dataDir", kind: kindPath, mark: must, effect: works,
		doc: "Folder for everything the server keeps, and for the file `myid`. Required in a zoo.cfg; without a " +
			"zoo.cfg it is `./zkd-data`.",
		set: func(c *Config, v value) { c.Storage.DataDir = v.text }},
	{name: "dataLogDir", kind: kindPath, mark: must, effect: works,
		doc: "Folder for the log alone, on a disk of its own. The same as dataDir when not given.",
		set: func(c *Config, v value) { c.Storage.DataLogDir = v.text }},
	{name: "clientPort", kind: kindPort, mark: must, effect: works,
		doc: "Port for plain connections of clients; 0 is any free one. Without a zoo.cfg it is 2181. The server " +
			"line may hold it instead.",
		set: func(c *Config, v value) { c.Client.Addr = joinPort(c.Client.Addr, v.num) }},
	{name: "clientPortAddress", kind: kindText, mark: must, effect: works,
		doc: "Address that clientPort listens on; all when not given, the loopback one when empty.",
		set: func(c *Config, v value) { c.Client.Addr = joinHost(orLocalhost(v.text), c.Client.Addr) }},
	{name: "secureClientPort", kind: kindPort, mark: must, effect: works,
		doc: "Port for TLS connections of clients; 0 is any free one.",
		set: func(c *Config, v value) { c.Client.SecureAddr = joinPort(c.Client.SecureAddr, v.num) }},
	{name: "secureClientPortAddress", kind: kindText, mark: must, effect: works,
		doc: "Address that secureClientPort listens on; all when not given, the loopback one when empty.",
		set: func(c *Config, v value) { c.Client.SecureAddr = joinHost(orLocalhost(v.text), c.Client.SecureAddr) }},
	{name: "clientPortListenBacklog", kind: kindNumber, def: "-1", mark: should, effect: works,
		doc: "Connections the system holds before they are accepted, on Linux; 0 or less is the system's own number.",
		set: func(c *Config, v value) { c.Client.Backlog = int(v.num) }},
	{name: "tickTime", kind: kindMillis, def: "3000", min: 1, max: maxInt, mark: must, effect: works,
		doc: "Unit of the session limits and grid of session expiry. Without a zoo.cfg it is 2000.",
		set: func(c *Config, v value) { c.Session.TickTime = v.span }},
	{name: "minSessionTimeout", kind: kindMillis, def: "-1", min: -1, max: maxInt, mark: must, effect: works,
		doc: "Shortest session timeout a client can have; -1 is twice tickTime.",
		set: func(c *Config, v value) { c.Session.MinTimeout = v.span }},
	{name: "maxSessionTimeout", kind: kindMillis, def: "-1", min: -1, max: maxInt, mark: must, effect: works,
		doc: "Longest session timeout a client can have; -1 is twenty times tickTime.",
		set: func(c *Config, v value) { c.Session.MaxTimeout = v.span }},
	{name: "maxClientCnxns", kind: kindNumber, def: "60", mark: must, effect: works,
		doc: "Connections from one client address; 0 or less is no limit.",
		set: func(c *Config, v value) { c.Client.MaxPerIP = max(0, int(v.num)) }},
	{name: "localSessionsEnabled", kind: kindBoolean, def: "false", mark: should, effect: works,
		doc: "New sessions are known to their server alone: they cost the ensemble nothing, have no ephemeral nodes " +
			"and cannot move to another server.",
		set: func(c *Config, v value) { c.Client.LocalSessions = v.flag }},
	{name: "localSessionsUpgradingEnabled", kind: kindBoolean, def: "false", mark: should, effect: works,
		doc: "The first ephemeral node makes a local session global.",
		set: func(c *Config, v value) { c.Client.LocalSessionsUpgrading = v.flag }},
	{name: "autopurge.snapRetainCount", kind: kindNumber, def: "3", mark: should, effect: ignored,
		doc: "Snapshots that the clean-up keeps; fewer than 3 becomes 3.",
		why: whyPurge, set: noField},
	{name: "autopurge.purgeInterval", kind: kindHours, def: "0", mark: should, effect: ignored,
		doc: "Time between two clean-ups; 0 or less is never.",
		why: whyPurge, set: noField},
}
