package audit

import (
	"time"

	"zkd/jute"
)

// Operation is what an event is about (org.apache.zookeeper.audit.AuditConstants).
type Operation string

// The operations. A multi that succeeds is an event for each of its operations.
const (
	OpServerStart     Operation = "serverStart"
	OpServerStop      Operation = "serverStop"
	OpCreate          Operation = "create"
	OpDelete          Operation = "delete"
	OpSetData         Operation = "setData"
	OpSetACL          Operation = "setAcl"
	OpMulti           Operation = "multiOperation"
	OpReconfig        Operation = "reconfig"
	OpDeleteEphemeral Operation = "ephemeralZNodeDeletionOnSessionCloseOrExpire"
)

// Result is what became of it (org.apache.zookeeper.audit.AuditEvent.Result).
type Result string

// The results. Invoked is what was asked for and whose end is not known here: the stop of a server; a write whose
// leader went away before it said what became of it.
const (
	Success Result = "success"
	Failure Result = "failure"
	Invoked Result = "invoked"
)

// Event is one line. Fields that are empty are left out of it.
type Event struct {
	Time      time.Time // 0 is when Write is called
	Session   jute.SessionID
	User      string // the users of the connection with commas between them; of the server for what it does by itself
	IP        string // of the client
	Operation Operation
	Znode     Text
	ZnodeType string // how a create was asked for (ZnodeType)
	ACL       Text   // of a setACL (ACLText)
	Result    Result
}

// Text is a field that is in the line even if it is empty, as long as it is Set.
type Text struct {
	Value string
	Set   bool
}

// Of returns a Text with a value.
func Of(value string) Text { return Text{Value: value, Set: true} }

// ZnodeType names a mode as the audit log does (org.apache.zookeeper.CreateMode, in small letters); "" if there is no
// such mode.
func ZnodeType(m jute.CreateMode) string {
	switch m {
	case jute.ModePersistent:
		return "persistent"
	case jute.ModeEphemeral:
		return "ephemeral"
	case jute.ModePersistentSequential:
		return "persistent_sequential"
	case jute.ModeEphemeralSequential:
		return "ephemeral_sequential"
	case jute.ModeContainer:
		return "container"
	case jute.ModePersistentTTL:
		return "persistent_with_ttl"
	case jute.ModePersistentSequentialTTL:
		return "persistent_sequential_with_ttl"
	default:
		return ""
	}
}

// field is one key and its value.
type field struct{ key, value string }

// fields are those of an event, in the order of a line (org.apache.zookeeper.audit.ZKAuditProvider.createLogEvent).
// They are appended to dst.
func (e *Event) fields(dst []field) []field {
	if e.Session != 0 {
		dst = append(dst, field{"session", jute.Hex(e.Session)})
	}
	if e.User != "" {
		dst = append(dst, field{"user", e.User})
	}
	if e.IP != "" {
		dst = append(dst, field{"ip", e.IP})
	}
	dst = append(dst, field{"operation", string(e.Operation)})
	if e.Znode.Set {
		dst = append(dst, field{"znode", e.Znode.Value})
	}
	if e.ZnodeType != "" {
		dst = append(dst, field{"znode_type", e.ZnodeType})
	}
	if e.ACL.Set {
		dst = append(dst, field{"acl", e.ACL.Value})
	}
	return append(dst, field{"result", string(e.Result)})
}
