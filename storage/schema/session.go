package schema

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"zkd/jute"
	"zkd/storage/entry"
)

// SessionInfo describes a session.
type SessionInfo struct {
	ID            jute.SessionID
	TimeoutMillis int32
	Passwd        entry.Passwd
	Owner         uint64      // the server through which the client came last
	Identities    *Identities // what a connection of it has proven, if writes refer to it; nil: none do. Immutable
	// Ending says that the session is over but for ephemerals that are still to be deleted: nobody may use it.
	Ending bool
}

// Identities is a list of identities that a session's writes refer to.
type Identities struct {
	Reference entry.Reference
	IDs       []jute.ID // views of text

	text entry.IdentityList
}

// NewIdentities reads a list, of which it keeps a copy.
func NewIdentities(l entry.IdentityList) (*Identities, error) {
	text := entry.IdentityList(bytes.Clone(l))
	ids, err := text.Decode()
	if err != nil {
		return nil, fmt.Errorf("a list of identities: %w", err)
	}
	return &Identities{Reference: text.Reference(), IDs: ids, text: text}, nil
}

// The value of a session begins with its version: there is a list of identities, or none, or the session is ending.
const (
	sessionValueVersion    = 1
	sessionValueIdentities = 2
	sessionValueEnding     = 3
)

// SessionValueBytes is the size of a session's value without identities.
const SessionValueBytes = 1 + 4 + 16 + 8

// AppendSession adds the value of s to b.
func AppendSession(b []byte, s *SessionInfo) []byte {
	version := byte(sessionValueVersion)
	switch {
	case s.Ending:
		version = sessionValueEnding
	case s.Identities != nil:
		version = sessionValueIdentities
	}
	b = append(b, version)
	b = binary.BigEndian.AppendUint32(b, uint32(s.TimeoutMillis))
	b = append(b, s.Passwd[:]...)
	b = binary.BigEndian.AppendUint64(b, s.Owner)
	if version == sessionValueIdentities {
		b = append(b, s.Identities.text...)
	}
	return b
}

// DecodeSession reads a session from its key and value.
func DecodeSession(key, value []byte) (*SessionInfo, error) {
	if len(key) != 9 || len(value) < SessionValueBytes {
		return nil, fmt.Errorf("%w: session %x", ErrDamagedValue, key)
	}
	s := &SessionInfo{
		ID: jute.SessionID(binary.BigEndian.Uint64(key[1:])), TimeoutMillis: int32(binary.BigEndian.Uint32(value[1:])),
		Owner: binary.BigEndian.Uint64(value[21:]), Ending: value[0] == sessionValueEnding,
	}
	copy(s.Passwd[:], value[5:])
	var err error
	switch rest := value[SessionValueBytes:]; {
	case value[0] == sessionValueIdentities:
		s.Identities, err = NewIdentities(rest)
	case value[0] != sessionValueVersion && value[0] != sessionValueEnding || len(rest) > 0:
		err = errSessionValue
	}
	if err != nil {
		return nil, fmt.Errorf("%w: session %x: %w", ErrDamagedValue, key, err)
	}
	return s, nil
}

// errSessionValue means a version or a length that no value of a session has.
var errSessionValue = errors.New("no such version or length")
