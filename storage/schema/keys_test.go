package schema

import (
	"bytes"
	"testing"

	"zkd/jute"
)

// TestPrefixEndCarries holds prefixes that end in 0xff, as one session id in 256 does, against their own keys.
func TestPrefixEndCarries(t *testing.T) {
	for _, id := range []jute.SessionID{1, 0xff, 0x1ff, 0xffff, 0x1a1fcd00ffffffff, -1} {
		prefix := AppendEphemeralKey(nil, id, "")
		end := PrefixEnd(prefix)
		for _, path := range []string{"/", "/a", "/\U0010ffff"} {
			key := AppendEphemeralKey(nil, id, path)
			if bytes.Compare(prefix, key) > 0 || bytes.Compare(key, end) >= 0 {
				t.Errorf("session %#x: key of %q is not between %x and %x", uint64(id), path, prefix, end)
			}
		}
	}
}
