package main

import (
	"zkd/quorum/transport"
)

// secure has the streams use TLS, if the configuration asks for it (sslQuorum, portUnification).
func (p *peers) secure(o *transport.Options) error {
	c := &p.config.TLS
	if !c.QuorumEnabled && !c.QuorumPortUnification {
		return nil
	}
	set, err := openTLS(c.Quorum, "ssl.quorum.", "other servers", false, p.logger)
	if err != nil {
		return err
	}
	o.TLSServer, o.PortUnification = set.Server(), c.QuorumPortUnification
	o.DetectionTimeout = c.Quorum.HandshakeDetection
	if c.QuorumEnabled {
		o.TLSClient = set.Client
	}
	if c.QuorumCertReload {
		p.stores.set = set
	}
	p.stores.whose, p.stores.logger = "other servers", p.logger
	return nil
}
