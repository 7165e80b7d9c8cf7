package console

import (
	"context"
	"net"
	"strings"
	"sync"
	"time"

	"zkd/quorum/clock"
	"zkd/server/console/survey"
)

// found are the servers of an ensemble that is elsewhere: those that were named, and those that these name in
// /zookeeper/config, which is looked at now and then.
type found struct {
	mu     sync.Mutex
	looked time.Time
	places []survey.Place
}

// lookAgain is how often the configuration is read; a guess.
const lookAgain = 30 * time.Second

// due reports whether it is time to look, once.
func (f *found) due(c clock.Clock) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.looked.IsZero() && c.Since(f.looked) < lookAgain {
		return false
	}
	f.looked = c.Now()
	return true
}

// placesFrom returns what says which servers there are, of which some were named.
func (f *found) placesFrom(named []string) func() []survey.Place {
	return func() []survey.Place {
		f.mu.Lock()
		defer f.mu.Unlock()
		if len(f.places) > 0 {
			return f.places
		}
		var all []survey.Place
		for _, addr := range named {
			all = append(all, survey.Place{Addr: addr})
		}
		return all
	}
}

// addrs are where sessions are opened: those that were named first.
func (f *found) addrs(named []string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := append([]string(nil), named...)
	for i := range f.places {
		if a := f.places[i].Addr; a != "" {
			all = append(all, a)
		}
	}
	return all
}

// look reads the configuration through the visitor's session, if it is time.
func (e *ensemble) look(ctx context.Context, c *Console, v *visitor) {
	if e.Here != nil || !v.mayRead() || !e.found.due(c.opts.Clock) {
		return
	}
	s, err := e.sessions.get(ctx, v)
	if err != nil {
		return // the servers that were named are asked, and say what is wrong
	}
	text, _, err := s.Data(ctx, configPath)
	if err != nil {
		return // a server before 3.5, or one that does not let everybody read it
	}
	places := PlacesOf(string(text), e.Addrs)
	e.found.mu.Lock()
	defer e.found.mu.Unlock()
	e.found.places = places
}

// configPath is where an ensemble has its configuration.
const configPath = "/zookeeper/config"

// PlacesOf reads the servers from the text of /zookeeper/config. A server whose line does not say where its clients are
// is taken to have them at the port of the one that was named for its host.
func PlacesOf(text string, named []string) []survey.Place {
	var all []survey.Place
	for line := range strings.Lines(text) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		id, server := strings.CutPrefix(key, "server.")
		if !ok || !server {
			continue
		}
		peer, clients, _ := strings.Cut(value, ";")
		p := survey.Place{ID: id}
		first, _, _ := strings.Cut(peer, "|") // of several addresses
		host := hostOf(first)
		if strings.Contains(peer, ":observer") {
			p.Role = "observer"
		} else {
			p.Role = "participant"
		}
		p.Addr = clientAddr(clients, host, named)
		all = append(all, p)
	}
	return all
}

// hostOf is the host of host:port:port:role, which may be in brackets.
func hostOf(text string) string {
	if strings.HasPrefix(text, "[") {
		host, _, _ := strings.Cut(text[1:], "]")
		return host
	}
	host, _, _ := strings.Cut(text, ":")
	return host
}

// clientAddr is where a server's clients are: text is port, host:port, or nothing.
func clientAddr(text, host string, named []string) string {
	if text == "" {
		for _, addr := range named {
			if h, _, err := net.SplitHostPort(addr); err == nil && h == host {
				return addr
			}
		}
		return ""
	}
	if !strings.Contains(text, ":") {
		return net.JoinHostPort(host, text)
	}
	at := strings.LastIndexByte(text, ':')
	on := strings.Trim(text[:at], "[]")
	if ip := net.ParseIP(on); on == "" || ip != nil && ip.IsUnspecified() {
		on = host
	}
	return net.JoinHostPort(on, text[at+1:])
}
