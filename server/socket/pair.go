package socket

import (
	"crypto/tls"
	"io"
	"net"
	"time"

	"zkd/quorum/clock"
	"zkd/server/limits"
)

// Pair is what comes from one client, and what goes to it.
type Pair struct {
	In  Input
	Out Output
}

// Options are what all connections have in common, and the account of one, which counts what it holds.
type Options struct {
	Frames  *limits.FrameLimits
	Large   *limits.Turns // in which large frames are taken
	Figures *Figures
	Account *limits.Account
	Share   *limits.Share
}

// Init sets up both for a connection.
func (p *Pair) Init(c net.Conn, o Options) {
	p.Out.init(c, &o)
	p.In.init(c, p.Out.raw, o.Frames)
	p.In.account, p.In.large, p.In.ending = o.Account, o.Large, p.Out.Ending
}

// Net is the connection below both, and below its TLS: for its deadlines.
func (p *Pair) Net() net.Conn { return p.In.net }

// StartTLS does the server's side of a TLS handshake, and has both go through TLS from then on. The input may hold the
// first bytes of it already.
func (p *Pair) StartTLS(config *tls.Config, s *Handshakes) (tls.ConnectionState, error) {
	t := newTLSStream(&p.In, config)
	t.records.turns = &s.turns
	t.records.take()
	err := t.Handshake()
	t.records.give()
	t.records.turns = nil
	if sent := t.records.send(); err == nil { // the last messages of the handshake, or an alert
		err = sent
	}
	if err != nil {
		return tls.ConnectionState{}, err
	}
	t.records.out = &p.Out
	p.In.begin(t)
	p.Out.begin(t)
	return t.ConnectionState(), nil
}

// Bounds of Linger: guesses, many times what a client has under way.
const (
	lingerTime  = time.Second
	lingerBytes = 1 << 20
)

// Linger ends the sending side alone and takes in what the client has under way: closing a socket with unread bytes
// in it resets the connection, which can cost the client the last reply.
func (p *Pair) Linger(now clock.Clock) {
	if p.In.tls != nil && !p.notifyClose(now) {
		return
	}
	half, ok := p.In.net.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	if p.In.net.SetReadDeadline(now.Now().Add(lingerTime)) != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, p.In.net, lingerBytes) // whatever ends it, the connection is over
}

// notifyClose sends TLS's close_notify, behind what was sent before. false: the connection has ended.
func (p *Pair) notifyClose(now clock.Clock) bool {
	if p.In.tls.CloseWrite() != nil || p.In.net.SetWriteDeadline(now.Now().Add(lingerTime)) != nil {
		return false
	}
	p.Out.FlushLast()
	return !p.Out.Ended()
}
