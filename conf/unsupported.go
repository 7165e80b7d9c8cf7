package conf

import (
	"maps"
	"slices"
	"strings"
)

// Unsupported lists what the configuration asks for that this release cannot do and must not pass over: hierarchical
// quorums, say. A server must refuse to start while the list is not empty. Each Problem says in Allowed what to change.
func (c *Config) Unsupported() []Problem {
	u := unsupported{config: c}
	u.ensemble()
	u.tls()
	u.authentication()
	sortProblems(u.found)
	return u.found
}

// unsupported collects the list.
type unsupported struct {
	config *Config
	found  []Problem
}

// add adds a problem about a key when wanted is true.
func (u *unsupported) add(wanted bool, name, remedy string) {
	if !wanted {
		return
	}
	s, ok := u.config.settings[name]
	if !ok {
		u.found = append(u.found, Problem{Key: name, Allowed: remedy})
		return
	}
	u.found = append(u.found, s.problem(remedy))
}

func (u *unsupported) ensemble() {
	for _, s := range u.config.members {
		id, _ := parseDecimal(s.index) // what is no number was refused before
		if s.row.kind == kindMember {
			continue
		}
		if why := u.config.Ensemble.unequal(s.row.name, id); why != "" {
			u.found = append(u.found, s.problem(why))
		}
	}
}

func (u *unsupported) tls() {
	c := u.config
	if c.ClientTLS() {
		u.endTLS("ssl.", &c.TLS.Client)
		u.authProvider()
	}
	admin := c.Admin.Enabled && (c.Admin.ForceHTTPS || c.Admin.PortUnification)
	if admin || c.Ensemble.Distributed && (c.TLS.QuorumEnabled || c.TLS.QuorumPortUnification) {
		u.endTLS("ssl.quorum.", &c.TLS.Quorum)
	}
}

// endTLS refuses stores that cannot be read.
func (u *unsupported) endTLS(prefix string, end *TLSEnd) {
	const bouncy = "the format of Bouncy Castle cannot be read; convert the file to PKCS12 with keytool -importkeystore"
	u.add(end.KeyStore.isBCFKS(), prefix+"keyStore."+end.KeyStore.typedBy(), bouncy)
	u.add(end.TrustStore.isBCFKS(), prefix+"trustStore."+end.TrustStore.typedBy(), bouncy)
}

// authProvider refuses a scheme for certificates that only a class of the user could serve, unless it is to be left
// out, and one that no class could.
func (u *unsupported) authProvider() {
	why, leave := u.config.unknownCertificates()
	switch {
	case why == "" || leave && u.config.Auth.IgnoreUnknownProviders:
	case leave:
		u.add(true, "ssl.authProvider", why+goOn)
	default:
		u.add(true, "ssl.authProvider", why+"; remove it")
	}
}

// unknownCertificates says why zkd has no counterpart of the scheme that ssl.authProvider names, or "" if it has, and
// whether it can be left out, which is so with a class that zkd does not know. ZooKeeper does not start with a scheme
// that has no class (QuorumPeerConfig.configureSSLAuth), and turns clients with TLS away whose class it cannot load
// (NettyServerCnxnFactory.initSSL).
func (c *Config) unknownCertificates() (why string, leave bool) {
	name := c.TLS.AuthProvider
	class, named := c.Auth.Providers[name]
	switch {
	case name == "x509" || knownProviders[class] == "x509":
		return "", false
	case !named:
		return "no authProvider." + name + " names the class of this scheme", false
	case knownProviders[class] != "":
		return "the class of authProvider." + name + " knows no certificates", false
	}
	return unknownProvider(class), true
}

func (u *unsupported) authentication() {
	a := &u.config.Auth
	for _, name := range slices.Sorted(maps.Keys(a.Providers)) {
		u.provider(name, a.Providers[name])
	}
}

// classPrefix begins the names of ZooKeeper's providers.
const classPrefix = "org.apache.zookeeper.server.auth."

// knownProviders are the schemes of the classes of authProvider.X that zkd has a counterpart of.
var knownProviders = map[string]string{
	classPrefix + "DigestAuthenticationProvider":   "digest",
	classPrefix + "EnsembleAuthenticationProvider": "ensemble",
	classPrefix + "IPAuthenticationProvider":       "ip",
	classPrefix + "SASLAuthenticationProvider":     "sasl",
	classPrefix + "X509AuthenticationProvider":     "x509",
}

// HasProvider tells whether authProvider.X names the class of this scheme.
func (a *Auth) HasProvider(scheme string) bool {
	for _, class := range a.Providers { // any order: one is enough
		if knownProviders[class] == scheme {
			return true
		}
	}
	return false
}

// goOn is what to do about a class that zkd does not know.
const goOn = "; remove it, or set zkd.ignoreUnknownProviders=true to go on without it"

// provider refuses a scheme that only a class of the user could serve, unless it is to be left out.
func (u *unsupported) provider(name, class string) {
	if why := unknownProvider(class); why != "" && !u.config.Auth.IgnoreUnknownProviders {
		u.add(true, "authProvider."+name, why+goOn)
	}
}

// unknownProvider says why zkd has no counterpart of a class of authProvider.X, or "" if it has.
func unknownProvider(class string) string {
	switch {
	case knownProviders[class] != "":
		return ""
	case strings.HasPrefix(class, classPrefix):
		return "there is no scheme of this class here"
	}
	return "classes of one's own cannot be loaded"
}
