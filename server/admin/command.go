package admin

import (
	"net/http"

	"zkd/server/fourletter"
)

// command is one of ZooKeeper's (org.apache.zookeeper.server.admin.Commands), or of ours.
type command struct {
	names   []string // the primary one first
	running bool     // needs a server that serves
	access  access   // else anyone may run it
	post    bool     // else it is for GET
	own     bool     // ZooKeeper does not have it
	// run writes the fields. If it has written the field error itself it returns false.
	run func(c *call) (ok bool)
	// stream answers by itself, instead of run.
	stream func(s *Server, w http.ResponseWriter, r *http.Request, c *command)
}

// call is one run of a command.
type call struct {
	*page
	server *Server
	info   *fourletter.Info
	query  map[string][]string
}

// commands are all, in the order of their primary names. Those that ZooKeeper does not have are not on the page with
// the links, which is ZooKeeper's.
var commands = []*command{
	{names: []string{"configuration", "conf", "config"}, running: true, access: operator, run: (*call).configuration},
	{names: []string{"connection_stat_reset", "crst"}, running: true, access: operator, run: (*call).resetConnections},
	{names: []string{"connections", "cons"}, running: true, access: operator, run: (*call).connections},
	{names: []string{"dirs"}, running: true, access: operator, run: (*call).dirs},
	{names: []string{"dump"}, running: true, access: operator, run: (*call).dump},
	{names: []string{"environment", "env", "envi"}, access: operator, run: (*call).environment},
	{names: []string{"get_trace_mask", "gtmk"}, run: (*call).traceMask},
	{names: []string{"hash"}, running: true, run: (*call).hash},
	{names: []string{"initial_configuration", "icfg"}, running: true, access: operator,
		run: (*call).initialConfiguration},
	{names: []string{"is_read_only", "isro"}, running: true, run: (*call).isReadOnly},
	{names: []string{"last_snapshot", "lsnp"}, running: true, run: (*call).lastSnapshot},
	{names: []string{"leader", "lead"}, running: true, run: (*call).leader},
	{names: []string{"monitor", "mntr"}, run: (*call).monitor},
	{names: []string{"observer_connection_stat_reset", "orst"}, running: true, access: operator,
		run: (*call).resetObservers},
	{names: []string{"observers", "obsr"}, running: true, run: (*call).observers},
	{names: []string{"restore", "rest"}, running: true, access: superusers, post: true, stream: (*Server).restore},
	{names: []string{"ruok"}, running: true, run: func(*call) bool { return true }},
	{names: []string{"server_stats", "srvr"}, running: true, run: (*call).serverStats},
	{names: []string{"set_trace_mask", "stmk"}, access: operator, run: (*call).setTraceMask},
	{names: []string{"slow_requests"}, own: true, access: operator, run: (*call).slowRequests},
	{names: []string{"snapshot", "snap"}, running: true, access: superusers, stream: (*Server).snapshot},
	{names: []string{"stat_reset", "srst"}, running: true, access: operator, run: (*call).resetServer},
	{names: []string{"stats", "stat"}, running: true, access: operator, run: (*call).stats},
	{names: []string{"system_properties", "sysp"}, access: operator, run: (*call).systemProperties},
	{names: []string{"top"}, own: true, access: operator, run: (*call).top},
	{names: []string{"voting_view"}, running: true, run: (*call).votingView},
	{names: []string{"watch_summary", "wchs"}, running: true, run: (*call).watchSummary},
	{names: []string{"watches", "wchc"}, running: true, access: operator, run: (*call).watches},
	{names: []string{"watches_by_path", "wchp"}, running: true, access: operator, run: (*call).watchesByPath},
	{names: []string{"zabstate"}, run: (*call).zabState},
}

// byName finds a command by any of its names.
var byName = indexCommands()

func indexCommands() map[string]*command {
	found := map[string]*command{}
	for _, c := range commands {
		for _, name := range c.names {
			found[name] = c
		}
	}
	return found
}
