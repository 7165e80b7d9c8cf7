package ensemble

import (
	"fmt"
	"sort"
	"strconv"
	"strings"

	"zkd/jute"
	"zkd/storage/serverid"
)

// Config is the configuration of an ensemble. Its slices are immutable.
type Config struct {
	Version int64    // zxid of the reconfig that has made it
	Servers []Server // sorted by number
}

// Parse reads the text of a configuration: server lines, and the version in hexadecimal, 0 if there is none. Blank
// lines and comments are left out. It fails on anything else, and on groups and weights, which zkd has not.
func Parse(text string) (Config, error) {
	c, refused := parse(text, Rules{MultiAddress: true, AnyNumber: true})
	if refused != nil {
		return Config{}, fmt.Errorf("read the ensemble's configuration: %w", refused)
	}
	return c, nil
}

// parse reads the text of a configuration that obeys the rules.
func parse(text string, rules Rules) (Config, *refusal) {
	var c Config
	servers := make(map[uint64]Server)
	for line := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == '\n' || r == '\r' }) {
		key, value := cutProperty(line)
		id, isServer := strings.CutPrefix(key, "server.")
		switch {
		case key == "":
		case strings.HasPrefix(key, "group") || strings.HasPrefix(key, "weight"):
			return Config{}, badArguments("groups and weights are not supported: every voter has one vote")
		case isServer:
			s, refused := parseServer(id, value, rules)
			if refused != nil {
				return Config{}, refused
			}
			servers[s.ID] = s // the last one counts
		case key == "version":
			version, err := strconv.ParseInt(value, 16, 64)
			if err != nil {
				return Config{}, notANumber("version", value)
			}
			c.Version = version
		default:
			return Config{}, badArguments(fmt.Sprintf("unrecognised parameter %q", key))
		}
	}
	c.Servers = sorted(servers)
	return c, nil
}

// cutProperty splits a line as java.util.Properties does: the key ends at the first '=', ':' or blank; blanks around
// it are dropped, those at the end of the value stay. Both are empty if the line is blank or a comment.
func cutProperty(line string) (key, value string) {
	const blanks = " \t\f"
	line = strings.TrimLeft(line, blanks)
	if line == "" || line[0] == '#' || line[0] == '!' {
		return "", ""
	}
	end := strings.IndexAny(line, "=:"+blanks)
	if end < 0 {
		return line, ""
	}
	value = strings.TrimLeft(line[end:], blanks)
	if value != "" && (value[0] == '=' || value[0] == ':') {
		value = strings.TrimLeft(value[1:], blanks)
	}
	return line[:end], value
}

// sorted returns the servers by number.
func sorted(servers map[uint64]Server) []Server {
	list := make([]Server, 0, len(servers))
	for _, s := range servers { // in any order: they are sorted
		list = append(list, s)
	}
	sort.Slice(list, func(i, j int) bool { return serverid.Compare(list[i].ID, list[j].ID) < 0 })
	return list
}

// Text returns the text that /zookeeper/config shows: a line for each server, by number, and the version in hexadecimal
// without a line end (QuorumMaj.toString, which orders the lines by a hash of the numbers; of small ones, from 0 on, it
// is the same).
func (c *Config) Text() string {
	return c.Members() + "version=" + strconv.FormatUint(uint64(c.Version), 16)
}

// Members returns the lines of the servers, each with its line end.
func (c *Config) Members() string {
	var b strings.Builder
	for i := range c.Servers {
		fmt.Fprintf(&b, "server.%d=%s\n", serverid.Number(c.Servers[i].ID), &c.Servers[i])
	}
	return b.String()
}

// Server returns the server with this id.
func (c *Config) Server(id uint64) (Server, bool) {
	for i := range c.Servers {
		if c.Servers[i].ID == id {
			return c.Servers[i], true
		}
	}
	return Server{}, false
}

// Voters returns the number of participants.
func (c *Config) Voters() int {
	n := 0
	for i := range c.Servers {
		if !c.Servers[i].Observer {
			n++
		}
	}
	return n
}

// refusal is why a text or a request is refused, and what the client is told.
type refusal struct {
	code jute.Code
	why  string
}

// Error implements error.
func (r *refusal) Error() string { return r.why }

// badArguments is the refusal where ZooKeeper checks.
func badArguments(why string) *refusal { return &refusal{jute.BadArguments, why} }

// unexpected is the refusal where ZooKeeper does not: a NumberFormatException, an IllegalArgumentException or the like
// reaches the catch-all of PrepRequestProcessor.pRequest.
func unexpected(why string) *refusal { return &refusal{jute.MarshallingError, why} }

// notANumber refuses a number that cannot be read.
func notANumber(what, text string) *refusal {
	return unexpected(fmt.Sprintf("the %s must be a number, not %q", what, text))
}
