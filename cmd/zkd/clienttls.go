package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime"
	"time"

	"zkd/conf"
	"zkd/conf/keystore"
	"zkd/quorum/clock"
	"zkd/server"
	"zkd/server/auth"
)

// Bounds of what a TLS handshake waits for elsewhere. Guesses: a name server that does not answer within two seconds
// does not at all; Java waits 15 s for a revocation list.
const (
	lookupWithin = 2 * time.Second
	fetchWithin  = 15 * time.Second
)

// openStores reads key and trust stores, for whatever they are used, with all that a handshake may need from elsewhere.
func openStores(end conf.TLSEnd, prefix string, clients bool) (*keystore.Set, error) {
	return keystore.Open(keystore.Options{
		End: end, Prefix: prefix, Clients: clients, ReadFile: os.ReadFile, Now: clock.Real().Now,
		LookupAddr: lookupAddr, Do: (&http.Client{Timeout: fetchWithin}).Do,
	})
}

// openTLS reads the key and trust stores of one kind of TLS connections; whose says of which, for messages.
func openTLS(end conf.TLSEnd, prefix, whose string, clients bool, logger *slog.Logger) (*keystore.Set, error) {
	set, err := openStores(end, prefix, clients)
	if err != nil {
		return nil, fmt.Errorf("TLS with the %s: %w", whose, err)
	}
	for _, w := range set.Warnings() {
		logger.Warn("TLS is not all that the configuration says", slog.String("with", whose), slog.String("warning", w))
	}
	return set, nil
}

// lookupAddr finds the names of an address in bounded time.
func lookupAddr(ctx context.Context, address string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, lookupWithin)
	defer cancel()
	return net.DefaultResolver.LookupAddr(ctx, address)
}

// clientPorts are what clients speak on the two ports for them.
type clientPorts struct {
	plain, secure server.Port
	stores        *keystore.Set // nil without TLS
}

// newClientPorts reads the stores for clients, if they may use TLS.
func newClientPorts(c *conf.Config, registry *auth.Registry, logger *slog.Logger) (*clientPorts, error) {
	p := &clientPorts{secure: server.Port{Secure: true}}
	if !c.ClientTLS() {
		return p, nil
	}
	var err error
	if p.stores, err = openTLS(c.TLS.Client, "ssl.", "clients", true, logger); err != nil {
		return nil, err
	}
	var config *tls.Config
	identity, _ := registry.Provider(auth.SchemeX509).(auth.Certifier)
	config, p.secure.Identity = p.stores.Server(), identity
	p.secure.TLS = config
	p.plain.CountPlain = true
	if c.Client.PortUnification {
		p.plain = server.Port{TLS: config, Plain: true, CountPlain: true, Identity: identity,
			DetectionTimeout: c.TLS.Client.HandshakeDetection}
	}
	return p, nil
}

// hasX509 tells whether the scheme x509 has a provider (QuorumPeerConfig.configureSSLAuth, ProviderRegistry).
func hasX509(c *conf.Config) bool { return c.ClientTLS() || c.Auth.HasProvider(auth.SchemeX509) }

// x509Providers are the schemes that certificates prove.
func x509Providers(c *conf.Config) ([]auth.Provider, error) {
	if !hasX509(c) {
		return nil, nil
	}
	o := auth.X509Options{SuperUser: c.Auth.X509SuperUser}
	if san := &c.Auth.X509SAN; san.Enabled() {
		o.AlternativeName = &auth.AlternativeName{Type: san.MatchType, Match: san.MatchRegex, Extract: san.ExtractRegex,
			Group: san.ExtractGroup}
	}
	p, err := auth.NewX509(o)
	if err != nil {
		return nil, err
	}
	return []auth.Provider{p}, nil
}

// handshakesComputing is how many TLS handshakes may compute at once: half of the processors, so that a crowd of
// clients leaves the rest to those that are there.
func handshakesComputing() int { return max(1, runtime.GOMAXPROCS(0)/2) }

// reloadInterval is how often key and trust stores are read again: ZooKeeper is told by the file system. A certificate
// is replaced long before it ends, and whoever replaces one wants to see that it works.
const reloadInterval = 5 * time.Second

// reloader reads changed key and trust stores.
type reloader struct {
	set    *keystore.Set // nil: nothing
	whose  string
	logger *slog.Logger
	failed string // the last error, which is logged once
}

// reload has stores read again when they change; whose says of which, for messages. Without TLS there are none.
func (i *instance) reload(set *keystore.Set, whose string) {
	if set != nil {
		i.stores = append(i.stores, &reloader{set: set, whose: whose, logger: i.logger})
	}
}

// look reads the stores again if they have changed.
func (r *reloader) look() {
	if r.set == nil {
		return
	}
	changed, err := r.set.Reload()
	switch {
	case err != nil:
		if r.failed != err.Error() {
			r.logger.Error("changed key or trust stores cannot be read: those before stay in use",
				slog.String("with", r.whose), slog.Any("err", err))
		}
		r.failed = err.Error()
		return
	case changed:
		r.logger.Info("read changed key and trust stores", slog.String("with", r.whose),
			slog.Time("until", r.set.NotAfter()))
	}
	r.failed = ""
}

// run looks now and then until ctx ends.
func (r *reloader) run(ctx context.Context) {
	if r.set == nil {
		return
	}
	ticker := clock.Real().NewTicker(reloadInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C():
			r.look()
		case <-ctx.Done():
			return
		}
	}
}
