package conf

import (
	"encoding/base64"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// finish derives what was not given and checks what belongs together, as QuorumPeerConfig does after its loop over the
// keys.
func (l *loader) finish() {
	l.finishStorage()
	l.finishSession()
	l.finishEnsemble()
	l.finishClient()
	l.finishAuth()
	l.finishAudit()
	l.finishTLS()
	l.noticeIdle()
}

// noticeIdle tells about keys that ask for something that is not built, and which a server alone can do without.
func (l *loader) noticeIdle() {
	l.config.settings, l.config.members = l.settings, l.members
	refusedKeys := map[string]bool{}
	for _, p := range l.config.Unsupported() {
		refusedKeys[p.Key] = true
	}
	for _, name := range slices.Sorted(maps.Keys(l.settings)) {
		s := l.settings[name]
		if s.row.effect == refused && s.layer > layerDefault && !s.isDefault() && !refusedKeys[name] {
			l.notice(s.notice(NoticeNotBuilt, notBuilt))
		}
	}
}

// refuse adds a problem about a key, with its source if it was set.
func (l *loader) refuse(name, allowed string) {
	s, ok := l.settings[name]
	if !ok {
		l.report(Problem{Key: name, Allowed: allowed})
		return
	}
	p := s.problem(allowed)
	if s.layer == layerDefault {
		p.Value = ""
	}
	l.report(p)
}

// isSet tells whether any source gave the key.
func (l *loader) isSet(name string) bool {
	s, ok := l.settings[name]
	return ok && s.layer > layerDefault && s.value != ""
}

func (l *loader) finishStorage() {
	c := &l.config.Storage
	if c.DataDir == "" {
		l.refuse("dataDir", "must be set to the folder for the server's data")
	} else {
		c.DataDir = filepath.Clean(c.DataDir)
	}
	if c.DataLogDir == "" {
		c.DataLogDir = c.DataDir
	} else {
		c.DataLogDir = filepath.Clean(c.DataLogDir)
	}
	l.noticeMoved("dataDir", "the data")
	l.noticeMoved("dataLogDir", "the raft log")
}

func (l *loader) finishSession() {
	c := &l.config.Session
	const unset = -time.Millisecond
	if c.MinTimeout == unset {
		c.MinTimeout = 2 * c.TickTime
	}
	if c.MaxTimeout == unset {
		c.MaxTimeout = 20 * c.TickTime
	}
	if c.MinTimeout > c.MaxTimeout {
		name := "maxSessionTimeout"
		if l.isSet("minSessionTimeout") {
			name = "minSessionTimeout"
		}
		const form = "the shortest session timeout, %d ms, must not be longer than the longest, %d ms; " +
			"unset they are 2 and 20 times tickTime"
		l.refuse(name, fmt.Sprintf(form, c.MinTimeout.Milliseconds(), c.MaxTimeout.Milliseconds()))
	}
}

func (l *loader) finishClient() {
	c := &l.config.Client
	c.Addr = l.finishAddr(c.Addr, "clientPort", "clientPortAddress")
	c.SecureAddr = l.finishAddr(c.SecureAddr, "secureClientPort", "secureClientPortAddress")
	e := &l.config.Ensemble
	own := e.member()
	if own == nil && !e.Distributed && e.MyID == NoID && len(e.Members) == 1 && !l.hasClientPort() {
		own = &e.Members[0]
	}
	if own != nil && own.ClientAddr != "" {
		l.takeMemberAddr(own.ClientAddr)
	}
	deaf := c.Addr == "" && c.SecureAddr == "" && !e.Distributed
	if deaf && !l.hasProblem("clientPort", "secureClientPort", "server.") {
		l.refuse("clientPort", "must be set, or the client port in this server's server line: nobody could connect")
	}
	if !l.isSet("jute.maxbuffer.extrasize") {
		c.MaxFrameExtraBytes = c.MaxFrameBytes
	}
}

// finishAddr turns an address without a port into none; an address that was given needs one.
func (l *loader) finishAddr(addr, portKey, hostKey string) string {
	if _, number := splitHostPort(addr); number != "" {
		return addr
	}
	if s, ok := l.settings[hostKey]; ok && s.layer > layerDefault && !l.hasProblem(portKey) {
		l.refuse(hostKey, "needs "+portKey)
	}
	return ""
}

// hasProblem tells whether a key that begins with one of these words was already refused.
func (l *loader) hasProblem(words ...string) bool {
	for _, p := range l.problems {
		for _, word := range words {
			if strings.HasPrefix(p.Key, word) {
				return true
			}
		}
	}
	return false
}

// takeMemberAddr makes the client address of the own server line the plain port; clientPort must not contradict it
// (QuorumPeerConfig.setupClientPort). Unlike ZooKeeper, which then listens nowhere, a standalone server without a myid
// and a clientPort takes the one server line for its own. The built-in default of clientPort does not count as a
// contradiction.
func (l *loader) takeMemberAddr(memberAddr string) {
	c := &l.config.Client
	if l.hasClientPort() {
		host, number := splitHostPort(c.Addr)
		memberHost, memberNumber := splitHostPort(memberAddr)
		if number != memberNumber || (!isWildcard(host) && !sameHost(host, memberHost)) {
			const form = "differs from the client address %s in this server's server line; remove one of the two"
			l.refuse("clientPort", fmt.Sprintf(form, memberAddr))
			return
		}
	}
	c.Addr = memberAddr
}

// hasClientPort tells whether a clientPort was given that is not the built-in default.
func (l *loader) hasClientPort() bool { return l.config.Client.Addr != "" && l.isSet("clientPort") }

func (l *loader) finishAuth() {
	a := &l.config.Auth
	if a.QuorumLearnerRequireSASL && !a.QuorumSASL {
		l.refuse("quorum.auth.learnerRequireSasl", "needs quorum.auth.enableSasl=true")
	}
	if a.QuorumServerRequireSASL && (!a.QuorumSASL || !a.QuorumLearnerRequireSASL) {
		l.refuse("quorum.auth.serverRequireSasl",
			"needs quorum.auth.enableSasl=true and quorum.auth.learnerRequireSasl=true")
	}
	if a.SASLUsersFile != "" && a.JAASFile != "" {
		l.refuse("zkd.sasl.users", "java.security.auth.login.config is set, too; remove one of the two")
	}
	if a.Enforce && !a.RequireSASL && len(a.EnforceSchemes) == 0 {
		l.refuse("enforce.auth.enabled", "needs enforce.auth.schemes")
	}
	l.noticeEnforcement()
	l.noticeSuperDigest()
	l.noticeProviders()
}

// noticeProviders tells of the providers that are left out.
func (l *loader) noticeProviders() {
	a := &l.config.Auth
	if why, leave := l.config.unknownCertificates(); leave && a.IgnoreUnknownProviders && l.config.ClientTLS() {
		l.notice(l.settings["ssl.authProvider"].notice(NoticeIgnored,
			why+": certificates are checked by the trust store, and are identities of the scheme x509"))
	}
	for name, class := range a.Providers { // in any order: notices are sorted
		if why := unknownProvider(class); why != "" && a.IgnoreUnknownProviders {
			l.notice(l.settings["authProvider."+name].notice(NoticeIgnored,
				why+": nobody satisfies its entries in ACLs, and who authenticates by its scheme is refused"))
		}
	}
}

// noticeEnforcement tells that the schemes which somebody has listed are not enforced, as in ZooKeeper
// (AuthenticationHelper.initConfigurations).
func (l *loader) noticeEnforcement() {
	a := &l.config.Auth
	if !l.isSet("enforce.auth.schemes") || a.Enforce && !a.RequireSASL {
		return
	}
	why := "has no effect without enforce.auth.enabled=true: clients need no identity"
	if a.RequireSASL {
		why = "has no effect beside sessionRequireClientSASLAuth=true: the scheme is sasl"
	}
	l.notice(l.settings["enforce.auth.schemes"].notice(NoticeIgnored, why))
}

// digestBytes are the sizes of the digests that are not called by their size.
var digestBytes = map[string]int{"MD5": 16, "SHA": 20, "SHA1": 20, "SHA-1": 20}

// noticeSuperDigest tells of a superDigest that no password gives: the password itself, say, or a digest of another
// kind than the one that is set now.
func (l *loader) noticeSuperDigest() {
	const name = "DigestAuthenticationProvider.superDigest"
	a := &l.config.Auth
	if !l.isSet(name) || !a.DigestEnabled {
		return
	}
	algorithm := strings.ToUpper(a.DigestAlgorithm)
	size, ok := digestBytes[algorithm]
	if !ok { // SHA-256, SHA3-512
		_, bits, _ := strings.Cut(algorithm, "-")
		n, err := strconv.Atoi(bits)
		if err != nil {
			return
		}
		size = n / 8
	}
	_, text, _ := strings.Cut(a.SuperDigest, ":")
	if digest, err := base64.StdEncoding.DecodeString(text); err == nil && len(digest) == size {
		return
	}
	const form = "nobody can be super by it: it is not a name, a colon, and a digest of %s in base64, which has %d " +
		"characters; see DigestAuthenticationProvider.digestAlg"
	l.notice(l.settings[name].notice(NoticeUseless,
		fmt.Sprintf(form, algorithm, base64.StdEncoding.EncodedLen(size))))
}

// finishAudit checks that the form of the audit log's file is of a file.
func (l *loader) finishAudit() {
	c := &l.config.Audit
	if c.Path == "" && l.isSet("zkd.audit.format") && c.Format != AuditText {
		l.refuse("zkd.audit.format", "needs zkd.audit.file: in the server's log its own form counts")
	}
	if !c.Enabled && l.isSet("zkd.audit.file") {
		given := l.settings["zkd.audit.file"]
		l.notice(given.notice(NoticeIgnored, "has no effect without audit.enable=true"))
	}
}

// finishTLS checks that TLS between members has what it needs. Without the stores ZooKeeper starts and no member
// connects.
func (l *loader) finishTLS() {
	c := &l.config.TLS
	l.finishClientTLS()
	if !l.config.Ensemble.Distributed || (!c.QuorumEnabled && !c.QuorumPortUnification) {
		return
	}
	const allowed = "must be set with sslQuorum=true or portUnification=true"
	if c.Quorum.KeyStore.Location == "" {
		l.refuse("ssl.quorum.keyStore.location", allowed)
	}
	if c.Quorum.TrustStore.Location == "" {
		l.refuse("ssl.quorum.trustStore.location", allowed)
	}
}

// finishClientTLS checks that TLS with clients has what it needs. Without the stores ZooKeeper starts and turns away
// every client.
func (l *loader) finishClientTLS() {
	if !l.config.ClientTLS() {
		return
	}
	end := &l.config.TLS.Client
	if end.KeyStore.Location == "" {
		l.refuse("ssl.keyStore.location", "must be set with secureClientPort or client.portUnification=true")
	}
	if end.TrustStore.Location == "" && end.ClientAuth != "none" {
		l.refuse("ssl.trustStore.location",
			"must be set, or ssl.clientAuth=none: no client's certificate could be checked")
	}
}

// ClientTLS tells whether clients may use TLS: there is a secureClientPort, or client.portUnification.
func (c *Config) ClientTLS() bool { return c.Client.SecureAddr != "" || c.Client.PortUnification }

// asciiLower folds capitals for comparing keywords.
func asciiLower(s string) string {
	b := []byte(s)
	for i, c := range b {
		if isUpper(c) {
			b[i] = c - 'A' + 'a'
		}
	}
	return string(b)
}
