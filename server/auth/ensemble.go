package auth

import (
	"net/netip"
	"strings"
	"sync/atomic"

	"zkd/jute"
)

// SchemeEnsemble is the scheme by which a client says which ensemble it means to talk to.
const SchemeEnsemble = "ensemble"

// Ensemble is the scheme ensemble (org.apache.zookeeper.server.auth.EnsembleAuthenticationProvider). It proves nothing:
// it is there to send away, to another server, a client that has reached the wrong ensemble.
type Ensemble struct {
	names map[string]bool // nil: any will do

	right, wrong, skipped atomic.Int64
}

// NewEnsemble returns the provider of the scheme ensemble. names are those that a client may give, with commas between
// them (zookeeper.ensembleAuthName); "" takes any.
func NewEnsemble(names string) *Ensemble {
	p := &Ensemble{}
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
func (*Ensemble) Scheme() string { return SchemeEnsemble }

// Authenticate refuses a name that is not among those of this ensemble. No name is taken for the right one.
func (p *Ensemble) Authenticate(_ netip.Addr, data []byte) ([]jute.ID, bool) {
	switch {
	case len(data) == 0 || p.names == nil:
		p.skipped.Add(1)
	case p.names[javaText(data)]:
		p.right.Add(1)
	default:
		p.wrong.Add(1)
		return nil, false
	}
	return nil, true
}

// Refusal is BadArguments: the connection ends without a reply, so that the client tries another server, where an
// AuthFailed would end it for good.
func (*Ensemble) Refusal() jute.Code { return jute.BadArguments }

// User returns the id as it is; there is none.
func (*Ensemble) User(id string) string { return id }

// EnsembleCounts is how often clients have given a right name, a wrong one, or none that was looked at
// (ensemble_auth_success, ensemble_auth_fail, ensemble_auth_skip).
type EnsembleCounts struct{ Right, Wrong, Skipped int64 }

// Counts returns what has been asked. Any goroutine may call it.
func (p *Ensemble) Counts() EnsembleCounts {
	return EnsembleCounts{Right: p.right.Load(), Wrong: p.wrong.Load(), Skipped: p.skipped.Load()}
}
