package peers

import (
	"testing"

	"zkd/storage/ensemble"
)

// TestServerLinesThatDiffer: ids and roles make another ensemble, addresses do not.
func TestServerLinesThatDiffer(t *testing.T) {
	const own = "server.1=a:1:2:participant\nserver.2=b:1:2:participant\nserver.3=c:1:2:observer\n"
	bootstrap, err := ensemble.Parse(own)
	if err != nil {
		t.Fatal(err)
	}
	p := &Peers{id: 1, configured: bootstrap}
	for name, tc := range map[string]struct{ theirs, want string }{ // order: each for itself
		"the same": {own, ""},
		"other addresses": {"server.1=0.0.0.0:1:2:participant\nserver.2=[::1]:7:8:participant\n" +
			"server.3=d:1:2:observer\n", ""},
		"one more": {own + "server.4=d:1:2:participant;9\n", "server 2 has server.4=d:1:2:participant;0.0.0.0:9"},
		"another": {"server.1=a:1:2:participant\nserver.2=b:1:2:participant\nserver.5=c:1:2:observer\n",
			"server 1 has server.3=c:1:2:observer; server 2 has server.5=c:1:2:observer"},
		"another role": {"server.1=a:1:2\nserver.2=b:1:2\nserver.3=c:1:2\n",
			"server 1 has server.3=c:1:2:observer; server 2 has server.3=c:1:2:participant"},
		"nonsense": {"group.1=1:2\n", "the server lines of server 2 cannot be read here: " +
			"read the ensemble's configuration: groups and weights are not supported: every voter has one vote"},
	} {
		if got := p.differ(2, tc.theirs); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
