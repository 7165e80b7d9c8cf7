package main

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"zkd/conf"
	"zkd/quorum/clock"
	"zkd/server/instance"
)

// ports tries whether the server could listen, at all ports at once: none may be there twice.
func (r *checkReport) ports(ctx context.Context, c *conf.Config, agreed string) {
	ports, err := instance.Ports(c, agreed)
	if err != nil {
		r.fail(levelError, "server.N", err)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, listenCheckTimeout)
	defer cancel()
	open := map[string]net.Listener{} // by the key
	failed := map[string]bool{}
	for i := range ports {
		p := &ports[i]
		if p.AnyFree() {
			continue
		}
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", p.Address)
		if err == nil {
			defer l.Close() //nolint:errcheck // nobody has come
			open[p.Key] = l
			r.add(levelOK, p.Key, "%s is free", p.Address)
			continue
		}
		failed[p.Key] = true
		level := levelError
		if !p.Needed {
			level = levelWarning
		}
		if other := samePort(open, p.Address); other != "" {
			r.add(level, p.Key, "cannot listen at %s: it is the port of %s, too", p.Address, other)
			continue
		}
		r.add(level, p.Key, "cannot listen: %v", err)
	}
	if key := "server.N"; failed[key] && open[key] == nil && !slices.ContainsFunc(ports, func(p instance.Port) bool {
		return p.Key == key && (p.Needed || p.AnyFree())
	}) {
		r.add(levelError, key, "the server cannot listen for the others at any of its addresses")
	}
}

// samePort is the key of the open port that has the number of an address.
func samePort(open map[string]net.Listener, address string) string {
	_, port, _ := net.SplitHostPort(address)
	for key, l := range open { // in any order: one is enough
		if _, other, _ := net.SplitHostPort(l.Addr().String()); other == port {
			return key
		}
	}
	return ""
}

// stores opens the key and trust stores that are in use.
func (r *checkReport) stores(c *conf.Config) {
	for _, s := range instance.TLSStores(c) {
		r.certificate(&s)
	}
	for prefix, end := range map[string]*conf.TLSEnd{"ssl.": &c.TLS.Client, "ssl.quorum.": &c.TLS.Quorum} { // any order
		used := slices.ContainsFunc(instance.TLSStores(c), func(s instance.Stores) bool { return s.Prefix == prefix })
		if file := end.KeyStore.Location; !used && file != "" {
			if _, err := os.Stat(file); err != nil {
				r.add(levelWarning, prefix+"keyStore.location", "%v; nothing uses TLS with it now", err)
			}
		}
	}
}

// certificate opens the stores of one kind of connections.
func (r *checkReport) certificate(s *instance.Stores) {
	key := s.Prefix + "keyStore.location"
	set, err := realStores().Open(s.End, s.Prefix, s.Clients)
	if err != nil {
		level := levelError
		if !s.Needed {
			level = levelWarning
		}
		r.fail(level, s.Prefix+"*", err)
		return
	}
	for _, w := range set.Warnings() {
		r.add(levelWarning, s.Prefix+"*", "%s", w)
	}
	until := set.NotAfter()
	level := levelOK
	if until.Sub(clock.Real().Now()) < certificateSoon {
		level = levelWarning
	}
	r.add(level, key, "the certificate is valid until %s", until.UTC().Format(time.DateOnly))
}

// logins looks at what clients, and servers among themselves, prove who they are by.
func (r *checkReport) logins(c *conf.Config) {
	world := realWorld(slog.New(slog.DiscardHandler))
	for _, err := range instance.CheckLogins(c, &world) {
		if err != nil {
			r.fail(levelError, "authentication", err)
		}
	}
}

// words looks for four-letter commands that there are not.
func (r *checkReport) words(c *conf.Config) {
	for _, word := range instance.UnknownWords(c) {
		r.add(levelWarning, "4lw.commands.whitelist", "%q is no four-letter command, and answers nothing", word)
	}
}

// audit looks whether the file of the audit log can be written.
func (r *checkReport) audit(c *conf.Config) {
	path := c.Audit.Path
	if !c.Audit.Enabled || path == "" {
		return
	}
	at := path
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		at = filepath.Dir(path)
		info, err = os.Stat(at)
		if err == nil && !info.IsDir() {
			err = &fs.PathError{Op: "open", Path: path, Err: unix.ENOTDIR}
		}
	case err == nil && info.IsDir():
		err = &fs.PathError{Op: "open", Path: path, Err: unix.EISDIR}
	}
	if err == nil {
		if err = unix.Access(at, unix.W_OK); err != nil {
			err = &fs.PathError{Op: "write", Path: at, Err: err}
		}
	}
	if err != nil {
		r.add(levelError, "zkd.audit.file", "%v", err)
	}
}

// oneLine has no breaks: a finding is a line.
func oneLine(text string) string { return strings.ReplaceAll(text, "\n", "; ") }
