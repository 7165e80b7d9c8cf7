package keystore

import (
	"crypto/tls"
	"fmt"
	"slices"
	"strings"
)

// protocol is a version of TLS.
type protocol struct {
	name    string // in Java
	version uint16
}

// protocols are the versions of TLS, oldest first.
var protocols = []protocol{
	{"TLSv1", tls.VersionTLS10}, {"TLSv1.1", tls.VersionTLS11}, {"TLSv1.2", tls.VersionTLS12},
	{"TLSv1.3", tls.VersionTLS13},
}

// settings are the versions and cipher suites of connections.
type settings struct {
	oldest, newest uint16
	suites         []uint16 // of TLSv1.2 and older; nil is Go's own choice
}

// parseSettings reads protocol, enabledProtocols and ciphersuites; warnings say what of them has no effect.
func (o *Options) parseSettings() (s settings, warnings []string, err error) {
	if s.oldest, s.newest, err = o.parseProtocols(); err != nil {
		return s, nil, err
	}
	if len(o.End.CipherSuites) == 0 {
		return s, nil, nil
	}
	known := slices.Concat(tls.CipherSuites(), tls.InsecureCipherSuites())
	newSuites := 0 // how many of the suites are of TLSv1.3
	for _, name := range o.End.CipherSuites {
		i := slices.IndexFunc(known, func(c *tls.CipherSuite) bool { return c.Name == goSuite(name) })
		switch {
		case i < 0:
			warnings = append(warnings, fmt.Sprintf("%sciphersuites: %s is left out, for Go has no such cipher suite",
				o.Prefix, name))
		case slices.Contains(known[i].SupportedVersions, tls.VersionTLS13):
			newSuites++
		default:
			s.suites = append(s.suites, known[i].ID)
		}
	}
	// Go lets nobody choose among the suites of TLSv1.3, so all of them are on if one is named.
	const newSuitesMax = 3
	switch {
	case newSuites == 0 && len(s.suites) == 0:
		return s, nil, fmt.Errorf("%sciphersuites: none of %s is known; name one such as "+
			"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, or remove the key", o.Prefix, strings.Join(o.End.CipherSuites, ","))
	case newSuites == 0:
		s.newest = min(s.newest, tls.VersionTLS12)
	case len(s.suites) == 0:
		s.oldest = max(s.oldest, tls.VersionTLS13)
	}
	if newSuites > 0 && newSuites < newSuitesMax {
		warnings = append(warnings, o.Prefix+"ciphersuites: all cipher suites of TLSv1.3 are on, for Go has no choice "+
			"among them")
	}
	if s.oldest > s.newest {
		return s, nil, fmt.Errorf("%sciphersuites: none of them belongs to a TLS version of %senabledProtocols; "+
			"make the two agree", o.Prefix, o.Prefix)
	}
	return s, warnings, nil
}

// goSuite is the name in Go of a suite that Java names: the same, but for suites older than TLS and for those with
// CHACHA20 of TLSv1.2, which both have in the form of the standard.
func goSuite(name string) string {
	if rest, ok := strings.CutPrefix(name, "SSL_"); ok {
		return "TLS_" + rest
	}
	return name
}

// parseProtocols returns the oldest and the newest TLS version. Without enabledProtocols they are TLSv1.2 and protocol
// between servers, as in Java from 17 on, and protocol alone with clients (ClientX509Util.getEnabledProtocols).
func (o *Options) parseProtocols() (oldest, newest uint16, err error) {
	names, key := o.End.EnabledProtocols, "enabledProtocols"
	if len(names) == 0 {
		key = "protocol"
		switch {
		case o.Clients && o.End.Protocol == "":
			names = []string{"TLSv1.3"}
		case o.End.Protocol == "TLS", !o.Clients && (o.End.Protocol == "" || o.End.Protocol == "TLSv1.3"):
			names = []string{"TLSv1.2", "TLSv1.3"}
		default:
			names = []string{o.End.Protocol}
		}
	}
	enabled := make([]bool, len(protocols))
	for _, name := range names {
		i := slices.IndexFunc(protocols, func(p protocol) bool { return p.name == name })
		if i < 0 {
			return 0, 0, fmt.Errorf("%s%s=%s: must be of TLSv1.3, TLSv1.2, TLSv1.1, TLSv1", o.Prefix, key, name)
		}
		enabled[i] = true
	}
	first, last := slices.Index(enabled, true), len(enabled)-1
	for !enabled[last] {
		last--
	}
	if slices.Contains(enabled[first:last], false) {
		return 0, 0, fmt.Errorf("%s%s=%s: leaves out a version between two others, which Go cannot; name it too",
			o.Prefix, key, strings.Join(names, ","))
	}
	return protocols[first].version, protocols[last].version, nil
}
