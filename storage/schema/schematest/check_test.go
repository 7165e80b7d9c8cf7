package schematest_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"zkd/storage/schema"
	"zkd/storage/schema/schematest"
)

// complaints is a test that only notes what it is told.
type complaints struct {
	testing.TB
	told strings.Builder
}

func (c *complaints) Helper() {}

func (c *complaints) Errorf(format string, args ...any) { fmt.Fprintf(&c.told, format+"\n", args...) }

// TestCheckFindsWhatIsWrong takes keys of a whole state away, and puts others in.
func TestCheckFindsWhatIsWrong(t *testing.T) {
	root := &schema.Znode{Path: schema.RootPath, Children: 1}
	root.SetData([]byte{})
	owned := &schema.Znode{Path: "/a", Owner: 5}
	owned.SetData(make([]byte, schema.InlineDataBytesMax+1))
	pos := schema.Position{Index: 3, Nodes: 2, Ephemerals: 1, DataBytes: int64(len("//a") + len(owned.Data))}
	for _, n := range []*schema.Znode{root, owned} {
		pos.Digest += n.Digest(new([schema.DigestStatBytes]byte))
	}
	key := func(kind byte, path string) string { return string(schema.AppendNodeKey(nil, kind, path)) }
	session := string(schema.AppendSessionKey(nil, 5))
	ephemeral := string(schema.AppendEphemeralKey(nil, 5, "/a"))
	whole := map[string]string{
		string(schema.KeyFormat): "format", string(schema.KeyApplied): string(pos.Append(nil)),
		key(schema.KindNode, schema.RootPath): string(root.AppendHeader(nil)),
		key(schema.KindNode, "/a"):            string(owned.AppendHeader(nil)),
		key(schema.KindData, "/a"):            string(owned.Data),
		session:                               string(schema.AppendSession(nil, &schema.SessionInfo{ID: 5})),
		ephemeral:                             "",
	}
	schematest.Check(t, whole)
	for _, c := range []struct {
		name, without, with, want string
	}{
		{"a key that nothing asks for", "", key(schema.KindData, "/b"), "left over"},
		{"no index", ephemeral, "", "is missing in the store"},
		{"no session", session, "", "which is gone"},
		{"no data", key(schema.KindData, "/a"), "", "checksum"},
		{"no parent", key(schema.KindNode, schema.RootPath), "", "without their parents"},
		{"no znode", key(schema.KindNode, "/a"), "", "says it has 1 children, and has 0"},
	} {
		content := maps.Clone(whole)
		delete(content, c.without)
		if c.with != "" {
			content[c.with] = ""
		}
		found := &complaints{TB: t}
		if schematest.Check(found, content); !strings.Contains(found.told.String(), c.want) {
			t.Errorf("%s: %q, want %q", c.name, found.told.String(), c.want)
		}
	}
}
