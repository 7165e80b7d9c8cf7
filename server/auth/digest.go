package auth

import (
	"crypto/md5"  //nolint:gosec // a digest that ZooKeeper's users may have stored in ACLs
	"crypto/sha1" //nolint:gosec // ZooKeeper's default
	"crypto/sha256"
	"crypto/sha3"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"zkd/jute"
)

// digestAlgorithms are Java's MessageDigest names in upper case, as the JDK's own provider has them, but for MD2.
var digestAlgorithms = map[string]func([]byte) []byte{
	"MD5":         func(b []byte) []byte { s := md5.Sum(b); return s[:] },  //nolint:gosec // see the import
	"SHA1":        func(b []byte) []byte { s := sha1.Sum(b); return s[:] }, //nolint:gosec // see the import
	"SHA-1":       func(b []byte) []byte { s := sha1.Sum(b); return s[:] }, //nolint:gosec // see the import
	"SHA":         func(b []byte) []byte { s := sha1.Sum(b); return s[:] }, //nolint:gosec // see the import
	"SHA-224":     func(b []byte) []byte { s := sha256.Sum224(b); return s[:] },
	"SHA-256":     func(b []byte) []byte { s := sha256.Sum256(b); return s[:] },
	"SHA-384":     func(b []byte) []byte { s := sha512.Sum384(b); return s[:] },
	"SHA-512":     func(b []byte) []byte { s := sha512.Sum512(b); return s[:] },
	"SHA-512/224": func(b []byte) []byte { s := sha512.Sum512_224(b); return s[:] },
	"SHA-512/256": func(b []byte) []byte { s := sha512.Sum512_256(b); return s[:] },
	"SHA3-224":    func(b []byte) []byte { s := sha3.Sum224(b); return s[:] },
	"SHA3-256":    func(b []byte) []byte { s := sha3.Sum256(b); return s[:] },
	"SHA3-384":    func(b []byte) []byte { s := sha3.Sum384(b); return s[:] },
	"SHA3-512":    func(b []byte) []byte { s := sha3.Sum512(b); return s[:] },
}

// digestProvider is the scheme digest (org.apache.zookeeper.server.auth.DigestAuthenticationProvider). It is no login:
// whatever user and password come, they are an identity that ACLs may name.
type digestProvider struct {
	sum         func([]byte) []byte
	superDigest string
}

func newDigest(algorithm, superDigest string) (*digestProvider, error) {
	if algorithm == "" {
		algorithm = "SHA1"
	}
	sum, ok := digestAlgorithms[strings.ToUpper(algorithm)]
	if !ok {
		names := make([]string, 0, len(digestAlgorithms))
		for name := range digestAlgorithms {
			names = append(names, name)
		}
		slices.Sort(names)
		return nil, fmt.Errorf("DigestAuthenticationProvider.digestAlg %q is unknown; use one of %s",
			algorithm, strings.Join(names, ", "))
	}
	return &digestProvider{sum: sum, superDigest: superDigest}, nil
}

// Scheme returns "digest".
func (p *digestProvider) Scheme() string { return SchemeDigest }

// Authenticate makes the identity <text before the first colon>:<base64 digest of all>. Text without a colon and empty
// text are taken as they are (measured); null data is refused. If the result is the superDigest, the identity super:
// comes first.
func (p *digestProvider) Authenticate(_ netip.Addr, data []byte) ([]jute.ID, bool) {
	if data == nil {
		return nil, false
	}
	id := p.Digest(data)
	ids := make([]jute.ID, 0, 2)
	if p.superDigest != "" && subtle.ConstantTimeCompare([]byte(id), []byte(p.superDigest)) == 1 {
		ids = append(ids, jute.ID{Scheme: SchemeSuper})
	}
	return append(ids, jute.ID{Scheme: SchemeDigest, ID: id}), true
}

// Digest returns the id of user:password (DigestAuthenticationProvider.generateDigest). Bytes that are not UTF-8 are
// replaced before they are digested, as by Java's String.
func (p *digestProvider) Digest(data []byte) string {
	text := javaText(data)
	user, _, _ := strings.Cut(text, ":")
	return user + ":" + base64.StdEncoding.EncodeToString(p.sum([]byte(text)))
}

// User returns the text before the first colon.
func (p *digestProvider) User(id string) string {
	user, _, _ := strings.Cut(id, ":")
	return user
}

// ipProvider is the scheme ip (IPAuthenticationProvider): every connection has it, an auth packet adds nothing.
type ipProvider struct{}

// Scheme returns "ip".
func (ipProvider) Scheme() string { return SchemeIP }

// Authenticate accepts anything.
func (ipProvider) Authenticate(netip.Addr, []byte) ([]jute.ID, bool) { return nil, true }

// User returns the address.
func (ipProvider) User(id string) string { return id }
