package conf

import (
	"maps"
	"slices"
	"strings"
)

// Unsupported lists what the configuration asks for that this release cannot do and must not pass over: hierarchical
// quorums, TLS with clients, SASL between members, an audit log. A server must refuse to start while the list
// is not empty. Each Problem says in Allowed what to change.
func (c *Config) Unsupported() []Problem {
	u := unsupported{config: c}
	u.ensemble()
	u.tls()
	u.authentication()
	u.add(c.Tree.AuditLog, "audit.enable", "the audit log is not built yet; set it to false")
	u.add(c.Admin.Enabled && c.Admin.ForceHTTPS, "admin.forceHttps", "TLS is not built yet; set it to false")
	u.add(c.Admin.Enabled && c.Admin.NeedClientAuth, "admin.needClientAuth", "TLS is not built yet; set it to false")
	slices.SortStableFunc(u.found, func(a, b Problem) int { return compareOrder(a.order, b.order) })
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
		if s.row.kind != kindMember {
			u.found = append(u.found, s.problem(notWithRaft))
		}
	}
}

func (u *unsupported) tls() {
	c := u.config
	const remedy = "TLS with clients is not built yet; remove it"
	u.add(c.Client.SecureAddr != "", "secureClientPort", remedy)
	u.add(c.Client.PortUnification, "client.portUnification", remedy)
	if c.Ensemble.Distributed && (c.TLS.QuorumEnabled || c.TLS.QuorumPortUnification) {
		u.quorumTLS()
	}
}

// quorumTLS refuses what would make connections between members weaker than they are asked to be.
func (u *unsupported) quorumTLS() {
	end := &u.config.TLS.Quorum
	const revoked = "revoked certificates are not looked for yet; set it to false, " +
		"and take a certificate back by a new trust store"
	u.add(end.CRL, "ssl.quorum.crl", revoked)
	u.add(end.OCSP, "ssl.quorum.ocsp", revoked)
	const bouncy = "the format of Bouncy Castle cannot be read; convert the file to PKCS12 with keytool -importkeystore"
	u.add(end.KeyStore.isBCFKS(), "ssl.quorum.keyStore."+end.KeyStore.typedBy(), bouncy)
	u.add(end.TrustStore.isBCFKS(), "ssl.quorum.trustStore."+end.TrustStore.typedBy(), bouncy)
}

func (u *unsupported) authentication() {
	a := &u.config.Auth
	u.add(a.QuorumSASL, "quorum.auth.enableSasl",
		"members do not prove who they are by SASL; remove it and use certificates: sslQuorum=true")
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

// provider refuses a scheme that only a class of the user could serve.
func (u *unsupported) provider(name, class string) {
	switch {
	case knownProviders[class] != "":
	case strings.HasPrefix(class, classPrefix):
		u.add(true, "authProvider."+name, "there is no scheme of this class here; remove it")
	default:
		u.add(true, "authProvider."+name, "classes of one's own cannot be loaded; remove it")
	}
}
