package keystore

import (
	"encoding/hex"
	"testing"
)

// TestRC2 has those vectors of RFC 2268 section 5 whose key has its own effective size.
func TestRC2(t *testing.T) {
	for _, v := range []struct{ key, plain, encrypted string }{
		{"ffffffffffffffff", "ffffffffffffffff", "278b27e42e2f0d49"},
		{"3000000000000000", "1000000000000001", "30649edf9be7d2c2"},
		{"88bca90e90875a7f0f79c384627bafb2", "0000000000000000", "2269552ab0f85ca6"},
	} {
		key, err := hex.DecodeString(v.key)
		if err != nil {
			t.Fatal(err)
		}
		block, err := newRC2(key)
		if err != nil {
			t.Fatal(err)
		}
		b, err := hex.DecodeString(v.plain)
		if err != nil {
			t.Fatal(err)
		}
		block.Encrypt(b, b)
		if got := hex.EncodeToString(b); got != v.encrypted {
			t.Errorf("%s of %s: %s, want %s", v.key, v.plain, got, v.encrypted)
		}
		block.Decrypt(b, b)
		if got := hex.EncodeToString(b); got != v.plain {
			t.Errorf("%s back: %s, want %s", v.key, got, v.plain)
		}
	}
}
