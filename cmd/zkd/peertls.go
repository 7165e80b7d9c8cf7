package main

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"time"

	"zkd/conf/keystore"
	"zkd/quorum/clock"
	"zkd/quorum/transport"
)

// secure has the streams use TLS, if the configuration asks for it (sslQuorum, portUnification).
func (p *peers) secure(o *transport.Options) error {
	c := &p.config.TLS
	if !c.QuorumEnabled && !c.QuorumPortUnification {
		return nil
	}
	set, err := keystore.Open(keystore.Options{End: c.Quorum, Prefix: "ssl.quorum.", ReadFile: os.ReadFile,
		Now: clock.Real().Now, LookupAddr: net.DefaultResolver.LookupAddr})
	if err != nil {
		return fmt.Errorf("TLS between the servers: %w", err)
	}
	for _, w := range set.Warnings() {
		p.logger.Warn("TLS between the servers is not all that the configuration says", slog.String("warning", w))
	}
	o.TLSServer, o.PortUnification = set.Server(), c.QuorumPortUnification
	if c.QuorumEnabled {
		o.TLSClient = set.Client
	}
	if c.QuorumCertReload {
		p.stores = set
	}
	return nil
}

// reloadInterval is how often the stores are read again with sslQuorumReloadCertFiles: ZooKeeper is told by the file
// system, and a certificate is replaced long before it ends.
const reloadInterval = time.Minute

// reload reads changed key and trust stores, if it shall.
func (p *peers) reload() {
	if p.stores == nil {
		return
	}
	switch changed, err := p.stores.Reload(); {
	case err != nil:
		p.logger.Error("changed key or trust stores cannot be read: those before stay in use", slog.Any("err", err))
	case changed:
		p.logger.Info("read changed key and trust stores", slog.Time("until", p.stores.NotAfter()))
	}
}
