package schema

import (
	"encoding/binary"
	"fmt"

	"zkd/jute"
	"zkd/storage/entry"
)

// SessionInfo describes a session.
type SessionInfo struct {
	ID            jute.SessionID
	TimeoutMillis int32
	Passwd        entry.Passwd
	Owner         uint64 // the server through which the client came last
}

// sessionValueVersion begins the value of a session.
const sessionValueVersion = 1

// SessionValueBytes is the size of a session's value.
const SessionValueBytes = 1 + 4 + 16 + 8

// AppendSession adds the value of s to b.
func AppendSession(b []byte, s *SessionInfo) []byte {
	b = append(b, sessionValueVersion)
	b = binary.BigEndian.AppendUint32(b, uint32(s.TimeoutMillis))
	b = append(b, s.Passwd[:]...)
	return binary.BigEndian.AppendUint64(b, s.Owner)
}

// DecodeSession reads a session from its key and value.
func DecodeSession(key, value []byte) (*SessionInfo, error) {
	if len(key) != 9 || len(value) != SessionValueBytes || value[0] != sessionValueVersion {
		return nil, fmt.Errorf("%w: session %x", ErrDamagedValue, key)
	}
	s := &SessionInfo{
		ID: jute.SessionID(binary.BigEndian.Uint64(key[1:])), TimeoutMillis: int32(binary.BigEndian.Uint32(value[1:])),
		Owner: binary.BigEndian.Uint64(value[21:]),
	}
	copy(s.Passwd[:], value[5:])
	return s, nil
}
