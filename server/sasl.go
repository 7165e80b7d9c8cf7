package server

import (
	"errors"
	"log/slog"

	"zkd/jute"
	"zkd/server/auth"
	"zkd/server/auth/sasl"
)

// auth takes an identity in (ZooKeeperServer.processPacket). Its reply may overtake those of writes under way, as it
// does in ZooKeeper. A body that cannot be read closes the connection.
func (c *conn) auth(r *request) error {
	var p jute.AuthPacket
	if err := c.decode(r, &p); err != nil {
		return errors.Join(errShortRequest, err)
	}
	if p.Scheme == schemeOptions && c.option(string(p.Auth)) {
		c.replyAside(r.xid)
		return nil
	}
	code := c.ids.Add(c.server.opts.Registry, c.remote.Addr(), p.Scheme, p.Auth)
	if code == jute.OK {
		c.replyAside(r.xid)
		return nil
	}
	c.server.metrics.authFailed.Add(1)
	c.server.bad.Warn("authentication failed", slog.String("peer", c.remote.String()), session(c.session),
		slog.String("scheme", shown(p.Scheme)))
	if code == jute.BadArguments {
		return errClose
	}
	return c.farewell(r.xid, 0, code)
}

// sasl takes one token of a SASL dialogue and answers it (ZooKeeperServer.processSasl). Replies overtake those of
// writes under way, as those of auth do. A null token closes the connection.
func (c *conn) sasl(r *request) error {
	var token jute.SASLToken
	if err := c.decode(r, &token); err != nil {
		return errors.Join(errShortRequest, err)
	}
	if token.Token == nil {
		return errClose
	}
	s := c.server.opts.SASL
	if s == nil {
		// Quirk: a client that begins a dialogue with a server without SASL is told that all is well, and is nobody.
		c.saslReply(r.xid, jute.OK, nil)
		return nil
	}
	if c.login == nil {
		c.login = s.Begin()
	}
	answer, ids, err := c.login.Respond(token.Token)
	for _, id := range ids {
		if !c.ids.Grant(id) {
			err = errTooManyIdentities
		}
	}
	if err != nil {
		return c.saslFailed(r, s, err)
	}
	c.saslReply(r.xid, jute.OK, answer)
	return nil
}

// errTooManyIdentities means an identity beyond what one connection may have.
var errTooManyIdentities = errors.New("connection has too many identities")

// saslFailed says that a dialogue has failed, and ends the connection unless its client may stay without an identity.
func (c *conn) saslFailed(r *request, s *sasl.Server, err error) error {
	required := c.server.opts.Registry.Requires(auth.SchemeSASL)
	stays := s.AllowFailed() && !required && !errors.Is(err, sasl.ErrBroken)
	c.server.metrics.authFailed.Add(1)
	c.server.bad.Warn("SASL authentication failed", slog.String("peer", c.remote.String()), session(c.session),
		slog.String("mechanism", s.Mechanism()), slog.Bool("stays", stays), slog.Any("err", err))
	if stays {
		c.saslReply(r.xid, jute.OK, nil)
		return nil
	}
	if errors.Is(err, sasl.ErrBroken) {
		return errClose
	}
	code := jute.AuthFailed
	if required {
		code = jute.SessionClosedAuth
	}
	c.saslReply(r.xid, code, nil)
	return errClose
}

// saslReply appends a reply with a token; nil is null.
func (c *conn) saslReply(xid jute.Xid, code jute.Code, token []byte) {
	c.out.mu.Lock()
	b, mark := c.beginLocked(xid, 0, code)
	c.endLocked((&jute.SASLToken{Token: token}).Append(b), mark)
	c.out.mu.Unlock()
	c.sent(1)
}
