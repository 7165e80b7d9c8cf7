package ensemble

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// Isolable returns why servers cannot have network namespaces here, nil if they can.
func Isolable() error {
	if os.Getuid() != 0 {
		return fmt.Errorf("network namespaces need root")
	}
	name := fmt.Sprintf("zkdtry%d", os.Getpid())
	if err := ip("netns", "add", name); err != nil {
		return err
	}
	defer ip("netns", "del", name) //nolint:errcheck // it was only tried
	if err := ip("-n", name, "link", "add", "name", "a", "type", "veth", "peer", "name", "b"); err != nil {
		return err
	}
	return ip("-n", name, "rule", "add", "pref", "10", "from", "10.1.2.3", "blackhole")
}

// isolated is one network namespace for each server, all on one bridge, on which the test has an address too. A cut is
// a routing rule in the receiver's namespace that drops what comes from the sender.
type isolated struct {
	tb     testing.TB
	prefix string // of the addresses: three numbers and a dot
	n      int
	cuts   [][2]int
}

// networks numbers the networks of this process.
var networks int

func newIsolated(tb testing.TB, n int) *isolated {
	tb.Helper()
	if err := Isolable(); err != nil {
		tb.Fatalf("the network cannot be cut in namespaces: %v", err)
	}
	removeAbandoned()
	networks++
	id := os.Getpid()*8 + networks%8
	p := &isolated{tb: tb, n: n, prefix: fmt.Sprintf("10.%d.%d.", 64+id/256%128, id%256)}
	tb.Cleanup(func() { removeNetwork(p.name(0)) })
	p.must("link", "add", "name", p.name(0), "type", "bridge")
	p.must("addr", "add", p.prefix+"254/24", "dev", p.name(0))
	p.must("link", "set", p.name(0), "up")
	for k := 1; k <= n; k++ {
		ns := p.name(k)
		p.must("netns", "add", ns)
		p.must("link", "add", "name", ns, "type", "veth", "peer", "name", "eth0", "netns", ns)
		p.must("link", "set", ns, "master", p.name(0), "up")
		p.must("-n", ns, "addr", "add", fmt.Sprintf("%s%d/24", p.prefix, k), "dev", "eth0")
		p.must("-n", ns, "link", "set", "eth0", "up")
		p.must("-n", ns, "link", "set", "lo", "up")
		// Rules of ours must come before the one that takes packets in.
		p.must("-n", ns, "rule", "add", "pref", "100", "lookup", "local")
		p.must("-n", ns, "rule", "del", "pref", "0")
	}
	return p
}

// Cut implements Network.
func (p *isolated) Cut(from, to int) {
	p.cuts = append(p.cuts, [2]int{from, to})
	p.must("-n", p.name(to), "rule", "add", "pref", "10", "from", fmt.Sprintf("%s%d", p.prefix, from), "blackhole")
}

// Heal implements Network.
func (p *isolated) Heal() {
	for _, cut := range p.cuts {
		p.must("-n", p.name(cut[1]), "rule", "del", "pref", "10", "from", fmt.Sprintf("%s%d", p.prefix, cut[0]))
	}
	p.cuts = nil
}

// SecondHost gives a server of an Isolated network a second address, with 100 more in its last number than the first.
func (e *Ensemble) SecondHost(s *Server) string {
	p := e.Network.(*isolated)
	host := fmt.Sprintf("%s%d", p.prefix, 100+s.ID)
	p.must("-n", p.name(s.ID), "addr", "add", host+"/24", "dev", "eth0")
	return host
}

// CutPort drops all that comes to a port of the servers of an Isolated network; heal ends that.
func (e *Ensemble) CutPort(port int) (heal func()) {
	p := e.Network.(*isolated)
	rule := func(do string) {
		for k := 1; k <= p.n; k++ {
			p.must("-n", p.name(k), "rule", do, "pref", "10", "iif", "eth0", "ipproto", "tcp",
				"dport", strconv.Itoa(port), "blackhole")
		}
	}
	rule("add")
	return func() { rule("del") }
}

func (p *isolated) wrap(id int) []string { return []string{"ip", "netns", "exec", p.name(id)} }

func (p *isolated) clientAddress(id int) (host, port string) {
	return fmt.Sprintf("%s%d", p.prefix, id), "2181"
}

func (p *isolated) peerAddress(_, to int) string { return fmt.Sprintf("%s%d:2888:3888", p.prefix, to) }

// name is that of server k's namespace and of its line on the bridge; 0 is the bridge. At most 15 bytes.
func (p *isolated) name(k int) string {
	return fmt.Sprintf("zkd%d.%d-%d", os.Getpid(), networks%8, k)
}

func (p *isolated) must(args ...string) {
	p.tb.Helper()
	if err := ip(args...); err != nil {
		p.tb.Error(err) // not Fatal: a cut may be made on any goroutine
	}
}

func ip(args ...string) error {
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

// ours matches the names of namespaces and bridges, with the process that made them.
var ours = regexp.MustCompile(`zkd(\d+)\.\d-\d+`)

// removeAbandoned removes what test processes have left that were killed.
func removeAbandoned() {
	spaces, _ := exec.Command("ip", "netns", "list").Output()
	bridges, _ := exec.Command("ip", "-br", "link", "show", "type", "bridge").Output()
	for _, match := range ours.FindAllStringSubmatch(string(spaces)+string(bridges), -1) {
		pid, _ := strconv.Atoi(match[1]) // digits
		if syscall.Kill(pid, 0) != nil {
			_ = ip("netns", "del", match[0])
			_ = ip("link", "del", match[0])
		}
	}
}

// removeNetwork removes the bridge and the namespaces on it.
func removeNetwork(bridge string) {
	for k := 1; k < 16 && ip("netns", "del", strings.TrimSuffix(bridge, "0")+strconv.Itoa(k)) == nil; k++ {
		_ = ip("link", "del", strings.TrimSuffix(bridge, "0")+strconv.Itoa(k)) // gone with the namespace, in a while
	}
	_ = ip("link", "del", bridge)
}
