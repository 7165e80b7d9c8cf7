package auth

import (
	"net/netip"
	"strings"

	"zkd/jute"
)

// SchemeEnsemble is the scheme by which a client says which ensemble it means to talk to.
const SchemeEnsemble = "ensemble"

// ensembleProvider is the scheme ensemble (org.apache.zookeeper.server.auth.EnsembleAuthenticationProvider). It proves
// nothing: it is there to send away, to another server, a client that has reached the wrong ensemble.
type ensembleProvider struct {
	names map[string]bool // nil: any will do
}

// NewEnsemble returns the provider of the scheme ensemble. names are those that a client may give, with commas between
// them (zookeeper.ensembleAuthName); "" takes any.
func NewEnsemble(names string) Provider {
	p := ensembleProvider{}
	if names == "" {
		return p
	}
	p.names = map[string]bool{}
	for name := range strings.SplitSeq(names, ",") {
		p.names[strings.TrimSpace(name)] = true
	}
	return p
}

// Scheme returns "ensemble".
func (ensembleProvider) Scheme() string { return SchemeEnsemble }

// Authenticate refuses a name that is not among those of this ensemble. No name is taken for the right one.
func (p ensembleProvider) Authenticate(_ netip.Addr, data []byte) ([]jute.ID, bool) {
	return nil, len(data) == 0 || p.names == nil || p.names[javaText(data)]
}

// Refusal is BadArguments: the connection ends without a reply, so that the client tries another server, where an
// AuthFailed would end it for good.
func (ensembleProvider) Refusal() jute.Code { return jute.BadArguments }

// User returns the id as it is; there is none.
func (ensembleProvider) User(id string) string { return id }
