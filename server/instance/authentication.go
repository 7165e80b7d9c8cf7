package instance

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"strings"

	"zkd/conf"
	"zkd/conf/jaas"
	"zkd/server/auth"
	"zkd/server/auth/sasl"
	"zkd/storage/entry"
)

// authentication is by what clients prove who they are.
type authentication struct {
	registry *auth.Registry
	sasl     *sasl.Server // nil: nobody can log in by SASL
	login    string       // principal of the server's own login; "": none
	flags    entry.Flags  // of every proposal: which schemes ACLs may have
}

// newAuthentication builds what the configuration asks for.
func newAuthentication(c *conf.Config, w *World, logger *slog.Logger) (authentication, error) {
	var a authentication
	extra, err := x509Providers(c)
	if err != nil {
		return a, fmt.Errorf("authentication: %w", err)
	}
	if a.sasl, a.login, err = newSASL(c, w, logger); err != nil {
		return a, fmt.Errorf("SASL: %w", err)
	}
	if c.Auth.HasProvider(auth.SchemeSASL) || c.Auth.SASLUsersFile != "" {
		extra = append(extra, auth.NewSASL())
	}
	if c.Auth.HasProvider(auth.SchemeEnsemble) {
		extra = append(extra, auth.NewEnsemble(c.Auth.EnsembleName))
	}
	// A class that authProvider.X names is there even if the other setting has taken it away.
	digest := c.Auth.DigestEnabled || c.Auth.HasProvider(auth.SchemeDigest)
	a.registry, err = auth.New(auth.Options{
		DigestDisabled: !digest, DigestAlgorithm: c.Auth.DigestAlgorithm, SuperDigest: c.Auth.SuperDigest,
		Extra: extra, EnforcedSchemes: enforcedSchemes(&c.Auth),
	})
	if err != nil {
		return a, fmt.Errorf("authentication: %w", err)
	}
	a.flags = schemeFlags(a.registry)
	if a.registry.Requires(auth.SchemeSASL) && a.sasl == nil {
		logger.Warn("SASL required but no users configured")
	}
	return a, nil
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

// enforcedSchemes are the schemes of which clients must prove one (AuthenticationHelper.initConfigurations).
func enforcedSchemes(a *conf.Auth) []string {
	switch {
	case a.RequireSASL:
		return []string{auth.SchemeSASL}
	case a.Enforce:
		return a.EnforceSchemes
	default:
		return nil
	}
}

// schemeFlags tells every server which schemes ACLs may have, as this one knows it.
func schemeFlags(r *auth.Registry) (f entry.Flags) {
	if r.Provider(auth.SchemeSASL) != nil {
		f |= entry.FlagSASL
	}
	if r.Provider(auth.SchemeX509) != nil {
		f |= entry.FlagX509
	}
	if r.Provider(auth.SchemeDigest) == nil {
		f |= entry.FlagDigestDisabled
	}
	return f
}

// newSASL returns SASL as clients find it, nil if it is not configured, and the server's own principal.
func newSASL(c *conf.Config, w *World, logger *slog.Logger) (server *sasl.Server, principal string, err error) {
	a := &c.Auth
	if a.SASLUsersFile == "" && a.JAASFile == "" {
		return nil, "", nil
	}
	kerberos, err := readKerberos(a, w.Files)
	if err != nil {
		return nil, "", err
	}
	mechanism, principal, err := newMechanism(a, kerberos, w, logger)
	if mechanism == nil || err != nil {
		return nil, "", err
	}
	if a.KerberosRequireConfig && kerberos.DefaultRealm == "" {
		return nil, "", fmt.Errorf("requireKerberosConfig is set and %s has no default_realm", a.KerberosConfig)
	}
	names, err := sasl.NewNames(sasl.NameOptions{
		AuthToLocal: a.KerberosAuthToLocal, DefaultRealm: kerberos.DefaultRealm,
		RemoveHost: a.KerberosRemoveHost, RemoveRealm: a.KerberosRemoveRealm,
	})
	if err != nil {
		return nil, "", err
	}
	logger.Info("SASL enabled", slog.String("mechanism", mechanism.Name()))
	return sasl.New(sasl.Options{
		Mechanism: mechanism, Names: names, SuperUsers: a.SuperUsers, AnyUser: a.LetAnySASLUserDo,
		AllowFailed: a.AllowSASLFailedClients,
	}), principal, nil
}

// newMechanism reads the users, or the keytab. It returns nil if there is no login, which is none for Java either if
// the file has no section for it. principal is what the first module of the section has for one, whatever it is
// (org.apache.zookeeper.Login.getUserName).
func newMechanism(a *conf.Auth, kerberos jaas.Kerberos, w *World, logger *slog.Logger) (
	mechanism sasl.Mechanism, principal string, err error,
) {
	if file := a.SASLUsersFile; file != "" {
		text, err := w.Files.ReadFile(file)
		if err != nil {
			return nil, "", fmt.Errorf("read zkd.sasl.users: %w", err)
		}
		users, err := jaas.ParseUsers(text)
		if err != nil {
			return nil, "", fmt.Errorf("zkd.sasl.users %s: %w", file, err)
		}
		return digestMD5(a, users, w.Random), "", nil
	}
	logins, file, err := readLogins(a, w.Files)
	if err != nil {
		return nil, "", err
	}
	section, ok := logins.Section(a.JAASSection)
	if !ok || len(section.Modules) == 0 {
		logger.Warn("SASL disabled: no server login in the JAAS file",
			slog.String("file", file), slog.String("section", a.JAASSection))
		return nil, "", nil
	}
	mechanism, err = loginMechanism(a, &section, kerberos, w)
	if err != nil {
		return nil, "", fmt.Errorf("java.security.auth.login.config %s: section %s: %w", file, section.Name, err)
	}
	return mechanism, section.Modules[0].Option("principal"), nil
}

// readLogins reads the JAAS file, and returns its name, too.
func readLogins(a *conf.Auth, files Files) (logins *jaas.Config, file string, err error) {
	// Java takes a URL, and = before it as that no other file counts; here none does anyway.
	file = strings.TrimPrefix(strings.TrimPrefix(strings.TrimPrefix(a.JAASFile, "="), "file:"), "//")
	text, err := files.ReadFile(file)
	if err != nil {
		return nil, "", fmt.Errorf("read java.security.auth.login.config: %w", err)
	}
	if logins, err = jaas.Parse(text); err != nil {
		return nil, "", fmt.Errorf("java.security.auth.login.config %s: %w", file, err)
	}
	return logins, file, nil
}

// loginMechanism is what the modules of a section make of it: a module that gives the server a principal means GSSAPI,
// all others DIGEST-MD5 (org.apache.zookeeper.util.SecurityUtils.createSaslServer).
func loginMechanism(a *conf.Auth, s *jaas.Section, kerberos jaas.Kerberos, w *World) (sasl.Mechanism, error) {
	m, err := kerberosModule(s)
	if err != nil {
		return nil, err
	}
	if m != nil {
		return kerberosMechanism(m, kerberos, w)
	}
	return digestMD5(a, s.Users(), w.Random), nil
}

// kerberosModule returns the module of a section that means GSSAPI, nil if all mean DIGEST-MD5.
func kerberosModule(s *jaas.Section) (*jaas.Module, error) {
	for i := range s.Modules {
		switch m := &s.Modules[i]; m.Class {
		case jaas.DigestModule:
		case jaas.KerberosModule:
			return m, nil
		default:
			return nil, fmt.Errorf("line %d: the login module %s is unknown; known are %s and %s", m.Line, m.Class,
				jaas.DigestModule, jaas.KerberosModule)
		}
	}
	return nil, nil //nolint:nilnil // none, and nothing wrong
}

// digestMD5 is DIGEST-MD5 with these users.
func digestMD5(a *conf.Auth, users map[string]string, random io.Reader) sasl.Mechanism {
	return sasl.NewDigestMD5(sasl.DigestOptions{
		Users: users, SuperPassword: a.SASLSuperPassword, Random: random,
	})
}

// readKerberos reads krb5.conf, which need not be there.
func readKerberos(a *conf.Auth, files Files) (jaas.Kerberos, error) {
	text, err := files.ReadFile(a.KerberosConfig)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return jaas.Kerberos{}, fmt.Errorf("read java.security.krb5.conf: %w", err)
	}
	kerberos, err := jaas.ParseKerberos(text)
	if err != nil {
		return kerberos, fmt.Errorf("java.security.krb5.conf %s: %w", a.KerberosConfig, err)
	}
	return kerberos, nil
}
