package schema

import (
	"fmt"

	"zkd/storage/entry"
)

// EnsembleRecord is what a state knows of the ensemble that it belongs to. It is immutable; its methods may be called
// on nil, which belongs to none.
type EnsembleRecord struct {
	Cluster entry.ClusterID
	Config  string // the text of the configuration
}

// ClusterID returns the ensemble's id, zero if there is none.
func (e *EnsembleRecord) ClusterID() entry.ClusterID {
	if e == nil {
		return entry.ClusterID{}
	}
	return e.Cluster
}

// ConfigText returns the text of the configuration, "" if there is none.
func (e *EnsembleRecord) ConfigText() string {
	if e == nil {
		return ""
	}
	return e.Config
}

// ensembleVersion begins the value of the ensemble's record.
const ensembleVersion = 1

// Append adds e's value to b.
func (e *EnsembleRecord) Append(b []byte) []byte {
	b = append(append(b, ensembleVersion), e.Cluster[:]...)
	return append(b, e.Config...)
}

// DecodeEnsemble reads the ensemble's record.
func DecodeEnsemble(b []byte) (*EnsembleRecord, error) {
	e := &EnsembleRecord{}
	if len(b) < 1+len(e.Cluster) || b[0] != ensembleVersion {
		return nil, fmt.Errorf("%w: the ensemble's record", ErrDamagedValue)
	}
	e.Cluster, e.Config = entry.ClusterID(b[1:]), string(b[1+len(e.Cluster):])
	return e, nil
}
