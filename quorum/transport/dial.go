package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"syscall"
	"time"

	"zkd/quorum/proof"
	"zkd/storage/serverid"
)

// errNoAddress says that a peer takes part, and nothing says where it is.
var errNoAddress = errors.New("no address of it is known: give this server a line of it in zoo.cfg, or, if it is to " +
	"take part no more, take it out by reconfig")

// connect tries the peer's addresses, the one that was good last before the others, then where else it may be.
func (p *peer) connect(ctx context.Context, what purpose) (*link, error) {
	p.mu.Lock()
	addresses := slices.Concat(p.inTurnLocked(), p.elsewhereLocked())
	p.mu.Unlock()
	return p.connectTo(ctx, addresses, what)
}

// connectTo tries addresses in turn: if there are several, each for a short while first, so that one where nobody
// answers does not hold up the others.
func (p *peer) connectTo(ctx context.Context, addresses []string, what purpose) (*link, error) {
	long := p.transport.opts.DialTimeout
	short := min(p.transport.opts.TryTimeout, long)
	if len(addresses) > 1 && short < long {
		if l, err := p.tryEach(ctx, addresses, what, short); err == nil || !errors.Is(err, errTimeout) {
			return l, err
		}
	}
	return p.tryEach(ctx, addresses, what, long)
}

// tryEach tries addresses in turn, each for so long.
func (p *peer) tryEach(ctx context.Context, addresses []string, what purpose, long time.Duration) (*link, error) {
	errs := []error{}
	for _, address := range addresses {
		l, err := p.dial(ctx, address, what, long)
		if err == nil {
			p.mu.Lock()
			p.good, p.host = address, hostOf(l.raw.RemoteAddr().String())
			p.mu.Unlock()
			return l, nil
		}
		errs = append(errs, err)
		if ctx.Err() != nil || p.isEnded() {
			break
		}
	}
	if len(errs) == 0 {
		return nil, errNoAddress
	}
	return nil, errors.Join(errs...)
}

// dial connects to one address and shakes hands, within so long. The peer holds the connection. A server of a version
// that knows of no proofs is called without, unless one is demanded.
func (p *peer) dial(ctx context.Context, address string, what purpose, long time.Duration) (*link, error) {
	ctx, cancel := p.transport.within(ctx, p.done, long)
	defer cancel()
	gate := p.transport.opts.Gate
	l, err := p.call(ctx, address, what, gate)
	if err != nil && errors.Is(err, proof.ErrHungUp) && gate.MayOmit() {
		return p.call(ctx, address, what, &proof.Gate{})
	}
	return l, err
}

// call connects to one address, proves what gate has, and shakes hands, until ctx ends.
func (p *peer) call(ctx context.Context, address string, what purpose, gate *proof.Gate) (*link, error) {
	t := p.transport
	raw, err := t.opts.Dial(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", address, cause(ctx, err))
	}
	boundSilence(raw, &t.opts)
	if what == forMessages {
		boundUnsent(raw, &t.opts)
	}
	if !p.hold(raw) {
		_ = raw.Close() // unused
		return nil, fmt.Errorf("connect to %s: %w", address, errClosed)
	}
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() }) // what waits for it sees the error
	l, err := p.introduce(ctx, raw, address, what, gate)
	if err == nil && !stop() {
		err = context.Cause(ctx)
	}
	if err != nil {
		_ = p.release(raw) // given up
		return nil, fmt.Errorf("shake hands with %s: %w", address, cause(ctx, err))
	}
	return l, nil
}

// cause returns why ctx ended, if it has, and err otherwise.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// introduce shakes hands on a connection that was made.
func (p *peer) introduce(
	ctx context.Context, raw net.Conn, address string, what purpose, gate *proof.Gate,
) (*link, error) {
	t := p.transport
	conn := raw
	if t.opts.TLSClient != nil {
		secure := tls.Client(raw, clientConfig(t.opts.TLSClient, hostOf(address)))
		if err := secure.HandshakeContext(ctx); err != nil {
			return nil, fmt.Errorf("TLS: %w: does the peer use TLS, and do both trust the other's certificate?", err)
		}
		conn = secure
	}
	conn, err := gate.Dial(ctx, conn, proof.Call{From: t.opts.ID, To: p.id, Purpose: uint8(what)}, hostOf(address))
	if err != nil {
		return nil, err
	}
	said := t.standing()
	h := hello{
		oldest: versionOldest, newest: versionNewest,
		cluster: t.opts.ClusterID(), from: t.opts.ID, to: p.id, processID: t.processID, purpose: what,
		name: t.opts.Name, founders: t.opts.Founders(), levels: t.levels(), where: t.opts.Where(),
		standing: said,
	}
	if _, err := conn.Write(h.encode()); err != nil {
		return nil, err
	}
	a, err := readAnswer(conn)
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
		return nil, fmt.Errorf("%w: it hung up without an answer: it is no zkd server's port for servers, "+
			"or one that wants TLS, or a proof (zkd.quorum.secretFile, quorum.auth.enableSasl), or has too many "+
			"connections", err)
	}
	if err != nil {
		return nil, err
	}
	if err := p.judge(a, h.cluster); err != nil {
		return nil, err
	}
	l := &link{raw: raw, conn: conn, address: address, processID: a.processID, name: a.name, cluster: a.cluster,
		levels: a.levels, said: said, version: a.version}
	p.noteLevels(l)
	return l, nil
}

// judge refuses an answer that says no, or is of another server than the one meant.
func (p *peer) judge(a *answer, cluster [16]byte) error {
	t := p.transport
	apart := ""
	if a.id == p.id && a.processID != t.processID && !clustersDiffer(a.cluster, cluster) {
		apart = t.bootstrapConflict(p.id, a.cluster, a.standing)
	}
	switch {
	case a.code != Accepted:
		return &RefusalError{Code: a.code, Text: a.text, cluster: a.cluster, processID: a.processID,
			standing: a.standing}
	case a.version < versionOldest || a.version > versionNewest:
		return &RefusalError{Code: BadVersion, Text: fmt.Sprintf("it wants to speak version %d", a.version)}
	case a.processID == t.processID:
		return &RefusalError{Code: Itself, Text: "this server has answered itself"}
	case a.id != p.id:
		return &RefusalError{Code: WrongServer, Text: fmt.Sprintf("it is server %d, not %d", serverid.Number(a.id),
			serverid.Number(p.id))}
	case t.differ(p.id, a.cluster, a.founders) != "":
		return &RefusalError{Code: OtherFounders, Text: t.differ(p.id, a.cluster, a.founders)}
	case clustersDiffer(a.cluster, cluster):
		return &RefusalError{Code: OtherCluster, Text: fmt.Sprintf("its cluster is %x, ours %x", a.cluster, cluster)}
	case apart != "":
		return &RefusalError{Code: BootstrapConflict, Text: apart}
	}
	if refusal := t.tooOld(p.id, a.levels); refusal != nil { // no nil of another type
		return refusal
	}
	return nil
}

// clustersDiffer says whether both ids are known and not the same.
func clustersDiffer(a, b [16]byte) bool { return a != b && a != [16]byte{} && b != [16]byte{} }

// clientConfig is the TLS configuration of a connection to host, of those that of has. The dialed host is the one that
// the certificate must be for, if the configuration names none.
func clientConfig(of func(host string) *tls.Config, host string) *tls.Config {
	config := of(host)
	if config.ServerName != "" {
		return config
	}
	config = config.Clone()
	config.ServerName = host
	return config
}
