package shell

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf16"

	"zkd/jute"
	"zkd/jute/client/session"
)

// What Java and ZooKeeper's client print, for scripts that read it.

// failure is an error of a command: what is printed of it on stderr, and the exit status.
type failure struct {
	text   string
	status int // 0 stands for 1
}

// Error is what is printed.
func (f failure) Error() string { return f.text }

// failed makes a failure with the usual status.
func failed(format string, args ...any) error { return failure{text: fmt.Sprintf(format, args...)} }

// codeText is KeeperException.getCodeMessage.
var codeText = map[jute.Code]string{
	jute.SystemError: "SystemError", jute.RuntimeInconsistency: "RuntimeInconsistency",
	jute.DataInconsistency: "DataInconsistency", jute.ConnectionLoss: "ConnectionLoss",
	jute.MarshallingError: "MarshallingError", jute.NewConfigNoQuorum: "NewConfigNoQuorum",
	jute.ReconfigInProgress: "ReconfigInProgress", jute.Unimplemented: "Unimplemented",
	jute.OperationTimeout: "OperationTimeout", jute.BadArguments: "BadArguments", jute.APIError: "APIError",
	jute.NoNode: "NoNode", jute.NoAuth: "NoAuth", jute.BadVersion: "BadVersion",
	jute.NoChildrenForEphemerals: "NoChildrenForEphemerals", jute.NodeExists: "NodeExists",
	jute.InvalidACL: "InvalidACL", jute.AuthFailed: "AuthFailed", jute.NotEmpty: "Directory not empty",
	jute.SessionExpired: "Session expired", jute.InvalidCallback: "Invalid callback",
	jute.SessionMoved: "Session moved", jute.NotReadOnly: "Not a read-only call",
	jute.EphemeralOnLocalSession: "Ephemeral node on local session", jute.NoWatcher: "No such watcher",
	jute.ReconfigDisabled:  "Reconfig is disabled",
	jute.SessionClosedAuth: "Session closed because client failed to authenticate",
	jute.QuotaExceeded:     "Quota has exceeded", jute.Throttled: "Op throttled due to high load",
}

// keeperMessage is KeeperException.getMessage.
func keeperMessage(code jute.Code, path string) string {
	text, ok := codeText[code]
	if !ok {
		text = "Unknown error " + code.String()
	}
	if path != "" {
		text += " for " + path
	}
	return "KeeperErrorCode = " + text
}

// wrapped are the codes that CliWrapperException has words for, before the path.
var wrapped = map[jute.Code]string{
	jute.NoNode: "Node does not exist: ", jute.NoChildrenForEphemerals: "Ephemerals cannot have children: ",
	jute.NodeExists: "Node already exists: ", jute.NotEmpty: "Node not empty: ",
	jute.NotReadOnly: "Not a read-only call: ", jute.InvalidACL: "Acl is not valid : ",
	jute.NoAuth: "Insufficient permission : ", jute.BadArguments: "Arguments are not valid : ",
	jute.BadVersion: "version No is not valid : ", jute.QuotaExceeded: "Quota has exceeded : ",
}

// answered turns the error of a request into what CliWrapperException says of it. none is what the path is called where
// there is none.
func answered(err error, none string) error {
	code := session.CodeOf(err)
	if err == nil || code == jute.OK {
		return err
	}
	var e *session.Error
	path := none
	if asError(err, &e) && e.Path != "" {
		path = e.Path
	}
	if text, ok := wrapped[code]; ok {
		return failure{text: text + path}
	}
	switch code {
	case jute.ReconfigInProgress:
		return failed("Another reconfiguration is in progress -- concurrent reconfigs not supported (yet)")
	case jute.NewConfigNoQuorum:
		return failed("No quorum of new config is connected and up-to-date with the leader of last commmitted config " +
			"- try invoking reconfiguration after new servers are connected and synced")
	}
	if path == none {
		path = ""
	}
	return failure{text: keeperMessage(code, path)}
}

// checkPath is PathUtils.validatePath.
func checkPath(path string) error {
	switch {
	case path == "":
		return failed("Path length must be > 0")
	case path[0] != '/':
		return failed("Path must start with / character")
	case path == "/":
		return nil
	case path[len(path)-1] == '/':
		return failed("Path must not end with / character")
	}
	if reason := badPart(utf16.Encode([]rune(path))); reason != "" {
		return failed("Invalid path string \"%s\" caused by %s", path, reason)
	}
	return nil
}

// badPart finds what is wrong with a path, in Java's characters, from its second one on.
func badPart(path []uint16) string {
	at := func(i int) uint16 {
		if i < len(path) {
			return path[i]
		}
		return '/'
	}
	for i := 1; i < len(path); i++ {
		c, last := path[i], path[i-1]
		switch {
		case c == 0:
			return fmt.Sprintf("null character not allowed @%d", i)
		case c == '/' && last == '/':
			return fmt.Sprintf("empty node name specified @%d", i)
		case c == '.' && last == '.' && path[i-2] == '/' && at(i+1) == '/':
			return fmt.Sprintf("relative paths not allowed @%d", i)
		case c == '.' && last == '/' && at(i+1) == '/':
			return fmt.Sprintf("relative paths not allowed @%d", i)
		case c > 0 && c <= 0x1f, c >= 0x7f && c <= 0x9f, c >= 0xd800 && c <= 0xf8ff, c >= 0xfff0:
			return fmt.Sprintf("invalid character @%d", i)
		}
	}
	return ""
}

// javaDate is java.util.Date.toString.
func javaDate(at jute.Millis, zone *time.Location) string {
	return time.UnixMilli(int64(at)).In(zone).Format("Mon Jan 02 15:04:05 MST 2006")
}

// statLines is what StatPrinter prints.
func statLines(stat jute.Stat, zone *time.Location) string {
	return fmt.Sprintf("cZxid = 0x%x\nctime = %s\nmZxid = 0x%x\nmtime = %s\npZxid = 0x%x\ncversion = %d\n"+
		"dataVersion = %d\naclVersion = %d\nephemeralOwner = 0x%x\ndataLength = %d\nnumChildren = %d\n",
		uint64(stat.Czxid), javaDate(stat.Ctime, zone), uint64(stat.Mzxid), javaDate(stat.Mtime, zone),
		uint64(stat.Pzxid), stat.Cversion, stat.Version, stat.Aversion, uint64(stat.EphemeralOwner), stat.DataLength,
		stat.NumChildren)
}

// csvText is how a record of jute prints a string (org.apache.jute.Utils.toCSVString).
var csvText = strings.NewReplacer("\x00", "%00", "\n", "%0A", "\r", "%0D", ",", "%2C", "}", "%7D", "%", "%25")

// idText is Id.toString.
func idText(id jute.ID) string {
	return "'" + csvText.Replace(id.Scheme) + ",'" + csvText.Replace(id.ID) + "\n"
}

// hexDump is Netty's ByteBufUtil.prettyHexDump.
func hexDump(data []byte) string {
	if len(data) == 0 {
		return ""
	}
	const line = "+--------+-------------------------------------------------+----------------+"
	var b strings.Builder
	b.WriteString("         +-------------------------------------------------+\n" +
		"         |  0  1  2  3  4  5  6  7  8  9  a  b  c  d  e  f |\n" + line)
	for row := 0; row < len(data); row += 16 {
		part := data[row:min(row+16, len(data))]
		fmt.Fprintf(&b, "\n|%08x|", row)
		for _, c := range part {
			fmt.Fprintf(&b, " %02x", c)
		}
		b.WriteString(strings.Repeat("   ", 16-len(part)) + " |")
		for _, c := range part {
			if c <= 0x1f || c >= 0x7f {
				c = '.'
			}
			b.WriteByte(c)
		}
		b.WriteString(strings.Repeat(" ", 16-len(part)) + "|")
	}
	b.WriteString("\n" + line)
	return b.String()
}

// javaText is text as Java decodes UTF-8 and prints it again: what is no character becomes U+FFFD.
func javaText(data []byte) string { return strings.ToValidUTF8(string(data), "�") }
