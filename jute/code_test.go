package jute

import "testing"

// codeTable is the list of org.apache.zookeeper.KeeperException.Code in 3.9.5, with the codes that close the
// connection.
var codeTable = []struct {
	code   Code
	number int32
	name   string
	closes bool
}{
	{OK, 0, "ok", false},
	{SystemError, -1, "systemError", false},
	{RuntimeInconsistency, -2, "runtimeInconsistency", false},
	{DataInconsistency, -3, "dataInconsistency", false},
	{ConnectionLoss, -4, "connectionLoss", false},
	{MarshallingError, -5, "marshallingError", false},
	{Unimplemented, -6, "unimplemented", false},
	{OperationTimeout, -7, "operationTimeout", false},
	{BadArguments, -8, "badArguments", false},
	{UnknownSession, -12, "unknownSession", false},
	{NewConfigNoQuorum, -13, "newConfigNoQuorum", false},
	{ReconfigInProgress, -14, "reconfigInProgress", false},
	{APIError, -100, "apiError", false},
	{NoNode, -101, "noNode", false},
	{NoAuth, -102, "noAuth", false},
	{BadVersion, -103, "badVersion", false},
	{NoChildrenForEphemerals, -108, "noChildrenForEphemerals", false},
	{NodeExists, -110, "nodeExists", false},
	{NotEmpty, -111, "notEmpty", false},
	{SessionExpired, -112, "sessionExpired", false},
	{InvalidCallback, -113, "invalidCallback", false},
	{InvalidACL, -114, "invalidACL", false},
	{AuthFailed, -115, "authFailed", true},
	{SessionMoved, -118, "sessionMoved", true},
	{NotReadOnly, -119, "notReadOnly", false},
	{EphemeralOnLocalSession, -120, "ephemeralOnLocalSession", false},
	{NoWatcher, -121, "noWatcher", false},
	{RequestTimeout, -122, "requestTimeout", false},
	{ReconfigDisabled, -123, "reconfigDisabled", false},
	{SessionClosedAuth, -124, "sessionClosedRequireSASLAuth", true},
	{QuotaExceeded, -125, "quotaExceeded", false},
	{Throttled, -127, "throttled", false},
}

func TestCodes(t *testing.T) {
	if len(codeTable) != 32 || len(codeNames) != len(codeTable) {
		t.Errorf("%d codes in the table, %d with names; ZooKeeper has 32", len(codeTable), len(codeNames))
	}
	for _, test := range codeTable {
		number, name, closes := int32(test.code), test.code.String(), test.code.ClosesConnection()
		if number != test.number || name != test.name || closes != test.closes {
			t.Errorf("code %d %s, closes %t; want %d %s, %t", number, name, closes, test.number, test.name, test.closes)
		}
	}
	if got := Code(-9).String(); got != "code(-9)" {
		t.Errorf("unknown code is %q", got)
	}
}
