package main

import (
	"context"
	cryptorand "crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"zkd/cmd/zkd/shell"
	"zkd/conf"
	"zkd/conf/jaas"
	"zkd/jute"
	"zkd/jute/client/session"
	"zkd/quorum/clock"
	"zkd/server/auth/sasl"
	"zkd/server/auth/sasl/gssapi"
)

// cliReplyBytes is the longest reply that the shell takes: the names of some millions of children.
const cliReplyBytes = 256 << 20

// opener opens the sessions of the shell.
type opener struct {
	timeout  time.Duration
	readOnly bool
	reply    int
	dialer   asker
	login    func(address string) (session.Login, error)
	auth     []jute.AuthPacket
}

// opener is what the flags and properties ask for.
func (f *cliFlags) opener(timeout time.Duration) (*opener, error) {
	o := &opener{timeout: timeout, readOnly: f.readOnly, reply: cliReplyBytes}
	if text := f.properties["jute.maxbuffer"]; text != "" {
		n, err := strconv.ParseInt(text, 0, 32)
		if err != nil || n <= 0 {
			return nil, fmt.Errorf("jute.maxbuffer: %q is no number of bytes", text)
		}
		o.reply = int(n)
	}
	var err error
	if o.dialer, err = f.secure(); err != nil {
		return nil, err
	}
	if o.login, err = f.saslLogin(); err != nil {
		return nil, err
	}
	o.auth, err = f.identities()
	return o, err
}

// open implements shell.Options.Open.
func (o *opener) open(connect string, onEvent func(session.Event), onTrouble func(string, error),
) (*session.Session, error) {
	servers, chroot, err := shell.ParseConnect(connect)
	if err != nil {
		return nil, err
	}
	//nolint:gosec // which server comes first is no secret
	rand.Shuffle(len(servers), func(i, j int) { servers[i], servers[j] = servers[j], servers[i] })
	return session.Open(session.Options{Servers: servers, Chroot: chroot, Timeout: o.timeout, ReadOnly: o.readOnly,
		MaxReplyBytes: o.reply, Dial: o.dialer.dial, Now: time.Now, Login: o.login, Auth: o.auth,
		OnEvent: onEvent, OnTrouble: onTrouble,
		After: func(d time.Duration) <-chan time.Time { return clock.Real().NewTimer(d).C() }})
}

// secure is how servers are reached: with TLS if flags, or properties as Java has them, say so.
func (f *cliFlags) secure() (asker, error) {
	flags := tlsFlags{on: f.tls, caFile: f.caFile, certFile: f.certFile}
	if f.tls || !strings.EqualFold(f.properties["zookeeper.client.secure"], "true") {
		return flags.asker(nil)
	}
	const prefix = "zookeeper.ssl."
	get := func(name string) string { return f.properties[prefix+name] }
	store := func(name string) conf.Store {
		return conf.Store{Location: get(name + ".location"), Password: get(name + ".password"),
			PasswordPath: get(name + ".passwordPath"), Type: get(name + ".type")}
	}
	list := func(name string) []string {
		return strings.FieldsFunc(get(name), func(r rune) bool { return r == ',' || r == ' ' })
	}
	end := conf.TLSEnd{KeyStore: store("keyStore"), TrustStore: store("trustStore"), Protocol: get("protocol"),
		EnabledProtocols: list("enabledProtocols"), CipherSuites: list("ciphersuites"), ClientAuth: "need",
		HostnameVerification: !strings.EqualFold(get("hostnameVerification"), "false"),
		CRL:                  strings.EqualFold(get("crl"), "true"), OCSP: strings.EqualFold(get("ocsp"), "true")}
	set, err := realStores().Open(end, prefix, false)
	if err != nil {
		return asker{}, err
	}
	return asker{config: func(host string) *tls.Config { return set.Client(host) }}, nil
}

// errAuthForm means an identity that is none.
var errAuthForm = errors.New("want scheme:auth, as digest:ann:secret")

// identities are those of --auth and --auth-file.
func (f *cliFlags) identities() ([]jute.AuthPacket, error) {
	lines := f.auth
	if f.authFile != "" {
		text, err := os.ReadFile(f.authFile)
		if err != nil {
			return nil, fmt.Errorf("--auth-file: %w", err)
		}
		for line := range strings.Lines(string(text)) {
			if line = strings.TrimRight(line, "\r\n"); line != "" && line[0] != '#' {
				lines = append(lines, line)
			}
		}
	}
	var all []jute.AuthPacket
	for _, line := range lines {
		scheme, auth, ok := strings.Cut(line, ":")
		if !ok || scheme == "" {
			return nil, fmt.Errorf("an identity of --auth or --auth-file: %w", errAuthForm)
		}
		all = append(all, jute.AuthPacket{Scheme: scheme, Auth: []byte(auth)})
	}
	return all, nil
}

// What ZooKeeper's servers and clients know without saying it (ZooKeeperSaslClient, SaslServerPrincipal).
const (
	saslRealm   = "zk-sasl-md5"
	saslService = "zookeeper"
)

// saslLogin is what the JAAS file says; nil if there is none, or not for clients.
func (f *cliFlags) saslLogin() (func(address string) (session.Login, error), error) {
	file := f.jaas
	if file == "" {
		file = f.properties["java.security.auth.login.config"]
	}
	if file == "" || strings.EqualFold(f.properties["zookeeper.sasl.client"], "false") {
		return nil, nil
	}
	text, err := os.ReadFile(file) //nolint:gosec // the user names it
	if err != nil {
		return nil, err
	}
	config, err := jaas.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	name := "Client"
	if other := f.properties["zookeeper.sasl.clientconfig"]; other != "" {
		name = other
	}
	section, ok := config.Section(name)
	if !ok || len(section.Modules) == 0 {
		return nil, fmt.Errorf("%s has no section %s", file, name)
	}
	module := section.Modules[len(section.Modules)-1]
	if module.Class == jaas.KerberosModule {
		return f.kerberosLogin(&module)
	}
	login := sasl.DigestLogin{User: module.Option("username"), Password: module.Option("password"),
		Service: saslService, Realm: saslRealm, Random: cryptorand.Reader}
	if login.User == "" {
		return nil, fmt.Errorf("%s: line %d: section %s names no username", file, module.Line, name)
	}
	return func(string) (session.Login, error) { return login.Begin(), nil }, nil
}

// kerberosLogin logs in with a keytab.
func (f *cliFlags) kerberosLogin(module *jaas.Module) (func(address string) (session.Login, error), error) {
	keytab := strings.TrimPrefix(module.Option("keyTab"), "file:")
	principal := module.Option("principal")
	if keytab == "" || principal == "" {
		return nil, fmt.Errorf("line %d: a login by Kerberos wants a principal and a keyTab: caches of tickets are "+
			"not looked into", module.Line)
	}
	file := f.properties["java.security.krb5.conf"]
	if file == "" {
		file = os.Getenv("KRB5_CONFIG")
	}
	if file == "" {
		file = "/etc/krb5.conf"
	}
	text, err := os.ReadFile(file) //nolint:gosec // the user names it
	if err != nil {
		return nil, fmt.Errorf("read krb5.conf, which says where the KDC is: %w", err)
	}
	defaults, err := jaas.ParseKerberos(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if !strings.Contains(principal, "@") {
		principal += "@" + defaults.DefaultRealm
	}
	login, err := gssapi.NewLogin(gssapi.LoginOptions{Principal: principal, Config: string(text), Clock: clock.Real(),
		Keytab: func() ([]byte, error) { return os.ReadFile(keytab) }})
	if err != nil {
		return nil, err
	}
	service := saslService
	if name := f.properties["zookeeper.sasl.client.username"]; name != "" {
		service = name
	}
	return func(address string) (session.Login, error) {
		if whole := f.properties["zookeeper.server.principal"]; whole != "" {
			return login.Begin(whole)
		}
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		return login.Begin(service + "/" + canonicalHost(host))
	}, nil
}

// canonicalHost is the name of an address, as Java looks it up for Kerberos.
func canonicalHost(host string) string {
	if net.ParseIP(host) == nil {
		return strings.ToLower(host)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	names, err := net.DefaultResolver.LookupAddr(ctx, host)
	if err != nil || len(names) == 0 {
		return host
	}
	return strings.ToLower(strings.TrimSuffix(names[0], "."))
}
