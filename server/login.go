package server

import (
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"

	"zkd/jute"
	"zkd/server/auth"
	"zkd/server/auth/sasl"
)

// login is who the client of a connection is. Owned by the reader.
type login struct {
	*conn
	ids      auth.Identities
	dialogue *sasl.Dialogue // nil before the first token of SASL
	tokens   int            // of SASL, so far
}

// auth takes an identity in (ZooKeeperServer.processPacket). Its reply may overtake those of writes under way, as it
// does in ZooKeeper. A body that cannot be read closes the connection.
func (c *login) auth(r *request) error {
	var p jute.AuthPacket
	if err := c.req.decode(r, &p); err != nil {
		return errors.Join(errShortRequest, err)
	}
	if p.Scheme == schemeOptions && c.flags.option(string(p.Auth)) {
		c.replyAside(r)
		return nil
	}
	code := c.ids.Add(c.server.opts.Registry, c.remote.Addr(), p.Scheme, p.Auth)
	if code == jute.OK {
		c.replyAside(r)
		return nil
	}
	c.server.metrics.authFailed.Add(1)
	if c.ids.Full() {
		c.tooMany(p.Scheme)
	} else {
		c.server.bad.Warn("authentication failed", slog.String("peer", c.remote.String()), session(c.session),
			slog.String("scheme", shown(p.Scheme)))
	}
	if code == jute.BadArguments {
		return errClose
	}
	return c.closingReply(r.xid, 0, code)
}

// sasl takes one token of a SASL dialogue and answers it (ZooKeeperServer.processSasl). Replies overtake those of
// writes under way, as those of auth do. A null token closes the connection.
func (c *login) sasl(r *request) error {
	var token jute.SASLToken
	if err := c.req.decode(r, &token); err != nil {
		return errors.Join(errShortRequest, err)
	}
	if token.Token == nil {
		return errClose
	}
	if c.tokens++; c.tokens > saslTokensMax {
		return errTooManyTokens
	}
	s := c.server.opts.SASL
	if s == nil {
		// Quirk: a client that begins a dialogue with a server without SASL is told that all is well, and is nobody.
		c.saslReply(r, jute.OK, nil)
		return nil
	}
	if c.dialogue == nil {
		c.dialogue = s.Begin()
	}
	answer, ids, err := c.dialogue.Respond(token.Token)
	for _, id := range ids {
		if !c.ids.Grant(id) {
			err = errTooManyIdentities
		}
	}
	if err != nil {
		return c.saslFailed(r, s, err)
	}
	c.saslReply(r, jute.OK, answer)
	return nil
}

// saslTokensMax is how many tokens of SASL one connection may send: a dialogue has three, and nobody needs many.
const saslTokensMax = 64

// errTooManyTokens means a connection that logs in again and again.
var errTooManyTokens = errors.New("connection has sent too many tokens of SASL")

// errTooManyIdentities means an identity beyond what one connection may have.
var errTooManyIdentities = errors.New(
	"connection has too many identities: zkd.maxIdentitiesPerConnection or zkd.maxIdentityBytesPerConnection " +
		"refuses more")

// tooMany tells the log that a connection may have no more identities.
func (c *login) tooMany(scheme string) {
	c.server.bad.Warn("identity refused: zkd.maxIdentitiesPerConnection or zkd.maxIdentityBytesPerConnection",
		slog.String("peer", c.remote.String()), session(c.session), slog.String("scheme", shown(scheme)))
}

// saslFailed says that a dialogue has failed, and ends the connection unless its client may stay without an identity.
func (c *login) saslFailed(r *request, s *sasl.Server, err error) error {
	required := c.server.opts.Registry.Requires(auth.SchemeSASL)
	stays := s.AllowFailed() && !required && !errors.Is(err, sasl.ErrBroken)
	c.server.metrics.authFailed.Add(1)
	c.server.bad.Warn("SASL authentication failed", slog.String("peer", c.remote.String()), session(c.session),
		slog.String("mechanism", s.Mechanism()), slog.Bool("stays", stays), slog.Any("err", err))
	if stays {
		c.saslReply(r, jute.OK, nil)
		return nil
	}
	if errors.Is(err, sasl.ErrBroken) {
		return errClose
	}
	code := jute.AuthFailed
	if required {
		code = jute.SessionClosedAuth
	}
	c.saslReply(r, code, nil)
	return errClose
}

// saslReply appends a reply with a token; nil is null.
func (c *login) saslReply(r *request, code jute.Code, token []byte) {
	c.Out.Lock()
	b, mark := c.beginLocked(r.xid, 0, code)
	b = (&jute.SASLToken{Token: token}).Append(b)
	out := len(b) - mark
	c.Out.EndLocked(b, mark)
	c.Out.Unlock()
	c.sent(1)
	c.metered.tally(r, out, code, c.server.elapsed()-c.now)
}

// certify adds who the client's certificate says it is. A certificate that is nobody's ends the connection
// (X509AuthenticationProvider.handleAuthentication).
func (c *login) certify(cert *x509.Certificate) error {
	if cert == nil || c.port.Identity == nil {
		return nil
	}
	ids, err := c.port.Identity.Certify(cert)
	if err != nil {
		c.server.metrics.authFailed.Add(1)
		return fmt.Errorf("%w: %w", errTLS, err)
	}
	for _, id := range ids {
		if !c.ids.Grant(id) {
			c.server.metrics.authFailed.Add(1)
			return fmt.Errorf("%w: %w", errTLS, errTooManyIdentities)
		}
	}
	c.server.opts.Logger.Debug("client certificate accepted", slog.String("peer", c.remote.String()),
		slog.String("identity", ids[len(ids)-1].ID))
	return nil
}
