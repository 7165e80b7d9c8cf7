package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/spf13/cobra"

	"zkd/conf"
)

// tlsFlags are what a command is told of the TLS that it speaks with servers.
type tlsFlags struct {
	on               bool
	caFile, certFile string
}

// addTo adds the flags to a command.
func (f *tlsFlags) addTo(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.on, "tls", false, "ask with TLS, on secureClientPort or a port that takes both")
	cmd.Flags().StringVar(&f.caFile, "ca-file", "",
		"with --tls: `file` with the certificates to trust, PEM; default those of zoo.cfg, else of the system")
	cmd.Flags().StringVar(&f.certFile, "cert-file", "",
		"with --tls: `file` with a certificate and its key, PEM, for servers that ask for one; default that of zoo.cfg")
}

// check refuses flags that have no effect.
func (f *tlsFlags) check() error {
	if !f.on && (f.caFile != "" || f.certFile != "") {
		return errors.New("--ca-file and --cert-file have no effect without --tls")
	}
	return nil
}

// asker connects to the ports for clients. The zero one does so without TLS.
type asker struct {
	config func(host string) *tls.Config // of a connection to host; nil: without TLS
}

// secure tells whether it speaks TLS.
func (a asker) secure() bool { return a.config != nil }

// dial is net.Dialer.DialContext.
func (a asker) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if !a.secure() {
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	return (&tls.Dialer{Config: a.config(host)}).DialContext(ctx, network, address)
}

// asker is what the flags ask for; c is nil without a zoo.cfg. A server that has no port but the one for TLS is asked
// there without being told.
func (f *tlsFlags) asker(c *conf.Config) (asker, error) {
	if c != nil && c.Client.Addr == "" && c.Client.SecureAddr != "" {
		f.on = true
	}
	if err := f.check(); err != nil || !f.on {
		return asker{}, err
	}
	if c != nil && c.ClientTLS() && f.caFile == "" && f.certFile == "" {
		set, err := realStores().Open(c.TLS.Client, "ssl.", false)
		if err != nil {
			return asker{}, fmt.Errorf("ask with the stores of zoo.cfg, or name others by --ca-file: %w", err)
		}
		return asker{config: set.Client}, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.caFile != "" {
		pool, err := trustedFile(f.caFile)
		if err != nil {
			return asker{}, err
		}
		config.RootCAs = pool
	}
	if f.certFile != "" {
		own, err := tls.LoadX509KeyPair(f.certFile, f.certFile)
		if err != nil {
			return asker{}, fmt.Errorf("--cert-file %s must hold a certificate and its key in PEM: %w", f.certFile, err)
		}
		config.Certificates = []tls.Certificate{own}
	}
	return asker{config: func(string) *tls.Config { return config }}, nil
}

// trustedFile reads certificates to trust.
func trustedFile(name string) (*x509.CertPool, error) {
	text, err := os.ReadFile(name) //nolint:gosec // the operator names it
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s holds no certificate in PEM", name)
	}
	return pool, nil
}
