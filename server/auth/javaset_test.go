package auth

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"zkd/jute"
)

// TestOrder has what Java makes of sets of identities (testdata/IdOrder.java).
func TestOrder(t *testing.T) {
	text, err := os.ReadFile("testdata/idorder.txt")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	trees := 0
	for i := 0; i+1 < len(lines); i += 2 {
		c := Identities{bounds: Bounds{Identities: 1 << 10, Bytes: 1 << 20}}
		for id := range strings.FieldsSeq(lines[i]) {
			c.Grant(jute.ID{Scheme: SchemeDigest, ID: id})
		}
		var got []string
		for _, id := range c.Snapshot() {
			got = append(got, id.ID)
		}
		if diff := cmp.Diff(strings.Fields(lines[i+1]), got); diff != "" {
			t.Errorf("line %d (-want +got):\n%s", i+1, diff)
		}
		for _, b := range c.set.bins {
			if b.tree {
				trees++
			}
		}
	}
	if len(lines) < 50 || trees == 0 {
		t.Errorf("%d lines, %d bins that are trees", len(lines), trees)
	}
}

// TestJavaHash has what String.hashCode returns.
func TestJavaHash(t *testing.T) {
	for in, want := range map[string]int32{
		"": 0, "a": 97, "127.0.0.1": 1505998205, "digest": -1331913276, "\u00e9\U0001d11e": 1996307,
	} {
		if got := int32(javaHash(in)); got != want {
			t.Errorf("%q: %d, want %d", in, got, want)
		}
	}
}
