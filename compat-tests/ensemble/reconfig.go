package ensemble

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Found starts the first n servers as the ensemble. The others, which are not started, are to join: they are told of
// those and of themselves. It needs Options.Dynamic.
func (e *Ensemble) Found(n int) {
	e.tb.Helper()
	lines := e.Lines("participant", e.Servers[:n]...)
	for i, s := range e.Servers {
		if i < n {
			e.Configure(s, lines...)
			s.Launch()
			continue
		}
		e.Configure(s, append(slices.Clone(lines), e.Lines("observer", s)...)...)
	}
	if n > 0 {
		e.AwaitServing(e.Servers[:n]...)
	}
}

// Lines are the servers' lines of the configuration, with a role: participant or observer.
func (e *Ensemble) Lines(role string, servers ...*Server) (lines []string) {
	for _, s := range servers {
		host, port := e.Network.clientAddress(s.ID)
		lines = append(lines, fmt.Sprintf("server.%d=%s:%s;%s:%s", s.ID, e.Network.peerAddress(s.ID, s.ID), role,
			host, port))
	}
	return lines
}

// dynamicFileLine is the line of a zoo.cfg that names the file of the members, which servers replace.
var dynamicFileLine = regexp.MustCompile(`(?m)^dynamicConfigFile=.*$`)

// Configure gives a server that does not run other server lines than it had. It needs Options.Dynamic.
func (e *Ensemble) Configure(s *Server, lines ...string) {
	e.tb.Helper()
	file := filepath.Join(s.Dir, "zoo.cfg.dynamic")
	s.write(file, strings.Join(lines, "\n")+"\n")
	static, err := os.ReadFile(s.ConfigPath())
	if err != nil {
		e.tb.Fatal(err)
	}
	s.write(s.ConfigPath(), dynamicFileLine.ReplaceAllLiteralString(string(static), "dynamicConfigFile="+file))
}

// Mask replaces what differs between runs in texts with configurations.
type Mask struct {
	Ensemble *Ensemble

	versions []string // in the order of their first appearance
}

var versionLine = regexp.MustCompile(`version=[0-9a-f]+`)

// Text replaces addresses by names, P2, E2 and C2 for the ports of server 2, and versions by v0, v1 and so on.
func (m *Mask) Text(text string) string {
	e := m.Ensemble
	for _, s := range e.Servers {
		fields := strings.Split(e.Network.peerAddress(s.ID, s.ID), ":")
		_, client := e.Network.clientAddress(s.ID)
		for i, port := range []string{fields[1], fields[2], client} {
			text = strings.ReplaceAll(text, ":"+port, fmt.Sprintf(":%c%d", "PEC"[i], s.ID))
		}
	}
	return versionLine.ReplaceAllStringFunc(text, func(v string) string {
		if !slices.Contains(m.versions, v) {
			m.versions = append(m.versions, v)
		}
		return fmt.Sprintf("version=v%d", slices.Index(m.versions, v))
	})
}
