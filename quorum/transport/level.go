package transport

import (
	"fmt"

	"zkd/storage/serverid"
)

// levels returns what this program says of feature levels.
func (t *Transport) levels() levels { return levels{able: t.opts.Level, agreed: t.opts.LevelAgreed} }

// tooOld refuses a server that cannot do the feature level that the ensemble is at.
func (t *Transport) tooOld(server uint64, its levels) *RefusalError {
	now := t.opts.EnsembleLevel()
	if its.able >= now {
		return nil
	}
	return &RefusalError{Code: OldLevel,
		Text: fmt.Sprintf("the ensemble is at feature level %d, and the zkd of server %d can do %d: "+
			"run a newer one there", now, serverid.Number(server), its.able)}
}

// AgreedLevel returns the highest feature level to which a peer agrees that the ensemble is raised, as its process said
// that was met last; 0 if none was since the peer was set.
func (t *Transport) AgreedLevel(id uint64) uint16 {
	if p := (*t.peers.Load())[id]; p != nil {
		return uint16(p.agreed.Load()) //nolint:gosec // noteLevels stores 16 bits
	}
	return 0
}
