package keystore

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"zkd/conf"
)

// Options says which stores to read and how. All but LookupAddr and Do are needed.
type Options struct {
	// End holds the keys, as conf.Load gives them.
	End conf.TLSEnd
	// Prefix is what the names of the keys begin with, for messages: `ssl.quorum.`.
	Prefix string
	// Clients says that only clients connect, and this server to nobody (ClientX509Util): protocol is the one version
	// of TLS then, where it is the newest between servers, and with clientAuth=none there need be no trust store.
	Clients bool
	// ReadFile is os.ReadFile.
	ReadFile func(name string) ([]byte, error)
	// Now is the time at which certificates must hold.
	Now func() time.Time
	// LookupAddr is net.Resolver.LookupAddr, for allowReverseDnsLookup; nil resolves nothing.
	LookupAddr func(ctx context.Context, address string) ([]string, error)
	// Do is http.Client.Do, with a time limit, for crl and ocsp.
	Do func(*http.Request) (*http.Response, error)
}

// Set is a key store and a trust store. Its methods may be called from any goroutine.
type Set struct {
	options  Options
	settings settings
	revoked  *revocation // nil: not looked for
	warnings []string
	loaded   atomic.Pointer[loaded] // what new connections use; written only under mu, or by Open
	mu       sync.Mutex             // one Reload at a time
}

// loaded is what was read from the files at one time.
type loaded struct {
	key, trust   contents
	certificates []tls.Certificate // at least one
	roots        *x509.CertPool
	warnings     []string // what of the files is left out
}

// Open reads the stores. Its error names each key that is wrong, the file, and what to do.
func Open(o Options) (*Set, error) {
	s := &Set{options: o}
	if s.revoked = newRevocation(&s.options); s.revoked != nil && o.Do == nil {
		return nil, fmt.Errorf("%scrl and %socsp: nothing can be fetched here; set both to false", o.Prefix, o.Prefix)
	}
	var err error
	if s.settings, s.warnings, err = s.options.parseSettings(); err != nil {
		return nil, err
	}
	found, err := s.load()
	if err != nil {
		return nil, err
	}
	s.loaded.Store(found)
	return s, nil
}

// Warnings says what of the configuration, and of the stores that were read last, has no effect, one line for the log
// each.
func (s *Set) Warnings() []string { return slices.Concat(s.warnings, s.loaded.Load().warnings) }

// Reload reads the files again; changed tells whether one of them was another. Connections that are made afterwards use
// what was read, those that are there go on. With an error everything stays as it was.
func (s *Set) Reload() (changed bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.loaded.Load()
	key, errKey := s.keyStore().read()
	trust, errTrust := contents{}, error(nil)
	if s.options.End.TrustStore.Location != "" {
		trust, errTrust = s.trustStore().read()
	}
	if err := errors.Join(errKey, errTrust); err != nil {
		return false, err
	}
	if key.equal(before.key) && trust.equal(before.trust) {
		return false, nil
	}
	found, err := s.load()
	if err != nil {
		return false, err
	}
	s.loaded.Store(found)
	return true, nil
}

// equal tells whether two stores are the same.
func (c contents) equal(other contents) bool {
	return c.password == other.password && slices.Equal(c.file, other.file)
}

// NotAfter is when the first certificate of this server's own ceases to hold.
func (s *Set) NotAfter() time.Time { return s.loaded.Load().certificates[0].Leaf.NotAfter }

// Server returns the configuration for accepted connections. It asks for a certificate as clientAuth says and always
// uses what was read last.
func (s *Set) Server() *tls.Config {
	config := s.base()
	config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		return s.accept(hello.Context(), hello.Conn), nil
	}
	return config
}

// Client returns the configuration for connections that are made to host, a name or an IP address without a port. It
// always uses what was read last.
//
// host may be empty: then the caller sets ServerName before use, crypto/tls itself looks at the certificate of the
// other side, its messages are plainer, and the trusted certificates are those at the time of the call.
func (s *Set) Client(host string) *tls.Config {
	end := &s.options.End
	config := s.base()
	config.ServerName, config.RootCAs = host, s.roots()
	config.GetClientCertificate = func(asked *tls.CertificateRequestInfo) (*tls.Certificate, error) {
		have := s.loaded.Load()
		for i := range have.certificates {
			if asked.SupportsCertificate(&have.certificates[i]) == nil {
				return &have.certificates[i], nil
			}
		}
		return &have.certificates[0], nil // the other side says what is wrong with it
	}
	check := &verifier{options: &s.options, roots: s.roots, usage: x509.ExtKeyUsageServerAuth, whose: host,
		revoked: s.revoked}
	if host == "" && end.HostnameVerification {
		check.whose = "the other server"
		config.VerifyConnection = func(state tls.ConnectionState) error {
			return check.checkRevoked(state.VerifiedChains)
		}
		return config
	}
	if end.HostnameVerification {
		check.hosts, check.hostKey = func() []string { return []string{host} }, "hostnameVerification"
	}
	if host == "" {
		check.whose = "the other server"
	}
	config.InsecureSkipVerify = true // VerifyConnection does it, with better messages and ZooKeeper's rules for names
	config.VerifyConnection = check.verify
	return config
}

// accept returns the configuration for one accepted connection.
func (s *Set) accept(ctx context.Context, conn net.Conn) *tls.Config {
	end, remote := &s.options.End, conn.RemoteAddr()
	config := s.base()
	config.Certificates = s.loaded.Load().certificates
	if end.ClientAuth == "none" {
		return config
	}
	check := &verifier{
		options: &s.options, roots: s.roots, usage: x509.ExtKeyUsageClientAuth, whose: remote.String(),
		revoked: s.revoked,
	}
	if c, ok := conn.(interface{ Await(wait func()) }); ok {
		check.await = c.Await
	}
	// ZooKeeper looks at the names of clients only if it looks at those of servers.
	if end.HostnameVerification && end.ClientHostnameVerification {
		check.hosts = func() []string { return s.options.hostsOf(ctx, remote) }
		check.hostKey = "clientHostnameVerification"
	}
	config.ClientAuth = tls.RequestClientCert
	config.VerifyConnection = func(state tls.ConnectionState) error {
		switch {
		case len(state.PeerCertificates) > 0:
			return check.verify(state)
		case end.ClientAuth == "want":
			return nil
		}
		return fmt.Errorf("%s shows no certificate (%sclientAuth=%s): name a key store there", remote,
			s.options.Prefix, end.ClientAuth)
	}
	return config
}

// roots are the trusted certificates that were read last.
func (s *Set) roots() *x509.CertPool { return s.loaded.Load().roots }

// base is what all configurations have in common. Sessions are not resumed: a resumed one would outlive a reload.
func (s *Set) base() *tls.Config {
	return &tls.Config{ //nolint:gosec // the oldest version is the operator's choice, TLSv1.2 without one
		MinVersion: s.settings.oldest, MaxVersion: s.settings.newest, CipherSuites: s.settings.suites,
		Time: s.options.Now, SessionTicketsDisabled: true,
		DynamicRecordSizingDisabled: true, // what is written at once is to be one record
	}
}

func (s *Set) keyStore() *store {
	return s.store(s.options.End.KeyStore, "keyStore.")
}

func (s *Set) trustStore() *store {
	return s.store(s.options.End.TrustStore, "trustStore.")
}

func (s *Set) store(which conf.Store, prefix string) *store {
	return &store{Store: which, prefix: s.options.Prefix + prefix, readFile: s.options.ReadFile}
}

// load reads and checks both stores; all that is wrong is in the error.
func (s *Set) load() (*loaded, error) {
	found := &loaded{}
	errKey := s.loadKeys(found)
	errTrust := s.loadRoots(found)
	if err := errors.Join(errKey, errTrust); err != nil {
		return nil, err
	}
	return found, nil
}

func (s *Set) loadKeys(found *loaded) (err error) {
	from := s.keyStore()
	if from.Location == "" {
		return fmt.Errorf("%slocation must be set: TLS needs a key and a certificate", from.prefix)
	}
	if found.key, err = from.read(); err != nil {
		return err
	}
	pairs, warnings, err := from.keys(found.key)
	if err != nil {
		return err
	}
	found.warnings = append(found.warnings, warnings...)
	for _, p := range pairs {
		leaf := p.chain[0]
		if now := s.options.Now(); now.Before(leaf.NotBefore) || now.After(leaf.NotAfter) {
			const form = "the certificate of %q does not hold now: it does from %s to %s"
			what := fmt.Sprintf(form, leaf.Subject, day(leaf.NotBefore), day(leaf.NotAfter))
			return from.problem(what, "renew it, or set the clock right")
		}
		certificate := tls.Certificate{PrivateKey: p.key, Leaf: leaf}
		for _, c := range p.chain {
			certificate.Certificate = append(certificate.Certificate, c.Raw)
		}
		found.certificates = append(found.certificates, certificate)
	}
	return nil
}

func (s *Set) loadRoots(found *loaded) (err error) {
	from := s.trustStore()
	if from.Location == "" && s.options.Clients && s.options.End.ClientAuth == "none" {
		found.roots = x509.NewCertPool()
		return nil
	}
	if from.Location == "" {
		return fmt.Errorf("%slocation must be set: without it the certificate of nobody could be checked", from.prefix)
	}
	if found.trust, err = from.read(); err != nil {
		return err
	}
	certs, warnings, err := from.trusted(found.trust)
	if err != nil {
		return err
	}
	found.warnings = append(found.warnings, warnings...)
	found.roots = x509.NewCertPool()
	for _, c := range certs {
		found.roots.AddCert(c)
	}
	return nil
}
