package transport

import (
	"context"
	"errors"
	"fmt"

	"zkd/storage/serverid"
)

// errProbed means a connection that was made for its answer alone.
var errProbed = errors.New("the peer wanted to know the cluster only")

// Probed is what a peer has answered to ProbeCluster.
type Probed struct {
	Cluster  [16]byte // that it belongs to, zero if it knows none; disguised unless it knows this server
	Known    bool     // it has met a member with this server's id (Options.Knows)
	Standing Standing
}

// ProbeCluster asks a peer for its cluster. Neither has this server to be a peer of it, nor Start to be called before.
// It tries all addresses and ends with ctx.
func (t *Transport) ProbeCluster(ctx context.Context, id uint64) (Probed, error) {
	p := (*t.peers.Load())[id]
	if p == nil {
		return Probed{}, fmt.Errorf("probe server %d for its cluster: %w", serverid.Number(id), errUnknown)
	}
	_, err := p.connect(ctx, forCluster)
	refused := (*RefusalError)(nil)
	if errors.As(err, &refused) && (refused.answers() || refused.Code == OtherCluster) {
		asked := Probed{Cluster: refused.cluster, Standing: refused.standing,
			Known: refused.Code == Known || refused.Code == AlreadyConnected}
		if refused.Code == BootstrapConflict {
			asked.Standing = Bootstrapping // though it may have founded since
		}
		return asked, nil
	}
	return Probed{}, fmt.Errorf("probe server %d for its cluster: %w", serverid.Number(id), err)
}

// Reach tells what speaks against reaching a peer at one of addresses: it connects, and asks who is there. Nothing else
// changes by it.
func (t *Transport) Reach(ctx context.Context, id uint64, addresses []string) error {
	p := (*t.peers.Load())[id]
	if p == nil {
		return fmt.Errorf("reach server %d: %w", serverid.Number(id), errUnknown)
	}
	var errs []error
	long := max(t.opts.TryTimeout, min(defaultTryTimeout, t.opts.DialTimeout))
	for _, address := range addresses {
		_, err := p.dial(ctx, address, forCluster, long)
		refused := (*RefusalError)(nil)
		if errors.As(err, &refused) && refused.answers() {
			return nil
		}
		errs = append(errs, err)
	}
	return fmt.Errorf("reach server %d: %w", serverid.Number(id), errors.Join(errs...))
}

// answers tells whether a refusal is the answer to a question.
func (e *RefusalError) answers() bool {
	switch e.Code { //nolint:exhaustive // the others answer nothing
	case NoStreams, Known, AlreadyConnected, BootstrapConflict:
		return true
	default:
		return false
	}
}
