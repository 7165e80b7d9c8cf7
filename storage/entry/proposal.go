package entry

import (
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"

	"zkd/jute"
)

// OpReattachSession is the proposal of a client that comes back to its session, maybe on another server. Its body is
// a SessionTxn. It takes no zxid (org.apache.zookeeper.server.ZooKeeperServer.reopenSession) and never comes from a
// client.
const OpReattachSession jute.Op = -12

// OpFoundEnsemble is the proposal that makes a state the state of an ensemble, once. Its body is a FoundTxn. It takes
// no zxid and never comes from a client.
const OpFoundEnsemble jute.Op = -13

// Flags carries what must be equal on every server and is decided by the proposer, from its configuration.
type Flags uint16

// The flags of a proposal.
const (
	FlagExtendedTypes  Flags = 1 << iota // TTL nodes may be created (zookeeper.extendedTypesEnabled)
	FlagEnforceQuota                     // hard quotas refuse (zookeeper.enforceQuota)
	FlagSkipACL                          // no ACL is looked at (zookeeper.skipACL)
	FlagX509                             // the x509 scheme has a provider
	FlagSASL                             // the sasl scheme has a provider
	FlagDigestDisabled                   // the digest scheme has none (DigestAuthenticationProvider.enabled=false)
	FlagLocalSession                     // the session is the server's own: the state need not know it
	FlagSingleVoter                      // a reconfig may leave one participant (standaloneEnabled=false)
	FlagMultiAddress                     // servers may have several addresses (multiAddress.enabled)
	// FlagInPieces is of a closeSession alone: it deletes a piece of what the session owns, and says whether there is
	// more, which another one deletes. From LevelPieces on.
	FlagInPieces

	flagsKnown Flags = 1<<iota - 1 // all of them
)

// Proposal is what is replicated for one write: the request as the client sent it and what the proposer knows about
// it.
//
// Body and the identities' strings are views of the bytes that it was decoded from.
type Proposal struct {
	// Op is a write opcode, jute.OpCreateSession, jute.OpCloseSession, OpReattachSession, OpSetIdentities,
	// OpFoundEnsemble, jute.OpDeleteContainer (the last two proposed by a server itself, never by a client) or
	// jute.OpError, which takes a zxid, changes nothing and answers Code.
	Op      jute.Op
	Session jute.SessionID
	Xid     jute.Xid    // for logs only
	Time    jute.Millis // the proposer's clock: ctime and mtime of what the write makes
	Flags   Flags
	// Code is the answer, with OpError. With jute.OpReconfig it is what the proposer knows against it, where ZooKeeper
	// finds that: ReconfigInProgress, or NewConfigNoQuorum.
	Code jute.Code
	// Server is the server that holds the client's connection. A write through another one than the session's owner
	// is answered SessionMoved; 0 is not compared.
	Server     uint64
	Identities []jute.ID // what the connection has proven, for ACL checks
	// Reference, if not 0, stands for Identities: they are those of the session's OpSetIdentities with it. Who
	// evaluates the proposal fills them in.
	Reference Reference
	// Body is the request's record; a SessionTxn for the session ops that have one, a FoundTxn or a ReconfigTxn.
	Body []byte
}

// proposalFixedBytes is the size of a proposal without identities and body (docs/formats/entry.md).
const proposalFixedBytes = 4 + 8 + 4 + 8 + 2 + 4 + 8 + 2

// errProposal means a proposal or entry whose lengths do not fit its bytes, or an entry of a version that never was.
var errProposal = errors.New("proposal ends inside a field, or its entry is of a version that never was")

// Append adds the encoding of p to b (docs/formats/entry.md).
func (p *Proposal) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(p.Op))
	b = binary.BigEndian.AppendUint64(b, uint64(p.Session))
	b = binary.BigEndian.AppendUint32(b, uint32(p.Xid))
	b = binary.BigEndian.AppendUint64(b, uint64(p.Time))
	b = binary.BigEndian.AppendUint16(b, uint16(p.Flags))
	b = binary.BigEndian.AppendUint32(b, uint32(p.Code))
	b = binary.BigEndian.AppendUint64(b, p.Server)
	if p.Reference != 0 {
		b = binary.BigEndian.AppendUint16(b, referred)
		b = binary.BigEndian.AppendUint64(b, uint64(p.Reference))
	} else {
		b = appendIdentities(b, p.Identities)
	}
	return append(b, p.Body...)
}

// Decode reads p from all of b, of which Body and the identities stay views; p's own identity slice is reused.
func (p *Proposal) Decode(b []byte) error {
	if len(b) < proposalFixedBytes {
		return errProposal
	}
	p.Op = jute.Op(binary.BigEndian.Uint32(b))
	p.Session = jute.SessionID(binary.BigEndian.Uint64(b[4:]))
	p.Xid = jute.Xid(binary.BigEndian.Uint32(b[12:]))
	p.Time = jute.Millis(binary.BigEndian.Uint64(b[16:]))
	p.Flags = Flags(binary.BigEndian.Uint16(b[24:]))
	p.Code = jute.Code(binary.BigEndian.Uint32(b[26:]))
	p.Server = binary.BigEndian.Uint64(b[30:])
	n := int(binary.BigEndian.Uint16(b[38:]))
	b = b[proposalFixedBytes:]
	p.Identities, p.Reference = p.Identities[:0], 0
	if n == referred {
		return p.decodeReference(b)
	}
	var err error
	p.Identities, p.Body, err = cutIdentities(p.Identities, n, b)
	return err
}

// decodeReference reads what is in the place of identities, and the body.
func (p *Proposal) decodeReference(b []byte) error {
	if len(b) < 8 || binary.BigEndian.Uint64(b) == 0 {
		return errProposal
	}
	p.Reference, p.Body = Reference(binary.BigEndian.Uint64(b)), b[8:]
	return nil
}

// Passwd is the secret that lets a client come back to its session.
type Passwd [16]byte

// Equal compares passwords in constant time, so that nobody finds one out by how long it takes.
func (p Passwd) Equal(other Passwd) bool { return subtle.ConstantTimeCompare(p[:], other[:]) == 1 }

// SessionTxn is the body of createSession and OpReattachSession.
type SessionTxn struct {
	TimeoutMillis int32  // negotiated
	Passwd        Passwd // new, or the one to compare
	Owner         uint64 // id of the server that the client is connected to
}

// sessionTxnBytes is the size of an encoded SessionTxn.
const sessionTxnBytes = 4 + 16 + 8

// Append adds the encoding of s to b (docs/formats/entry.md).
func (s *SessionTxn) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(s.TimeoutMillis))
	b = append(b, s.Passwd[:]...)
	return binary.BigEndian.AppendUint64(b, s.Owner)
}

// Decode reads s from b.
func (s *SessionTxn) Decode(b []byte) error {
	if len(b) != sessionTxnBytes {
		return fmt.Errorf("session transaction of %d bytes, want %d", len(b), sessionTxnBytes)
	}
	s.TimeoutMillis = int32(binary.BigEndian.Uint32(b))
	copy(s.Passwd[:], b[4:])
	s.Owner = binary.BigEndian.Uint64(b[20:])
	return nil
}

// ClusterID tells one ensemble from all others, whatever addresses their servers have. Zero: none.
type ClusterID = [16]byte

// FoundTxn is the body of OpFoundEnsemble.
type FoundTxn struct {
	ClusterID ClusterID // drawn at random by the proposer; not zero
	Config    []byte    // the text of the first configuration: the data of /zookeeper/config
}

// Append adds the encoding of f to b (docs/formats/entry.md).
func (f *FoundTxn) Append(b []byte) []byte { return append(append(b, f.ClusterID[:]...), f.Config...) }

// Decode reads f from b; Config stays a view of it.
func (f *FoundTxn) Decode(b []byte) error {
	if len(b) < len(f.ClusterID) {
		return fmt.Errorf("found transaction of %d bytes, want at least %d", len(b), len(f.ClusterID))
	}
	f.ClusterID = ClusterID(b)
	f.Config = b[len(f.ClusterID):]
	return nil
}

// ReconfigTxn is the body of jute.OpReconfig. What the leader has worked out goes with the request, so that it takes
// effect only on the configuration for which the leader has worked it out. While nobody has, Members is empty, and the
// proposal is refused unless something else is wrong with it.
type ReconfigTxn struct {
	BaseVersion int64  // version of the configuration that the leader has started from
	Members     string // the servers after the reconfig (ensemble.Config.Members)
	Request     []byte // the record as the client sent it
}

// reconfigTxnFixedBytes is the size of a ReconfigTxn without members and request.
const reconfigTxnFixedBytes = 8 + 4

// Append adds the encoding of r to b (docs/formats/entry.md).
func (r *ReconfigTxn) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(r.BaseVersion))
	b = jute.AppendString(b, r.Members)
	return append(b, r.Request...)
}

// Decode reads r from b, as views of it.
func (r *ReconfigTxn) Decode(b []byte) error {
	if len(b) < reconfigTxnFixedBytes {
		return fmt.Errorf("reconfig transaction of %d bytes, want at least %d", len(b), reconfigTxnFixedBytes)
	}
	r.BaseVersion = int64(binary.BigEndian.Uint64(b))
	var ok bool
	if r.Members, r.Request, ok = CutString(b[8:]); !ok {
		return errProposal
	}
	return nil
}
