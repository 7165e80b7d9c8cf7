package serverid

import (
	"cmp"
	"slices"
)

// None is the id of no server. Its number is -1, ZooKeeper's own for a server without one.
const None uint64 = 0

// notPositive is set in the ids of 0 and of negative numbers, with the number without its sign in the bits below.
const notPositive uint64 = 1 << 63

// least is the lowest number that a server may have: the ids of some below it are raft's own.
const least = -1 << 62

// Of returns the id of the server with a number; None if no server may have it.
func Of(number int64) uint64 {
	switch {
	case number > 0:
		return uint64(number)
	case number == -1 || number < least:
		return None
	}
	return notPositive | uint64(-number)
}

// Number returns the number of the server with an id; -1 if it is None.
func Number(id uint64) int64 {
	switch {
	case id == None:
		return -1
	case id&notPositive == 0:
		return int64(id)
	}
	return -int64(id &^ notPositive)
}

// Numbers returns the numbers of servers, sorted.
func Numbers(ids []uint64) []int64 {
	numbers := make([]int64, len(ids))
	for i, id := range ids {
		numbers[i] = Number(id)
	}
	slices.Sort(numbers)
	return numbers
}

// Compare orders ids by their numbers.
func Compare(a, b uint64) int { return cmp.Compare(Number(a), Number(b)) }

// SessionBits returns the bits of the session ids that a server makes: the lowest byte of its number is their highest
// (org.apache.zookeeper.server.SessionTrackerImpl.initializeNextSessionId). In place of 255, by which the owner of a
// znode with a TTL is known, it is 254.
func SessionBits(id uint64) uint64 { return uint64(min(byte(Number(id)), 0xfe)) << 56 }
