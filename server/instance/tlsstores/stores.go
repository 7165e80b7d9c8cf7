package tlsstores

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"zkd/conf"
	"zkd/conf/keystore"
	"zkd/quorum/clock"
)

// Files reads key and trust stores.
type Files interface {
	ReadFile(name string) ([]byte, error)
}

// Network is what a handshake may ask for elsewhere.
type Network interface {
	// LookupAddr is net.Resolver.LookupAddr.
	LookupAddr(ctx context.Context, address string) ([]string, error)
	// Do is http.Client.Do, with a time limit.
	Do(r *http.Request) (*http.Response, error)
}

// Source is where key and trust stores come from, and all that a handshake may need from elsewhere.
type Source struct {
	Clock   clock.Clock
	Files   Files
	Network Network
}

// lookupWithin bounds what a TLS handshake waits for. A guess: a name server that does not answer within two seconds
// does not at all.
const lookupWithin = 2 * time.Second

// Open reads key and trust stores, for whatever they are used.
func (s Source) Open(end conf.TLSEnd, prefix string, clients bool) (*keystore.Set, error) {
	return keystore.Open(keystore.Options{
		End: end, Prefix: prefix, Clients: clients, ReadFile: s.Files.ReadFile, Now: s.Clock.Now,
		LookupAddr: s.lookupAddr, Do: s.Network.Do,
	})
}

// OpenFor reads the key and trust stores of one kind of TLS connections; whose says of which, for messages.
func (s Source) OpenFor(end conf.TLSEnd, prefix, with string, clients bool, logger *slog.Logger) (*keystore.Set,
	error,
) {
	set, err := s.Open(end, prefix, clients)
	if err != nil {
		return nil, fmt.Errorf("TLS with the %s: %w", with, err)
	}
	Warn(set.Warnings(), with, logger)
	return set, nil
}

// Warn logs what of the configuration and of the stores of one kind of TLS connections has no effect.
func Warn(warnings []string, with string, logger *slog.Logger) {
	for _, w := range warnings {
		logger.Warn("TLS configuration partly ignored", slog.String("with", with), slog.String("warning", w))
	}
}

// lookupAddr finds the names of an address in bounded time.
func (s Source) lookupAddr(ctx context.Context, address string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, lookupWithin)
	defer cancel()
	return s.Network.LookupAddr(ctx, address)
}

// reloadInterval is how often key and trust stores are read again: ZooKeeper is told by the file system. A certificate
// is replaced long before it ends, and whoever replaces one wants to see that it works.
const reloadInterval = 5 * time.Second

// Reloader reads changed key and trust stores.
type Reloader struct {
	set    *keystore.Set
	with   string // for messages
	clock  clock.Clock
	logger *slog.Logger
	failed string // the last error, which is logged once
}

// NewReloader returns what reads a set again; whose says of which connections, for messages.
func NewReloader(set *keystore.Set, with string, c clock.Clock, logger *slog.Logger) *Reloader {
	return &Reloader{set: set, with: with, clock: c, logger: logger}
}

// Look reads the stores again if they have changed.
func (r *Reloader) Look() {
	before := r.set.Warnings()
	changed, err := r.set.Reload()
	switch {
	case err != nil:
		if r.failed != err.Error() {
			r.logger.Error("failed to reload key or trust stores: keeping the previous",
				slog.String("with", r.with), slog.Any("err", err))
		}
		r.failed = err.Error()
		return
	case changed:
		r.logger.Info("reloaded key and trust stores", slog.String("with", r.with),
			slog.Time("until", r.set.NotAfter()))
		known := func(w string) bool { return slices.Contains(before, w) }
		Warn(slices.DeleteFunc(r.set.Warnings(), known), r.with, r.logger)
	}
	r.failed = ""
}

// Run looks now and then until ctx ends.
func (r *Reloader) Run(ctx context.Context) {
	ticker := r.clock.NewTicker(reloadInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C():
			r.Look()
		case <-ctx.Done():
			return
		}
	}
}
