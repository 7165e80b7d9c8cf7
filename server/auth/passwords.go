package auth

import (
	"crypto/subtle"
	"encoding/binary"
	"fmt"
	"io"

	"zkd/jute"
)

// PasswordBytes is the length of a session password.
const PasswordBytes = 16

// Password lets a client come back to its session. All zero is what a refused client gets; no session has it.
type Password [PasswordBytes]byte

// NewPassword draws the password of a new session. source is crypto/rand.Reader outside tests; its error is returned
// and means that no session can be made.
func NewPassword(source io.Reader) (Password, error) {
	var p Password
	for p == (Password{}) {
		if _, err := io.ReadFull(source, p[:]); err != nil {
			return Password{}, fmt.Errorf("draw a session password: %w", err)
		}
	}
	return p, nil
}

// derivedPasswordMask is superSecret of org.apache.zookeeper.server.ZooKeeperServer.
const derivedPasswordMask = 0xB3415C00

// DerivedPassword returns the password that Apache ZooKeeper gives a session (ZooKeeperServer.generatePasswd): 16 bytes
// of java.util.Random seeded with the id. It is no secret; only sessions imported from ZooKeeper have it.
func DerivedPassword(id jute.SessionID) Password {
	const (
		multiplier = 0x5DEECE66D
		increment  = 0xB
		mask       = 1<<48 - 1
	)
	state := (uint64(id) ^ derivedPasswordMask ^ multiplier) & mask
	var p Password
	for i := 0; i < PasswordBytes; i += 4 {
		state = (state*multiplier + increment) & mask
		binary.LittleEndian.PutUint32(p[i:], uint32(state>>16))
	}
	return p
}

// Matches compares p with what a client sent, in constant time. Null, short and long ones do not match.
func (p Password) Matches(sent []byte) bool { return subtle.ConstantTimeCompare(p[:], sent) == 1 }
