package peers

import "testing"

func TestShownAddr(t *testing.T) {
	for addr, want := range map[string]string{ // any order
		":2181": "0.0.0.0:2181", "10.0.0.1:1": "10.0.0.1:1", "": "",
	} {
		if got := shownAddr(addr); got != want {
			t.Errorf("%q is shown as %q, want %q", addr, got, want)
		}
	}
}
