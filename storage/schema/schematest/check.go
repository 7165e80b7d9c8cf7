package schematest

import (
	"hash/crc32"
	"maps"
	"strings"
	"testing"

	"zkd/storage/entry"
	"zkd/storage/schema"
)

// Check checks all keys and values of a state: the indexes and the counters are those of its znodes, each znode has its
// data and its parent, each ephemeral its session, and nothing is left over.
func Check(t testing.TB, content map[string]string) {
	t.Helper()
	c := check{t: t, content: maps.Clone(content), children: map[string]int32{}}
	for _, key := range []string{string(schema.KeyFormat), string(schema.KeyApplied)} {
		if c.take(key) == "" {
			t.Errorf("%q is missing in the store", key)
		}
	}
	c.take(string(schema.KeySums)) // a state to which nothing was applied yet has none
	c.ensemble()
	c.records()
	position, err := schema.DecodePosition([]byte(content[string(schema.KeyApplied)]))
	if err != nil {
		t.Fatal(err)
	}
	c.position = schema.Position{Index: position.Index, Term: position.Term, Zxid: position.Zxid}
	for key, value := range content { // order does not matter: each is checked alone
		if key[0] == schema.KindNode {
			c.znode(key, value)
		}
	}
	for _, n := range c.znodes {
		if n.Children != c.children[n.Path] {
			t.Errorf("%s says it has %d children, and has %d", n.Path, n.Children, c.children[n.Path])
		}
		delete(c.children, n.Path)
	}
	if len(c.children) > 0 {
		t.Errorf("znodes without their parents: %v", c.children)
	}
	if position != c.position {
		t.Errorf("position %+v, want %+v", position, c.position)
	}
	for key := range c.content { // order does not matter: errors only
		if key[0] != schema.KindSession {
			t.Errorf("%q is left over in the store", key)
		}
	}
}

// check is one check.
type check struct {
	t        testing.TB
	content  map[string]string // that nobody has asked for yet
	znodes   []*schema.Znode
	children map[string]int32 // by parent
	position schema.Position
}

// take returns the value of a key, which is then accounted for; "" if there is none.
func (c *check) take(key string) string {
	value := c.content[key]
	delete(c.content, key)
	return value
}

// index accounts for a key that follows from a znode.
func (c *check) index(key []byte) {
	if _, ok := c.content[string(key)]; !ok {
		c.t.Errorf("%q is missing in the store", key)
	}
	delete(c.content, string(key))
}

// ensemble accounts for what a state knows of its ensemble, its level and its restores.
func (c *check) ensemble() {
	c.t.Helper()
	if value := c.take(string(schema.KeyEnsemble)); value != "" {
		if e, err := schema.DecodeEnsemble([]byte(value)); err != nil || e.ClusterID() == (entry.ClusterID{}) {
			c.t.Errorf("ensemble %+v, %v", e, err)
		}
	}
	c.take(string(schema.KeyLevel))
	c.take(string(schema.KeyLoaded))
}

// records accounts for counts of quotas and an upload.
func (c *check) records() {
	c.t.Helper()
	_, uploading := schema.DecodeUpload([]byte(c.take(string(schema.KeyUpload))))
	for key, value := range c.content { // order does not matter: each is checked alone
		switch key[0] {
		case schema.KindCounting:
			if _, err := schema.DecodeCount([]byte(key), []byte(value)); err != nil {
				c.t.Error(err)
			}
			delete(c.content, key)
		case schema.KindUpload:
			if uploading {
				delete(c.content, key)
			}
		case schema.KindSession:
			if _, err := schema.DecodeSession([]byte(key), []byte(value)); err != nil {
				c.t.Error(err)
			}
		}
	}
}

// znode accounts for a znode and what follows from it.
func (c *check) znode(key, value string) {
	c.t.Helper()
	delete(c.content, key)
	n, err := schema.DecodeHeader(string(schema.PathOfNodeKey(nil, []byte(key))), []byte(value))
	if err != nil {
		c.t.Fatal(err)
	}
	c.znodes = append(c.znodes, n)
	data := n.Data
	if !n.Inline() {
		apart := schema.AppendNodeKey(nil, schema.KindData, n.Path)
		data = []byte(c.content[string(apart)])
		c.index(apart)
	}
	name := strings.TrimSuffix(n.Path, schema.RootPath)
	if crc := crc32.ChecksumIEEE(append([]byte(name), data...)); crc != n.CRC {
		c.t.Errorf("%s: checksum %#x, stored %#x", n.Path, crc, n.CRC)
	}
	c.position.Nodes++
	c.position.DataBytes += int64(len(n.Path)) + int64(n.DataLen)
	c.position.Digest += n.Digest(new([schema.DigestStatBytes]byte))
	if id := schema.SessionOwner(n); id != 0 {
		c.position.Ephemerals++
		c.index(schema.AppendEphemeralKey(nil, id, n.Path))
		if _, ok := c.content[string(schema.AppendSessionKey(nil, id))]; !ok {
			c.t.Errorf("%s belongs to session %#x, which is gone", n.Path, uint64(id))
		}
	}
	if key := schema.AppendExpiryKey(nil, n.Path, n); len(key) > 0 {
		c.index(key)
	}
	if n.Path != schema.RootPath {
		parent := schema.ParentOf(n.Path)
		if parent == "" {
			parent = schema.RootPath
		}
		c.children[parent]++
	}
}

// Tree returns those keys and values of a state that are not one server's or ensemble's own: without the position, the
// format, the ensemble, and /zookeeper/config.
func Tree(content map[string]string) map[string]string {
	tree := maps.Clone(content)
	maps.DeleteFunc(tree, func(key, _ string) bool { return key[0] == schema.KindMeta })
	delete(tree, string(schema.AppendNodeKey(nil, schema.KindNode, schema.ConfigPath)))
	delete(tree, string(schema.AppendNodeKey(nil, schema.KindData, schema.ConfigPath)))
	return tree
}
