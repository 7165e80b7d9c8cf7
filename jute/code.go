package jute

import "strconv"

// Code is the outcome of a request as the client sees it (org.apache.zookeeper.KeeperException.Code).
type Code int32

// The codes of 3.9. A comment says when a server sends one; those without are for clients only.
const (
	OK                      Code = 0
	SystemError             Code = -1
	RuntimeInconsistency    Code = -2 // in a failed multi: each op after the failing one
	DataInconsistency       Code = -3
	ConnectionLoss          Code = -4
	MarshallingError        Code = -5 // the body of the request cannot be read
	Unimplemented           Code = -6 // unknown opcode; a feature that is switched off
	OperationTimeout        Code = -7
	BadArguments            Code = -8 // path rules, flags, ttl
	UnknownSession          Code = -12
	NewConfigNoQuorum       Code = -13 // reconfig: the new voters are not a connected, synced quorum
	ReconfigInProgress      Code = -14 // reconfig: the previous one is not committed yet
	APIError                Code = -100
	NoNode                  Code = -101
	NoAuth                  Code = -102
	BadVersion              Code = -103
	NoChildrenForEphemerals Code = -108
	NodeExists              Code = -110
	NotEmpty                Code = -111
	SessionExpired          Code = -112 // a write of a session that is closing or gone
	InvalidCallback         Code = -113
	InvalidACL              Code = -114
	AuthFailed              Code = -115 // then the connection is closed
	SessionMoved            Code = -118 // never on the wire: the connection is closed instead
	NotReadOnly             Code = -119 // a write, sync or multi on a read-only server
	EphemeralOnLocalSession Code = -120
	NoWatcher               Code = -121 // checkWatches and removeWatches that match nothing
	RequestTimeout          Code = -122
	ReconfigDisabled        Code = -123
	SessionClosedAuth       Code = -124 // a request before the authentication that is enforced; then close
	QuotaExceeded           Code = -125 // a hard quota, when enforced
	Throttled               Code = -127
)

// codeNames gives each code the name of its Java constant, in the form that logs and metrics show.
var codeNames = map[Code]string{
	OK: "ok", SystemError: "systemError", RuntimeInconsistency: "runtimeInconsistency",
	DataInconsistency: "dataInconsistency", ConnectionLoss: "connectionLoss", MarshallingError: "marshallingError",
	Unimplemented: "unimplemented", OperationTimeout: "operationTimeout", BadArguments: "badArguments",
	UnknownSession: "unknownSession", NewConfigNoQuorum: "newConfigNoQuorum", ReconfigInProgress: "reconfigInProgress",
	APIError: "apiError", NoNode: "noNode", NoAuth: "noAuth", BadVersion: "badVersion",
	NoChildrenForEphemerals: "noChildrenForEphemerals", NodeExists: "nodeExists", NotEmpty: "notEmpty",
	SessionExpired: "sessionExpired", InvalidCallback: "invalidCallback", InvalidACL: "invalidACL",
	AuthFailed: "authFailed", SessionMoved: "sessionMoved", NotReadOnly: "notReadOnly",
	EphemeralOnLocalSession: "ephemeralOnLocalSession", NoWatcher: "noWatcher", RequestTimeout: "requestTimeout",
	ReconfigDisabled: "reconfigDisabled", SessionClosedAuth: "sessionClosedRequireSASLAuth",
	QuotaExceeded: "quotaExceeded", Throttled: "throttled",
}

// String returns ZooKeeper's name of the code, or its number.
func (c Code) String() string {
	if name, ok := codeNames[c]; ok {
		return name
	}
	return "code(" + strconv.Itoa(int(c)) + ")"
}

// ClosesConnection reports whether a server closes the connection after a reply with this code.
func (c Code) ClosesConnection() bool {
	return c == AuthFailed || c == SessionClosedAuth || c == SessionMoved
}
