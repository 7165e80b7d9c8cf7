package fourletter

import (
	"cmp"
	"time"

	"zkd/jute"
	"zkd/server/stats"
)

// ZooKeeperVersion is the release whose behaviour zkd has, and which it reports: tools decide by it what a server can
// do.
const ZooKeeperVersion = "3.9.5"

// FullVersion returns the version text of srvr, mntr and envi in ZooKeeper's form, which tools parse
// (org.apache.zookeeper.Version.getFullVersion). revision is the build's, without blanks.
func FullVersion(revision string, built time.Time) string {
	return ZooKeeperVersion + "-" + revision + ", built on " + built.UTC().Format("2006-01-02 15:04 MST")
}

// opNames are what cons calls the last operation (org.apache.zookeeper.server.FinalRequestProcessor.processRequest).
var opNames = map[jute.Op]string{
	jute.OpPing: "PING", jute.OpCreateSession: "SESS", jute.OpMulti: "MULT", jute.OpMultiRead: "MLTR",
	jute.OpCreate: "CREA", jute.OpCreate2: "CREA", jute.OpCreateTTL: "CREA", jute.OpCreateContainer: "CREA",
	jute.OpDelete: "DELE", jute.OpDeleteContainer: "DELE", jute.OpSetData: "SETD", jute.OpReconfig: "RECO",
	jute.OpSetACL: "SETA", jute.OpCloseSession: "CLOS", jute.OpSync: "SYNC", jute.OpCheck: "CHEC",
	jute.OpExists: "EXIS", jute.OpGetData: "GETD", jute.OpSetWatches: "SETW", jute.OpSetWatches2: "STW2",
	jute.OpAddWatch: "ADDW", jute.OpGetACL: "GETA", jute.OpGetChildren: "GETC", jute.OpGetChildren2: "GETC",
	jute.OpGetAllChildrenNumber: "GETACN", jute.OpCheckWatches: "CHKW", jute.OpRemoveWatches: "REMW",
	jute.OpWhoAmI: "HOMI", jute.OpGetEphemerals: "GETE",
}

// noOp is the name of operations without one.
const noOp = "NA"

// nothingYet is what cons shows as the last operation of a connection that has taken over its session and sent nothing:
// Java's text for none.
const nothingYet = "null"

// OpName returns the name of an operation in Connection.LastOp.
func OpName(op jute.Op) string {
	if name, ok := opNames[op]; ok {
		return name
	}
	return noOp
}

// srvr and stat: org.apache.zookeeper.server.command.StatCommand and ServerStats.toString.
func (c *Commands) srvr(p *page, info *Info) { c.status(p, info, false) }
func (c *Commands) stat(p *page, info *Info) { c.status(p, info, true) }

func (c *Commands) status(p *page, info *Info, clients bool) {
	p.str("Zookeeper version: ", c.version, "\n")
	if info.ReadOnly {
		p.str("READ-ONLY mode; serving only read-only clients\n")
	}
	if clients {
		p.str("Clients:\n")
		connections(p, info, true)
		p.str("\n")
	}
	p.str("Latency min/avg/max: ")
	latency(p, info.Latency)
	p.str("\n")
	p.line("Received: ", info.PacketsReceived)
	p.line("Sent: ", info.PacketsSent)
	p.line("Connections: ", int64(info.AliveConnections))
	p.line("Outstanding: ", info.Outstanding)
	p.str("Zxid: 0x")
	p.hex(int64(info.Zxid))
	p.str("\nMode: ", info.Mode, "\n")
	p.line("Node count: ", info.Nodes)
	if s := info.Proposals; s != nil {
		p.str("Proposal sizes last/min/max: ")
		p.num(s.Last)
		p.str("/")
		p.num(s.Min)
		p.str("/")
		p.line("", s.Max)
	}
}

func latency(p *page, s stats.Snapshot) {
	p.num(s.Min)
	p.str("/")
	p.float(s.Avg)
	p.str("/")
	p.num(s.Max)
}

// conf: ZooKeeperServer.dumpConf and QuorumZooKeeperServer.dumpConf.
func (c *Commands) conf(p *page, info *Info) {
	if info.Conf == nil {
		return
	}
	v := info.Conf()
	p.line("clientPort=", int64(v.ClientPort))
	p.line("secureClientPort=", int64(v.SecureClientPort))
	p.str("dataDir=", v.DataDir, "\n")
	p.line("dataDirSize=", v.DataBytes)
	p.str("dataLogDir=", v.DataLogDir, "\n")
	p.line("dataLogSize=", v.LogBytes)
	p.line("tickTime=", v.TickTime.Milliseconds())
	p.line("maxClientCnxns=", int64(v.MaxClientCnxns))
	p.line("minSessionTimeout=", v.MinSessionTimeout.Milliseconds())
	p.line("maxSessionTimeout=", v.MaxSessionTimeout.Milliseconds())
	p.line("clientPortListenBacklog=", int64(v.ClientPortListenBacklog))
	p.line("serverId=", v.ServerID)
	if v.Member != nil {
		memberConf(p, v.Member)
	}
}

func memberConf(p *page, m *MemberConf) {
	peerType := int64(0)
	if m.Observer {
		peerType = 1
	}
	p.line("initLimit=", int64(m.InitLimit))
	p.line("syncLimit=", int64(m.SyncLimit))
	p.line("electionAlg=", int64(m.ElectionAlg))
	p.line("electionPort=", int64(m.ElectionPort))
	p.line("quorumPort=", int64(m.QuorumPort))
	p.line("peerType=", peerType)
	if m.Membership != "" { // not in read-only mode
		p.str("membership: \n", m.Membership)
	}
}

// cons: ConsCommand and ServerCnxn.dumpConnectionInfo.
func (c *Commands) cons(p *page, info *Info) {
	connections(p, info, false)
	p.str("\n")
}

func connections(p *page, info *Info, brief bool) {
	if info.Connections == nil {
		return
	}
	for cn := range info.Connections {
		connection(p, &cn, brief)
	}
}

// InterestOps is what ZooKeeper shows of a connection as the interest of its selector.
func (cn *Connection) InterestOps() (ops int64) {
	if cn.Reads {
		ops |= 1
	}
	if cn.Writes {
		ops |= 4
	}
	return ops
}

// MeanLatency is the mean as a whole number, as ServerCnxn.getAvgLatency has it.
func (cn *Connection) MeanLatency() int64 { return average(cn.Latency) }

func connection(p *page, cn *Connection, brief bool) {
	p.str(" ")
	p.remote(cn.Remote)
	p.str("[")
	p.hex(cn.InterestOps())
	p.str("](queued=")
	p.num(cn.Outstanding)
	p.str(",recved=")
	p.num(cn.Received)
	p.str(",sent=")
	p.num(cn.Sent)
	if !brief && cn.Session != 0 {
		connectionSession(p, cn)
	}
	p.str(")\n")
}

func connectionSession(p *page, cn *Connection) {
	p.str(",sid=0x")
	p.hex(int64(cn.Session))
	p.str(",lop=", cmp.Or(cn.LastOp, nothingYet), ",est=")
	p.num(int64(cn.Established))
	p.str(",to=")
	p.num(cn.Timeout.Milliseconds())
	if cn.LastXid >= 0 {
		p.str(",lcxid=0x")
		p.hex(cn.LastXid)
	}
	p.str(",lzxid=0x")
	p.hex(int64(cn.LastZxid))
	p.str(",lresp=")
	p.num(cn.LastResponseAt)
	p.str(",llat=")
	p.num(cn.LastLatency)
	p.str(",minlat=")
	p.num(cn.Latency.Min)
	p.str(",avglat=")
	p.num(average(cn.Latency))
	p.str(",maxlat=")
	p.num(cn.Latency.Max)
}

// average is the mean as a whole number.
func average(s stats.Snapshot) int64 {
	if s.Count == 0 {
		return 0
	}
	return s.Sum / s.Count
}

func (c *Commands) crst(p *page, info *Info) {
	if info.ResetConnections != nil {
		info.ResetConnections()
	}
	p.str("Connection stats reset.\n")
}

func (c *Commands) srst(p *page, info *Info) {
	if info.ResetServer != nil {
		info.ResetServer()
	}
	p.str("Server stats reset.\n")
}

func (c *Commands) dirs(p *page, info *Info) {
	var d DirSizes
	if info.Dirs != nil {
		d = info.Dirs()
	}
	p.line("datadir_size: ", d.DataBytes)
	p.line("logdir_size: ", d.LogBytes)
}

// envi: EnvCommand. Clients (Kazoo) parse zookeeper.version.
func (c *Commands) envi(p *page, info *Info) {
	p.str("Environment:\nzookeeper.version=", c.version, "\n")
	if info.Environment == nil {
		return
	}
	for _, s := range info.Environment() {
		p.str(s.Key, "=", s.Value, "\n")
	}
}

// hash: DigestCommand. The digest is a signed decimal number.
func (c *Commands) hash(p *page, info *Info) {
	if info.Digests == nil {
		return
	}
	for zxid, digest := range info.Digests {
		p.hex(int64(zxid))
		p.line(": ", int64(digest))
	}
}
