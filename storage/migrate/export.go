package migrate

import (
	"zkd/jute"
	"zkd/storage/schema"
	"zkd/storage/state"
	"zkd/storage/zkdata"
)

// Source is a state as zkdata writes it down. It is for one goroutine.
type Source struct{ r *state.Reader }

var _ zkdata.Source = Source{}

// SourceOf returns the state that r reads, which r goes on to own.
func SourceOf(r *state.Reader) Source { return Source{r} }

// Zxid implements zkdata.Source.
func (s Source) Zxid() jute.Zxid { return s.r.Position().Zxid }

// Digest implements zkdata.Source.
func (s Source) Digest() uint64 { return s.r.Position().Digest }

// Sessions implements zkdata.Source: they are sorted by id.
func (s Source) Sessions() ([]zkdata.Session, error) {
	var list []zkdata.Session
	err := s.r.Sessions(func(info *schema.SessionInfo) error {
		list = append(list, zkdata.Session{ID: info.ID, TimeoutMillis: info.TimeoutMillis})
		return nil
	})
	return list, err
}

// OwnPasswords returns how many sessions have a password that Apache ZooKeeper would not give them: their clients
// cannot come back to them there.
func (s Source) OwnPasswords() (own int, err error) {
	err = s.r.Sessions(func(info *schema.SessionInfo) error {
		if info.Passwd != zkdata.Passwd(info.ID) {
			own++
		}
		return nil
	})
	return own, err
}

// Nodes implements zkdata.Source: the order is that of the keys, in which parents precede their children.
func (s Source) Nodes(data bool, f func(n *zkdata.Node) error) error {
	each := func(n *schema.Znode, _ []byte) error { return f(NodeOf(n)) }
	if !data {
		return s.r.Headers(each)
	}
	return s.r.Each(each, nil)
}

// NodeOf returns n as a snapshot has it.
func NodeOf(n *schema.Znode) *zkdata.Node {
	return &zkdata.Node{Path: n.Path, Data: n.Data, ACL: n.ACL, Czxid: n.Czxid, Mzxid: n.Mzxid, Pzxid: n.Pzxid,
		Ctime: n.Ctime, Mtime: n.Mtime, Version: n.Version, Aversion: n.Aversion, Creations: n.Creations,
		Owner: n.Owner}
}
