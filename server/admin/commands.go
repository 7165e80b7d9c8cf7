package admin

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"zkd/jute"
	"zkd/server/fourletter"
)

// configuration: ConfCommand, ZooKeeperServerConf.toMap.
func (c *call) configuration() bool {
	v := c.info.Conf()
	c.num("client_port", int64(v.ClientPort))
	c.str("data_dir", v.DataDir)
	c.str("data_log_dir", v.DataLogDir)
	c.num("tick_time", v.TickTime.Milliseconds())
	c.num("max_client_cnxns", int64(v.MaxClientCnxns))
	c.num("min_session_timeout", v.MinSessionTimeout.Milliseconds())
	c.num("max_session_timeout", v.MaxSessionTimeout.Milliseconds())
	c.num("server_id", v.ServerID)
	c.num("client_port_listen_backlog", int64(v.ClientPortListenBacklog))
	return true
}

func (c *call) resetConnections() bool {
	c.info.ResetConnections()
	return true
}

func (c *call) resetServer() bool {
	c.info.ResetServer()
	return true
}

// connections: ConsCommand.
func (c *call) connections() bool {
	c.connectionLists(false)
	return true
}

// connectionLists writes the connections, those of the TLS port apart.
func (c *call) connectionLists(brief bool) {
	for _, list := range []struct {
		name   string
		secure bool
	}{{"connections", false}, {"secure_connections", true}} {
		c.field(list.name)
		c.array(func() {
			for cn := range c.info.Connections {
				if cn.Secure == list.secure {
					c.item()
					c.object(func() { c.connection(&cn, brief) })
				}
			}
		})
	}
}

// connection: ServerCnxn.getConnectionInfo.
func (c *call) connection(cn *fourletter.Connection, brief bool) {
	c.str("remote_socket_address", cn.Remote.String())
	c.num("interest_ops", cn.InterestOps())
	c.num("outstanding_requests", cn.Outstanding)
	c.num("packets_received", cn.Received)
	c.num("packets_sent", cn.Sent)
	if brief {
		return
	}
	c.num("session_id", int64(cn.Session))
	if cn.LastOp == "" {
		c.null("last_operation")
	} else {
		c.str("last_operation", cn.LastOp)
	}
	c.num("established", int64(cn.Established))
	c.num("session_timeout", cn.Timeout.Milliseconds())
	c.num("last_cxid", cn.LastXid)
	c.num("last_zxid", int64(cn.LastZxid))
	c.num("last_response_time", cn.LastResponseAt)
	c.num("last_latency", cn.LastLatency)
	c.num("min_latency", cn.Latency.Min)
	c.num("avg_latency", cn.MeanLatency())
	c.num("max_latency", cn.Latency.Max)
	if cn.HeldBytes > 0 { // ZooKeeper does not have it
		c.num("held_memory_bytes", cn.HeldBytes)
	}
}

func (c *call) dirs() bool {
	d := c.info.Dirs()
	c.num("datadir_size", d.DataBytes)
	c.num("logdir_size", d.LogBytes)
	return true
}

// dump: DumpCommand. A server that does not expire the sessions of the group has none in the first list.
func (c *call) dump() bool {
	sessions := c.info.Sessions
	if c.info.GlobalSessions != nil {
		sessions = c.info.LocalSessions
	}
	c.field("expiry_time_to_session_ids")
	c.object(func() {
		if sessions == nil {
			return
		}
		for _, b := range sessions() {
			if len(b.Sessions) > 0 {
				c.field(strconv.FormatInt(b.At.UnixMilli(), 10))
				c.sessionIDs(b.Sessions)
			}
		}
	})
	c.field("session_id_to_ephemeral_paths")
	c.object(func() {
		for id, paths := range c.info.Ephemerals {
			c.strs(strconv.FormatInt(int64(id), 10), paths...)
		}
	})
	return true
}

// sessionIDs writes an array of ids.
func (c *call) sessionIDs(ids []jute.SessionID) {
	c.array(func() {
		for _, id := range ids {
			c.item()
			c.number(int64(id))
		}
	})
}

func (c *call) environment() bool {
	c.str("zookeeper.version", c.server.opts.Commands.Version())
	if c.info.Environment != nil {
		for _, s := range c.info.Environment() {
			c.str(s.Key, s.Value)
		}
	}
	return true
}

func (c *call) traceMask() bool {
	c.num("tracemask", c.server.opts.Commands.TraceMask())
	return true
}

// setTraceMask: SetTraceMaskCommand.
func (c *call) setTraceMask() bool {
	text, ok := c.query["traceMask"]
	if !ok {
		c.str("error", "setTraceMask requires long traceMask argument")
		return false
	}
	mask, err := strconv.ParseInt(text[0], 10, 64)
	if err != nil {
		c.str("error", "setTraceMask requires long traceMask argument, got "+text[0])
		return false
	}
	c.server.opts.Commands.SetTraceMask(mask)
	c.num("tracemask", mask)
	return true
}

// digestVersion is the one of ZooKeeper's digests of the tree (org.apache.zookeeper.server.DigestCalculator).
const digestVersion = 2

func (c *call) hash() bool {
	c.field("digests")
	c.array(func() {
		for zxid, digest := range c.info.Digests {
			c.item()
			c.object(func() {
				c.num("zxid", int64(zxid))
				c.num("digest_version", digestVersion)
				c.num("digest", int64(digest))
			})
		}
	})
	return true
}

func (c *call) initialConfiguration() bool {
	text := ""
	if c.server.opts.InitialConfiguration != nil {
		text = c.server.opts.InitialConfiguration()
	}
	c.str("initial_configuration", text)
	return true
}

func (c *call) isReadOnly() bool {
	c.flag("read_only", c.info.ReadOnly)
	return true
}

// lastSnapshot: LastSnapshotCommand. Snapshots are those of the command snapshot: zkd needs none of its own.
func (c *call) lastSnapshot() bool {
	last := c.server.lastSnapshot.Load()
	if last == nil {
		last = &taken{zxid: -1, at: -1}
	}
	c.str("zxid", strconv.FormatUint(uint64(last.zxid), 16))
	c.num("timestamp", last.at)
	return true
}

// monitor: MonitorCommand. One that does not serve shows what it has, where ZooKeeper fails.
func (c *call) monitor() bool {
	info := *c.info
	info.Metrics = c.server.opts.Metrics
	c.server.opts.Commands.Figures(&info, func(f *fourletter.Figure) {
		if f.Text != "" || f.Name == "server_state" {
			c.str(f.Name, f.Text)
			return
		}
		c.field(f.Name)
		c.raw(f.String())
	})
	return true
}

// serverStats: SrvrCommand. The order within server_stats is that of a standalone server; Java promises none.
func (c *call) serverStats() bool {
	i := c.info
	d := i.Dirs()
	c.str("version", c.server.opts.Commands.Version())
	c.flag("read_only", i.ReadOnly)
	c.field("server_stats")
	c.object(func() {
		c.num("packets_sent", i.PacketsSent)
		c.num("packets_received", i.PacketsReceived)
		c.num("fsync_threshold_exceed_count", i.SlowFsyncs)
		c.sizes("client_response_stats", i.Replies)
		c.flag("provider_null", false)
		c.num("data_dir_size", d.DataBytes)
		c.num("log_dir_size", d.LogBytes)
		c.num("last_processed_zxid", int64(i.Zxid))
		c.num("outstanding_requests", i.Outstanding)
		c.str("server_state", i.Mode)
		c.double("avg_latency", i.Latency.Avg)
		c.num("max_latency", i.Latency.Max)
		c.num("min_latency", i.Latency.Min)
		c.num("num_alive_client_connections", int64(i.AliveConnections))
		c.num("uptime", i.Uptime.Milliseconds())
		c.num("auth_failed_count", i.AuthFailed)
		c.num("non_mtlsremote_conn_count", 0)
		c.num("non_mtlslocal_conn_count", 0)
	})
	c.sizes("client_response", i.Replies)
	if i.Proposals != nil {
		c.sizes("proposal_stats", *i.Proposals)
	}
	c.num("node_count", i.Nodes)
	return true
}

// sizes: BufferStats.
func (c *call) sizes(name string, s fourletter.ProposalSizes) {
	c.field(name)
	c.object(func() {
		c.num("last_buffer_size", s.Last)
		c.num("min_buffer_size", s.Min)
		c.num("max_buffer_size", s.Max)
	})
}

// stats: StatCommand.
func (c *call) stats() bool {
	c.serverStats()
	c.connectionLists(true)
	return true
}

func (c *call) systemProperties() bool {
	if c.server.opts.Properties == nil {
		return true
	}
	all := c.server.opts.Properties()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		c.str(name, all[name])
	}
	return true
}

// watchSummary: WatchSummaryCommand. Like the other two it shows the data table only.
func (c *call) watchSummary() bool {
	n := c.info.Watches.Counts()
	c.num("num_connections", int64(n.Connections))
	c.num("num_paths", int64(n.Paths))
	c.num("num_total_watches", int64(n.Watches))
	return true
}

func (c *call) watches() bool {
	c.field("session_id_to_watched_paths")
	c.object(func() {
		c.info.Watches.ByConnection(func(id jute.SessionID, paths []string) bool {
			c.strs(strconv.FormatInt(int64(id), 10), paths...)
			return c.server.err(c.page) == nil
		})
	})
	return true
}

func (c *call) watchesByPath() bool {
	c.field("path_to_session_ids")
	c.object(func() {
		c.info.Watches.ByPath(func(path string, ids []jute.SessionID) bool {
			c.field(path)
			c.sessionIDs(ids)
			return c.server.err(c.page) == nil
		})
	})
	return true
}

// hexZxid writes a zxid as ZooKeeper's commands do, with 0x.
func hexZxid(z jute.Zxid) string { return fmt.Sprintf("%#x", uint64(z)) }
