package jute

import "testing"

// opTable is the list of org.apache.zookeeper.ZooDefs.OpCode in 3.9.5.
var opTable = map[string]int32{
	"notification": 0, "create": 1, "delete": 2, "exists": 3, "getData": 4, "setData": 5, "getACL": 6, "setACL": 7,
	"getChildren": 8, "sync": 9, "ping": 11, "getChildren2": 12, "check": 13, "multi": 14, "create2": 15,
	"reconfig": 16, "checkWatches": 17, "removeWatches": 18, "createContainer": 19, "deleteContainer": 20,
	"createTTL": 21, "multiRead": 22, "auth": 100, "setWatches": 101, "sasl": 102, "getEphemerals": 103,
	"getAllChildrenNumber": 104, "setWatches2": 105, "addWatch": 106, "whoAmI": 107, "createSession": -10,
	"closeSession": -11, "error": -1,
}

func TestOps(t *testing.T) {
	if len(opNames) != len(opTable) {
		t.Errorf("%d opcodes have names, ZooKeeper has %d", len(opNames), len(opTable))
	}
	for name, number := range opTable { // in any order: each is checked by itself
		if got := Op(number).String(); got != name {
			t.Errorf("opcode %d is %s, want %s", number, got, name)
		}
	}
	if got := Op(10).String(); got != "op(10)" {
		t.Errorf("unknown opcode is %q", got)
	}
}

func TestCreateModes(t *testing.T) {
	type is struct{ known, ephemeral, sequential, ttl bool }
	want := map[CreateMode]is{
		-1:                          {},
		ModePersistent:              {known: true},
		ModeEphemeral:               {known: true, ephemeral: true},
		ModePersistentSequential:    {known: true, sequential: true},
		ModeEphemeralSequential:     {known: true, ephemeral: true, sequential: true},
		ModeContainer:               {known: true},
		ModePersistentTTL:           {known: true, ttl: true},
		ModePersistentSequentialTTL: {known: true, sequential: true, ttl: true},
		7:                           {},
	}
	for m := CreateMode(-1); m <= 7; m++ {
		if got := (is{m.Known(), m.Ephemeral(), m.Sequential(), m.TTL()}); got != want[m] {
			t.Errorf("mode %d is %+v, want %+v", m, got, want[m])
		}
	}
}
