package acl

import (
	"encoding/hex"
	"os"
	"strings"
	"testing"
)

// TestX500Names has what Java takes for a name (testdata/X500Names.java).
func TestX500Names(t *testing.T) {
	text, err := os.ReadFile("testdata/x500names.txt")
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for line := range strings.Lines(string(text)) {
		want, digits, _ := strings.Cut(strings.TrimSpace(line), " ")
		name, err := hex.DecodeString(digits)
		if err != nil {
			t.Fatal(err)
		}
		if got := validX500Name(string(name)); got != (want == "1") {
			t.Errorf("%q: %v, Java says %s", name, got, want)
		}
		count++
	}
	if count < 1000 {
		t.Errorf("%d names", count)
	}
}
