package ensemble_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"zkd/compat-tests/ensemble"
	"zkd/compat-tests/target"
)

func TestMain(m *testing.M) { os.Exit(target.Main(m, "ensemble")) }

// quick are settings with which faults are noticed soon.
var quick = map[string]string{"tickTime": "500", "initLimit": "20", "syncLimit": "4"}

// TestLifecycle does to an ensemble what the other tests do: kill, stop, pause, wipe, and start again.
func TestLifecycle(t *testing.T) {
	e := ensemble.Start(t, ensemble.Options{Config: quick, Observers: 1})
	if observer := e.Servers[3]; observer.Mode() != "observer" {
		t.Errorf("server 4 is a %q, want observer", observer.Mode())
	}
	first := e.AwaitLeader()
	if target.Selected(t) == target.Zkd {
		observer := e.Servers[3]
		observer.Stop()
		toldOf(t, observer, first)
		observer.Launch()
		e.AwaitServing(observer)
	}
	first.Kill9()
	second := e.AwaitLeader()
	if second == first {
		t.Fatalf("server %d still leads after its end", first.ID)
	}
	first.Wipe()
	first.Launch()
	e.AwaitServing(e.Servers...)
	second.Pause()
	if why := ensemble.Await(quickWithin, func() (bool, string) {
		leader := e.Leader()
		return leader != nil && leader != second, "nobody leads instead of the paused server"
	}); why != "" {
		t.Error(why)
	}
	second.Resume()
	e.AwaitServing(e.Servers...)
	for _, s := range e.Servers {
		s.Stop()
	}
	e.StartAll()
}

// toldOf checks that a server that was stopped has left, as another one has it that was connected with it.
func toldOf(t *testing.T, gone, other *ensemble.Server) {
	t.Helper()
	line := fmt.Sprintf(`msg="peer left" peer=%d`, gone.ID)
	if why := ensemble.Await(quickWithin, func() (bool, string) {
		return strings.Contains(other.Log(), line), other.Log()
	}); why != "" {
		t.Errorf("server %d was stopped; the log of server %d:\n%s", gone.ID, other.ID, why)
	}
}

// TestCuts cuts the leader off, in each kind of network that can: the others elect, it stops to serve, and comes back
// when the network is whole.
func TestCuts(t *testing.T) {
	for name, kind := range map[string]ensemble.NetworkKind{
		"proxied": ensemble.Proxied, "isolated": ensemble.Isolated,
	} {
		t.Run(name, func(t *testing.T) {
			if kind == ensemble.Isolated {
				if err := ensemble.Isolable(); err != nil {
					target.LeaveOut(t, err.Error())
				}
			}
			e := ensemble.Start(t, ensemble.Options{Config: quick, Network: kind})
			old := e.AwaitLeader()
			e.Isolate(old.ID)
			if why := ensemble.Await(quickWithin, func() (bool, string) {
				for _, s := range e.Servers {
					if s != old && s.Mode() == "leader" {
						return old.Mode() != "leader", "the leader that was cut off still says that it leads"
					}
				}
				return false, "the others elect nobody"
			}); why != "" {
				t.Error(why)
			}
			e.Network.Heal()
			e.AwaitServing(e.Servers...)
		})
	}
}

// TestReadOnly takes the quorum away and finds the rest in read-only mode.
func TestReadOnly(t *testing.T) {
	e := ensemble.Start(t, ensemble.Options{Config: quick, JVMFlags: []string{"-Dreadonlymode.enabled=true"}})
	last := e.Servers[2]
	e.Servers[0].Kill9()
	e.Servers[1].Kill9()
	e.AwaitMode(last, "read-only")
	e.StartAll()
}

// TestDynamic starts from a dynamic file, and finds the members in it after a restart.
func TestDynamic(t *testing.T) {
	e := ensemble.Start(t, ensemble.Options{Config: quick, Dynamic: true, Observers: 1})
	conf, err := e.Servers[0].FourLetterWord("conf")
	if err != nil || strings.Count(conf, "server.") < 4 {
		t.Errorf("conf does not name four members: %q, %v", conf, err)
	}
	e.Servers[0].Stop()
	e.Servers[0].Launch()
	e.AwaitServing(e.Servers...)
}
