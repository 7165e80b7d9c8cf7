package transport

import (
	"context"
	"errors"
	"fmt"
)

// errAsked means a connection that was made for its answer alone.
var errAsked = errors.New("the peer wanted to know the cluster only")

// AskCluster returns the id of the cluster that a peer belongs to, zero if it knows none, and whether it has met a
// member with this server's id (Options.Knows). Neither has this server to be a peer of it, nor Start to be called
// before. It tries all addresses and ends with ctx.
func (t *Transport) AskCluster(ctx context.Context, id uint64) (cluster [16]byte, known bool, err error) {
	p := (*t.peers.Load())[id]
	if p == nil {
		return [16]byte{}, false, fmt.Errorf("ask server %d for its cluster: %w", id, errUnknown)
	}
	_, err = p.connect(ctx, forCluster)
	refused := (*RefusalError)(nil)
	if errors.As(err, &refused) && (refused.Code == NoStreams || refused.Code == Known) {
		return refused.cluster, refused.Code == Known, nil
	}
	return [16]byte{}, false, fmt.Errorf("ask server %d for its cluster: %w", id, err)
}
