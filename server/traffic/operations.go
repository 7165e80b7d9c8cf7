package traffic

import "zkd/jute"

// Other stands for operations that are none of the protocol's.
const Other jute.Op = lowestOp

// operations are the operations that have a slot each; what is none of them shares the first.
var operations = [...]jute.Op{
	Other, jute.OpError, jute.OpNotification, jute.OpCreate, jute.OpDelete, jute.OpExists, jute.OpGetData,
	jute.OpSetData,
	jute.OpGetACL, jute.OpSetACL, jute.OpGetChildren, jute.OpSync, jute.OpPing, jute.OpGetChildren2, jute.OpCheck,
	jute.OpMulti, jute.OpCreate2, jute.OpReconfig, jute.OpCheckWatches, jute.OpRemoveWatches, jute.OpCreateContainer,
	jute.OpDeleteContainer, jute.OpCreateTTL, jute.OpMultiRead, jute.OpAuth, jute.OpSetWatches, jute.OpSASL,
	jute.OpGetEphemerals, jute.OpGetAllChildrenNumber, jute.OpSetWatches2, jute.OpAddWatch, jute.OpWhoAmI,
	jute.OpCreateSession, jute.OpCloseSession,
}

// operationCount is how many slots there are.
const operationCount = len(operations)

// Bounds of the opcodes that slots are found for.
const (
	lowestOp  = -16
	highestOp = 127
)

// slots finds the slot of an opcode.
var slots = indexOperations()

func indexOperations() (found [highestOp - lowestOp + 1]uint8) {
	for i, op := range operations {
		found[op-lowestOp] = uint8(i)
	}
	return found
}

// Name is how an operation is called: by its name in the protocol, or other.
func Name(op jute.Op) string {
	if op == Other {
		return "other"
	}
	return op.String()
}

// slotOf returns the slot of an operation.
func slotOf(op jute.Op) uint8 {
	if op < lowestOp || op > highestOp {
		return 0
	}
	return slots[op-lowestOp]
}
