package zkdata

import (
	"encoding/binary"

	"zkd/jute"
)

// The generator of java.util.Random, and what ZooKeeperServer.generatePasswd mixes into a session's id.
const (
	passwdSecret     = 0xB3415C00
	randomMultiplier = 0x5DEECE66D
	randomMask       = 1<<48 - 1
)

// Passwd returns the password that Apache ZooKeeper gives the session (ZooKeeperServer.generatePasswd): the bytes of a
// java.util.Random that is seeded with the id. A client comes back to its session with it.
func Passwd(id jute.SessionID) (p [16]byte) {
	seed := (uint64(id) ^ passwdSecret ^ randomMultiplier) & randomMask
	for i := 0; i < len(p); i += 4 {
		seed = (seed*randomMultiplier + 0xB) & randomMask
		binary.LittleEndian.PutUint32(p[i:], uint32(seed>>16))
	}
	return p
}
